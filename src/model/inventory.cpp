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

bool is_norm(LayerParameter p) {
  return p == LayerParameter::attention_norm || p == LayerParameter::mlp_norm;
}

bool has(const LayerSpec& l, LayerParameter p) {
  switch (p) {
    case LayerParameter::attention_norm_bias:
    case LayerParameter::mlp_norm_bias:
      return l.norm == NormKind::layer;
    case LayerParameter::q_bias:
    case LayerParameter::k_bias:
    case LayerParameter::v_bias:
      return l.biases != Biases::none;
    case LayerParameter::o_bias:
    case LayerParameter::up_bias:
    case LayerParameter::down_bias:
      return l.biases == Biases::all;
    case LayerParameter::gate:
      return l.activation == Activation::swiglu;
    default:
      return true;
  }
}

constexpr const char* kLayerNames[kLayerParameters] = {"attention_norm.weight",
                                                       "attention_norm.bias",
                                                       "attention.q.weight",
                                                       "attention.q.bias",
                                                       "attention.k.weight",
                                                       "attention.k.bias",
                                                       "attention.v.weight",
                                                       "attention.v.bias",
                                                       "attention.o.weight",
                                                       "attention.o.bias",
                                                       "mlp_norm.weight",
                                                       "mlp_norm.bias",
                                                       "mlp.gate.weight",
                                                       "mlp.up.weight",
                                                       "mlp.up.bias",
                                                       "mlp.down.weight",
                                                       "mlp.down.bias"};

// A bias of a product that is cut by rows is cut with them; one behind a sum over shards is whole.
ParameterSpec cut_bias(const std::string& name, std::uint64_t uid, dim_t size, dim_t units) {
  ParameterSpec p = vector_parameter(name, uid, size, Init::zeros);
  p.cut = Cut::cols;
  p.units = units;
  p.leaf_elements = 0;
  return p;
}

ParameterSpec layer_parameter(
    const Spec& spec, const LayerSpec& l, LayerParameter p, const std::string& n, std::uint64_t u) {
  const dim_t d = spec.hidden;
  const dim_t q = l.heads * l.head_width;
  const dim_t kv = l.kv_heads * l.head_width;
  switch (p) {
    case LayerParameter::q:
      return matrix(n, u, q, d, Cut::rows, l.kv_heads, l.init_std);
    case LayerParameter::k:
    case LayerParameter::v:
      return matrix(n, u, kv, d, Cut::rows, l.kv_heads, l.init_std);
    case LayerParameter::o:
      return matrix(n, u, d, q, Cut::cols, l.kv_heads, l.init_std_out);
    case LayerParameter::gate:
    case LayerParameter::up:
      return matrix(n, u, l.ffn, d, Cut::rows, l.ffn, l.init_std);
    case LayerParameter::down:
      return matrix(n, u, d, l.ffn, Cut::cols, l.ffn, l.init_std_out);
    case LayerParameter::q_bias:
      return cut_bias(n, u, q, l.kv_heads);
    case LayerParameter::k_bias:
    case LayerParameter::v_bias:
      return cut_bias(n, u, kv, l.kv_heads);
    case LayerParameter::up_bias:
      return cut_bias(n, u, l.ffn, l.ffn);
    default:
      return vector_parameter(n, u, d, is_norm(p) ? Init::ones : Init::zeros);
  }
}

Entity layer_entity(const Spec& spec, dim_t i) {
  const LayerSpec& l = spec.layers[static_cast<std::size_t>(i)];
  Entity e{.uid = l.uid,
           .kind = EntityKind::layer,
           .layer = i,
           .birth = l.birth,
           .born_closed = l.born_closed,
           .parameters = {}};
  for (const LayerParameter p : layer_parameters(l)) {
    e.parameters.push_back(
        layer_parameter(spec,
                        l,
                        p,
                        fmt::format("layers.{}.{}", i, kLayerNames[static_cast<std::size_t>(p)]),
                        l.uid + e.parameters.size()));
  }
  return e;
}

Entity norm_entity(const Spec& spec) {
  Entity e{.uid = spec.norm_uid,
           .kind = EntityKind::norm,
           .layer = static_cast<dim_t>(spec.layers.size()),
           .birth = {},
           .born_closed = false,
           .parameters = {vector_parameter("norm.weight", spec.norm_uid, spec.hidden, Init::ones)}};
  if (spec.norm == NormKind::layer) {
    e.parameters.push_back(
        vector_parameter("norm.bias", spec.norm_uid + 1, spec.hidden, Init::zeros));
  }
  return e;
}

// Learned positions: whole on every tensor rank, because a rank adds those of its own rows. Its
// gradient is a token sum like a norm gain's.
Entity positions_entity(const Spec& spec) {
  ParameterSpec table = matrix("positions.weight",
                               spec.positions_uid,
                               spec.max_positions,
                               spec.hidden,
                               Cut::replicated,
                               1,
                               spec.init_std);
  table.is_looked_up = true;
  table.leaf_elements = table.elements();
  return {.uid = spec.positions_uid,
          .kind = EntityKind::positions,
          .layer = -1,
          .birth = {},
          .born_closed = false,
          .parameters = {table}};
}

}  // namespace

std::vector<LayerParameter> layer_parameters(const LayerSpec& layer) {
  std::vector<LayerParameter> out;
  for (std::size_t i = 0; i < kLayerParameters; ++i) {
    if (has(layer, static_cast<LayerParameter>(i))) {
      out.push_back(static_cast<LayerParameter>(i));
    }
  }
  CAMBIUM_CHECK(out.size() <= kUidsPerEntity, "a layer has more parameters than uids");
  return out;
}

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
  out.back().parameters[0].is_looked_up = !spec.is_tied;  // a tied one is the head's, too
  if (spec.positions_uid != 0) {
    out.push_back(positions_entity(spec));
  }
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
  out.push_back(norm_entity(spec));
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
