#!/usr/bin/env bash
# install_dependencies.sh [--tests] [--cuda]: what Cambium needs on Debian 12, by package name.
#   --tests  also what only the tests need (GoogleTest, h5py, h5dump, Slurm)
#   --cuda   also a CUDA 13.0 toolkit below build/cuda-toolkit, from PyPI wheels, unless an nvcc is here
# Says nothing to the network when all is there. Runs as root or through sudo; can be repeated.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

packages=(
  g++ cmake ninja-build pkg-config
  openmpi-bin libopenmpi-dev libhdf5-openmpi-dev
  libyaml-cpp-dev libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libhwy-dev libxxhash-dev
)
test_packages=(libgtest-dev libgmock-dev locales hdf5-tools python3 python3-h5py slurm-wlm munge procps)

with_cuda=no
for argument in "$@"; do
  case $argument in
    --tests) packages+=("${test_packages[@]}") ;;
    --cuda) with_cuda=yes ;;
    -h | --help)
      sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *)
      echo "install_dependencies.sh: unknown option '$argument'; use --tests, --cuda" >&2
      exit 2
      ;;
  esac
done

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "install_dependencies.sh: '$*' needs root and there is no sudo; run this script as root" >&2
    exit 1
  fi
}

install_packages() {
  local missing=() name
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "install_dependencies.sh: no apt here; written for Debian 12. Install by other means: $*" >&2
    exit 1
  fi
  for name in "$@"; do
    # A removed package keeps its configuration and is listed, so the state is what counts.
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || missing+=("$name")
  done
  if [[ ${#missing[@]} -eq 0 ]]; then
    return
  fi
  echo "installing: ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null
}

# The wheels carry neither libX.so links nor lib64, which CMake looks for.
complete_wheels() {
  local toolkit=$1 file base
  ln -sfn lib "$toolkit/lib64"
  ln -sf ../../nccl/lib/libnccl.so.2 "$toolkit/lib/"
  for file in "$toolkit"/lib/lib*.so.*; do
    base=$(basename "$file")
    ln -sf "$base" "$toolkit/lib/${base%%.so.*}.so"
  done
  for file in nccl.h nccl_device.h; do
    ln -sf "../../nccl/include/$file" "$toolkit/include/$file"
  done
}

install_cuda() {
  local target=$root/build/cuda-toolkit
  if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
    return
  fi
  if [[ ! -e $target/complete ]]; then
    install_packages python3-pip
    rm -rf "$target"
    # All of one release: a mixture of 13.x parts does not link. --no-deps, because each is named here.
    /usr/bin/python3 -m pip install --quiet --root-user-action=ignore --no-deps --target "$target" \
      nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
      'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*' 'nvidia-cublas==13.0.*' \
      nvidia-nccl-cu13==2.28.9 nvidia-nvjitlink==13.0.88 nvidia-cuda-nvrtc==13.0.88
    complete_wheels "$target/nvidia/cu13"
    touch "$target/complete"
  fi
}

install_packages "${packages[@]}"
if [[ $with_cuda == yes ]]; then
  install_cuda
fi
