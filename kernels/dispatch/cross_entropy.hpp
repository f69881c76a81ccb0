// kernels/dispatch/cross_entropy.hpp — what each backend defines for kernels/cross_entropy.hpp.
// Arguments are already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cross_entropy.hpp"

namespace cambium::kernels::reference {

void cross_entropy_statistics(Stream& stream, const CrossEntropyStatistics& a);
void cross_entropy_combine(Stream& stream, const CrossEntropyCombine& a);
void cross_entropy_gradient(Stream& stream, const CrossEntropyGradient& a);

}  // namespace cambium::kernels::reference

namespace cambium::kernels::cpu {

void cross_entropy_statistics(Stream& stream, const CrossEntropyStatistics& a);
void cross_entropy_combine(Stream& stream, const CrossEntropyCombine& a);
void cross_entropy_gradient(Stream& stream, const CrossEntropyGradient& a);

}  // namespace cambium::kernels::cpu
