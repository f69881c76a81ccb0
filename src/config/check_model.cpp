// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "config/check_campaign.hpp"
#include "config/fields.hpp"

namespace cambium::config {

std::string missing_key_text(const FamilyTraits& family, std::string_view key) {
  std::string_view why = "remove the key";
  if (key == "num_key_value_heads") {
    why = "each of its heads has keys and values of its own; remove the key";
  } else if (key == "head_dim") {
    why = "its heads are hidden_size / num_attention_heads wide; remove the key";
  } else if (key == "rms_norm_eps") {
    why = "its norm is LayerNorm; write layer_norm_epsilon";
  } else if (key == "layer_norm_epsilon") {
    why = "its norm is RMSNorm; write rms_norm_eps";
  } else if (key == "rope_theta") {
    why = "its positions are learned; remove the key";
  }
  return fmt::format("family {} does not have it: {}", family.name, why);
}

namespace {

void check_heads(const ModelConfig& m, Problems& problems) {
  if (m.num_attention_heads <= 0) {
    return;
  }
  if (m.hidden_size > 0 && !m.head_dim && m.hidden_size % m.num_attention_heads != 0) {
    problems.push_back(
        {"model.num_attention_heads",
         fmt::format("{} heads do not divide model.hidden_size {}; use one of {}, or give head_dim",
                     m.num_attention_heads,
                     m.hidden_size,
                     list_of(divisors(m.hidden_size)))});
  } else if (m.hidden_size > 0 && m.head_size() % 2 != 0 &&
             traits_of(m.family).positions == Positions::rotary) {
    problems.push_back(
        {m.head_dim ? "model.head_dim" : "model.num_attention_heads",
         fmt::format("a head is {} wide, expected an even width: rotary positions turn pairs",
                     m.head_size())});
  }
  if (m.num_key_value_heads > 0 && m.num_attention_heads % m.num_key_value_heads != 0) {
    problems.push_back(
        {"model.num_key_value_heads",
         fmt::format("{} key/value heads do not divide model.num_attention_heads {}; use one of {}",
                     m.num_key_value_heads,
                     m.num_attention_heads,
                     list_of(divisors(m.num_attention_heads)))});
  }
}

void check_refusals(const Campaign& c, Problems& problems) {
  if (!c.tokenizer.bytes) {
    problems.push_back({"tokenizer.bytes", "this version has byte tokens only, expected true"});
  }
  const auto only_one = [&](std::string_view key, int value) {
    if (value != 1) {
      problems.push_back({fmt::format("parallel.{}", key),
                          fmt::format("this version has size 1 only, got {}", value)});
    }
  };
  only_one("context", c.parallel.context);
  only_one("expert", c.parallel.expert);
}

void check_run(const RunConfig& run, Problems& problems) {
  constexpr std::string_view kName =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (run.name.find_first_not_of(kName) != std::string::npos) {
    problems.push_back(
        {"run.name",
         fmt::format("expected letters, digits, '.', '_' and '-', got \"{}\"", run.name)});
  }
  const bool fast_device = run.device == DeviceKind::cpu || run.device == DeviceKind::cuda;
  if (run.precision == Precision::fp64 && fast_device) {
    problems.push_back({"run.precision",
                        "fp64 runs on the device reference only; write device: reference or auto"});
  }
}

}  // namespace

void check_model(const Campaign& campaign, Problems& problems) {
  check_run(campaign.run, problems);
  check_refusals(campaign, problems);
  check_heads(campaign.model, problems);
  Campaign automatic = campaign;
  automatic.model.vocab_size.reset();
  const dim_t needed = vocabulary_size(automatic);
  if (campaign.model.vocab_size && *campaign.model.vocab_size < needed) {
    problems.push_back(
        {"model.vocab_size",
         fmt::format(
             "expected at least {} (256 bytes{}), got {}; or write auto",
             needed,
             needed > kByteIds ? fmt::format(", mask id {}, pad id {}", kMaskId, kPadId) : "",
             *campaign.model.vocab_size)});
  }
}

}  // namespace cambium::config
