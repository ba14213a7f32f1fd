// Every elementwise op on every element type it takes, on odd shapes, masked and not, on every CPU level.
#include "algebra_case.h"
#include "compile_once.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

struct OpCase {
  std::string expression;  // over %x, %y, %z; gives an element of the same type, or of `result`
  bool any_zero = false;   // of two zeros of different sign, either
  ElementType result;
};

std::vector<OpCase> ops_of(ElementType type) {
  std::vector<OpCase> out;
  auto same = [&](const std::string& expression, bool any_zero = false) {
    out.push_back({expression, any_zero, type});
  };
  const bool is_i1 = type == ElementType::kI1;
  if (!is_i1) {
    for (const char* op : {"add %x, %y", "sub %x, %y", "mul %x, %y", "div %x, %y", "rem %x, %y", "neg %x", "abs %x"})
      same(op);
    for (const char* op : {"min", "max"}) {
      same(std::string(op) + " %x, %y", true);
      same(std::string(op) + " %x, %y {numeric = 1}", true);
    }
  }
  if (dsl::is_float(type)) {
    same("fma %x, %y, %z");
    same("math %x, %y {fn = copysign}");
    for (const char* fn : {"sqrt", "floor", "ceil", "round", "trunc"}) same("math %x {fn = " + std::string(fn) + "}");
    for (const char* fn : {"signbit", "isnan", "isinf"})
      out.push_back({"math %x {fn = " + std::string(fn) + "}", false, ElementType::kI1});
  } else {
    for (const char* op : {"and", "or", "xor"}) same(std::string(op) + " %x, %y");
    if (!is_i1) {
      same("mulhi %x, %y");
      for (const char* op : {"shl", "shr"}) {
        same(std::string(op) + " %x, %y");
        same(std::string(op) + " %x, %small");
      }
    }
  }
  same("select %c, %x, %y");
  for (const char* pred : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    out.push_back({"cmp %x, %y {pred = " + std::string(pred) + "}", false, ElementType::kI1});
  }
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    const auto to = static_cast<ElementType>(i);
    const std::string name(dsl::info(to).name);
    out.push_back({"cast %x {to = " + name + "}", false, to});
    if (dsl::is_float(to) && dsl::info(to).bits == 8 && to != type) {
      out.push_back({"cast %x {to = " + name + ", saturate = 0}", false, to});
    }
    // Rounds to fewer bits only: from f32 and below.
    if (dsl::is_float(type) && type != ElementType::kF64 && dsl::is_small_float(to)) {
      out.push_back({"cast %x, %words {to = " + name + ", rounding = stochastic}", false, to});
    }
    if (dsl::info(to).bits == dsl::info(type).bits) out.push_back({"bitcast %x {to = " + name + "}", false, to});
  }
  return out;
}

// One kernel applies all ops; each stores into a buffer of its own.
void check_ops(ElementType type, const Shape& shape, const std::vector<int64_t>& bounds,
               const std::vector<std::string>& targets) {
  const std::string name(dsl::info(type).name);
  const std::vector<OpCase> ops = ops_of(type);
  std::string params = "%px: ptr<" + name + ">, %py: ptr<" + name + ">, %pz: ptr<" + name + ">";
  std::vector<std::string> bound_names;
  for (size_t i = 0; i < bounds.size(); ++i) {
    bound_names.push_back("%n" + std::to_string(i));
    params += ", " + bound_names.back() + ": i32";
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    params += ", %o" + std::to_string(i) + ": ptr<" + std::string(dsl::info(ops[i].result).name) + ">";
  }
  TextKernel kernel(params);
  const std::string mask = bounds.empty() ? "" : kernel.mask(shape, bound_names);
  for (const char* v : {"x", "y", "z"}) {
    std::string load = "%" + std::string(v) + " = load " + kernel.pointers("%p" + std::string(v), shape);
    kernel.line(load + (mask.empty() ? "" : ", " + mask));
  }
  const std::string limit = std::to_string(dsl::info(type).bits);
  kernel.line("%wide = bitcast " + kernel.index(shape) + " {to = u32}");
  kernel.line("%words = mul %wide, " + kernel.fill("2654435769", "u32", shape));
  if (type != ElementType::kI1) {
    if (dsl::is_int(type)) kernel.line("%small = rem %y, " + kernel.fill(limit, name, shape));
    kernel.line("%c = cmp %y, %z {pred = lt}");
  } else {
    kernel.line("%c = or %y, %z");
  }
  size_t count = 1;
  for (int64_t extent : shape) count *= static_cast<size_t>(extent);
  Trial run;
  for (uint32_t seed : {1u, 2u, 3u}) run.arguments.push_back(random_buffer(type, count, seed));
  for (int64_t bound : bounds) run.arguments.push_back(int_scalar(bound));
  for (size_t i = 0; i < ops.size(); ++i) {
    const std::string value = kernel.op(ops[i].expression);
    const std::string store = "store " + kernel.pointers("%o" + std::to_string(i), shape) + ", " + value;
    kernel.line(store + (mask.empty() ? "" : ", " + mask));
    run.arguments.push_back(random_buffer(ops[i].result, count, 9));
  }
  const dsl::Kernel parsed = parse_kernel(kernel.text());
  ASSERT_FALSE(parsed.params.empty());
  std::vector<TestArgument> expected = run.arguments;
  auto interpreted = run_interpreted(parsed, {}, {}, expected);
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().message;
  for (const std::string& target : targets) {
    auto artifact = compile_once(parsed, {}, {}, target);
    if (is_refused(artifact)) continue;
    ASSERT_TRUE(artifact.ok()) << target << ": " << artifact.error().message;
    std::vector<TestArgument> actual = run.arguments;
    auto ran = run_compiled(parsed, *artifact, actual);
    ASSERT_TRUE(ran.ok()) << target << ": " << ran.error().message;
    const size_t first = actual.size() - ops.size();
    for (size_t i = 0; i < ops.size(); ++i) {
      std::string explanation;
      const Match match{0, 0, ops[i].any_zero};
      EXPECT_EQ(
          count_differences(ops[i].result, actual[first + i].buffer, expected[first + i].buffer, match, explanation),
          0u)
          << name << " " << ops[i].expression << " on " << TextKernel::list(shape) << " bounds "
          << TextKernel::list(bounds) << ", target " << (target.empty() ? "native" : target) << "\n"
          << explanation;
    }
  }
}

class OpsOnCpu : public testing::TestWithParam<ElementType> {};

TEST_P(OpsOnCpu, OneDimension) {
  const std::vector<std::pair<Shape, Shape>> cases = {{{1}, {}}, {{7}, {}}, {{100}, {}}, {{257}, {130}}, {{33}, {0}}};
  for (const auto& [shape, bounds] : sampled(cases, 1)) check_ops(GetParam(), shape, bounds, {""});
}

TEST_P(OpsOnCpu, TwoDimensions) {
  for (const Shape& shape : sampled(std::vector<Shape>{{3, 5}, {1, 40}, {5, 1}}, 1)) {
    check_ops(GetParam(), shape, {}, {""});
  }
  check_ops(GetParam(), {17, 33}, {16, 32}, targets_for(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Types, OpsOnCpu, testing::ValuesIn(all_element_types()),
                         [](const testing::TestParamInfo<ElementType>& info) {
                           return std::string(dsl::info(info.param).name);
                         });

}  // namespace
}  // namespace kiln::test
