// kernels/dispatch/rope.hpp — what each backend defines for kernels/rope.hpp. Arguments are already
// checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rope.hpp"

namespace cambium::kernels::reference {

void rope(Stream& stream, const Rope& a, Turn turn);

}  // namespace cambium::kernels::reference

namespace cambium::kernels::cpu {

void rope(Stream& stream, const Rope& a, Turn turn);

}  // namespace cambium::kernels::cpu
