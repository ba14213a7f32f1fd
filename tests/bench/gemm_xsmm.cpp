// libxsmm's small products, which it compiles for their shape. Debian's libxsmm-dev has it as a static library alone.
#include "gemm_peers.h"

#if KILN_HAVE_XSMM
#include <libxsmm.h>
#endif

namespace kiln::bench {

#if KILN_HAVE_XSMM

std::function<void()> xsmm_product(const Product& p) {
  constexpr int32_t kMost = 128;  // what it is made for
  if (p.m > kMost || p.n > kMost || p.k > kMost) return {};
  // Its matrices are column-major: Cᵀ = Bᵀ·Aᵀ.
  const libxsmm_blasint m = p.n, n = p.m, k = p.k;
  const float alpha = 1, beta = 0;
  const libxsmm_smmfunction f = libxsmm_smmdispatch(m, n, k, &m, &k, &m, &alpha, &beta, nullptr, nullptr);
  if (!f) return {};
  const auto *a = static_cast<const float*>(p.a), *b = static_cast<const float*>(p.b);
  auto* c = static_cast<float*>(p.c);
  return [=] { f(b, a, c); };
}

#else

std::function<void()> xsmm_product(const Product&) { return {}; }

#endif

}  // namespace kiln::bench
