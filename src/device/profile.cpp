// SPDX-License-Identifier: Apache-2.0
#include "device/profile.hpp"

namespace cambium::device {
namespace {

constexpr bool is_claim(Work work) {
  return work >= Work::head;
}

}  // namespace

const char* name_of(Work work) {
  switch (work) {
    case Work::other:
      return "other";
    case Work::product_forward:
      return "product_forward";
    case Work::product_backward_input:
      return "product_backward_input";
    case Work::product_backward_weight:
      return "product_backward_weight";
    case Work::attention:
      return "attention";
    case Work::rows:
      return "norm_rope_elementwise";
    case Work::embedding:
      return "embedding";
    case Work::pack:
      return "pack";
    case Work::adamw:
      return "adamw";
    case Work::head:
      return "head_and_loss";
    case Work::tensor_exchange:
      return "tensor_exchange";
    case Work::pipeline_exchange:
      return "pipeline_exchange";
    case Work::gradient_sum:
      return "gradient_sum";
    case Work::gradient_norm:
      return "gradient_norm";
    case Work::value_gather:
      return "value_gather";
  }
  return "?";
}

void Profile::start() {
  entries_ = {};
  current_ = Work::other;
  since_ = Clock::now();
}

void Profile::stop() {
  charge();
}

double Profile::seconds() const {
  double total = 0;
  for (const Entry& e : entries_) {
    total += e.seconds;
  }
  return total;
}

void Profile::charge() {
  const Clock::time_point now = Clock::now();
  entries_[static_cast<std::size_t>(current_)].seconds +=
      std::chrono::duration<double>(now - since_).count();
  since_ = now;
}

Work Profile::enter(Work work, double flops, double bytes) {
  const Work back = current_;
  const bool stays = is_claim(current_) && !is_claim(work);
  if (!stays && work != current_) {
    charge();
    current_ = work;
  }
  Entry& e = entries_[static_cast<std::size_t>(current_)];
  e.flops += flops;
  e.bytes += bytes;
  ++e.calls;
  return back;
}

void Profile::leave(Work back) {
  if (back != current_) {
    charge();
    current_ = back;
  }
}

}  // namespace cambium::device
