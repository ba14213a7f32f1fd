// What the interpreter reports of misuse beyond bounds: false assumptions, races between programs, overlapping
// parameters.
#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;

Result<void> run(const std::string& text, std::vector<Argument> arguments, uint32_t programs,
                 const InterpretOptions& options = {}) {
  return interpret(instantiated(text), arguments, {programs, 1, 1}, options);
}
std::string message(const Result<void>& done) { return done ? "" : done.error().message; }

std::string assumed(const std::string& attrs, const std::vector<int64_t>& x) {
  const std::string tile = "tile<[" + std::to_string(x.size()) + "], i32>";
  return run_text("assume %x0 {" + attrs + "}\n%z = neg %x0 : " + tile, {ints(E::kI32, x)}, E::kI32, x.size()).error;
}

TEST(InterpreterAssume, FalseOnesNameLineProgramAndLane) {
  EXPECT_EQ(assumed("multiple_of = 4", {0, -4, 8}), "");
  EXPECT_EQ(assumed("multiple_of = 4", {0, 6, 8}),
            "k.kiln:6:1: error: assume: is false of lane 1: 6 is no multiple of 4 (program 0, 0, 0)");
  EXPECT_EQ(assumed("low = 0, high = 9", {0, 9}), "");
  EXPECT_NE(assumed("low = 0, high = 9", {0, 10}).find("10 is outside 0…9"), std::string::npos);
  // The ends of i64 are no bound: a fact about a u64 above them holds.
  EXPECT_EQ(run_text("assume %x0 {multiple_of = 16}\n%z = add %x0, %x0 : tile<[1], u64>", {ints(E::kU64, {INT64_MIN})},
                     E::kU64, 1)
                .error,
            "");
  EXPECT_EQ(assumed("contiguous = 2", {4, 5, 0, 1, 7}), "");
  EXPECT_NE(assumed("contiguous = 2", {4, 5, 0, 2}).find("lane 3: 2 does not follow 0"), std::string::npos);
  EXPECT_EQ(assumed("contiguous = 2, multiple_of = 4", {4, 5, 8, 9}), "");
}

// A buffer of unknown size: its start is checked, its end is not, and what it shares with others is not known.
TEST(InterpreterMisuse, UnknownExtentsAreNotChecked) {
  float x[8] = {1, 2, 3, 4};
  const char* text =
      "kernel t(%x: ptr<f32>, %y: ptr<f32>, %n: i32) {\n%p = program_id {axis = 0}\n%a = addptr %x, %p\n"
      "%v = load %a\n%o = add %p, %n\n%b = addptr %y, %o\nstore %b, %v\n}";
  EXPECT_EQ(message(run(text, {{x, kUnknownExtent, 0}, {x, kUnknownExtent, 0}, {nullptr, 0, 4}}, 4)), "");
  EXPECT_EQ(x[7], 4);
  EXPECT_NE(message(run(text, {{x, kUnknownExtent, 0}, {x, kUnknownExtent, 0}, {nullptr, 0, 0xfffffff8}}, 4))
                .find("index -8 is outside `y`"),
            std::string::npos);
}

// Equal bits are no race, but what a program then writes over them is.
TEST(InterpreterMisuse, AnEqualWriteDoesNotHideTheFirst) {
  int32_t y[1] = {0};
  const char* text =
      "kernel t(%y: ptr<i32>) {\n%p = program_id {axis = 0}\n%five = constant {value = 5, type = i32}\n"
      "store %y, %five\n%two = constant {value = 2, type = i32}\n%d = mul %p, %two\n%s = add %five, %d\n"
      "store %y, %s\n}";
  EXPECT_NE(message(run(text, {{y, 1, 0}}, 2))
                .find("k.kiln:8:1: error: store: index 0 of `y` is written here and by "
                      "program 0, 0, 0: a race"),
            std::string::npos)
      << message(run(text, {{y, 1, 0}}, 2));
}

// An index that wrapped is one behind sums, scans, choices and orders of it too.
TEST(InterpreterMisuse, AWrappedIndexIsKnownThroughReductions) {
  int32_t y[8] = {};
  auto stored = [&](const std::string& index) {
    const std::string text = "kernel t(%y: ptr<i32>, %n: i32) {\n%t = splat %n {shape = [4]}\n" + index +
                             "\n%q = addptr %y, %i\nstore %q, %n\n}";
    return message(run(text, {{y, 8, 0}, {nullptr, 0, 0x40000000}}, 1));
  };
  const std::string wrapped = "the index into `y` wrapped around its integer type; it came out as 0";
  for (const char* index :
       {"%i = reduce %t {kind = sum, axis = 0}", "%i = reduce %t {kind = prod, axis = 0}",
        "%i = reduce %t {kind = custom, axis = 0} (%l, %r) { %s = add %l, %r yield %s }",
        "%w = add %t, %t %v = add %w, %w %i = reduce %v {kind = max, axis = 0}",
        "%c = scan %t {kind = sum, axis = 0} %s = slice %c {axis = 0, start = 3, end = 4} "
        "%i = reduce %s {kind = min, axis = 0}",
        "%c = scan %t {kind = custom, axis = 0} (%l, %r) { %a = add %l, %r yield %a } "
        "%s = slice %c {axis = 0, start = 3, end = 4} %i = reduce %s {kind = min, axis = 0}",
        "%w = add %t, %t %v = add %w, %w %k, %at = topk %v {k = 1, axis = 0} %i = reduce %k {kind = max, axis = 0}",
        "%w = add %t, %t %v = add %w, %w %k = sort %v {axis = 0} %i = reduce %k {kind = max, axis = 0}"}) {
    EXPECT_NE(stored(index).find(wrapped), std::string::npos) << index << "\n" << stored(index);
  }
  // A sum that fits has not wrapped, whatever its terms do on the way; bits begin a new value.
  EXPECT_EQ(stored("%m = neg %n %u = splat %m {shape = [4]} %c = cat %t, %u {axis = 0} "
                   "%i = reduce %c {kind = sum, axis = 0}"),
            "");
  EXPECT_EQ(stored("%i = reduce %t {kind = xor, axis = 0}"), "");
}

TEST(InterpreterAssume, OfAPointerSpeaksOfItsAddressInBytes) {
  alignas(16) float x[5] = {};
  const char* text = "kernel t(%x: ptr<f32>) {\nassume %x {multiple_of = 16}\n}";
  EXPECT_EQ(message(run(text, {{x, 4, 0}}, 1)), "");
  EXPECT_NE(message(run(text, {{x + 1, 4, 0}}, 1)).find("assume: is false of lane 0: the address"), std::string::npos);
  InterpretOptions unchecked;
  unchecked.check_assumptions = false;
  EXPECT_EQ(message(run(text, {{x + 1, 4, 0}}, 1, unchecked)), "");
}

constexpr const char* kSameElement = R"(kernel t(%y: ptr<i32>, %v: i32) {
  %pid = program_id {axis = 0} : i32
  %s = mul %pid, %v : i32
  store %y, %s
})";

TEST(InterpreterRace, TwoProgramsThatWriteDifferentBits) {
  int32_t y = 0;
  EXPECT_EQ(
      message(run(kSameElement, {{&y, 1, 0}, {nullptr, 0, 1}}, 2)),
      "k.kiln:4:3: error: store: index 0 of `y` is written here and by program 0, 0, 0: a race, for programs run in "
      "any order (program 1, 0, 0)");
  EXPECT_EQ(message(run(kSameElement, {{&y, 1, 0}, {nullptr, 0, 0}}, 2)), "");  // equal bits
  InterpretOptions unchecked;
  unchecked.check_races = false;
  EXPECT_EQ(message(run(kSameElement, {{&y, 1, 0}, {nullptr, 0, 1}}, 2, unchecked)), "");
}

// y[pid + a] = y[pid + b] + 1
constexpr const char* kShift = R"(kernel t(%y: ptr<i32>, %a: i32, %b: i32) {
  %pid = program_id {axis = 0} : i32
  %to = add %pid, %a : i32
  %from = add %pid, %b : i32
  %p = addptr %y, %from : ptr<i32>
  %q = addptr %y, %to : ptr<i32>
  %x = load %p : i32
  %one = constant {value = 1, type = i32} : i32
  %z = add %x, %one : i32
  store %q, %z
})";

TEST(InterpreterRace, ReadingWhatAnotherProgramWritesInEitherOrder) {
  std::vector<int32_t> y(4);
  auto shift = [&](uint64_t a, uint64_t b) {
    y.assign(4, 0);
    return message(run(kShift, {{y.data(), 4, 0}, {nullptr, 0, a}, {nullptr, 0, b}}, 3));
  };
  EXPECT_EQ(shift(0, 0), "");
  EXPECT_NE(shift(1, 0).find("load: index 1 of `y` is read here and written by program 0, 0, 0: a race"),
            std::string::npos)
      << shift(1, 0);
  EXPECT_NE(shift(0, 1).find("store: index 1 of `y` is written here and read by another program, 0, 0, 0"),
            std::string::npos)
      << shift(0, 1);
}

TEST(InterpreterRace, AtomicsAreNoneAndOrderWhatComesAfter) {
  // The last program to arrive reads what all have stored: the counter orders it behind them.
  constexpr const char* kLast = R"(kernel t(%y: ptr<i32>, %count: ptr<i32>, %out: ptr<i32>, %last: i32) {
  %pid = program_id {axis = 0} : i32
  %q = addptr %y, %pid : ptr<i32>
  store %q, %pid
  %one = constant {value = 1, type = i32} : i32
  %seen = atomic_rmw %count, %one {kind = add, order = ORDER} : i32
  %is = cmp %seen, %last {pred = eq} : i1
  %x = load %y, %is : i32
  store %out, %x, %is
})";
  for (const char* order : {"acq_rel", "relaxed"}) {
    std::string text = kLast;
    text.replace(text.find("ORDER"), 5, order);
    std::vector<int32_t> y(3), count(1), out(1);
    const std::string problem =
        message(run(text, {{y.data(), 3, 0}, {count.data(), 1, 0}, {out.data(), 1, 0}, {nullptr, 0, 2}}, 3));
    EXPECT_EQ(problem.empty(), std::string(order) == "acq_rel") << problem;
    EXPECT_EQ(count[0], 3);
  }
}

// out[i] = in[n - 1 - i] or in[i], all lanes of one program.
std::string flip(bool reversed, const std::string& alias) {
  return "kernel t(%in: ptr<i32> readonly, %out: ptr<i32>" + alias + R"() {
  %r = arange {start = 0, end = 4} : tile<[4], i32>
  %three = constant {value = 3, type = i32} : i32
  %threes = splat %three {shape = [4]} : tile<[4], i32>
  %b = sub %threes, %r : tile<[4], i32>
  %is = splat %in {shape = [4]} : tile<[4], ptr<i32>>
  %os = splat %out {shape = [4]} : tile<[4], ptr<i32>>
  %ip = addptr %is, )" +
         (reversed ? "%b" : "%r") + R"( : tile<[4], ptr<i32>>
  %op = addptr %os, %r : tile<[4], ptr<i32>>
  %x = load %ip : tile<[4], i32>
  store %op, %x
})";
}

TEST(InterpreterAliasing, InPlaceIsFineLaneByLaneOnly) {
  std::vector<int32_t> x = {1, 2, 3, 4};
  const std::vector<Argument> arguments = {{x.data(), 4, 0}, {x.data(), 4, 0}};
  EXPECT_EQ(message(run(flip(false, ""), arguments, 1)), "");
  EXPECT_EQ(
      message(run(flip(true, ""), arguments, 1)),
      "k.kiln:11:3: error: store: index 0 of `out`, lane 0, shares memory with `in`, touched by lane 3 of program 0, "
      "0, 0: neither parameter is may_alias (program 0, 0, 0)");
  EXPECT_EQ(message(run(flip(true, " may_alias"), arguments, 1)), "");
  EXPECT_EQ(x, (std::vector<int32_t>{4, 3, 2, 1}));
  InterpretOptions unchecked;
  unchecked.check_aliasing = false;
  EXPECT_EQ(message(run(flip(true, ""), arguments, 1, unchecked)), "");
  std::vector<int32_t> apart(8);
  EXPECT_EQ(message(run(flip(true, ""), {{apart.data(), 4, 0}, {apart.data() + 4, 4, 0}}, 1)), "");
}

}  // namespace
}  // namespace kiln::dsl::testing
