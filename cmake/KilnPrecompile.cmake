# What a cold build need not do again in every file.
option(KILN_PRECOMPILE "Precompile the headers that most files of a target include" ON)

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
  kiln_unity(${target})
  kiln_precompile(${target} <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp> <algorithm> <cmath> <functional> <map>
    <random> <string> <vector>)
endfunction()
