// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hooks.hpp"

namespace cambium::checkpoint {

std::function<void(const char* point)> test_hook;

}  // namespace cambium::checkpoint
