// phases/fault_injection.hpp — failures on demand, for tests: `cambium run --inject
// KIND:point=P,rank=R,step=S`. A run without --inject passes a null check at each point and nothing
// else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace cambium::phases {

enum class FaultKind : std::uint8_t {
  throw_error,  // an exception on this rank alone
  exit,         // leaves with status 0, as a library might
  kill,         // SIGKILL to itself
  kill_all,  // SIGKILL to every rank of this host's job (its process group's siblings), itself last
  hang,      // stops responding
  nan,       // every gradient that this rank owns becomes NaN,
  inf,       // infinite,
  spike,     // or a thousand times as large
  fail,      // an error inside a collective step: all ranks agree on it
  slow,      // sleeps 20 ms
};

struct Fault {
  FaultKind kind = FaultKind::throw_error;
  std::string point;  // "step", "growth.prove", "shard.write.before", …
  int rank = -1;      // -1: every rank
  dim_t step = -1;    // -1: the first time; otherwise the update in work
  dim_t count = 1;    // fires this often
  dim_t after = 0;    // passes of the point that are let through first
};

class FaultInjection {
 public:
  // Throws Error(usage) for a text it does not understand.
  void add(const std::string& text);

  void set_rank(int rank) {
    rank_ = rank;
  }

  void set_step(dim_t step) {
    const std::lock_guard lock(*mutex_);
    step_ = step;
  }

  // Fires what is due at this point; returns the factor of a fault of gradients, which the caller
  // carries out. Any thread may call it.
  std::optional<double> pass(const char* point);

  [[nodiscard]] bool is_empty() const {
    return faults_.empty();
  }

 private:
  [[nodiscard]] bool is_due(Fault& fault, const char* point) const;
  std::optional<double> carry_out(FaultKind kind, const char* point, dim_t step);

  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // so that it may move
  std::vector<Fault> faults_;
  int rank_ = 0;
  dim_t step_ = 0;
};

}  // namespace cambium::phases
