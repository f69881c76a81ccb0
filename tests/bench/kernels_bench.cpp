// tests/bench/kernels_bench.cpp — speed of all kernels but products, one JSON line a case.
// Run it on an idle machine: kernels_bench [SECONDS_PER_CASE [THREADS [NAME]]]; the fastest and the
// median run are printed.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fmt/core.h>
#include <string>
#include <vector>

#include "base/philox.hpp"
#include "device/buffer.hpp"
#include "kernels/activation.hpp"
#include "kernels/adamw.hpp"
#include "kernels/attention.hpp"
#include "kernels/bias.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"

namespace cambium::kernels {
namespace {

using cpu::Isa;
using device::Backend;
using device::Buffer;
using device::DType;

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

double processor_time() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Bench {
  double seconds;
  int threads;
  Isa isa;
  std::string only;
  Stream stream{Backend::cpu, threads};

  // `flops` of arithmetic and `bytes` of memory a call; 0 where it says nothing.
  template <typename F>
  void time(const std::string& name, double flops, double bytes, F&& work) {
    if (!only.empty() && name.find(only) == std::string::npos) {
      return;
    }
    work();
    std::vector<double> t;
    double least = 1e30;
    const double begin = now();
    while (t.size() < 5 || now() - begin < seconds) {
      const double start = now();
      const double used = processor_time();
      work();
      least = std::min(least, (processor_time() - used) / threads);
      t.push_back(now() - start);
    }
    std::sort(t.begin(), t.end());
    fmt::print(
        R"({{"name":"{}","isa":"{}","threads":{},"min_us":{:.2f},"median_us":{:.2f},"cpu_us":{:.2f},"runs":{})",
        name,
        cpu::name_of(isa),
        threads,
        1e6 * t.front(),
        1e6 * t[t.size() / 2],
        1e6 * least,
        t.size());
    if (flops > 0) {
      fmt::print(R"(,"gflops":{:.1f})", 1e-9 * flops / least);
    }
    if (bytes > 0) {
      fmt::print(R"(,"gbytes":{:.1f})", 1e-9 * bytes / least);
    }
    fmt::print("}}\n");
  }
};

// (rows, cols) of numbers between -1 and 1.
struct Operand {
  Buffer buffer;
  View view;

  Operand(dim_t rows, dim_t cols, DType dtype = DType::f32)
      : buffer(static_cast<std::size_t>(rows * cols) * device::bytes_of(dtype)),
        view(buffer.view(dtype, rows, cols)) {
    const RandomStream numbers(static_cast<std::uint64_t>(rows * cols), Purpose::probe);
    for (dim_t i = 0; i < rows * cols; ++i) {
      const auto value =
          static_cast<float>(numbers.uniform_at(static_cast<std::uint64_t>(i)) * 2 - 1);
      if (dtype == DType::bf16) {
        view.as<device::BFloat16>()[i] = device::round_to_bf16(value);
      } else {
        view.as<float>()[i] = value;
      }
    }
  }
};

// Behind the shape in a case's name; f32 says nothing.
std::string suffix_of(DType dtype) {
  return dtype == DType::bf16 ? " bf16" : "";
}

double bytes_of_matrix(DType dtype, dim_t rows, dim_t cols) {
  return static_cast<double>(device::bytes_of(dtype)) * static_cast<double>(rows * cols);
}

void bench_attention(
    Bench& bench, dim_t batch, dim_t tokens, dim_t heads, dim_t kv_heads, dim_t width, DType t) {
  const dim_t rows = batch * tokens;
  Operand q(rows, heads * width, t), k(rows, kv_heads * width, t), v(rows, kv_heads * width, t);
  Operand out(rows, heads * width, t), dout(rows, heads * width, t), dq(rows, heads * width, t);
  Operand dk(rows, kv_heads * width, t), dv(rows, kv_heads * width, t), lse(batch * heads, tokens);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const auto pairs = static_cast<double>(tokens * (tokens + 1) / 2);
  const double flops = static_cast<double>(batch * heads * 4 * width) * pairs;
  const std::string shape =
      fmt::format("b{} t{} h{}/{} e{}", batch, tokens, heads, kv_heads, width) + suffix_of(t);
  bench.time("attention_forward " + shape, flops, 0, [&] {
    attention_forward(
        bench.stream,
        {q.view, k.view, v.view, out.view, lse.view, batch, heads, kv_heads, width, scale});
  });
  bench.time("attention_backward " + shape, 2.5 * flops, 0, [&] {
    attention_backward(bench.stream,
                       {q.view,
                        k.view,
                        v.view,
                        out.view,
                        lse.view,
                        dout.view,
                        dq.view,
                        dk.view,
                        dv.view,
                        batch,
                        heads,
                        kv_heads,
                        width,
                        scale});
  });
}

void bench_rows(Bench& bench, dim_t rows, dim_t width, dim_t ffn, DType t) {
  Operand x(rows, width, t), y(rows, width, t), dy(rows, width, t), dx(rows, width, t);
  Operand gain(1, width), inv_rms(1, rows), dgain(1, width);
  const double matrix = bytes_of_matrix(t, rows, width);
  const std::string shape = fmt::format("{} x {}", rows, width) + suffix_of(t);
  bench.time("rms_norm_forward " + shape, 0, 2 * matrix, [&] {
    rms_norm_forward(bench.stream, {x.view, gain.view, y.view, inv_rms.view, width, 1e-5});
  });
  bench.time("rms_norm_backward_input " + shape, 0, 4 * matrix, [&] {
    rms_norm_backward_input(bench.stream,
                            {dy.view, x.view, gain.view, inv_rms.view, y.view, dx.view, width});
  });
  bench.time("rms_norm_backward_weight " + shape, 0, 2 * matrix, [&] {
    rms_norm_backward_weight(bench.stream, {dy.view, x.view, inv_rms.view, dgain.view});
  });
  bench.time("add_into " + shape, 0, 3 * matrix, [&] { add_into(bench.stream, y.view, x.view); });
  if (width % 64 == 0 && rows % 4 == 0) {
    Operand cosine(rows / 4, 32), sine(rows / 4, 32);
    bench.time("rope " + shape, 0, 2 * matrix, [&] {
      rope(bench.stream, {x.view, cosine.view, sine.view, 4, 64}, Turn::forward);
    });
  }
  Operand gate(rows, ffn, t), up(rows, ffn, t), hidden(rows, ffn, t), dgate(rows, ffn, t),
      dup(rows, ffn, t);
  const double wide = bytes_of_matrix(t, rows, ffn);
  const std::string ffn_shape = fmt::format("{} x {}", rows, ffn) + suffix_of(t);
  bench.time("swiglu_forward " + ffn_shape, 0, 3 * wide, [&] {
    swiglu_forward(bench.stream, {gate.view, up.view, hidden.view});
  });
  bench.time("swiglu_backward " + ffn_shape, 0, 5 * wide, [&] {
    swiglu_backward(bench.stream, {hidden.view, gate.view, up.view, dgate.view, dup.view});
  });
}

// What GPT-2 has where Llama has the above.
void bench_gpt2_rows(Bench& bench, dim_t rows, dim_t width, dim_t ffn, DType t) {
  Operand x(rows, width, t), y(rows, width, t), dy(rows, width, t), dx(rows, width, t);
  Operand gain(1, width), bias(1, width), mean(1, rows), inv_std(1, rows);
  Operand dgain(1, width), dbias(1, width);
  const double matrix = bytes_of_matrix(t, rows, width);
  const std::string shape = fmt::format("{} x {}", rows, width) + suffix_of(t);
  bench.time("layer_norm_forward " + shape, 0, 2 * matrix, [&] {
    layer_norm_forward(
        bench.stream, {x.view, gain.view, bias.view, y.view, mean.view, inv_std.view, width, 1e-5});
  });
  bench.time("layer_norm_backward_input " + shape, 0, 4 * matrix, [&] {
    layer_norm_backward_input(
        bench.stream,
        {dy.view, x.view, gain.view, mean.view, inv_std.view, y.view, dx.view, width});
  });
  bench.time("layer_norm_backward_weight " + shape, 0, 2 * matrix, [&] {
    layer_norm_backward_weight(bench.stream,
                               {dy.view, x.view, mean.view, inv_std.view, dgain.view, dbias.view});
  });
  bench.time("bias_backward " + shape, 0, matrix, [&] {
    bias_backward(bench.stream, {dy.view, dbias.view});
  });
  Operand up(rows, ffn, t), hidden(rows, ffn, t), dup(rows, ffn, t);
  const double wide = bytes_of_matrix(t, rows, ffn);
  const std::string ffn_shape = fmt::format("{} x {}", rows, ffn) + suffix_of(t);
  bench.time("gelu_tanh_forward " + ffn_shape, 0, 2 * wide, [&] {
    gelu_tanh_forward(bench.stream, {up.view, hidden.view});
  });
  bench.time("gelu_tanh_backward " + ffn_shape, 0, 3 * wide, [&] {
    gelu_tanh_backward(bench.stream, {hidden.view, up.view, dup.view});
  });
}

void bench_cross_entropy(Bench& bench, dim_t rows, dim_t vocabulary) {
  Operand logits(rows, vocabulary), statistics(3, rows), maximum(1, rows), sum(1, rows),
      loss(1, rows);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(rows), 7);
  const View targets = device::view_of(ids.data(), rows);
  const double bytes = 4.0 * static_cast<double>(rows * vocabulary);
  const std::string shape = fmt::format("{} x {}", rows, vocabulary);
  bench.time("cross_entropy_statistics " + shape, 0, bytes, [&] {
    cross_entropy_statistics(bench.stream, {logits.view, targets, 0, statistics.view});
  });
  bench.time("cross_entropy_combine " + shape, 0, 0, [&] {
    cross_entropy_combine(bench.stream,
                          {statistics.view, 1, maximum.view, sum.view, loss.view, targets});
  });
  bench.time("cross_entropy_gradient " + shape, 0, 2 * bytes, [&] {
    cross_entropy_gradient(bench.stream,
                           {logits.view, targets, maximum.view, sum.view, {}, 0, 1e-3});
  });
  Operand narrow(rows, vocabulary, DType::bf16);
  bench.time("cross_entropy_gradient " + shape + suffix_of(DType::bf16), 0, 1.5 * bytes, [&] {
    cross_entropy_gradient(
        bench.stream, {logits.view, targets, maximum.view, sum.view, {}, 0, 1e-3, narrow.view});
  });
}

void bench_adamw(Bench& bench, dim_t n) {
  Operand value(1, n), gradient(1, n), m(1, n), v(1, n);
  for (dim_t i = 0; i < n; ++i) {
    v.view.as<float>()[i] = std::fabs(v.view.as<float>()[i]);
  }
  std::vector<double> squares(static_cast<std::size_t>(ceil_div(n, 768)));
  const auto bytes = 4.0 * static_cast<double>(n);
  bench.time(fmt::format("adamw_update {}", n), 0, 7 * bytes, [&] {
    adamw_update(bench.stream,
                 {value.view, gradient.view, m.view, v.view, 1.0, 1e-3, 0.9, 0.95, 1e-8, 0.1, 10});
  });
  bench.time(fmt::format("grain_squares {} by 768", n), 0, bytes, [&] {
    grain_squares(
        bench.stream,
        {gradient.view, 768, device::view_of(squares.data(), static_cast<dim_t>(squares.size()))});
  });
}

void run(double seconds, int threads, const std::string& only) {
  for (const Isa isa : {Isa::avx512, Isa::avx2}) {
    if (!cpu::is_supported(isa)) {
      continue;
    }
    cpu::select_isa(isa);
    Bench bench{seconds, threads, isa, only};
    for (const DType dtype : {DType::f32, DType::bf16}) {
      bench_attention(bench, 4, 256, 12, 12, 64, dtype);
      bench_attention(bench, 1, 1024, 8, 2, 128, dtype);
      bench_attention(bench, 4, 32, 4, 2, 16, dtype);
      bench_rows(bench, 1024, 768, 3072, dtype);
      bench_gpt2_rows(bench, 1024, 768, 3072, dtype);
      bench_rows(bench, 64, 64, 160, dtype);
    }
    bench_cross_entropy(bench, 256, 50257);
    bench_adamw(bench, 1 << 24);
    bench_adamw(bench, 4096);
  }
}

}  // namespace
}  // namespace cambium::kernels

int main(int argc, char** argv) {
  cambium::kernels::run(argc > 1 ? std::atof(argv[1]) : 0.3,
                        argc > 2 ? std::atoi(argv[2]) : 1,
                        argc > 3 ? argv[3] : "");
  return 0;
}
