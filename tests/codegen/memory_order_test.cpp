// Program order of memory: what a load gives does not depend on when its consumers run.
#include "differential.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

constexpr char kXY[] = "%x: ptr<f32>, %y: ptr<f32>, %n: i32";

void check(const TextKernel& kernel, std::vector<TestArgument> arguments, Match match = {0, 0, true}) {
  expect_same(kernel.text(), {std::move(arguments), match});
}
std::vector<TestArgument> xy(size_t count, int64_t n = 0) {
  return {random_buffer(ElementType::kF32, count, 1), random_buffer(ElementType::kF32, count, 2), int_scalar(n)};
}

TEST(HazardOnCpu, StoreBetweenLoadAndUse) {
  TextKernel k(kXY);
  const std::string p = k.pointers("%x", {100});
  const std::string v = k.op("load " + p);
  k.line("store " + p + ", " + k.fill("7", "f32", {100}));
  k.line("store " + k.pointers("%y", {100}) + ", " + v);
  check(k, xy(100));
}

TEST(HazardOnCpu, InPlace) {
  TextKernel k(kXY);
  const std::string p = k.pointers("%x", {100}), m = k.mask({100}, {"%n"});
  k.line("store " + p + ", " + k.op("neg " + k.op("load " + p + ", " + m)) + ", " + m);
  check(k, xy(100, 77));
}

TEST(HazardOnCpu, ShiftedInPlace) {
  for (int64_t from : {0, 1}) {
    TextKernel k(kXY);
    const std::string v = k.op("load " + k.pointers("%x", {200}, from));
    k.line("store " + k.pointers("%x", {200}, 1 - from) + ", " + v);
    check(k, xy(201));
  }
}

// Elements change places: in-place is not lane by lane.
TEST(HazardOnCpu, TransposedInPlace) {
  TextKernel k(kXY);
  const std::string p = k.pointers("%x", {40, 40});
  k.line("store " + p + ", " + k.op("permute " + k.op("load " + p) + " {order = [1, 0]}"));
  check(k, xy(1600));
}

// All lanes read one address before any writes it.
TEST(HazardOnCpu, OneAddressInPlace) {
  TextKernel k(kXY);
  const std::string p = k.splat("%x", {200});
  const std::string sum = k.op("add " + k.op("load " + p) + ", " + k.fill("1", "f32", {200}));
  k.line("store " + p + ", " + sum);
  check(k, {random_buffer(ElementType::kF32, 1, 1, false), random_buffer(ElementType::kF32, 1, 2), int_scalar(0)});
}

TEST(HazardOnCpu, LoadWithTwoSinksAndStoreBetween) {
  TextKernel k(kXY);
  const std::string p = k.pointers("%x", {100}), v = k.op("load " + p);
  const std::string top = k.op("reduce " + v + " {kind = max, axis = 0}");
  k.line("store " + p + ", " + k.splat(top, {100}));
  k.line("store " + k.pointers("%y", {100}) + ", " + v);
  check(k, xy(100));
}

TEST(HazardOnCpu, LoadsInLoopsThatStore) {
  TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %n: i32, %trips: i32");
  const Shape shape{70};
  const std::string p = k.pointers("%x", shape), q = k.pointers("%x", shape, 3), before = k.op("load " + p);
  k.line("%zero = constant {value = 0, type = i32}").line("%one = constant {value = 1, type = i32}");
  k.line("for %i = %zero to %trips step %one {");
  const std::string inside = k.op("load " + p);
  k.line("store " + q + ", " + k.op("sub " + inside + ", " + before));
  k.line("yield").line("}");
  k.line("store " + k.pointers("%y", shape) + ", " + before);
  for (int64_t trips : {0, 1, 3}) {
    auto arguments = xy(80);
    arguments.push_back(int_scalar(trips));
    check(k, arguments);
  }
}

TEST(HazardOnCpu, ScalarLoadsAndStores) {
  TextKernel k(kXY);
  k.line("%a = load %x").line("%two = constant {value = 2, type = f32}").line("%b = mul %a, %two");
  k.line("store %x, %b").line("%c = load %x").line("%limit = constant {value = 3, type = i32}");
  k.line("%m = cmp %n, %limit {pred = lt}").line("%far = addptr %x, %n").line("%d = load %far, %m, %a");
  k.line("store %far, %c, %m").line("store %y, %d");
  for (int64_t n : {1, 100}) check(k, xy(3, n));
}

TEST(HazardOnCpu, CarriedTiles) {
  // next of a and b: exchanged; each from the other; in place; and a dot that works in the place of the other.
  for (const char* yields : {"yield %b, %a", "yield %sum, %a", "yield %b, %sum", "yield %neg, %b", "yield %sum, %sum",
                             "yield %turned, %a"}) {
    TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %n: i32");
    const Shape shape{20, 20};
    k.line("%la = load " + k.pointers("%x", shape)).line("%lb = load " + k.pointers("%y", shape));
    k.line("%zero = constant {value = 0, type = i32}").line("%one = constant {value = 1, type = i32}");
    k.line("%ra, %rb = for %i = %zero to %n step %one carry (%a = %la, %b = %lb) {");
    k.line("%sum = add %a, %b").line("%neg = neg %a").line("%turned = permute %a {order = [1, 0]}");
    k.line(yields).line("}");
    k.line("store " + k.pointers("%x", shape) + ", %ra").line("store " + k.pointers("%y", shape) + ", %rb");
    for (int64_t n : {0, 1, 4}) check(k, xy(400, n));
  }
}

// The dot updates its accumulator in place: not where the place is somebody else's, or wanted again.
TEST(HazardOnCpu, DotAccumulators) {
  const Shape shape{12, 12};
  auto begin = [&](TextKernel& k) {
    k.line("%w = load " + k.pointers("%x", shape)).line("%q = load " + k.pointers("%y", shape));
    k.line("%v = cast %w {to = i8}").line("%f = cast %q {to = i8}");
    k.line("%zero = constant {value = 0, type = i32}").line("%one = constant {value = 1, type = i32}");
  };
  constexpr char kInts[] = "%x: ptr<i32>, %y: ptr<i32>, %n: i32";
  const std::vector<TestArgument> ints = {random_buffer(ElementType::kI32, 144, 1),
                                          random_buffer(ElementType::kI32, 144, 2), int_scalar(3)};
  {
    SCOPED_TRACE("the other carried value overwrites it");
    TextKernel k(kInts);
    begin(k);
    k.line("%ra, %rb = for %i = %zero to %n step %one carry (%a = %w, %b = %q) {");
    k.line("%d = dot %v, %f, %a").line("yield %b, %d").line("}");
    k.line("store " + k.pointers("%x", shape) + ", %ra").line("store " + k.pointers("%y", shape) + ", %rb");
    check(k, ints, kExact);
  }
  {
    SCOPED_TRACE("used again each iteration");
    TextKernel k(kInts);
    begin(k);
    k.line("%first = dot %v, %f, %w");
    k.line("for %i = %zero to %n step %one {");
    k.line("%d = dot %f, %v, %first").line("store " + k.pointers("%x", shape) + ", %d").line("yield").line("}");
    check(k, ints, kExact);
  }
  {
    SCOPED_TRACE("used twice");
    TextKernel k(kInts);
    begin(k);
    k.line("%first = dot %v, %f, %w").line("%second = dot %f, %v, %first").line("%both = sub %second, %first");
    k.line("store " + k.pointers("%x", shape) + ", %both");
    check(k, ints, kExact);
  }
  {
    SCOPED_TRACE("two dots in one loop");
    TextKernel k(kInts);
    begin(k);
    k.line("%ra, %rb = for %i = %zero to %n step %one carry (%a = %w, %b = %q) {");
    k.line("%d = dot %v, %f, %a").line("%e = dot %f, %v, %b").line("yield %d, %e").line("}");
    k.line("store " + k.pointers("%x", shape) + ", %ra").line("store " + k.pointers("%y", shape) + ", %rb");
    check(k, ints, kExact);
  }
}

// An expensive value kept by one nest and read by another that broadcasts it along the vectors.
TEST(HazardOnCpu, KeptValueAlongRows) {
  TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %z: ptr<f32>, %n: i32");
  const std::string m = k.mask({40}, {"%n"});
  const std::string e = k.op(
      "math " + k.op("load " + k.pointers("%x", {40}) + ", " + m + ", " + k.fill("9", "f32", {40})) + " {fn = sqrt}");
  k.line("store " + k.pointers("%y", {40}) + ", " + e + ", " + m);
  const std::string column = k.op("expand_dims " + e + " {axis = 1}");
  k.line("store " + k.pointers("%z", {40, 17}) + ", " + k.op("broadcast " + column + " {shape = [40, 17]}"));
  check(k, {random_buffer(ElementType::kF32, 40, 1), random_buffer(ElementType::kF32, 40, 2),
            random_buffer(ElementType::kF32, 680, 3), int_scalar(23)});
}

// Hoisted out of a loop that does not run.
TEST(HazardOnCpu, MaskedLoadOutsideTheLoop) {
  for (const Shape& shape : {Shape{1, 40}, Shape{6, 40}}) {
    TextKernel k("%x: ptr<f32>, %far: i64, %y: ptr<f32>, %n: i32");
    k.line("%place = addptr %x, %far");
    const std::string m = k.mask({1, 1}, {"%n", ""});
    const std::string v = k.op("load " + k.splat("%place", {1, 1}) + ", " + m);
    const std::string all = k.op("broadcast " + m + " {shape = " + TextKernel::list(shape) + "}");
    k.line("store " + k.pointers("%y", shape) + ", " +
           k.op("broadcast " + v + " {shape = " + TextKernel::list(shape) + "}") + ", " + all);
    for (int64_t n : {0, 1}) {
      check(k, {random_buffer(ElementType::kF32, 1, 1), int_scalar(n ? 0 : int64_t{1} << 40),
                random_buffer(ElementType::kF32, 240, 2), int_scalar(n)});
    }
  }
}

// A diamond of uses: walks over the kernel visit each value once.
TEST(HazardOnCpu, DeepDiamonds) {
  TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %n: i32");
  const std::string m0 = k.mask({100}, {"%n"}), i0 = k.index({100});
  std::string v = k.op("load " + k.pointers("%x", {100}) + ", " + m0), m = m0, i = i0;
  for (int step = 0; step < 60; ++step) {
    v = k.op((step % 2 ? "max " : "add ") + v + ", " + v);
    m = k.op("and " + m + ", " + m);
    i = k.op((step % 2 ? "sub " : "add ") + i + ", " + i);
  }
  const std::string top = k.op("reduce " + v + " {kind = max, axis = 0}");
  const std::string zero = k.op("cmp " + i + ", " + i0 + " {pred = lt}");
  k.line("store " + k.pointers("%y", {100}) + ", " + k.op("select " + zero + ", " + v + ", " + k.splat(top, {100})) +
         ", " + m);
  check(k, xy(100, 61));
}

}  // namespace
}  // namespace kiln::test
