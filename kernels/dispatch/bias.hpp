// kernels/dispatch/bias.hpp — what each backend defines for kernels/bias.hpp. Arguments are already
// checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/bias.hpp"

namespace cambium::kernels::reference {

void add_bias(Stream& stream, const AddBias& a);
void bias_backward(Stream& stream, const BiasBackward& a);

}  // namespace cambium::kernels::reference

namespace cambium::kernels::cpu {

void add_bias(Stream& stream, const AddBias& a);
void bias_backward(Stream& stream, const BiasBackward& a);

}  // namespace cambium::kernels::cpu
