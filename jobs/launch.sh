#!/usr/bin/env bash
# launch.sh [--ranks N] CONFIG [--set KEY=VALUE]…: starts `cambium run` on all ranks, passes signals on, and acts on the
# exit code (jobs/README.md has the table). In a Slurm job with srun, elsewhere with mpirun -q.
#   CAMBIUM_LAUNCHER   srun | mpirun             CAMBIUM_EXECUTABLE  default: build/release/cambium
#   CAMBIUM_RETRIES    failures in a row (3)     CAMBIUM_RETRY_PAUSE seconds before the first retry (10), then doubled
#   CAMBIUM_LOGS       folder of the logs, one file per attempt (default: logs; outside Slurm: the terminal)
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
executable=${CAMBIUM_EXECUTABLE:-$root/build/release/cambium}
retries=${CAMBIUM_RETRIES:-3}
pause=${CAMBIUM_RETRY_PAUSE:-10}
job=${SLURM_JOB_ID:-}
restart=${SLURM_RESTART_COUNT:-0}
ranks=${SLURM_NTASKS:-8}
logs=${CAMBIUM_LOGS:-${job:+logs}}

say() {
  echo "launch.sh: $*" >&2
}

choose_launcher() {
  if [[ -n ${CAMBIUM_LAUNCHER:-} ]]; then
    launcher=$CAMBIUM_LAUNCHER
  elif [[ -n $job ]] && srun --mpi=list 2>&1 | grep -qw pmix; then
    launcher=srun
  else
    launcher=mpirun
  fi
}

export_settings() {
  # From 22.05 on srun no longer takes --cpus-per-task from the job: without this all threads of a rank share one core.
  if [[ -n ${SLURM_CPUS_PER_TASK:-} ]]; then
    export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
  fi
  # More ranks than cores: a waiting rank must give its core away. mpirun sees that by itself, srun does not.
  if [[ $launcher == srun && ${SLURM_NTASKS_PER_NODE:-$ranks} -gt $(nproc) ]]; then
    export OMPI_MCA_mpi_yield_when_idle=1
  fi
  # What -q is to mpirun: without Open MPI's own lines a failure prints the one line of the program.
  export OMPI_MCA_orte_execute_quiet=1
  # Open MPI's mpirun refuses root (usual in containers) unless told twice.
  if [[ $(id -u) -eq 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}

# Starts the ranks in the background; their pid is in `child`.
start() {
  local command
  if [[ $launcher == srun ]]; then
    # A rank that dies in the middle takes the others with it through PMIx, within 2 s. --kill-on-bad-exit=1 would be
    # slower (11 s: it asks with TERM first) and could kill ranks that are just leaving with a code of ours.
    command=(srun --mpi=pmix --ntasks="$ranks" --kill-on-bad-exit=0 --wait=10 --unbuffered)
  else
    command=(mpirun -q --oversubscribe -n "$ranks")
    if [[ -z $job ]]; then
      command+=(--bind-to none)
    fi
  fi
  command+=("$executable" run "$@")
  if [[ -n $logs ]]; then
    "${command[@]}" </dev/null >>"$log" 2>&1 &
  else
    "${command[@]}" </dev/null &
  fi
  child=$!
}

# Both launchers pass USR1 on to every rank. TERM is not passed on as such: mpirun would kill the ranks. While the ranks
# are only being started a signal may be lost, so it is repeated; the program takes the first one and ignores the others.
stop_requested=no
interrupted=no
child=
repeater=
pass_on() {
  interrupted=yes
  if [[ $stop_requested == no && -n $child ]]; then
    say "signal $1: asking all ranks for a checkpoint"
    (while kill -USR1 "$child"; do sleep 5; done) >/dev/null 2>&1 &
    repeater=$!
  fi
  stop_requested=yes
}
trap 'pass_on USR1' USR1
trap 'pass_on TERM' TERM
trap 'pass_on INT' INT

# The exit code of `child`. A trapped signal ends bash's wait early, so it waits again.
await() {
  local code
  while true; do
    interrupted=no
    wait "$child"
    code=$?
    if [[ $interrupted == no ]]; then
      break
    fi
  done
  child=
  if [[ -n $repeater ]]; then
    kill "$repeater" 2>/dev/null
    repeater=
  fi
  # srun tells 137 when it had to kill the other ranks; the code of the rank that left first says why.
  if [[ $launcher == srun && $code -ge 128 && -n $logs ]]; then
    local first
    first=$(sed -n 's/^srun: error: .*Exited with exit code \([0-9]*\)$/\1/p' "$log" | head -n 1)
    code=${first:-$code}
  fi
  return "$code"
}

# Puts this job back into the queue. A job that was cancelled stays cancelled.
requeue() {
  local state
  state=$(scontrol show job "$job" 2>/dev/null | grep -o 'JobState=[A-Z]*')
  if [[ ${CAMBIUM_REQUEUE:-yes} == yes && ($state == JobState=RUNNING || $state == JobState=TIMEOUT) ]]; then
    say "job $job goes back into the queue"
    scontrol requeue "$job" && return
  fi
  say "not requeued (${state:-job state unknown}); to go on, submit the same command again"
}

# Failures since the last stop on request, over all allocations of this job.
failures() {
  if [[ -n $logs && -e $history ]]; then
    awk '/ code 75$/ {n = 0; next} {n++} END {print n + 0}' "$history"
  else
    echo "$failed_here"
  fi
}

main() {
  if [[ ${1:-} == --ranks && $# -ge 2 ]]; then
    ranks=$2
    shift 2
  fi
  if [[ $# -eq 0 || $1 == -* ]]; then
    sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
  fi
  choose_launcher
  export_settings
  local try=0 code name failed_here=0 log history
  if [[ -n $logs ]]; then
    mkdir -p "$logs" || exit 12
    history=$logs/cambium-${job:-local}.attempts
    if [[ $restart -eq 0 ]]; then
      rm -f "$history"  # of an earlier job with this id, or of an earlier call
    fi
  fi
  while true; do
    try=$((try + 1))
    name=${job:-local}.$restart.$try
    log=$logs/cambium-$name.log
    say "attempt $name on $(hostname): $ranks ranks by $launcher${logs:+, log $log}"
    start "$@"
    await
    code=$?
    say "attempt $name ended with code $code"
    if [[ -n $logs ]]; then
      echo "$name code $code" >>"$history"
    fi

    case $code in
      0) exit 0 ;;
      75)
        if [[ -n $job ]]; then
          requeue
        else
          say "stopped on request with a checkpoint; the same command goes on from there"
        fi
        exit 75
        ;;
      10 | 11 | 12 | 15) ;;
      *)
        if [[ $code -lt 128 ]]; then
          exit "$code"
        fi
        ;;
    esac

    failed_here=$((failed_here + 1))
    if [[ $(failures) -gt $retries ]]; then
      say "gave up after $(failures) failures in a row"
      exit "$code"
    fi
    if [[ $stop_requested == no && ! (-n $job && $code -eq 15) ]]; then
      say "going on from the last checkpoint in $pause s"
      sleep "$pause" &
      wait $!  # ends early on a signal
      pause=$((pause * 2))
    fi
    if [[ -n $job && ($stop_requested == yes || $code -eq 15) ]]; then
      requeue  # no time left here, or no progress here: the last checkpoint goes on in another allocation
      exit "$code"
    fi
    if [[ $stop_requested == yes ]]; then
      exit "$code"
    fi
  done
}

main "$@"
