// A shared object with a client of its own, which a program opens and closes while something compiles behind it.
#include <vector>

#include "kiln/client/client.h"
#include "kiln/dsl/kernels.h"

namespace {
kiln::Client client;
}

extern "C" int use_the_client(int block) {
  static const auto fn = client.get(kiln::kernels::vector_add<>(), {.constexprs = {{"BLOCK", block}}});
  std::vector<float> x(100, 1.5f), y(100, 2), out(100);
  return fn && fn->launch({.threads = 2}, x.data(), y.data(), out.data(), 99) && out[98] == 3.5f ? 0 : 1;
}
