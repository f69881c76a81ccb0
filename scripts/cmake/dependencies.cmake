# System packages only (scripts/install_dependencies.sh names them).
find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C CXX)
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(yaml-cpp REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_library(CAMBIUM_HWY_LIBRARY hwy REQUIRED)
find_path(CAMBIUM_XXHASH_INCLUDE xxhash.h REQUIRED)
if(CAMBIUM_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()

# Open MPI's C++ bindings are dead weight and do not survive -Wextra.
add_library(cambium_mpi INTERFACE)
target_link_libraries(cambium_mpi INTERFACE MPI::MPI_C)
target_compile_definitions(cambium_mpi INTERFACE OMPI_SKIP_MPICXX=1)

add_library(cambium_hdf5 INTERFACE)
target_link_libraries(cambium_hdf5 INTERFACE hdf5::hdf5)
