# kiln_room(NAME [PRIVATE_LIBS ...] [PUBLIC_LIBS ...]): one static library from src/*.cpp of a room, its public
# headers in include/, its private ones in src/.
function(kiln_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
endfunction()

function(kiln_room name)
  cmake_parse_arguments(ARG "" "" "PRIVATE_LIBS;PUBLIC_LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/*.cpp")
  add_library(kiln_${name} STATIC ${sources})
  add_library(Kiln::${name} ALIAS kiln_${name})
  set_target_properties(kiln_${name} PROPERTIES EXPORT_NAME ${name})
  kiln_warnings(kiln_${name})
  target_compile_features(kiln_${name} PUBLIC cxx_std_20)
  target_include_directories(kiln_${name}
    PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
  target_link_libraries(kiln_${name} PUBLIC ${ARG_PUBLIC_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
endfunction()
