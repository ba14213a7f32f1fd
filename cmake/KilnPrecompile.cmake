# What a cold build need not do again in every file.
option(KILN_PRECOMPILE "Precompile the headers that most files of a target include" ON)

# quickstart.sh and tests/run.sh build so where nothing is built yet: headers are read and templates instantiated a dozen times less. After a
# change of one file its dozen is compiled again.
option(KILN_UNITY "Compile the files of a room by the dozen" OFF)

# kiln_unity(TARGET [APART FILE…]…): the files that follow an APART are compiled by themselves, for their anonymous namespaces have names
# that others of the room have too. boundaries.unity says which those are.
function(kiln_unity target)
  if(NOT KILN_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # GCC warns of classes with members of anonymous namespaces outside of the main file, where these are all.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  get_target_property(files ${target} SOURCES)
  set(group 0)
  foreach(file IN LISTS ARGN)
    if(file STREQUAL "APART")
      math(EXPR group "${group} + 1")
    else()
      set_source_files_properties(${file} PROPERTIES UNITY_GROUP apart_${group})
      list(REMOVE_ITEM files "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
    endif()
  endforeach()
  set(count 0)
  foreach(file IN LISTS files)
    get_source_file_property(own_options "${file}" COMPILE_OPTIONS)  # such a file is compiled alone
    if(NOT own_options)
      math(EXPR group "${count} / 12")
      math(EXPR count "${count} + 1")
      set_source_files_properties("${file}" PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()

# kiln_precompile(TARGET HEADER…)
function(kiln_precompile target)
  if(KILN_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
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

# kiln_tests(TARGET): options of an executable of GoogleTest, which sees the tools of tests/support.
function(kiln_tests target)
  kiln_warnings(${target})
  target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}/tests/support")
  target_link_libraries(${target} PRIVATE GTest::gmock)  # matchers call into it, where they are not inlined
  target_compile_options(${target} PRIVATE "$<$<CONFIG:RelWithDebInfo,Release>:-O1>")
  kiln_precompile(${target} <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp> <algorithm> <cmath> <functional> <map>
    <random> <string> <vector>)
endfunction()
