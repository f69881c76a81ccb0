#!/usr/bin/env python3
"""time_limit_test.py CAMBIUM: a campaign that Slurm cuts at its time limit goes on in later allocations, with the same bits.

A private Slurm (tests/support/slurm.sh) runs jobs/train.sbatch with `--time=1 --signal=B:USR1@60`. slurmctld looks at
time limits 30, 60, … s after it has started, and with 60 s of notice for a limit of one minute any look sends the
signal: so the job is submitted some seconds before a look, and its steps are slowed so that it is in the middle then,
on an idle machine as on a busy one. What it must equal is a run of one process, without Slurm and without a pause.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CAMBIUM = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build/release/cambium"
CONFIG = ROOT / "configs/tiny/restart.yaml"
RANKS = 2
LOOK = 30.0  # seconds between two looks at the time limits
LEAD = 15.0  # seconds from the submission to the next look: the ranks must have started by then
SLOW = ["--inject", "slow:point=action,rank=0,count=1000000"] * 2  # 2 x 20 ms before each of 8 actions of a step
STEPS = 80  # so the job takes at least 25 s, which is more than LEAD


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)


class TimeLimit(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cambium-slurm-", dir="/tmp"))  # short: Unix sockets
        self.work = self.folder / "work dir"
        self.work.mkdir()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(run, str(ROOT / "tests/support/slurm.sh"), "stop", str(self.folder / "slurm"))
        started = run(str(ROOT / "tests/support/slurm.sh"), "start", str(self.folder / "slurm"))
        self.assertEqual(started.returncode, 0, started.stdout + started.stderr)
        self.started_at = time.monotonic()
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_", "CAMBIUM_"))}
        for line in started.stdout.splitlines():
            for setting in line.removeprefix("export ").split():
                name, _, value = setting.partition("=")
                self.environment[name] = value
        self.environment |= {"CAMBIUM_ROOT": str(ROOT), "CAMBIUM_EXECUTABLE": str(CAMBIUM)}

    def arguments(self, directory):
        settings = {
            "run.directory": directory,
            "checkpoint.every_steps": 1000,
            "phases.pretrain.steps": STEPS // 2,
            "phases.continue.steps": STEPS - STEPS // 2,
        }
        return [str(CONFIG), *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]

    def run_without_slurm(self, directory):
        done = run(str(CAMBIUM), "run", *self.arguments(directory), cwd=self.work)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def metrics(self, directory):
        with open(self.work / directory / "metrics.jsonl", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def wait_for_a_look_in(self, seconds):
        passed = time.monotonic() - self.started_at
        time.sleep((LOOK - seconds - passed) % LOOK)

    def submit(self, arguments):
        options = [f"--ntasks={RANKS}", "--time=1", "--signal=B:USR1@60"]
        done = run("sbatch", "--parsable", *options, str(ROOT / "jobs/train.sbatch"), *arguments, cwd=self.work, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def wait_for_job(self, job):
        for _ in range(1200):
            shown = run("scontrol", "show", "job", job, env=self.environment).stdout
            state = next((word for word in shown.split() if word.startswith("JobState=")), "JobState=?")
            if state in ("JobState=COMPLETED", "JobState=FAILED", "JobState=TIMEOUT", "JobState=CANCELLED"):
                return state, shown
            time.sleep(0.25)
        self.fail(f"job {job} did not end:\n{shown}\n{self.logs()}")

    def logs(self):
        paths = [*sorted(self.work.glob("cambium-*.log")), *sorted(self.work.glob("logs/*"))]
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in paths)

    def test_a_cut_campaign_finishes_in_a_later_allocation_with_the_same_bits(self):
        self.run_without_slurm("whole")

        self.wait_for_a_look_in(LEAD)
        job = self.submit(self.arguments("cut") + SLOW)
        state, shown = self.wait_for_job(job)

        self.assertEqual(state, "JobState=COMPLETED", shown + self.logs())
        attempts = (self.work / f"logs/cambium-{job}.attempts").read_text().split("\n")[:-1]
        codes = [int(line.rsplit(" ", 1)[1]) for line in attempts]
        self.assertGreaterEqual(len(codes), 2, f"it was not cut\n{self.logs()}")
        self.assertEqual(codes, [75] * (len(codes) - 1) + [0], self.logs())
        self.assertRegex(shown, r"Restarts=[1-9]")

        whole, cut = self.metrics("whole"), self.metrics("cut")
        self.assertGreater(len({line["loss"] for line in whole}), STEPS // 2)
        self.assertEqual([line["step"] for line in cut], list(range(1, STEPS + 1)))
        for name in ("loss", "grad_norm"):
            self.assertEqual([line[name] for line in cut], [line[name] for line in whole], name)
        latest = [str(self.work / directory / "checkpoints/latest") for directory in ("whole", "cut")]
        compared = run(str(CAMBIUM), "compare", *latest)
        self.assertEqual(compared.returncode, 0, compared.stdout + compared.stderr)


if __name__ == "__main__":
    unittest.main()
