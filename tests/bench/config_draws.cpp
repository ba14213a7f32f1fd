#include "config_draws.h"

#include <cmath>
#include <random>

#include "bench_tools.h"

namespace kiln::bench {
namespace {

using nlohmann::json;

// Numbers that do not depend on the standard library, unlike those of its distributions.
class Draw {
 public:
  Draw(uint64_t seed, uint64_t index) : random_(seed * 0x9e3779b97f4a7c15u + index) {}

  // From low to high, evenly by the logarithm; half of those above 64 are multiples of 64.
  int64_t size(int64_t low, int64_t high) {
    const double span = std::log2(static_cast<double>(high) / static_cast<double>(low));
    const auto drawn = static_cast<int64_t>(std::lround(static_cast<double>(low) * std::exp2(span * unit())));
    return unit() < 0.5 && drawn > 64 ? drawn / 64 * 64 : drawn;
  }
  int64_t one_of(std::initializer_list<int64_t> values) {
    return *(values.begin() + static_cast<ptrdiff_t>(unit() * static_cast<double>(values.size())));
  }

 private:
  double unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::mt19937_64 random_;
};

json products(Draw& draw, bool gpu) {
  const int64_t most = gpu ? 8192 : 1024;
  return {{"shape", {{"M", draw.size(1, most)}, {"N", draw.size(16, most)}, {"K", draw.size(16, most)}}}};
}

// Of up to so many elements.
json matrix(Draw& draw, int64_t most, int64_t widest) {
  const int64_t cols = draw.size(16, widest);
  return {{"rows", draw.size(1, std::max<int64_t>(2, most / cols))}, {"cols", cols}};
}

json rows(Draw& draw, bool gpu) {
  json shape = matrix(draw, gpu ? 1 << 26 : 1 << 21, gpu ? 8192 : 4096);
  shape["stride"] = shape["cols"];
  return {{"shape", shape}};
}

json long_rows(Draw& draw, bool gpu) {
  json shape = matrix(draw, gpu ? 1 << 26 : 1 << 21, gpu ? 1 << 17 : 1 << 15);
  shape["stride"] = shape["cols"];
  return {{"shape", shape}};
}

json norms(Draw& draw, bool gpu) {
  json out = rows(draw, gpu);
  out["shape"]["eps"] = 1e-5;
  return out;
}

json matrices(Draw& draw, bool gpu) {
  return {{"shape", matrix(draw, gpu ? 1 << 26 : 1 << 21, gpu ? 1 << 14 : 1 << 13)}};
}

json attention(Draw& draw, bool gpu) {
  const int64_t width = draw.one_of({64, 128}), heads = draw.one_of({4, 8, 16});
  const int64_t seq = draw.size(16, gpu ? 4096 : 512), batch = gpu ? draw.one_of({1, 2, 4}) : 1;
  return {{"shape",
           {{"batch", batch},
            {"heads", gpu ? heads : heads / 4},
            {"kv_heads", gpu ? heads : heads / 4},
            {"seq", seq},
            {"scale", 1 / std::sqrt(static_cast<double>(width))}}},
          {"set", {{"D", width}, {"CAUSAL", draw.one_of({0, 1})}}}};
}

struct Drawn {
  const char* kernel;
  bool small_on_gpus;  // bf16 there
  json (*draw)(Draw&, bool gpu);
};
constexpr Drawn kDrawn[] = {{"matmul", true, products},      {"softmax", true, rows},
                            {"attention", true, attention},  {"layer_norm", true, norms},
                            {"transpose", false, matrices},  {"matmul_nt", true, products},
                            {"argmax", false, long_rows},    {"bias_gelu", true, matrices},
                            {"column_sum", false, matrices}, {"cumsum_rows", false, matrices}};

}  // namespace

size_t drawn_kernels() { return std::size(kDrawn); }

autotune::JobSpec drawn_job(uint64_t seed, size_t index, bool gpu) {
  const Drawn& kernel = kDrawn[index % std::size(kDrawn)];
  Draw draw(seed, index);
  json line = kernel.draw(draw, gpu);
  line["kernel"] = kernel.kernel;
  if (gpu && kernel.small_on_gpus) line["type"] = "bf16";
  return need(autotune::parse_job(line, ".")).front();
}

}  // namespace kiln::bench
