// The example of README.md; a test compares the two.
#include <cstdio>
#include <vector>

#include "kiln/client/client.h"
#include "kiln/dsl/kernel.h"

using namespace kiln::lang;

int main() {
  auto scale_add = kernel("scale_add", {"x", "y", "out", "a", "n", "BLOCK=4096"},
                          [](Ptr<const f32> x, Ptr<const f32> y, Ptr<f32> out, f32 a, i32 n, Const BLOCK) {
                            grid(cdiv(n, BLOCK));  // one program a block, computed at launch
                            Value start = program_id(0) * BLOCK;
                            Value sum = a * tile(x, {n}).load({start}, {BLOCK}) + tile(y, {n}).load({start}, {BLOCK});
                            tile(out, {n}).store({start}, max(sum, 0));  // the tail of the last block is masked
                          });

  const int n = 1'000'003;
  std::vector<float> x(n, 2), y(n, -3), out(n);
  kiln::Client client;                                 // starts the daemon if none runs
  auto fn = client.get(scale_add, {.target = "cpu"});  // compiled once for all processes on this machine
  if (!fn) return std::fprintf(stderr, "%s\n", fn.error().message.c_str()), 1;
  auto done = (*fn)(x, y, out, 4.0f, n);
  if (!done) return std::fprintf(stderr, "%s\n", done.error().message.c_str()), 1;
  std::printf("out[%d] = %g\n", n - 1, out[n - 1]);  // 5
}
