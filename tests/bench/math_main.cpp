// Elementary functions beside SLEEF, libmvec and oneDNN (math.h). One line a case: area,case,dtype,who,metric,value; a
// table of ratios at the end.
//   bench-math [function…]
#include <cstdio>
#include <set>

#include "math.h"

int main(int argc, char** argv) {
  using namespace kiln::bench;
  const std::set<std::string> only(argv + 1, argv + argc);
  kiln::Client client;
  MathReport math;
  const bool fine =
      measure_math(client, [&](const std::string& function) { return only.empty() || only.contains(function); }, math);
  if (!math.missing.empty()) std::printf("# [SKIPPED] %s\n", math.missing.c_str());
  std::printf("%s", table_of(compare({{}, math.lines})).c_str());
  return fine ? 0 : 1;
}
