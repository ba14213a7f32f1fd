#include "vector_reference.h"

#include <dlfcn.h>

#ifdef __x86_64__
#include <immintrin.h>

namespace kiln::test {
namespace {

__attribute__((target("avx2"))) __m256d reciprocal_root(__m256d x) {
  return _mm256_div_pd(_mm256_set1_pd(1), _mm256_sqrt_pd(x));
}

}  // namespace

VectorReference::VectorReference(const std::string& name) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return;
  if (name == "rsqrt") {
    function_ = reinterpret_cast<void*>(&reciprocal_root);
  } else if (void* library = dlopen("libmvec.so.1", RTLD_NOW)) {
    function_ = dlsym(library, ("_ZGVdN4v_" + name).c_str());
  }
}

__attribute__((target("avx2"))) void VectorReference::operator()(const float* x, double* out, size_t count) const {
  auto* function = reinterpret_cast<__m256d (*)(__m256d)>(function_);
  for (size_t i = 0; i < count; i += 4) _mm256_storeu_pd(out + i, function(_mm256_cvtps_pd(_mm_loadu_ps(x + i))));
}

}  // namespace kiln::test
#else
namespace kiln::test {

VectorReference::VectorReference(const std::string&) {}
void VectorReference::operator()(const float*, double*, size_t) const {}

}  // namespace kiln::test
#endif
