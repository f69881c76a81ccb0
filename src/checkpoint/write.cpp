// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <system_error>
#include <unordered_map>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"
#include "checkpoint/exchange.hpp"
#include "checkpoint/hooks.hpp"
#include "checkpoint/layout.hpp"
#include "checkpoint/model_file.hpp"
#include "checkpoint/write_steps.hpp"
#include "comm/collectively.hpp"

namespace cambium::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNumbersPerSlice = 5;

std::vector<Placed> place_slices(const WriteRequest& request, std::vector<std::int64_t>& numbers) {
  std::unordered_map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < request.arrays.size(); ++i) {
    index.emplace(request.arrays[i].name, i);
  }
  std::vector<Placed> placed;
  for (const Source& source : request.slices) {
    const auto found = index.find(source.array);
    if (found == index.end()) {
      throw Error(Code::bug,
                  fmt::format("checkpoint: slice of '{}', which is no array", source.array));
    }
    if (source.part.empty()) {
      continue;
    }
    const Array& array = request.arrays[found->second];
    if (source.type != array.type) {
      throw Error(Code::bug,
                  fmt::format("checkpoint: array '{}' is {}, a slice of it {}",
                              array.name,
                              name_of(array.type),
                              name_of(source.type)));
    }
    const Rectangle& part = source.part;
    const bool sound =
        source.data != nullptr && (part.rows.size() == 1 || source.stride >= part.cols.size());
    if (!sound) {
      throw Error(
          Code::bug,
          fmt::format("checkpoint: array '{}', slice {}: no data, or rows that overlap (stride {})",
                      array.name,
                      text_of(part, array.vector),
                      source.stride));
    }
    placed.push_back({&array, &source});
    numbers.insert(numbers.end(),
                   {static_cast<std::int64_t>(found->second),
                    part.rows.begin,
                    part.rows.end,
                    part.cols.begin,
                    part.cols.end});
  }
  return placed;
}

// One number for step and arrays, in two halves that any integer reduction keeps apart.
std::vector<std::int64_t> fingerprint(const WriteRequest& request) {
  std::string text = fmt::format("{}", request.step);
  for (const Array& a : request.arrays) {
    text += fmt::format("\n{} {} {} {} {} {}",
                        a.name,
                        name_of(a.type),
                        a.rows,
                        a.cols,
                        a.vector,
                        a.attributes.dump());
  }
  return {static_cast<std::int64_t>(hash_text(text))};
}

void check_request(const WriteRequest& request) {
  if (request.step < 0 || request.transfer_limit == 0) {
    throw Error(
        Code::bug,
        fmt::format(
            "checkpoint: step {}, transfer limit {}", request.step, request.transfer_limit));
  }
  check_arrays(request.arrays);
  check_finite(request.state);
}

// The rectangles of all ranks, sorted by place in the array.
Manifest make_manifest(const WriteRequest& request,
                       const std::vector<std::vector<std::int64_t>>& by_rank,
                       std::vector<int>& writers) {
  Manifest manifest;
  manifest.step = request.step;
  manifest.run = request.run;
  manifest.state = request.state;
  for (const Array& array : request.arrays) {
    manifest.arrays.push_back({array, {}});
  }
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto& numbers = by_rank[rank];
    if (numbers.empty()) {
      continue;
    }
    for (std::size_t i = 0; i < numbers.size(); i += kNumbersPerSlice) {
      StoredArray& stored = manifest.arrays[static_cast<std::size_t>(numbers[i])];
      stored.slices.push_back(
          {writers.size(), {{numbers[i + 1], numbers[i + 2]}, {numbers[i + 3], numbers[i + 4]}}});
    }
    writers.push_back(static_cast<int>(rank));
    manifest.files.push_back({shard_name(static_cast<int>(rank)), 0, 0});
  }
  for (StoredArray& stored : manifest.arrays) {
    std::sort(stored.slices.begin(), stored.slices.end(), [](const auto& a, const auto& b) {
      return std::pair(a.part.rows.begin, a.part.cols.begin) <
             std::pair(b.part.rows.begin, b.part.cols.begin);
    });
    std::vector<Rectangle> parts;
    parts.reserve(stored.slices.size());
    for (const StoredSlice& slice : stored.slices) {
      parts.push_back(slice.part);
    }
    if (const auto defect = find_tiling_defect(stored.array.rows, stored.array.cols, parts)) {
      throw Error(Code::bug, "checkpoint: " + text_of(stored.array, *defect));
    }
  }
  return manifest;
}

}  // namespace

Plan make_plan(comm::Group& world, const WriteRequest& request) {
  Plan plan;
  std::vector<std::int64_t> numbers;
  comm::collectively(world, "plan checkpoint", [&] {
    check_request(request);
    plan.mine = place_slices(request, numbers);
  });
  const auto prints = gather_numbers(world, fingerprint(request));
  const auto by_rank = gather_numbers(world, numbers);
  comm::collectively(world, "plan checkpoint", [&] {
    for (std::size_t rank = 1; rank < prints.size(); ++rank) {
      if (prints[rank] != prints[0]) {
        throw Error(
            Code::bug,
            fmt::format("checkpoint: rank {} lists other arrays or another step than rank 0",
                        rank));
      }
    }
    plan.manifest = make_manifest(request, by_rank, plan.writers);
  });
  return plan;
}

std::vector<std::int64_t> write_own_shard(const WriteRequest& request, const Plan& plan, int rank) {
  if (plan.mine.empty()) {
    return {};
  }
  const FileRecord record =
      write_shard(request.folder / partial_name(request.step) / shard_name(rank),
                  request.step,
                  plan.mine,
                  request.transfer_limit);
  return {record.bytes, static_cast<std::int64_t>(record.checksum)};
}

void take_records(comm::Group& world, const std::vector<std::int64_t>& mine, Plan& plan) {
  const auto records = gather_numbers(world, mine);
  for (std::size_t i = 0; i < plan.writers.size(); ++i) {
    const auto& record = records[static_cast<std::size_t>(plan.writers[i])];
    plan.manifest.files[i].bytes = record[0];
    plan.manifest.files[i].checksum = static_cast<std::uint64_t>(record[1]);
  }
}

void complete(const WriteRequest& request, Manifest& manifest) {
  const fs::path partial = request.folder / partial_name(request.step);
  for (const FileRecord& record : manifest.files) {
    std::error_code error;
    const auto bytes = fs::file_size(partial / record.name, error);
    if (error || static_cast<std::int64_t>(bytes) != record.bytes) {
      throw Error(Code::storage,
                  fmt::format("{}: {}, expected {} bytes; is the folder on a file system that all "
                              "nodes share?",
                              (partial / record.name).string(),
                              error ? error.message() : fmt::format("{} bytes", bytes),
                              record.bytes));
    }
  }
  manifest.files.push_back(write_model_file(partial, manifest));
  pass_hook("manifest.before");
  write_file_atomically(partial / kManifestFile, to_text(manifest));  // syncs the folder too
  pass_hook("manifest.after");
  pass_hook("rename.before");
  publish(request.folder, request.step);
  pass_hook("rename.after");
}

std::vector<std::string> move_latest_and_prune(const WriteRequest& request) {
  move_latest(request.folder, request.step);
  return prune(request.folder, request.step, request.run, request.retention);
}

void remove_partial(const WriteRequest& request) {
  std::error_code ignored;
  fs::remove_all(request.folder / partial_name(request.step), ignored);
}

WriteResult result_of(const WriteRequest& request, const Plan& plan) {
  WriteResult result;
  result.path = request.folder / step_name(request.step);
  for (const FileRecord& record : plan.manifest.files) {
    result.bytes += record.bytes;
  }
  return result;
}

WriteResult write_checkpoint(comm::Group& world, const WriteRequest& request) {
  Plan plan = make_plan(world, request);
  const bool leads = world.rank() == 0;
  try {
    comm::collectively(world, "write checkpoint", [&] {
      if (leads) {
        start_partial(request.folder, request.step);
      }
    });
    std::vector<std::int64_t> mine;
    comm::collectively(
        world, "write checkpoint", [&] { mine = write_own_shard(request, plan, world.rank()); });
    take_records(world, mine, plan);
    comm::collectively(world, "complete checkpoint", [&] {
      if (leads) {
        complete(request, plan.manifest);
      }
    });
  } catch (const Error&) {
    if (leads) {
      remove_partial(request);  // all ranks have closed their files
    }
    throw;
  }
  WriteResult result = result_of(request, plan);
  comm::collectively(world, "publish checkpoint", [&] {
    if (leads) {
      result.warnings = move_latest_and_prune(request);
    }
  });
  return result;
}

}  // namespace cambium::checkpoint
