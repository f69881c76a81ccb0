#!/usr/bin/env python3
"""check_layers.py [ROOT]: the layer table is the truth. Compares scripts/layers.txt with every #include of src/ and kernels/
and with the DEPENDS of every cambium_module(), keeps each library in its module, files within their size limits, and a
licence line in each. Prints every problem."""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)
MODULE_CALL = re.compile(r"cambium_module\(\s*(\w+)([^)]*)\)")
KEYWORDS = {"SOURCES", "DEPENDS", "LIBRARIES"}
# library header → the folders that may include it
LIBRARIES = [
    (r"mpi\.h|nccl\.h", ["src/comm"]),
    (r"hdf5(_hl)?\.h|H5\w+\.h", ["src/checkpoint"]),
    (r"yaml-cpp/.*", ["src/config"]),
    (r"cuda[\w/]*\.(h|hpp)|cublas\w*\.h", ["src/device", "kernels/cuda"]),
    (r"hwy/.*", ["kernels/cpu"]),
    (r"immintrin\.h|xmmintrin\.h", ["kernels/cpu", "kernels/reference", "src/device", "src/base"]),
    (r"xxhash\.h", ["src/base"]),
    (r"CLI/.*", ["app"]),
]
LICENCE = "// SPDX-License-Identifier: Apache-2.0"
LIMITS = {".hpp": 200, ".cuh": 200, ".cpp": 500, ".cu": 500}


def read_table(path):
    table, problems = {}, []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            module, row = (part.strip() for part in line.split(":"))
            problems += [f"{path.name}: {module}: `{low}` does not stand above it" for low in row.split() if low not in table]
            table[module] = set(row.split())
    return table, problems


def sources(root, *folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in LIMITS:
                yield path, path.relative_to(root).as_posix()


def module_of(name):
    return "kernels" if name.startswith("kernels/") else name.split("/")[1]


def check_includes(root, table):
    for path, name in sources(root, "src", "kernels", "app"):
        for quote, header in INCLUDE.findall(path.read_text()):
            for pattern, folders in LIBRARIES:
                if re.fullmatch(pattern, header) and not any(name.startswith(f + "/") for f in folders):
                    yield f"{name}: includes {header}, which only {' and '.join(folders)} may"
            if quote == "<" or name.startswith("app/"):
                continue
            other = header.split("/")[0]
            if other not in table:
                yield f"{name}: includes \"{header}\"; expected MODULE/FILE.hpp from the include root"
            elif module_of(name) not in table:
                yield f"{name}: its folder is not in layers.txt"
            elif other not in table[module_of(name)] | {module_of(name)}:
                yield f"{name}: includes \"{header}\"; `{module_of(name)}` may include only: {' '.join(sorted(table[module_of(name)]))}"


def check_cmake(root, table):
    lists = [p for top in ("src", "kernels") for p in sorted((root / top).rglob("CMakeLists.txt"))]
    folder_of, depends = {}, {}  # several targets may share a folder: comm, comm_mpi, comm_nccl
    for path in lists:
        for target, body in MODULE_CALL.findall(re.sub(r"#.*", "", path.read_text())):
            folder_of[target] = module_of(path.relative_to(root).as_posix())
            words = body.split()
            start = words.index("DEPENDS") + 1 if "DEPENDS" in words else len(words)
            end = next((i for i in range(start, len(words)) if words[i] in KEYWORDS), len(words))
            depends.setdefault(folder_of[target], set()).update(words[start:end])
    for folder, targets in depends.items():
        have = {folder_of.get(target, target) for target in targets} - {folder}
        if have != table.get(folder):
            yield f"{folder}: DEPENDS in CMake is [{' '.join(sorted(have))}], layers.txt has [{' '.join(sorted(table.get(folder, [])))}]"


def check_files(root):
    for path, name in sources(root, "src", "kernels", "app", "tests"):
        text = path.read_text()
        if LICENCE not in text.split("\n"):
            yield f"{name}: lacks the line {LICENCE}"
        lines = text.count("\n")
        limit = LIMITS[".cpp"] if name.endswith("-inl.hpp") else LIMITS[path.suffix]  # -inl: code, in Highway's way
        if lines > limit:
            yield f"{name}: {lines} lines, at most {limit}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    table, problems = read_table(root / "scripts/layers.txt")
    problems += [*check_includes(root, table), *check_cmake(root, table), *check_files(root)]
    print("\n".join(problems) if problems else "layers: no problem")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
