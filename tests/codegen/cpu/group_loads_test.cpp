// Loads whose lanes read what the first lane of their group reads: `i / 4 * 4`.
#include "differential.h"

namespace kiln::test {
namespace {

using dsl::ElementType;

struct Groups {
  int64_t rows, columns, group, behind;
  bool is_sparse = false;  // some lanes of each group are off
};

// o[r, i] = x[r, i / group * group + behind] where i < n, else -3.
std::string group_kernel(const Groups& v, const std::string& element) {
  TextKernel kernel("%x: ptr<" + element + "> readonly, %o: ptr<" + element + ">, %n: i32");
  const TextKernel::Shape shape = {v.rows, v.columns};
  const std::string row = kernel.along(shape, 0), lane = kernel.along(shape, 1);
  const auto number = [&](int64_t value) { return kernel.fill(std::to_string(value), "i32", shape); };
  const std::string quotient = kernel.op("div " + lane + ", " + number(v.group));
  const std::string first = kernel.op("mul " + quotient + ", " + number(v.group));
  const std::string begin = kernel.op("mul " + row + ", " + kernel.splat("%n", shape));
  const std::string at = kernel.op("add " + kernel.op("add " + begin + ", " + first) + ", " + number(v.behind));
  std::string mask = kernel.mask(shape, {"", "%n"});
  if (v.is_sparse) {
    const std::string rest = kernel.op("rem " + lane + ", " + number(3));
    mask = kernel.op("and " + mask + ", " + kernel.op("cmp " + rest + ", " + number(1) + " {pred = eq}"));
  }
  const std::string from = kernel.op("addptr " + kernel.splat("%x", shape) + ", " + at);
  const std::string loaded = kernel.op("load " + from + ", " + mask + ", " + kernel.fill("-3", element, shape));
  kernel.line("store " + kernel.pointers("%o", shape) + ", " + loaded);
  return kernel.text();
}

TEST(GroupLoadsOnCpu, ReadTheFirstOfEachGroup) {
  for (const char* element : {"f32", "f64", "i8", "bf16"}) {
    const ElementType type = *dsl::parse_element_type(element);
    for (const Groups& v : {Groups{1, 64, 4, 0},
                            {3, 75, 4, 3},
                            {2, 72, 2, 1},
                            {1, 40, 8, 5},
                            {2, 70, 4, 1, true},
                            {1, 96, 3, 2},
                            {1, 128, 32, 0},
                            {4, 4, 4, 2}}) {
      for (int64_t n : {v.columns, v.columns / 2 / v.group * v.group}) {
        Trial run;
        // Reads behind the last group are a crash: the buffer ends with it.
        const int64_t last = (v.rows - 1) * n + (n - 1) / v.group * v.group + v.behind;
        run.arguments = {random_buffer(type, static_cast<size_t>(last + 1), 1, false),
                         random_buffer(type, static_cast<size_t>(v.rows * v.columns), 2), int_scalar(n)};
        run.match = kExact;
        SCOPED_TRACE(std::string(element) + ", groups of " + std::to_string(v.group));
        expect_same(group_kernel(v, element), run);
      }
    }
  }
}

TEST(GroupLoadsOnCpu, GatherNothing) {
  const dsl::Kernel kernel = parse_kernel(group_kernel({1, 64, 4, 1}, "f32"));
  for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) {
    const auto artifact = compile(kernel, {}, {}, target, "llvm");
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    const std::string text(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
    EXPECT_NE(text.find("shufflevector"), std::string::npos) << text;
    EXPECT_EQ(text.find("@llvm.masked.gather"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace kiln::test
