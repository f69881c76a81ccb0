// kernels/cpu/isa.cpp — one choice for our intrinsics and for Highway's dispatch.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/isa.hpp"

#include <atomic>
#include <hwy/targets.h>
#include <string>

#include "base/error.hpp"

namespace cambium::kernels::cpu {
namespace {

// Highway's own detection also asks the operating system whether it saves the registers.
constexpr std::int64_t kAvx512Targets = HWY_AVX3 | HWY_AVX3_DL;

struct Machine {
  bool avx2 = false;
  bool avx512 = false;
};

// Asked once, before select_isa disables anything.
const Machine& machine() {
  static const Machine found = [] {
    const std::int64_t targets = hwy::SupportedTargets();
    return Machine{(targets & HWY_AVX2) != 0, (targets & HWY_AVX3) != 0};
  }();
  return found;
}

Isa best() {
  return machine().avx512 ? Isa::avx512 : Isa::avx2;
}

std::atomic<Isa> selected{Isa::automatic};

}  // namespace

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::automatic:
      return "auto";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "?";
}

bool has_cpu_backend() {
  return machine().avx2;
}

bool is_supported(Isa isa) {
  return isa == Isa::avx512 ? machine().avx512 : machine().avx2;
}

void select_isa(Isa isa) {
  if (isa != Isa::automatic && !is_supported(isa)) {
    throw Error(Code::usage,
                std::string("run.isa: ") + name_of(isa) + " is asked for, this machine has " +
                    (has_cpu_backend() ? "avx2; use auto or avx2"
                                       : "neither avx2 nor fma; use run.device: reference"));
  }
  hwy::DisableTargets(isa == Isa::avx2 ? kAvx512Targets : 0);
  selected.store(isa == Isa::automatic && has_cpu_backend() ? best() : isa);
}

Isa active_isa() {
  const Isa isa = selected.load(std::memory_order_relaxed);
  if (isa != Isa::automatic) {
    return isa;
  }
  if (!has_cpu_backend()) {
    throw Error(
        Code::usage,
        "backend cpu: needs AVX2 and FMA, this machine lacks them; use run.device: reference");
  }
  return best();
}

}  // namespace cambium::kernels::cpu
