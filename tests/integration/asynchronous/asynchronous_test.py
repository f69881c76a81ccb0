#!/usr/bin/env python3
"""asynchronous_test.py CAMBIUM: checkpoints beside training are those of a run that stood still for them.

The campaign of tests/integration/restart in small (train, grow, train), with `checkpoint.asynchronous`. A write is killed at
each kind of point that it passes; it meets a slow disk and a failing one; a signal comes while it is under way.
"""
import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

LAYOUTS = [(1, 2, 1), (2, 1, 1), (1, 1, 2), (2, 2, 1), (1, 1, 1)]
# Points of a write, and how many passes of them are let through: kills fall into different checkpoints. (The first
# checkpoint of a run and those around growth are written while the run stands still; they pass the points too.)
KILLS = [
    ("partial.after", 1),
    ("shard.create.after", 2),
    ("shard.write.before", 40),
    ("shard.write.after", 200),
    ("shard.fsync.before", 2),
    ("model.write.before", 1),
    ("model.fsync.after", 2),
    ("manifest.before", 1),
    ("manifest.after", 2),
    ("rename.before", 2),
    ("rename.after", 1),
    ("latest.linked", 1),
    ("prune.remove.before", 1),
]


class Asynchronous(support.Story):
    config = support.CONFIGS / "tiny/restart.yaml"
    beside = {"checkpoint.asynchronous": "true"}

    def go(self, run, layout=(1, 1, 1), more=None, **arguments):
        ranks, settings = support.layout(*layout)
        return self.run_to_end(run, ranks, self.beside | settings | (more or {}), **arguments)

    def files(self, run, step):
        """Names, sizes and checksums of a checkpoint's files."""
        return json.loads((self.checkpoint(run, step) / "manifest.json").read_text())["files"]

    def interval_checkpoints(self, run):
        return [event for event in self.events(run, "checkpoint") if event["why"] == "interval"]

    def test_the_files_have_the_bytes_of_those_written_at_a_standstill(self):
        keep = {"checkpoint.keep_last": 100}
        ranks, settings = support.layout(2, 2, 1)
        self.run_to_end("still", ranks, settings | keep)
        self.go("beside", (2, 2, 1), keep)
        self.assert_equal_runs("beside", "still")
        self.assertEqual(self.checkpoints("beside"), self.checkpoints("still"))
        steps = [int(name.removeprefix("step-")) for name in self.checkpoints("still")]
        self.assertEqual(steps, [0, 2, 4, 6, 7, 8, 10, 12, 14])
        for step in steps:
            self.assertEqual(self.files("beside", step), self.files("still", step), step)
        self.assertTrue(all("blocked_seconds" in event for event in self.interval_checkpoints("beside")))
        self.assertFalse(any("blocked_seconds" in event for event in self.interval_checkpoints("still")))

    def test_killed_at_every_kind_of_point(self):
        self.go("whole")
        for i, (point, after) in enumerate(KILLS):
            with self.subTest(point=point):
                run = f"killed-{i}"
                self.go(run, LAYOUTS[i % 5], inject=[f"kill_all:point={point},rank=0,after={after}"], code=137)
                self.go(run, LAYOUTS[(i + 1) % 5])
                self.assert_equal_runs(run, "whole")
                self.assertFalse(list((self.folder / run / "checkpoints").glob("*.partial")))

    def test_training_goes_on_while_the_disk_is_slow(self):
        """20 ms at each write call: steps are made meanwhile, and the next checkpoint waits for the one on its way."""
        self.go("whole")
        self.go("slow", (1, 1, 2), inject=["slow:point=shard.write.before,count=100000"])
        self.assert_equal_runs("slow", "whole")
        events = self.interval_checkpoints("slow")
        self.assertTrue(any(event["whole_after_step"] > event["step"] for event in events), events)
        steps = [event["step"] for event in events]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertLessEqual({2, 4, 6}, set(steps))

    def test_a_disk_that_fails_costs_nothing_but_the_run(self):
        self.go("whole")
        ended = self.go("run", (2, 1, 1), inject=["throw:point=shard.write.before,rank=1,after=100"], code=14)
        self.assert_one_line(ended, "injected failure at shard.write.before")
        self.assertEqual(len(list((self.folder / "run/checkpoints").glob("*.partial"))), 0)
        self.assertTrue((self.checkpoint("run") / "manifest.json").exists())
        self.go("run", (1, 2, 1))
        self.assert_equal_runs("run", "whole")

    def test_a_signal_while_one_is_on_its_way(self):
        self.go("whole")
        ranks, settings = support.layout(1, 1, 2)
        process = self.start(
            "run", ranks, self.beside | settings, inject=["slow:point=shard.write.before,count=100000", "slow:point=step,count=100"]
        )
        limit = time.monotonic() + support.TIMEOUT
        while not list((self.folder / "run/checkpoints").glob("step-00000002.partial")):
            self.assertLess(time.monotonic(), limit)
            self.assertTrue(process.is_alive())
            time.sleep(0.005)
        os.kill(process.ranks()[0], signal.SIGTERM)
        ended = process.wait()
        self.assertEqual(ended.code, 75, str(ended))
        self.assertFalse(list((self.folder / "run/checkpoints").glob("*.partial")))
        self.go("run", (2, 1, 1))
        self.assert_equal_runs("run", "whole")


if __name__ == "__main__":
    support.main()
