# What every target is built with, and the third-party packages.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Assertions stay. Debug information would be a seventh of a build from nothing; a profiler wants
# -DCMAKE_BUILD_TYPE=RelWithDebInfo.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
# A build-id in every executable: it is part of each cache key.
add_link_options(-Wl,--build-id=sha1)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(KILN_CCACHE ccache)
if(KILN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What it must be told of precompiled headers: its manual, "Precompiled headers".
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${KILN_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${KILN_CCACHE}")
endif()

if(KILN_SANITIZE)
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KILN_SANITIZE})
  if(KILN_SANITIZE MATCHES thread)
    # GCC 12's thread sanitizer does not see pthread_mutex_clocklock, by which std::timed_mutex locks.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-include>$<$<COMPILE_LANGUAGE:CXX>:${CMAKE_SOURCE_DIR}/cmake/no_clocklock.h>)
  endif()
  if(KILN_SANITIZE MATCHES undefined)
    # codegen/ is without RTTI, as LLVM is: of a class of the standard library that it and others have, either's vtable may
    # be the one that is linked.
    add_compile_options(-fno-sanitize=vptr)
  endif()
  # GCC 12 sees uninitialised members of variants, and other operators new in LLVM's headers, in instrumented code that are
  # not there without it.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized -Wno-mismatched-new-delete)
  endif()
endif()

if(NOT "cpu" IN_LIST KILN_TARGETS)
  message(FATAL_ERROR "KILN_TARGETS: 'cpu' is always there, for it warms the compiler up")
endif()
foreach(target IN LISTS KILN_TARGETS)
  if(NOT target MATCHES "^(cpu|nvptx|amdgcn)$")
    message(FATAL_ERROR "KILN_TARGETS: unknown target '${target}' (cpu, nvptx, amdgcn)")
  endif()
endforeach()

if(KILN_STATIC_LLVM)
  # One file that runs on a machine where nothing of this is installed.
  set(KILN_SHARED_SUFFIXES ${CMAKE_FIND_LIBRARY_SUFFIXES})
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Boost 1.81 REQUIRED)
# Headers alone, and in none of ours that a program sees: who links Kiln needs no JSON library.
find_package(nlohmann_json 3.11 REQUIRED)
include_directories(SYSTEM $<TARGET_PROPERTY:nlohmann_json::nlohmann_json,INTERFACE_INCLUDE_DIRECTORIES>)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(seccomp REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET hiredis)
pkg_check_modules(minizip REQUIRED IMPORTED_TARGET minizip)
pkg_check_modules(libzstd REQUIRED IMPORTED_TARGET libzstd)
if(KILN_STATIC_LLVM)
  set(CMAKE_FIND_LIBRARY_SUFFIXES ${KILN_SHARED_SUFFIXES})
endif()
