// tests/bench/step_bench.cpp — one whole training step (forward, backward, norm, clip, AdamW), and
// where its time goes; or one forward pass without a backward. One JSON line. Alone or under
// mpirun; step_bench --help names the options. Peaks are those of fp32 fma: bf16 products can reach
// twice as much.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fmt/format.h>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "base/philox.hpp"
#include "config/families.hpp"
#include "engine/engine.hpp"
#include "tests/bench/peak.hpp"

namespace cambium::bench {
namespace {

using device::Work;
using kernels::cpu::Isa;

struct Shape {
  std::string name;
  dim_t layers, width, heads, kv_heads, ffn, vocabulary;
  dim_t positions, micro_batch, global_batch;
  int logical_tensor, logical_data;
};

// What the command line says, beside the shape's own sizes.
struct Options {
  Shape shape;
  int threads = 1;
  int steps = 10;
  comm::PhysicalMesh mesh{1, 1, 1, 1};
  comm::Reduction reduction = comm::Reduction::exact;
  std::string block = "none";  // behind every layer: none, closed or open
  bool is_forward_only = false;
  bool is_bf16 = false;
  bool is_overlapped = true;
  std::string family = "llama";  // gpt2: two matrices of 4 d in the mlp, as the peers have
};

// tiny and gpt2 are the peers' (a GELU block of 4 d with two matrices: --family gpt2). SwiGLU has
// three, so that its width is 8/3 d for as many FLOPs: 682.7 for tiny, rounded up to 688 (0.3 %
// more work a layer than the peer), 2048 for gpt2.
const Shape kShapes[] = {
    {"tiny", 4, 256, 8, 8, 688, 8192, 256, 8, 8, 1, 1},
    {"gpt2", 12, 768, 12, 12, 2048, 50304, 256, 4, 4, 1, 1},
    {"quickstart", 4, 128, 8, 4, 384, 258, 128, 4, 32, 2, 2},
};

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

// A block of a quarter of the stream's width behind every layer.
model::Spec spec_of(const Options& options) {
  const Shape& s = options.shape;
  config::ModelConfig c;
  for (const config::FamilyTraits& family : config::kFamilies) {
    c.family = family.name == options.family ? family.family : c.family;
  }
  const bool is_gpt2 = c.family == config::Family::gpt2;
  c.hidden_size = s.width;
  c.intermediate_size = is_gpt2 ? 4 * s.width : s.ffn;
  c.num_hidden_layers = s.layers;
  c.num_attention_heads = s.heads;
  c.num_key_value_heads = is_gpt2 ? s.heads : s.kv_heads;
  c.max_position_embeddings = s.positions;
  c.tie_word_embeddings = true;
  model::Spec spec = model::make_spec(c, s.vocabulary);
  for (model::LayerSpec& layer : spec.layers) {
    if (options.block != "none") {
      layer.inserted[static_cast<int>(model::LayerModule::mlp)].push_back(
          {.uid = spec.take_uid(), .width = s.width / 4, .norm_width = s.width});
    }
  }
  return spec;
}

// Random tokens; the same in every step, as the peers do.
struct Tokens {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> targets;
  std::vector<engine::MicroBatch> batches;

  Tokens(const Shape& s, const params::Partition& where, layers::Mode mode) {
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
      batches.push_back({.mode = mode,
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

device::DType activations_of(const Options& options) {
  return options.is_bf16 ? device::DType::bf16 : device::DType::f32;
}

engine::EngineShape engine_shape(const Options& options) {
  engine::EngineShape shape;
  shape.is_overlapped = options.is_overlapped;
  shape.tensor = {.batch = options.shape.micro_batch,
                  .positions = options.shape.positions,
                  .hidden = options.shape.width,
                  .logical_tensor = options.shape.logical_tensor,
                  .dtype = activations_of(options),
                  .reduction = options.reduction};
  return shape;
}

void run(comm::World& world, const Options& options) {
  const Shape& s = options.shape;
  const comm::PhysicalMesh& mesh = options.mesh;
  const int steps = options.steps;
  const model::Spec spec = spec_of(options);
  comm::MeshGroups groups = world.make_mesh_groups(mesh);
  device::Stream stream(device::Backend::cpu, options.threads);
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
                           {.backend = device::Backend::cpu, .panels = activations_of(options)},
                           std::make_shared<params::Arenas>());
  store.initialise(1);
  store.pack(stream);
  engine::Engine engine(spec, store, stream, groups, engine_shape(options));
  const Tokens tokens(s, where, layers::Mode::train);
  const Tokens seen(s, where, layers::Mode::forward_only);
  if (options.block == "open") {
    run_step(engine, groups, s, tokens);  // the first update opens every gate
  }

  double loss = 0;
  const std::int64_t before = stream.counters().product_flops;
  const std::vector<Measured> all = run_steps(world.group(), stream, steps, loss, [&] {
    return options.is_forward_only ? engine.run(seen.batches, {})[0]
                                   : run_step(engine, groups, s, tokens);
  });
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
      R"({{"bench":"{}","shape":"{}","family":"{}","batch":{},"positions":{},"micro_batch":{},"precision":"{}","reduction":"{}","overlap":{},"block":"{}","cpu":"{}","isa":"{}","ranks":{},"mesh":"{}x{}x{}","threads":{},"steps":{},)"
      R"("step_ms":{:.2f},"min_ms":{:.2f},"max_ms":{:.2f},"tokens_per_second":{:.1f},"product_gflops":{:.1f},)"
      R"("peak_gflops":{:.1f},"peak_gbytes":{:.1f},"cpu_share":{:.2f},"peak_rss_MB":{},"loss":{:.4f},)"
      R"("step_breakdown":{{{}}}}})"
      "\n",
      options.is_forward_only ? "forward" : "step",
      s.name,
      options.family,
      s.global_batch,
      s.positions,
      s.micro_batch,
      options.is_bf16 ? "bf16" : "fp32",
      options.reduction == comm::Reduction::fast ? "fast" : "exact",
      options.is_overlapped,
      options.block,
      processor_name(),
      kernels::cpu::name_of(isa),
      world.size(),
      mesh.tensor,
      mesh.pipeline,
      mesh.data,
      options.threads,
      steps,
      1e3 * m.seconds,
      1e3 * order.front().first,
      1e3 * order.back().first,
      static_cast<double>(s.global_batch * s.positions) / m.seconds,
      step_flops / m.seconds / 1e9,
      flops / 1e9,
      bytes / 1e9,
      m.processor / (m.seconds * options.threads),
      usage.ru_maxrss / 1024,
      loss,
      parts);
}

Options read_options(int argc, char** argv) {
  Options options;
  options.shape = kShapes[0];
  CLI::App app("One whole training step, timed");
  std::vector<std::string> names;
  for (const Shape& s : kShapes) {
    names.push_back(s.name);
  }
  Shape& shape = options.shape;
  const auto choose = [&](const std::string& name) {
    shape = kShapes[std::find(names.begin(), names.end(), name) - names.begin()];
  };
  // At once, so that the sizes below replace the shape's wherever they stand on the line.
  app.add_option_function<std::string>("shape", choose)
      ->check(CLI::IsMember(names))
      ->trigger_on_parse();
  app.add_option("--family", options.family)->check(CLI::IsMember({"llama", "gpt2"}));
  app.add_option("--threads", options.threads, "of each rank");
  app.add_option("--steps", options.steps);
  app.add_option("--batch", shape.global_batch, "sequences of a step");
  app.add_option("--micro-batch", shape.micro_batch, "sequences of a micro-batch");
  app.add_option("--positions", shape.positions, "tokens of a sequence");
  app.add_option("--logical-tensor", shape.logical_tensor);
  app.add_option("--logical-data", shape.logical_data);
  app.add_option("--tensor", options.mesh.tensor, "ranks");
  app.add_option("--pipeline", options.mesh.pipeline, "ranks");
  app.add_option("--data", options.mesh.data, "ranks");
  app.add_option("--block", options.block, "a gated block behind every layer")
      ->check(CLI::IsMember({"none", "closed", "open"}));
  app.add_flag("--forward-only", options.is_forward_only);
  app.add_flag("--bf16", options.is_bf16, "activations and products");
  app.add_flag("!--no-overlap", options.is_overlapped, "all of the data reduction after backward");
  app.add_flag_callback(
      "--fast", [&] { options.reduction = comm::Reduction::fast; }, "native reductions");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  return options;
}

}  // namespace
}  // namespace cambium::bench

int main(int argc, char** argv) {
  using namespace cambium;
  const bench::Options options = bench::read_options(argc, argv);
  comm::World world(&argc, &argv);
  try {
    bench::run(world, options);
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return static_cast<int>(e.code());
  }
  return 0;
}
