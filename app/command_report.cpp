// app/command_report.cpp — `cambium report RUN`: one self-contained HTML page, and the summary on
// the terminal.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "app/commands.hpp"
#include "base/file.hpp"
#include "comm/collectively.hpp"
#include "metrics/report.hpp"

namespace cambium::app {

void add_report(CLI::App& app, Context& context) {
  auto run = std::make_shared<std::string>();  // outlives this function, with the callback
  auto output = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("report", "write RUN/report.html and print the summary");
  command->add_option("run", *run, "run directory")->required();
  command->add_option("--output", *output, "write the page here instead");
  command->callback([&context, run, output] {
    comm::collectively(context.world->group(), "report", [&] {
      if (context.world->rank() != 0) {
        return;
      }
      const std::filesystem::path page = output->empty()
                                             ? std::filesystem::path(*run) / "report.html"
                                             : std::filesystem::path(*output);
      write_file_atomically(page, metrics::make_report(*run));
      fmt::print("{}\n", metrics::make_summary(*run));
    });
  });
}

}  // namespace cambium::app
