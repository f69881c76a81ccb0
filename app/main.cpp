// app/main.cpp — the one place that turns errors into exit codes (design.md §4).
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <memory>
#include <new>

#include "app/commands.hpp"
#include "base/error.hpp"
#include "comm/collectively.hpp"
#include "comm/launcher.hpp"
#include "metrics/progress.hpp"

namespace cambium::app {
namespace {

// "unknown command …" for a first word that is none; CLI11 would only say that one is required.
std::string wrong_command(const CLI::App& app, int argc, char** argv) {
  const std::string word = argc > 1 && argv[1][0] != 0 ? argv[1] : "-";
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) {
      return {};
    }
    names += " " + command->get_name();
  }
  return word.front() == '-'
             ? std::string()
             : fmt::format("unknown command \"{}\", expected one of{}", word, names);
}

int run(comm::World& world, int argc, char** argv, Context& context) {
  CLI::App app{
      "Cambium: trains a transformer over many ranks, and lets it grow while it trains, exactly."};
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  add_run(app, context);
  add_validate(app, context);
  add_inspect(app, context);
  add_compare(app, context);
  add_verify(app, context);
  add_import(app, context);
  add_export(app, context);
  add_report(app, context);
  if (const std::string wrong = wrong_command(app, argc, argv); !wrong.empty()) {
    if (world.rank() == 0) {
      fmt::print(stderr, "cambium: {}\n", wrong);
    }
    return static_cast<int>(Code::usage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return world.rank() == 0 ? app.exit(e) : 0;
  } catch (const CLI::ParseError& e) {  // every rank has the same command line: rank 0 speaks
    if (world.rank() == 0) {
      fmt::print(stderr, "cambium: {}; see cambium --help\n", e.what());
    }
    return static_cast<int>(Code::usage);
  }
  return context.exit_code;
}

int guarded(comm::World& world, int argc, char** argv) {
  Context context;
  context.world = &world;
  const auto lone = [&](Code code, const std::string& text) {
    comm::raise_fault(context.attempt_folder,
                      code,
                      fmt::format("rank {} ({}): {}", world.rank(), world.host(), text));
  };
  try {
    return run(world, argc, argv, context);
  } catch (const comm::AgreedError& e) {
    world.set_agreed();
    if (world.rank() == 0) {
      // What all ranks have in common is told by rank 0; what one found alone is told of that one.
      const std::string who =
          e.failed_rank() > 0 ? fmt::format("rank {}: ", e.failed_rank()) : std::string();
      fmt::print(stderr, "cambium: {}{}\n", who, e.what());
    }
    return static_cast<int>(e.code());
  } catch (const Error& e) {
    if (world.size() == 1) {
      fmt::print(stderr, "cambium: {}\n", e.what());
      return static_cast<int>(e.code());
    }
    lone(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    lone(Code::does_not_fit, "out of memory; use more ranks or a smaller micro_batch_size");
  } catch (const std::exception& e) {
    lone(Code::bug, e.what());
  }
  return static_cast<int>(Code::bug);
}

// Outside of `guarded`: there, an error must know whether its peers know it too. Without a world it
// is one of the host, and its first process tells it.
int start(int argc, char** argv) {
  metrics::open_missing_standard_files();
  std::unique_ptr<comm::World> world;
  try {
    world = std::make_unique<comm::World>(&argc, &argv);
  } catch (const Error& e) {
    if (comm::is_first_of_host(comm::process_environment())) {
      fmt::print(stderr, "cambium: {}\n", e.what());
    }
    return static_cast<int>(e.code());
  }
  return guarded(*world, argc, argv);
}

}  // namespace
}  // namespace cambium::app

int main(int argc, char** argv) {
  return cambium::app::start(argc, argv);
}
