// checkpoint/prune.cpp — which old checkpoints go. Declared in folder.hpp.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <system_error>

#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/hooks.hpp"

namespace cambium::checkpoint {
namespace {

namespace fs = std::filesystem;

class Pruner {
 public:
  Pruner(const fs::path& folder, dim_t new_step, const std::string& run, const Retention& retention)
      : folder_(folder), new_step_(new_step), run_(run), retention_(retention) {}

  std::vector<std::string> run() {
    prune_complete();
    remove_leftovers(kPartialSuffix);
    remove_leftovers(kRemovedSuffix);
    return std::move(warnings_);
  }

 private:
  bool is_kept_by_rule(dim_t step) const {
    const auto& pinned = retention_.pinned;
    return std::find(pinned.begin(), pinned.end(), step) != pinned.end() ||
           (retention_.keep_every > 0 && step % retention_.keep_every == 0);
  }

  void prune_complete() {
    if (retention_.keep_last < 1) {
      return;
    }
    std::vector<dim_t> steps = list_steps(folder_);
    dim_t complete = 1;  // the new one
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      if (*step == new_step_) {
        continue;
      }
      if (*step > new_step_) {
        warnings_.push_back(
            fmt::format("{}: of a higher step than the one just written ({}); left alone",
                        (folder_ / step_name(*step)).string(),
                        new_step_));
        continue;
      }
      const bool inside = complete < retention_.keep_last;
      if (!inside && is_kept_by_rule(*step)) {
        continue;
      }
      if (!is_ours_and_whole(*step)) {
        continue;
      }
      if (inside) {
        ++complete;
      } else {
        remove_step(*step);
      }
    }
  }

  bool is_ours_and_whole(dim_t step) {
    try {
      const Checkpoint checkpoint = open_checkpoint(folder_ / step_name(step));
      if (checkpoint.manifest.run == run_) {
        return true;
      }
      warnings_.push_back(fmt::format("{}: written by run '{}', this is run '{}'; left alone",
                                      checkpoint.path.string(),
                                      checkpoint.manifest.run,
                                      run_));
    } catch (const Error& e) {
      warnings_.push_back(fmt::format("{}; left alone", e.what()));
    }
    return false;
  }

  // First out of sight by one rename, so that a kill does not leave half a checkpoint under a good
  // name.
  void remove_step(dim_t step) {
    const fs::path removed = folder_ / removed_name(step);
    std::error_code error;
    fs::remove_all(removed, error);
    fs::rename(folder_ / step_name(step), removed, error);
    if (error) {
      warnings_.push_back(fmt::format(
          "{}: cannot prune: {}", (folder_ / step_name(step)).string(), error.message()));
      return;
    }
    remove_folder(removed);
  }

  void remove_leftovers(const char* suffix) {
    for (const dim_t step : list_steps(folder_, suffix)) {
      if (step <= new_step_) {
        remove_folder(folder_ / (step_name(step) + suffix));
      }
    }
  }

  void remove_folder(const fs::path& path) {
    pass_hook("prune.remove.before");
    std::error_code error;
    fs::remove_all(path, error);
    if (error) {
      warnings_.push_back(fmt::format("{}: cannot remove: {}", path.string(), error.message()));
    }
    pass_hook("prune.remove.after");
  }

  const fs::path& folder_;
  dim_t new_step_;
  const std::string& run_;
  const Retention& retention_;
  std::vector<std::string> warnings_;
};

}  // namespace

std::vector<std::string> prune(const fs::path& folder,
                               dim_t new_step,
                               const std::string& run,
                               const Retention& retention) {
  pass_hook("prune.before");
  std::vector<std::string> warnings;
  try {
    warnings = Pruner(folder, new_step, run, retention).run();
  } catch (const Error& e) {
    warnings.emplace_back(e.what());  // the new checkpoint is safe: not worth ending a run for
  }
  pass_hook("prune.after");
  return warnings;
}

}  // namespace cambium::checkpoint
