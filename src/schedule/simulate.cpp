// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulate.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "schedule/check.hpp"

namespace cambium::schedule {
namespace {

// What crosses the boundary between stage `low` and `low` + 1.
struct Channel {
  bool activation;  // down the pipeline; otherwise a gradient, up
  int low;
  dim_t micro_batch;

  auto operator<=>(const Channel&) const = default;
};

struct Message {
  std::optional<double> send_posted;
  std::optional<double> receive_posted;
};

bool is_receive(ActionKind kind) {
  return kind == ActionKind::receive_activation || kind == ActionKind::receive_gradient;
}

bool is_send(ActionKind kind) {
  return kind == ActionKind::send_activation || kind == ActionKind::send_gradient;
}

class Simulator {
 public:
  Simulator(const std::vector<Plan>& plans, Sends sends, const Costs& costs)
      : plans_(plans), sends_(sends), costs_(costs), next_(plans.size()), clock_(plans.size()) {
    CAMBIUM_CHECK(costs.stage_scale.empty() || costs.stage_scale.size() == plans.size(),
                  "one scale per stage");
    result_.timeline.resize(plans.size());
  }

  Simulation run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t stage = 0; stage < plans_.size(); ++stage) {
        while (next_[stage] < plans_[stage].size() && try_action(stage)) {
          moved = true;
        }
      }
    }
    summarise();
    return std::move(result_);
  }

 private:
  [[nodiscard]] Channel channel(std::size_t stage, const Action& action) const {
    const int s = static_cast<int>(stage);
    switch (action.kind) {
      case ActionKind::receive_activation:
        return {true, s - 1, action.micro_batch};
      case ActionKind::send_activation:
        return {true, s, action.micro_batch};
      case ActionKind::receive_gradient:
        return {false, s, action.micro_batch};
      default:
        return {false, s - 1, action.micro_batch};
    }
  }

  [[nodiscard]] double compute_cost(std::size_t stage, ActionKind kind) const {
    const double scale = costs_.stage_scale.empty() ? 1.0 : costs_.stage_scale[stage];
    switch (kind) {
      case ActionKind::forward:
        return scale * costs_.forward;
      case ActionKind::backward_input:
        return scale * costs_.backward_input;
      case ActionKind::backward_weight:
        return scale * costs_.backward_weight;
      default:
        return 0;
    }
  }

  void post_receive(std::size_t stage, std::size_t index) {
    if (index >= plans_[stage].size() || !is_receive(plans_[stage][index].kind)) {
      return;
    }
    Message& message = messages_[channel(stage, plans_[stage][index])];
    if (!message.receive_posted) {
      message.receive_posted = clock_[stage];
    }
  }

  // When this message is there for its receiver, if that is known yet.
  [[nodiscard]] std::optional<double> arrival(const Message& message) const {
    if (!message.send_posted) {
      return std::nullopt;
    }
    if (sends_ == Sends::buffered) {
      return *message.send_posted + costs_.message;
    }
    if (!message.receive_posted) {
      return std::nullopt;
    }
    return std::max(*message.send_posted, *message.receive_posted) + costs_.message;
  }

  // Ends the stage's next action if what it waits for is known.
  bool try_action(std::size_t stage) {
    const Action& action = plans_[stage][next_[stage]];
    const double begin = clock_[stage];
    double end = begin + compute_cost(stage, action.kind);
    post_receive(stage, next_[stage]);
    post_receive(stage, next_[stage] + 1);
    if (is_receive(action.kind)) {
      const std::optional<double> there = arrival(messages_[channel(stage, action)]);
      if (!there) {
        return false;
      }
      end = std::max(begin, *there);
    } else if (is_send(action.kind)) {
      Message& message = messages_[channel(stage, action)];
      message.send_posted = begin;
      if (sends_ == Sends::rendezvous) {
        const std::optional<double> there = arrival(message);
        if (!there) {
          return false;
        }
        end = *there;
      }
    }
    result_.timeline[stage].push_back({action, begin, end});
    clock_[stage] = end;
    ++next_[stage];
    return true;
  }

  void summarise() {
    double busy = 0;
    for (std::size_t stage = 0; stage < plans_.size(); ++stage) {
      result_.makespan = std::max(result_.makespan, clock_[stage]);
      result_.peak_slots.push_back(peak_slots(plans_[stage]));
      for (const TimelineEntry& entry : result_.timeline[stage]) {
        busy += compute_cost(stage, entry.action.kind);
      }
      if (next_[stage] < plans_[stage].size()) {
        const Action& action = plans_[stage][next_[stage]];
        result_.deadlock +=
            fmt::format("{}stage {} waits in {} of micro-batch {} (action {} of {})",
                        result_.deadlock.empty() ? "" : "; ",
                        stage,
                        name_of(action.kind),
                        action.micro_batch,
                        next_[stage],
                        plans_[stage].size());
      }
    }
    result_.finished = result_.deadlock.empty();
    const double total = result_.makespan * static_cast<double>(plans_.size());
    result_.bubble = total > 0 ? 1 - busy / total : 0;
  }

  const std::vector<Plan>& plans_;
  Sends sends_;
  const Costs& costs_;
  std::vector<std::size_t> next_;
  std::vector<double> clock_;
  std::map<Channel, Message> messages_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const std::vector<Plan>& plans, Sends sends, const Costs& costs) {
  return Simulator(plans, sends, costs).run();
}

}  // namespace cambium::schedule
