// model/families/llama.hpp — Llama as Hugging Face publishes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/public_form.hpp"

namespace cambium::model::families {

extern const PublicForm kLlama;

}  // namespace cambium::model::families
