// SPDX-License-Identifier: Apache-2.0
#include "phases/phase_text.hpp"

#include <cstdint>
#include <vector>

#include "base/hash.hpp"
#include "checkpoint/checkpoint.hpp"
#include "comm/collectively.hpp"

namespace cambium::phases {
namespace {

std::vector<std::filesystem::path*> data_files(config::Phase& phase) {
  std::vector<std::filesystem::path*> files;
  if (auto* pretrain = std::get_if<config::PretrainPhase>(&phase.settings)) {
    for (config::DataSource& source : pretrain->data) {
      files.push_back(&source.path);
    }
    if (pretrain->validation) {
      files.push_back(&pretrain->validation->path);
    }
  } else if (auto* mtssl = std::get_if<config::MtsslPhase>(&phase.settings)) {
    if (mtssl->unlabelled) {
      files.push_back(&*mtssl->unlabelled);
    }
    files.push_back(&mtssl->labelled);
    files.push_back(&mtssl->validation.path);
  } else if (auto* evaluate = std::get_if<config::EvaluatePhase>(&phase.settings)) {
    files.push_back(&evaluate->data);
  }
  std::erase_if(files, [](const std::filesystem::path* file) { return file->empty(); });
  return files;
}

// Paths are resolved against the config's folder: a moved folder is no change.
std::string without_folder(const config::Campaign& campaign, std::string text) {
  std::error_code ec;
  const std::string folder =
      std::filesystem::absolute(campaign.places.file, ec).lexically_normal().parent_path().string();
  for (std::size_t at = text.find(folder); !folder.empty() && at != std::string::npos;
       at = text.find(folder, at + 1)) {
    text.replace(at, folder.size(), 1, '.');
  }
  return text;
}

}  // namespace

DataNames name_data(comm::Group& group, std::span<const config::Phase> phases) {
  DataNames names;
  for (config::Phase phase : phases) {
    for (const std::filesystem::path* file : data_files(phase)) {
      names.emplace(*file, "");
    }
  }
  std::vector<std::uint64_t> hashes(names.size());
  comm::collectively(group, "data", [&] {
    std::size_t i = 0;
    for (const auto& [file, name] : names) {
      hashes[i++] = group.rank() == 0 ? checkpoint::record_of_file(file).checksum : 0;
    }
  });
  group.broadcast(hashes.data(), hashes.size() * sizeof(hashes[0]), 0);
  std::size_t i = 0;
  for (auto& [file, name] : names) {
    name = "xxh3 " + hash_hex(hashes[i++]);
  }
  return names;
}

std::string phase_text(const config::Campaign& campaign,
                       std::size_t index,
                       const DataNames& names) {
  config::Campaign one = campaign;
  one.phases = {campaign.phases[index]};
  config::Phase& phase = one.phases.front();
  // Dividing the optimizer's state is free (design.md §1): it is no change of the phase.
  if (auto* pretrain = std::get_if<config::PretrainPhase>(&phase.settings)) {
    pretrain->optimizer.shard = true;
  } else if (auto* mtssl = std::get_if<config::MtsslPhase>(&phase.settings)) {
    mtssl->optimizer.shard = true;
  }
  for (std::filesystem::path* file : data_files(phase)) {
    *file = names.at(*file);
  }
  std::string text = config::resolved_yaml(one);
  return without_folder(campaign, text.substr(text.find("phases:")));
}

std::string model_text(const config::Campaign& campaign) {
  const std::string text = config::resolved_yaml(campaign);
  const std::size_t begin = text.find("\nmodel:") + 1;
  std::size_t end = text.find('\n', begin);
  while (end + 1 < text.size() && text[end + 1] == ' ') {
    end = text.find('\n', end + 1);
  }
  return without_folder(campaign, text.substr(begin, end - begin));
}

}  // namespace cambium::phases
