// app/command_run.cpp — `cambium run CONFIG`: the campaign, resumed from its run directory.
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "app/commands.hpp"
#include "comm/collectively.hpp"
#include "phases/campaign.hpp"

namespace cambium::app {

void add_run(CLI::App& app, Context& context) {
  using metrics::ProgressMode;
  const std::map<std::string, ProgressMode> modes{{"auto", ProgressMode::automatic},
                                                  {"live", ProgressMode::live},
                                                  {"plain", ProgressMode::plain}};

  struct Options {
    std::string config;
    ProgressMode progress = ProgressMode::automatic;
    std::vector<std::string> overrides;
    std::vector<std::string> faults;
  };

  auto options = std::make_shared<Options>();  // outlives this function, with the callback
  CLI::App* command =
      app.add_subcommand("run", "run a campaign; goes on from its run directory's last checkpoint");
  command->add_option("config", options->config, "campaign file (YAML)")->required();
  command
      ->add_option(
          "--set", options->overrides, "override a key: a.b.c=value, phases.NAME.key=value")
      ->allow_extra_args(false);
  command
      ->add_option("--progress",
                   options->progress,
                   "auto, live (one line, rewritten) or plain; auto is live on a terminal, without "
                   "a launcher")
      ->transform(CLI::CheckedTransformer(modes))
      ->option_text("auto|live|plain");
  command
      ->add_option("--inject",
                   options->faults,
                   "for tests: KIND:point=P[,rank=R][,step=S][,count=N][,after=N]")
      ->allow_extra_args(false);
  command->callback([&context, options] {
    phases::FaultInjection faults;
    comm::collectively(context.world->group(), "command line", [&] {
      for (const std::string& text : options->faults) {
        faults.add(text);
      }
    });
    const phases::CampaignEnd end =
        phases::run_campaign(*context.world,
                             {.config = options->config,
                              .overrides = options->overrides,
                              .faults = &faults,
                              .progress = options->progress,
                              .attempt_folder = &context.attempt_folder});
    context.exit_code = end == phases::CampaignEnd::stopped ? static_cast<int>(Code::stopped) : 0;
  });
}

}  // namespace cambium::app
