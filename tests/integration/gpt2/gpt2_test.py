#!/usr/bin/env python3
"""gpt2_test.py CAMBIUM: the GPT-2 family keeps the contract.

configs/tiny/gpt2.yaml (train, grow, train) runs under real mpirun on layouts of one logical mesh: all digits of
metrics.jsonl and the final checkpoints with slots and step counts must be equal, also after a kill and a restart on another
layout. Growth leaves every logit's bits (F2) and the first update of what was kept (F3).
"""
import json
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "contract"))
import support
from expected_work import Run, expected_ranks

CONFIG = support.CONFIGS / "tiny/gpt2.yaml"
KEPT_STEPS = 3
SHARD = {"phases.pretrain.optimizer.shard": "false", "phases.continue.optimizer.shard": "false"}

# (tensor, pipeline, data), settings that must not matter
LAYOUTS = [
    ((4, 1, 1), {"parallel.schedule": "gpipe"}),
    ((2, 2, 2), {"parallel.sequence_parallel": "false", "run.isa": "avx2"}),
    ((1, 3, 1), SHARD),
    ((2, 1, 2), {"run.isa": "avx2"} | SHARD),
    ((1, 2, 1), {"run.device": "reference"}),
]


def config_text(without_growth=False):
    text = CONFIG.read_text().replace("../data", str(support.CONFIGS / "data"))
    if without_growth:
        begin, end = text.index("  - name: deeper"), text.index("  - name: continue")
        text = text[:begin] + text[end:]
    return text


class Gpt2(support.Story):
    config = CONFIG

    def test_every_layout_gives_the_same_bits(self):
        self.run_to_end("one", 1, {"run.threads": 2})
        self.assertEqual(len(self.steps("one")), 2 * KEPT_STEPS)
        for physical, settings in LAYOUTS:
            name = "x".join(map(str, physical))
            with self.subTest(layout=name):
                ranks, mesh = support.layout(*physical)
                self.run_to_end(name, ranks, mesh | settings)
                self.assert_equal_runs(name, "one")
        # What shows that the comparison can fail: another logical mesh is another run.
        self.run_to_end("two", 1, {"parallel.logical.tensor": 2})
        self.assertNotEqual(self.numbers("two"), self.numbers("one"))

    def test_every_layout_gives_the_same_bits_in_bf16(self):
        bf16 = {"run.precision": "bf16"}
        self.run_to_end("one", 1, bf16)
        for physical, settings in LAYOUTS[1:3]:
            name = "x".join(map(str, physical))
            with self.subTest(layout=name):
                ranks, mesh = support.layout(*physical)
                self.run_to_end(name, ranks, mesh | settings | bf16)
                self.assert_equal_runs(name, "one")

    def test_each_rank_does_its_part_only(self):
        """ranks.json holds what expected_work.py derives; growth is left out, because its probe computes too."""
        plain = self.folder / "plain.yaml"
        plain.write_text(config_text(without_growth=True))
        for physical, stages in (((2, 3, 1), [1, 1, 1]), ((2, 1, 2), [3])):
            name = "x".join(map(str, physical))
            with self.subTest(layout=name):
                ranks, mesh = support.layout(*physical)
                self.run_to_end(name, ranks, mesh, config=plain)
                state = json.loads((self.checkpoint(name) / "manifest.json").read_text())["state"]
                run = Run(
                    spec=state["spec"],
                    logical=(4, 2),
                    physical=physical,
                    stages=stages,
                    steps=2 * KEPT_STEPS,
                    global_batch=8,
                    micro_batch=2,
                    positions=33,
                    checkpoints=3,
                )
                for got, want in zip(self.ranks(name), expected_ranks(run), strict=True):
                    self.assertEqual({key: got[key] for key in want}, want, name)

    def test_a_killed_run_goes_on_on_another_layout(self):
        self.run_to_end("whole", 1)
        before, (ranks, mesh) = support.layout(2, 1, 2), support.layout(1, 3, 2)

        # The last checkpoint is the one behind the growth.
        self.run_to_end("run", *before, inject=["kill_all:point=step,step=5"], code=137)
        self.assertEqual(self.checkpoint("run").resolve().name, f"step-{KEPT_STEPS:08d}")
        self.run_to_end("run", ranks, mesh)

        self.assert_equal_runs("run", "whole")

    def test_growth_keeps_every_logit_and_the_first_update(self):
        each = {"checkpoint.every_steps": 1, "checkpoint.keep_last": 100}
        plain = self.folder / "plain.yaml"
        plain.write_text(config_text(without_growth=True))
        self.run_to_end("plain", 0, each, config=plain)
        self.run_to_end("grown", 0, each)

        (proof,) = self.events("grown", "growth")
        self.assertEqual((proof["committed"], proof["probe_differing"]), (True, 0))
        self.assertGreater(proof["probe_values"], 1000)
        for step in (KEPT_STEPS, KEPT_STEPS + 1):
            old, new = (support.read_model(self.checkpoint(run, step)) for run in ("plain", "grown"))
            for kind in support.SLOTS:
                for uid, array in old[kind].items():
                    self.assert_equal_bits(new[kind][uid].values, array.values, f"{kind} of {array.name} after step {step}")
        self.check_all_new_learns()

    def check_all_new_learns(self):
        last = support.read_model(self.checkpoint("grown"))["parameters"]
        born = support.read_model(self.checkpoint("grown", KEPT_STEPS))["parameters"]
        fresh = [a for a in last.values() if a.birth_step == KEPT_STEPS]
        self.assertEqual(len(fresh), 4 + 16)
        for array in fresh:
            moved = numpy.count_nonzero(array.values != born[array.uid].values)
            self.assertGreater(moved, 0, f"{array.name} has not moved in {KEPT_STEPS} steps")

    def test_a_model_from_a_checkpoint_has_the_positions_it_learned(self):
        self.run_to_end("run", 0, {"phases.pretrain.steps": 1, "phases.continue.steps": 1})
        text = config_text(without_growth=True)
        begin, end = text.index("  family: gpt2"), text.index("parallel:")
        longer = self.folder / "longer.yaml"
        longer.write_text(
            text[:begin] + f"  from: {self.checkpoint('run')}\n" + text[end:].replace("sequence_length: 33", "sequence_length: 49")
        )

        for command in ("run", "validate"):
            ended = self.command(command, longer, code=2)
            self.assert_one_line(ended, r"phases.pretrain.sequence_length: 49, expected at most the 48 positions")
        longer.write_text(longer.read_text().replace("sequence_length: 49", "sequence_length: 48"))
        self.command("validate", longer)


if __name__ == "__main__":
    support.main()
