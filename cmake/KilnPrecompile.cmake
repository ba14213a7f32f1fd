# What a cold build need not do again in every file.
option(KILN_PRECOMPILE "Precompile the headers that most files of a target include" ON)

# kiln_precompile(TARGET HEADER…), or kiln_precompile(TARGET REUSE_FROM OTHER) with what another target of the same options precompiles.
function(kiln_precompile target)
  if(KILN_PRECOMPILE)
    if(ARGV1 STREQUAL REUSE_FROM)
      target_precompile_headers(${target} ${ARGN})
    else()
      target_precompile_headers(${target} PRIVATE ${ARGN})
    endif()
    # GCC 12 sees overruns in std::string's operator+ where its header is precompiled that are not there otherwise.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)
      if(KILN_SANITIZE)
        target_compile_options(${target} PRIVATE -Wno-stringop-overread)
      endif()
    endif()
  endif()
endfunction()

# Code that authors kernels runs once, and optimising its temporaries is three quarters of its compile time. The options
# are for a whole target, the function for files.
set(KILN_AUTHORING_OPTIONS "$<$<CONFIG:RelWithDebInfo,Release>:-O0>")
function(kiln_authoring_files)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${KILN_AUTHORING_OPTIONS}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# kiln_optimise_little(TARGET): what takes words apart, prints, or reads a program once, and leaves the work to other rooms. A third of
# its compile time.
function(kiln_optimise_little target)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:RelWithDebInfo,Release>:-O1>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 sees maps without a root that are not there at -O2.
    target_compile_options(${target} PRIVATE "$<$<CONFIG:RelWithDebInfo,Release>:-Wno-maybe-uninitialized>")
  endif()
endfunction()

# kiln_discover_tests(TARGET [WHOLE SUITE…] …): as gtest_discover_tests(), each test by itself, but those of suites that have very many
# quick ones together, as `SUITE`: starting a process for each would be most of their time.
function(kiln_discover_tests target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "WHOLE")
  list(TRANSFORM ARG_WHOLE REPLACE "(.+)" "*/\\1.*" OUTPUT_VARIABLE patterns)
  foreach(suite pattern IN ZIP_LISTS ARG_WHOLE patterns)
    add_test(NAME ${suite} COMMAND ${target} "--gtest_filter=${pattern}")
    set_tests_properties(${suite} PROPERTIES FAIL_REGULAR_EXPRESSION "Running 0 tests")
  endforeach()
  list(JOIN patterns ":" patterns)
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 60 TEST_FILTER "-${patterns}" ${ARG_UNPARSED_ARGUMENTS})
endfunction()

# kiln_tests(TARGET [COMPUTES] [OWN_HEADERS] [OPTIMISED LIBRARY…]): options of an executable of GoogleTest, which sees the tools of
# tests/support. COMPUTES: it spends its time in this process, and is optimised a little. What is not optimised brings its slow copies
# of templates into the rooms' libraries too, which nobody notices in suites that talk with other processes. OPTIMISED names libraries
# where it would be noticed: the linker sees them first, and takes their copies. Suites of a kind share their precompiled headers;
# OWN_HEADERS: further options matter to these, -fno-rtti or -fopenmp.
set(KILN_TESTS_HEADERS <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp> <algorithm> <cmath> <functional> <map> <random> <string> <vector>)
function(kiln_tests target)
  cmake_parse_arguments(ARG "COMPUTES;OWN_HEADERS" "" "OPTIMISED" ${ARGN})
  kiln_warnings(${target})
  target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}/tests/support")
  target_link_libraries(${target} PRIVATE GTest::gmock)  # matchers call into it, where they are not inlined
  if(ARG_COMPUTES)
    set(kind COMPUTES)
    set(level -O1)
  else()
    set(kind "")
    set(level -O0)
  endif()
  target_compile_options(${target} PRIVATE "$<$<CONFIG:RelWithDebInfo,Release>:${level}>")
  foreach(library ${ARG_OPTIMISED})
    target_link_options(${target} PRIVATE "LINKER:--whole-archive,$<TARGET_FILE:${library}>,--no-whole-archive")  # before the objects
  endforeach()
  kiln_unity(${target})
  if(ARG_OWN_HEADERS)
    kiln_precompile(${target} ${KILN_TESTS_HEADERS})
  else()
    set(headers kiln_tests_headers${level})
    if(NOT TARGET ${headers})
      # An executable, as the others are: their -fPIE is not -fPIC.
      add_executable(${headers} EXCLUDE_FROM_ALL "${CMAKE_SOURCE_DIR}/tests/support/headers.cpp")
      kiln_tests(${headers} OWN_HEADERS ${kind})
    endif()
    kiln_precompile(${target} REUSE_FROM ${headers})
  endif()
endfunction()
