// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "kernels/elementwise.hpp"
#include "schedule/check.hpp"

namespace cambium::engine {
namespace {

using device::View;
using device::Work;
using device::WorkScope;
using schedule::Action;
using schedule::ActionKind;

// Messages to a chunk have a tag of their own: between two stages those of several chunks meet, and
// only within a chunk are receives in the order of sends.
constexpr int activation_tag(int chunk) {
  return 2 * chunk + 1;
}

constexpr int gradient_tag(int chunk) {
  return 2 * chunk + 2;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

schedule::MicroBatchKind kind_of(const MicroBatch& b) {
  return b.mode == layers::Mode::train ? schedule::MicroBatchKind::train
                                       : schedule::MicroBatchKind::forward_only;
}

// Nobody waits for the first virtual stage's input gradient, so its layers may take the order that
// needs less memory; recomputation asks for it everywhere.
BackwardOrder order_of(const params::Partition& where, Recompute recompute) {
  const bool is_first_alone = where.is_first() && where.chunks() == 1;
  return is_first_alone || recompute != Recompute::none ? BackwardOrder::together
                                                        : BackwardOrder::split;
}

std::size_t bytes_of(View v) {
  return static_cast<std::size_t>(v.size()) * device::bytes_of(v.dtype);
}

}  // namespace

Engine::Engine(const model::Spec& spec,
               params::ParamStore& store,
               device::Stream& stream,
               comm::MeshGroups& groups,
               const EngineShape& shape)
    : store_(store),
      groups_(groups),
      shape_(shape),
      model_(spec,
             store,
             stream,
             *groups.tensor,
             shape.tensor,
             shape.recompute,
             order_of(store.partition(), shape.recompute)),
      sync_(store, stream, groups, shape.tensor.reduction, shape.is_overlapped),
      optimizer_(store, stream, groups, sync_) {
  plan_shape_.stages = groups.pipeline->size();
  plan_shape_.virtual_stages = store.partition().chunks();
  places_.resize(static_cast<std::size_t>(plan_shape_.virtual_stages));
  const dim_t elements = model_.context.stream_rows().size() * shape.tensor.hidden;
  if (groups.pipeline->size() > 1) {
    for (int i = 0; i < 2; ++i) {
      gradient_in_[i] = store.arenas().communication.allocate(shape.tensor.dtype, elements);
      gradient_out_[i] = store.arenas().communication.allocate(shape.tensor.dtype, elements);
    }
  }
}

View Engine::edge(device::Buffer& buffer) const {
  return buffer.view(
      shape_.tensor.dtype, model_.context.stream_rows().size(), shape_.tensor.hidden);
}

Engine::Place& Engine::place_of(const Action& action) {
  return places_[static_cast<std::size_t>(action.chunk)][static_cast<std::size_t>(action.slot)];
}

int& Engine::input_of(const Action& action) {
  return input_of_[static_cast<std::size_t>(action.chunk) * plan_shape_.micro_batches.size() +
                   static_cast<std::size_t>(action.micro_batch)];
}

Engine::Peer Engine::next_of(int chunk) const {
  const int rank = groups_.pipeline->rank();
  const bool wraps = rank + 1 == groups_.pipeline->size();
  return {wraps ? 0 : rank + 1, activation_tag(wraps ? chunk + 1 : chunk)};
}

Engine::Peer Engine::before(int chunk) const {
  const int rank = groups_.pipeline->rank();
  const bool wraps = rank == 0;
  return {wraps ? groups_.pipeline->size() - 1 : rank - 1, gradient_tag(wraps ? chunk - 1 : chunk)};
}

void Engine::prepare(std::span<const MicroBatch> batches) {
  const auto has_kind = [](const MicroBatch& b, schedule::MicroBatchKind kind) {
    return kind_of(b) == kind;
  };
  const auto& planned = plan_shape_.micro_batches;
  if (plan_.empty() ||
      !std::equal(batches.begin(), batches.end(), planned.begin(), planned.end(), has_kind)) {
    plan_shape_.micro_batches.clear();
    for (const MicroBatch& b : batches) {
      plan_shape_.micro_batches.push_back(kind_of(b));
    }
    plan_ = schedule::plan_stage(shape_.schedule, plan_shape_, groups_.pipeline->rank());
    for (int chunk = 0; chunk < model_.chunks(); ++chunk) {
      std::vector<Place>& places = places_[static_cast<std::size_t>(chunk)];
      while (static_cast<int>(places.size()) < schedule::peak_slots(plan_, chunk)) {
        places.push_back({model_.make_slot(chunk), {}});
      }
    }
    const dim_t elements = model_.context.stream_rows().size() * shape_.tensor.hidden;
    while (static_cast<int>(inputs_.size()) < schedule::peak_inputs(plan_)) {
      inputs_.push_back(store_.arenas().communication.allocate(shape_.tensor.dtype, elements));
      input_receives_.emplace_back();
    }
  }
  input_of_.assign(batches.size() * places_.size(), -1);
  is_last_of_shard_.assign(batches.size(), 0);
  const dim_t shards = store_.partition().data_shards().size();
  for (dim_t s = 0; s < shards; ++s) {
    for (std::size_t i = batches.size(); i-- > 0;) {
      if (batches[i].data_shard == s && batches[i].mode == layers::Mode::train) {
        is_last_of_shard_[i] = 1;
        break;
      }
    }
  }
  losses_.assign(static_cast<std::size_t>(shards), 0.0);
  gradients_posted_ = gradients_taken_ = gradients_sent_ = 0;
}

const std::vector<double>& Engine::run(std::span<const MicroBatch> batches,
                                       const PassHooks& hooks) {
  prepare(batches);
  if (std::any_of(batches.begin(), batches.end(), [](const MicroBatch& b) {
        return b.mode == layers::Mode::train;
      })) {
    sync_.begin_step();
  }
  const auto start = std::chrono::steady_clock::now();
  std::size_t posted = 0;  // receives of actions before it are posted
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    const std::size_t ahead = schedule::next_receive(plan_, i);
    for (; posted < plan_.size() && posted <= ahead; ++posted) {
      post_receive(plan_[posted]);
    }
    if (hooks.beat) {
      hooks.beat(schedule::name_of(plan_[i].kind).data());
    }
    const double begin = hooks.trace != nullptr ? seconds_since(start) : 0;
    run_action(plan_[i], batches, hooks);
    sync_.progress();
    if (hooks.trace != nullptr) {
      hooks.trace->push_back(
          {plan_[i].kind, plan_[i].micro_batch, plan_[i].chunk, begin, seconds_since(start)});
    }
  }
  const WorkScope scope(model_.context.stream.profile(), Work::pipeline_exchange);
  for (std::vector<Place>& places : places_) {
    for (Place& place : places) {
      place.send.wait();
    }
  }
  for (comm::Request& r : gradient_sends_) {
    r.wait();
  }
  return losses_;
}

void Engine::post_receive(const Action& action) {
  const WorkScope scope(model_.context.stream.profile(), Work::pipeline_exchange);
  comm::Group& pipeline = *groups_.pipeline;
  if (action.kind == ActionKind::receive_activation) {
    const View to = edge(inputs_[static_cast<std::size_t>(action.input)]);
    input_receives_[static_cast<std::size_t>(action.input)] = pipeline.receive(
        to.data, bytes_of(to), before(action.chunk).rank, activation_tag(action.chunk));
  } else if (action.kind == ActionKind::receive_gradient) {
    const int i = static_cast<int>(gradients_posted_++ % 2);
    const View to = edge(gradient_in_[i]);
    gradient_receives_[i] = pipeline.receive(
        to.data, bytes_of(to), next_of(action.chunk).rank, gradient_tag(action.chunk));
  }
}

void Engine::run_action(const Action& action,
                        std::span<const MicroBatch> batches,
                        const PassHooks& hooks) {
  comm::Group& pipeline = *groups_.pipeline;
  const MicroBatch& batch = batches[static_cast<std::size_t>(action.micro_batch)];
  device::Profile* const profile = model_.context.stream.profile();
  switch (action.kind) {
    case ActionKind::receive_activation: {
      const WorkScope scope(profile, Work::pipeline_exchange);
      input_receives_[static_cast<std::size_t>(action.input)].wait();
      input_of(action) = action.input;
      return;
    }
    case ActionKind::forward:
      forward(action, batch, hooks);
      return;
    case ActionKind::send_activation: {
      const WorkScope scope(profile, Work::pipeline_exchange);
      Place& place = place_of(action);
      View out = place.slot.output;
      const int input = input_of(action);
      if (input >= 0 && out.data == edge(inputs_[static_cast<std::size_t>(input)]).data) {
        out = pass_on(place, out);
      }
      const Peer to = next_of(action.chunk);
      place.send = pipeline.send(out.data, bytes_of(out), to.rank, to.tag);
      return;
    }
    case ActionKind::receive_gradient: {
      const WorkScope scope(profile, Work::pipeline_exchange);
      const int i = static_cast<int>(gradients_taken_++ % 2);
      gradient_receives_[i].wait();
      kernels::copy(model_.context.stream, edge(gradient_in_[i]), model_.incoming(action.chunk));
      return;
    }
    case ActionKind::backward_input:
    case ActionKind::backward_weight:
      backward(action, batch, hooks);
      return;
    case ActionKind::send_gradient: {
      const WorkScope scope(profile, Work::pipeline_exchange);
      const int i = static_cast<int>(gradients_sent_++ % 2);
      const View dx = edge(gradient_out_[i]);
      const Peer to = before(action.chunk);
      gradient_sends_[i] = pipeline.send(dx.data, bytes_of(dx), to.rank, to.tag);
      return;
    }
  }
}

void Engine::backward(const Action& action, const MicroBatch& batch, const PassHooks& hooks) {
  const bool ends_shard = is_last_of_shard_[static_cast<std::size_t>(action.micro_batch)] != 0;
  const auto finish = [this, &batch, ends_shard](dim_t layer) {
    if (ends_shard) {
      sync_.finish(layer, batch.data_shard);
    }
  };
  const LayerDone layer_done = std::ref(finish);  // a copy of the lambda would take memory
  if (action.kind == ActionKind::backward_weight) {
    model_.backward_weight(batch.ids, place_of(action).slot, layer_done, action.chunk);
    return;
  }
  if (plan_shape_.is_last(groups_.pipeline->rank(), action.chunk)) {
    run_head(action, batch, hooks);
  }
  View dx;
  if (!plan_shape_.is_first(groups_.pipeline->rank(), action.chunk)) {
    const int i = static_cast<int>(gradients_sent_ % 2);
    const WorkScope scope(model_.context.stream.profile(), Work::pipeline_exchange);
    gradient_sends_[i].wait();
    dx = edge(gradient_out_[i]);
  }
  model_.backward_input(place_of(action).slot, dx, layer_done, action.chunk);
}

// A chunk of closed layers passes its input on, in a buffer that the plan receives into again. To
// wait here until it left would deadlock under rendezvous sends: interleaved neighbours that all
// pass on wait in a circle, and the simulator knows no such wait. Allocated once per place.
View Engine::pass_on(Place& place, View input) {
  if (place.passed_on.bytes() == 0) {
    place.passed_on = store_.arenas().communication.allocate(input.dtype, input.size());
  }
  const View copy = edge(place.passed_on);
  kernels::copy(model_.context.stream, input, copy);
  return copy;
}

void Engine::forward(const Action& action, const MicroBatch& batch, const PassHooks& hooks) {
  Place& place = place_of(action);
  {
    const WorkScope scope(model_.context.stream.profile(), Work::pipeline_exchange);
    place.send.wait();
  }
  View x;
  if (const int input = input_of(action); input >= 0) {
    x = edge(inputs_[static_cast<std::size_t>(input)]);
  }
  (void)model_.forward(x, batch.ids, place.slot, batch.mode, action.chunk);
  if (plan_shape_.is_last(groups_.pipeline->rank(), action.chunk) &&
      batch.mode == layers::Mode::forward_only) {
    run_head(action, batch, hooks);
  }
}

// The head writes gradients. Of a train micro-batch it therefore runs with the backward: a schedule
// may run forwards of the next data shard before this one's gradients are closed.
void Engine::run_head(const Action& action, const MicroBatch& batch, const PassHooks& hooks) {
  Slot& slot = place_of(action).slot;
  const View h = model_.norm->forward(slot.output, *slot.norm, batch.mode);
  if (batch.task == Task::classify) {
    CAMBIUM_CHECK(hooks.classify != nullptr, "a classification micro-batch without its task");
    hooks.classify->run(static_cast<std::size_t>(action.micro_batch), batch, h, slot.norm->dh);
    return;
  }
  const bool is_probe = batch.mode == layers::Mode::forward_only;
  losses_[static_cast<std::size_t>(batch.data_shard)] +=
      model_.head->forward(h,
                           batch.targets,
                           batch.scale,
                           batch.mode,
                           slot.norm->dh,
                           is_probe ? hooks.logits : layers::LanguageModelHead::LogitsProbe{});
}

std::vector<double> Engine::sum_over_data(std::span<const double> leaves, dim_t width) {
  std::vector<double> total(static_cast<std::size_t>(width), 0.0);
  comm::Group& pipeline = *groups_.pipeline;
  if (is_last_stage()) {
    const comm::ShardSum sum(
        store_.partition().logical.data, groups_.data->size(), groups_.data->rank());
    total = comm::tree_sum_scalars(*groups_.data, sum, leaves, width);
  }
  pipeline.broadcast(total.data(), total.size() * sizeof(double), pipeline.size() - 1);
  return total;
}

}  // namespace cambium::engine
