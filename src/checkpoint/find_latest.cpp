// checkpoint/find_latest.cpp — which checkpoint a run goes on from. Declared in checkpoint.hpp.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <system_error>

#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/exchange.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/parse.hpp"
#include "comm/collectively.hpp"

namespace cambium::checkpoint {
namespace {

namespace fs = std::filesystem;

// Rank 0's walk over the folder: the target of `latest` first, then all others, newest first.
class Search {
 public:
  explicit Search(const fs::path& folder) : folder_(folder) {
    follow_link();
    const std::vector<dim_t> steps = list_steps(folder);
    has_any_ = has_any_ || !steps.empty();
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      if (candidates_.empty() || candidates_.front() != folder / step_name(*step)) {
        candidates_.push_back(folder / step_name(*step));
      }
    }
    // A whole one may stand there when a kill fell between two renames.
    const std::vector<dim_t> removed = list_steps(folder, kRemovedSuffix);
    for (auto step = removed.rbegin(); step != removed.rend(); ++step) {
      candidates_.push_back(folder / removed_name(*step));
    }
    for (const dim_t step : list_steps(folder, kPartialSuffix)) {
      warnings.push_back(fmt::format("{}: the rest of an unfinished write; not used",
                                     (folder / partial_name(step)).string()));
    }
  }

  // The manifest's text of the next candidate that has all its files; its path in `path`. Empty
  // when none is left.
  std::string next(fs::path& path) {
    while (at_ < candidates_.size()) {
      path = candidates_[at_++];
      try {
        return read_whole_checkpoint(path);
      } catch (const Error& e) {
        if (!path.string().ends_with(kRemovedSuffix)) {
          warnings.emplace_back(e.what());
        }
      }
    }
    path.clear();
    return "";
  }

  void check_none_left_behind() const {
    if (!has_any_) {
      return;
    }
    std::string reasons;
    for (const std::string& warning : warnings) {
      reasons += "; " + warning;
    }
    throw Error(Code::bad_input,
                fmt::format("{}: no whole checkpoint, though there have been some{}; repair or "
                            "move the folder to start afresh",
                            folder_.string(),
                            reasons));
  }

  void note_choice(const fs::path& path) {
    if (at_ == 1 && linked_) {
      return;
    }
    if (!linked_ && warnings.empty()) {
      warnings.push_back(fmt::format("{}: missing", (folder_ / kLatestLink).string()));
    }
    warnings.push_back(fmt::format("taking {}", path.string()));
  }

  std::vector<std::string> warnings;

 private:
  void follow_link() {
    const fs::path link = folder_ / kLatestLink;
    std::error_code error;
    const fs::file_status status = fs::symlink_status(link, error);
    if (!fs::exists(status)) {
      return;
    }
    has_any_ = true;
    if (!fs::is_symlink(status)) {
      warnings.push_back(
          fmt::format("{}: not a symbolic link; delete it, the next checkpoint makes a new one",
                      link.string()));
      return;
    }
    const fs::path target = fs::read_symlink(link, error);
    if (error || !step_of_name(target.string())) {
      warnings.push_back(fmt::format("{} -> {}: expected a name like {} in the same folder",
                                     link.string(),
                                     target.string(),
                                     step_name(100)));
      return;
    }
    if (!fs::exists(folder_ / target, error)) {
      warnings.push_back(
          fmt::format("{} -> {}: there is no such checkpoint", link.string(), target.string()));
      return;
    }
    linked_ = true;
    candidates_.push_back(folder_ / target);
  }

  fs::path folder_;
  std::vector<fs::path> candidates_;
  std::size_t at_ = 0;
  bool has_any_ = false;
  bool linked_ = false;
};

// Collective over: group. The next candidate with all its files, on every rank.
std::optional<Checkpoint> next_candidate(comm::Group& group, std::optional<Search>& search) {
  std::string text;
  fs::path path;
  comm::collectively(group, "find checkpoint", [&] {
    if (search) {
      text = search->next(path);
      if (text.empty()) {
        search->check_none_left_behind();
      }
    }
  });
  std::string name = path.string();
  broadcast_text(group, name);
  broadcast_text(group, text);
  if (text.empty()) {
    return std::nullopt;
  }
  return comm::collectively(
      group, "find checkpoint", [&] { return checkpoint_from_text(name, text); });
}

}  // namespace

Latest find_latest(const fs::path& folder, Check check) {
  const auto self = comm::make_self_group("find checkpoint");
  return find_latest(*self, folder, check);
}

Latest find_latest(comm::Group& group, const fs::path& folder, Check check) {
  Latest latest;
  std::optional<Search> search;  // on rank 0
  comm::collectively(group, "find checkpoint", [&] {
    if (group.rank() == 0) {
      search.emplace(folder);
    }
  });
  while (std::optional<Checkpoint> found = next_candidate(group, search)) {
    std::vector<std::string> problems;
    if (check == Check::checksums) {
      problems = verify(group, *found);
    }
    if (problems.empty()) {
      latest.checkpoint = std::move(found);
      break;
    }
    if (search) {
      search->warnings.insert(search->warnings.end(), problems.begin(), problems.end());
    }
  }
  std::string lines;
  if (search) {
    if (latest.checkpoint) {
      search->note_choice(latest.checkpoint->path);
    }
    for (const std::string& warning : search->warnings) {
      lines += warning + "\n";
    }
  }
  broadcast_text(group, lines);
  latest.warnings = lines_of(lines);
  return latest;
}

}  // namespace cambium::checkpoint
