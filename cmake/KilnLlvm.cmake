# Debian's LLVM of exactly the version that packages.sh names; another one fails here, by name. To be included where
# LLVM_INCLUDE_DIRS, LLVM_DEFINITIONS_LIST or LLVM's libraries are needed, and by what looks for Clang or FileCheck.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/packages.sh" KILN_LLVM REGEX "^KILN_LLVM=[0-9]+$")
string(REPLACE "KILN_LLVM=" "" KILN_LLVM "${KILN_LLVM}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/packages.sh")
find_package(LLVM ${KILN_LLVM}.1 REQUIRED CONFIG PATHS /usr/lib/llvm-${KILN_LLVM} NO_DEFAULT_PATH)
