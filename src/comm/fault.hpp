// comm/fault.hpp — of the ranks that fail alone, one speaks. Needs no MPI; comm::raise_fault adds
// the MPI_Abort.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace cambium::comm {

enum class Claim : std::uint8_t { won, lost };

// Creates FAULT in `attempt_folder` with O_CREAT | O_EXCL. The winner writes `text` there and, as
// one line, to stderr. An empty, absent or unwritable folder cannot elect: then every caller wins.
// Never throws, allocates little.
Claim claim_fault(const std::filesystem::path& attempt_folder, const std::string& text) noexcept;

// What a loser does: gives the winner time to end the run, then ends the process itself.
[[noreturn]] void wait_for_the_end(int exit_code) noexcept;

}  // namespace cambium::comm
