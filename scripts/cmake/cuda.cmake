# CUDA code is compiled wherever nvcc is, GPU or not; it runs where a GPU is. Sets CAMBIUM_HAS_CUDA and CAMBIUM_HAS_NCCL.
# nvcc: $CUDACXX, PATH, /usr/local/cuda, or what `scripts/install_dependencies.sh --cuda` has brought.
set(CAMBIUM_HAS_CUDA OFF)
set(CAMBIUM_HAS_NCCL OFF)
set(cuda_wheels ${CMAKE_SOURCE_DIR}/build/cuda-toolkit/nvidia/cu13)

if(CAMBIUM_WITH_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: off, as asked")
  return()
endif()
if(CAMBIUM_SANITIZE AND CAMBIUM_WITH_CUDA STREQUAL "AUTO")
  message(STATUS "CUDA: off, the sanitizers do not go through nvcc")
  return()
endif()
find_program(CAMBIUM_NVCC nvcc HINTS ENV CUDA_HOME PATH_SUFFIXES bin PATHS /usr/local/cuda/bin ${cuda_wheels}/bin)
if(CAMBIUM_NVCC AND NOT DEFINED ENV{CUDACXX})
  set(ENV{CUDACXX} ${CAMBIUM_NVCC})  # where check_language looks
endif()
include(CheckLanguage)
check_language(CUDA)  # an nvcc that cannot work with this compiler counts as none
if(NOT CMAKE_CUDA_COMPILER)
  if(CAMBIUM_WITH_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA: off, no working nvcc found (scripts/install_dependencies.sh --cuda brings one)")
    return()
  endif()
  message(FATAL_ERROR "CAMBIUM_WITH_CUDA=ON but no working nvcc was found; set CUDACXX or run scripts/install_dependencies.sh --cuda")
endif()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(CAMBIUM_HAS_CUDA ON)

find_library(CAMBIUM_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
find_path(CAMBIUM_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(CAMBIUM_NCCL_LIBRARY AND CAMBIUM_NCCL_INCLUDE)
  set(CAMBIUM_HAS_NCCL ON)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES
    IMPORTED_LOCATION ${CAMBIUM_NCCL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${CAMBIUM_NCCL_INCLUDE})
endif()
message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}, "
               "architectures ${CMAKE_CUDA_ARCHITECTURES}, NCCL ${CAMBIUM_HAS_NCCL}")

# CMake 3.25 knows no C++20 for nvcc 13 and drops CMAKE_CUDA_STANDARD without a word. No contraction, as on the CPU.
add_library(cambium_cuda_options INTERFACE)
target_compile_options(cambium_cuda_options INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--fmad=false;-Xcompiler=-Wall,-Wextra,-ffp-contract=off>)
target_link_libraries(cambium_cuda_options INTERFACE CUDA::cudart)
