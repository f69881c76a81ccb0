// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "app/commands.hpp"
#include "kernels/cpu/isa.hpp"

namespace cambium::app {

std::string version_text() {
  const char* isa = kernels::cpu::has_cpu_backend() ? name_of(kernels::cpu::active_isa())
                                                    : "none (reference only)";
  return fmt::format("cambium {}\nbuild: {}, {}\nMPI {}, HDF5 {}\nbackends: cpu ({}), reference",
                     CAMBIUM_VERSION,
                     CAMBIUM_BUILD_TYPE,
                     CAMBIUM_COMPILER,
                     CAMBIUM_MPI_VERSION,
                     CAMBIUM_HDF5_VERSION,
                     isa);
}

}  // namespace cambium::app
