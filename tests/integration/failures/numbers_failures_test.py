#!/usr/bin/env python3
"""numbers_failures_test.py CAMBIUM: rows of the failure list about numbers: not finite, too large, none, or written in another language."""
import json
import pathlib
import re
import subprocess
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

MTSSL = support.CONFIGS / "tiny/bf16.yaml"  # a campaign that ends with a semi-supervised phase


class NumbersFailures(support.Story):
    config = support.CONFIGS / "tiny/restart.yaml"

    def go(self, run, layout, settings=None, **arguments):
        ranks, mesh = support.layout(*layout)
        return self.run_to_end(run, ranks, mesh | (settings or {}), **arguments)

    def semi_supervised(self, run, layout, settings, **arguments):
        settings = {"run.precision": "fp32", "phases.intents.steps": 12} | settings
        return self.go(run, layout, settings, config=MTSSL, **arguments)

    def test_N02_a_phase_without_pseudo_labels_says_so_once_and_stays_finite(self):
        high = {"phases.intents.threshold": "{kind: fixed, init: 0.999}"}
        self.semi_supervised("high", (2, 1, 2), high)
        rows = [row for row in self.lines("high") if "hard_coverage" in row]
        self.assertEqual(len(rows), 12)
        self.assertEqual({row["hard_coverage"] for row in rows}, {0})
        self.assertTrue(all(numpy.isfinite(row["loss"]) and row["unsupervised_loss"] < 1e-3 for row in rows))
        (event,) = self.events("high", "no_pseudo_labels")
        self.assertEqual(event["steps"], 10)
        self.assertEqual((self.folder / "high/log.txt").read_text().count("no unlabelled text passed"), 1)

        self.semi_supervised("low", (2, 1, 2), {"phases.intents.threshold": "{kind: fixed, init: 0.01}"})
        self.assertEqual(self.events("low", "no_pseudo_labels"), [])

    def test_N02_files_with_one_unlabelled_text_or_none_are_refused(self):
        few = self.folder / "few.txt"
        for text in ("", "only one line\n"):
            few.write_text(text)
            ended = self.semi_supervised("refused", (1, 1, 1), {"phases.intents.unlabelled": few}, code=4)
            self.assert_one_line(ended, r"few\.txt")
            self.assertFalse((self.folder / "refused").exists())

    def test_N05_infinite_gradients_on_one_rank_after_the_other(self):
        """Six steps in a row, each time on another rank: all skip all of them, and the state is the one before."""
        inject = [f"inf:point=gradient,rank={step % 8},step={step}" for step in range(2, 8)]
        self.go("run", (2, 2, 2), {"run.on_nonfinite.skip_limit": 9}, inject=inject)
        self.assertEqual([event["step"] for event in self.events("run", "skipped_step")], list(range(2, 8)))
        self.assertTrue(all(numpy.isfinite(row["loss"]) for row in self.steps("run")))

    def test_N05_a_spike_on_one_rank_is_clipped_alike_on_all(self):
        spike = ["spike:point=gradient,rank=1,step=3"]
        clip = {"checkpoint.every_steps": 1, "checkpoint.keep_last": 100, "phases.pretrain.optimizer.clip_grad_norm": 0.5}
        self.go("whole", (1, 1, 2), clip, inject=spike)
        norms = [row["grad_norm"] for row in self.steps("whole")]
        self.assertGreater(norms[2], 50 * max(norms[1], norms[3]))
        self.assertEqual(self.events("whole", "skipped_step"), [])
        # Had a rank clipped otherwise, its part would differ from what the other one read back.
        self.go("cut", (1, 1, 2), clip, inject=spike + ["kill_all:point=step,step=4"], code=137)
        self.go("cut", (2, 1, 1), clip)
        self.assert_equal_runs("cut", "whole")
        # The first update behind the spike is bounded by the clip, as every other.
        two, three = (support.read_model(self.checkpoint("whole", step))["parameters"] for step in (2, 3))
        moved = max(float(numpy.abs(three[uid].values - two[uid].values).max()) for uid in two)
        self.assertLess(moved, 0.05)

    def test_Y08_a_locale_with_decimal_commas_changes_no_byte(self):
        folder = self.folder / "locales"
        folder.mkdir()
        subprocess.run(
            ["localedef", "--no-archive", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.go("plain", (1, 1, 2))
        self.environment |= {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8", "LC_NUMERIC": "de_DE.UTF-8"}
        said = subprocess.run(["locale", "decimal_point"], env=self.environment, capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout, ",\n", "this locale has no decimal comma: the test could not fail")
        self.go("german", (1, 1, 2), inject=["kill_all:point=step,step=5"], code=137)
        self.go("german", (1, 1, 2))
        self.assert_equal_runs("german", "plain")

        config = lambda run: re.sub(r"directory: .*", "", (self.folder / run / "config.yaml").read_text())
        self.assertEqual(config("german"), config("plain"))
        state = lambda run: json.loads((self.checkpoint(run) / "manifest.json").read_text())["state"] | {"free": None}
        self.assertEqual(state("german"), state("plain"))


if __name__ == "__main__":
    support.main()
