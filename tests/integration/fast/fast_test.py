#!/usr/bin/env python3
"""fast_test.py CAMBIUM: `parallel.reduction: fast` beside `exact` on the same layouts.

On powers of two MPI_Allreduce may add in the tree's order and give the same bits. Five data shards are added ascending by the
tree and in another order by the library: there the bits must differ (else `fast` went the exact way), and agree within what
fp32 sums in another order may differ by. A run from another seed does not. The choice is part of the numerical contract: a restart that changes it is refused.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

TOLERANCE = 1e-6  # relative; 7e-9 was seen
FAST = {"parallel.reduction": "fast"}


class Fast(support.Story):
    config = support.CONFIGS / "tiny/contract.yaml"

    def values(self, run):
        return [(row["loss"], row["grad_norm"]) for row in self.steps(run)]

    def worst(self, a, b):
        pairs = [(x, y) for left, right in zip(self.values(a), self.values(b), strict=True) for x, y in zip(left, right)]
        self.assertEqual(len(pairs), 10)
        return max(abs(x - y) / abs(y) for x, y in pairs)

    def test_fast_sums_stay_within_the_tolerance_of_exact_ones(self):
        five = {"parallel.logical.data": 5, "phases.pretrain.global_batch_size": 10}
        self.run_to_end("exact", settings=five)
        for physical in ((1, 1, 5), (4, 1, 1), (2, 2, 1)):
            ranks, mesh = support.layout(*physical)
            name = "fast-" + "x".join(map(str, physical))
            self.run_to_end(name, ranks, mesh | five | FAST)
            self.assertLess(self.worst(name, "exact"), TOLERANCE, name)
        self.assertGreater(self.worst("fast-1x1x5", "exact"), 0)
        self.run_to_end("other", settings=five | FAST | {"run.seed": "100"})
        self.assertGreater(self.worst("other", "exact"), TOLERANCE)

    def test_a_restart_that_changes_the_reduction_is_refused(self):
        ranks, mesh = support.layout(2, 1, 1)
        self.run_to_end("run", ranks, mesh | FAST)
        before = self.tree("run")
        ended = self.run_to_end("run", ranks, mesh | {"parallel.reduction": "exact"}, code=2)
        self.assert_one_line(ended, "parallel.reduction.*fast.*exact|fast.*reduction")
        self.assertEqual(self.tree("run"), before)


if __name__ == "__main__":
    support.main()
