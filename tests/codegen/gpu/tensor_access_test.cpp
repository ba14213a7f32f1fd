// Which accesses are of boxes of arrays, and what keeps others from it.
#include "gpu/analysis/tensor_access.h"

#include <gtest/gtest.h>

#include "differential.h"
#include "kiln/dsl/instantiate.h"
#include "passes/pipeline.h"

namespace kiln::test {
namespace {

using codegen::gpu::LinearForms;

struct AccessCase {
  std::string name, body, expected;
  bool with_facts = true;
};
void PrintTo(const AccessCase& test, std::ostream* out) { *out << test.name; }

// Rows 16·pid… and columns 0…31 of an array of rows of `ld`: pointers %p; their indices and bounds.
constexpr char kPrelude[] =
    "kernel test(%a: ptr<f32>, %n: i32, %m: i32, %ld: i32, %u: i64, %out: ptr<f32>) {\n"
    "  grid [1, 1, 1]\n"
    "  %pid = program_id {axis = 0} : i32\n"
    "  %c16 = constant {value = 16, type = i32} : i32\n"
    "  %row = mul %pid, %c16 : i32\n"
    "  %i = arange {start = 0, end = 16} : tile<[16], i32>\n"
    "  %j = arange {start = 0, end = 32} : tile<[32], i32>\n"
    "  %rows = splat %row {shape = [16]} : tile<[16], i32>\n"
    "  %r = add %i, %rows : tile<[16], i32>\n"
    "  %r1 = expand_dims %r {axis = 1} : tile<[16, 1], i32>\n"
    "  %r2 = broadcast %r1 {shape = [16, 32]} : tile<[16, 32], i32>\n"
    "  %j1 = expand_dims %j {axis = 0} : tile<[1, 32], i32>\n"
    "  %j2 = broadcast %j1 {shape = [16, 32]} : tile<[16, 32], i32>\n"
    "  %lds = splat %ld {shape = [16, 32]} : tile<[16, 32], i32>\n"
    "  %ns = splat %n {shape = [16]} : tile<[16], i32>\n"
    "  %ms = splat %m {shape = [32]} : tile<[32], i32>\n"
    "  %in_n = cmp %r, %ns {pred = lt} : tile<[16], i1>\n"
    "  %in_n1 = expand_dims %in_n {axis = 1} : tile<[16, 1], i1>\n"
    "  %in_n2 = broadcast %in_n1 {shape = [16, 32]} : tile<[16, 32], i1>\n"
    "  %in_m = cmp %j, %ms {pred = lt} : tile<[32], i1>\n"
    "  %in_m1 = expand_dims %in_m {axis = 0} : tile<[1, 32], i1>\n"
    "  %in_m2 = broadcast %in_m1 {shape = [16, 32]} : tile<[16, 32], i1>\n"
    "  %both = and %in_n2, %in_m2 : tile<[16, 32], i1>\n"
    "  %ro = mul %r2, %lds : tile<[16, 32], i32>\n"
    "  %o = add %ro, %j2 : tile<[16, 32], i32>\n"
    "  %as = splat %a {shape = [16, 32]} : tile<[16, 32], ptr<f32>>\n"
    "  %p = addptr %as, %o : tile<[16, 32], ptr<f32>>\n";

// What keeps the load.
constexpr char kUse[] =
    "  %s = reduce %x {kind = sum, axis = 1} : tile<[16], f32>\n"
    "  %t = reduce %s {kind = sum, axis = 0} : f32\n"
    "  store %out, %t\n";

const dsl::Op* last_access(const dsl::Kernel& kernel, const dsl::Region& region) {
  const dsl::Op* out = nullptr;
  for (const dsl::Op& op : region.ops) {
    for (const dsl::Region& inner : op.regions) {
      if (const dsl::Op* found = last_access(kernel, inner)) out = found;
    }
    const bool is_access = op.code == dsl::OpCode::kLoad || op.code == dsl::OpCode::kStore;
    if (is_access && kernel.type(op.operands[0]).rank() > 0) out = &op;
  }
  return out;
}

std::string describe(const dsl::Kernel& source, const dsl::Facts& facts, bool run_passes) {
  auto kernel = dsl::instantiate(source, {}, facts);
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  if (run_passes) *kernel = codegen::run_passes(std::move(*kernel));
  const auto info = codegen::axis_info(*kernel, codegen::Wrap::kIndex);
  LinearForms forms(*kernel, info);
  const auto access = codegen::gpu::find_tensor_access(*kernel, *last_access(*kernel, kernel->body), forms);
  return access ? to_string(*access, *kernel) : "no: " + access.error().message;
}

constexpr auto kAlign16 = dsl::ParamFact::kAlign16, kTimes16 = dsl::ParamFact::kMultiple16;

class TensorAccesses : public testing::TestWithParam<AccessCase> {};

TEST_P(TensorAccesses, AreSeen) {
  const dsl::Facts facts = {kAlign16, kTimes16, dsl::ParamFact::kNone, kTimes16, kTimes16, kAlign16};
  const bool loads = GetParam().body.find("%x = load") != std::string::npos;
  const dsl::Kernel kernel = parse_kernel(kPrelude + GetParam().body + (loads ? kUse : "") + "}\n");
  EXPECT_EQ(describe(kernel, GetParam().with_facts ? facts : dsl::Facts(), false), GetParam().expected);
}

const std::string kLoad = "  %x = load %p : tile<[16, 32], f32>\n";
const std::string kGuardN = "; if n - 1 >= 0", kGuardM = "; if m - 1 >= 0";

INSTANTIATE_TEST_SUITE_P(
    Cases, TensorAccesses,
    testing::Values(
        AccessCase{"NoMask", kLoad, "a; any by 1 at 0 (axis 1); any by ld at 16*%pid (axis 0)"},
        AccessCase{"Bounds", "  %x = load %p, %both : tile<[16, 32], f32>\n",
                   "a; m by 1 at 0 (axis 1); n by ld at 16*%pid (axis 0)" + kGuardM + kGuardN},
        AccessCase{"Store",
                   "  %z = constant {value = 1.0, type = f32} : f32\n"
                   "  %v = splat %z {shape = [16, 32]} : tile<[16, 32], f32>\n  store %p, %v, %in_n2\n",
                   "a; any by 1 at 0 (axis 1); n by ld at 16*%pid (axis 0)" + kGuardN},
        AccessCase{"TheOtherWayRound",
                   "  %y = cmp %ms, %j {pred = gt} : tile<[32], i1>\n"
                   "  %y1 = expand_dims %y {axis = 0} : tile<[1, 32], i1>\n"
                   "  %y2 = broadcast %y1 {shape = [16, 32]} : tile<[16, 32], i1>\n"
                   "  %x = load %p, %y2 : tile<[16, 32], f32>\n",
                   "a; m by 1 at 0 (axis 1); any by ld at 16*%pid (axis 0)" + kGuardM},
        AccessCase{"AGuardOfTheWholeTile",
                   "  %g = cmp %pid, %m {pred = lt} : i1\n  %gs = splat %g {shape = [16, 32]} : tile<[16, 32], i1>\n"
                   "  %x = load %p, %gs : tile<[16, 32], f32>\n",
                   "a; any by 1 at 0 (axis 1); any by ld at 16*%pid (axis 0); if -1*%pid + m - 1 >= 0"},
        AccessCase{
            "ScalarOffsetsAreDimensions",
            "  %bh = mul %pid, %n : i32\n  %h = program_id {axis = 1} : i32\n  %bhh = add %bh, %h : i32\n"
            "  %o1 = mul %bhh, %ld : i32\n  %o64 = cast %o1 {to = i64} : i64\n"
            "  %q = splat %o64 {shape = [16, 32]} : tile<[16, 32], i64>\n"
            "  %p2 = addptr %p, %q : tile<[16, 32], ptr<f32>>\n"
            "  %x = load %p2, %in_n2 : tile<[16, 32], f32>\n",
            "a; any by 1 at 0 (axis 1); n by ld at 16*%pid (axis 0); any by n*ld at %pid; any by ld at %h" + kGuardN},
        AccessCase{"HostOffsets",
                   "  %q = splat %ld {shape = [16, 32]} : tile<[16, 32], i32>\n"
                   "  %p2 = addptr %p, %q : tile<[16, 32], ptr<f32>>\n  %x = load %p2 : tile<[16, 32], f32>\n",
                   "a + ld; any by 1 at 0 (axis 1); any by ld at 16*%pid (axis 0)"},
        AccessCase{"AZeroInstead",
                   "  %z = constant {value = 0.0, type = f32} : f32\n"
                   "  %v = splat %z {shape = [16, 32]} : tile<[16, 32], f32>\n"
                   "  %x = load %p, %in_n2, %v : tile<[16, 32], f32>\n",
                   "a; any by 1 at 0 (axis 1); n by ld at 16*%pid (axis 0)" + kGuardN},
        AccessCase{"SomethingElseInstead",
                   "  %z = constant {value = 1.0, type = f32} : f32\n"
                   "  %v = splat %z {shape = [16, 32]} : tile<[16, 32], f32>\n"
                   "  %x = load %p, %in_n2, %v : tile<[16, 32], f32>\n",
                   "no: what is masked off is not 0"},
        AccessCase{"AMaskOfTwoAxes",
                   "  %y = cmp %j2, %r2 {pred = le} : tile<[16, 32], i1>\n  %x = load %p, %y : tile<[16, 32], f32>\n",
                   "no: the mask compares two axes of the tile"},
        AccessCase{"AMaskThatIsNoBound",
                   "  %y = cmp %in_m2, %in_n2 {pred = eq} : tile<[16, 32], i1>\n"
                   "  %x = load %p, %y : tile<[16, 32], f32>\n",
                   "no: the mask compares what is not linear in the coordinates of the tile"},
        AccessCase{"AMaskOfEveryOther",
                   "  %twice = add %j, %j : tile<[32], i32>\n  %y = cmp %twice, %ms {pred = lt} : tile<[32], i1>\n"
                   "  %y1 = expand_dims %y {axis = 0} : tile<[1, 32], i1>\n"
                   "  %y2 = broadcast %y1 {shape = [16, 32]} : tile<[16, 32], i1>\n"
                   "  %x = load %p, %y2 : tile<[16, 32], f32>\n",
                   "no: the mask is no bound of an axis"},
        AccessCase{"NoUnitStride",
                   "  %p2 = addptr %p, %j2 : tile<[16, 32], ptr<f32>>\n  %x = load %p2 : tile<[16, 32], f32>\n",
                   "no: no axis of the tile has a stride of 1"},
        AccessCase{"AnUnalignedOffset",
                   "  %q = splat %m {shape = [16, 32]} : tile<[16, 32], i32>\n"
                   "  %p2 = addptr %p, %q : tile<[16, 32], ptr<f32>>\n  %x = load %p2 : tile<[16, 32], f32>\n",
                   "no: the offset may be no multiple of 16 bytes: m"},
        AccessCase{"AnUnalignedColumn",
                   "  %h = program_id {axis = 1} : i32\n  %q = splat %h {shape = [16, 32]} : tile<[16, 32], i32>\n"
                   "  %p2 = addptr %p, %q : tile<[16, 32], ptr<f32>>\n  %x = load %p2 : tile<[16, 32], f32>\n",
                   "no: the innermost coordinate may be no multiple of 16 bytes: %h"},
        AccessCase{"AnUnalignedStride",
                   "  %q = splat %pid {shape = [16, 32]} : tile<[16, 32], i32>\n"
                   "  %p2 = addptr %p, %q : tile<[16, 32], ptr<f32>>\n  %x = load %p2 : tile<[16, 32], f32>\n",
                   "no: the stride may be no multiple of 16 bytes: 16*ld + 1"},
        AccessCase{"ANegativeRow",
                   "  %c1 = constant {value = 1, type = i32} : i32\n  %d = sub %row, %c1 : i32\n"
                   "  %ds = splat %d {shape = [16]} : tile<[16], i32>\n  %e = add %i, %ds : tile<[16], i32>\n"
                   "  %y = cmp %e, %ns {pred = lt} : tile<[16], i1>\n"
                   "  %y1 = expand_dims %y {axis = 1} : tile<[16, 1], i1>\n"
                   "  %y2 = broadcast %y1 {shape = [16, 32]} : tile<[16, 32], i1>\n"
                   "  %x = load %p, %y2 : tile<[16, 32], f32>\n",
                   "no: the place along axis 0 may be negative: 16*%pid + -1"},
        AccessCase{"AWideExtent",
                   "  %us = splat %u {shape = [32]} : tile<[32], i64>\n  %k = cast %j {to = i64} : tile<[32], i64>\n"
                   "  %y = cmp %k, %us {pred = lt} : tile<[32], i1>\n"
                   "  %y1 = expand_dims %y {axis = 0} : tile<[1, 32], i1>\n"
                   "  %y2 = broadcast %y1 {shape = [16, 32]} : tile<[16, 32], i1>\n"
                   "  %x = load %p, %y2 : tile<[16, 32], f32>\n",
                   "no: the extent may not fit 32 bits: u"},
        AccessCase{"WithoutFacts", kLoad, "no: the parameter `a` may not be aligned to 16 bytes", false}),
    [](const testing::TestParamInfo<AccessCase>& info) { return info.param.name; });

// Descriptors are pointers and masks by then; offsets that may be negative come with a lower bound.
TEST(TensorAccesses, AreSeenInDescriptors) {
  const dsl::Kernel kernel = parse_kernel(
      "kernel test(%a: ptr<f32>, %n: i32, %m: i32, %ld: i64, %at: i32, %out: ptr<f32>) {\n"
      "  grid [1, 1, 1]\n"
      "  %d = descriptor %a, %n, %m, %ld {block = [16, 32], fill = nan} : descriptor<[16, 32], f32>\n"
      "  %pid = program_id {axis = 0} : i32\n"
      "  %c = constant {value = 32, type = i32} : i32\n"
      "  %col = mul %pid, %c : i32\n"
      "  %x = load_tile %d, %at, %col : tile<[16, 32], f32>\n"
      "  %s = reduce %x {kind = sum, axis = 1} : tile<[16], f32>\n"
      "  %t = reduce %s {kind = sum, axis = 0} : f32\n"
      "  store %out, %t\n"
      "}\n");
  EXPECT_EQ(describe(kernel, {kAlign16, kTimes16, dsl::ParamFact::kNone, kTimes16}, true),
            "a; m by 1 at 32*%pid (axis 1); n by ld at at (axis 0); if m - 1 >= 0; if n - 1 >= 0; else NaN");
}

}  // namespace
}  // namespace kiln::test
