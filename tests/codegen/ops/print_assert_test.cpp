// print and assert: what a launch is told, against what the interpreter tells.
#include <algorithm>
#include <tuple>

#include "differential.h"

namespace kiln::test {
namespace {

using Records = std::vector<dsl::PrintRecord>;

std::string text_of(const Records& records) {
  std::string out;
  for (const dsl::PrintRecord& record : records) out += dsl::to_string(record);
  return out;
}

// Order counts within a program only.
void sort_by_program(Records& records) {
  std::stable_sort(records.begin(), records.end(), [](const dsl::PrintRecord& a, const dsl::PrintRecord& b) {
    const auto key = [](const dsl::PrintRecord& r) { return std::tuple(r.program[2], r.program[1], r.program[0]); };
    return key(a) < key(b);
  });
}

struct Printed {
  Records interpreted, launched;
};

Printed print_both(const std::string& text, const std::vector<TestArgument>& arguments, int threads,
                   const std::string& target = "") {
  Printed out;
  const dsl::Kernel kernel = parse_kernel(text);
  auto reference = arguments, actual = arguments;
  dsl::InterpretOptions options;
  options.print = [&](const dsl::PrintRecord& record) { out.interpreted.push_back(record); };
  auto interpreted = run_interpreted(kernel, {}, {}, reference, true, options);
  EXPECT_TRUE(interpreted.ok()) << interpreted.error().message;
  auto artifact = compile(kernel, {}, {}, target);
  if (is_refused(artifact)) {
    out.launched = out.interpreted;
    return out;
  }
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return out;
  client::LaunchOptions launch;
  launch.threads = threads;
  launch.print = [&](const dsl::PrintRecord& record) { out.launched.push_back(record); };  // serialised by the launch
  auto done = run_launched(kernel, *artifact, actual, launch);
  EXPECT_TRUE(done.ok()) << done.error().message;
  sort_by_program(out.interpreted);
  sort_by_program(out.launched);
  return out;
}

std::string many_values() {
  TextKernel k("%x: ptr<f32> readonly, %h: ptr<bf16> readonly, %n: i64");
  k.grid = "3, 2, 2";
  const TextKernel::Shape shape = {3, 5};
  const std::string x = k.op("load " + k.pointers("%x", shape));
  const std::string flags = k.op("cmp " + x + ", " + k.fill("0", "f32", shape) + " {pred = lt}");
  k.line("print " + x + ", " + flags + ", %n {message = \"x, its signs, n\"}");
  const std::string h = k.op("load " + k.pointers("%h", {7}));
  k.line("print " + h + ", " + k.op("program_id {axis = 1}") + " {message = \"h\"}");
  k.line("print {message = \"nothing\"}");
  // Values that lie in scratch with gaps between rows, and as parts of other tiles.
  const std::string most = k.op("reduce " + x + " {kind = max, axis = 1}");
  const std::string part = k.op("slice " + x + " {axis = 1, start = 1, end = 4}");
  k.line("print " + part + ", " + most + " {message = \"part\"}");
  return k.text();
}

TEST(Print, GivesTheRecordsOfTheInterpreter) {
  const std::vector<TestArgument> arguments = {random_buffer(dsl::ElementType::kF32, 15, 1, false),
                                               random_buffer(dsl::ElementType::kBF16, 7, 2), int_scalar(-9)};
  for (const std::string& target : all_targets()) {
    const Printed printed = print_both(many_values(), arguments, 1, target);
    EXPECT_EQ(printed.interpreted.size(), 48u);
    EXPECT_EQ(text_of(printed.launched), text_of(printed.interpreted)) << target;
  }
}

TEST(Print, IsSerialisedAndKeepsTheOrderWithinAProgram) {
  const std::string text = R"(kernel k(%n: i32) {
  grid [200, 1, 1]
  %zero = constant {value = 0, type = i32}
  %one = constant {value = 1, type = i32}
  for %i = %zero to %n step %one {
    print %i {message = "i"}
    yield
  }
})";
  const Printed printed = print_both(text, {int_scalar(5)}, 4);
  EXPECT_EQ(printed.launched.size(), 1000u);
  EXPECT_EQ(text_of(printed.launched), text_of(printed.interpreted));
}

TEST(Print, WithoutASinkNothingHappens) {
  const dsl::Kernel kernel = parse_kernel(many_values());
  auto artifact = compile(kernel, {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<TestArgument> arguments = {random_buffer(dsl::ElementType::kF32, 15, 1),
                                         random_buffer(dsl::ElementType::kBF16, 7, 2), int_scalar(1)};
  EXPECT_TRUE(run_launched(kernel, *artifact, arguments).ok());
  EXPECT_TRUE(run_compiled(kernel, *artifact, arguments).ok());
}

// Blocks of every width of threads, where elements have copies and where a thread has several; and what does not fit
// into the ring is left out as a whole.
TEST(Print, OnGpusGivesWholeMessagesInAnyShapeOfBlock) {
  TextKernel k("%x: ptr<f32> readonly, %h: ptr<i8> readonly, %n: i64");
  k.grid = "3, 2, 1";
  const std::string x = k.op("load " + k.pointers("%x", {3, 5}));
  k.line("print " + x + ", " + k.op("cmp " + x + ", " + k.fill("0", "f32", {3, 5}) + " {pred = lt}") +
         ", %n {message = \"x, its signs, n\"}");
  const std::string h = k.op("load " + k.pointers("%h", {700}));
  k.line("print " + h + ", " + k.op("program_id {axis = 1}") + " {message = \"h\"}");
  k.line("print {message = \"nothing\"}");
  const std::vector<TestArgument> arguments = {random_buffer(dsl::ElementType::kF32, 15, 1, false),
                                               random_buffer(dsl::ElementType::kI8, 700, 2), int_scalar(-9)};
  for (const char* target : {"gpu:warps=1", "gpu:warps=4", "gpu:warps=16", "gpu:warps=2,lanes=64"}) {
    const Printed printed = print_both(k.text(), arguments, 1, target);
    EXPECT_EQ(printed.interpreted.size(), 18u);
    EXPECT_EQ(text_of(printed.launched), text_of(printed.interpreted)) << target;
  }
  const std::string many = R"(kernel k(%n: i32) {
  grid [1, 1, 1]
  %zero = constant {value = 0, type = i32}
  %one = constant {value = 1, type = i32}
  %i = arange {start = 0, end = 128}
  for %j = %zero to %n step %one {
    print %i {message = "i"}
    yield
  }
})";
  const Printed full = print_both(many, {int_scalar(200)}, 1, "gpu");
  EXPECT_EQ(full.interpreted.size(), 200u);
  EXPECT_EQ(full.launched.size(), (1u << 16) / (24 + 4 * 128));
}

TEST(Print, MetadataDescribesMessagesAndValues) {
  auto artifact = compile(parse_kernel(many_values()), {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  ASSERT_EQ(artifact->metadata.prints.size(), 4u);
  const abi::Print& print = artifact->metadata.prints[0];
  EXPECT_EQ(print.message, "x, its signs, n");
  EXPECT_EQ(print.place.file, "test.kiln");
  ASSERT_GE(print.values.size(), 2u);
  EXPECT_EQ(print.values[1].element, dsl::ElementType::kI1);
  EXPECT_EQ(print.values[1].shape, (std::vector<int64_t>{3, 5}));
}

std::string with_option(const TextKernel& k, const std::string& option) {
  std::string text = k.text();
  return option.empty() ? text : text.insert(text.find("  grid"), "  option " + option + "\n");
}

std::string asserting(const std::string& option, const TextKernel::Shape& shape) {
  TextKernel k("%x: ptr<i32> readonly, %out: ptr<i32>, %n: i32");
  k.grid = "3, 1, 1";
  const std::string x = k.op("load " + k.pointers("%x", shape) + ", " + k.mask(shape, {"", "%n"}));
  const std::string fine = k.op("cmp " + x + ", " + k.fill("5", "i32", shape) + " {pred = lt}");
  k.line("assert " + fine + " {message = \"x is small\"}");
  k.line("store " + k.pointers("%out", shape) + ", " + x);
  return with_option(k, option);
}

TEST(Assert, FailsWithMessageLineProgramAndFirstLane) {
  for (int at : {0, 3, 64, 70, 139}) {
    std::vector<int32_t> x(140, 1);
    x[static_cast<size_t>(at)] = 9;
    x[139] = 9;
    expect_same_failure(asserting("debug = true", {2, 70}),
                        {buffer(x), buffer(std::vector<int32_t>(140)), int_scalar(70)},
                        "x is small; false at lane " + std::to_string(at) + " (program 0, 0, 0)", FailureMatch::kWords);
  }
}

TEST(Assert, ScalarsNameTheirProgram) {
  expect_same_failure(R"(kernel k() {
  option debug = true
  grid [2, 3, 4]
  %x = program_id {axis = 0}
  %y = program_id {axis = 1}
  %z = program_id {axis = 2}
  %ten = constant {value = 10, type = i32}
  %zt = mul %z, %ten
  %zy = add %zt, %y
  %zyt = mul %zy, %ten
  %zyx = add %zyt, %x
  %one = constant {value = 121, type = i32}
  %m = cmp %zyx, %one {pred = ne}
  assert %m {message = "early"}
})",
                      {}, "(program 1, 2, 1)", FailureMatch::kWords);
}

TEST(Assert, LanesWithoutALoadCountToo) {
  // Beyond the mask x is 0, which is small; with the comparison turned round it is not.
  TextKernel k("%x: ptr<i32> readonly, %n: i32");
  const TextKernel::Shape shape = {70};
  const std::string x = k.op("load " + k.pointers("%x", shape) + ", " + k.mask(shape, {"%n"}));
  k.line("assert " + k.op("cmp " + x + ", " + k.fill("0", "i32", shape) + " {pred = ne}") + " {message = \"not 0\"}");
  expect_same_failure(with_option(k, "debug = true"), {buffer(std::vector<int32_t>(70, 1)), int_scalar(37)},
                      "false at lane 37", FailureMatch::kWords);
}

TEST(Assert, WithoutTheOptionItCostsNothing) {
  auto with = compile(parse_kernel(asserting("", {2, 70})), {}, {}, "", "llvm");
  std::string text = asserting("", {2, 70});
  text.erase(text.find("  assert"), text.find('\n', text.find("  assert")) - text.find("  assert") + 1);
  auto without = compile(parse_kernel(text), {}, {}, "", "llvm");
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_EQ(with->code, without->code);
  EXPECT_TRUE(with->metadata.checks.empty());
}

TEST(Assert, PassesWhereItHolds) {
  expect_same(asserting("debug = true", {2, 70}),
              {{buffer(std::vector<int32_t>(140, 1)), buffer(std::vector<int32_t>(140)), int_scalar(33)}, kExact});
}

TEST(Assert, OneOfManyThreadsReportsAFailureOfItsOwnProgram) {
  const std::string text = R"(kernel k() {
  option debug = true
  grid [5000, 1, 1]
  %x = program_id {axis = 0}
  %limit = constant {value = 4321, type = i32}
  %m = cmp %x, %limit {pred = ne}
  assert %m {message = "not that one"}
})";
  const dsl::Kernel kernel = parse_kernel(text);
  auto artifact = compile(kernel, {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<TestArgument> none;
  auto done = run_launched(kernel, *artifact, none, {.threads = 8});
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("(program 4321, 0, 0)"), std::string::npos) << done.error().message;
}

// Two authors' lines must not meet in a cache; everybody else's key is as it was.
TEST(RequestLines, AreHashedWhereALaunchNamesThem) {
  auto canonical = [](const std::string& text) {
    auto request = dsl::encode_request({parse_kernel(text), "cpu:x", {}, {}, "so"});
    EXPECT_TRUE(request.ok());
    return request->canonical;
  };
  auto moved = [](std::string text) { return text.insert(text.find("  grid"), "\n\n"); };
  for (const char* option : {"debug = true", "check_bounds = true"}) {
    EXPECT_NE(canonical(asserting(option, {4, 4})), canonical(moved(asserting(option, {4, 4})))) << option;
  }
  EXPECT_EQ(canonical(asserting("", {4, 4})), canonical(moved(asserting("", {4, 4}))));
  EXPECT_NE(canonical(many_values()), canonical(moved(many_values())));
}

TEST(RequestLines, AreThoseOfTheHashedPart) {
  auto request = dsl::encode_request({parse_kernel(asserting("debug = true", {4, 4})), "cpu:x", {}, {}, "asm"});
  ASSERT_TRUE(request.ok());
  for (const auto& debug : {request->debug, std::vector<std::byte>{}}) {
    auto back = dsl::decode_request(request->canonical, debug);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->emit, "asm");
    ASSERT_EQ(back->kernel.files, std::vector<std::string>{"test.kiln"});
    EXPECT_GT(back->kernel.body.ops.back().loc.line, 3u);
  }
}

}  // namespace
}  // namespace kiln::test
