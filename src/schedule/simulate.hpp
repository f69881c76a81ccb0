// schedule/simulate.hpp — runs the plans of all stages on paper: does it end, how long does it
// take, where does it wait?
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace cambium::schedule {

// When a message leaves its sender's buffer. buffered: at once. rendezvous: when its receive is
// posted; the sender goes on, as MPI_Isend lets it, but waits before it writes into the buffer
// again (the slot of an activation, the older of two buffers of a gradient) and at the end. A plan
// that ends under these two ends under every message-size threshold of MPI. blocking: the sender
// waits at once, as in MPI_Ssend, and a receive is posted no sooner than one action ahead; stricter
// than the engine needs.
enum class Sends { buffered, rendezvous, blocking };

// Seconds, or any other unit, per action (of one chunk).
struct Costs {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double message = 0;  // from send to arrival
  std::vector<double> stage_scale =
      {};  // factor on a stage's compute, for uneven stages; empty: all 1
};

struct TimelineEntry {
  Action action;
  double begin = 0;
  double end = 0;
};

struct Simulation {
  bool finished = false;
  double makespan = 0;
  double bubble = 0;  // share of all stages' time in which they do not compute
  std::vector<std::vector<TimelineEntry>> timeline;  // per stage, in the order of its plan
  std::vector<int> peak_slots;                       // per stage
  std::string deadlock;                              // who waits for what; empty when finished
};

// The engine's rule: when an action starts, its own receive and the next one are posted. Receives
// wait for their message; the rest takes its cost. Messages are matched by virtual stage and
// micro-batch.
[[nodiscard]] Simulation simulate(const std::vector<Plan>& plans,
                                  Sends sends,
                                  const Costs& costs = {});

}  // namespace cambium::schedule
