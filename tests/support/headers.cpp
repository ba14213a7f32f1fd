// Nothing: its target precompiles what all suites include (cmake/KilnPrecompile.cmake).
int main() {}
