// SPDX-License-Identifier: Apache-2.0
#include "model/inventory.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/philox.hpp"

namespace cambium::model {
namespace {

ParameterSpec vector_parameter(const std::string& name, std::uint64_t uid, dim_t size, Init init) {
  return {.name = name,
          .uid = uid,
          .is_vector = true,
          .rows = 1,
          .cols = size,
          .init = init,
          .leaf_elements = size};
}

ParameterSpec matrix(const std::string& name,
                     std::uint64_t uid,
                     dim_t rows,
                     dim_t cols,
                     Cut cut,
                     dim_t units,
                     double std) {
  return {.name = name,
          .uid = uid,
          .rows = rows,
          .cols = cols,
          .cut = cut,
          .units = units,
          .init = std == 0 ? Init::zeros : Init::normal,
          .init_std = std,
          .has_decay = true};
}

// y = x + gate * B silu(A norm(x)). The gate is zero at birth; A and B are drawn, so that the gate
// sees a branch.
Entity block_entity(const std::string& name, const InsertedBlock& b, dim_t hidden, dim_t layer) {
  Entity e{.uid = b.uid,
           .kind = EntityKind::block,
           .layer = layer,
           .birth = b.birth,
           .born_closed = b.born_closed,
           .parameters = {}};
  e.parameters = {
      vector_parameter(name + ".norm.weight", b.uid + 0, hidden, Init::ones),
      matrix(name + ".a.weight", b.uid + 1, b.width, hidden, Cut::rows, b.width, b.init_std),
      matrix(name + ".b.weight", b.uid + 2, hidden, b.width, Cut::cols, b.width, b.init_std),
      vector_parameter(
          name + ".gate", b.uid + 3, b.gate == GateKind::vector ? hidden : 1, Init::zeros),
  };
  e.parameters.back().leaf_elements = hidden;
  return e;
}

void add_blocks(std::vector<Entity>& out,
                const std::string& module,
                const std::vector<InsertedBlock>& blocks,
                dim_t hidden,
                dim_t layer) {
  for (std::size_t m = 0; m < blocks.size(); ++m) {
    out.push_back(block_entity(fmt::format("{}.inserted.{}", module, m), blocks[m], hidden, layer));
  }
}

Entity layer_entity(const Spec& spec, dim_t i) {
  const LayerSpec& l = spec.layers[static_cast<std::size_t>(i)];
  const std::string n = fmt::format("layers.{}.", i);
  const dim_t d = spec.hidden;
  const dim_t q = l.heads * l.head_width;
  const dim_t kv = l.kv_heads * l.head_width;
  Entity e{.uid = l.uid,
           .kind = EntityKind::layer,
           .layer = i,
           .birth = l.birth,
           .born_closed = l.born_closed,
           .parameters = {}};
  e.parameters = {
      vector_parameter(n + "attention_norm.weight", l.uid + 0, d, Init::ones),
      matrix(n + "attention.q.weight", l.uid + 1, q, d, Cut::rows, l.kv_heads, l.init_std),
      matrix(n + "attention.k.weight", l.uid + 2, kv, d, Cut::rows, l.kv_heads, l.init_std),
      matrix(n + "attention.v.weight", l.uid + 3, kv, d, Cut::rows, l.kv_heads, l.init_std),
      matrix(n + "attention.o.weight", l.uid + 4, d, q, Cut::cols, l.kv_heads, l.init_std_out),
      vector_parameter(n + "mlp_norm.weight", l.uid + 5, d, Init::ones),
      matrix(n + "mlp.gate.weight", l.uid + 6, l.ffn, d, Cut::rows, l.ffn, l.init_std),
      matrix(n + "mlp.up.weight", l.uid + 7, l.ffn, d, Cut::rows, l.ffn, l.init_std),
      matrix(n + "mlp.down.weight", l.uid + 8, d, l.ffn, Cut::cols, l.ffn, l.init_std_out),
  };
  return e;
}

}  // namespace

Rectangle shard_of(const ParameterSpec& p, dim_t shards, dim_t shard) {
  if (p.cut == Cut::replicated) {
    return {{0, p.rows}, {0, p.cols}};
  }
  const dim_t axis = p.cut == Cut::rows ? p.rows : p.cols;
  const dim_t unit = axis / p.units;
  const Range u = share(p.units, shards, shard);
  const Range cut{u.begin * unit, u.end * unit};
  return p.cut == Cut::rows ? Rectangle{cut, {0, p.cols}} : Rectangle{{0, p.rows}, cut};
}

std::vector<Entity> inventory(const Spec& spec) {
  std::vector<Entity> out;
  const dim_t d = spec.hidden;
  const auto count = static_cast<dim_t>(spec.layers.size());
  out.push_back({.uid = spec.embedding_uid,
                 .kind = EntityKind::embedding,
                 .layer = -1,
                 .birth = {},
                 .born_closed = false,
                 .parameters = {matrix("embedding.weight",
                                       spec.embedding_uid,
                                       spec.vocabulary,
                                       d,
                                       Cut::rows,
                                       spec.vocabulary,
                                       spec.init_std)}});
  add_blocks(out, "embedding", spec.after_embedding, d, -1);
  for (dim_t i = 0; i < count; ++i) {
    out.push_back(layer_entity(spec, i));
    for (int m = 0; m < kLayerModules; ++m) {
      add_blocks(out,
                 fmt::format("layers.{}.{}", i, name_of(static_cast<LayerModule>(m))),
                 spec.layers[static_cast<std::size_t>(i)].inserted[m],
                 d,
                 i);
    }
  }
  out.push_back({.uid = spec.norm_uid,
                 .kind = EntityKind::norm,
                 .layer = count,
                 .birth = {},
                 .born_closed = false,
                 .parameters = {vector_parameter("norm.weight", spec.norm_uid, d, Init::ones)}});
  add_blocks(out, "norm", spec.after_norm, d, count);
  if (!spec.is_tied) {
    out.push_back({.uid = spec.head_uid,
                   .kind = EntityKind::head,
                   .layer = count,
                   .birth = {},
                   .born_closed = false,
                   .parameters = {matrix("head.weight",
                                         spec.head_uid,
                                         spec.vocabulary,
                                         d,
                                         Cut::rows,
                                         spec.vocabulary,
                                         spec.init_std)}});
  }
  if (spec.classifier_uid != 0) {
    out.push_back({.uid = spec.classifier_uid,
                   .kind = EntityKind::classifier,
                   .layer = count,
                   .birth = spec.classifier_birth,
                   .born_closed = false,
                   .parameters = {matrix("classifier.weight",
                                         spec.classifier_uid,
                                         spec.classes,
                                         d,
                                         Cut::rows,
                                         spec.classes,
                                         spec.init_std)}});
  }
  return out;
}

dim_t parameter_count(const std::vector<Entity>& entities) {
  dim_t n = 0;
  for (const Entity& e : entities) {
    for (const ParameterSpec& p : e.parameters) {
      n += p.elements();
    }
  }
  return n;
}

double initial_value(const ParameterSpec& p, std::uint64_t seed, dim_t row, dim_t col) {
  switch (p.init) {
    case Init::ones:
      return 1;
    case Init::zeros:
      return 0;
    case Init::normal:
      break;
  }
  const RandomStream stream(seed, Purpose::init, p.uid);
  return p.init_std * stream.normal_at(static_cast<std::uint64_t>(row * p.cols + col));
}

}  // namespace cambium::model
