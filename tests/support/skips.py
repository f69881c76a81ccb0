#!/usr/bin/env python3
"""skips.py JUNIT SKIPS: lists what ctest, GoogleTest or unittest skipped; fails when SKIPS does not excuse it.

A line of SKIPS is `name | fact about the machine`, where name is a ctest name or a GoogleTest `Suite.Name`.
"""
import re
import sys
import xml.etree.ElementTree

GTEST_SKIP = re.compile(r"\[  SKIPPED \] ([A-Za-z_][\w/]*\.\w[\w/]*)")
GTEST_DISABLED = re.compile(r"YOU HAVE \d+ DISABLED TEST")
UNITTEST_SKIP = re.compile(r"^OK \(.*skipped=\d+", re.MULTILINE)


def excuses(path):
    found = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            name, bar, fact = (part.strip() for part in line.partition("|"))
            if not bar or not name or not fact:
                sys.exit(f"{path}:{number}: expected `name | fact about the machine`, got `{line}`")
            found[name] = fact
    return found


def skipped(junit):
    """Names of what did not run, each once, in order."""
    names = {}
    for case in xml.etree.ElementTree.parse(junit).iter("testcase"):
        test = case.get("name")
        output = "".join(element.text or "" for element in case.iter("system-out"))
        if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            names[test] = None
        inner = [match.group(1) for match in GTEST_SKIP.finditer(output)]
        names.update(dict.fromkeys(inner))
        if GTEST_DISABLED.search(output) or UNITTEST_SKIP.search(output):
            names[test] = None
    return list(names)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    known = excuses(sys.argv[2])
    unexcused = 0
    for name in skipped(sys.argv[1]):
        if name in known:
            print(f"skipped: {name} ({known[name]})")
        else:
            print(f"skipped without an excuse in {sys.argv[2]}: {name}")
            unexcused += 1
    return 1 if unexcused else 0


if __name__ == "__main__":
    sys.exit(main())
