// params/param_store.hpp — this rank's parameters: the one noun that optimizer, checkpoint and
// growth share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "model/inventory.hpp"
#include "params/bucket.hpp"
#include "params/partition.hpp"

namespace cambium::params {

struct StoreShape {
  DType dtype = DType::f32;  // of values, gradients and slots: the masters
  bool is_sharded = true;
  device::Backend backend = device::Backend::cpu;
  DType panels = DType::f32;  // of the compute copies: the type that products multiply in
};

class ParamStore {
 public:
  ParamStore(const model::Spec& spec,
             const Partition& partition,
             const StoreShape& shape,
             std::shared_ptr<Arenas> arenas);

  // A store for a changed spec or stage map that shares the buckets both have on this rank and
  // allocates the others (not initialised). The old store is not touched: dropping the result is a
  // roll-back.
  [[nodiscard]] ParamStore regrown(const model::Spec& spec, const Partition& partition) const;

  [[nodiscard]] const std::vector<model::Entity>& entities() const {
    return entities_;
  }

  [[nodiscard]] const Partition& partition() const {
    return partition_;
  }

  [[nodiscard]] const StoreShape& shape() const {
    return shape_;
  }

  // Buckets of this rank in order of execution; a mirror stands last.
  [[nodiscard]] const std::vector<std::shared_ptr<Bucket>>& buckets() const {
    return buckets_;
  }

  // Null when another stage has it.
  [[nodiscard]] Bucket* find(std::uint64_t uid) const;

  // The last stage's copy of a tied table (the table itself when there is one stage); null
  // elsewhere and when untied.
  [[nodiscard]] Bucket* head_table() const {
    return head_table_;
  }

  [[nodiscard]] Arenas& arenas() const {
    return *arenas_;
  }

  void initialise(std::uint64_t seed);
  void pack(Stream& stream);

  // Bytes of values of this rank's parameters (panels not counted, mirror counted).
  [[nodiscard]] std::size_t parameter_bytes() const;

  // Takes the names of the current inventory: shared buckets are renamed when a growth step
  // commits.
  void take_names();

  void check_invariants() const;

 private:
  void build(const ParamStore* old);

  model::Spec spec_;
  Partition partition_;
  StoreShape shape_;
  std::shared_ptr<Arenas>
      arenas_;  // shared: the store of a growth step in preparation accounts in the same arenas
  std::vector<model::Entity> entities_;
  std::vector<std::shared_ptr<Bucket>>
      buckets_;  // shared: between the old store and the one in preparation
  Bucket* head_table_ = nullptr;
};

}  // namespace cambium::params
