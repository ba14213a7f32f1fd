// f32 products against OpenBLAS, interleaved in one process, medians. OpenBLAS is loaded at run time where it is
// installed (Debian: libopenblas0); without it only our own figures are printed.
//   bench-gemm [threads]
#include <dlfcn.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "kiln/client/client.h"
#include "kiln/dsl/kernels.h"

namespace {

struct Shape {
  int32_t m, n, k;
};

class OpenBlas {
 public:
  explicit OpenBlas(int threads) : library_(dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) return;
    sgemm_ = reinterpret_cast<Sgemm>(dlsym(library_, "cblas_sgemm"));
    if (auto set = reinterpret_cast<void (*)(int)>(dlsym(library_, "openblas_set_num_threads"))) set(threads);
    if (auto core = reinterpret_cast<char* (*)()>(dlsym(library_, "openblas_get_corename")))
      std::printf("# OpenBLAS core: %s\n", core());
  }
  bool present() const { return sgemm_ != nullptr; }
  void run(const Shape& s, const float* a, const float* b, float* c) const {
    constexpr int kRowMajor = 101, kNoTrans = 111;
    sgemm_(kRowMajor, kNoTrans, kNoTrans, s.m, s.n, s.k, 1, a, s.k, b, s.n, 0, c, s.n);
  }

 private:
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  void* library_;
  Sgemm sgemm_ = nullptr;
};

std::vector<float> randoms(size_t count, uint32_t seed) {
  std::minstd_rand generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(count);
  for (float& x : out) x = uniform(generator);
  return out;
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const OpenBlas peer(threads);
  if (!peer.present()) std::printf("# SKIPPED peer: libopenblas.so.0 is not installed\n");
  kiln::Client client;
  const std::vector<Shape> shapes = {{256, 256, 256},    {512, 512, 512},   {1024, 1024, 1024}, {2048, 2048, 2048},
                                     {1000, 1000, 1000}, {128, 768, 768},   {128, 3072, 768},   {128, 768, 3072},
                                     {512, 4096, 4096},  {128, 14336, 4096}};
  std::vector<std::pair<Shape, double>> ratios;
  for (const Shape& s : shapes) {
    const int64_t bn = s.n >= 1024 ? 256 : 128;
    auto fn = client.get(kiln::kernels::matmul(), {.constexprs = {{"BM", 128}, {"BN", bn}, {"BK", 256}}});
    if (!fn) return std::fprintf(stderr, "%s\n", fn.error().message.c_str()), 1;
    const auto a = randoms(static_cast<size_t>(s.m) * s.k, 1), b = randoms(static_cast<size_t>(s.k) * s.n, 2);
    std::vector<float> c(static_cast<size_t>(s.m) * s.n), d(c.size());
    auto ours = [&] { (void)fn->launch({.threads = threads}, a.data(), b.data(), c.data(), s.m, s.n, s.k); };
    auto theirs = [&] { peer.run(s, a.data(), b.data(), d.data()); };
    ours();
    if (peer.present()) theirs();
    std::vector<double> our_times, their_times;
    const double flops = 2.0 * s.m * s.n * s.k;
    for (int round = 0; round < 11; ++round) {
      our_times.push_back(seconds(ours));
      if (peer.present()) their_times.push_back(seconds(theirs));
    }
    std::printf("gemm,%dx%dx%d,f32,kiln,GFLOP/s,%.1f\n", s.m, s.n, s.k, flops / median(our_times) / 1e9);
    if (!peer.present()) continue;
    std::printf("gemm,%dx%dx%d,f32,openblas,GFLOP/s,%.1f\n", s.m, s.n, s.k, flops / median(their_times) / 1e9);
    ratios.emplace_back(s, median(their_times) / median(our_times));
  }
  for (const auto& [s, ratio] : ratios) std::printf("# %5d %5d %5d   kiln / openblas %.2f\n", s.m, s.n, s.k, ratio);
}
