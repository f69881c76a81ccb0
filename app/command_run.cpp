// app/command_run.cpp — `cambium run CONFIG`: the campaign, resumed by itself from its run directory.
// SPDX-License-Identifier: Apache-2.0
#include "app/commands.hpp"
#include "phases/campaign.hpp"

namespace cambium::app {

void add_run(CLI::App& app, Context& context) {
  struct Options {
    std::string config;
    std::vector<std::string> overrides;
    std::vector<std::string> faults;
  };

  auto options = std::make_shared<Options>();  // outlives this function, with the callback
  CLI::App* command = app.add_subcommand("run", "run a campaign; goes on from its run directory's last checkpoint");
  command->add_option("config", options->config, "campaign file (YAML)")->required();
  command->add_option("--set", options->overrides, "override a key: a.b.c=value, phases.NAME.key=value")
      ->allow_extra_args(false);
  command->add_option("--inject", options->faults, "for tests: KIND:point=P[,rank=R][,step=S][,count=N][,after=N]")
      ->allow_extra_args(false);
  command->callback([&context, options] {
    phases::FaultInjection faults;
    for (const std::string& text : options->faults) {
      faults.add(text);
    }
    const phases::CampaignEnd end = phases::run_campaign(*context.world,
                                                         {.config = options->config,
                                                          .overrides = options->overrides,
                                                          .faults = &faults,
                                                          .attempt_folder = &context.attempt_folder});
    context.exit_code = end == phases::CampaignEnd::stopped ? static_cast<int>(Code::stopped) : 0;
  });
}

}  // namespace cambium::app
