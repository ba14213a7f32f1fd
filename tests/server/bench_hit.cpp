#include "service_fixture.h"
int main() { return 0; }
