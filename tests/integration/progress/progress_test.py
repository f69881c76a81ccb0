#!/usr/bin/env python3
"""progress_test.py CAMBIUM: one line that is rewritten for a person, plain lines for a log, under mpirun and without it."""
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CAMBIUM = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build/release/cambium"
CONFIG = ROOT / "configs/tiny/contract.yaml"
MPIRUN = ROOT / "tests/support/mpirun.sh"
REWRITTEN = b"\rpretrain 2/3  loss "  # a step in the middle of the phase, on a line that begins again


def without_line_ends(output):
    """A pseudo-terminal turns \\n into \\r\\n."""
    return output.replace(b"\r\n", b"\n")


class Progress(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cambium-progress-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def command(self, *options, ranks=None):
        launcher = [str(MPIRUN), str(ranks)] if ranks else []
        settings = ["--set", f"run.directory={self.folder}/run", "--set", "phases.pretrain.steps=3"]
        return [*launcher, str(CAMBIUM), "run", str(CONFIG), *settings, *options]

    def run_into_a_pipe(self, *options, ranks=None):
        done = subprocess.run(self.command(*options, ranks=ranks), capture_output=True, stdin=subprocess.DEVNULL, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return without_line_ends(done.stdout)

    def run_on_a_terminal(self, *options):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(self.command(*options), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
        os.close(theirs)
        output = b""
        while True:
            try:
                output += os.read(ours, 65536)
            except OSError:  # EIO: the other end is closed
                break
        os.close(ours)
        self.assertEqual(process.wait(timeout=200), 0, output)
        return without_line_ends(output)

    def test_a_log_under_mpirun_has_plain_lines(self):
        output = self.run_into_a_pipe(ranks=2)

        self.assertNotIn(b"\r", output)
        self.assertRegex(output, rb"(?m)^\[attempt 1\] step 3  pretrain 3/3  loss ")

    def test_live_is_live_under_mpirun_too(self):
        self.assertIn(REWRITTEN, self.run_into_a_pipe("--progress", "live", ranks=2))

    def test_one_process_on_a_terminal_is_live(self):
        self.assertIn(REWRITTEN, self.run_on_a_terminal())

    def test_plain_is_plain_on_a_terminal_too(self):
        self.assertNotIn(b"\r", self.run_on_a_terminal("--progress", "plain"))

    def test_another_word_is_refused(self):
        done = subprocess.run(self.command("--progress", "loud"), capture_output=True, text=True, check=False, timeout=60)

        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("--progress", done.stderr)
        self.assertFalse(pathlib.Path(self.folder, "run").exists())


if __name__ == "__main__":
    unittest.main()
