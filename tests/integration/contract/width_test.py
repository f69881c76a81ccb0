#!/usr/bin/env python3
"""width_test.py CAMBIUM: the contract at full width.

Eleven layouts x {fp32, bf16} x {1F1B, interleaved (or GPipe on one stage)} x {recompute none, full} x {sharded or not}: 176 runs
of the logical mesh 4 x 4 that must have the bits of one process that keeps everything. `--extended` runs them all; by
default a fixed sample in which every layout and every pair of settings occurs.
"""
import itertools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

IS_EXTENDED = "--extended" in sys.argv
if IS_EXTENDED:
    sys.argv.remove("--extended")

LAYOUTS = [
    (1, 1, 1), (4, 1, 1), (2, 1, 2), (1, 1, 4), (1, 2, 1), (2, 2, 1), (1, 2, 2), (2, 2, 2), (1, 3, 1), (2, 3, 1), (1, 3, 2),
]  # fmt: skip
PRECISIONS = ("fp32", "bf16")
SWITCHES = (False, True)
ALL = list(itertools.product(LAYOUTS, PRECISIONS, SWITCHES, SWITCHES, SWITCHES))
# Two of the sixteen settings for each layout; 5 is odd, so that the sample walks through all of them.
SAMPLE = [ALL[16 * i + (5 * (2 * i + j)) % 16] for i in range(len(LAYOUTS)) for j in range(2)]


def settings_of(layout, precision, is_second_schedule, is_recomputed, is_sharded):
    settings = {
        "run.precision": precision,
        "parallel.recompute": "full" if is_recomputed else "none",
        "phases.pretrain.optimizer.shard": str(is_sharded).lower(),
        "parallel.overlap": str(is_sharded != is_recomputed).lower(),
    }
    if is_second_schedule and layout[1] > 1:
        settings |= {"parallel.schedule": "interleaved", "parallel.virtual_stages": 2}
    elif is_second_schedule:
        settings |= {"parallel.schedule": "gpipe"}
    return settings


class Width(support.Story):
    config = support.CONFIGS / "tiny/contract.yaml"
    six = {"model.num_hidden_layers": 6, "phases.pretrain.steps": 3, "checkpoint.every_steps": 3}

    def test_the_sample_meets_every_setting(self):
        self.assertEqual({case[0] for case in SAMPLE}, set(LAYOUTS))
        for i, j in itertools.combinations(range(1, 5), 2):
            self.assertEqual(len({(case[i], case[j]) for case in SAMPLE}), 4, (i, j))

    def test_every_run_has_the_bits_of_one_process(self):
        for precision in PRECISIONS:
            ranks, mesh = support.layout(1, 1, 1)
            self.run_to_end(precision, ranks, mesh | self.six | {"run.precision": precision})
        self.assertNotEqual(self.numbers("fp32"), self.numbers("bf16"))
        for layout, precision, *switches in ALL if IS_EXTENDED else SAMPLE:
            run = "-".join(map(str, (*layout, precision, *map(int, switches))))
            with self.subTest(run):
                ranks, mesh = support.layout(*layout)
                self.run_to_end(run, ranks, mesh | self.six | settings_of(layout, precision, *switches))
                self.assert_equal_runs(run, precision)


if __name__ == "__main__":
    support.main()
