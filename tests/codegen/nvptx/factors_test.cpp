// What matrix units read on NVIDIA's GPUs: factors in each order of their lines where they were copied to, and those
// that are widened in the registers in which they were.
#include <gtest/gtest.h>

#include "harness.h"
#include "kiln/dsl/kernels.h"
#include "nvptx/aligned_facts.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;

size_t count_of(const std::string& text, const std::string& what) {
  size_t out = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++out;
  return out;
}

// The code, from where memory may be read to the last product.
struct Products {
  std::string body;
  size_t tensor_maps = 0;
};
Products products_of(const dsl::Kernel& kernel, const std::string& target, const std::string& product) {
  const auto artifact = compile(kernel, {}, aligned_facts(kernel), target, "ptx");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return {};
  const std::string ptx(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
  const size_t wait = ptx.find("griddepcontrol.wait"), end = ptx.rfind(product);
  EXPECT_NE(end, std::string::npos);
  if (end == std::string::npos) return {};
  const size_t begin = wait == std::string::npos ? ptx.find(".visible .entry") : wait;
  Products out{ptx.substr(begin, ptx.find(';', end) + 1 - begin)};
  out.tensor_maps = artifact->metadata.device->tensor_maps.size();
  return out;
}

void expect_none(const std::string& body, const std::vector<const char*>& instructions) {
  for (const char* instruction : instructions) EXPECT_EQ(count_of(body, instruction), 0u) << instruction;
}

// All factors come as boxes and are named by descriptors, which say whether lines run along k (0) or not (1).
void expect_read_where_copied(const dsl::Kernel& kernel, const std::string& orders) {
  SCOPED_TRACE(kernel.name);
  const auto [body, tensor_maps] = products_of(kernel, "cuda:sm_90a", "wgmma.mma_async");
  EXPECT_EQ(tensor_maps, 3u);
  EXPECT_EQ(count_of(body, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"), 4u);
  EXPECT_EQ(count_of(body, "}, a, b, 1, 1, 1, " + orders + ";"), 4u);
  EXPECT_NE(count_of(body, "cp.async.bulk.tensor.2d.shared::cluster.global"), 0u);
  expect_none(body, {"ld.global", "cp.async.ca", "cp.async.cg", "ld.shared", "st.shared", "ldmatrix", "stmatrix",
                     "movmatrix", "shfl", "prmt"});
}

TEST(FactorsOnNvidia, OfHalvesAreReadWhereTheyAreCopied) {
  expect_read_where_copied(*kernels::matmul<lang::bf16>().ir(), "0, 1");
  expect_read_where_copied(*kernels::matmul_nt<lang::bf16>().ir(), "0, 0");
  expect_read_where_copied(*kernels::matmul_tn<lang::bf16>().ir(), "1, 1");
  expect_read_where_copied(*kernels::matmul_strided<lang::bf16>().ir(), "0, 1");
}

// Both are copied ahead. Weights are read once, in the order in which the instruction takes them from registers.
TEST(FactorsOnNvidia, ThatAreWidenedStayInRegisters) {
  for (const dsl::Kernel& kernel : {*kernels::matmul_w8<lang::bf16>().ir(), *kernels::matmul_w4<lang::bf16>().ir()}) {
    SCOPED_TRACE(kernel.name);
    // Other loads are those of scales: a lane's own, an iteration early, the first before the loop.
    const bool has_scales = kernel.name == "matmul_w4";
    {
      SCOPED_TRACE("sm_90a");
      const auto [body, tensor_maps] = products_of(kernel, "cuda:sm_90a", "wgmma.mma_async");
      EXPECT_GE(tensor_maps, 2u);
      EXPECT_NE(count_of(body, "wgmma.mma_async"), 0u);
      EXPECT_EQ(count_of(body, "}, a, b, 1"), 0u);
      EXPECT_EQ(count_of(body, "ld.global"), has_scales ? 4u : 0u);
      expect_none(body, {"cp.async.ca", "cp.async.cg", "ldmatrix", "stmatrix", "movmatrix", "st.shared"});
    }
    {
      SCOPED_TRACE("sm_80");
      const std::string body = products_of(kernel, "cuda:sm_80", "mma.sync").body;
      EXPECT_NE(count_of(body, "cp.async.cg"), 0u);
      EXPECT_EQ(count_of(body, "ld.global") > 0, has_scales);
      EXPECT_EQ(count_of(body, "st.shared"), 0u);
    }
  }
}

}  // namespace
}  // namespace kiln::test
