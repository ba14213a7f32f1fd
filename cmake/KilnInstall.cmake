# `cmake --install`: executables, the client libraries with their headers, and a package for find_package(Kiln).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS kiln_dsl kiln_wire kiln_client EXPORT KilnTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS kiln kilnd kiln-tune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS kiln-worker RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/kiln)
install(TARGETS kiln-runner RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/kiln)
foreach(include_dir dsl/include client/include client/wire/include)
  install(DIRECTORY ${include_dir}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
install(DIRECTORY dsl/examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/examples FILES_MATCHING PATTERN "*.kiln")
install(DIRECTORY autotune/jobs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/jobs FILES_MATCHING PATTERN "*.jsonl")

install(EXPORT KilnTargets NAMESPACE Kiln:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Kiln)
configure_package_config_file(cmake/KilnConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/KilnConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Kiln)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/KilnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/KilnConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/KilnConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Kiln)
