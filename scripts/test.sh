#!/usr/bin/env bash
# test.sh [--all] [-- CTEST OPTIONS]: installs, builds build/release with its tests and runs them.
#   --all  also the tests labelled `extended` (minutes to hours)
# Fails when a test fails, or skips without a line in tests/skips.txt. Needs no terminal; can be repeated.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

left_out='extended|bench'
while [[ $# -gt 0 ]]; do
  case $1 in
    --all) left_out='bench' ;;
    --)
      shift
      break
      ;;
    -h | --help)
      sed -n '2,4s/^# //p' scripts/test.sh
      exit 0
      ;;
    *)
      echo "test.sh: unknown option '$1'; use --all, or -- before options of ctest" >&2
      exit 2
      ;;
  esac
  shift
done

jobs=$(nproc)
scripts/install_dependencies.sh --tests
options=(-DCAMBIUM_BUILD_TESTS=ON)
if command -v ccache >/dev/null; then
  options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR=$PWD
fi
cmake --preset release "${options[@]}"
cmake --build --preset release -j "$jobs"

# Open MPI refuses root and more ranks than cores unless told; tests that start ranks by themselves inherit this.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

build=$PWD/build/release
junit=$build/Testing/junit.xml
summary=$build/Testing/summary.txt
mkdir -p "$build/Testing"
rm -f "$junit" "$summary"

# ctest's summary (with its seconds per label) is held back, so that it stays the last thing printed.
# The output of passing tests is kept whole, because gtest reports a skip inside a test that passes.
code=0
ctest --test-dir "$build" -j "$jobs" --label-exclude "$left_out" --no-tests=error --output-on-failure \
  --output-junit "$junit" --test-output-size-passed 16777216 --test-output-size-failed 16777216 "$@" </dev/null \
  | awk -v summary="$summary" '/% tests passed, [0-9]+ tests failed out of/ {held = 1}
                               held {print > summary; next} {print; fflush()}' || code=$?

skips=0
if [[ -e $junit ]]; then
  python3 tests/support/skips.py "$junit" tests/skips.txt || skips=$?
fi
if [[ -e $summary ]]; then
  cat "$summary"
fi
if [[ $code -ne 0 ]]; then
  exit "$code"
fi
if [[ $skips -ne 0 ]]; then
  echo "test.sh: failed: a test skipped that tests/skips.txt does not name (listed above)" >&2
fi
exit "$skips"
