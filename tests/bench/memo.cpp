// What a repeated `get` and the smallest launch cost inside a process.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "kiln/client/client.h"
#include "kiln/dsl/kernels.h"

namespace {

template <class F>
double nanoseconds_each(F work) {
  constexpr int kCalls = 100'000;
  std::vector<double> rounds;
  for (int round = 0; round < 11; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) work();
    rounds.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() /
                     kCalls);
  }
  std::nth_element(rounds.begin(), rounds.begin() + 5, rounds.end());
  return rounds[5];
}

}  // namespace

int main() {
  kiln::Client client;
  const kiln::GetOptions options{.constexprs = {{"BLOCK", 64}}};
  auto fn = client.get(kiln::kernels::vector_add(), options);
  if (!fn) return std::fprintf(stderr, "%s\n", fn.error().message.c_str()), 1;
  float x[64] = {}, y[64] = {}, out[64];
  std::printf("client,get of a known kernel,,kiln,ns,%.0f\n",
              nanoseconds_each([&] { (void)client.get(kiln::kernels::vector_add(), options); }));
  std::printf("client,launch of one program,f32,kiln,ns,%.0f\n", nanoseconds_each([&] { (void)(*fn)(x, y, out, 64); }));
}
