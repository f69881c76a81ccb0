// params/bucket.hpp — one entity's parameters on one rank: values, compute copies, gradients,
// optimizer slots. A bucket is the unit that is born by growth, moved between stages, and reduced
// over data ranks in one message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/tree.hpp"
#include "device/buffer.hpp"
#include "device/stream.hpp"
#include "kernels/product.hpp"
#include "model/inventory.hpp"
#include "params/partition.hpp"

namespace cambium::params {

using device::Buffer;
using device::DType;
using device::Stream;
using device::View;

// One parameter's rectangle of one logical tensor shard, or the whole of a replicated parameter.
// Its elements stand row-major and contiguous in the bucket.
struct Part {
  model::ParameterSpec spec;
  dim_t shard = 0;  // logical tensor shard; 0 when replicated
  Range rows;       // of the whole parameter
  Range cols;
  dim_t offset = 0;  // first element in the bucket
  dim_t elements = 0;
  dim_t grain = 0;        // elements of a grain: a row, or kVectorGrain
  dim_t first_grain = 0;  // in the bucket
  dim_t grains = 0;
  std::int64_t updates = 0;  // of this segment: t of its bias correction
  dim_t leaf_offset = 0;     // replicated: first column in a leaf row
  kernels::Weight weight;    // plain view and panels (matrices)

  [[nodiscard]] bool is_replicated() const {
    return spec.cut == model::Cut::replicated;
  }

  [[nodiscard]] Range range() const {
    return {offset, offset + elements};
  }
};

// Where memory of each kind is accounted.
struct Arenas {
  device::Arena params{"params"};
  device::Arena grads{"grads"};
  device::Arena optimizer{"optimizer"};
  device::Arena activations{"activations"};
  device::Arena communication{"communication"};
};

// Gradients of one use of the bucket. A tied table has two uses (lookup and head), each reduced by
// itself.
struct GradientLane {
  std::vector<Buffer> buffers;  // LocalSum.buffers of the data axis, each the whole bucket
  View current;                 // (1, elements): where the data shard in work adds
  Buffer leaves;  // (local tensor shards, leaf_width): token sums per slice (design.md §1.8)
  std::vector<char> is_touched;  // by part: a gradient was written for the data shard in work
};

struct BucketShape {
  model::Entity entity;
  DType dtype = DType::f32;  // of values, gradients and slots
  bool is_mirror =
      false;  // the last stage's copy of a tied table: same bits, not counted, not saved
  int lanes = 1;
  bool is_sharded = true;     // optimizer slots divided over data ranks
  DType panels = DType::f32;  // of the compute copies that products read
};

class Bucket {
 public:
  Bucket(const BucketShape& shape,
         const Partition& partition,
         Arenas& arenas,
         device::Backend backend);

  [[nodiscard]] const BucketShape& shape() const {
    return shape_;
  }

  [[nodiscard]] std::uint64_t uid() const {
    return shape_.entity.uid;
  }

  [[nodiscard]] std::vector<Part>& parts() {
    return parts_;
  }

  [[nodiscard]] const std::vector<Part>& parts() const {
    return parts_;
  }

  // The part of parameter `k` of the entity in logical shard `shard` (any shard when replicated).
  [[nodiscard]] Part& part(dim_t k, dim_t shard);

  [[nodiscard]] const Part& part(dim_t k, dim_t shard) const {
    return const_cast<Bucket*>(this)->part(k, shard);
  }

  [[nodiscard]] dim_t elements() const {
    return elements_;
  }

  [[nodiscard]] dim_t grains() const {
    return grains_;
  }

  // The trailing elements that every tensor rank holds alike.
  [[nodiscard]] Range replicated() const {
    return replicated_;
  }

  // Elements that data rank `rank` of `ranks` owns: whole grains, cut by share() of the bucket's
  // grains.
  [[nodiscard]] Range owned_by(int rank, int ranks) const;
  [[nodiscard]] Range owned_grains_by(int rank, int ranks) const;

  // This rank's own division, and the elements whose slots it holds (owned, or all when not
  // sharded).
  [[nodiscard]] Range owned() const {
    return owned_;
  }

  [[nodiscard]] Range held() const {
    return shape_.is_sharded ? owned_ : Range{0, elements_};
  }

  [[nodiscard]] View value() const;       // (1, elements)
  [[nodiscard]] View exp_avg() const;     // (1, held)
  [[nodiscard]] View exp_avg_sq() const;  // (1, held)

  [[nodiscard]] GradientLane& lane(int i) {
    return lanes_[static_cast<std::size_t>(i)];
  }

  [[nodiscard]] int lanes() const {
    return static_cast<int>(lanes_.size());
  }

  // The gradient (rows, cols) of a part for the data shard in work, and whether to add or to write:
  // the first micro-batch writes, the others add, so that nothing is zeroed.
  [[nodiscard]] View gradient(int lane, const Part& part) const;
  [[nodiscard]] kernels::Accumulate touch(int lane, const Part& part);

  // Columns of a leaf row: all replicated parameters' leaves side by side.
  [[nodiscard]] dim_t leaf_width() const {
    return leaf_width_;
  }

  // (1, leaf_elements) of local tensor shard i; always added to.
  [[nodiscard]] View leaf(int lane, const Part& part, dim_t i) const;
  // (1, leaf_width) of local tensor shard i.
  [[nodiscard]] View leaf_row(int lane, dim_t i) const;

  // Draws every value by (seed, uid, coordinates).
  void initialise(std::uint64_t seed);
  // Rewrites the panels of every matrix from its values.
  void pack(Stream& stream);

  // Bytes of values and slots: what a move of this bucket costs.
  [[nodiscard]] std::size_t state_bytes() const;

  void check_invariants() const;

  // Names are positions: they follow the entity when layers are inserted before it.
  void rename(const model::Entity& entity);

 private:
  void lay_out(const Partition& partition);
  void add_part(const model::ParameterSpec& p, dim_t shards, dim_t shard);

  BucketShape shape_;
  std::vector<Part> parts_;
  Range shards_;
  dim_t elements_ = 0;
  dim_t grains_ = 0;
  dim_t leaf_width_ = 0;
  Range replicated_;
  Range owned_;
  Buffer value_;
  Buffer panels_;
  Buffer exp_avg_;
  Buffer exp_avg_sq_;
  std::vector<GradientLane> lanes_;
};

}  // namespace cambium::params
