#!/usr/bin/env bash
# tests/bench/run.sh — builds the benchmarks and times whole training steps; prints JSON lines.
# Ours for the shapes tiny and gpt2 on 1 and 2 threads. With PEERS (the folder that holds bench_step.py) and PYTHON (one that
# has torch), PyTorch does the same work, in turn with ours, and lines of ratios follow. Read them with README.md.
#
#   tests/bench/run.sh
#   PEERS=../shared/peers PYTHON=venv/bin/python ROUNDS=3 tests/bench/run.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build/release}
rounds=${ROUNDS:-1}
shapes=${SHAPES:-tiny gpt2}

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release >&2
cmake --build "$build" --target step_bench --parallel "${JOBS:-2}" >&2

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT

# Percent of all cores that others use, over one second: a line measured on a busy machine says so.
busy() {
  local before after
  read -ra before < /proc/stat
  sleep 1
  read -ra after < /proc/stat
  local total=0 idle=0 i
  for i in 1 2 3 4 5 6 7 8; do
    total=$((total + after[i] - before[i]))
  done
  idle=$((after[4] - before[4] + after[5] - before[5]))
  echo $((100 * (total - idle) / total))
}

# note COMMAND…: adds the load just before to the line that the command prints.
note() {
  local load
  load=$(busy)
  "$@" | sed "s/^{/{\"busy_percent\":$load,/" | tee -a "$lines"
}

steps_of() {
  case $1 in
    tiny) echo 15 ;;
    *) echo 4 ;;
  esac
}

for ((round = 1; round <= rounds; ++round)); do
  for shape in $shapes; do
    steps=$(steps_of "$shape")
    note "$build/step_bench" "$shape" 1 "$steps"
    note "$build/step_bench" "$shape" 2 "$steps"
    if [[ -n "${PEERS:-}" ]]; then
      batch=8
      [[ $shape == tiny ]] || batch=4
      for compile in "" --compile; do
        note env -C "$PEERS" "$(realpath -s "${PYTHON:-python3}")" bench_step.py --model "$shape" -B "$batch" -T 256 \
          --steps "$steps" --threads 2 $compile
      done
      note "$build/step_bench" "$shape" 2 "$steps"
    fi
  done
done
# What a process of ours or theirs holds before it has work. PyTorch's is asked from inside, as its benchmarks do: its exit takes 100 MB more.
empty_processes() {
  python3 - "$build/step_bench" <<'PY'
import json, resource, subprocess, sys
subprocess.run([sys.argv[1], "none"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # an unknown shape: ends at once
print(json.dumps({"bench": "empty", "of": "ours", "rss_MB": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024}))
PY
  "$(realpath -s "${PYTHON:-python3}")" - <<'PY'
import json, resource, torch
print(json.dumps({"bench": "empty", "of": "torch", "rss_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))
PY
}

if [[ -n "${PEERS:-}" ]]; then
  empty_processes | tee -a "$lines"
  env -C "$PEERS" "$(realpath -s "${PYTHON:-python3}")" bench_gemm.py 2 > "$lines.gemm"
  python3 "$root/tests/bench/ratios.py" "$lines" "$lines.gemm"
  rm -f "$lines.gemm"
fi
