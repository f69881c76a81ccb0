// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/background.hpp"

#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/folder.hpp"
#include "comm/collectively.hpp"

namespace cambium::checkpoint {
namespace {

std::size_t bytes_of_slice(const Source& source) {
  return static_cast<std::size_t>(source.part.rows.size() * source.part.cols.size()) *
         bytes_of(source.type);
}

}  // namespace

std::size_t staging_bytes(const WriteRequest& request) {
  std::size_t bytes = 0;
  for (const Source& source : request.slices) {
    bytes += bytes_of_slice(source);
  }
  return bytes;
}

BackgroundWrite::BackgroundWrite(comm::Group& group,
                                 WriteRequest request,
                                 std::span<std::byte> staging)
    : group_(group), request_(std::move(request)) {
  copy_slices(staging);
  plan_ = make_plan(group_, request_);
  comm::collectively(group_, "write checkpoint", [&] {
    if (group_.rank() == 0) {
      start_partial(request_.folder, request_.step);
    }
  });
  start([this] { record_ = write_own_shard(request_, plan_, group_.rank()); });
}

BackgroundWrite::~BackgroundWrite() {
  join();
}

// Rows stand one behind the other in the copy.
void BackgroundWrite::copy_slices(std::span<std::byte> staging) {
  CAMBIUM_CHECK(staging.size() >= staging_bytes(request_), "staging is too small");
  std::byte* to = staging.data();
  for (Source& source : request_.slices) {
    const auto* from = static_cast<const std::byte*>(source.data);
    const std::size_t element = bytes_of(source.type);
    const std::size_t row = static_cast<std::size_t>(source.part.cols.size()) * element;
    const std::size_t step = static_cast<std::size_t>(source.stride) * element;
    source.data = to;
    for (dim_t r = 0; r < source.part.rows.size(); ++r) {
      std::memcpy(to, from + static_cast<std::size_t>(r) * step, row);
      to += row;
    }
    source.stride = source.part.cols.size();
  }
}

void BackgroundWrite::start(std::function<void()> work) {
  is_busy_.store(true, std::memory_order_release);
  thread_ = std::thread([this, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
    }
    is_busy_.store(false, std::memory_order_release);
  });
}

void BackgroundWrite::join() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool BackgroundWrite::advance() {
  join();
  const bool leads = group_.rank() == 0;
  try {
    comm::collectively(group_, "write checkpoint", [&] {
      if (failure_) {
        std::rethrow_exception(failure_);
      }
    });
  } catch (const Error&) {
    if (leads) {
      remove_partial(request_);
    }
    act_ = Act::done;
    throw;
  }
  if (act_ == Act::shards) {
    take_records(group_, record_, plan_);
    act_ = Act::completion;
    if (leads) {
      start([this] {
        complete(request_, plan_.manifest);
        result_ = result_of(request_, plan_);
        result_.warnings = move_latest_and_prune(request_);
      });
    }
    return false;
  }
  act_ = Act::done;
  return true;
}

WriteResult BackgroundWrite::finish() {
  while (!advance()) {
  }
  return result_;
}

}  // namespace cambium::checkpoint
