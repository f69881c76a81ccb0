"""support.py — what the stories share: starting ranks, killing them, reading what a run left behind.

A driver is started as `NAME_test.py CAMBIUM [unittest options]`. Every process that a test starts lives in a session of
its own, so that what is left of it is found and killed without touching anything else.
"""
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import h5py
import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
HAS_ARGUMENT = len(sys.argv) > 1 and not sys.argv[1].startswith("-")
CAMBIUM = pathlib.Path(sys.argv.pop(1) if HAS_ARGUMENT else ROOT / "build/release/cambium").resolve()
MPIRUN = ROOT / "tests/support/mpirun.sh"
CONFIGS = ROOT / "configs"
TIMEOUT = 300  # a guard against hangs, never an expectation
SLOTS = ("parameters", "optimizer/exp_avg", "optimizer/exp_avg_sq")


class Ended:
    """How a command ended: exit code (128 + signal as a shell gives it), texts, what was left alive is dead now."""

    def __init__(self, code, out, err):
        self.code = 128 - code if code < 0 else code
        self.out = out
        self.err = err

    @property
    def error_lines(self):
        return [line for line in self.err.splitlines() if line.strip()]

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out[-2000:]}\n--- stderr\n{self.err[-3000:]}"


def session_members(leader):
    """Live processes of a session (not zombies), by /proc."""
    members = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                members.append(int(entry.name))
    return members


def kill_session(leader):
    """SIGKILL to every process of the session: the launcher, its ranks, whatever they started."""
    while members := session_members(leader):
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


class Process:
    """A command in a session of its own."""

    def __init__(self, command, cwd, environment):
        self.out = tempfile.TemporaryFile("w+")
        self.err = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=self.err,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )

    def wait(self, timeout=TIMEOUT):
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            kill_session(self.process.pid)
            self.out.seek(0), self.err.seek(0)
            raise AssertionError(f"hangs after {timeout} s\n{Ended(-9, self.out.read(), self.err.read())}") from None
        kill_session(self.process.pid)
        self.out.seek(0), self.err.seek(0)
        ended = Ended(code, self.out.read(), self.err.read())
        self.out.close(), self.err.close()
        return ended

    def kill(self):
        """SIGKILL to launcher and ranks at once."""
        kill_session(self.process.pid)
        self.process.wait()
        self.out.close(), self.err.close()

    def is_alive(self):
        return self.process.poll() is None

    def ranks(self):
        """Process ids of the ranks, ascending."""
        members = []
        for pid in session_members(self.process.pid):
            try:
                if os.readlink(f"/proc/{pid}/exe") == str(CAMBIUM):
                    members.append(pid)
            except OSError:
                pass
        return sorted(members)


def layout(tensor, pipeline, data):
    """(ranks, settings) of a physical mesh."""
    return tensor * pipeline * data, {
        "parallel.tensor": tensor,
        "parallel.pipeline": pipeline,
        "parallel.data": data,
    }


class Story(unittest.TestCase):
    """A test with a folder of its own, in which run directories are plain names."""

    config = None  # path of the campaign file

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cambium-story-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        # Killed launchers leave their sockets and shared memory: they go with the test's own folders.
        shared = tempfile.mkdtemp(prefix="cambium-story-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, shared, ignore_errors=True)
        (self.folder / "launcher").mkdir()
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "CAMBIUM_"))} | {
            "OMP_NUM_THREADS": "1",
            "OMPI_MCA_orte_tmpdir_base": str(self.folder / "launcher"),
            "OMPI_MCA_btl_vader_backing_directory": shared,
        }

    # --- starting

    def start(self, run, ranks=1, settings=None, inject=(), config=None):
        """`cambium run` with run directory `run`; ranks 0 starts it without a launcher."""
        command = [str(MPIRUN), str(ranks)] if ranks > 0 else []
        command += [str(CAMBIUM), "run", str(config or self.config), "--set", f"run.directory={run}"]
        for key, value in (settings or {}).items():
            command += ["--set", f"{key}={value}"]
        for fault in inject:
            command += ["--inject", fault]
        process = Process(command, self.folder, self.environment)
        self.addCleanup(kill_session, process.process.pid)
        return process

    def run_to_end(self, run, ranks=1, settings=None, inject=(), config=None, code=0):
        """The same, waited for; `code` is asserted."""
        ended = self.start(run, ranks, settings, inject, config).wait()
        self.assertEqual(ended.code, code, f"{run}: {ended}")
        return ended

    def command(self, *arguments, code=0):
        process = Process([str(CAMBIUM), *map(str, arguments)], self.folder, self.environment)
        ended = process.wait()
        if code is not None:
            self.assertEqual(ended.code, code, f"{arguments}: {ended}")
        return ended

    # --- reading

    def lines(self, run, name="metrics.jsonl"):
        path = self.folder / run / name
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]

    def events(self, run, kind):
        return [event for event in self.lines(run, "events.jsonl") if event["event"] == kind]

    def steps(self, run):
        """Rows of training steps, in file order."""
        return [row for row in self.lines(run) if "loss" in row]

    def numbers(self, run):
        """What the contract promises of a run's rows: the digits as they stand in the file."""
        return [row_numbers(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]

    def ranks(self, run):
        return json.loads((self.folder / run / "ranks.json").read_text())

    def checkpoint(self, run, step=None):
        name = "latest" if step is None else f"step-{step:08d}"
        return self.folder / run / "checkpoints" / name

    def checkpoints(self, run):
        """Names of whole checkpoints by step, ascending."""
        return sorted(p.name for p in (self.folder / run / "checkpoints").glob("step-????????"))

    def tree(self, run):
        """Every path below a folder with its size and time: what a refused start must leave as it is."""
        found = {}
        for path in sorted((self.folder / run).rglob("*")):
            status = path.lstat()
            found[str(path.relative_to(self.folder))] = (status.st_mode, status.st_size, status.st_mtime_ns)
        return found

    # --- asserting

    def assert_equal_checkpoints(self, a, b):
        ended = self.command("compare", a, b, code=None)
        self.assertEqual(ended.code, 0, f"{a} and {b}: {ended}")
        self.assertIn("equal:", ended.out)

    def assert_equal_runs(self, run, reference):
        """Every row's digits and the final checkpoint, state and slots included."""
        self.assertEqual(self.numbers(run), self.numbers(reference), f"{run} and {reference}")
        self.assert_equal_checkpoints(self.checkpoint(run), self.checkpoint(reference))

    def assert_equal_bits(self, a, b, what):
        a, b = numpy.asarray(a), numpy.asarray(b)
        self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype), what)
        self.assertEqual(a.tobytes(), b.tobytes(), what)

    def assert_one_line(self, ended, pattern):
        self.assertEqual(len(ended.error_lines), 1, str(ended))
        self.assertRegex(ended.error_lines[0], pattern)


def row_numbers(line):
    """The digits of a row's deterministic fields, as text: two doubles differ in 17 digits when they differ in a bit."""
    row = json.loads(line, parse_float=str, parse_int=str)
    return {k: v for k, v in row.items() if k not in ("attempt", "seconds", "tokens_per_second", "rank_seconds")}


class Array:
    """One array of a checkpoint's model.h5, read through the virtual view."""

    def __init__(self, name, dataset):
        self.name = name
        self.values = dataset[()]
        self.uid = int(dataset.attrs["uid"])
        self.updates = int(dataset.attrs["updates"])
        self.birth_step = int(dataset.attrs["birth_step"])


def read_model(checkpoint):
    """model.h5 with h5py: {kind: {uid: Array}} for parameters and both slots."""
    model = {}
    with h5py.File(checkpoint / "model.h5", "r") as file:
        for kind in SLOTS:
            arrays = {}

            def visit(name, item, arrays=arrays):
                if isinstance(item, h5py.Dataset):
                    array = Array(name, item)
                    arrays[array.uid] = array

            file[kind].visititems(visit)
            model[kind] = arrays
    return model


def named(arrays):
    return {array.name: array for array in arrays.values()}


def xxh3(path):
    """The checksum of manifest.json: xxh3, 64 bits, 16 hex digits."""
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    library.XXH3_64bits.restype = ctypes.c_uint64
    data = pathlib.Path(path).read_bytes()
    return f"{library.XXH3_64bits(data, len(data)):016x}"


def copy_with_zeros(source, target, names):
    """A whole checkpoint like `source` in which the named parameters are zero, under right checksums."""
    shutil.copytree(source, target)
    for shard in target.glob("shard-*.h5"):
        with h5py.File(shard, "r+") as file:
            for name in names:
                for piece in file.get("parameters/" + name, {}).values():
                    piece[...] = 0
    manifest = json.loads((target / "manifest.json").read_text())
    for entry in manifest["files"]:
        entry["xxh3"] = xxh3(target / entry["name"])
    (target / "manifest.json").write_text(json.dumps(manifest))


def write_config(path, campaign):
    """A campaign as JSON, which is YAML."""
    path.write_text(json.dumps(campaign, indent=1))
    return path


def main():
    unittest.main()
