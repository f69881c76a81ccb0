#!/usr/bin/env bash
# tests/bench/run.sh [CASE…] — builds the benchmarks and times training steps; prints JSON lines, each with its case. Without
# a name all cases run. With PEERS (the folder that holds bench_step.py) and PYTHON (one that has torch), PyTorch does the
# same work in turn with ours, and lines of ratios follow. Read them with README.md.
#
#   tests/bench/run.sh                                    # ours alone
#   PEERS=../shared/peers PYTHON=venv/bin/python tests/bench/run.sh tiny tiny-bf16 gpt2 gpt2-bf16
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build/release}
python=$(realpath -s "${PYTHON:-python3}")
bench=$build/step_bench

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release >&2
cmake --build "$build" --target step_bench --parallel "${JOBS:-2}" >&2

lines=$(mktemp)
trap 'rm -f "$lines" "$lines.gemm"' EXIT

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

# note CASE OF COMMAND…: adds case, whose it is, and the load just before to the lines that the command prints.
note() {
  local name=$1 of=$2 load
  shift 2
  load=$(busy)
  "$@" | sed "s/^{/{\"case\":\"$name\",\"of\":\"$of\",\"busy_percent\":$load,/" | tee -a "$lines"
}

# PyTorch takes and frees its activations every step. By default glibc hands large blocks back to the kernel, and page faults then cost
# up to a third of a step, more on one day than on another; told to keep them, PyTorch is at its best.
keep_memory=(MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=67108864)

peer() {
  [[ -z "${PEERS:-}" ]] || note "$1" "$2" env -C "$PEERS" "${keep_memory[@]}" "$python" "${@:3}"
}

# step CASE OURS THEIRS: ours, PyTorch eager, compiled, ours again.
step() {
  local name=$1
  local -a ours theirs
  read -ra ours <<< "$2"
  read -ra theirs <<< "$3"
  note "$name" ours "$bench" "${ours[@]}" --threads 2
  peer "$name" eager bench_step.py "${theirs[@]}" --threads 2
  peer "$name" compiled bench_step.py "${theirs[@]}" --threads 2 --compile
  [[ -z "${PEERS:-}" ]] || note "$name" ours "$bench" "${ours[@]}" --threads 2
}

# two CASE OURS THEIRS: the same for two processes of one thread each.
two() {
  local name=$1
  local -a ours theirs
  read -ra ours <<< "$2"
  read -ra theirs <<< "$3"
  for _ in 1 2; do
    note "$name" ours "$root/tests/support/mpirun.sh" 2 "$bench" "${ours[@]}"
    peer "$name" eager "${theirs[@]}"
  done
}

run_case() {
  local ranks extra block
  case $1 in
    tiny) step tiny "tiny --family gpt2 --steps 15" "--model tiny -B 8 -T 256 --steps 15" ;;
    tiny-bf16) step tiny-bf16 "tiny --family gpt2 --steps 15 --bf16" "--model tiny -B 8 -T 256 --steps 15 --dtype bf16" ;;
    gpt2) step gpt2 "gpt2 --family gpt2 --steps 4" "--model gpt2 -B 4 -T 256 --steps 4" ;;
    gpt2-bf16) step gpt2-bf16 "gpt2 --family gpt2 --steps 4 --bf16" "--model gpt2 -B 4 -T 256 --steps 4 --dtype bf16" ;;
    gpt2-T64) step gpt2-T64 "gpt2 --family gpt2 --steps 6 --positions 64" "--model gpt2 -B 4 -T 64 --steps 6" ;;
    gpt2-T64-bf16) step gpt2-T64-bf16 "gpt2 --family gpt2 --steps 6 --positions 64 --bf16" "--model gpt2 -B 4 -T 64 --steps 6 --dtype bf16" ;;
    gpt2-T1024) step gpt2-T1024 "gpt2 --family gpt2 --steps 2 --positions 1024" "--model gpt2 -B 4 -T 1024 --steps 2 --warmup 1" ;;
    gpt2-T1024-bf16) step gpt2-T1024-bf16 "gpt2 --family gpt2 --steps 2 --positions 1024 --bf16" "--model gpt2 -B 4 -T 1024 --steps 2 --warmup 1 --dtype bf16" ;;
    data-parallel) two data-parallel "tiny --family gpt2 --data 2 --logical-data 2 --micro-batch 4 --steps 15" "bench_ddp.py --procs 2 --steps 15" ;;
    pipeline) two pipeline "tiny --family gpt2 --pipeline 2 --micro-batch 2 --steps 10" "bench_pp.py --steps 10" ;;
    cluster) # a CPU-only cluster in small: exact against native reductions, by ranks and threads
      for _ in 1 2 3; do
        for ranks in "1 2" "2 1" "2 2" "4 1" "4 2" "8 1"; do
          for extra in "" --fast; do
            # shellcheck disable=SC2086
            note cluster ours "$root/tests/support/mpirun.sh" "${ranks% *}" "$bench" tiny --logical-data 8 --micro-batch 1 \
              --data "${ranks% *}" --threads "${ranks#* }" --steps 8 $extra
          done
        done
      done
      ;;
    exact) # the same at physical = logical, where native reductions would do
      for _ in 1 2 3 4 5; do
        for extra in "" --fast; do
          # shellcheck disable=SC2086
          note exact ours "$root/tests/support/mpirun.sh" 2 "$bench" tiny --data 2 --logical-data 2 --micro-batch 4 --steps 15 $extra
        done
      done
      ;;
    blocks) # what a gated block behind every layer costs a token
      for _ in 1 2 3; do
        for block in none closed open; do
          note blocks ours "$bench" gpt2 --threads 2 --forward-only --steps 10 --block "$block"
        done
      done
      ;;
    *) echo "run.sh: unknown case $1; one of: ${all[*]}" >&2 && return 2 ;;
  esac
}

# What a process of ours or theirs holds before it has work. PyTorch's is asked from inside, as its benchmarks do: its exit takes 100 MB more.
empty_processes() {
  python3 - "$bench" <<'PY'
import json, resource, subprocess, sys
subprocess.run([sys.argv[1], "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # ends at once
print(json.dumps({"bench": "empty", "of": "ours", "rss_MB": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024}))
PY
  "$python" - <<'PY'
import json, resource, torch
print(json.dumps({"bench": "empty", "of": "torch", "rss_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))
PY
}

all=(tiny tiny-bf16 gpt2 gpt2-bf16 gpt2-T64 gpt2-T64-bf16 gpt2-T1024 gpt2-T1024-bf16 data-parallel pipeline exact cluster blocks)
for name in "${@:-${all[@]}}"; do
  run_case "$name"
done
: > "$lines.gemm"
if [[ -n "${PEERS:-}" ]]; then
  empty_processes | tee -a "$lines"
  env -C "$PEERS" "$python" bench_gemm.py 2 > "$lines.gemm"
fi
python3 "$root/tests/bench/ratios.py" "$lines" "$lines.gemm"
