#!/usr/bin/env python3
"""quickstart_test.py CAMBIUM: what the quickstart tells a person is what happened.

configs/quickstart.yaml runs with few steps on two ranks, twice: with other seeds and steps. Every number of the summary
must follow from metrics.jsonl and events.jsonl, and change with them; report.html must hold them and need nothing else.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

RATE = "{kind: constant, peak: 2e-3}"
LENGTHS = {"pretrain": 64, "continue": 64, "held_out": 64, "intents": 48, "intents_control": 48}
SHORT = {"parallel.tensor": 2, "parallel.pipeline": 1, "phases.held_out.batches": 1}
for name, length in LENGTHS.items():
    SHORT |= {f"phases.{name}.sequence_length": length, f"phases.{name}.global_batch_size": 8}
    if name != "held_out":
        SHORT[f"phases.{name}.learning_rate"] = RATE
    if name.startswith("intents"):
        SHORT |= {f"phases.{name}.intents": 3, f"phases.{name}.global_batch_size": 16}


def steps(pretrain, after_growth, intents):
    return {
        "phases.pretrain.steps": pretrain,
        "phases.continue.steps": after_growth,
        "phases.intents.steps": intents,
        "phases.intents_control.steps": intents,
    }


class Quickstart(support.Story):
    config = support.CONFIGS / "quickstart.yaml"

    def summary_of(self, run, seed, lengths):
        ended = self.run_to_end(run, 2, SHORT | {"run.seed": seed} | steps(*lengths))
        begin = ended.out.index("Cambium: ")
        return ended.out[begin:]

    def check_training(self, run, summary, lengths):
        """One line a training phase: its steps, its first and last loss, its validation."""
        first = 1
        for phase, count in zip(("pretrain", "continue", "intents", "intents_control"), (*lengths, lengths[-1])):
            rows = [row for row in self.steps(run) if row["phase"] == phase]
            self.assertEqual([row["step"] for row in rows], list(range(first, first + count)))
            wanted = f"{first}-{first + count - 1}"
            losses = f"{rows[0]['loss']:.4f} -> {rows[-1]['loss']:.4f}"
            self.assertRegex(summary, rf"(?m)^  {phase} .* {wanted} +{losses} ", phase)
            checked = [r["validation_loss"] for r in self.lines(run) if r.get("phase") == phase and "validation_loss" in r]
            if checked:
                self.assertRegex(summary, rf"(?m)^  {phase} .* {checked[0]:.4f} -> {checked[-1]:.4f} ", phase)
            first += count

    def check_growth(self, run, summary):
        (growth,) = self.events(run, "growth")
        self.assertEqual(growth["probe_differing"], 0)
        self.assertIn(f"no difference in {growth['probe_values']:,} probe logits", summary)
        self.assertIn(f"parameters: {growth['parameters_before']:,} -> {growth['parameters_after']:,}", summary)

    def check_accuracies(self, run, summary):
        last = {r["phase"]: r["accuracy"] for r in self.lines(run) if "accuracy" in r}
        self.assertEqual(set(last), {"intents", "intents_control"})
        for phase, accuracy in last.items():
            self.assertRegex(summary, rf"(?m)^  {phase}: accuracy {100 * accuracy:.2f} % on \d+ held-out examples", phase)
        points = 100 * (last["intents"] - last["intents_control"])
        verdict = f"by {abs(points):.2f} points" if points else "are equal"
        self.assertRegex(summary, rf"(?m)^  => .*{verdict}")

    def check_report(self, run, summary):
        page = (self.folder / run / "report.html").read_text()
        for number in set(re.findall(r"\d\.\d{4}", summary)) | set(re.findall(r"\d+\.\d\d(?= %)", summary)):
            self.assertIn(number, page)
        self.assertEqual(re.findall(r"https?://|\bsrc=|\bhref=|@import|url\(|<script|<link", page), [], "needs other files")
        for part in ("pretrain", "continue", "intents", "<svg", "deeper", "imeline", "hreshold", run):
            self.assertIn(part, page)
        self.assertIn(f"{run}/report.html", summary)

    def test_the_summary_and_the_report_say_what_happened(self):
        summaries = {}
        for run, seed, lengths in (("one", 1234, (6, 4, 3)), ("two", 99, (5, 3, 2))):
            with self.subTest(run=run):
                summary = self.summary_of(run, seed, lengths)
                self.check_training(run, summary, lengths)
                self.check_growth(run, summary)
                self.check_accuracies(run, summary)
                self.check_report(run, summary)
                summaries[run] = summary
                again = self.command("report", run)
                self.assertIn(summary.strip(), again.out)
        self.assertEqual(len(summaries), 2)
        numbers = [set(re.findall(r"\d\.\d{4}", text)) for text in summaries.values()]
        self.assertGreater(len(numbers[0]), 8)
        self.assertEqual(numbers[0] & numbers[1], set(), "two seeds, the same numbers")


if __name__ == "__main__":
    support.main()
