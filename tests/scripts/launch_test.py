#!/usr/bin/env python3
"""jobs/launch.sh acts on every exit code, passes signals on, keeps a log per attempt and quotes paths.

Launchers and scontrol are replaced by scripts that note how they were called and end with the next code of a list;
the real Slurm is in tests/integration/slurm.
"""
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAUNCHER = r"""#!/usr/bin/env bash
# Notes its arguments (one a line) and some settings, prints, ends with the next code of $STATE/codes.
if [[ $1 == --mpi=list ]]; then echo "pmix none"; exit; fi
printf '%s\n' "$(basename "$0")" "$@" >>"$STATE/calls"
env >"$STATE/environment"
code=$(head -n 1 "$STATE/codes"); sed -i 1d "$STATE/codes"
if [[ $code == wait ]]; then
  trap 'echo USR1 >>"$STATE/signals"; exit 75' USR1
  trap 'echo TERM >>"$STATE/signals"; exit 143' TERM
  touch "$STATE/started"
  while true; do sleep 0.05; done
fi
echo "this attempt ends with $code"
if [[ $code == 137+* ]]; then
  echo "srun: error: node1: task 1: Exited with exit code ${code#137+}" >&2
  exit 137
fi
exit "$code"
"""
SCONTROL = """#!/usr/bin/env bash
echo "$@" >>"$STATE/scontrol"
if [[ $1 == show ]]; then echo "JobId=7 JobState=$(cat "$STATE/job_state") Reason=None"; fi
"""


class Launch(unittest.TestCase):
    def setUp(self):
        # Row S07: a space, a quote and a letter outside ASCII in every path.
        self.folder = tempfile.TemporaryDirectory(prefix="a b ü'q\" ")
        self.addCleanup(self.folder.cleanup)
        self.state = pathlib.Path(self.folder.name)
        programs = self.state / "bin"
        programs.mkdir()
        for name, text in {"srun": LAUNCHER, "mpirun": LAUNCHER, "scontrol": SCONTROL}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        (self.state / "job_state").write_text("RUNNING")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SRUN_", "CAMBIUM_", "OMPI_"))}
        self.environment = {
            **kept,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "STATE": str(self.state),
            "CAMBIUM_EXECUTABLE": str(self.state / "cambium"),
            "CAMBIUM_RETRY_PAUSE": "0",
        }
        self.in_slurm = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_SUBMIT_DIR": str(self.state), "CAMBIUM_ROOT": str(ROOT)}

    def start(self, codes, arguments=("config file.yaml",), script="launch.sh", **settings):
        (self.state / "codes").write_text("\n".join(str(code) for code in codes) + "\n")
        return subprocess.Popen(
            ["bash", str(ROOT / "jobs" / script), *arguments],
            cwd=self.state,
            env={**self.environment, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run_to_end(self, codes, *arguments, **settings):
        process = self.start(codes, *arguments, **settings)
        self.output, _ = process.communicate(timeout=60)
        return process.returncode

    def attempts(self):
        return self.read("calls").count(str(self.state / "cambium"))

    def read(self, name):
        path = self.state / name
        return path.read_text() if path.exists() else ""

    def wait_for(self, name):
        for _ in range(600):
            if (self.state / name).exists():
                return
            time.sleep(0.05)
        self.fail(f"{name} did not appear")

    def test_success_ends_at_once(self):
        self.assertEqual(self.run_to_end([0]), 0)
        self.assertEqual(self.attempts(), 1)

    def test_codes_that_stop_are_passed_through(self):
        for code in (2, 3, 4, 13, 14):
            with self.subTest(code=code):
                (self.state / "calls").unlink(missing_ok=True)
                self.assertEqual(self.run_to_end([code, 0]), code)
                self.assertEqual(self.attempts(), 1)

    def test_codes_of_the_surroundings_are_tried_again(self):
        for code in (10, 11, 12, 15, 137, 143):
            with self.subTest(code=code):
                (self.state / "calls").unlink(missing_ok=True)
                self.assertEqual(self.run_to_end([code, 0]), 0)
                self.assertEqual(self.attempts(), 2)

    def test_retries_are_bounded(self):
        self.assertEqual(self.run_to_end([12] * 9, CAMBIUM_RETRIES="2"), 12)
        self.assertEqual(self.attempts(), 3)
        self.assertIn("gave up after 3 failures", self.output)

    def test_s01_a_signal_reaches_the_ranks_as_usr1_and_75_comes_back(self):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            with self.subTest(signal=number):
                for name in ("started", "signals"):
                    (self.state / name).unlink(missing_ok=True)
                process = self.start(["wait"])
                self.wait_for("started")
                process.send_signal(number)
                output, _ = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 75, output)
                self.assertEqual(self.read("signals"), "USR1\n")

    def test_75_in_a_job_goes_back_into_the_queue(self):
        self.assertEqual(self.run_to_end([75], **self.in_slurm), 75)
        self.assertIn("requeue 7", self.read("scontrol"))

    def test_a_cancelled_job_is_not_requeued(self):
        (self.state / "job_state").write_text("CANCELLED")
        self.assertEqual(self.run_to_end([75], **self.in_slurm), 75)
        self.assertNotIn("requeue", self.read("scontrol"))

    def test_no_progress_in_a_job_goes_on_elsewhere(self):
        self.assertEqual(self.run_to_end([15, 0], **self.in_slurm), 15)
        self.assertEqual(self.attempts(), 1)
        self.assertIn("requeue 7", self.read("scontrol"))

    def test_the_code_of_the_first_rank_counts_when_srun_killed_the_others(self):
        self.assertEqual(self.run_to_end(["137+13", 0], **self.in_slurm), 13)
        self.assertEqual(self.attempts(), 1)

    def test_failures_are_counted_over_requeues_and_forgotten_after_progress(self):
        for restart in range(3):
            self.run_to_end([15], **self.in_slurm, SLURM_RESTART_COUNT=str(restart), CAMBIUM_RETRIES="2")
        self.assertIn("gave up after 3 failures", self.output)
        self.assertEqual(self.read("scontrol").count("requeue 7"), 2)

        self.run_to_end([75], **self.in_slurm, SLURM_RESTART_COUNT="3", CAMBIUM_RETRIES="2")
        self.run_to_end([15], **self.in_slurm, SLURM_RESTART_COUNT="4", CAMBIUM_RETRIES="2")
        self.assertEqual(self.read("scontrol").count("requeue 7"), 4)

    def test_s04_each_attempt_has_a_log_of_its_own(self):
        self.run_to_end([12, 75], **self.in_slurm)
        self.run_to_end([0], **self.in_slurm, SLURM_RESTART_COUNT="1")
        logs = sorted(path.name for path in (self.state / "logs").glob("*.log"))
        self.assertEqual(logs, ["cambium-7.0.1.log", "cambium-7.0.2.log", "cambium-7.1.1.log"])
        self.assertIn("ends with 12", self.read("logs/cambium-7.0.1.log"))
        self.assertIn("ends with 75", self.read("logs/cambium-7.0.2.log"))

    def test_s06_srun_gets_cpus_per_task(self):
        self.run_to_end([0], **self.in_slurm, SLURM_CPUS_PER_TASK="6")
        self.assertIn("SRUN_CPUS_PER_TASK=6\n", self.read("environment"))

    def test_s07_paths_and_arguments_arrive_whole(self):
        config = str(self.state / "my config.yaml")
        code = self.run_to_end([0], (config, "--set", "run.name=a 'b' \"c\" $d"), "train.sbatch", **self.in_slurm)
        self.assertEqual(code, 0, self.output)
        calls = self.read("calls").splitlines()
        self.assertEqual(calls[0], "srun")
        self.assertEqual(calls[-5:], [str(self.state / "cambium"), "run", config, "--set", "run.name=a 'b' \"c\" $d"])

    def test_outside_slurm_mpirun_starts_the_ranks_asked_for(self):
        self.run_to_end([0], ("--ranks", "3", "x.yaml"))
        calls = self.read("calls").splitlines()
        self.assertEqual(calls[0], "mpirun")
        self.assertEqual(calls[calls.index("-n") + 1], "3")
        self.assertIn("-q", calls)

    def test_no_config_is_a_usage_error(self):
        self.assertEqual(self.run_to_end([0], ()), 2)
        self.assertIn("launch.sh [--ranks N] CONFIG", self.output)

    def test_a_wrong_folder_is_named(self):
        settings = {**self.in_slurm, "CAMBIUM_ROOT": "/nowhere at all"}
        self.assertEqual(self.run_to_end([0], ("x.yaml",), "train.sbatch", **settings), 2)
        self.assertIn("'/nowhere at all'", self.output)


class Scripts(unittest.TestCase):
    def test_every_script_parses(self):
        scripts = [p for top in ("scripts", "jobs", "tests", ".ci") for p in sorted((ROOT / top).rglob("*"))]
        scripts = [p for p in scripts if p.suffix in (".sh", ".sbatch") or p.name == "run"]
        self.assertGreater(len(scripts), 5)
        for path in scripts:
            with self.subTest(path=path):
                done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
