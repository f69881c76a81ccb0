// kernels/dispatch/attention.hpp — what each backend defines for kernels/attention.hpp. Arguments
// are already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention.hpp"

namespace cambium::kernels::reference {

void attention_forward(Stream& stream, const AttentionForward& a);
void attention_backward(Stream& stream, const AttentionBackward& a);

}  // namespace cambium::kernels::reference

namespace cambium::kernels::cpu {

void attention_forward(Stream& stream, const AttentionForward& a);
void attention_backward(Stream& stream, const AttentionBackward& a);

}  // namespace cambium::kernels::cpu
