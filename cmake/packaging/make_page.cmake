# PROGRAM, TEMPLATE, OUTPUT: the template with @REFERENCE@ and the other names replaced.
execute_process(COMMAND "${PROGRAM}" --reference man OUTPUT_VARIABLE REFERENCE COMMAND_ERROR_IS_FATAL ANY)
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
