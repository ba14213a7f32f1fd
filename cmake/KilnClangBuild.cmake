# KILN_FUZZ: the part of the tests that needs Clang, in a build of its own inside the build directory (tests/clang).
find_program(KILN_CLANG NAMES clang++-${KILN_LLVM})
# Off by default, and in a build with sanitizers: its programs bring their own.
option(KILN_FUZZ "Build the language by Clang too: fuzz it, and compare the keys of two compilers" OFF)
if(NOT KILN_FUZZ)
  return()
endif()
if(NOT KILN_CLANG)
  message(FATAL_ERROR "KILN_FUZZ needs clang++-${KILN_LLVM} (Debian: clang-${KILN_LLVM} and libclang-rt-${KILN_LLVM}-dev)")
endif()

# The two builds run at once: each as wide as the machine would be too much for its memory.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)

include(ExternalProject)
set(KILN_CLANG_BUILD "${CMAKE_BINARY_DIR}/clang")
ExternalProject_Add(kiln_clang_build
  SOURCE_DIR "${CMAKE_SOURCE_DIR}/tests/clang"
  BINARY_DIR "${KILN_CLANG_BUILD}"
  PREFIX "${CMAKE_BINARY_DIR}/clang-stamps"
  CMAKE_ARGS "-DCMAKE_CXX_COMPILER=${KILN_CLANG}" -G Ninja
  BUILD_COMMAND "${CMAKE_COMMAND}" --build <BINARY_DIR> --parallel ${cores}
  BUILD_ALWAYS ON
  INSTALL_COMMAND ""
  USES_TERMINAL_BUILD ON)
