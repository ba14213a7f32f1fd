// Random kernels of all that the CPU backend and the lowering for GPUs compile, against the interpreter: exact where
// the language is exact. KILN_RANDOM_KERNELS sets how many, KILN_RANDOM_SEED the first seed, KILN_RANDOM_TARGET one
// target for all of them. A failure is shrunk before it is shown, unless KILN_RANDOM_AS_IT_IS is set: a smaller kernel
// may crash.
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>

#include "cuda_device.h"
#include "harness.h"
#include "random/shrink.h"
#include "random_cases.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using random_kernel::Case;

// Kernel after kernel on the targets by turns; of `parts`, those whose turn it is.
void check_seeds(uint32_t count, const random_kernel::Options& options, const std::vector<std::string>& targets,
                 uint32_t part = 0, uint32_t parts = 1) {
  count = number_from("KILN_RANDOM_KERNELS", count);
  const uint32_t first = number_from("KILN_RANDOM_SEED", 1);
  const char* const asked = std::getenv("KILN_RANDOM_TARGET");
  for (uint32_t seed = first + part; seed < first + count; seed += parts) {
    const std::string target = asked ? asked : targets[seed % targets.size()];
    const Case test = random_kernel::generate(seed, options);
    if (std::getenv("KILN_RANDOM_VERBOSE")) std::fprintf(stderr, "seed %u %s\n", seed, target.c_str());
    const std::string difference = run_case(test, target).wrong;
    if (difference.empty()) continue;
    if (std::getenv("KILN_RANDOM_AS_IT_IS")) {
      ADD_FAILURE() << "seed " << seed << " " << target << ": " << difference;
      continue;
    }
    const auto fails = [&](const Case& candidate) { return !run_case(candidate, target).wrong.empty(); };
    const Case small = random_kernel::shrink(test, fails, {300, true});
    ADD_FAILURE() << "seed " << seed << " " << target << ": " << run_case(small, target).wrong << "\n"
                  << random_kernel::reproducer(small);
    if (!std::getenv("KILN_RANDOM_KEEP_GOING")) return;
  }
}

// In parts, which run beside each other.
constexpr uint32_t kParts = 8;
class EveryOpOnCpu : public testing::TestWithParam<uint32_t> {};
TEST_P(EveryOpOnCpu, AgreesWithTheInterpreter) { check_seeds(56, cpu_options(), {""}, GetParam(), kParts); }
INSTANTIATE_TEST_SUITE_P(Part, EveryOpOnCpu, testing::Range(0U, kParts));
TEST(RandomOnGpu, EveryOpAgreesWithTheInterpreter) { check_seeds(48, {}, {"gpu"}); }
// One of each set of units and shared memory.
TEST(RandomOnGpu, EveryOpAgreesOnWhatIsLikeEachProcessor) {
  check_seeds(30, {}, {"gpu:like=sm_80", "gpu:like=sm_100", "gpu:like=sm_100a", "gpu:like=sm_120", "gpu:like=sm_120a"});
}

#ifdef KILN_AMDGCN
// The processor goes with the seed, so that a seed fails as it did.
TEST(RandomOnAmd, EveryOpAgreesWithTheInterpreter) {
  check_seeds(24, {},
              {"amd:gfx942", "amd:gfx1100", "amd:gfx90a", "amd:gfx1200", "amd:gfx906", "amd:gfx950", "amd:gfx1250"});
}

// A choice of two constant expressions, cast and shifted, crashed LLVM.
TEST(RandomOnAmd, SeedsThatFoundBugs) {
  EXPECT_EQ(run_case(random_kernel::generate(201992, {}), "amd:gfx90a").wrong, "");
}
#endif

// Each found a bug once: divisors with lanes nobody asks for, the sign of a NaN of f8, scans of long rows across an
// axis and of operands of several widths, comparisons of halves that LLVM turned round.
TEST(RandomOnCpu, SeedsThatFoundBugs) {
  const random_kernel::Options options = cpu_options();
  for (uint64_t seed : {207328, 1101355, 400837, 1103203, 1302706, 1406554, 101430, 1502413, 7201278, 5403401}) {
    const Case test = random_kernel::generate(seed, options);
    EXPECT_EQ(run_case(test, "").wrong, "") << "seed " << seed;
  }
}

// Bits of f16 that are the operand of a cast to bits which is rewritten itself.
TEST(RandomOnCpu, HalvesAsBitsCastThereAndBack) {
  for (uint64_t seed : {11, 106}) {
    Case test = random_kernel::generate(seed, cpu_options());
    test.kernel.options.contract = false;  // as on CPUs without FMA
    EXPECT_EQ(run_case(test, "cpu:x86-64-v2").wrong, "") << "seed " << seed;
  }
}

// What ptxas 13.0 gets wrong, where the test runs on such a device: mulhi widened, less a widened 0; a quotient
// likewise; f8 products of constant words beside a loop; abs and neg of the lowest i16, widened; a NaN's bits behind
// neg and abs.
TEST(RandomOnCpu, ReproducersOfBugsOfAssemblers) {
  const Case widened = random_kernel::make_case(R"kiln(
kernel widened(%out: ptr<i64>) {
  grid [1, 1, 1]
  %places = arange {start = 0, end = 3} : tile<[3], i32>
  %base = splat %out {shape = [3]} : tile<[3], ptr<i64>>
  %at = addptr %base, %places : tile<[3], ptr<i64>>
  %number = constant {value = -3594009460119265647, type = i64} : i64
  %numbers = splat %number {shape = [3]} : tile<[3], i64>
  %x = cast %places {to = i64} : tile<[3], i64>
  %high = mulhi %numbers, %x : tile<[3], i64>
  %narrow = cast %places {to = u32} : tile<[3], u32>
  %high32 = mulhi %narrow, %narrow : tile<[3], u32>
  %wide = cast %high32 {to = i64} : tile<[3], i64>
  %less = sub %wide, %x : tile<[3], i64>
  %sum = add %high, %less : tile<[3], i64>
  store %at, %sum
}
)kiln",
                                                {}, {}, {random_kernel::zeros(ElementType::kI64, 3)});
  EXPECT_EQ(run_case(widened, "").wrong, "");
  const Case quotient = random_kernel::make_case(
      R"kiln(
kernel quotient(%in: ptr<u32> readonly, %of_part: ptr<i64>, %of_whole: ptr<i64>) {
  grid [1, 1, 1]
  %places = arange {start = 0, end = 4} : tile<[4], i32>
  %from = splat %in {shape = [4]} : tile<[4], ptr<u32>>
  %from_at = addptr %from, %places : tile<[4], ptr<u32>>
  %x = load %from_at : tile<[4], u32>
  %divisor = constant {value = 1152, type = u32} : u32
  %divisors = splat %divisor {shape = [4]} : tile<[4], u32>
  %quotient = div %x, %divisors : tile<[4], u32>
  %q = cast %quotient {to = i64} : tile<[4], i64>
  %seven = constant {value = 7, type = u32} : u32
  %sevens = splat %seven {shape = [4]} : tile<[4], u32>
  %part = shr %x, %sevens : tile<[4], u32>
  %p = cast %part {to = i64} : tile<[4], i64>
  %w = cast %x {to = i64} : tile<[4], i64>
  %less_part = sub %q, %p : tile<[4], i64>
  %less_whole = sub %q, %w : tile<[4], i64>
  %part_to = splat %of_part {shape = [4]} : tile<[4], ptr<i64>>
  %part_at = addptr %part_to, %places : tile<[4], ptr<i64>>
  store %part_at, %less_part
  %whole_to = splat %of_whole {shape = [4]} : tile<[4], ptr<i64>>
  %whole_at = addptr %whole_to, %places : tile<[4], ptr<i64>>
  store %whole_at, %less_whole
}
)kiln",
      {}, {},
      {random_kernel::elements(ElementType::kU32, {0, 5, 1152, 0xffffffff}), random_kernel::zeros(ElementType::kI64, 4),
       random_kernel::zeros(ElementType::kI64, 4)});
  EXPECT_EQ(run_case(quotient, "").wrong, "");
  const Case product = random_kernel::make_case(
      R"kiln(
kernel product(%out: ptr<f32>, %count: ptr<i32>) {
  grid [1, 1, 1]
  %base = splat %out {shape = [1, 1]} : tile<[1, 1], ptr<f32>>
  %zero = constant {value = 0.0, type = f8e5m2} : f8e5m2
  %a = splat %zero {shape = [1, 1]} : tile<[1, 1], f8e5m2>
  %none = constant {value = 0.0, type = f32} : f32
  %c = splat %none {shape = [1, 1]} : tile<[1, 1], f32>
  %sum = dot %a, %a, %c : tile<[1, 1], f32>
  store %base, %sum {cache = global}
  %first = constant {value = 0, type = i32} : i32
  %last = while carry (%i = %first) : i32 {
    %one = constant {value = 1, type = i32} : i32
    %more = cmp %i, %one {pred = lt} : i1
    yield %more
  } do (%j) {
    %step = constant {value = 1, type = i32} : i32
    %next = add %j, %step : i32
    yield %next
  }
  store %count, %last
}
)kiln",
      {}, {}, {random_kernel::zeros(ElementType::kF32, 1), random_kernel::zeros(ElementType::kI32, 1)});
  EXPECT_EQ(run_case(product, "").wrong, "");
}

// A target of each kind.
std::vector<std::string> kinds() {
  if (on_cuda()) return {""};
#ifdef KILN_AMDGCN
  return {"", "gpu", "amd:gfx942", "amd:gfx1100"};
#else
  return {"", "gpu"};
#endif
}

// Signalling NaN in vectors and in the lanes behind them, and chosen, stored and carried: only their signs change.
// Targets without instructions for halves do it on integers (cpu/f16_bits.cpp).
TEST(RandomOnCpu, BitsOfNanOfHalvesInEveryLane) {
  for (const char* name : {"f16", "bf16"}) {
    const ElementType type = *dsl::parse_element_type(name);
    const uint64_t quiet = type == ElementType::kF16 ? 0x7e00 : 0x7fc0,
                   most = type == ElementType::kF16 ? 0x7c00 : 0x7f80;
    std::vector<uint64_t> bits;
    for (uint64_t i = 0; i < 19; ++i) bits.push_back((i % 2 << 15) | (i % 3 == 0 ? quiet + i : most + 1 + i));
    const std::string text = R"(
kernel nan_bits(%x: ptr<TYPE> readonly, %y: ptr<TYPE>, %z: ptr<TYPE>, %n: i32) {
  grid [1, 1, 1]
  %i = arange {start = 0, end = 19} : tile<[19], i32>
  %xt = splat %x {shape = [19]} : tile<[19], ptr<TYPE>>
  %xq = addptr %xt, %i : tile<[19], ptr<TYPE>>
  %a = load %xq : tile<[19], TYPE>
  %b = abs %a : tile<[19], TYPE>
  %first = constant {value = 0, type = i32} : i32
  %one = constant {value = 1, type = i32} : i32
  %c = for %k = %first to %n step %one carry (%v = %a) : tile<[19], TYPE> {
    %w = neg %v : tile<[19], TYPE>
    yield %w
  }
  %ns = splat %n {shape = [19]} : tile<[19], i32>
  %below = cmp %i, %ns {pred = lt} : tile<[19], i1>
  %d = select %below, %b, %c : tile<[19], TYPE>
  %yt = splat %y {shape = [19]} : tile<[19], ptr<TYPE>>
  %yq = addptr %yt, %i : tile<[19], ptr<TYPE>>
  %zt = splat %z {shape = [19]} : tile<[19], ptr<TYPE>>
  %zq = addptr %zt, %i : tile<[19], ptr<TYPE>>
  store %yq, %c
  store %zq, %d
}
)";
    const Case test = random_kernel::make_case(std::regex_replace(text, std::regex("TYPE"), name), {}, {},
                                               {random_kernel::elements(type, bits), random_kernel::zeros(type, 19),
                                                random_kernel::zeros(type, 19), random_kernel::scalar(3)});
    for (const char* target : {"", "cpu:x86-64-v2"}) {
      EXPECT_EQ(run_case(test, target).wrong, "") << name << " on " << target;
    }
  }
}

// The lowest and highest numbers, 0 and -1.
TEST(RandomOnCpu, SignsOfTheLowestInts) {
  const std::pair<ElementType, std::vector<uint64_t>> types[] = {
      {ElementType::kI8, {0x80, 0x81, 0x7f, 0, 0xff}},
      {ElementType::kI16, {0x8000, 0x8001, 0x7fff, 0, 0xffff}},
      {ElementType::kI32, {0x80000000, 0x80000001, 0x7fffffff, 0, 0xffffffff}},
      {ElementType::kI64, {uint64_t{1} << 63, 1 | uint64_t{1} << 63, ~(uint64_t{1} << 63), 0, ~uint64_t{0}}}};
  for (const auto& [type, bits] : types) {
    for (const char* op : {"abs", "neg"}) {
      const std::string name(dsl::info(type).name), text = R"(
kernel signs(%x: ptr<TYPE> readonly, %high: ptr<TYPE>, %wide: ptr<i64>, %below: ptr<i8>) {
  grid [1, 1, 1]
  %places = arange {start = 0, end = 5} : tile<[5], i32>
  %from = splat %x {shape = [5]} : tile<[5], ptr<TYPE>>
  %at = addptr %from, %places : tile<[5], ptr<TYPE>>
  %v = load %at : tile<[5], TYPE>
  %s = OP %v : tile<[5], TYPE>
  %h = mulhi %s, %v : tile<[5], TYPE>
  %to = splat %high {shape = [5]} : tile<[5], ptr<TYPE>>
  %high_at = addptr %to, %places : tile<[5], ptr<TYPE>>
  store %high_at, %h
  %w = cast %s {to = i64} : tile<[5], i64>
  %wides = splat %wide {shape = [5]} : tile<[5], ptr<i64>>
  %wide_at = addptr %wides, %places : tile<[5], ptr<i64>>
  store %wide_at, %w
  %zero = constant {value = 0, type = TYPE} : TYPE
  %zeros = splat %zero {shape = [5]} : tile<[5], TYPE>
  %negative = cmp %s, %zeros {pred = lt} : tile<[5], i1>
  %b = cast %negative {to = i8} : tile<[5], i8>
  %belows = splat %below {shape = [5]} : tile<[5], ptr<i8>>
  %below_at = addptr %belows, %places : tile<[5], ptr<i8>>
  store %below_at, %b
}
)";
      const Case test = random_kernel::make_case(
          std::regex_replace(std::regex_replace(text, std::regex("TYPE"), name), std::regex("OP "),
                             op + std::string(" ")),
          {}, {},
          {random_kernel::elements(type, bits), random_kernel::zeros(type, 5),
           random_kernel::zeros(ElementType::kI64, 5), random_kernel::zeros(ElementType::kI8, 5)});
      for (const std::string& target : kinds()) {
        EXPECT_EQ(run_case(test, target).wrong, "") << op << " of " << name << " on " << target;
      }
    }
  }
}

// LLVM makes fma(x, y, +0) of a product that is rounded to f16 at once, and so +0 of -0.
TEST(RandomOnCpu, SignsOfZerosRoundedToF16) {
  const std::string text = R"(
kernel zeros(%x: ptr<f32> readonly, %out: ptr<f16>) {
  grid [1, 1, 1]
  %places = arange {start = 0, end = 4} : tile<[4], i32>
  %three = constant {value = 3, type = i32} : i32
  %threes = splat %three {shape = [4]} : tile<[4], i32>
  %mirrored = sub %threes, %places : tile<[4], i32>
  %from = splat %x {shape = [4]} : tile<[4], ptr<f32>>
  %at = addptr %from, %places : tile<[4], ptr<f32>>
  %v = load %at : tile<[4], f32>
  %other = addptr %from, %mirrored : tile<[4], ptr<f32>>
  %w = load %other : tile<[4], f32>
  %product = mul %v, %w : tile<[4], f32>
  %small = cast %product {to = f16} : tile<[4], f16>
  %to = splat %out {shape = [4]} : tile<[4], ptr<f16>>
  %out_at = addptr %to, %places : tile<[4], ptr<f16>>
  store %out_at, %small
}
)";
  const Case test =
      random_kernel::make_case(text, {}, {},
                               {random_kernel::elements(ElementType::kF32, {0x80000000, 0xbf800000, 0, 0x3f800000}),
                                random_kernel::zeros(ElementType::kF16, 4)});
  for (const std::string& target : kinds()) EXPECT_EQ(run_case(test, target).wrong, "") << target;
#ifdef KILN_AMDGCN
  if (!on_cuda()) {
    EXPECT_EQ(run_case(test, "amd:gfx906").wrong, "");
  }
#endif
}

// NaNs with payloads, quiet and not, of both signs: bits.
TEST(RandomOnCpu, SignsOfNaNs) {
  const std::pair<ElementType, std::vector<uint64_t>> types[] = {
      {ElementType::kF16, {0x7e00, 0xfe01, 0x7c01, 0xfd55, 0x8000}},
      {ElementType::kBF16, {0x7fc0, 0xffc1, 0x7f81, 0xffaa, 0x8000}},
      {ElementType::kF8E4M3, {0x7f, 0xff, 0x7e, 0xfe, 0x80}},
      {ElementType::kF8E5M2, {0x7d, 0xfe, 0x7c, 0xff, 0x80}},
      {ElementType::kF32, {0x7fc00000, 0xffc00001, 0x7f800001, 0xffaaaaaa, 0x80000000}},
      {ElementType::kF64,
       {0x7ff8000000000000, 0xfff8000000000001, 0x7ff0000000000001, 0xfff5555555555555, 0x8000000000000000}}};
  for (const auto& [type, bits] : types) {
    for (const char* op : {"abs %v", "neg %v", "math %v, %w {fn = copysign}", "math %w, %v {fn = copysign}"}) {
      const std::string name(dsl::info(type).name), text = R"(
kernel signs(%x: ptr<TYPE> readonly, %out: ptr<TYPE>) {
  grid [1, 1, 1]
  %places = arange {start = 0, end = 5} : tile<[5], i32>
  %four = constant {value = 4, type = i32} : i32
  %fours = splat %four {shape = [5]} : tile<[5], i32>
  %mirrored = sub %fours, %places : tile<[5], i32>
  %from = splat %x {shape = [5]} : tile<[5], ptr<TYPE>>
  %at = addptr %from, %places : tile<[5], ptr<TYPE>>
  %v = load %at : tile<[5], TYPE>
  %other = addptr %from, %mirrored : tile<[5], ptr<TYPE>>
  %w = load %other : tile<[5], TYPE>
  %s = OP : tile<[5], TYPE>
  %to = splat %out {shape = [5]} : tile<[5], ptr<TYPE>>
  %out_at = addptr %to, %places : tile<[5], ptr<TYPE>>
  store %out_at, %s
}
)";
      const Case test =
          random_kernel::make_case(std::regex_replace(std::regex_replace(text, std::regex("TYPE"), name),
                                                      std::regex("OP "), op + std::string(" ")),
                                   {}, {}, {random_kernel::elements(type, bits), random_kernel::zeros(type, 5)});
      for (const std::string& target : kinds()) {
        EXPECT_EQ(run_case(test, target).wrong, "") << op << " of " << name << " on " << target;
      }
    }
  }
}

}  // namespace
}  // namespace kiln::test
