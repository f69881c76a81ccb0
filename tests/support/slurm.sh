#!/usr/bin/env bash
# slurm.sh start DIR | stop DIR: a real Slurm of one node, for tests, that touches nothing outside DIR.
#   start  munged, slurmctld and slurmd on free loopback ports; prints the `export` lines that a client needs
#   stop   cancels what runs and ends the three daemons by their pids
# CPUS (8) is what the node claims to have. DIR must be short: a Unix socket's path has at most 107 bytes.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
action=${1:?start or stop}
mkdir -p "${2:?directory}"
dir=$(cd "$2" && pwd -P)
cpus=${CPUS:-8}
export SLURM_CONF=$dir/slurm.conf

# PID 1 of a container may not reap, so a zombie counts as gone.
is_alive() {
  local state
  state=$(ps -o stat= -p "$1" 2>/dev/null) && [[ $state != Z* ]]
}

end_daemon() {
  local pid tries
  pid=$(cat "$dir/$1.pid" 2>/dev/null) || return 0
  kill -TERM "$pid" 2>/dev/null || return 0
  for ((tries = 0; tries < 100; tries++)); do
    is_alive "$pid" || return 0
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
}

stop() {
  local jobs tries
  if is_alive "$(cat "$dir/slurmctld.pid" 2>/dev/null || echo 0)"; then
    mapfile -t jobs < <(timeout 10 squeue --noheader --format=%A)
    if [[ ${#jobs[@]} -gt 0 ]]; then
      timeout 10 scancel --full "${jobs[@]}" || true
      for ((tries = 0; tries < 60; tries++)); do
        [[ -n $(timeout 10 squeue --noheader) ]] || break
        sleep 0.2
      done
    fi
  fi
  end_daemon slurmd
  end_daemon slurmctld
  end_daemon munged
}

free_ports() {
  python3 - <<'PYTHON'
import socket
sockets = [socket.socket() for _ in range(2)]
for s in sockets:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))
PYTHON
}

write_config() {
  local host ports
  host=$(hostname)
  read -ra ports < <(free_ports)
  mkdir -p "$dir/state" "$dir/spool"
  head -c 128 /dev/urandom >"$dir/munge.key"
  chmod 600 "$dir/munge.key"
  cat >"$dir/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
# A requeued job waits until its old credential has run out: 120 s unless said otherwise.
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
# No cgroups, no accounting database, no pinning: a container has none of them to give.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
NodeName=node1 NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=$cpus RealMemory=1024 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  # mpi/pmix keeps its sockets below /tmp by user and job id: another Slurm on this host would meet them.
  mkdir -p "$dir/pmix"
  echo "PMIxCliTmpDirBase=$dir/pmix" >"$dir/mpi.conf"
  printf 'CgroupMountpoint=/sys/fs/cgroup\n' >"$dir/cgroup.conf"
}

start() {
  local tries
  write_config
  trap 'echo "slurm.sh: not started; last lines of the logs:" >&2; tail -n 5 "$dir"/*.log >&2 || true; stop' ERR
  # --force: only this user talks to it, so no other one has to reach its folder.
  munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" \
    --log-file="$dir/munged.log" --seed-file="$dir/munge.seed"
  slurmctld -f "$SLURM_CONF"
  slurmd -f "$SLURM_CONF" -N node1
  for ((tries = 0; tries < 150; tries++)); do
    [[ $(timeout 5 sinfo --noheader --format=%T 2>/dev/null) != idle ]] || break
    sleep 0.2
  done
  [[ $(timeout 5 sinfo --noheader --format=%T) == idle ]]
  printf 'export SLURM_CONF=%q\n' "$SLURM_CONF"
  # Open MPI leaves loopback out unless asked.
  echo 'export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo'
}

case $action in
  start) start ;;
  stop) stop ;;
  *)
    echo "slurm.sh: unknown action '$action'; use start or stop" >&2
    exit 2
    ;;
esac
