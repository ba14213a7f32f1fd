# `cmake --install`: executables, the client libraries with their headers, a package for find_package(Kiln), and what
# cmake/packaging/ and server/systemd/ make of them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS kiln_dsl kiln_graph kiln_pytorch kiln_wire kiln_client kiln_client_graph EXPORT KilnTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# For C: of its own, so that who wants nothing else needs none of what the C++ libraries are built with.
install(TARGETS kiln_c EXPORT KilnCTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES client/c/include/kiln.h client/c/include/kiln_graph.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES "${CMAKE_BINARY_DIR}/client/c/kiln.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY client/python/kiln DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/python
  FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
install(TARGETS kiln kilnd kiln-tune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS kiln-worker RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/kiln)
install(TARGETS kiln-runner RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/kiln)
# Headers of the JSON library's are the rooms' own affair.
foreach(include_dir dsl/include dsl/graph/include dsl/graph/pytorch/include client/include client/graph/include client/wire/include)
  install(DIRECTORY ${include_dir}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} PATTERN "*json.h" EXCLUDE)
endforeach()
install(DIRECTORY dsl/examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/examples FILES_MATCHING PATTERN "*.kiln")
install(DIRECTORY autotune/jobs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/jobs FILES_MATCHING PATTERN "*.jsonl")
install(DIRECTORY autotune/tuned/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/tuned FILES_MATCHING PATTERN "*.jsonl")

set(reference_dir "${CMAKE_BINARY_DIR}/cmake/packaging")
foreach(section 1 8)
  install(DIRECTORY "${reference_dir}/" DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section}
    FILES_MATCHING PATTERN "kiln*.${section}" PATTERN "CMakeFiles" EXCLUDE)
endforeach()
# A shell looks a completion up by the name of the program.
foreach(program kiln kilnd kiln-tune)
  install(FILES "${reference_dir}/completion.bash" RENAME ${program}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES "${reference_dir}/completion.fish" RENAME ${program}.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()
install(FILES "${reference_dir}/completion.zsh" RENAME _kiln DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(CODE "
  set(KILN_SYSTEMD_SOURCES \"${CMAKE_SOURCE_DIR}/server/systemd\")
  set(KILN_PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
  set(KILN_BIN \"${CMAKE_INSTALL_BINDIR}\")
  set(KILN_UNITS \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd\")
  include(\"${CMAKE_SOURCE_DIR}/cmake/KilnUnits.cmake\")")

# The installation's, and the build directory's own for programs that are built against it.
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Kiln)
set(version_file "${CMAKE_BINARY_DIR}/KilnConfigVersion.cmake")
write_basic_package_version_file("${version_file}" COMPATIBILITY SameMinorVersion)
install(EXPORT KilnTargets NAMESPACE Kiln:: DESTINATION ${config_dir})
install(EXPORT KilnCTargets NAMESPACE Kiln:: DESTINATION ${config_dir})
set(KILN_PROGRAMS ${CMAKE_INSTALL_BINDIR})
configure_package_config_file(cmake/KilnConfig.cmake.in "${CMAKE_BINARY_DIR}/cmake/installed/KilnConfig.cmake"
  INSTALL_DESTINATION ${config_dir} PATH_VARS KILN_PROGRAMS)
install(FILES "${CMAKE_BINARY_DIR}/cmake/installed/KilnConfig.cmake" "${version_file}" DESTINATION ${config_dir})

export(EXPORT KilnTargets NAMESPACE Kiln:: FILE "${CMAKE_BINARY_DIR}/KilnTargets.cmake")
export(EXPORT KilnCTargets NAMESPACE Kiln:: FILE "${CMAKE_BINARY_DIR}/KilnCTargets.cmake")
set(KILN_PROGRAMS bin)
configure_package_config_file(cmake/KilnConfig.cmake.in "${CMAKE_BINARY_DIR}/KilnConfig.cmake"
  INSTALL_PREFIX "${CMAKE_BINARY_DIR}" INSTALL_DESTINATION . PATH_VARS KILN_PROGRAMS)
