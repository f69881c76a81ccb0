// app/command_checkpoint.cpp — `inspect`, `compare`, `verify`: what a checkpoint holds, and whether
// it is whole.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/checkpoint_of.hpp"
#include "checkpoint/inspect.hpp"
#include "checkpoint/read.hpp"

namespace cambium::app {

void add_inspect(CLI::App& app, Context& context) {
  auto path = std::make_shared<std::string>();  // outlives this function, with the callback
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("inspect", "what a checkpoint (or a run's latest) holds");
  command->add_option("checkpoint", *path, "checkpoint folder or run directory")->required();
  command->add_flag("--json", *json, "as JSON");
  command->callback([&context, path, json] {
    on_rank_0(context, "inspect", [&] {
      const checkpoint::Checkpoint c = checkpoint_of(*path);
      fmt::print("{}\n", *json ? checkpoint::inspect_json(c).dump(2) : checkpoint::inspect_text(c));
    });
  });
}

void add_compare(CLI::App& app, Context& context) {
  auto paths = std::make_shared<std::pair<std::string, std::string>>();  // outlives this function,
                                                                         // with the callback
  CLI::App* command =
      app.add_subcommand("compare", "compare the bits of two checkpoints; exit 1 when they differ");
  command->add_option("a", paths->first, "checkpoint folder or run directory")->required();
  command->add_option("b", paths->second, "checkpoint folder or run directory")->required();
  command->callback([&context, paths] {
    on_rank_0(context, "compare", [&] {
      const checkpoint::Comparison c =
          checkpoint::compare(checkpoint_of(paths->first), checkpoint_of(paths->second));
      if (c.equal()) {
        fmt::print("equal: {} arrays, {} elements\n", c.arrays_compared, c.elements_compared);
        return;
      }
      constexpr std::size_t kShown = 20;
      for (std::size_t i = 0; i < std::min(kShown, c.differences.size()); ++i) {
        fmt::print("{}\n", c.differences[i]);
      }
      fmt::print("{} differences; {} of {} arrays, {} of {} elements differ\n",
                 c.differences.size(),
                 c.arrays_differing,
                 c.arrays_compared,
                 c.elements_differing,
                 c.elements_compared);
      context.exit_code = 1;
    });
  });
}

void add_verify(CLI::App& app, Context& context) {
  auto path = std::make_shared<std::string>();  // outlives this function, with the callback
  CLI::App* command =
      app.add_subcommand("verify", "check every file of a checkpoint against its checksum");
  command->add_option("checkpoint", *path, "checkpoint folder or run directory")->required();
  command->callback([&context, path] {
    on_rank_0(context, "verify", [&] {
      const checkpoint::Checkpoint c = checkpoint_of(*path);
      const std::vector<std::string> damaged = checkpoint::verify(c);
      if (damaged.empty()) {
        fmt::print("whole: {} ({} files)\n", c.path.string(), c.manifest.files.size());
        return;
      }
      std::string text = damaged.front();
      for (std::size_t i = 1; i < damaged.size(); ++i) {
        text += "; " + damaged[i];
      }
      throw Error(Code::bad_input, text);
    });
  });
}

}  // namespace cambium::app
