#!/usr/bin/env python3
"""check_layers.py finds each kind of violation in a small tree, and nothing in a clean one."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/check_layers.py"
LICENCE = "// SPDX-License-Identifier: Apache-2.0"
CLEAN = {
    "scripts/layers.txt": "# comment\nbase   :\nkernels : base\ncomm   : base\nengine : base comm kernels\n",
    "src/base/CMakeLists.txt": "cambium_module(base SOURCES error.cpp)\n",
    "src/base/error.hpp": "#include <string>\n",
    "src/comm/CMakeLists.txt": "cambium_module(comm SOURCES group.cpp DEPENDS base)\n"
    "cambium_module(comm_mpi SOURCES world.cpp DEPENDS base comm LIBRARIES cambium_mpi)  # one folder\n",
    "src/comm/world.cpp": '#include "comm/group.hpp"\n\n#include <mpi.h>\n',
    "src/engine/CMakeLists.txt": "cambium_module(engine\n  SOURCES step.cpp\n  DEPENDS base comm comm_mpi kernels)\n",
    "src/engine/step.cpp": '#include "base/error.hpp"\n#include "kernels/product.hpp"\n',
    "kernels/product.hpp": '#include "base/error.hpp"\n',
    "app/main.cpp": '#include <CLI/CLI.hpp>\n#include "engine/step.hpp"\n',
}


def check(changes, has_licence=True):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**CLEAN, **changes}.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{LICENCE}\n{text}" if path.suffix in (".hpp", ".cpp") and has_licence else text)
        done = subprocess.run([sys.executable, str(SCRIPT), folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class CheckLayers(unittest.TestCase):
    def assert_found(self, changes, *words):
        code, output = check(changes)
        self.assertEqual(code, 1, output)
        for word in words:
            self.assertIn(word, output)
        self.assertEqual(len(output.strip().splitlines()), 1, output)

    def test_accepts_a_clean_tree(self):
        self.assertEqual(check({}), (0, "layers: no problem\n"))

    def test_finds_an_include_of_a_higher_module(self):
        self.assert_found({"src/base/error.hpp": '#include "engine/step.hpp"\n'}, "src/base/error.hpp", "engine/step.hpp")

    def test_finds_kernels_that_know_a_module_above_them(self):
        self.assert_found({"kernels/cpu/x.cpp": '#include "comm/group.hpp"\n'}, "kernels/cpu/x.cpp", "comm/group.hpp")

    def test_finds_an_include_that_is_not_from_the_root(self):
        self.assert_found({"src/comm/world.cpp": '#include "group.hpp"\n'}, "expected MODULE/FILE.hpp")

    def test_finds_a_folder_without_a_row(self):
        self.assert_found({"src/extra/x.cpp": '#include "base/error.hpp"\n'}, "src/extra/x.cpp", "not in layers.txt")

    def test_finds_a_row_that_is_not_ascending(self):
        table = CLEAN["scripts/layers.txt"].replace("base   :", "base   : engine")
        code, output = check({"scripts/layers.txt": table})
        self.assertEqual(code, 1)
        self.assertIn("base: `engine` does not stand above it", output)

    def test_finds_cmake_that_disagrees_with_the_table(self):
        self.assert_found(
            {"src/engine/CMakeLists.txt": "cambium_module(engine SOURCES step.cpp DEPENDS base comm)\n"},
            "engine: DEPENDS in CMake is [base comm]",
        )

    def test_finds_each_library_outside_its_module(self):
        for header, name in {
            "mpi.h": "src/engine/a.cpp",
            "nccl.h": "src/engine/a.cpp",
            "hdf5.h": "src/comm/a.cpp",
            "yaml-cpp/yaml.h": "src/comm/a.cpp",
            "cuda_runtime.h": "kernels/cpu/a.cpp",
            "cublasLt.h": "src/comm/a.cpp",
            "hwy/highway.h": "kernels/reference/a.cpp",
            "CLI/CLI.hpp": "src/base/a.cpp",
        }.items():
            with self.subTest(header=header):
                self.assert_found({name: f"#include <{header}>\n"}, name, header)

    def test_finds_files_over_their_limit(self):
        self.assert_found({"src/base/long.hpp": "\n" * 200}, "src/base/long.hpp", "201 lines, at most 200")
        self.assert_found({"src/base/long.cpp": "\n" * 500}, "src/base/long.cpp", "501 lines, at most 500")

    def test_finds_files_without_a_licence_line(self):
        code, output = check({}, has_licence=False)
        self.assertEqual(code, 1)
        self.assertEqual(output.count(f"lacks the line {LICENCE}"), sum(name.endswith("pp") for name in CLEAN), output)


if __name__ == "__main__":
    unittest.main()
