// tests/bench/step_bench.cpp — one whole training step (forward, backward, norm, clip, AdamW), and
// where its time goes. One JSON line. Alone or under mpirun:
//   step_bench SHAPE [THREADS [STEPS [TENSOR PIPELINE DATA]]]
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fmt/format.h>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "base/philox.hpp"
#include "engine/engine.hpp"
#include "tests/bench/peak.hpp"

namespace cambium::bench {
namespace {

using device::Work;
using kernels::cpu::Isa;

struct Shape {
  const char* name;
  dim_t layers, width, heads, kv_heads, ffn, vocabulary;
  dim_t positions, micro_batch, global_batch;
  int logical_tensor, logical_data;
};

// tiny and gpt2 are the peers' (a GELU block of 4 d with two matrices). SwiGLU has three matrices,
// so that its width is 8/3 d for as many FLOPs: 682.7 for tiny, rounded up to 688 (0.3 % more work
// a layer than the peer), 2048 for gpt2.
constexpr Shape kShapes[] = {
    {"tiny", 4, 256, 8, 8, 688, 8192, 256, 8, 8, 1, 1},
    {"gpt2", 12, 768, 12, 12, 2048, 50304, 256, 4, 4, 1, 1},
    {"quickstart", 4, 128, 8, 4, 384, 258, 128, 4, 32, 2, 2},
};

const Shape& shape_of(const std::string& name) {
  for (const Shape& s : kShapes) {
    if (name == s.name) {
      return s;
    }
  }
  throw Error(Code::usage, "step_bench: shape " + name + ": expected tiny, gpt2 or quickstart");
}

double processor_time() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::string processor_name() {
  std::string name = "unknown";
  if (std::FILE* f = std::fopen("/proc/cpuinfo", "r")) {
    char line[256];
    while (std::fgets(line, sizeof(line), f) != nullptr) {
      const std::string text = line;
      if (text.rfind("model name", 0) == 0 && text.find(": ") != std::string::npos) {
        name = text.substr(text.find(": ") + 2);
        name.erase(name.find_last_not_of(" \n") + 1);
        break;
      }
    }
    std::fclose(f);
  }
  return name;
}

model::Spec spec_of(const Shape& s) {
  config::ModelConfig c;
  c.hidden_size = s.width;
  c.intermediate_size = s.ffn;
  c.num_hidden_layers = s.layers;
  c.num_attention_heads = s.heads;
  c.num_key_value_heads = s.kv_heads;
  c.max_position_embeddings = s.positions;
  c.tie_word_embeddings = true;
  return model::make_spec(c, s.vocabulary);
}

// Random tokens; the same in every step, as the peers do.
struct Tokens {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> targets;
  std::vector<engine::MicroBatch> batches;

  Tokens(const Shape& s, const params::Partition& where) {
    const dim_t rows = s.micro_batch * s.positions;
    const dim_t per_shard = s.global_batch / s.micro_batch / s.logical_data;
    const Range shards = where.data_shards();
    const dim_t count = per_shard * shards.size();
    const RandomStream random(1, Purpose::probe);
    for (dim_t i = 0; i < count * rows; ++i) {
      const auto at = 2 * static_cast<std::uint64_t>(shards.begin * per_shard * rows + i);
      const auto pick = [&](std::uint64_t k) {
        return static_cast<std::int32_t>(random.uniform_at(k) * static_cast<double>(s.vocabulary));
      };
      ids.push_back(pick(at));
      targets.push_back(pick(at + 1));
    }
    for (dim_t i = 0; i < count; ++i) {
      batches.push_back({.mode = layers::Mode::train,
                         .data_shard = i / per_shard,
                         .ids = device::view_of(ids.data() + i * rows, rows),
                         .targets = device::view_of(targets.data() + i * rows, rows),
                         .scale = 1.0 / static_cast<double>(s.global_batch * s.positions)});
    }
  }
};

// What phases/training.cpp does with a step, without the session around it.
double run_step(engine::Engine& engine,
                comm::MeshGroups& groups,
                const Shape& s,
                const Tokens& tokens) {
  const std::vector<double> losses = engine.run(tokens.batches, {});
  optimizer::StepTail tail;
  tail.last_stage.assign(1, 0.0);
  if (engine.is_last_stage()) {
    const comm::ShardSum sum(s.logical_data, groups.data->size(), groups.data->rank());
    tail.last_stage = comm::tree_sum_scalars(*groups.data, sum, losses, 1);
  }
  engine.sync().reduce();
  engine.optimizer().reduce_norms(tail);
  engine.optimizer().update(config::OptimizerConfig{}, 1e-4, tail);
  return tail.last_stage[0] / static_cast<double>(s.global_batch * s.positions);
}

struct Measured {
  double seconds = 0;
  double processor = 0;
  device::Profile profile;
};

// `step` returns the loss, of which the last is left in `loss`.
template <typename Step>
std::vector<Measured> run_steps(
    comm::Group& world, device::Stream& stream, int steps, double& loss, Step&& step) {
  std::vector<Measured> all(static_cast<std::size_t>(steps));
  constexpr int kWarmUp = 2;
  for (int i = -kWarmUp; i < steps; ++i) {
    if (i < 0) {
      loss = step();
      continue;
    }
    Measured& m = all[static_cast<std::size_t>(i)];
    world.barrier();
    stream.set_profile(&m.profile);
    const double used = processor_time();
    m.profile.start();
    loss = step();
    m.profile.stop();
    m.processor = processor_time() - used;
    m.seconds = m.profile.seconds();
    stream.set_profile(nullptr);
  }
  return all;
}

// Classes bound by arithmetic are set beside the fma peak, the others beside the memory's; those
// that wait beside none.
std::string breakdown(comm::Group& group,
                      const device::Profile& profile,
                      double peak_of_flops,
                      double peak_of_bytes) {
  std::string text;
  for (std::size_t w = 0; w < device::kWorks; ++w) {
    const auto work = static_cast<Work>(w);
    const device::Profile::Entry& e = profile.of(work);
    double sums[] = {e.seconds, e.flops, e.bytes, static_cast<double>(e.calls)};
    group.all_reduce(std::span<double>(sums), comm::Reduce::sum);
    const double ranks = group.size();
    const double seconds = sums[0] / ranks;
    if (sums[3] == 0 && work != Work::other) {
      continue;
    }
    text += fmt::format(
        R"({}"{}":{{"ms":{:.3f})", text.empty() ? "" : ",", name_of(work), 1e3 * seconds);
    if (sums[1] > 0) {
      text += fmt::format(R"(,"of_flops_peak":{:.3f})", sums[1] / ranks / seconds / peak_of_flops);
    } else if (sums[2] > 0) {
      text += fmt::format(R"(,"of_memory_peak":{:.3f})", sums[2] / ranks / seconds / peak_of_bytes);
    }
    text += "}";
  }
  return text;
}

void run(
    comm::World& world, const Shape& s, int threads, int steps, const comm::PhysicalMesh& mesh) {
  const model::Spec spec = spec_of(s);
  comm::MeshGroups groups = world.make_mesh_groups(mesh);
  device::Stream stream(device::Backend::cpu, threads);
  const Isa isa = kernels::cpu::active_isa();
  world.group().barrier();
  const double flops = peak_flops(stream.pool(), isa);
  const double bytes = peak_bytes(stream.pool());
  params::Partition where{{s.logical_tensor, 1, s.logical_data},
                          mesh,
                          comm::coordinates_of(mesh, world.rank()),
                          model::plan_stages(spec, mesh.pipeline)};
  comm::check_mesh(where.logical, mesh);
  params::ParamStore store(spec,
                           where,
                           {device::DType::f32, true, device::Backend::cpu},
                           std::make_shared<params::Arenas>());
  store.initialise(1);
  store.pack(stream);
  engine::EngineShape shape;
  shape.tensor = {.batch = s.micro_batch,
                  .positions = s.positions,
                  .hidden = s.width,
                  .logical_tensor = s.logical_tensor};
  engine::Engine engine(spec, store, stream, groups, shape);
  const Tokens tokens(s, where);

  double loss = 0;
  const std::int64_t before = stream.counters().product_flops;
  const std::vector<Measured> all = run_steps(
      world.group(), stream, steps, loss, [&] { return run_step(engine, groups, s, tokens); });
  const double step_flops =
      static_cast<double>(stream.counters().product_flops - before) / (steps + 2.0);
  std::vector<std::pair<double, std::int64_t>> order;
  for (std::size_t i = 0; i < all.size(); ++i) {
    order.emplace_back(all[i].seconds, static_cast<std::int64_t>(i));
  }
  std::sort(order.begin(), order.end());
  std::int64_t middle = order[order.size() / 2].second;  // the median step, and its breakdown
  world.group().broadcast(&middle, sizeof(middle), 0);
  const Measured& m = all[static_cast<std::size_t>(middle)];
  const std::string parts = breakdown(world.group(), m.profile, flops, bytes);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  if (world.rank() != 0) {
    return;
  }
  fmt::print(
      R"({{"bench":"step","shape":"{}","cpu":"{}","isa":"{}","ranks":{},"mesh":"{}x{}x{}","threads":{},"steps":{},)"
      R"("step_ms":{:.2f},"min_ms":{:.2f},"max_ms":{:.2f},"tokens_per_second":{:.1f},"product_gflops":{:.1f},)"
      R"("peak_gflops":{:.1f},"peak_gbytes":{:.1f},"cpu_share":{:.2f},"peak_rss_MB":{},"loss":{:.4f},)"
      R"("step_breakdown":{{{}}}}})"
      "\n",
      s.name,
      processor_name(),
      kernels::cpu::name_of(isa),
      world.size(),
      mesh.tensor,
      mesh.pipeline,
      mesh.data,
      threads,
      steps,
      1e3 * m.seconds,
      1e3 * order.front().first,
      1e3 * order.back().first,
      static_cast<double>(s.global_batch * s.positions) / m.seconds,
      step_flops / m.seconds / 1e9,
      flops / 1e9,
      bytes / 1e9,
      m.processor / (m.seconds * threads),
      usage.ru_maxrss / 1024,
      loss,
      parts);
}

}  // namespace
}  // namespace cambium::bench

int main(int argc, char** argv) {
  using namespace cambium;
  comm::World world(&argc, &argv);
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  try {
    const bench::Shape& shape = bench::shape_of(argc > 1 ? argv[1] : "tiny");
    bench::run(
        world, shape, number(2, 1), number(3, 10), {number(4, 1), number(5, 1), 1, number(6, 1)});
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return static_cast<int>(e.code());
  }
  return 0;
}
