#!/usr/bin/env python3
"""free_keys_test.py CAMBIUM: a restart may change every free key; it says which in events.jsonl, and the bits stay."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

SHARD = "phases.pretrain.optimizer.shard"


class FreeKeys(support.Story):
    config = support.CONFIGS / "tiny/contract.yaml"

    def test_changed_free_keys_are_recorded_and_the_bits_stay(self):
        often = {"checkpoint.every_steps": 2}
        ranks, first = support.layout(2, 1, 2)
        self.run_to_end("whole", ranks, first | often)
        self.run_to_end("run", ranks, first | often, inject=["kill_all:point=step,step=3"], code=137)
        ranks, second = support.layout(2, 2, 1)
        changed = {
            "parallel.schedule": "gpipe",
            "parallel.sequence_parallel": "false",
            "parallel.stages": "[1, 2]",
            "run.isa": "avx2",
            "run.threads": 2,
            SHARD: "false",
        }
        self.run_to_end("run", ranks, second | often | changed)
        self.assert_equal_runs("run", "whole")
        (restart,) = self.events("run", "restart")
        found = {change["key"]: (change["from"], change["to"]) for change in restart["changed"]}
        self.assertEqual(
            found,
            {
                "parallel.pipeline": (1, 2),
                "parallel.data": (2, 1),
                "parallel.schedule": ("1f1b", "gpipe"),
                "parallel.sequence_parallel": (True, False),
                "parallel.stages": ([], [1, 2]),
                "run.isa": ("auto", "avx2"),
                "run.threads": (0, 2),
                "optimizer.shard": (True, False),
            },
        )

    def test_a_restart_that_changes_nothing_records_no_change(self):
        ranks, mesh = support.layout(1, 1, 2)
        mesh["checkpoint.every_steps"] = 2
        self.run_to_end("run", ranks, mesh, inject=["kill_all:point=step,step=3"], code=137)
        self.run_to_end("run", ranks, mesh)
        (restart,) = self.events("run", "restart")
        self.assertEqual(restart["changed"], [])


if __name__ == "__main__":
    support.main()
