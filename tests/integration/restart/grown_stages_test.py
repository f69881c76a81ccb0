#!/usr/bin/env python3
"""grown_stages_test.py CAMBIUM: a model that has grown may be restarted on more stages than it began with layers."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support


class GrownStages(support.Story):
    config = support.CONFIGS / "tiny/restart.yaml"  # 2 layers, after step 7 three

    def test_three_stages_of_what_began_as_two_layers(self):
        self.run_to_end("whole")
        ranks, two = support.layout(1, 2, 1)
        self.run_to_end("run", ranks, two, inject=["kill_all:point=step,step=9"], code=137)
        ranks, three = support.layout(1, 3, 1)
        self.run_to_end("run", ranks, three)
        self.assert_equal_runs("run", "whole")

    def test_before_the_growth_three_stages_are_refused(self):
        ranks, three = support.layout(1, 3, 1)
        ended = self.run_to_end("run", ranks, three, code=2)
        self.assert_one_line(ended, "parallel.pipeline.*3 stages.*2")
        self.assertFalse((self.folder / "run").exists())
        ranks, four = support.layout(1, 4, 1)
        ended = self.run_to_end("run", ranks, four, code=2)
        self.assert_one_line(ended, "4 stages.*2 . 1 inserted")


if __name__ == "__main__":
    support.main()
