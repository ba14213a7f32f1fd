// Any library, for tests that open one.
int kiln_other = 1;
