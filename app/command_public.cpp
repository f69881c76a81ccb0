// app/command_public.cpp — `import`, `export`: a model from and to a folder of Hugging Face.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "app/checkpoint_of.hpp"
#include "app/commands.hpp"
#include "phases/public_files.hpp"

namespace cambium::app {
namespace {

struct Paths {
  std::string from;
  std::string to;
};

}  // namespace

void add_import(CLI::App& app, Context& context) {
  auto paths = std::make_shared<Paths>();  // outlives this function, with the callback
  CLI::App* command = app.add_subcommand(
      "import", "make a checkpoint of a Hugging Face folder (config.json, *.safetensors)");
  command->add_option("folder", paths->from, "Hugging Face folder")->required();
  command->add_option("checkpoints", paths->to, "new folder for the checkpoint")->required();
  command->callback([&context, paths] {
    on_rank_0(context, "import", [&] {
      const std::unique_ptr<comm::Group> self = comm::make_self_group("import");
      fmt::print("{}\n", phases::import_model(*self, paths->from, paths->to));
    });
  });
}

void add_export(CLI::App& app, Context& context) {
  auto paths = std::make_shared<Paths>();  // outlives this function, with the callback
  CLI::App* command = app.add_subcommand(
      "export", "write a checkpoint as a Hugging Face folder (config.json, model.safetensors)");
  command->add_option("checkpoint", paths->from, "checkpoint folder or run directory")->required();
  command->add_option("folder", paths->to, "folder for the two files")->required();
  command->callback([&context, paths] {
    on_rank_0(context, "export", [&] {
      fmt::print("{}\n", phases::export_model(checkpoint_of(paths->from), paths->to));
    });
  });
}

}  // namespace cambium::app
