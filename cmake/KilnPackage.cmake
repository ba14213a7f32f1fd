# `cpack -G DEB` in the build directory: one Debian package of what `cmake --install` installs. docs/use/packaging.md.
set(CPACK_PACKAGE_NAME kiln)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_VENDOR "Kiln")
set(CPACK_PACKAGE_CONTACT "Kiln maintainers <kiln@localhost>" CACHE STRING "Maintainer of the package")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "JIT compiler service for compute kernels")
set(CPACK_PACKAGE_DESCRIPTION
  "Kiln compiles kernels over tiles for C++ programs while they run. A daemon
of the user lowers them through LLVM for CPUs, NVIDIA and AMD GPUs, keeps the
results, and serves them to every process over a local socket.
.
This package has the daemon and its workers, the command line, the tuner, and
the client libraries with their headers and CMake files.")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_SOURCE_DIR}/LICENSE")
set(CPACK_GENERATOR DEB)
# The units name the prefix, which must therefore be the one on the user's machine: the staging place is DESTDIR.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_SOURCE_DIR}/cmake/KilnPackageStage.cmake")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# What a program that links the client libraries is built with; KilnConfig.cmake looks for them.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libboost1.81-dev, libssl-dev, libxxhash-dev, pkg-config")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, g++, graphviz")
include(CPack)
