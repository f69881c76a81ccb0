#!/usr/bin/env bash
# fault_test.sh PROGRAM MODE EXIT_CODE LINES PATTERN: four ranks fail as MODE says. The run must end within 60 s with
# EXIT_CODE and LINES non-empty lines on stderr, the first of which matches PATTERN (an extended regular expression).
set -u
program=$1 mode=$2 want_code=$3 want_lines=$4 pattern=${5-}
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/attempt-1"

timeout -k 5 60 "$here/../support/mpirun.sh" 4 "$program" "$mode" "$folder/attempt-1" \
  >"$folder/out" 2>"$folder/err"
code=$?
grep -v '^[[:space:]]*$' "$folder/err" >"$folder/lines"
lines=$(wc -l <"$folder/lines")

failed=0
complain() {
  echo "$mode: $*"
  failed=1
}
[ "$code" -ne 124 ] || complain "did not end within 60 s"
[ "$code" -eq "$want_code" ] || complain "exit code $code, expected $want_code"
[ "$lines" -eq "$want_lines" ] || complain "$lines lines on stderr, expected $want_lines"
if [ "$want_lines" -gt 0 ]; then
  head -1 "$folder/lines" | grep -qE "$pattern" || complain "the first line does not match: $pattern"
fi
if [ "$failed" -ne 0 ]; then
  echo "stderr was:"
  cat "$folder/err"
fi
exit $failed
