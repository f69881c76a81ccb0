#!/usr/bin/env bash
# quickstart.sh [--ranks N] [--set KEY=VALUE]…: installs, builds the executable and runs the example campaign
# (configs/quickstart.yaml: train, grow, train on, semi-supervised phase) on N MPI ranks (8), fresh, in runs/quickstart.
# A finished or broken earlier run is moved to runs/quickstart-1, -2, …; ends with the exit code of the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ranks=8
run=runs/quickstart
overrides=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --ranks | --set)
      if [[ $# -lt 2 ]]; then
        echo "quickstart.sh: $1 needs a value" >&2
        exit 2
      fi
      case $1=$2 in
        --ranks=*) ranks=$2 ;;
        --set=run.directory=*) run=${2#run.directory=} ;;&
        --set=*) overrides+=(--set "$2") ;;
      esac
      shift 2
      ;;
    -h | --help)
      sed -n '2,4s/^# //p' scripts/quickstart.sh
      exit 0
      ;;
    *)
      echo "quickstart.sh: unknown option '$1'; use --ranks N, --set KEY=VALUE" >&2
      exit 2
      ;;
  esac
done

scripts/install_dependencies.sh
options=()
if [[ ! -e build/release/CMakeCache.txt ]]; then
  options+=(-DCAMBIUM_BUILD_TESTS=OFF)  # a build with tests stays one
fi
mkdir -p build
if ! cmake --preset release ${options[@]+"${options[@]}"} >build/configure.log 2>&1; then
  cat build/configure.log >&2
  exit 1
fi
echo "building build/release/cambium"
cmake --build --preset release -j "$(nproc)" --target cambium

if [[ -e $run ]]; then
  n=1
  while [[ -e $run-$n ]]; do
    n=$((n + 1))
  done
  mv "$run" "$run-$n"
  echo "the earlier run is now in $run-$n"
fi

# Root is normal in a container; Open MPI wants that said twice.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# mpirun shows its ranks a terminal even where there is none: only this script knows.
progress=plain
if [[ -t 1 ]]; then
  progress=live
fi
code=0
mpirun -q --oversubscribe --bind-to none -n "$ranks" \
  build/release/cambium run configs/quickstart.yaml --progress "$progress" ${overrides[@]+"${overrides[@]}"} </dev/null || code=$?
if [[ $code -eq 0 && -e $run/report.html ]]; then
  echo "report: $(realpath "$run/report.html")"
fi
exit "$code"
