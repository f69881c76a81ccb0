#!/usr/bin/env bash
# format.sh [--check]: clang-format over our C++ and CUDA files; --check only names those that differ and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(-i)
case ${1:-} in
  "") ;;
  --check) mode=(--dry-run --Werror) ;;
  *)
    echo "format.sh: unknown option '$1'; use --check" >&2
    exit 2
    ;;
esac
if ! command -v clang-format >/dev/null; then
  echo "format.sh: no clang-format; install the package clang-format" >&2
  exit 1
fi
find app src kernels tests -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.inl' -o -name '*.cu' -o -name '*.cuh' \) -print0 \
  | xargs -0 -r clang-format --style=file "${mode[@]}"
