#include "math_peers.h"

#include <dlfcn.h>
#include <immintrin.h>

namespace kiln::bench {
namespace {

// One loop for each vector type and number of operands, compiled for its instruction set.
#define KILN_PEER_LOOPS(NAME, ISA, TYPE, VECTOR, LANES, LOAD, STORE)                                          \
  __attribute__((target(ISA))) void NAME##_1(void* symbol, const TYPE* x, const TYPE*, TYPE* out, long n) {   \
    auto* fn = reinterpret_cast<VECTOR (*)(VECTOR)>(symbol);                                                  \
    for (long i = 0; i < n; i += LANES) STORE(out + i, fn(LOAD(x + i)));                                      \
  }                                                                                                           \
  __attribute__((target(ISA))) void NAME##_2(void* symbol, const TYPE* x, const TYPE* y, TYPE* out, long n) { \
    auto* fn = reinterpret_cast<VECTOR (*)(VECTOR, VECTOR)>(symbol);                                          \
    for (long i = 0; i < n; i += LANES) STORE(out + i, fn(LOAD(x + i), LOAD(y + i)));                         \
  }

KILN_PEER_LOOPS(f32x16, "avx512f", float, __m512, 16, _mm512_loadu_ps, _mm512_storeu_ps)
KILN_PEER_LOOPS(f64x8, "avx512f", double, __m512d, 8, _mm512_loadu_pd, _mm512_storeu_pd)
KILN_PEER_LOOPS(f32x8, "avx2,fma", float, __m256, 8, _mm256_loadu_ps, _mm256_storeu_ps)
KILN_PEER_LOOPS(f64x4, "avx2,fma", double, __m256d, 4, _mm256_loadu_pd, _mm256_storeu_pd)
#undef KILN_PEER_LOOPS

template <class T>
using Loop = void (*)(void*, const T*, const T*, T*, long);

template <class T>
Loop<T> loop_of(bool wide, bool two) {
  if constexpr (sizeof(T) == 4) {
    return wide ? (two ? f32x16_2 : f32x16_1) : (two ? f32x8_2 : f32x8_1);
  } else {
    return wide ? (two ? f64x8_2 : f64x8_1) : (two ? f64x4_2 : f64x4_1);
  }
}

}  // namespace

template <class T>
std::vector<MathPeer> math_peers(const std::string& function, const T* x, const T* y, T* out, long count,
                                 std::string& missing) {
  std::vector<MathPeer> peers;
  __builtin_cpu_init();
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !__builtin_cpu_supports("avx2")) {
    missing = "the peers' loops need AVX2";
    return peers;
  }
  constexpr bool single = sizeof(T) == 4;
  const bool two = function == "pow";
  const int lanes = static_cast<int>((wide ? 64 : 32) / sizeof(T));
  auto add = [&](void* library, const std::string& name, const std::string& symbol) {
    void* found = dlsym(library, symbol.c_str());
    if (!found) return false;
    peers.push_back({name, [=, loop = loop_of<T>(wide, two)] { loop(found, x, y, out, count); }});
    return true;
  };
  if (void* sleef = dlopen("libsleef.so.3", RTLD_NOW)) {
    const std::string stem = "Sleef_" + function + (single ? "f" : "d") + std::to_string(lanes);
    const std::string isa = wide ? "avx512f" : "avx2";
    if (!add(sleef, "sleef 1.0", stem + "_u10" + isa)) add(sleef, "sleef 1.5", stem + "_u15" + isa);
    add(sleef, "sleef 3.5", stem + "_u35" + isa);
  } else {
    missing += "SLEEF: libsleef.so.3 is not installed; ";
  }
  if (void* mvec = dlopen("libmvec.so.1", RTLD_NOW)) {
    const std::string prefix = std::string("_ZGV") + (wide ? "e" : "d") + "N" + std::to_string(lanes);
    add(mvec, "libmvec 4", prefix + (two ? "vv_" : "v_") + function + (single ? "f" : ""));
  } else {
    missing += "libmvec: libmvec.so.1 is not installed; ";
  }
  if constexpr (single) {
    if (auto run = onednn_function(function, x, out, count)) peers.push_back({"onednn", run});
  }
  return peers;
}

template std::vector<MathPeer> math_peers(const std::string&, const float*, const float*, float*, long, std::string&);
template std::vector<MathPeer> math_peers(const std::string&, const double*, const double*, double*, long,
                                          std::string&);

}  // namespace kiln::bench
