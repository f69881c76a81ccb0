// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulate.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "schedule/check.hpp"

namespace cambium::schedule {
namespace {

// What crosses the boundary between virtual stages `low` and `low` + 1.
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

bool is_send(ActionKind kind) {
  return kind == ActionKind::send_activation || kind == ActionKind::send_gradient;
}

class Simulator {
 public:
  Simulator(const std::vector<Plan>& plans, Sends sends, const Costs& costs)
      : plans_(plans),
        sends_(sends),
        costs_(costs),
        next_(plans.size()),
        clock_(plans.size()),
        sent_(plans.size()) {
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
    const int s = action.chunk * static_cast<int>(plans_.size()) + static_cast<int>(stage);
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

  // The send whose buffer an action writes into again, if there is one.
  [[nodiscard]] std::optional<Channel> buffer_before(std::size_t stage,
                                                     const Action& action) const {
    const Sent& sent = sent_[stage];
    if (action.kind == ActionKind::forward) {
      const auto found = sent.by_slot.find({action.chunk, action.slot});
      if (found != sent.by_slot.end()) {
        return found->second;
      }
    } else if (action.kind == ActionKind::backward_input && sent.gradients.size() >= 2) {
      return sent.gradients[sent.gradients.size() - 2];
    }
    return std::nullopt;
  }

  void note_send(std::size_t stage, const Action& action) {
    const Channel to = channel(stage, action);
    if (messages_[to].send_posted) {
      return;  // a blocked sender is asked again
    }
    messages_[to].send_posted = clock_[stage];
    if (action.kind == ActionKind::send_activation) {
      sent_[stage].by_slot[{action.chunk, action.slot}] = to;
    } else {
      sent_[stage].gradients.push_back(to);
    }
  }

  // Ends the stage's next action if what it waits for is known.
  bool try_action(std::size_t stage) {
    const Action& action = plans_[stage][next_[stage]];
    double begin = clock_[stage];
    post_receive(stage, next_[stage]);
    post_receive(
        stage,
        sends_ == Sends::blocking ? next_[stage] + 1 : next_receive(plans_[stage], next_[stage]));
    if (sends_ == Sends::rendezvous) {
      if (const std::optional<Channel> before = buffer_before(stage, action)) {
        const std::optional<double> left = arrival(messages_[*before]);
        if (!left) {
          return false;
        }
        begin = std::max(begin, *left);
      }
    }
    double end = begin + compute_cost(stage, action.kind);
    if (is_receive(action.kind)) {
      const std::optional<double> there = arrival(messages_[channel(stage, action)]);
      if (!there) {
        return false;
      }
      end = std::max(begin, *there);
    } else if (is_send(action.kind)) {
      note_send(stage, action);
      if (sends_ == Sends::blocking) {
        const std::optional<double> left = arrival(messages_[channel(stage, action)]);
        if (!left) {
          return false;
        }
        end = *left;
      }
    }
    result_.timeline[stage].push_back({action, begin, end});
    clock_[stage] = end;
    ++next_[stage];
    return true;
  }

  // A stage does not end before all that it sent has left.
  void name_unreceived(std::size_t stage) {
    for (const Action& action : plans_[stage]) {
      if (is_send(action.kind) && !arrival(messages_[channel(stage, action)])) {
        result_.deadlock += fmt::format("{}stage {} waits for {} of micro-batch {} to leave",
                                        result_.deadlock.empty() ? "" : "; ",
                                        stage,
                                        name_of(action.kind),
                                        action.micro_batch);
      }
    }
  }

  void summarise() {
    double busy = 0;
    for (std::size_t stage = 0; stage < plans_.size(); ++stage) {
      result_.makespan = std::max(result_.makespan, clock_[stage]);
      result_.peak_slots.push_back(peak_slots(plans_[stage]));
      for (const TimelineEntry& entry : result_.timeline[stage]) {
        busy += compute_cost(stage, entry.action.kind);
      }
      if (next_[stage] == plans_[stage].size()) {
        name_unreceived(stage);
      } else {
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

  // What a stage has sent, by the buffers that it left from.
  struct Sent {
    std::map<std::pair<int, int>, Channel> by_slot;  // chunk, slot
    std::vector<Channel> gradients;
  };

  std::vector<Sent> sent_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const std::vector<Plan>& plans, Sends sends, const Costs& costs) {
  return Simulator(plans, sends, costs).run();
}

}  // namespace cambium::schedule
