// kernels/dispatch/embedding.hpp — what each backend defines for kernels/embedding.hpp. Arguments
// are already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/embedding.hpp"

namespace cambium::kernels::reference {

void embedding_forward(Stream& stream, const EmbeddingForward& a);
void embedding_backward(Stream& stream, const EmbeddingBackward& a);
void positions_forward(Stream& stream, const PositionsForward& a);
void positions_backward(Stream& stream, const PositionsBackward& a);

}  // namespace cambium::kernels::reference

namespace cambium::kernels::cpu {

void embedding_forward(Stream& stream, const EmbeddingForward& a);
void embedding_backward(Stream& stream, const EmbeddingBackward& a);
void positions_forward(Stream& stream, const PositionsForward& a);
void positions_backward(Stream& stream, const PositionsBackward& a);

}  // namespace cambium::kernels::cpu
