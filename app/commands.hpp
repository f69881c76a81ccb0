// app/commands.hpp — one function per subcommand: adds it to the command line; its callback sets
// `exit_code`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "comm/world.hpp"

namespace cambium::app {

// What the subcommands share.
struct Context {
  comm::World* world = nullptr;          // there before any callback runs
  std::filesystem::path attempt_folder;  // where a lone failure leaves its FAULT
  int exit_code = 0;
};

void add_run(CLI::App& app, Context& context);
void add_validate(CLI::App& app, Context& context);
void add_inspect(CLI::App& app, Context& context);
void add_compare(CLI::App& app, Context& context);
void add_verify(CLI::App& app, Context& context);
void add_import(CLI::App& app, Context& context);
void add_export(CLI::App& app, Context& context);
void add_report(CLI::App& app, Context& context);

// "cambium 0.1.0 (…)": what --version prints.
[[nodiscard]] std::string version_text();

}  // namespace cambium::app
