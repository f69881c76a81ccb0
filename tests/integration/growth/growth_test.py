#!/usr/bin/env python3
"""growth_test.py CAMBIUM: growth is exact and a transaction.

Every operation at every kind of place: right after it nothing has other bits (F2), the first update of what was kept has
the bits that it would have had (F3), after 20 steps all that is new has moved and works. A failure on one rank at any point
of the protocol leaves, on every rank, the run that would have been without it.
"""
import copy
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

TEXT = str(support.CONFIGS / "data/tinyshakespeare/validation.txt")
KEPT_STEPS = 4
GROWN_STEPS = 20
WARMUP = 8


def training(name, steps):
    return {
        "name": name,
        "kind": "pretrain",
        "steps": steps,
        "global_batch_size": 8,
        "sequence_length": 24,
        "data": TEXT,
        "validation": {"path": TEXT, "batches": 2},
        # Gradients of this size are always clipped: the first update depends on the norm of what is kept.
        "optimizer": {"clip_grad_norm": 0.05, "weight_decay": 0.1},
        "learning_rate": {"kind": "constant", "peak": 0.003},
    }


def block(after, **more):
    return {"insert_gated_residual": {"after": after, "warmup_steps": WARMUP} | more}


def layers(after, count=1, **more):
    return {"insert_layers": {"after": after, "count": count, "warmup_steps": WARMUP} | more}


CAMPAIGN = {
    "run": {"name": "growth", "seed": 5},
    "model": {
        "family": "llama",
        "hidden_size": 40,
        "intermediate_size": 72,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32,
        "vocab_size": 256,
        "tie_word_embeddings": False,
    },
    "parallel": {"tensor": 1, "pipeline": 1, "data": 1, "micro_batch_size": 2, "logical": {"tensor": 2, "data": 2}},
    "tokenizer": {"bytes": True},
    "checkpoint": {"every_steps": KEPT_STEPS + 1, "keep_last": 100},
    "phases": [training("first", KEPT_STEPS), training("second", GROWN_STEPS)],
}

# Each kind of place in turn, both gates, a width of its own, and layers in front, in the middle, at the end.
OPERATIONS = {
    "embedding": block("embedding"),
    "attention_norm": block("layers.0.attention_norm", width=24),
    "attention": block("layers.0.attention"),
    "mlp_norm": block("layers.1.mlp_norm", gate="scalar"),
    "mlp": block("layers.1.mlp", gate="scalar"),
    "norm": block("norm"),
    "front": layers(-1),
    "middle": layers(0, count=2),
    "end": layers(2),
    "without_warmup": block("layers.2.mlp", warmup_steps=0),
}
ALL = [
    block("embedding"),
    block("layers.0.attention_norm"),
    block("layers.1.mlp", gate="scalar"),
    layers(-1, count=2),
    layers(2),
    block("layers.3.attention", width=9),
    block("norm"),
]


def campaign_with(operations=None, **phase):
    campaign = copy.deepcopy(CAMPAIGN)
    if operations is not None:
        grow = {"name": "grow", "kind": "grow", "operations": operations, "verify": {"batches": 1}} | phase
        campaign["phases"].insert(1, grow)
    return campaign


class Growth(support.Story):
    def write(self, name, campaign):
        return support.write_config(self.folder / f"{name}.yaml", campaign)

    def validation(self, run):
        """[(phase, step, digits)] of the validation rows."""
        return [(r["phase"], int(r["step"]), r["validation_loss"]) for r in self.numbers(run) if "validation_loss" in r]

    def assert_kept(self, grown, plain, what):
        """All that the plain model has, the grown one has with the same bits, found by uid."""
        for kind in support.SLOTS:
            for uid, array in plain[kind].items():
                self.assertIn(uid, grown[kind], f"{what}: {kind} of {array.name}")
                other = grown[kind][uid]
                self.assert_equal_bits(other.values, array.values, f"{what}: {kind} of {array.name}")
                self.assertEqual(other.updates, array.updates, f"{what}: updates of {array.name}")

    def new_uids(self, grown, plain):
        return sorted(set(grown["parameters"]) - set(plain["parameters"]))

    # --- exactness

    def test_each_operation_at_each_place_is_exact_and_learns(self):
        self.run_to_end("plain", 0, config=self.write("plain", campaign_with()))
        plain = {step: support.read_model(self.checkpoint("plain", step)) for step in (KEPT_STEPS, KEPT_STEPS + 1)}
        clipped = [row["grad_norm"] for row in self.steps("plain")]
        self.assertGreater(min(clipped), 0.06, "clipping does not bind: the test of F3 would be empty")

        for name, operation in OPERATIONS.items():
            with self.subTest(operation=name):
                self.run_to_end(name, 0, config=self.write(name, campaign_with([operation])))
                self.check_exact(name, plain)
                self.check_learns(name)

    def check_exact(self, name, plain):
        (proof,) = self.events(name, "growth")
        self.assertEqual((proof["committed"], proof["probe_differing"], proof["probe_max_difference"]), (True, 0, 0))
        self.assertGreater(proof["probe_values"], 1000)
        self.assertGreater(proof["parameters_after"], proof["parameters_before"])
        before, after = [digits for _, step, digits in self.validation(name) if step == KEPT_STEPS]
        self.assertEqual(after, before, "validation loss right after growth")

        grown = support.read_model(self.checkpoint(name, KEPT_STEPS))
        self.assert_kept(grown, plain[KEPT_STEPS], f"{name}: right after growth")
        new = self.new_uids(grown, plain[KEPT_STEPS])
        self.assertTrue(new)
        for uid in new:
            array = grown["parameters"][uid]
            self.assertEqual((array.updates, array.birth_step), (0, KEPT_STEPS), array.name)
            for slot in support.SLOTS[1:]:
                self.assertEqual(numpy.count_nonzero(grown[slot][uid].values), 0, f"{slot} of {array.name}")

        stepped = support.read_model(self.checkpoint(name, KEPT_STEPS + 1))
        self.assert_kept(stepped, plain[KEPT_STEPS + 1], f"{name}: after the first update")
        self.assertEqual({stepped["parameters"][uid].updates for uid in new}, {1})
        moved = [uid for uid in new if (stepped["parameters"][uid].values != grown["parameters"][uid].values).any()]
        self.assertTrue(moved, "nothing new moved in the first update")

    def check_learns(self, name):
        born = support.read_model(self.checkpoint(name, KEPT_STEPS))
        last = support.read_model(self.checkpoint(name))
        plain_uids = [uid for uid, a in born["parameters"].items() if a.birth_step == 0]
        closing = []
        for uid, array in last["parameters"].items():
            moved = numpy.asarray(array.values != born["parameters"][uid].values)
            self.assertGreater(numpy.count_nonzero(moved), 0, f"{array.name} has not moved in {GROWN_STEPS} steps")
            self.assertEqual(array.updates, GROWN_STEPS + (KEPT_STEPS if uid in plain_uids else 0), array.name)
            if uid not in plain_uids and array.name.endswith(("gate", "attention.o.weight", "mlp.down.weight")):
                closing.append(array.name)
        self.check_removal(name, closing)

    def check_removal(self, name, closing):
        """With its gate (or projections) back at zero the block is absent, and the loss is another."""
        self.assertTrue(closing)
        support.copy_with_zeros(self.checkpoint(name).resolve(), self.folder / f"{name}-closed", closing)
        losses = {}
        for which, checkpoint in (("whole", self.checkpoint(name)), ("closed", self.folder / f"{name}-closed")):
            campaign = campaign_with()
            campaign["model"] = {"from": str(checkpoint)}
            campaign["phases"] = [
                {"name": "look", "kind": "evaluate", "task": "loss", "data": TEXT, "batches": 2}
                | {"global_batch_size": 8, "sequence_length": 24}
            ]
            run = f"{name}-{which}-loss"
            self.run_to_end(run, 0, config=self.write(run, campaign))
            (losses[which],) = [digits for _, _, digits in self.validation(run)]
        self.assertEqual(losses["whole"], self.validation(name)[-1][2], "the same network, another loss")
        self.assertNotEqual(losses["closed"], losses["whole"], f"{closing} at zero change nothing")

    def test_all_operations_at_once_have_the_same_bits_on_every_layout(self):
        config = self.write("all", campaign_with(ALL))
        self.run_to_end("one", 1, config=config)
        for physical, is_moving in (((2, 2, 2), True), ((1, 2, 1), True), ((2, 3, 1), False)):
            name = "x".join(map(str, physical))
            with self.subTest(layout=name):
                ranks, mesh = support.layout(*physical)
                self.run_to_end(name, ranks, mesh, config=config)
                self.assert_equal_runs(name, "one")
                (proof,) = self.events(name, "growth")
                self.assertEqual(proof["bytes_moved"] > 0, is_moving, proof)
                self.assertNotEqual(proof["stages_before"], proof["stages_after"])
                self.assertLess(proof["nodes_recomputed"], proof["nodes"], "everything was derived anew")

    def test_without_rebalance_layers_stay_where_they_are(self):
        operations = [layers(-1, count=2), block("layers.4.mlp")]
        self.run_to_end("one", 0, config=self.write("one", campaign_with(operations)))

        config = self.write("still", campaign_with(operations, rebalance=False))
        ranks, mesh = support.layout(1, 2, 1)
        self.run_to_end("still", ranks, mesh, config=config)

        (proof,) = self.events("still", "growth")
        self.assertEqual((proof["bytes_moved"], proof["stages_before"], proof["stages_after"]), (0, "2+1", "4+1"))
        self.assertEqual(self.numbers("still"), self.numbers("one"))

    # --- the transaction

    def assert_as_if_never_tried(self, run):
        """Against the campaign without the phase: every digit, every array with its slots."""
        plain = [row for row in self.numbers("plain")]
        self.assertEqual(self.numbers(run), plain)
        grown, reference = (support.read_model(self.checkpoint(r)) for r in (run, "plain"))
        self.assert_kept(grown, reference, run)
        self.assertEqual(self.new_uids(grown, reference), [])

    def test_a_failure_on_one_rank_rolls_back_on_all(self):
        short = campaign_with()
        short["phases"][1]["steps"] = 3
        tried = campaign_with([block("layers.0.mlp"), layers(2)])
        tried["phases"][2]["steps"] = 3
        ranks, mesh = support.layout(1, 2, 1)
        self.run_to_end("plain", ranks, mesh, config=self.write("plain", short))
        config = self.write("tried", tried)
        self.run_to_end("grown", ranks, mesh, config=config)
        self.assertNotEqual(self.numbers("grown")[-1], self.numbers("plain")[-1], "growth changes nothing: a rollback proves nothing")

        for point in ("propose", "prepare", "move", "prove", "vote"):
            with self.subTest(point=point):
                run = f"failed-{point}"
                ended = self.run_to_end(run, ranks, mesh, inject=[f"fail:point=growth.{point},rank=1"], config=config)
                self.assertIn("rolled back on all ranks", ended.out)
                (event,) = self.events(run, "rollback")
                self.assertRegex(event["reason"], rf"rank 1: injected failure at growth.{point} in step 4")
                self.assertEqual(self.events(run, "growth"), [])
                self.assert_as_if_never_tried(run)

    def test_a_rollback_stays_one_over_a_restart(self):
        short = campaign_with()
        short["phases"][1]["steps"] = 3
        tried = campaign_with([block("layers.0.mlp")])
        tried["phases"][2]["steps"] = 3
        tried["checkpoint"]["every_steps"] = short["checkpoint"]["every_steps"] = 100
        ranks, mesh = support.layout(1, 2, 1)
        self.run_to_end("plain", ranks, mesh, config=self.write("plain", short))

        # The third checkpoint is the one behind the rollback: the restart comes from the one before it.
        faults = ["fail:point=growth.vote,rank=1", "kill_all:point=partial.before,after=2"]
        config = self.write("tried", tried)
        self.run_to_end("run", ranks, mesh, inject=faults, config=config, code=137)
        ended = self.run_to_end("run", 1, config=config)

        self.assertIn("was rolled back in an earlier attempt", ended.out)
        self.assert_as_if_never_tried("run")

    def test_stopping_on_failure_keeps_the_state_and_a_restart_grows(self):
        config = self.write("stop", campaign_with([block("layers.0.mlp")], on_failure="stop"))
        ranks, mesh = support.layout(1, 2, 1)
        self.run_to_end("whole", 0, config=config)

        ended = self.run_to_end("run", ranks, mesh, inject=["fail:point=growth.prove,rank=1"], config=config, code=14)

        self.assert_one_line(ended, r"rank 1: injected failure at growth.prove")
        self.command("verify", self.checkpoint("run"))
        self.assertEqual(self.checkpoint("run").resolve().name, f"step-{KEPT_STEPS:08d}")
        self.run_to_end("run", ranks, mesh, config=config)
        self.assert_equal_runs("run", "whole")


if __name__ == "__main__":
    support.main()
