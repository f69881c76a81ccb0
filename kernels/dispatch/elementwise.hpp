// kernels/dispatch/elementwise.hpp — what each backend defines for kernels/elementwise.hpp.
// Arguments are already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/elementwise.hpp"

namespace cambium::kernels::reference {

void add_into(Stream& stream, View to, View from);
void add(Stream& stream, View a, View b, View y);
void scale(Stream& stream, View to, double factor);
void gated_residual_forward(Stream& stream, const GatedResidualForward& a);
void gated_residual_backward_input(Stream& stream, const GatedResidualBackward& a);
void gated_residual_backward_weight(Stream& stream, const GatedResidualBackwardWeight& a);
void copy(Stream& stream, View from, View to);
void fill_zero(Stream& stream, View to);

}  // namespace cambium::kernels::reference

namespace cambium::kernels::cpu {

void add_into(Stream& stream, View to, View from);
void add(Stream& stream, View a, View b, View y);
void scale(Stream& stream, View to, double factor);
void gated_residual_forward(Stream& stream, const GatedResidualForward& a);
void gated_residual_backward_input(Stream& stream, const GatedResidualBackward& a);
void gated_residual_backward_weight(Stream& stream, const GatedResidualBackwardWeight& a);
void copy(Stream& stream, View from, View to);
void fill_zero(Stream& stream, View to);

}  // namespace cambium::kernels::cpu
