// config/phase_fields.hpp — the keys of the phases, once; see fields.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/fields.hpp"

namespace cambium::config {

template <typename V>
void fields(V& v, OptimizerConfig& c) {
  v.value("kind", c.kind, {});
  v.value("betas", c.betas, {.bounds = kBelowOne});
  v.value("eps", c.eps, {.bounds = kAboveZero});
  v.value("weight_decay", c.weight_decay, {.bounds = kNotNegative});
  v.value("clip_grad_norm", c.clip_grad_norm, {.bounds = kNotNegative});
  v.value("state", c.state, {});
  v.value("shard", c.shard, {});
}

template <typename V>
void fields(V& v, LearningRateConfig& c) {
  v.value("kind", c.kind, {});
  v.value("peak", c.peak, {.bounds = kAboveZero});
  v.value("warmup_steps", c.warmup_steps, {.bounds = kNotNegative});
  v.value("decay_steps", c.decay_steps, {.bounds = kNotNegative});
  v.value("final", c.final, {.bounds = kNotNegative});
}

template <typename V>
void fields(V& v, DataSource& c) {
  v.value("path", c.path, {.required = true});
  v.value("weight", c.weight, {.bounds = kAboveZero});
}

template <typename V>
void fields(V& v, ValidationConfig& c) {
  v.value("path", c.path, {.required = true});
  v.value("every_steps", c.every_steps, {.bounds = kNotNegative});
  v.value("batches", c.batches, {.bounds = kNotNegative});
}

template <typename V>
void fields(V& v, PretrainPhase& c) {
  v.value("steps", c.steps, kRequiredCount);
  v.value("global_batch_size", c.global_batch_size, kRequiredCount);
  v.value("sequence_length", c.sequence_length, kRequiredCount);
  v.value("data", c.data, {.required = true});
  v.section("validation", c.validation);
  v.section("optimizer", c.optimizer);
  v.section("learning_rate", c.learning_rate);
}

template <typename V>
void fields(V& v, InsertGatedResidual& c) {
  v.value("after", c.after, {.required = true});
  v.value("width", c.width, {.bounds = kNotNegative});
  v.value("gate", c.gate, {});
  v.value("learning_rate_multiplier", c.learning_rate_multiplier, {.bounds = kAboveZero});
  v.value("warmup_steps", c.warmup_steps, {.bounds = kNotNegative});
}

template <typename V>
void fields(V& v, InsertLayers& c) {
  v.value("after", c.after, {.bounds = {.low = -1}, .required = true});
  v.value("count", c.count, {.bounds = kPositive});
  v.value("learning_rate_multiplier", c.learning_rate_multiplier, {.bounds = kAboveZero});
  v.value("warmup_steps", c.warmup_steps, {.bounds = kNotNegative});
}

template <typename V>
void fields(V& v, VerifyConfig& c) {
  v.value("batches", c.batches, {.bounds = kPositive});
}

template <typename V>
void fields(V& v, GrowPhase& c) {
  v.value("operations", c.operations, {.required = true});
  v.section("verify", c.verify);
  v.value("rebalance", c.rebalance, {});
  v.value("on_failure", c.on_failure, {});
}

template <typename V>
void fields(V& v, StrongView& c) {
  v.value("mask_probability", c.mask_probability, {.bounds = kBelowOne});
}

template <typename V>
void fields(V& v, ThresholdConfig& c) {
  v.value("kind", c.kind, {});
  v.value("init", c.init, {.bounds = kInside});
  v.value("learning_rate", c.learning_rate, {.bounds = kNotNegative});
  v.value("temperature", c.temperature, {.bounds = kAboveZero});
}

template <typename V>
void fields(V& v, MtsslPhase& c) {
  v.value("steps", c.steps, kRequiredCount);
  v.value("labelled", c.labelled, {.required = true});
  v.value("unlabelled", c.unlabelled, {});
  v.section("validation", c.validation);
  v.value("labels", c.labels, {});
  v.value("intents", c.intents, {.bounds = kNotNegative});
  v.value("labelled_per_class", c.labelled_per_class, {.bounds = kNotNegative});
  v.value("global_batch_size", c.global_batch_size, kRequiredCount);
  v.value("unlabelled_ratio", c.unlabelled_ratio, {.bounds = kPositive});
  v.value("sequence_length", c.sequence_length, kRequiredCount);
  v.section("strong", c.strong);
  v.section("threshold", c.threshold);
  v.value("unlabelled_weight", c.unlabelled_weight, {.bounds = kNotNegative});
  v.section("optimizer", c.optimizer);
  v.section("learning_rate", c.learning_rate);
}

template <typename V>
void fields(V& v, EvaluatePhase& c) {
  v.value("task", c.task, {});
  v.value("data", c.data, {.required = true});
  v.value("batches", c.batches, {.bounds = kNotNegative});
  v.value("global_batch_size", c.global_batch_size, {.bounds = kNotNegative});
  v.value("sequence_length", c.sequence_length, kRequiredCount);
}

}  // namespace cambium::config
