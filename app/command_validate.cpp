// app/command_validate.cpp — `cambium validate CONFIG`: every problem of a file, and what each
// growth phase will change.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "app/commands.hpp"
#include "comm/collectively.hpp"
#include "phases/campaign.hpp"

namespace cambium::app {

void add_validate(CLI::App& app, Context& context) {
  struct Options {
    std::string config;
    std::vector<std::string> overrides;
    int ranks = 0;
  };

  auto options = std::make_shared<Options>();  // outlives this function, with the callback
  CLI::App* command = app.add_subcommand(
      "validate", "check a campaign file and its data; say what growth will change");
  command->add_option("config", options->config, "campaign file (YAML)")->required();
  command->add_option("--set", options->overrides, "override a key: a.b.c=value")
      ->allow_extra_args(false);
  command->add_option(
      "--ranks", options->ranks, "check the layout for this many ranks (default: this launch)");
  command->callback([&context, options] {
    const int ranks = options->ranks > 0 ? options->ranks : context.world->size();
    const std::string text = comm::collectively(context.world->group(), "validate", [&] {
      return phases::describe_campaign({.config = options->config, .overrides = options->overrides},
                                       ranks);
    });
    if (context.world->rank() == 0) {
      fmt::print("{}", text);
    }
  });
}

}  // namespace cambium::app
