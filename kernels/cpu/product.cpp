// kernels/cpu/product.cpp — the three products as one blocked algorithm over packed tiles.
//
// All three are out[i,j] = sum over s of left(i,s) * right(s,j):
//   forward          i = m, s = k, j = n    left = x      right = panels of W
//   backward_input   i = m, s = n, j = k    left = dy     right = transposed panels of W
//   backward_weight  i = n, s = m, j = k    left = dy^T   right = x, packed into panels here
// Blocks of the sum are walked in ascending order and a chain continues through memory from one to
// the next, so blocking, threads and tile shapes leave every bit as it is. The sum is counted in
// units of the tiles: one f32, or a pair of bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/product.hpp"

#include <algorithm>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/product_pack.hpp"
#include "kernels/cpu/product_tile.hpp"

namespace cambium::kernels::cpu {
namespace {

using device::DType;

// Blocks that stay in L2 together (1 MiB on Zen 4): right 256 x 480 (480 KiB), left 72 x 256 (72
// KiB). 72 is a multiple of both tiles' rows.
constexpr dim_t kSumBlock = 256;
constexpr dim_t kRowBlock = 72;
constexpr dim_t kPanelGroup = 10;
// Below this much work a second thread costs more than it gives.
constexpr dim_t kSerialFlops = 1'000'000;

struct Product {
  dim_t rows;
  dim_t columns;
  dim_t sum;
  View left;
  bool left_is_transposed;  // left(i,s) = left[s,i] instead of left[i,s]
  View panels;              // right as panels, or empty
  View right;               // else right(s,j) = right[s,j]
  View out;
  View residual;
  View bias;
  bool continues;  // chains start from the values in `out`

  [[nodiscard]] bool is_bf16() const {
    return left.dtype == DType::bf16;
  }

  [[nodiscard]] dim_t units() const {
    return is_bf16() ? (sum + 1) / 2 : sum;
  }

  // The elements of the sum in a range of units.
  [[nodiscard]] Range elements_of(Range units) const {
    return is_bf16() ? Range{2 * units.begin, std::min(sum, 2 * units.end)} : units;
  }
};

// One thread's memory.
struct Scratch {
  float* left;
  float* right;    // null where the panels exist already
  float* partial;  // null where unfinished chains may wait in `out`
};

constexpr dim_t kLeftElements = kRowBlock * kSumBlock;
constexpr dim_t kRightElements = kPanelGroup * kPanelWidth * kSumBlock;
constexpr dim_t kPartialStride = kPanelGroup * kPanelWidth;
constexpr dim_t kPartialElements = kRowBlock * kPartialStride;

// An alias of `out` as residual must keep its value until its chain has ended, and bf16 cannot hold
// an unfinished one.
bool needs_partial(const Product& p) {
  return (!p.residual.empty() || p.out.dtype == DType::bf16) && p.units() > kSumBlock;
}

Scratch take_scratch(Stream& stream, int thread, const Product& p) {
  const dim_t right = p.panels.empty() ? kRightElements : 0;
  const dim_t partial = needs_partial(p) ? kPartialElements : 0;
  const auto bytes = static_cast<std::size_t>(kLeftElements + right + partial) * sizeof(float);
  auto* base = static_cast<float*>(stream.scratch(thread, bytes));
  return {base,
          right == 0 ? nullptr : base + kLeftElements,
          partial == 0 ? nullptr : base + kLeftElements + right};
}

template <typename T>
T* at(const View& v, dim_t row, dim_t col) {
  return static_cast<T*>(v.data) + row * v.stride + col;
}

void* address(const View& v, dim_t row, dim_t col) {
  return static_cast<char*>(v.data) +
         static_cast<std::size_t>(row * v.stride + col) * device::bytes_of(v.dtype);
}

const TileKernel& active_tile(bool is_bf16) {
  const bool is_wide = active_isa() == Isa::avx512;
  if (is_bf16) {
    return is_wide && has_exact_bf16_instruction() ? tile_bf16_avx512() : tile_bf16_avx2();
  }
  return is_wide ? tile_avx512() : tile_avx2();
}

// Rows [row, row + count) of `v`, columns `sum`, as a block of columns; or rows `sum`, columns
// [column, column + count).
void pack_rows(const View& v, dim_t row, dim_t count, Range sum, float* to, dim_t width) {
  if (v.dtype == DType::bf16) {
    pack_transposed(at<BFloat16>(v, row, sum.begin), v.stride, count, sum.size(), to, width);
  } else {
    pack_transposed(at<float>(v, row, sum.begin), v.stride, count, sum.size(), to, width);
  }
}

void pack_columns(const View& v, dim_t column, dim_t count, Range sum, float* to, dim_t width) {
  if (v.dtype == DType::bf16) {
    pack_copied(at<BFloat16>(v, sum.begin, column), v.stride, count, sum.size(), to, width);
  } else {
    pack_copied(at<float>(v, sum.begin, column), v.stride, count, sum.size(), to, width);
  }
}

// The part of a product that one thread computes at a time.
class Block {
 public:
  Block(const Product& product,
        const TileKernel& kernel,
        const Scratch& scratch,
        Range rows,
        Range panels)
      : p_(product), kernel_(kernel), scratch_(scratch), rows_(rows), panels_(panels) {}

  void run() {
    dim_t begin = 0;
    do {  // once even for an empty sum, which still writes its zeros
      sum_ = {begin, std::min(p_.units(), begin + kSumBlock)};
      pack_right();
      for (dim_t row = rows_.begin; row < rows_.end; row += kRowBlock) {
        run_rows({row, std::min(rows_.end, row + kRowBlock)});
      }
      begin = sum_.end;
    } while (begin < p_.units());
  }

 private:
  void pack_right() {
    if (scratch_.right == nullptr) {
      return;
    }
    for (dim_t panel = panels_.begin; panel < panels_.end; ++panel) {
      const dim_t column = panel * kPanelWidth;
      pack_columns(p_.right,
                   column,
                   std::min(kPanelWidth, p_.columns - column),
                   p_.elements_of(sum_),
                   scratch_.right + (panel - panels_.begin) * kPanelWidth * kSumBlock,
                   kPanelWidth);
    }
  }

  [[nodiscard]] const float* right_of(dim_t panel) const {
    if (scratch_.right != nullptr) {
      return scratch_.right + (panel - panels_.begin) * kPanelWidth * kSumBlock;
    }
    return static_cast<const float*>(p_.panels.data) +
           (panel * p_.units() + sum_.begin) * kPanelWidth;
  }

  void pack_left(Range rows) {
    for (dim_t row = rows.begin; row < rows.end; row += kernel_.rows) {
      const dim_t count = std::min<dim_t>(kernel_.rows, rows.end - row);
      float* to = left_of(row, rows);
      if (p_.left_is_transposed) {
        pack_columns(p_.left, row, count, p_.elements_of(sum_), to, count);
      } else {
        pack_rows(p_.left, row, count, p_.elements_of(sum_), to, count);
      }
    }
  }

  [[nodiscard]] float* left_of(dim_t row, Range rows) const {
    return scratch_.left + (row - rows.begin) * sum_.size();
  }

  void run_rows(Range rows) {
    pack_left(rows);
    for (dim_t panel = panels_.begin; panel < panels_.end; ++panel) {
      const dim_t edge = std::min(p_.columns, (panel + 1) * kPanelWidth);
      for (dim_t column = panel * kPanelWidth; column < edge; column += kernel_.columns) {
        const auto columns = static_cast<int>(std::min<dim_t>(kernel_.columns, edge - column));
        const float* right = right_of(panel) + (column - panel * kPanelWidth);
        for (dim_t row = rows.begin; row < rows.end; row += kernel_.rows) {
          const dim_t count = std::min<dim_t>(kernel_.rows, rows.end - row);
          kernel_.functions[count - 1](
              sum_.size(), left_of(row, rows), right, columns, output_of(row, column));
        }
      }
    }
  }

  [[nodiscard]] TileOutput output_of(dim_t row, dim_t column) const {
    const bool first = sum_.begin == 0;
    const bool last = sum_.end == p_.units();
    void* out = address(p_.out, row, column);
    void* waiting = out;
    dim_t waiting_stride = p_.out.stride;
    if (scratch_.partial != nullptr) {
      waiting = scratch_.partial + (row - rows_.begin) * kPartialStride + column -
                panels_.begin * kPanelWidth;
      waiting_stride = kPartialStride;
    }
    const void* start = p_.continues ? out : nullptr;
    const bool has_bias = last && !p_.bias.empty();
    const bool has_residual = last && !p_.residual.empty();
    return {.start = static_cast<const float*>(first ? start : waiting),
            .start_stride = first ? p_.out.stride : waiting_stride,
            .bias = has_bias ? at<float>(p_.bias, 0, column) : nullptr,
            .add = has_residual ? address(p_.residual, row, column) : nullptr,
            .add_stride = p_.residual.stride,
            .add_is_bf16 = p_.residual.dtype == DType::bf16,
            .out_is_bf16 = last && p_.out.dtype == DType::bf16,
            .out = last ? out : waiting,
            .out_stride = last ? p_.out.stride : waiting_stride};
  }

  const Product& p_;
  const TileKernel& kernel_;
  Scratch scratch_;
  Range rows_;
  Range panels_;
  Range sum_;
};

// Rows and panels of one thread, cut into blocks.
void run_share(Stream& stream,
               int thread,
               const Product& p,
               const TileKernel& kernel,
               Range rows,
               Range panels) {
  set_float_mode();
  const Scratch scratch = take_scratch(stream, thread, p);
  const dim_t row_step = scratch.partial == nullptr ? rows.size() : kRowBlock;
  for (dim_t panel = panels.begin; panel < panels.end; panel += kPanelGroup) {
    const Range group{panel, std::min(panels.end, panel + kPanelGroup)};
    for (dim_t row = rows.begin; row < rows.end; row += row_step) {
      Block(p, kernel, scratch, {row, std::min(rows.end, row + row_step)}, group).run();
    }
  }
}

// How many of the threads share the rows; the others share the panels. The largest share decides
// the time; among equals, cutting rows is better, since each thread packs what it owns of `left`.
dim_t threads_along_rows(dim_t threads, dim_t row_blocks, dim_t panels) {
  dim_t best = 1;
  dim_t best_cost = ceil_div(panels, threads) * row_blocks;
  for (dim_t along = 2; along <= threads; ++along) {
    if (threads % along == 0) {
      const dim_t cost = ceil_div(row_blocks, along) * ceil_div(panels, threads / along);
      if (cost <= best_cost) {
        best = along;
        best_cost = cost;
      }
    }
  }
  return best;
}

void run_product(Stream& stream, const Product& p) {
  if (p.rows == 0 || p.columns == 0) {
    return;
  }
  const TileKernel& kernel = active_tile(p.is_bf16());
  const dim_t row_blocks = ceil_div(p.rows, kernel.rows);
  const dim_t panels = ceil_div(p.columns, kPanelWidth);
  const dim_t threads = stream.pool().size();
  if (threads == 1 || 2 * p.rows * p.columns * p.sum < kSerialFlops) {
    run_share(stream, 0, p, kernel, {0, p.rows}, {0, panels});
    return;
  }
  const dim_t along_rows = threads_along_rows(threads, row_blocks, panels);
  const dim_t along_panels = threads / along_rows;
  stream.pool().run([&](int thread) {
    const Range blocks = share(row_blocks, along_rows, thread / along_panels);
    const Range rows{blocks.begin * kernel.rows, std::min(p.rows, blocks.end * kernel.rows)};
    const Range own_panels = share(panels, along_panels, thread % along_panels);
    if (rows.size() > 0 && own_panels.size() > 0) {
      run_share(stream, thread, p, kernel, rows, own_panels);
    }
  });
}

using Pack = void (*)(const float*, dim_t, dim_t, dim_t, float*, dim_t);
constexpr Pack kPackTransposed = pack_transposed;
constexpr Pack kPackCopied = pack_copied;

// Runs work(range) over all panels, on the pool when there is enough to move.
template <typename F>
void for_panels(Stream& stream, dim_t panels, dim_t elements, F&& work) {
  constexpr dim_t kSerialElements = 32768;
  if (elements < kSerialElements) {
    work(Range{0, panels});
  } else {
    stream.pool().split(panels, [&](int, Range range) { work(range); });
  }
}

}  // namespace

// One walk over the weight fills both kinds of panels: the 48 rows that are one forward panel are
// 48 sum indices of every transposed panel, and still in the cache.
void pack_weight(Stream& stream, const Weight& w) {
  const dim_t n = w.plain.rows;
  const dim_t k = w.plain.cols;
  const dim_t stride = w.plain.stride;
  const dim_t paired = w.forward.dtype == DType::bf16 || w.transposed.dtype == DType::bf16 ? 2 : 1;
  const Pack rows_to_columns = paired == 2 ? pack_transposed_rounded : kPackTransposed;
  const Pack columns_to_columns = paired == 2 ? pack_copied_rounded : kPackCopied;
  for_panels(stream, ceil_div(n, kPanelWidth), n * k, [&](Range range) {
    for (dim_t panel = range.begin; panel < range.end; ++panel) {
      const dim_t row = panel * kPanelWidth;
      const dim_t rows = std::min(kPanelWidth, n - row);
      if (!w.forward.empty()) {
        rows_to_columns(at<float>(w.plain, row, 0),
                        stride,
                        rows,
                        k,
                        static_cast<float*>(w.forward.data) + row * ceil_div(k, paired),
                        kPanelWidth);
      }
      for (dim_t column = 0; column < k && !w.transposed.empty(); column += kPanelWidth) {
        columns_to_columns(at<float>(w.plain, row, column),
                           stride,
                           std::min(kPanelWidth, k - column),
                           rows,
                           static_cast<float*>(w.transposed.data) + column * ceil_div(n, paired) +
                               row / paired * kPanelWidth,
                           kPanelWidth);
      }
    }
  });
}

void product_forward(Stream& stream, const ProductForward& a) {
  run_product(stream,
              {.rows = a.y.rows,
               .columns = a.y.cols,
               .sum = a.x.cols,
               .left = a.x,
               .left_is_transposed = false,
               .panels = a.w.forward,
               .right = {},
               .out = a.y,
               .residual = a.residual,
               .bias = a.bias,
               .continues = a.accumulate == Accumulate::yes});
}

void product_backward_input(Stream& stream, const ProductBackwardInput& a) {
  run_product(stream,
              {.rows = a.dx.rows,
               .columns = a.dx.cols,
               .sum = a.dy.cols,
               .left = a.dy,
               .left_is_transposed = false,
               .panels = a.w.transposed,
               .right = {},
               .out = a.dx,
               .residual = {},
               .bias = {},
               .continues = a.accumulate == Accumulate::yes});
}

void product_backward_weight(Stream& stream, const ProductBackwardWeight& a) {
  run_product(stream,
              {.rows = a.dw.rows,
               .columns = a.dw.cols,
               .sum = a.dy.rows,
               .left = a.dy,
               .left_is_transposed = true,
               .panels = {},
               .right = a.x,
               .out = a.dw,
               .residual = {},
               .bias = {},
               .continues = a.accumulate == Accumulate::yes});
}

}  // namespace cambium::kernels::cpu
