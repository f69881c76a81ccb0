#!/usr/bin/env python3
"""contract_test.py CAMBIUM: one logical mesh, many physical layouts, the same bits; and each rank does its own part only.

configs/tiny/contract.yaml runs under real mpirun on every layout below. All digits of metrics.jsonl and, by
`cambium compare`, the final checkpoints with slots and step counts must be equal; another seed must not be. ranks.json
must hold exactly what expected_work.py derives, so that a rank that holds, computes or sends more than its part fails.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support
from expected_work import Run, expected_ranks

SHARD = "phases.pretrain.optimizer.shard"
STAGES = {1: [3], 2: [2, 1], 3: [1, 1, 1]}  # 3 layers
# Of 6 layers: (tensor, pipeline, data), chunks, layers of the virtual stages, settings that must not matter.
INTERLEAVED = [
    ((1, 2, 1), 2, [2, 2, 1, 1], {}),
    ((1, 2, 2), 3, [1, 1, 1, 1, 1, 1], {"parallel.sequence_parallel": "false"}),
    ((2, 2, 2), 2, [1, 2, 2, 1], {"parallel.stages": "[1, 2, 2, 1]", SHARD: "false"}),
    ((1, 3, 1), 2, [1, 1, 1, 1, 1, 1], {"run.isa": "avx2"}),
]
IS_EXTENDED = "--extended" in sys.argv
if IS_EXTENDED:
    sys.argv.remove("--extended")

# (tensor, pipeline, data), settings that must not matter
LAYOUTS = [
    ((4, 1, 1), {"parallel.schedule": "gpipe"}),
    ((1, 3, 1), {SHARD: "false"}),
    ((1, 1, 4), {"parallel.sequence_parallel": "false"}),
    ((2, 2, 2), {"parallel.sequence_parallel": "false", "run.isa": "avx2"}),
    ((2, 1, 4), {SHARD: "false", "run.isa": "avx2"}),
    ((1, 2, 2), {"parallel.schedule": "gpipe", "parallel.stages": "[1, 2]"}),
    ((2, 3, 1), {}),
    ((2, 1, 1), {"run.device": "reference"}),
]
if IS_EXTENDED:
    LAYOUTS = [
        ((tensor, pipeline, data), {SHARD: shard, "parallel.sequence_parallel": sequence, "parallel.schedule": schedule})
        for tensor in (1, 2, 4)
        for pipeline in (1, 2, 3)
        for data in (1, 2, 4)
        for shard, sequence, schedule in (("true", "true", "1f1b"), ("false", "false", "gpipe"))
    ]


def has_avx512():
    return " avx512f " in pathlib.Path("/proc/cpuinfo").read_text()


def stages_of(pipeline, settings):
    return json.loads(settings["parallel.stages"]) if "parallel.stages" in settings else STAGES[pipeline]


def name_of(physical, settings):
    values = "-".join(str(v).strip("[]").replace(", ", "+") for v in settings.values())
    return "x".join(map(str, physical)) + ("-" + values if values else "")


class Contract(support.Story):
    config = support.CONFIGS / "tiny/contract.yaml"

    def run_layout(self, name, physical, settings):
        ranks, mesh = support.layout(*physical)
        return self.run_to_end(name, ranks, mesh | settings)

    def expected(self, name, physical, settings, stages=None):
        state = json.loads((self.checkpoint(name) / "manifest.json").read_text())["state"]
        return expected_ranks(
            Run(
                spec=state["spec"],
                logical=(4, 4),
                physical=physical,
                stages=stages or stages_of(physical[1], settings),
                steps=5,
                global_batch=16,
                micro_batch=2,
                positions=33,
                is_sharded=settings.get(SHARD) != "false",
                is_sequence_parallel=settings.get("parallel.sequence_parallel") != "false",
            )
        )

    def check_work(self, name, physical, settings, reference, stages=None):
        """ranks.json holds what each rank's part needs, and all parts together are the whole."""
        found = self.ranks(name)
        expected = self.expected(name, physical, settings, stages)
        self.assertEqual(len(found), len(expected))
        for got, want in zip(found, expected):
            self.assertEqual({key: got[key] for key in want}, want, name)
        whole = self.ranks(reference)[0]
        for key in ("product_flops", "attention_flops"):
            self.assertEqual(sum(row[key] for row in found), whole[key], f"{name}: {key} of all ranks")
        if len(found) > 1:
            largest = max(row["product_flops"] for row in found)
            self.assertLess(largest, 0.8 * whole["product_flops"], f"{name}: a rank computes almost everything")

    def test_every_layout_gives_the_same_bits_and_each_rank_does_its_part(self):
        self.run_layout("one", (1, 1, 1), {"run.threads": 2})
        self.check_work("one", (1, 1, 1), {}, "one")
        digits = [row["loss"] for row in self.numbers("one")]
        self.assertEqual(len(digits), 5)
        self.assertTrue(all(len(d.replace(".", "").lstrip("0")) >= 15 for d in digits), f"17 digits: {digits}")

        for physical, settings in LAYOUTS:
            name = name_of(physical, settings)
            with self.subTest(layout=name):
                self.run_layout(name, physical, settings)
                self.assert_equal_runs(name, "one")
                self.check_work(name, physical, settings, "one")

    def test_interleaved_stages_give_the_same_bits_and_hold_their_own_chunks(self):
        """check_work counts what each rank holds, computes and sends: stages that are not interleaved fail it."""
        six = {"model.num_hidden_layers": 6}
        self.run_layout("one", (1, 1, 1), six)
        for physical, chunks, stages, settings in INTERLEAVED:
            settings = settings | {"parallel.schedule": "interleaved", "parallel.virtual_stages": chunks}
            name = name_of(physical, settings)
            with self.subTest(layout=name):
                self.run_layout(name, physical, six | settings)
                self.assert_equal_runs(name, "one")
                self.check_work(name, physical, settings, "one", stages)

    def test_a_process_without_a_launcher_runs_the_whole_mesh(self):
        self.run_layout("one", (1, 1, 1), {})

        ended = self.run_to_end("alone", 0, {"parallel.data": 1})

        self.assertIn("no launcher", ended.out)
        self.assert_equal_runs("alone", "one")

    def test_both_instruction_sets_give_the_same_bits(self):
        self.run_layout("avx2", (1, 1, 1), {"run.isa": "avx2"})

        if not has_avx512():
            ended = self.run_to_end("avx512", 1, {"run.isa": "avx512"}, code=2)
            self.assert_one_line(ended, "run.isa: avx512")
            return
        self.run_layout("avx512", (1, 1, 1), {"run.isa": "avx512"})
        self.assert_equal_runs("avx512", "avx2")

    def test_another_seed_or_micro_batch_size_is_another_run(self):
        """What shows that the comparisons above can fail."""
        one_step = {"phases.pretrain.steps": 2, "parallel.data": 4}
        self.run_to_end("one", 4, one_step)
        self.run_to_end("seed", 4, one_step | {"run.seed": 100})
        self.run_to_end("micro", 4, one_step | {"parallel.micro_batch_size": 1})

        for other in ("seed", "micro"):
            self.assertNotEqual(self.numbers(other), self.numbers("one"), other)
            ended = self.command("compare", self.checkpoint(other), self.checkpoint("one"), code=1)
            self.assertRegex(ended.out, r"/parameters/embedding.weight: element \[", other)

    def test_a_tied_table_has_the_same_bits_on_one_stage_and_on_several(self):
        tied = {"model.tie_word_embeddings": "true"}
        self.run_layout("one", (1, 1, 1), tied)
        layouts = [((2, 2, 1), {}), ((1, 2, 2), {SHARD: "false"}), ((1, 3, 1), {"parallel.schedule": "gpipe"})]

        for physical, settings in layouts:
            name = name_of(physical, settings)
            with self.subTest(layout=name):
                self.run_layout(name, physical, tied | settings)
                self.assert_equal_runs(name, "one")
                self.check_work(name, physical, settings, "one")
        model = support.read_model(self.checkpoint("one"))
        names = {array.name for array in model["parameters"].values()}
        self.assertNotIn("head.weight", names)
        # The last stage's copy of the table is counted where it is held, and nowhere else.
        table = next(a for a in model["parameters"].values() if a.name == "embedding.weight")
        held = sum(row["parameter_bytes"] for row in self.ranks(name_of(*layouts[2])))
        self.assertEqual(held - self.ranks("one")[0]["parameter_bytes"], table.values.nbytes)


if __name__ == "__main__":
    support.main()
