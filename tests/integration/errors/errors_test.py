#!/usr/bin/env python3
"""errors_test.py CAMBIUM: whatever fails, all ranks end soon with one line and the right code, and nothing is lost.

Tests are named after the rows of the failure list that they show with the executable (M04, D01, C02, …). The pieces below
the executable have their own tests; here the whole chain counts: exit code, stderr, run directory, and that the next start
goes on with the bits of a run that never failed.
"""
import copy
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

TEXT = str(support.CONFIGS / "data/tinyshakespeare/validation.txt")
STEPS = 6

CAMPAIGN = {
    "run": {"name": "errors", "seed": 3},
    "model": {
        "family": "llama",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32,
        "vocab_size": 256,
        "tie_word_embeddings": True,
    },
    "parallel": {"tensor": 1, "pipeline": 1, "data": 1, "micro_batch_size": 2, "logical": {"tensor": 2, "data": 2}},
    "tokenizer": {"bytes": True},
    "checkpoint": {"every_steps": 2, "keep_last": 10},
    "phases": [
        {
            "name": "only",
            "kind": "pretrain",
            "steps": STEPS,
            "global_batch_size": 8,
            "sequence_length": 16,
            "data": TEXT,
            "learning_rate": {"kind": "constant", "peak": 0.002, "warmup_steps": 4},
        }
    ],
}
FOUR = (2, 2, 1)  # ranks 0 and 1 are the first stage, 2 and 3 the last


class Errors(support.Story):
    def setUp(self):
        super().setUp()
        self.config = self.write("campaign", CAMPAIGN)

    def write(self, name, campaign):
        return support.write_config(self.folder / f"{name}.yaml", campaign)

    def attempt(self, physical=(1, 1, 1), settings=None, inject=(), code=0, run="run"):
        ranks, mesh = support.layout(*physical)
        return self.run_to_end(run, ranks, mesh | (settings or {}), inject, code=code)

    def refused(self, settings=None, physical=(1, 1, 1), code=2, config=None, run="run"):
        """A start that must not happen: the code, and not one file new or changed."""
        before = self.tree(".")
        ranks, mesh = support.layout(*physical)
        ended = self.run_to_end(run, ranks, mesh | (settings or {}), config=config, code=code)
        self.assertEqual(without_launcher(self.tree(".")), without_launcher(before), "a refused start left traces")
        self.assertEqual(ended.out, "")
        return ended

    def assert_goes_on(self, run="run"):
        """The next start ends with the bits of a run that nothing happened to."""
        self.attempt((1, 1, 2), run=run)
        if not (self.folder / "undisturbed").exists():
            self.run_to_end("undisturbed", 0)
        self.assert_equal_runs(run, "undisturbed")

    # --- ranks that fail

    def test_M04_a_rank_that_throws(self):
        ended = self.attempt(FOUR, inject=["throw:point=step,rank=2,step=3"], code=14)

        self.assert_one_line(ended, r"^rank 2 \(.+\): injected failure at step in step 3$")
        fault = (self.folder / "run/attempt-1/FAULT").read_text()
        self.assertIn("rank 2", fault)
        self.command("verify", self.checkpoint("run"))
        self.assert_goes_on()

    def test_M04_a_rank_that_throws_while_others_wait_in_a_collective(self):
        for rank, action in ((0, 9), (3, 11)):
            with self.subTest(rank=rank):
                run = f"rank-{rank}"
                inject = [f"throw:point=action,rank={rank},after={action}"]
                ended = self.attempt(FOUR, inject=inject, code=14, run=run)
                self.assert_one_line(ended, rf"^rank {rank} \(.+\): injected failure at action")

    def test_M04_a_rank_that_is_killed(self):
        ended = self.attempt(FOUR, inject=["kill:point=step,rank=2,step=3"], code=137)

        self.assertEqual(ended.error_lines, [])
        self.command("verify", self.checkpoint("run"))
        self.assert_goes_on()

    def test_M04_a_rank_that_leaves_with_success(self):
        ended = self.start("run", *support.layout(*FOUR), ["exit:point=step,rank=3,step=3"]).wait()

        self.assertNotEqual(ended.code, 0, "a job that lost a rank is no success")
        self.command("verify", self.checkpoint("run"))
        self.assert_goes_on()

    def test_M04_a_rank_that_stops_responding(self):
        inject = ["hang:point=action,rank=1,step=3"]
        ended = self.attempt(FOUR, {"run.watchdog_seconds": 2}, inject, code=15)

        self.assert_one_line(ended, r"^rank [0-3] \(.+\): no progress for 2 s in step 3, last action \".+\"; see .*FAULT$")
        self.command("verify", self.checkpoint("run"))
        self.assert_goes_on()

    # --- campaign files

    def test_bad_configs_name_all_problems_and_write_nothing(self):
        campaign = copy.deepcopy(CAMPAIGN)
        campaign["model"]["hidden_szie"] = 64
        campaign["run"]["seed"] = -1
        campaign["phases"][0]["optimizer"] = {"lr": 0.1}
        config = self.write("bad", campaign)

        ended = self.refused(config=config, physical=(1, 2, 1))

        self.assertEqual(len(ended.error_lines), 3, str(ended))
        for line, key in zip(ended.error_lines, ("run.seed", "model.hidden_szie", "phases.only.optimizer.lr")):
            self.assertRegex(line, rf"bad.yaml:\d+: {key}: ")
        self.assertIn("hidden_size", ended.err)

    def test_wrong_calls_are_refused(self):
        self.assertRegex(self.refused(config=self.folder / "absent.yaml").err, "absent.yaml")
        self.assertRegex(self.refused({"phases.only.stepz": 3}).err, "phases.only.stepz")
        self.assertRegex(self.command("rnu", "x", code=2).err, "rnu")
        self.assertRegex(self.command("run", code=2).err, "config")

    def test_Y09_batches_that_do_not_multiply_out(self):
        ended = self.refused({"phases.only.global_batch_size": 10})
        for number in ("10", "2"):
            self.assertIn(number, ended.err)

    def test_Y10_sizes_that_do_not_divide(self):
        ended = self.refused(physical=(1, 1, 3))
        self.assertRegex(ended.err, r"parallel.data: .*3.*2")
        ended = self.run_to_end("run", 2, {"parallel.tensor": 2, "parallel.data": 2}, code=2)
        self.assertRegex(ended.err, r"= 4 ranks, got 2; ")

    def test_M07_tasks_that_do_not_see_each_other(self):
        self.environment |= {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
        self.environment |= {"SLURM_STEP_NUM_TASKS": "4"}
        before = self.tree(".")
        ended = self.run_to_end("run", 0, code=2)
        self.assert_one_line(ended, "--mpi")
        self.assertEqual(self.tree("."), before)

    # --- data

    def test_D01_empty_missing_or_wrong_data(self):
        (self.folder / "empty.txt").write_text("")
        (self.folder / "folder").mkdir()
        for name, reason in (("empty.txt", "empty|0 "), ("folder", "director|regular"), ("absent.txt", "[Nn]o such file|cannot")):
            with self.subTest(data=name):
                path = self.folder / name
                ended = self.refused({"phases.only.data": path}, code=4, physical=(1, 2, 1))
                self.assert_one_line(ended, rf"{name}.*({reason})")

    def test_D02_a_text_shorter_than_its_sequence(self):
        for length in (10, 16):
            path = self.folder / "short.txt"
            path.write_text("x" * length)
            ended = self.refused({"phases.only.data": path}, code=4)
            self.assert_one_line(ended, rf"short.txt.*{length}.*17")

    # --- checkpoints

    def test_C02_C04_a_damaged_newest_checkpoint_is_passed_over_with_a_warning(self):
        self.attempt((1, 2, 1), inject=["kill:point=step,step=5"], code=137)
        whole = self.folder / "whole"
        shutil.copytree(self.folder / "run", whole, symlinks=True)
        newest = self.checkpoints("run")[-1]
        self.assertEqual(newest, "step-00000004")

        def truncate(folder):
            os.truncate(folder / "shard-00001.h5", (folder / "shard-00001.h5").stat().st_size - 100)

        def flip(folder):
            data = bytearray((folder / "shard-00000.h5").read_bytes())
            data[len(data) // 2] ^= 1
            (folder / "shard-00000.h5").write_bytes(data)

        damages = {
            "shard-00001.h5": truncate,
            "shard-00000.h5": flip,
            "model.h5": lambda folder: (folder / "model.h5").unlink(),
            "manifest.json": lambda folder: (folder / "manifest.json").write_text("{"),
        }
        for name, damage in damages.items():
            with self.subTest(damaged=name):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                shutil.copytree(whole, self.folder / "run", symlinks=True)
                damage(self.folder / "run/checkpoints" / newest)

                ended = self.attempt((2, 1, 1))

                self.assertRegex(ended.out, rf"warning: .*{newest}.*{name}|warning: .*{name}.*{newest}")
                self.assertEqual(self.events("run", "restart")[-1]["checkpoint"], "step-00000002")
                self.command("verify", self.folder / "run/checkpoints" / newest, code=0)  # written anew
        self.assert_goes_on()

    def test_C05_a_link_that_points_nowhere(self):
        self.attempt(inject=["kill_all:point=step,step=5"], code=137)
        link = self.folder / "run/checkpoints/latest"
        link.unlink()
        link.symlink_to("step-00000999")

        ended = self.attempt()

        self.assertRegex(ended.out, "warning: .*latest -> step-00000999: there is no such checkpoint")
        self.assertEqual(self.events("run", "restart")[-1]["checkpoint"], "step-00000004")
        self.assert_goes_on()

    def test_no_whole_checkpoint_is_an_error_and_no_fresh_start(self):
        self.attempt(inject=["kill_all:point=step,step=3"], code=137)
        for folder in (self.folder / "run/checkpoints").glob("step-*"):
            (folder / "manifest.json").unlink()

        self.assert_one_line(self.refused(code=4), "no whole checkpoint")

    def test_resume_must_and_never_say_what_they_found(self):
        self.assert_one_line(self.refused({"run.resume": "must"}), "run.resume: must, but there is no checkpoint")
        self.attempt()
        self.assert_one_line(self.refused({"run.resume": "never"}), "run.resume: never, but .*step-00000006")

    def test_the_contract_may_not_change_over_a_restart(self):
        self.attempt(inject=["kill_all:point=step,step=3"], code=137)

        ended = self.refused({"run.seed": 4, "parallel.micro_batch_size": 1})
        self.assert_one_line(ended, "parallel.micro_batch_size: the checkpoint has 2, the config has 1; run.seed: .* 3, .* 4")
        ended = self.refused({"parallel.logical.tensor": 1, "parallel.logical.data": 4})
        self.assert_one_line(ended, r"parallel.logical.tensor: the checkpoint has 2, the config has 1; parallel.logical.data")
        ended = self.refused({"phases.only.learning_rate.peak": 0.001})
        self.assertRegex(ended.err, r"phases.0: it has begun and may not change(.|\n)*0\.002(.|\n)*0\.001")

        free = {"phases.only.optimizer.shard": "false", "parallel.schedule": "gpipe", "parallel.sequence_parallel": "false"}
        self.attempt((2, 1, 2), free)
        self.run_to_end("undisturbed", 0)
        self.assert_equal_runs("run", "undisturbed")

    def test_what_lies_behind_the_present_phase_may_change(self):
        campaign = copy.deepcopy(CAMPAIGN)
        campaign["phases"].append(campaign["phases"][0] | {"name": "more", "steps": 4})
        config = self.write("two", campaign)
        self.run_to_end("run", 1, inject=["kill_all:point=step,step=3"], config=config, code=137)

        self.run_to_end("run", 1, {"phases.more.steps": 5, "phases.more.learning_rate.peak": 0.001}, config=config)

        self.assertEqual([row["step"] for row in self.steps("run")], list(range(1, STEPS + 6)))
        self.assertEqual(self.steps("run")[-1]["learning_rate"], 0.001)

    def test_C11_two_jobs_on_one_run_directory(self):
        first = self.start("run", 1, {}, ["hang:point=step,step=3"])
        while first.is_alive() and len(self.steps("run")) < 2:
            time.sleep(0.01)

        ended = self.run_to_end("run", 1, code=2)

        (owner,) = first.ranks()
        self.assert_one_line(ended, rf"lock.*pid {owner}")
        first.kill()
        ended = self.attempt()
        self.assertRegex(ended.out, rf"warning: lock: .*pid {owner}")
        self.assert_goes_on()

    # --- disks

    def test_C01_a_full_disk_costs_no_checkpoint(self):
        """Writes fail with EFBIG, and, where this user may mount a small disk, with ENOSPC."""
        with self.subTest(failure="EFBIG"):
            self.check_full_disk("limited", self.run_with_small_files, "File too large")
        small = self.folder / "small"
        small.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(small)]
        if os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0:
            self.addCleanup(subprocess.run, ["umount", "-l", str(small)], check=False)
            with self.subTest(failure="ENOSPC"):
                self.check_full_disk("small/run", self.run_on_a_full_disk, "No space left on device")

    def check_full_disk(self, run, run_without_room, reason):
        self.attempt(inject=["kill:point=step,step=3"], code=137, run=run)

        ended = run_without_room(run)

        self.assertEqual(ended.code, 12, str(ended))
        self.assert_one_line(ended, rf"step-00000004.partial/.*{reason}")
        self.assertEqual(self.checkpoint(run).resolve().name, "step-00000002")
        self.assertEqual(self.checkpoints(run), ["step-00000000", "step-00000002"])
        self.command("verify", self.checkpoint(run))
        partials = list((self.folder / run / "checkpoints").glob("*.partial"))
        self.assertEqual(partials, [], "a partial checkpoint fills the disk")
        self.assert_goes_on(run)

    def run_with_small_files(self, run):
        limit = ["bash", "-c", 'trap "" XFSZ; ulimit -f 100; exec "$@"', "bash"]
        command = [*limit, str(support.CAMBIUM), "run", str(self.config), "--set", f"run.directory={run}"]
        return support.Process(command, self.folder, self.environment).wait()

    def run_on_a_full_disk(self, run):
        filler = self.folder / "small/filler"
        free = shutil.disk_usage(filler.parent).free
        filler.write_bytes(b"\0" * (free - 60000))
        ended = self.start(run, *support.layout(1, 2, 1)).wait()
        filler.unlink()
        return ended

    # --- numbers

    def test_N05_a_gradient_that_is_not_finite_on_one_rank_skips_the_step_on_all(self):
        inject = ["nan:point=gradient,rank=1,step=3"]
        self.attempt((2, 2, 2), {"checkpoint.every_steps": 1}, inject)

        before, after = (support.read_model(self.checkpoint("run", step)) for step in (2, 3))
        for kind in support.SLOTS:
            for uid, array in after[kind].items():
                self.assert_equal_bits(array.values, before[kind][uid].values, f"{kind} of {array.name}")
                self.assertEqual(array.updates, 2)
        (event,) = self.events("run", "skipped_step")
        self.assertEqual((event["step"], event["in_a_row"]), (3, 1))
        rows = self.steps("run")
        self.assertEqual([row["step"] for row in rows], list(range(1, STEPS + 1)))
        self.assertEqual([row.get("is_skipped", False) for row in rows], [s == 3 for s in range(1, STEPS + 1)])
        last = support.read_model(self.checkpoint("run"))["parameters"]
        self.assertTrue(all(numpy.isfinite(array.values).all() for array in last.values()))
        self.assertEqual({array.updates for array in last.values()}, {STEPS - 1})
        # Where the poison lies does not matter.
        self.attempt((1, 1, 1), {"checkpoint.every_steps": 1}, ["nan:point=gradient,step=3"], run="other")
        self.assertEqual(support.row_numbers(last_line(self.folder / "other/metrics.jsonl")), self.numbers("run")[-1])

    def test_N05_too_many_skips_end_the_run_with_its_state_kept(self):
        inject = ["nan:point=gradient,rank=3,step=3", "nan:point=gradient,rank=0,step=4", "nan:point=gradient,rank=1,step=5"]
        ended = self.attempt(FOUR, {"run.on_nonfinite.skip_limit": 2}, inject, code=13)

        self.assert_one_line(ended, r"step 5: .*not finite in 3 steps in a row, expected at most 2 \(run.on_nonfinite.skip_limit\)")
        self.command("verify", self.checkpoint("run"))

    # --- launchers and terminals

    def test_M09_S07_odd_places_and_closed_streams_change_nothing(self):
        self.run_to_end("undisturbed", 0)
        run = "a b/ü'q\""
        (self.folder / "a b").mkdir()
        self.run_to_end(run, 2, {"parallel.tensor": 2})
        self.assert_equal_runs(run, "undisturbed")
        self.assertTrue((self.folder / run / "report.html").exists())

        command = '"$1" run "$2" --set run.directory=piped --set metrics.timeline_step=0 2>&1 <&- | head -1'
        shell = ["bash", "-c", f"set -o pipefail; {command}", "bash", str(support.CAMBIUM), str(self.config)]
        ended = support.Process(shell, self.folder, self.environment).wait()
        self.assertEqual(ended.code, 0, "a reader that left ended the run")
        self.assert_equal_runs("piped", "undisturbed")


def without_launcher(tree):
    return {name: status for name, status in tree.items() if not name.startswith("launcher")}


def last_line(path):
    return path.read_text().splitlines()[-1]


if __name__ == "__main__":
    support.main()
