// kernels/dispatch/activation.hpp — what each backend defines for kernels/activation.hpp. Arguments
// are already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation.hpp"

namespace cambium::kernels::reference {

void swiglu_forward(Stream& stream, const SwigluForward& a);
void swiglu_backward(Stream& stream, const SwigluBackward& a);
void silu_forward(Stream& stream, const SiluForward& a);
void silu_backward(Stream& stream, const SiluBackward& a);
void gelu_tanh_forward(Stream& stream, const GeluTanhForward& a);
void gelu_tanh_backward(Stream& stream, const GeluTanhBackward& a);

}  // namespace cambium::kernels::reference

namespace cambium::kernels::cpu {

void swiglu_forward(Stream& stream, const SwigluForward& a);
void swiglu_backward(Stream& stream, const SwigluBackward& a);
void silu_forward(Stream& stream, const SiluForward& a);
void silu_backward(Stream& stream, const SiluBackward& a);
void gelu_tanh_forward(Stream& stream, const GeluTanhForward& a);
void gelu_tanh_backward(Stream& stream, const GeluTanhBackward& a);

}  // namespace cambium::kernels::cpu
