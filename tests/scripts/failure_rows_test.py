#!/usr/bin/env python3
"""Each row of the failure list has a test whose name carries its id; rows still open are listed, and only those."""
import pathlib
import re
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
ID = r"([YDCMN]\d\d)"
# A name begins with the ids that it is about: TEST(Suite, M03Refuses…), def test_C02_C04_…, NAME mpi.fault.M04_…
NAMES = {
    ".cpp": re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|CAMBIUM_MPI_TEST)\([^,]+,\s*([A-Za-z0-9_]+)", re.MULTILINE),
    ".py": re.compile(r"^\s+def test_([A-Za-z0-9_]+)\(", re.MULTILINE),
    ".txt": re.compile(r"\badd_test\(NAME\s+(?:\w+\.)*(\S+)"),
}


def ids_of(name):
    """The ids at the front of a name: "C02_C04_a_damaged…" has two, "ReadsC02" none."""
    found = []
    while match := re.match(ID + r"(?![0-9])_?", name):
        found.append(match.group(1))
        name = name[match.end() :]
    return found


def ids_in(suffix, text):
    return {i for name in NAMES[suffix].findall(text) for i in ids_of(name)}


def tested(folder):
    """Ids of all test names below a folder."""
    found = set()
    for path in folder.rglob("*"):
        is_list = path.suffix != ".txt" or path.name == "CMakeLists.txt"
        if path.suffix in NAMES and is_list and path != pathlib.Path(__file__).resolve():
            found |= ids_in(path.suffix, path.read_text(errors="replace"))
    return found


def lines_of(path):
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def rows():
    found = []
    for line in lines_of(HERE / "failure_rows.txt"):
        group, first, last = line.split()
        found += [f"{group}{n:02}" for n in range(int(first), int(last) + 1)]
    return found


class Names(unittest.TestCase):
    def test_begin_with_their_ids(self):
        self.assertEqual(ids_of("M03RefusesALowLevel"), ["M03"])
        self.assertEqual(ids_of("C02_C04_a_damaged_one"), ["C02", "C04"])
        self.assertEqual(ids_of("ReadsC02"), [])
        self.assertEqual(ids_of("N012Lanes"), [])

    def test_are_those_of_tests_only(self):
        self.assertEqual(ids_in(".cpp", "// D01 is below\nTEST(Data,\n     D02IsShort) {"), {"D02"})
        self.assertEqual(ids_in(".py", '    def test_M08_x(self):\n        """C01"""'), {"M08"})
        self.assertEqual(ids_in(".txt", "# M05\n  add_test(NAME mpi.fault.M04_${mode}"), {"M04"})


class Rows(unittest.TestCase):
    def test_have_a_test_or_are_listed_as_open(self):
        still_open = lines_of(HERE / "failure_rows_open.txt")
        self.assertEqual(sorted(set(rows()) - tested(TESTS)), sorted(still_open))

    def test_are_all_there(self):
        self.assertEqual(len(rows()), 51)
        self.assertEqual(len(set(rows())), 51)


if __name__ == "__main__":
    unittest.main()
