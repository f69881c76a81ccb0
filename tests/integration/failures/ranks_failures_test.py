#!/usr/bin/env python3
"""ranks_failures_test.py CAMBIUM: rows of the failure list about ranks that share a machine, its files and its work."""
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support


class RanksFailures(support.Story):
    config = support.CONFIGS / "tiny/restart.yaml"

    def go(self, run, layout, settings=None, **arguments):
        ranks, mesh = support.layout(*layout)
        return self.run_to_end(run, ranks, mesh | (settings or {}), **arguments)

    def test_M01_without_the_right_to_read_another_ranks_memory(self):
        """Containers forbid cross-memory attach: the transport copies twice then, and gives the same bits."""
        self.go("usual", (2, 1, 2))
        self.environment["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
        self.go("contained", (2, 1, 2))
        self.assert_equal_runs("contained", "usual")

    def test_M02_killed_runs_leave_no_shared_memory_of_ours(self):
        """Five times: what the transport leaves behind a SIGKILL is in its own folder, and the next run works beside it."""
        shared = pathlib.Path(self.environment["OMPI_MCA_btl_vader_backing_directory"])
        elsewhere = lambda: {p.name for p in pathlib.Path("/dev/shm").iterdir() if p != shared and "cambium" in p.name.lower()}
        before = elsewhere()
        for attempt in range(5):
            self.go("run", (2, 1, 1), inject=[f"kill_all:point=step,step={2 * attempt + 3}"], code=137)
        self.go("run", (2, 1, 1))
        new = {name for name in elsewhere() - before if not name.startswith("cambium-story-")}
        self.assertEqual(new, set())

    def test_M02_too_little_shared_memory_is_told_and_costs_no_bit(self):
        """As in a container of 1 MiB; needs the right to mount a small disk. The rest is unit_comm's."""
        self.go("usual", (2, 1, 1))
        small = self.folder / "small"
        small.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(small)]
        if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
            return
        self.addCleanup(subprocess.run, ["umount", "-l", str(small)], check=False)
        self.environment["OMPI_MCA_btl_vader_backing_directory"] = str(small)
        self.go("run", (2, 1, 1))
        self.assert_equal_runs("run", "usual")
        told = "shared memory: .*small has 1048576 bytes free, the ranks of this host need 8388608"
        self.assertRegex((self.folder / "run/log.txt").read_text(), told)
        self.assertNotIn("shared memory", (self.folder / "usual/log.txt").read_text())

    def test_M05_every_rank_makes_the_same_collectives(self):
        """A validation of fewer samples than data shards; a corpus that its batches do not divide."""
        text = self.folder / "short.txt"
        text.write_bytes(b"to be or not to be, that is the question\n" * 9)  # 369 bytes: 15 sequences of 24
        uneven = {
            "phases.pretrain.data": text,
            "phases.continue.data": text,
            "phases.pretrain.validation.path": text,
            "phases.pretrain.validation.batches": 3,
        }
        self.go("one", (1, 1, 1), uneven)
        self.go("four", (2, 1, 2), uneven)
        self.assert_equal_runs("four", "one")
        self.assertEqual(len(self.steps("four")), 14)

    def test_M08_a_rank_that_stays_slow_is_named_once_and_a_single_stall_is_not(self):
        sleeps = ["slow:point=step,rank=2,count=99,after=3"] * 10  # 20 ms each
        self.go("slow", (2, 1, 2), inject=sleeps)
        self.assertEqual([event["rank"] for event in self.events("slow", "slow_rank")], [2])
        self.assertEqual((self.folder / "slow/log.txt").read_text().count("rank 2 ("), 1)
        self.go("stall", (2, 1, 2), inject=["slow:point=step,rank=2,step=5"] * 10)
        self.assertEqual(self.events("stall", "slow_rank"), [])
        times = [row["rank_seconds"] for row in self.steps("slow") if "rank_seconds" in row]
        self.assertTrue(times)
        self.assertEqual({len(row) for row in times}, {4})
        self.assertEqual(max(range(4), key=lambda rank: times[-1][rank]), 2)
        self.assert_equal_runs("slow", "stall")

    def test_M10_a_network_interface_that_is_not_there(self):
        """One line with the host, the wrong name and the names there are; by loopback the same bits as in shared memory."""
        self.go("usual", (2, 1, 1))
        self.environment |= {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "nosuch0"}
        ended = self.go("wrong", (2, 1, 1), code=10)
        self.assert_one_line(ended, r"^cambium: \S+: network: OMPI_MCA_btl_tcp_if_include=nosuch0 .* expected one of .*\blo\b")
        self.assertFalse((self.folder / "wrong").exists())
        self.environment["OMPI_MCA_btl_tcp_if_include"] = "lo"
        self.go("loopback", (2, 1, 1))
        self.assert_equal_runs("loopback", "usual")

    def test_D08_nothing_is_written_beside_the_data(self):
        """No cache that ranks could read half-written: the data's folder is as it was, on every rank."""
        data = self.folder / "data"
        data.mkdir()
        shutil.copy(support.CONFIGS / "data/tinyshakespeare/validation.txt", data / "text.txt")
        before = self.tree("data")
        settings = {"phases.pretrain.data": data / "text.txt", "phases.continue.data": data / "text.txt"}
        self.go("run", (2, 1, 2), settings)
        self.assertEqual(self.tree("data"), before)


if __name__ == "__main__":
    support.main()
