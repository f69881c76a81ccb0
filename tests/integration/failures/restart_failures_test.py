#!/usr/bin/env python3
"""restart_failures_test.py CAMBIUM: what goes wrong elsewhere between a checkpoint and the step behind it (rows C06 to C14).

All comparisons are of bits: parameters, both moments and step counts of the last checkpoint, and every digit of the rows.
"""
import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

KILL = ["kill_all:point=step,step=6"]


class RestartFailures(support.Story):
    config = support.CONFIGS / "tiny/contract.yaml"  # logical tensor 4, data 4
    ten = {"phases.pretrain.steps": 10, "checkpoint.every_steps": 5, "checkpoint.keep_last": 100}

    def go(self, run, layout, more=None, **arguments):
        ranks, settings = support.layout(*layout)
        return self.run_to_end(run, ranks, self.ten | settings | (more or {}), **arguments)

    def restart_on(self, first, others, more=None):
        """Saved at step 5 on `first`, gone on with on each of the others."""
        self.go("whole", first, more)
        for layout in others:
            run = "on-" + "x".join(map(str, layout))
            with self.subTest(run):
                self.go(run, first, more, inject=KILL, code=137)
                self.go(run, layout, more)
                self.assertEqual(len(self.events(run, "restart")), 1)
                self.assert_equal_runs(run, "whole")

    def test_C06_another_tensor_size(self):
        self.restart_on((2, 1, 1), [(1, 1, 1), (4, 1, 1)])

    def test_C07_another_number_of_data_ranks_and_stages(self):
        """Divided moments of parameters whose rows divide by no number of ranks."""
        odd = {"model.hidden_size": 34, "model.intermediate_size": 17}
        self.restart_on((1, 2, 2), [(1, 1, 1), (1, 1, 4)], odd)
        ended = self.go("whole", (1, 1, 3), odd, code=2)
        self.assert_one_line(ended, "parallel.data: 3 ranks do not divide the logical size 4; use one of 1, 2, 4")

    def test_C08_bf16_goes_on_from_the_masters(self):
        self.restart_on((1, 1, 2), [(2, 1, 1)], {"run.precision": "bf16"})
        model = support.read_model(self.checkpoint("whole"))
        first = support.read_model(self.checkpoint("whole", 0))
        for uid, array in model["parameters"].items():
            self.assertEqual(array.values.dtype, "float32", array.name)
            self.assertNotEqual(array.values.tobytes(), first["parameters"][uid].values.tobytes(), array.name)

    def test_C09_the_learning_rate_goes_on(self):
        schedule = {
            "phases.pretrain.learning_rate.kind": "cosine",
            "phases.pretrain.learning_rate.warmup_steps": 8,
            "phases.pretrain.steps": 10,
        }
        self.go("whole", (1, 1, 1), schedule)
        self.go("run", (1, 1, 1), schedule, inject=KILL, code=137)
        rates = lambda run: [row["learning_rate"] for row in self.steps(run)]
        expected = rates("whole")
        before = self.tree("run")
        for key, value in (("learning_rate.peak", "5e-4"), ("steps", 30)):
            # The rule: a phase that has begun keeps its schedule, and says what differs.
            ended = self.go("run", (1, 1, 1), schedule | {f"phases.pretrain.{key}": value}, code=2)
            self.assertRegex(ended.err, "it has begun and may not change over a restart")
        self.assertEqual(self.tree("run"), before)
        self.go("run", (1, 1, 1), schedule)
        self.assertEqual(rates("run"), expected)
        self.assertEqual(expected[:8], sorted(set(expected[:8])), "a warm-up that is replayed would repeat a value")

    def test_data_may_move_but_not_change(self):
        """A begun phase knows its data by their bytes: another folder and name are the same text, another text is not."""
        self.config = support.CONFIGS / "tiny/restart.yaml"
        text = (support.CONFIGS / "data/tinyshakespeare/validation.txt").read_bytes()[:20000]
        (self.folder / "elsewhere").mkdir()
        first, second = self.folder / "first.txt", self.folder / "elsewhere/second.txt"
        at = lambda path: {"phases.pretrain.data": path, "phases.continue.data": path}
        first.write_bytes(text)
        self.run_to_end("whole", 1, at(first))
        self.run_to_end("run", 1, at(first), inject=["kill_all:point=step,step=5"], code=137)
        second.write_bytes(text.replace(b"e", b"a", 1))
        ended = self.run_to_end("run", 1, at(second), code=2)
        self.assertRegex(ended.err, "it has begun and may not change over a restart")
        first.rename(second)
        self.run_to_end("run", 1, at(second))
        self.assert_equal_runs("run", "whole")

    def test_a_signal_is_heard_inside_evaluation(self):
        """One rank is asked to stop while all evaluate: they stop at a batch, and the phase is done again, whole."""
        campaign = {
            "run": {"name": "evaluate", "seed": 7},
            "model": {
                "family": "llama",
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "max_position_embeddings": 32,
                "vocab_size": 256,
                "tie_word_embeddings": True,
            },
            "parallel": {"micro_batch_size": 2, "logical": {"tensor": 2, "data": 2}},
            "tokenizer": {"bytes": True},
            "phases": [
                {"name": "train", "kind": "pretrain", "steps": 2, "global_batch_size": 8, "sequence_length": 24, "data": "text.txt"},
                {"name": "look", "kind": "evaluate", "data": "text.txt", "sequence_length": 24, "global_batch_size": 8},
            ],
        }
        text = support.CONFIGS / "data/tinyshakespeare/validation.txt"
        (self.folder / "text.txt").write_bytes(text.read_bytes()[:40000])  # 208 batches
        self.config = support.write_config(self.folder / "evaluate.yaml", campaign)
        ranks, mesh = support.layout(2, 1, 1)
        self.run_to_end("whole", ranks, mesh)
        begun = lambda: [e for e in self.events("run", "phase_started") if e["phase"] == "look"]
        process = self.start("run", ranks, mesh, inject=["slow:point=evaluate,count=9999"])
        while process.is_alive() and not begun():
            time.sleep(0.02)
        os.kill(process.ranks()[1], signal.SIGTERM)
        ended = process.wait()
        self.assertEqual(ended.code, 75, str(ended))
        self.assertEqual([e["signal"] for e in self.events("run", "signal")], ["SIGTERM"])
        self.assertFalse([row for row in self.lines("run") if "validation_loss" in row])
        self.run_to_end("run", ranks, mesh)
        self.assertEqual(self.numbers("run"), self.numbers("whole"))

    def test_C14_the_model_of_the_file_and_of_the_checkpoint(self):
        """The checkpoint's model is loaded; a file that says otherwise is refused with both sizes, before and after growth."""
        self.config = support.CONFIGS / "tiny/restart.yaml"  # 2 layers, after step 7 three
        for step, layers in ((5, 2), (9, 3)):
            with self.subTest(layers=layers):
                run = f"killed-{step}"
                self.run_to_end(run, 1, inject=[f"kill_all:point=step,step={step}"], code=137)
                before = self.tree(run)
                for wrong in (3, 4):
                    ended = self.run_to_end(run, 1, {"model.num_hidden_layers": wrong}, code=2)
                    self.assert_one_line(
                        ended,
                        f"the file has num_hidden_layers: {wrong}, the checkpoint began with num_hidden_layers: 2 "
                        f".{layers} layers now.*grow",
                    )
                self.assertEqual(self.tree(run), before)
                self.run_to_end(run, 1)
        self.assert_equal_runs("killed-5", "killed-9")
        spec = json.loads((self.checkpoint("killed-9") / "manifest.json").read_text())["state"]["spec"]
        self.assertEqual(len(spec["layers"]), 3)


if __name__ == "__main__":
    support.main()
