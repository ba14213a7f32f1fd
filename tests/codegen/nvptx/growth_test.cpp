// Kernels of very many ops for NVIDIA: the PTX of each grows as they do, no faster; what the lowering for GPUs makes of
// some computes what they say.
#include <sstream>

#include "grown.h"
#include "sized_kernels.h"

namespace kiln::test {
namespace {

size_t instructions(const std::string& ptx) {
  size_t count = 0;
  std::istringstream lines(ptx);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line.back() != ';') continue;
    count += line[first] != '.' && line[first] != '/';
  }
  return count;
}

size_t instructions_of(const growth::Family& family, int count) {
  return instructions(code_of(grown(family, count), {}, "cuda:sm_90a", "ptx"));
}

// Enough for parts and for calls of long ops, where an op takes little time.
int first_count(const growth::Family& family) {
  const std::string name = family.name;
  if (family.most) return family.most / 2;
  if (name == "adds_f32") return 5000;
  if (name == "tanhs" || name == "stores") return 300;
  if (name == "sorts") return 8;
  if (name == "loops") return 200;  // the code of a hundred is shorter, once
  return std::min(family.tested, name == "scans" ? 300 : 1000) / 10;
}

class GrowthOnNvidia : public testing::TestWithParam<growth::Family> {};

// Of twice as many ops no more than two and a half times as many instructions: each may cost some more where tiles no
// longer fit registers, and what there is but once counts for less.
TEST_P(GrowthOnNvidia, CodeGrowsAsTheKernelDoes) {
  const growth::Family& family = GetParam();
  const int count = first_count(family);
  const size_t some = instructions_of(family, count), more = instructions_of(family, 2 * count);
  EXPECT_GT(some, 10u);
  EXPECT_GT(more, 10u);
  EXPECT_LE(2 * more, 5 * some) << some << ", then " << more;
}

INSTANTIATE_TEST_SUITE_P(Families, GrowthOnNvidia,
                         testing::ValuesIn(growth::families().begin(), growth::families().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kiln::test
