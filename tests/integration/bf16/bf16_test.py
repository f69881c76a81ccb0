#!/usr/bin/env python3
"""bf16_test.py CAMBIUM: `run.precision: bf16` keeps the contract.

configs/tiny/bf16.yaml trains, grows, trains and learns labels. On every layout, with either instruction set, on the device
reference and over a restart each digit of metrics.jsonl and every bit of the checkpoints must be those of one rank; growth
must be exact (F2, F3). Between ranks activations travel in two bytes, weights and sums in four. A loss falls like fp32's.
"""
import json
import pathlib
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "contract"))
import support
from expected_work import Run, expected_ranks

GROWN_AT = 3
SHARD = "phases.pretrain.optimizer.shard"
# (tensor, pipeline, data), settings that must not matter
LAYOUTS = [
    ((2, 2, 2), {"run.isa": "avx2"}),
    ((4, 1, 1), {SHARD: "false", "parallel.sequence_parallel": "false"}),
    ((1, 2, 4), {"parallel.schedule": "gpipe", "parallel.recompute": "full"}),
]
# Ends before the growth step, behind it, or inside the last phase; each restart is on another layout.
KILLS = ["step,rank=0,step=3", "growth.committed,rank=0", "step,rank=0,step=8"]


def named_values(checkpoint):
    return {array.name: array.values for array in support.read_model(checkpoint)["parameters"].values()}


class Bf16(support.Story):
    config = support.CONFIGS / "tiny/bf16.yaml"

    def run_layout(self, name, physical, settings=None, **more):
        ranks, mesh = support.layout(*physical)
        return self.run_to_end(name, ranks, mesh | (settings or {}), **more)

    def test_every_layout_and_instruction_set_gives_the_same_bits(self):
        self.assertIn("precision bf16: activations", self.command("validate", self.config).out)
        self.run_layout("one", (1, 1, 1))
        digits = [row["loss"] for row in self.numbers("one") if "loss" in row]
        self.assertGreaterEqual(len(digits), 2 * GROWN_AT)
        state = json.loads((self.checkpoint("one") / "manifest.json").read_text())["state"]
        self.assertEqual(state["contract"]["precision"], "bf16")
        model = support.read_model(self.checkpoint("one"))
        kinds = {array.values.dtype for kind in support.SLOTS for array in model[kind].values()}
        self.assertEqual(kinds, {numpy.dtype("float32")}, "masters and slots on disk")

        for physical, settings in LAYOUTS:
            name = "x".join(map(str, physical)) + "".join(f"-{v}" for v in settings.values())
            with self.subTest(layout=name):
                self.run_layout(name, physical, settings)
                self.assert_equal_runs(name, "one")

    def test_the_device_reference_gives_the_same_bits(self):
        short = {f"phases.{name}.steps": 1 for name in ("pretrain", "continue", "intents")}
        short |= {"phases.pretrain.global_batch_size": 4, "phases.continue.global_batch_size": 4}
        self.run_layout("cpu", (1, 1, 1), short)
        self.run_layout("reference", (1, 1, 1), short | {"run.device": "reference"})
        self.assert_equal_runs("reference", "cpu")

    def test_growth_is_exact_and_so_is_the_first_update_after_it(self):
        campaign_steps = {"phases.continue.steps": 1, "phases.intents.steps": 1}
        self.run_layout("grown", (1, 1, 1), campaign_steps)
        (proof,) = self.events("grown", "growth")
        self.assertEqual((proof["committed"], proof["probe_differing"], proof["probe_max_difference"]), (True, 0, 0))
        looks = [
            row["validation_loss"]
            for row in self.numbers("grown")
            if row["step"] == str(GROWN_AT) and "validation_loss" in row
        ]
        self.assertEqual(len(looks), 2)
        self.assertEqual(looks[0], looks[1], "validation loss right after growth")

        plain = self.folder / "plain.yaml"
        text = self.config.read_text().replace("../data", str(support.CONFIGS / "data"))
        start, end = text.index("  - name: deeper"), text.index("  - name: continue")
        plain.write_text(text[:start] + text[end:])
        self.run_layout("plain", (1, 1, 1), campaign_steps, config=plain)
        for step in (GROWN_AT, GROWN_AT + 1):
            kept = support.read_model(self.checkpoint("plain", step))
            grown = support.read_model(self.checkpoint("grown", step))
            self.assertGreater(len(grown["parameters"]), len(kept["parameters"]))
            for kind in support.SLOTS:
                for uid, array in kept[kind].items():
                    self.assert_equal_bits(grown[kind][uid].values, array.values, f"{kind} of {array.name}, step {step}")

    def test_a_killed_campaign_goes_on_with_its_bits_on_another_layout(self):
        self.run_layout("one", (1, 1, 1))
        for kill, physical in zip(KILLS, [(4, 1, 1), (1, 2, 2), (2, 2, 1)]):
            self.run_layout("killed", physical, inject=[f"kill_all:point={kill}"], code=137)
        before = self.tree("killed")
        ended = self.run_to_end("killed", 1, {"run.precision": "fp32"}, code=2)
        self.assert_one_line(ended, "run.precision: the checkpoint has bf16, the config has fp32")
        self.assertEqual(self.tree("killed"), before)

        self.run_layout("killed", (1, 1, 1))

        self.assert_equal_runs("killed", "one")

    def test_masters_start_a_campaign_of_another_precision(self):
        first = {"phases.continue.steps": 1, "phases.intents.steps": 1}
        self.run_layout("bf16", (1, 1, 1), first)
        look = {"kind": "evaluate", "task": "loss", "batches": 2, "global_batch_size": 8, "sequence_length": 33}
        campaign = {
            "run": {"name": "look", "seed": 11},
            "model": {"from": str(self.checkpoint("bf16"))},
            "parallel": {"micro_batch_size": 1, "logical": {"tensor": 4, "data": 4}},
            "tokenizer": {"bytes": True},
            "phases": [look | {"name": "look", "data": str(support.CONFIGS / "data/tinyshakespeare/validation.txt")}],
        }
        config = support.write_config(self.folder / "look.yaml", campaign)
        masters = named_values(self.checkpoint("bf16"))
        losses = {}
        for precision in ("fp32", "bf16"):
            self.run_layout(precision + "-look", (1, 1, 1), {"run.precision": precision}, config=config)
            losses[precision] = self.lines(precision + "-look")[-1]["validation_loss"]
            for name, values in named_values(self.checkpoint(precision + "-look")).items():
                self.assert_equal_bits(values, masters[name], f"{precision}: {name}")
        self.assertNotEqual(losses["bf16"], losses["fp32"])
        self.assertAlmostEqual(losses["bf16"], losses["fp32"], delta=0.01)

    def test_activations_travel_in_two_bytes_and_everything_else_in_four(self):
        config = support.CONFIGS / "tiny/contract.yaml"
        settings = {"run.precision": "bf16", "phases.pretrain.steps": 2}
        for physical, stages in (((2, 2, 2), [2, 1]), ((4, 1, 1), [3])):
            name = "x".join(map(str, physical))
            self.run_layout(name, physical, settings, config=config)
            spec = json.loads((self.checkpoint(name) / "manifest.json").read_text())["state"]["spec"]
            expected = expected_ranks(
                Run(
                    spec=spec,
                    logical=(4, 4),
                    physical=physical,
                    stages=stages,
                    steps=2,
                    global_batch=16,
                    micro_batch=2,
                    positions=33,
                    activation=2,
                )
            )
            for got, want in zip(self.ranks(name), expected, strict=True):
                self.assertEqual({key: got[key] for key in want}, want, name)

    def test_a_loss_falls_as_in_fp32(self):
        """The quickstart's network, 40 steps of 8 texts: every loss within 0.03 of fp32's, the last ten within 0.005."""
        settings = {
            "phases.pretrain.steps": 40,
            "phases.pretrain.global_batch_size": 8,
            "phases.pretrain.validation.every_steps": 40,
            # A rate at which two runs that differ in a rounding stay together.
            "phases.pretrain.learning_rate": "{kind: constant, peak: 5e-4, warmup_steps: 10}",
        }
        text = (support.CONFIGS / "quickstart.yaml").read_text().replace("data/", str(support.CONFIGS / "data") + "/")
        config = self.folder / "quickstart.yaml"
        config.write_text(text[: text.index("  - name: deeper")])
        runs, losses = {}, {}
        for precision in ("fp32", "bf16"):
            more = {"run.precision": precision, "run.threads": 1}
            runs[precision] = self.start(precision, 0, settings | more, config=config)
        for precision, run in runs.items():
            ended = run.wait()
            self.assertEqual(ended.code, 0, str(ended))
            losses[precision] = numpy.array([row["loss"] for row in self.steps(precision)])
        self.assertGreater(losses["fp32"][0] - losses["fp32"][-10:].mean(), 2.0, "fp32 learns nothing here")
        self.assertFalse((losses["bf16"] == losses["fp32"]).any(), "bf16 has fp32's bits")
        apart = numpy.abs(losses["bf16"] - losses["fp32"])
        self.assertLess(apart.max(), 0.03)
        self.assertLess(apart[-10:].mean(), 0.005)


if __name__ == "__main__":
    support.main()
