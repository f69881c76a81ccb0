// model/families/gpt2.hpp — GPT-2 as Hugging Face publishes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/public_form.hpp"

namespace cambium::model::families {

extern const PublicForm kGpt2;

}  // namespace cambium::model::families
