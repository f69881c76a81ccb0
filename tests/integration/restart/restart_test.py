#!/usr/bin/env python3
"""restart_test.py CAMBIUM: whenever a campaign is killed, it goes on with the bits that it would have had.

One campaign (train, grow, train, semi-supervised phase and its control) runs undisturbed on one rank. Then it is killed:
all ranks by SIGKILL inside writes, inside growth, right behind its commit record, at random moments; or asked to stop by a
signal to one rank. Every restart is on another layout. In the end each row of metrics.jsonl stands there once, and all its
digits, the final checkpoint and its state are those of the undisturbed run.
"""
import os
import pathlib
import random
import shutil
import signal
import sys
import time

import h5py
import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

IS_EXTENDED = "--extended" in sys.argv
if IS_EXTENDED:
    sys.argv.remove("--extended")

TEXT = str(support.CONFIGS / "data/tinyshakespeare/validation.txt")
INTENTS = support.CONFIGS / "data/banking77"
LAYOUTS = [(1, 2, 1), (2, 1, 1), (1, 1, 2), (2, 2, 1), (1, 1, 1), (2, 1, 2)]


def pretrain(name, steps, warmup):
    return {
        "name": name,
        "kind": "pretrain",
        "steps": steps,
        "global_batch_size": 8,
        "sequence_length": 24,
        "data": TEXT,
        "validation": {"path": TEXT, "batches": 1},
        "learning_rate": {"kind": "cosine", "peak": 0.002, "warmup_steps": warmup, "final": 0.0001},
    }


def intents(name, steps, threshold, **more):
    return {
        "name": name,
        "kind": "mtssl",
        "steps": steps,
        "labelled": str(INTENTS / "train.jsonl"),
        "validation": {"path": str(INTENTS / "test.jsonl"), "batches": 1},
        "intents": 5,
        "labelled_per_class": 4,
        "global_batch_size": 8,
        "sequence_length": 24,
        "threshold": {"kind": threshold, "init": 0.3},
        "learning_rate": {"kind": "constant", "peak": 0.001},
    } | more


CAMPAIGN = {
    "run": {"name": "restart", "seed": 7},
    "model": {
        "family": "llama",
        "hidden_size": 48,
        "intermediate_size": 100,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 32,
        "vocab_size": 258,
        "tie_word_embeddings": True,
    },
    "parallel": {"tensor": 1, "pipeline": 1, "data": 1, "micro_batch_size": 2, "logical": {"tensor": 2, "data": 2}},
    "tokenizer": {"bytes": True},
    "checkpoint": {"every_steps": 2, "keep_last": 2},
    "phases": [
        pretrain("first", 7, 6),
        {
            "name": "deeper",
            "kind": "grow",
            "operations": [
                {"insert_gated_residual": {"after": "layers.0.mlp", "warmup_steps": 3}},
                {"insert_layers": {"after": 1, "count": 1, "warmup_steps": 3}},
            ],
            "verify": {"batches": 1},
        },
        pretrain("second", 5, 2),
        intents("intents", 5, "learned"),
        intents("control", 3, "off", start_from="second"),
    ],
}
STEPS = 20

# Points at which the folder of the checkpoint is not yet whole.
INSIDE = ("shard.create", "shard.write", "shard.close", "shard.fsync", "model.write", "model.fsync", "manifest", "rename.before")


class Restart(support.Story):
    @classmethod
    def setUpClass(cls):
        """The undisturbed run, once for all tests."""
        story = cls("undisturbed")
        story.setUp()
        cls.addClassCleanup(story.doCleanups)
        cls.config = support.write_config(story.folder / "campaign.yaml", CAMPAIGN)
        story.run_to_end("whole", 0)
        cls.whole = story.folder / "whole"
        cls.whole_numbers = story.numbers("whole")
        assert [int(row["step"]) for row in cls.whole_numbers if "loss" in row] == list(range(1, STEPS + 1))

    def undisturbed(self):
        """Not a test: a name for the instance that makes the run."""

    # --- the pieces of every story

    def attempt(self, physical, inject=(), code=0):
        ranks, mesh = support.layout(*physical)
        return self.run_to_end("run", ranks, mesh, inject, code=code)

    def partials(self):
        return sorted(p.name for p in (self.folder / "run/checkpoints").glob("*.partial"))

    def assert_last_checkpoint_is_whole(self):
        self.assertTrue(self.checkpoint("run").is_symlink(), "no checkpoint yet: the kill came too early")
        ended = self.command("verify", self.checkpoint("run"))
        self.assertIn("whole:", ended.out)

    def assert_undisturbed(self):
        self.assertEqual(self.numbers("run"), self.whole_numbers)
        self.assert_equal_checkpoints(self.checkpoint("run"), self.whole / "checkpoints/latest")
        by_step = {(row["phase"], row["step"]): row for row in self.whole_numbers if "loss" in row}
        for attempt in sorted((self.folder / "run").glob("attempt-*/metrics.jsonl")):
            for line in attempt.read_text().splitlines():  # rows of updates that a kill lost were the same rows
                row = support.row_numbers(line)
                if "loss" in row:
                    self.assertEqual(row, by_step[(row["phase"], row["step"])], attempt)

    def go_on(self, kills, layouts):
        """One attempt a kill, each on the next layout, and a last one to the end."""
        for i, point in enumerate(kills):
            physical = layouts[i % len(layouts)]
            with self.subTest(point=point, layout=physical):
                self.attempt(physical, inject=[f"kill_all:point={point}"], code=137)
                self.check_killed(point.split(",")[0])
        physical = layouts[len(kills) % len(layouts)]
        self.attempt(physical)
        restarts = self.events("run", "restart")
        self.assertGreaterEqual(len(restarts), 1)
        for restart in restarts:
            self.assertNotEqual(restart["from_layout"], restart["to_layout"])
        self.assert_undisturbed()

    def check_killed(self, point):
        if point.startswith(INSIDE):
            self.assertEqual(len(self.partials()), 1, f"{point}: the kill was not inside a write")
        if point == "latest.linked":
            newest = self.checkpoints("run")[-1]
            self.assertNotEqual(self.checkpoint("run").resolve().name, newest, "the link has moved already")
        self.assert_last_checkpoint_is_whole()

    # --- kills at exact points

    def test_killed_inside_checkpoint_writes(self):
        kills = [
            "shard.write.before,step=2",
            "model.write.before,step=4",
            "rename.before,step=6",
            "latest.linked,step=10",
            "shard.write.after,step=12",
            "prune.remove.before,step=14",
        ]
        self.go_on(kills, LAYOUTS)

    def check_every_point(self):
        for i, point in enumerate(all_points()):
            with self.subTest(point=point):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                self.go_on([f"{point},step={(8, 14)[i % 2]}"], LAYOUTS[i % len(LAYOUTS) :] + LAYOUTS)

    def test_killed_inside_growth_and_right_behind_its_commit_record(self):
        self.attempt((1, 2, 1), inject=["kill_all:point=growth.vote"], code=137)
        self.assertEqual(self.decisions(), [])
        self.assert_last_checkpoint_is_whole()
        self.attempt((2, 1, 1), inject=["kill_all:point=growth.committed"], code=137)
        self.assertEqual(self.decisions(), ["growth_committed"])
        self.assert_last_checkpoint_is_whole()
        # The record is there, its checkpoint is not: inside that write once more.
        self.attempt((1, 2, 2), inject=["kill_all:point=model.write.before,step=7"], code=137)
        self.assertEqual(self.partials(), ["step-00000007.partial"])

        self.attempt((1, 1, 2))

        self.assertEqual(self.decisions(), ["growth_committed"] * 3)
        self.assert_undisturbed()

    def decisions(self):
        return [line["decision"] for line in self.lines("run", "journal.jsonl")]

    def test_killed_before_the_first_and_after_the_last_checkpoint(self):
        self.attempt((1, 2, 1), inject=["kill_all:point=step,step=1"], code=137)
        self.attempt((2, 1, 1), inject=["kill_all:point=latest.after,step=20"], code=137)

        self.attempt((1, 1, 2))

        self.assert_undisturbed()

    # --- kills at random moments

    def test_killed_at_random_moments(self):
        choice = random.Random(20)
        last = 0
        killed = 0
        for i in range(40 if IS_EXTENDED else 4):
            ranks, mesh = support.layout(*LAYOUTS[i % len(LAYOUTS)])
            # Slowed, so that a moment is as likely inside a step or a write as between two.
            slow = [f"slow:point={point},count=100000" for point in ("step", "shard.write.before", "model.write.before")]
            process = self.start("run", ranks, mesh, slow)
            wanted = min(last + choice.randint(1, 4), STEPS - 1)
            while process.is_alive() and len(self.steps("run")) < wanted:
                time.sleep(0.005)
            time.sleep(choice.uniform(0, 0.1))
            if process.is_alive():
                killed += 1
            process.kill()
            self.assert_last_checkpoint_is_whole()
            last = max((row["step"] for row in self.steps("run")), default=0)
            if last >= STEPS - 1:
                shutil.rmtree(self.folder / "run")
                last = 0
        self.assertGreaterEqual(killed, 3, "too late: the runs were over")

        self.attempt((2, 2, 1))

        self.assert_undisturbed()

    # --- stopped on request

    def stop_one_rank(self, physical, number, rank, after):
        """Sends the signal to one rank once `after` steps are recorded; returns how the job ended."""
        ranks, mesh = support.layout(*physical)
        process = self.start("run", ranks, mesh, ["slow:point=action,count=100000"])
        while process.is_alive() and len(self.steps("run")) < after:
            time.sleep(0.005)
        os.kill(process.ranks()[rank], number)
        return process.wait()

    def test_a_signal_to_any_one_rank_stops_all_with_a_checkpoint(self):
        for physical, number, rank, after in (
            ((1, 2, 2), signal.SIGTERM, 2, 3),
            ((2, 1, 1), signal.SIGUSR1, 1, 9),
            ((1, 1, 1), signal.SIGUSR2, 0, 14),
        ):
            with self.subTest(signal=signal.Signals(number).name):
                ended = self.stop_one_rank(physical, number, rank, after)
                self.assertEqual(ended.code, 75, str(ended))
                self.assertEqual(ended.error_lines, [])
                stopped = self.events("run", "signal")[-1]
                self.assertEqual(stopped["signal"], signal.Signals(number).name)
                self.assertEqual(stopped["step"], self.steps("run")[-1]["step"])
                self.assertGreaterEqual(stopped["step"], after)
                self.assertEqual(self.checkpoint("run").resolve().name, f"step-{stopped['step']:08d}")

        self.attempt((1, 1, 2))

        self.assert_undisturbed()

    # --- what others see of a checkpoint

    def test_the_view_is_whole_for_other_programs_also_after_a_move(self):
        self.attempt((2, 1, 2))
        before = support.read_model(self.checkpoint("run"))

        moved = self.folder / "elsewhere" / "moved run"
        moved.parent.mkdir()
        (self.folder / "run").rename(moved)

        after = support.read_model(moved / "checkpoints/latest")
        count = sum(array.values.size for array in after["parameters"].values())
        self.assertGreater(count, 80000)
        for kind in support.SLOTS:
            self.assertEqual(set(after[kind]), set(before["parameters"]))
            for uid, array in after[kind].items():
                self.assertTrue(numpy.isfinite(array.values).all(), f"{kind} of {array.name} has holes")
                self.assert_equal_bits(array.values, before[kind][uid].values, array.name)
        self.assertIn("layers.0.mlp.inserted.0.gate", support.named(after["parameters"]))
        # A hole would show: without its shard the same array reads as NaN.
        shards = sorted((moved / "checkpoints/latest").resolve().glob("shard-*.h5"))
        self.assertEqual(len(shards), 4)
        shards[-1].unlink()
        with h5py.File(moved / "checkpoints/latest/model.h5") as file:
            self.assertTrue(numpy.isnan(file["parameters/embedding.weight"][()]).any())


if IS_EXTENDED:  # defined only then: a test that is left out is no skip
    Restart.test_killed_at_every_point_of_a_write = Restart.check_every_point


def all_points():
    """Every hook point of a checkpoint write, as the source lists them."""
    text = (support.ROOT / "src/checkpoint/hooks.hpp").read_text()
    listed = text[text.index("kHookPoints = {") :]
    names = [part for part in listed[: listed.index("}")].split('"') if "." in part]
    assert len(names) >= 20
    return names


if __name__ == "__main__":
    support.main()
