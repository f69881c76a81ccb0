#!/usr/bin/env python3
"""interleaved_test.py CAMBIUM: a run may change between interleaved and plain stages at every restart, and grow under both.

configs/tiny/restart.yaml pretrains, grows by a layer and goes on. The bits are those of one process that never stopped.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support


def interleaved(tensor, pipeline, data, chunks):
    ranks, settings = support.layout(tensor, pipeline, data)
    return ranks, settings | {"parallel.schedule": "interleaved", "parallel.virtual_stages": chunks}


class Interleaved(support.Story):
    config = support.CONFIGS / "tiny/restart.yaml"
    five = {"model.num_hidden_layers": 5}  # after step 7 six

    def go(self, run, layout, **arguments):
        ranks, settings = layout
        return self.run_to_end(run, ranks, self.five | settings, **arguments)

    def test_restarts_and_growth_between_schedules(self):
        self.run_to_end("whole", 1, self.five)

        self.go("run", interleaved(1, 2, 1, 2), inject=["kill_all:point=step,step=3"], code=137)
        self.go("run", support.layout(2, 2, 1), inject=["kill_all:point=step,step=6"], code=137)
        # Grows while interleaved: six layers in six chunks afterwards.
        self.go("run", interleaved(1, 2, 2, 2), inject=["kill_all:point=step,step=9"], code=137)
        self.go("run", interleaved(1, 2, 1, 3))

        self.assert_equal_runs("run", "whole")
        changed = [entry["key"] for event in self.events("run", "restart") for entry in event.get("changed", [])]
        self.assertIn("parallel.schedule", changed)
        self.assertIn("parallel.virtual_stages", changed)

    def test_an_untied_table(self):
        untied = self.five | {"model.tie_word_embeddings": "false"}
        self.run_to_end("whole", 1, untied)
        ranks, settings = interleaved(1, 2, 2, 2)
        self.run_to_end("run", ranks, untied | settings)
        self.assert_equal_runs("run", "whole")

    def test_neighbouring_chunks_of_closed_layers_do_not_wait_in_a_circle(self):
        """Each passes on what it received. Messages are longer than the 4 KiB that MPI sends without a receive."""
        text = self.config.read_text()
        self.assertIn("{after: 1, count: 1,", text)
        self.assertIn("../data", text)
        doubled = self.folder / "doubled.yaml"  # layers 0 1 | closed | closed | 2 3
        doubled.write_text(
            text.replace("{after: 1, count: 1,", "{after: 1, count: 4,").replace("../data", str(support.CONFIGS / "data"))
        )
        four = {"model.num_hidden_layers": 4}
        self.run_to_end("whole", 1, four, config=doubled)

        ranks, settings = interleaved(1, 2, 1, 2)
        self.run_to_end("run", ranks, four | settings, config=doubled)

        self.assert_equal_runs("run", "whole")

    def test_a_semi_supervised_phase(self):
        mtssl = support.CONFIGS / "tiny/bf16.yaml"  # a campaign with such a phase
        settings = {"run.precision": "fp32", "model.num_hidden_layers": 4}
        self.run_to_end("whole", 1, settings, config=mtssl)
        self.assertTrue([row for row in self.lines("whole") if "accuracy" in row or "tau" in row], "no such phase ran")
        for physical in ((1, 2, 2), (2, 2, 1)):
            name = "x".join(map(str, physical))
            ranks, mesh = interleaved(*physical, 2)
            self.run_to_end(name, ranks, settings | mesh, config=mtssl)
            self.assert_equal_runs(name, "whole")

    def test_the_timeline_shows_every_chunk(self):
        ranks, settings = interleaved(1, 2, 1, 2)
        self.run_to_end("run", ranks, self.five | settings)
        timeline = json.loads((self.folder / "run/timeline.json").read_text())
        for rank in timeline["ranks"]:
            chunks = {a["chunk"] for a in rank["actions"] if a["kind"] == "forward"}
            self.assertEqual(chunks, {0, 1}, rank["rank"])

    def test_what_cannot_be_interleaved_is_refused(self):
        for settings, complaint in (
            ({"parallel.schedule": "interleaved"}, "virtual_stages.*1 with schedule interleaved.*at least 2"),
            ({"parallel.virtual_stages": 2}, "virtual_stages.*2 with schedule 1f1b.*interleaved"),
            (interleaved(1, 2, 1, 4)[1], "virtual_stages.*2 stages of 4 chunks for"),
            (interleaved(1, 2, 1, 2)[1] | {"parallel.stages": "[3, 2]"}, "4 virtual stages, got 2"),
        ):
            ended = self.run_to_end("refused", 2, self.five | {"parallel.pipeline": 2} | settings, code=2)
            self.assertRegex(ended.err, complaint)
            self.assertFalse((self.folder / "refused").exists())


if __name__ == "__main__":
    support.main()
