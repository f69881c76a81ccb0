// tests/bench/product_bench.cpp — speed of the products beside the machine's measured peak.
// One JSON line a case, f32 and bf16. Run it on an idle machine: product_bench [SECONDS_PER_CASE
// [M N K]].
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/core.h>
#include <string>
#include <vector>

#include "kernels/cpu/isa.hpp"
#include "kernels/product.hpp"
#include "tests/bench/peak.hpp"

namespace cambium::kernels {
namespace {

using cpu::Isa;
using device::Backend;
using device::DType;

using bench::now;

struct Times {
  double min;
  double median;
  double max;
  int runs;
};

// At least 5 runs and `seconds` of them, after one that warms caches and scratch.
template <typename F>
Times time_of(double seconds, F&& work) {
  work();
  std::vector<double> t;
  const double begin = now();
  while (t.size() < 5 || now() - begin < seconds) {
    const double start = now();
    work();
    t.push_back(now() - start);
  }
  std::sort(t.begin(), t.end());
  return {t.front(), t[t.size() / 2], t.back(), static_cast<int>(t.size())};
}

struct Shape {
  dim_t m;
  dim_t n;
  dim_t k;
};

// Memory as the program has it: aligned, in huge pages where they are given.
device::Buffer some_values(dim_t n) {
  device::Buffer buffer(static_cast<std::size_t>(n) * sizeof(float));
  auto* const values = static_cast<float*>(buffer.data());
  std::uint32_t state = 1;
  for (dim_t i = 0; i < n; ++i) {
    state = state * 1664525U + 1013904223U;
    values[i] = static_cast<float>(state >> 8) / 16777216.0F - 0.5F;
  }
  return buffer;
}

// Operands of one shape. Buffers have room for f32; in bf16 their values are whatever the bits say
// (ordinary numbers all the same).
struct Operands {
  Operands(const Shape& s, DType d)
      : shape(s),
        dtype(d),
        x(some_values(s.m * s.k)),
        w(some_values(s.n * s.k)),
        y(some_values(s.m * s.n)),
        dx(some_values(s.m * s.k)),
        dw(some_values(s.n * s.k)),
        forward(some_values(packed_elements(s.n, s.k, d))),
        transposed(some_values(packed_elements(s.k, s.n, d))) {
    if (dtype == DType::bf16) {
      for (device::Buffer* buffer : {&x, &y}) {
        narrow(*buffer);
      }
    }
  }

  // The first half of the values as bf16, so that no bit pattern is a NaN.
  static void narrow(device::Buffer& buffer) {
    const auto* from = static_cast<const float*>(buffer.data());
    auto* to = static_cast<device::BFloat16*>(buffer.data());
    for (std::size_t i = 0; i < buffer.bytes() / sizeof(float); ++i) {
      to[i] = device::round_to_bf16(from[i]);
    }
  }

  [[nodiscard]] Weight weight() const {
    return {w.view(DType::f32, shape.n, shape.k),
            forward.view(dtype, 1, packed_elements(shape.n, shape.k, dtype)),
            transposed.view(dtype, 1, packed_elements(shape.k, shape.n, dtype))};
  }

  [[nodiscard]] View x_view() const {
    return x.view(dtype, shape.m, shape.k);
  }

  [[nodiscard]] View y_view() const {
    return y.view(dtype, shape.m, shape.n);
  }

  [[nodiscard]] View dx_view() const {
    return dx.view(dtype, shape.m, shape.k);
  }

  [[nodiscard]] View dw_view() const {
    return dw.view(DType::f32, shape.n, shape.k);
  }

  Shape shape;
  DType dtype;
  device::Buffer x;
  device::Buffer w;
  device::Buffer y;
  device::Buffer dx;
  device::Buffer dw;
  device::Buffer forward;
  device::Buffer transposed;
};

class Report {
 public:
  Report(Isa isa, Stream& stream, double seconds, DType dtype)
      : isa_(isa),
        dtype_(dtype),
        threads_(stream.pool().size()),
        seconds_(seconds),
        peak_(bench::peak_flops(stream.pool(), isa)) {}

  template <typename F>
  void add(const char* name, const Shape& s, F&& work) const {
    const Times t = time_of(seconds_, work);
    const double flops = 2.0 * static_cast<double>(s.m * s.n * s.k);
    fmt::print(
        "{{\"name\": \"{}\", \"m\": {}, \"n\": {}, \"k\": {}, \"dtype\": \"{}\", \"backend\": "
        "\"cpu\", "
        "\"isa\": \"{}\", \"threads\": {}, \"min_ms\": {:.4f}, \"median_ms\": {:.4f}, \"max_ms\": "
        "{:.4f}, "
        "\"runs\": {}, \"gflops\": {:.1f}, \"best_gflops\": {:.1f}, \"of_peak\": {:.3f}}}\n",
        name,
        s.m,
        s.n,
        s.k,
        dtype_ == DType::bf16 ? "bf16" : "f32",
        name_of(isa_),
        threads_,
        t.min * 1e3,
        t.median * 1e3,
        t.max * 1e3,
        t.runs,
        flops / t.median / 1e9,
        flops / t.min / 1e9,
        flops / t.median / peak_);
  }

 private:
  Isa isa_;
  DType dtype_;
  int threads_;
  double seconds_;
  double peak_;  // of all threads, fma of f32
};

void measure(const Shape& s, Stream& stream, const Report& report, DType dtype) {
  const Operands o(s, dtype);
  const Weight w = o.weight();
  pack_weight(stream, w);
  // The backward passes first: forward with a residual makes y grow from run to run.
  report.add("product_backward_input", s, [&] {
    product_backward_input(stream, {.dy = o.y_view(), .w = w, .dx = o.dx_view()});
  });
  report.add("product_backward_weight", s, [&] {
    product_backward_weight(stream, {.dy = o.y_view(), .x = o.x_view(), .dw = o.dw_view()});
  });
  report.add("product_forward", s, [&] {
    product_forward(stream, {.x = o.x_view(), .w = w, .y = o.y_view()});
  });
  report.add("product_forward_residual", s, [&] {
    product_forward(stream, {.x = o.x_view(), .w = w, .y = o.y_view(), .residual = o.y_view()});
  });
  const Times t = time_of(0.05, [&] { pack_weight(stream, w); });
  fmt::print(
      "{{\"name\": \"pack_weight\", \"n\": {}, \"k\": {}, \"threads\": {}, \"median_ms\": {:.4f}, "
      "\"elements_per_ns\": {:.2f}}}\n",
      s.n,
      s.k,
      stream.pool().size(),
      t.median * 1e3,
      static_cast<double>(s.n * s.k) / t.median / 1e9);
}

void measure_isa(Isa isa, double seconds, const std::vector<Shape>& shapes) {
  cpu::select_isa(isa);
  for (const int threads : {1, 2}) {
    Stream stream(Backend::cpu, threads);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Report report(isa, stream, seconds, dtype);
      for (const Shape& s : shapes) {
        measure(s, stream, report, dtype);
      }
    }
  }
}

}  // namespace
}  // namespace cambium::kernels

int main(int argc, char** argv) {
  using namespace cambium::kernels;
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.3;
  std::vector<Shape> shapes = {{1024, 3072, 768},
                               {1024, 768, 3072},
                               {512, 384, 128},
                               {64, 128, 128},
                               {16, 64, 32},
                               {1, 768, 768}};
  if (argc > 4) {
    shapes = {{std::atoll(argv[2]), std::atoll(argv[3]), std::atoll(argv[4])}};
  }
  for (const cpu::Isa isa : {cpu::Isa::avx512, cpu::Isa::avx2}) {
    if (cpu::is_supported(isa)) {
      measure_isa(isa, seconds, shapes);
    }
  }
}
