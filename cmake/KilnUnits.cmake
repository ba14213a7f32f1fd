# Run by the installation, which alone knows the prefix: units with the path of kilnd, man pages beside them are built.
# KILN_SYSTEMD_SOURCES, KILN_PREFIX, KILN_BIN (relative to it), KILN_UNITS (an absolute destination, DESTDIR included).
set(KILN_BINDIR "${KILN_PREFIX}/${KILN_BIN}")
file(READ "${KILN_SYSTEMD_SOURCES}/common.in" KILN_UNIT_COMMON)
string(STRIP "${KILN_UNIT_COMMON}" KILN_UNIT_COMMON)
foreach(unit user/kilnd.socket user/kilnd.service system/kilnd@.socket system/kilnd@.service)
  get_filename_component(name "${unit}" NAME)
  set(destination "${KILN_UNITS}/${unit}")
  configure_file("${KILN_SYSTEMD_SOURCES}/${name}.in" "${destination}" @ONLY FILE_PERMISSIONS
    OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  message(STATUS "Installing: ${destination}")
endforeach()
