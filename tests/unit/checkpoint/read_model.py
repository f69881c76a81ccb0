"""read_model.py FOLDER EXPECTED.json whole|missing: model.h5 as h5py sees it against the raw bytes of each array.
In mode `missing` some elements must be NaN and all others right. Exit code 0 when all is as expected."""
import json
import sys

import h5py
import numpy as np


def main():
    folder, expected_file, mode = sys.argv[1:]
    problems, holes = [], 0
    names = []
    with h5py.File(f"{folder}/model.h5", "r") as file:
        file.visititems(lambda name, item: names.append("/" + name) if isinstance(item, h5py.Dataset) else None)
        expected = json.load(open(expected_file))
        if sorted(names) != sorted(e["name"] for e in expected):
            problems.append(f"names are {names}")
        for e in expected:
            got = file[e["name"]]
            want = np.fromfile(e["raw"], "<f8" if e["type"] == "f64" else "<f4").reshape(e["shape"])
            if got.dtype != want.dtype or list(got.shape) != e["shape"]:
                problems.append(f"{e['name']}: {got.dtype} {got.shape}, expected {want.dtype} {want.shape}")
                continue
            attributes = {key: value.item() for key, value in got.attrs.items()}
            if attributes != e["attributes"]:
                problems.append(f"{e['name']}: attributes {attributes}, expected {e['attributes']}")
            values = got[()]
            gone = np.isnan(values)
            holes += int(gone.sum())
            if not np.array_equal(values[~gone], want[~gone]):
                problems.append(f"{e['name']}: {int((values != want).sum())} elements differ")
        if file.attrs["step"] != 5 or file.attrs["version"] != 1:
            problems.append(f"root attributes {dict(file.attrs)}")
    if (holes > 0) != (mode == "missing"):
        problems.append(f"{holes} elements are NaN")
    print("\n".join(problems), end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
