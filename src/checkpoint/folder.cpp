// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <system_error>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/hooks.hpp"

namespace cambium::checkpoint {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* what, const std::string& reason) {
  throw Error(Code::storage, fmt::format("{}: {}: {}", path.string(), what, reason));
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    fail(from, fmt::format("cannot rename to {}", to.string()).c_str(), error.message());
  }
}

// False when the file system cannot exchange two names.
bool try_exchange(const fs::path& a, const fs::path& b) {
#ifdef RENAME_EXCHANGE
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
#else
  return false;
#endif
}

}  // namespace

std::string step_name(dim_t step) {
  return fmt::format("step-{:08}", step);
}

std::string partial_name(dim_t step) {
  return step_name(step) + kPartialSuffix;
}

std::string removed_name(dim_t step) {
  return step_name(step) + kRemovedSuffix;
}

std::optional<dim_t> step_of_name(const std::string& name, const std::string& suffix) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix) || !name.ends_with(suffix)) {
    return std::nullopt;
  }
  dim_t step = 0;
  for (std::size_t i = kPrefix.size(); i + suffix.size() < name.size(); ++i) {
    if (name[i] < '0' || name[i] > '9' || step > 100'000'000'000'000) {
      return std::nullopt;
    }
    step = step * 10 + (name[i] - '0');
  }
  // Only the one spelling: "step-5" and "step-000000005" are somebody else's.
  return step_name(step) + suffix == name ? std::optional(step) : std::nullopt;
}

std::vector<dim_t> list_steps(const fs::path& folder, const std::string& suffix) {
  std::vector<dim_t> steps;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) {
    return steps;
  }
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (const auto step = step_of_name(entries->path().filename().string(), suffix)) {
      steps.push_back(*step);
    }
  }
  if (error) {
    fail(folder, "cannot list", error.message());
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void start_partial(const fs::path& folder, dim_t step) {
  const fs::path partial = folder / partial_name(step);
  pass_hook("partial.before");
  std::error_code error;
  fs::remove_all(partial, error);
  if (error) {
    fail(partial, "cannot remove what an unfinished write left", error.message());
  }
  fs::create_directories(partial, error);
  if (error) {
    fail(partial, "cannot create folder", error.message());
  }
  pass_hook("partial.after");
}

void publish(const fs::path& folder, dim_t step) {
  const fs::path partial = folder / partial_name(step);
  const fs::path final = folder / step_name(step);
  const fs::path removed = folder / removed_name(step);
  std::error_code error;
  const bool replaces = fs::exists(fs::symlink_status(final, error));
  if (!replaces) {
    rename_or_throw(partial, final);
    sync_folder(folder);
    return;
  }
  // The step was written before, by an attempt that this run has fallen back behind.
  fs::remove_all(removed, error);
  if (try_exchange(partial, final)) {
    sync_folder(folder);
    rename_or_throw(partial, removed);
  } else {
    // Between the two renames the old one is whole as .removed, where find_latest looks too.
    rename_or_throw(final, removed);
    rename_or_throw(partial, final);
    sync_folder(folder);
  }
  fs::remove_all(removed, error);  // a rest of it goes with the next pruning
}

void move_latest(const fs::path& folder, dim_t step) {
  const fs::path link = folder / kLatestLink;
  const fs::path temporary = folder / fmt::format("{}.tmp", kLatestLink);
  pass_hook("latest.before");
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_symlink(step_name(step), temporary, error);
  if (error) {
    fail(temporary, "cannot create link", error.message());
  }
  pass_hook("latest.linked");
  rename_or_throw(temporary, link);
  sync_folder(folder);
  pass_hook("latest.after");
}

}  // namespace cambium::checkpoint
