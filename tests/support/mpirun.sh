#!/usr/bin/env bash
# mpirun.sh RANKS PROGRAM ARGS…: as the tests start ranks (root or not, more ranks than cores, one error line).
set -eu
n=$1; shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
exec mpirun -q --oversubscribe --bind-to none -n "$n" "$@" </dev/null
