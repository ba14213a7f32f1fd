#include "gemm_peers.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace kiln::bench {
namespace {

constexpr const char* kOpenBlas = "libopenblas.so.0";
constexpr int kRowMajor = 101, kNoTrans = 111;

template <class F>
void find(void* library, const char* name, F& out) {
  out = reinterpret_cast<F>(dlsym(library, name));
}

// Seconds of a product by OpenBLAS with kernels of the given core, in a process of its own: it decides once, when
// loaded.
double openblas_seconds(const char* core) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return 1e9;
  const pid_t child = fork();
  if (child == 0) {
    if (core) setenv("OPENBLAS_CORETYPE", core, 1);
    double best = 1e9;
    if (void* library = dlopen(kOpenBlas, RTLD_NOW | RTLD_LOCAL)) {
      void (*gemm)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
      find(library, "cblas_sgemm", gemm);
      void (*set_threads)(int);
      find(library, "openblas_set_num_threads", set_threads);
      set_threads(1);
      constexpr int kSize = 512;
      const std::vector<float> a(kSize * kSize, 1), b(kSize * kSize, 1);
      std::vector<float> c(kSize * kSize);
      for (int round = 0; round < 15; ++round) {
        const auto start = std::chrono::steady_clock::now();
        gemm(kRowMajor, kNoTrans, kNoTrans, kSize, kSize, kSize, 1, a.data(), kSize, b.data(), kSize, 0, c.data(),
             kSize);
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
    }
    const bool told = write(pipe_ends[1], &best, sizeof best) == sizeof best;
    _exit(told ? 0 : 1);
  }
  close(pipe_ends[1]);
  double seconds = 1e9;
  if (read(pipe_ends[0], &seconds, sizeof seconds) != sizeof seconds) seconds = 1e9;
  close(pipe_ends[0]);
  waitpid(child, nullptr, 0);
  return seconds;
}

}  // namespace

Peers::Peers(int threads) {
  load_openblas(threads);
  load_onednn();
}

void Peers::load_openblas(int threads) {
  // Debian's takes kernels for AVX2 on CPUs that it does not know; the better of its own choice and AVX-512 is the
  // peer.
  if (__builtin_cpu_supports("avx512f") && !std::getenv("OPENBLAS_CORETYPE")) {
    const double own = openblas_seconds(nullptr), wide = openblas_seconds("SkylakeX");
    constexpr double kFlops = 2.0 * 512 * 512 * 512;
    std::printf("# OpenBLAS at 512: %.1f GFLOP/s by its own choice, %.1f as SkylakeX\n", kFlops / own / 1e9,
                kFlops / wide / 1e9);
    if (wide < own) setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
  }
  // Its threads wait busily for 2^26 clocks else, on cores that the next one wants; between two products 2^20 are
  // enough.
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);
  void* library = dlopen(kOpenBlas, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::printf("# SKIPPED OpenBLAS: %s is not installed\n", kOpenBlas);
    return;
  }
  find(library, "cblas_sgemm", sgemm_);
  find(library, "cblas_dgemm", dgemm_);
  void (*set_threads)(int);
  find(library, "openblas_set_num_threads", set_threads);
  if (set_threads) set_threads(threads);
  char* (*core)();
  find(library, "openblas_get_corename", core);
  if (core) std::printf("# OpenBLAS core: %s\n", core());
}

void Peers::load_onednn() {
  for (const char* name : {"libdnnl.so.3", "libdnnl.so.2"}) {
    if (!onednn_) onednn_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!onednn_) {
    std::printf("# SKIPPED oneDNN: libdnnl.so.2 is not installed\n");
    return;
  }
  find(onednn_, "dnnl_sgemm", one_sgemm_);
  find(onednn_, "dnnl_gemm_u8s8s32", one_u8_);
  find(onednn_, "dnnl_gemm_s8s8s32", one_i8_);
}

std::vector<Peer> Peers::of(const std::string& type, const Product& p) const {
  std::vector<Peer> out;
  const auto m = p.m, n = p.n, k = p.k;
  if (type.starts_with("f32")) {
    const auto *a = static_cast<const float*>(p.a), *b = static_cast<const float*>(p.b);
    auto* c = static_cast<float*>(p.c);
    if (sgemm_) {
      out.push_back(
          {"openblas", [=, f = sgemm_] { f(kRowMajor, kNoTrans, kNoTrans, m, n, k, 1, a, k, b, n, 0, c, n); }});
    }
    if (one_sgemm_) out.push_back({"onednn", [=, f = one_sgemm_] { f('N', 'N', m, n, k, 1, a, k, b, n, 0, c, n); }});
    if (auto run = xsmm_product(p)) out.push_back({"libxsmm", run});
  } else if (type == "f64" && dgemm_) {
    const auto *a = static_cast<const double*>(p.a), *b = static_cast<const double*>(p.b);
    auto* c = static_cast<double*>(p.c);
    out.push_back({"openblas", [=, f = dgemm_] { f(kRowMajor, kNoTrans, kNoTrans, m, n, k, 1, a, k, b, n, 0, c, n); }});
  } else if (type == "u8" && one_u8_) {
    static constexpr int32_t kNoOffset = 0;
    out.push_back({"onednn", [=, f = one_u8_] {
                     f('N', 'N', 'F', m, n, k, 1, static_cast<const uint8_t*>(p.a), k, 0,
                       static_cast<const int8_t*>(p.b), n, 0, 0, static_cast<int32_t*>(p.c), n, &kNoOffset);
                   }});
  } else if (type.starts_with("i8") && one_i8_) {
    static constexpr int32_t kNoOffset = 0;
    out.push_back({"onednn", [=, f = one_i8_] {
                     f('N', 'N', 'F', m, n, k, 1, static_cast<const int8_t*>(p.a), k, 0,
                       static_cast<const int8_t*>(p.b), n, 0, 0, static_cast<int32_t*>(p.c), n, &kNoOffset);
                   }});
    if (auto run = onednn_matmul(onednn_, "i8", p)) out.push_back({"onednn matmul", run});
  } else if (onednn_) {
    if (auto run = onednn_matmul(onednn_, type.substr(0, type.find(' ')), p)) out.push_back({"onednn", run});
  }
  if (onednn_ && type.ends_with(" packed")) {
    if (auto run = onednn_matmul(onednn_, type.substr(0, type.find(' ')), p, true)) {
      out.push_back({"onednn packed", run});
    }
  }
  return out;
}

}  // namespace kiln::bench
