#!/usr/bin/env python3
"""skips.py sees a skip in every form, whatever hides it, and accepts it only with a fact."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "support/skips.py"


def run(cases, excuses=""):
    with tempfile.TemporaryDirectory() as folder:
        junit, skips = pathlib.Path(folder, "junit.xml"), pathlib.Path(folder, "skips.txt")
        junit.write_text(f"<testsuite>{cases}</testsuite>")
        skips.write_text(excuses)
        done = subprocess.run([sys.executable, str(SCRIPT), str(junit), str(skips)], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


def case(name, output="", inner="", status="run"):
    return f'<testcase name="{name}" status="{status}">{inner}<system-out>{output}</system-out></testcase>'


class Skips(unittest.TestCase):
    def test_accepts_a_run_without_skips(self):
        self.assertEqual(run(case("unit_base", "[       OK ] Hash.IsStable (0 ms)")), (0, ""))

    def test_finds_a_gtest_skip_in_a_passing_test_once(self):
        output = "[  SKIPPED ] Product.RunsOnAvx512 (0 ms)\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] Product.RunsOnAvx512"
        code, printed = run(case("kernels_product", output))
        self.assertEqual(code, 1)
        self.assertEqual(printed.count("Product.RunsOnAvx512"), 1)

    def test_finds_a_parameterised_gtest_skip(self):
        code, printed = run(case("t", "[  SKIPPED ] Isa/Product.Runs/avx512 (0 ms)"))
        self.assertEqual(code, 1)
        self.assertIn("Isa/Product.Runs/avx512", printed)

    def test_finds_tests_that_ctest_or_unittest_or_gtest_left_out(self):
        for name, text in {
            "by_ctest": case("by_ctest", inner='<skipped message="SKIP_RETURN_CODE=77"/>'),
            "not_run": case("not_run", status="notrun"),
            "disabled": case("disabled", "  YOU HAVE 1 DISABLED TEST"),
            "in_python": case("in_python", "Ran 3 tests in 0.1s\n\nOK (skipped=1)"),
        }.items():
            with self.subTest(name=name):
                code, printed = run(text)
                self.assertEqual(code, 1)
                self.assertIn(name, printed)

    def test_an_excuse_is_printed_and_accepted(self):
        output = "[  SKIPPED ] Cuda.Runs (0 ms)"
        self.assertEqual(run(case("t", output), "# facts\nCuda.Runs | no GPU\n"), (0, "skipped: Cuda.Runs (no GPU)\n"))

    def test_an_excuse_without_a_fact_is_refused(self):
        code, printed = run(case("t"), "Cuda.Runs\n")
        self.assertEqual(code, 1)
        self.assertIn("skips.txt:1: expected", printed)


if __name__ == "__main__":
    unittest.main()
