// assume, assert and print: what is said where, and that they change nothing otherwise.
#include "reference/inputs.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The message of `assume %x {attrs}` on a tile of rank 1 or a scalar.
std::string assumed(Type type, const std::vector<int64_t>& values, const std::string& attrs, bool checked = true) {
  TileOptions options;
  options.interpret.check_assumptions = checked;
  std::vector<Bits> bits;
  for (const int64_t value : values) bits.push_back(static_cast<Bits>(value) & reference::mask(type));
  const Input x = {type, {{static_cast<int64_t>(values.size())}, bits}};
  return run_tiles("assume %x0 {" + attrs + "}", {x}, {}, options).error;
}

TEST(ControlAssume, FalseOnesAreReportedByOpPlaceProgramAndLane) {
  for (const Type type : {Type::kI8, Type::kI32, Type::kI64}) {
    EXPECT_EQ(assumed(type, {0, 8, -16, 64}, "multiple_of = 8"), "");
    EXPECT_EQ(assumed(type, {-3, 0, 5}, "low = -3, high = 5"), "");
    EXPECT_EQ(assumed(type, {4, 5, 6, 7, -4, -3, -2, -1}, "contiguous = 4, multiple_of = 4"), "");
    const std::string error = assumed(type, {0, 8, -17, 64}, "multiple_of = 8");
    for (const char* part : {"k.kiln:", "assume", "lane 2", "-17", "8", "program 0, 0, 0"}) {
      EXPECT_TRUE(has(error, part)) << part << ": " << error;
    }
    EXPECT_TRUE(has(assumed(type, {-4, 0}, "low = -3"), "lane 0"));
    EXPECT_TRUE(has(assumed(type, {0, 6}, "high = 5"), "lane 1"));
    EXPECT_TRUE(has(assumed(type, {4, 5, 6, 8}, "contiguous = 4"), "lane 3"));
    EXPECT_TRUE(has(assumed(type, {4, 5, 7, 8}, "contiguous = 2, multiple_of = 2"), "lane 2"));
    EXPECT_EQ(assumed(type, {0, 8, -17}, "multiple_of = 8", false), "") << "unchecked";
  }
}

TEST(ControlAssume, UnsignedNumbersAreReadAsUnsigned) {
  EXPECT_TRUE(has(assumed(Type::kU8, {255}, "high = 254"), "255"));
  EXPECT_EQ(assumed(Type::kU8, {255}, "low = 255"), "");
  EXPECT_TRUE(has(assumed(Type::kU64, {-1}, "high = 9223372036854775806"), "18446744073709551615"));
}

constexpr const char* kAssert = R"(kernel k(%n: i32) {
  %pid = program_id {axis = 0}
  %y = program_id {axis = 1}
  %sum = add %pid, %y
  %ok = cmp %sum, %n {pred = lt}
  assert %ok {message = "the sum is small"}
})";

TEST(ControlAssert, FailsTheLaunchInDebugKernelsWithMessageLineAndProgram) {
  EXPECT_EQ(run_kernel(kAssert, {scalar(2)}, {3, 1, 1}), "");
  EXPECT_EQ(run_kernel(kAssert, {scalar(3)}, {3, 1, 1}, {}, true), "");
  const std::string error = run_kernel(kAssert, {scalar(4)}, {3, 3, 1}, {}, true);
  for (const char* part : {"k.kiln:6:3", "assert", "the sum is small", "program 2, 2, 0"}) {
    EXPECT_TRUE(has(error, part)) << part << ": " << error;
  }
}

TEST(ControlAssert, OfATileFailsWhereOneElementIsFalse) {
  TileOptions options;
  options.debug = true;
  for (size_t bad = 0; bad <= 6; ++bad) {
    Input x = {Type::kI1, {{2, 3}, std::vector<Bits>(6, 1)}};
    if (bad < 6) x.tile.data[bad] = 0;
    const std::string error = run_tiles("assert %x0 {message = \"all\"}", {x}, {}, options).error;
    EXPECT_EQ(error.empty(), bad == 6) << error;
  }
}

TEST(ControlPrint, GivesMessagePlaceProgramAndValues) {
  std::vector<dsl::PrintRecord> records;
  dsl::InterpretOptions options;
  options.print = [&](const dsl::PrintRecord& record) { records.push_back(record); };
  const std::string text = R"(kernel k(%x: ptr<bf16>, %n: i64) {
  %pid = program_id {axis = 1}
  %i = arange {start = 0, end = 6}
  %s = splat %x {shape = [6]}
  %q = addptr %s, %i
  %v = load %q
  %t = reshape %v {shape = [2, 3]}
  print %t, %n, %pid {message = "look"}
  print {message = "nothing"}
})";
  std::vector<uint16_t> x = {1, 2, 3, 0x7fc0, 0x8000, 6};
  ASSERT_EQ(run_kernel(text, {argument(x), scalar(static_cast<uint64_t>(-5))}, {1, 2, 1}, options), "");
  ASSERT_EQ(records.size(), 4u);
  std::vector<Bits> programs;
  for (const dsl::PrintRecord& record : records) {
    EXPECT_EQ(record.program[0], 0u);
    if (record.message == "nothing") {
      EXPECT_EQ(record.location, "k.kiln:9:3");
      EXPECT_TRUE(record.values.empty());
      continue;
    }
    EXPECT_EQ(record.message, "look");
    EXPECT_EQ(record.location, "k.kiln:8:3");
    ASSERT_EQ(record.values.size(), 3u);
    EXPECT_EQ(record.values[0].element, dsl::ElementType::kBF16);
    EXPECT_EQ(record.values[0].shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(record.values[0].bits, (std::vector<uint64_t>{1, 2, 3, 0x7fc0, 0x8000, 6}));
    EXPECT_TRUE(record.values[1].shape.empty());
    EXPECT_EQ(record.values[1].bits, (std::vector<uint64_t>{static_cast<uint64_t>(-5)}));
    EXPECT_EQ(record.values[2].bits, (std::vector<uint64_t>{record.program[1]}));
    programs.push_back(record.program[1]);
  }
  std::sort(programs.begin(), programs.end());  // programs run in any order
  EXPECT_EQ(programs, (std::vector<Bits>{0, 1}));
  EXPECT_EQ(run_kernel(text, {argument(x), scalar(0)}, {1, 2, 1}), "") << "without a sink";
}

TEST(ControlProgram, IdsAndCountsAlongAllAxes) {
  std::vector<int32_t> out(3 * 4 * 5 * 6, -1);
  const std::string text = R"(kernel k(%o: ptr<i32>) {
  %x = program_id {axis = 0}
  %y = program_id {axis = 1}
  %z = program_id {axis = 2}
  %nx = num_programs {axis = 0}
  %ny = num_programs {axis = 1}
  %nz = num_programs {axis = 2}
  %a = mul %z, %ny
  %b = add %a, %y
  %c = mul %b, %nx
  %d = add %c, %x
  %six = constant {value = 6, type = i32}
  %at = mul %d, %six
  %p0 = addptr %o, %at
  store %p0, %x
  %one = constant {value = 1, type = i32}
  %p1 = addptr %p0, %one
  store %p1, %y
  %p2 = addptr %p1, %one
  store %p2, %z
  %p3 = addptr %p2, %one
  store %p3, %nx
  %p4 = addptr %p3, %one
  store %p4, %ny
  %p5 = addptr %p4, %one
  store %p5, %nz
})";
  ASSERT_EQ(run_kernel(text, {argument(out)}, {3, 4, 5}), "");
  for (int32_t i = 0; i < 60; ++i) {
    const std::vector<int32_t> record(out.begin() + 6 * i, out.begin() + 6 * i + 6);
    EXPECT_EQ(record, (std::vector<int32_t>{i % 3, i / 3 % 4, i / 12, 3, 4, 5}));
  }
}

}  // namespace
}  // namespace kiln::oracle
