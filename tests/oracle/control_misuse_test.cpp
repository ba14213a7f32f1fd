// What is the author's fault is reported with the op's name, its place, the program and the index.
#include "tiles.h"

namespace kiln::oracle {
namespace {

// Each part stands in the error.
void expect_report(const std::string& error, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(error.find(part), std::string::npos) << part << "\nin: " << error;
}

// One op on element %at of %p, on line 4, column 3.
std::string access(const std::string& op) {
  return "kernel k(%p: ptr<i32>, %at: i64) {\n  %x = constant {value = 7, type = i32}\n  %q = addptr %p, %at\n  " + op +
         "\n}";
}

TEST(ControlMisuse, AccessesOutsideTheBufferNameOpPlaceProgramIndexAndParameter) {
  std::vector<int32_t> memory(5);
  const std::vector<std::pair<std::string, std::string>> ops = {{"store %q, %x", "store"},
                                                                {"%y = load %q\n  store %p, %y", "load"},
                                                                {"%y = atomic_rmw %q, %x {kind = add}", "atomic_rmw"},
                                                                {"%y = atomic_cas %q, %x, %x", "atomic_cas"}};
  for (const auto& [text, name] : ops) {
    for (const int64_t at : {int64_t{0}, int64_t{4}}) {
      EXPECT_EQ(run_kernel(access(text), {argument(memory), scalar(static_cast<uint64_t>(at))}), "");
    }
    for (const int64_t at : {int64_t{-1}, int64_t{5}, int64_t{1} << 40, -(int64_t{1} << 61)}) {
      expect_report(run_kernel(access(text), {argument(memory), scalar(static_cast<uint64_t>(at))}),
                    {"k.kiln:4:3", name, "index " + std::to_string(at), "`p`", "program 0, 0, 0"});
    }
  }
}

TEST(ControlMisuse, TheProgramThatReachesOutsideIsNamed) {
  std::vector<int32_t> memory(5);
  const std::string text = R"(kernel k(%p: ptr<i32>) {
  %x = program_id {axis = 0}
  %y = program_id {axis = 1}
  %n = num_programs {axis = 0}
  %r = mul %y, %n
  %at = add %r, %x
  %q = addptr %p, %at
  store %q, %at
})";
  EXPECT_EQ(run_kernel(text, {argument(memory)}, {5, 1, 1}), "");
  expect_report(run_kernel(text, {argument(memory)}, {2, 3, 1}), {"k.kiln:8:3", "store", "index 5", "program 1, 2, 0"});
}

TEST(ControlMisuse, DescribedElementsInsideTheExtentsButOutsideTheBuffer) {
  std::vector<float> memory(10);
  const std::string text = R"(kernel k(%p: ptr<f32>, %h: i32) {
  %w = constant {value = 4, type = i32}
  %o = constant {value = 0, type = i32}
  %d = descriptor %p, %h, %w, %w {block = [2, 4]}
  %at = sub %h, %w
  %x = load_tile %d, %o, %o
  store_tile %d, %x, %at, %o
})";
  expect_report(run_kernel(text, {argument(memory), scalar(5)}),
                {"k.kiln:7:3", "store_tile", "index 10", "program 0, 0, 0"});
  expect_report(run_kernel(text, {dsl::Argument{memory.data(), 3, 0}, scalar(5)}),
                {"k.kiln:6:3", "load_tile", "index 3"});
}

TEST(ControlMisuse, GatherOutOfRangeNamesTheIndexAndItsLane) {
  const Input x = {Type::kF32, {{4}, {1, 2, 3, 4}}};
  for (const int64_t bad : {-1, 4, 1 << 30}) {
    const Input index = {Type::kI32, {{3}, {0, 3, static_cast<uint32_t>(bad)}}};
    expect_report(run_tiles("%z0 = gather %x0, %x1 {axis = 0}", {x, index}, {{Type::kF32, {3}}}).error,
                  {"k.kiln:", "gather", "index " + std::to_string(bad), "lane 2", "program 0, 0, 0"});
  }
}

TEST(ControlMisuse, AnIndexThatWrapsIsReportedWhereItReachesMemory) {
  // i32: 2^16 · 2^16 is 0 by wrapping, which is inside.
  std::vector<int32_t> memory(4);
  const std::string head = R"(kernel k(%p: ptr<i32>, %a: i32, %b: i32) {
  %i = mul %a, %b
)";
  const std::string as_index = head + "  %q = addptr %p, %i\n  store %q, %a\n}", as_value = head + "  store %p, %i\n}";
  expect_report(run_kernel(as_index, {argument(memory), scalar(65536), scalar(65536)}),
                {"k.kiln:4:3", "store", "wrap", "program 0, 0, 0"});
  EXPECT_EQ(run_kernel(as_index, {argument(memory), scalar(3), scalar(1)}), "");
  EXPECT_EQ(run_kernel(as_value, {argument(memory), scalar(65536), scalar(65536)}), "") << "a value may wrap";
  for (const char* op : {"add", "sub", "mul"}) {
    const std::string text =
        "kernel k(%p: ptr<i32>, %a: i32, %b: i32, %c: i32) {\n  %i = " + std::string(op) +
        " %a, %b\n  %j = and %i, %c\n  %w = cast %i {to = i64}\n  %q = addptr %p, %w\n  store %q, %j\n}";
    const uint64_t a = op[0] == 's' ? 0x80000000 : 0x7fffffff, b = op[0] == 'm' ? 3 : 2;
    expect_report(run_kernel(text, {argument(memory), scalar(a), scalar(b), scalar(0)}), {"store", "wrap"});
  }
}

TEST(ControlMisuse, AMaskedLaneMayWrapAndMayPointAnywhere) {
  std::vector<int32_t> memory = {1, 2, 3, 4};
  const std::string text = R"(kernel k(%p: ptr<i32>, %a: i32) {
  %i = arange {start = 0, end = 4}
  %as = splat %a {shape = [4]}
  %at = mul %i, %as
  %two = constant {value = 2, type = i32}
  %twos = splat %two {shape = [4]}
  %m = cmp %i, %twos {pred = lt}
  %s = splat %p {shape = [4]}
  %q = addptr %s, %at
  %x = load %q, %m
  store %q, %x, %m
  %y = atomic_rmw %q, %x, %m {kind = xchg}
  %z = atomic_cas %q, %x, %i, %m
})";
  EXPECT_EQ(run_kernel(text, {dsl::Argument{memory.data(), 4, 0}, scalar(3)}), "");
  memory.resize(size_t{1} << 20);
  // Lanes 2 and 3 wrap: 2·2^30 and 3·2^30; lane 1 is outside.
  expect_report(run_kernel(text, {argument(memory), scalar(uint64_t{1} << 30)}), {"load", "index 1073741824"});
  std::string without_lane_1 = text;
  without_lane_1.replace(without_lane_1.find("value = 2"), 9, "value = 1");
  EXPECT_EQ(run_kernel(without_lane_1, {argument(memory), scalar(uint64_t{1} << 30)}), "");
}

TEST(ControlMisuse, OverlappingStoresOfProgramsAreRacesUnlessTheyWriteEqualBits) {
  std::vector<int32_t> memory(4);
  const std::string text = R"(kernel k(%p: ptr<i32>, %v: i32) {
  %x = program_id {axis = 0}
  %two = constant {value = 2, type = i32}
  %at = div %x, %two
  %q = addptr %p, %at
  %s = mul %x, %v
  store %q, %s
})";
  expect_report(run_kernel(text, {argument(memory), scalar(1)}, {4, 1, 1}),
                {"k.kiln:7:3", "store", "index 0", "program 1, 0, 0", "race"});
  EXPECT_EQ(run_kernel(text, {argument(memory), scalar(0)}, {4, 1, 1}), "");
  dsl::InterpretOptions unchecked;
  unchecked.check_races = false;
  EXPECT_EQ(run_kernel(text, {argument(memory), scalar(1)}, {4, 1, 1}, unchecked), "");
}

TEST(ControlMisuse, StoresOfBlocksThatOverlapAreRacesToo) {
  std::vector<int32_t> memory(8);
  const std::string text = R"(kernel k(%p: ptr<i32>, %step: i32) {
  %x = program_id {axis = 0}
  %n = constant {value = 8, type = i32}
  %d = descriptor %p, %n {block = [4]}
  %o = mul %x, %step
  %v = splat %x {shape = [4]}
  store_tile %d, %v, %o
})";
  EXPECT_EQ(run_kernel(text, {argument(memory), scalar(4)}, {2, 1, 1}), "");
  EXPECT_EQ(memory, (std::vector<int32_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  expect_report(run_kernel(text, {argument(memory), scalar(3)}, {2, 1, 1}),
                {"store_tile", "index 3", "race", "program 1, 0, 0"});
}

TEST(ControlMisuse, AStoreOverWhatAnotherProgramReadsIsARace) {
  std::vector<int32_t> memory = {1, 2, 3, 4};
  const std::string text = R"(kernel k(%p: ptr<i32>, %from: i32) {
  %x = program_id {axis = 0}
  %y = add %x, %from
  %q = addptr %p, %y
  %v = load %q
  %r = addptr %p, %x
  %w = add %v, %v
  store %r, %w
})";
  EXPECT_EQ(run_kernel(text, {argument(memory), scalar(0)}, {3, 1, 1}), "");
  expect_report(run_kernel(text, {argument(memory), scalar(1)}, {3, 1, 1}), {"race", "`p`", "program"});
}

// y[i] = x[n - 1 - i] or x[i], with y on top of x.
std::string copy_text(bool reversed, bool may_alias) {
  return std::string("kernel k(%x: ptr<i32> readonly, %y: ptr<i32>") + (may_alias ? " may_alias" : "") + R"() {
  %i = arange {start = 0, end = 4}
  %c = constant {value = 3, type = i32}
  %cs = splat %c {shape = [4]}
  %j = sub %cs, %i
  %xs = splat %x {shape = [4]}
  %ys = splat %y {shape = [4]}
  %xq = addptr %xs, )" +
         (reversed ? "%j" : "%i") + R"(
  %yq = addptr %ys, %i
  %v = load %xq
  store %yq, %v
})";
}

TEST(ControlMisuse, ParametersThatOverlapWithoutMayAliasAreReportedUnlessInPlace) {
  std::vector<int32_t> memory = {1, 2, 3, 4, 5};
  const dsl::Argument all = {memory.data(), 4, 0}, behind = {memory.data() + 1, 4, 0};
  EXPECT_EQ(run_kernel(copy_text(false, false), {all, all}), "") << "in place, element by element";
  expect_report(run_kernel(copy_text(true, false), {all, all}),
                {"k.kiln:11:3", "store", "`x`", "`y`", "may_alias", "program 0, 0, 0"});
  expect_report(run_kernel(copy_text(false, false), {all, behind}), {"store", "index", "may_alias"});
  memory = {1, 2, 3, 4, 5};
  EXPECT_EQ(run_kernel(copy_text(true, true), {all, all}), "");
  EXPECT_EQ(memory, (std::vector<int32_t>{4, 3, 2, 1, 5}));
  dsl::InterpretOptions unchecked;
  unchecked.check_aliasing = false;
  EXPECT_EQ(run_kernel(copy_text(true, false), {all, all}, {1, 1, 1}, unchecked), "");
}

TEST(ControlMisuse, AFalseAssumptionOfAPointersAddress) {
  alignas(64) static int32_t memory[8] = {};
  const std::string text = "kernel k(%p: ptr<i32>) {\n  assume %p {multiple_of = 64}\n}";
  EXPECT_EQ(run_kernel(text, {{memory, 8, 0}}), "");
  expect_report(run_kernel(text, {{memory + 1, 7, 0}}), {"k.kiln:2:3", "assume", "address", "program 0, 0, 0"});
}

TEST(ControlMisuse, ErrorsInsideRegionsNameTheInnerOp) {
  std::vector<int32_t> memory(3);
  const std::string text = R"(kernel k(%p: ptr<i32>, %n: i32) {
  %lo = constant {value = 0, type = i32}
  %st = constant {value = 1, type = i32}
  for %i = %lo to %n step %st {
    %even = and %i, %st
    %c = cmp %even, %lo {pred = eq}
    if %c {
      %q = addptr %p, %i
      store %q, %i
      yield
    }
    yield
  }
})";
  EXPECT_EQ(run_kernel(text, {argument(memory), scalar(4)}), "");
  expect_report(run_kernel(text, {argument(memory), scalar(5)}), {"k.kiln:9:7", "store", "index 4", "program 0, 0, 0"});
}

TEST(ControlMisuse, DivRemAndBitOperationsOfAWrappedIndexBeginANewValue) {
  std::vector<int32_t> memory(4);
  for (const std::string op : {"div", "rem", "shr", "and", "or", "xor"}) {
    EXPECT_EQ(run_kernel("kernel k(%p: ptr<i32>, %a: i32, %b: i32) {\n%w = mul %a, %a\n%i = " + op +
                             " %w, %b\n%q = addptr %p, %i\nstore %q, %a\n}",
                         {argument(memory), scalar(65536), scalar(1)}),
              "")
        << op;
  }
}

TEST(ControlMisuse, ContiguousPointersAreOneElementApart) {
  alignas(16) float memory[8] = {};
  for (const std::string claims : {"contiguous = 4", "contiguous = 2, multiple_of = 8"}) {
    const std::string text =
        "kernel k(%p: ptr<f32>, %n: i32) {\n%i = arange {start = 0, end = 4}\n"
        "%ns = splat %n {shape = [4]}\n%j = mul %i, %ns\n%s = splat %p {shape = [4]}\n%q = addptr %s, %j\n"
        "assume %q {" +
        claims + "}\n}";
    EXPECT_EQ(run_kernel(text, {{memory, 8, 0}, scalar(1)}), "");
    expect_report(run_kernel(text, {{memory, 8, 0}, scalar(2)}),
                  {"k.kiln:7:1", "assume", "lane 1", "address", "does not follow"});
  }
}

}  // namespace
}  // namespace kiln::oracle
