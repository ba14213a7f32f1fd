// Small last axes: loads, stores, joins, splits, reductions and carried tiles whose last axis has one to eight
// elements.
#include "differential.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

size_t count_of(const Shape& shape) {
  size_t out = 1;
  for (int64_t extent : shape) out *= static_cast<size_t>(extent);
  return out;
}

constexpr char kXY[] = "%x: ptr<f32>, %y: ptr<f32>, %o: ptr<f32>, %n: i32, %m: i32";

void check(const TextKernel& kernel, size_t in, size_t out, int64_t n, int64_t m = 1000) {
  Trial run;
  run.arguments = {random_buffer(ElementType::kF32, in, 1), random_buffer(ElementType::kF32, in, 2),
                   random_buffer(ElementType::kF32, out, 3), int_scalar(n), int_scalar(m)};
  run.match = {1e-6, 1e-6, true};
  expect_same(kernel.text(), run);
}

// x·y + x, both arrays and the result masked along both axes.
TextKernel elementwise(const Shape& shape, const std::string& result) {
  TextKernel k(kXY);
  const std::string mask = k.mask(shape, {"%n", "%m"});
  const std::string other = k.fill("0.5", "f32", shape);
  const std::string x = k.op("load " + k.pointers("%x", shape) + ", " + mask + ", " + other);
  const std::string y = k.op("load " + k.pointers("%y", shape) + ", " + mask);
  const std::string z = k.op("add " + k.op("mul " + x + ", " + y) + ", " + x);
  k.line("store " + k.pointers(result, shape) + ", " + z + ", " + mask);
  return k;
}

TEST(NarrowAxesOnCpu, LoadsAndStores) {
  for (const int64_t rows : {3, 4, 70}) {
    for (int64_t last = 1; last <= 9; ++last) {
      const Shape shape = {rows, last};
      // Every other one in place.
      const TextKernel k = elementwise(shape, last % 2 == 0 ? "%o" : "%x");
      check(k, count_of(shape), count_of(shape), rows);
      check(k, count_of(shape), count_of(shape), rows - 1, last - 1);
    }
  }
}

// Several small last axes, and elements of every kind.
TEST(NarrowAxesOnCpu, OfSeveralAxesAndOtherTypes) {
  for (const Shape& shape : {Shape{5, 17, 2}, Shape{20, 2, 2}, Shape{37, 2, 3}, Shape{2, 33, 1, 4}, Shape{65, 2, 1}}) {
    TextKernel k(kXY);
    const std::string x = k.op("load " + k.pointers("%x", shape));
    k.line("store " + k.pointers("%o", shape) + ", " +
           k.op("mul " + x + ", " + k.op("load " + k.pointers("%y", shape))));
    check(k, count_of(shape), count_of(shape), 0);
  }
  for (const std::string type : {"i1", "i8", "u16", "bf16", "i64", "f64"}) {
    for (const int64_t last : {2, 3, 4, 6}) {
      const Shape shape = {41, last};
      TextKernel k("%x: ptr<" + type + ">, %o: ptr<" + type + ">, %n: i32");
      const std::string mask = k.mask(shape, {"%n", ""});
      const std::string x = k.op("load " + k.pointers("%x", shape) + ", " + mask);
      k.line("store " + k.pointers("%o", shape) + ", " + x + ", " + mask);
      const ElementType element = *dsl::parse_element_type(type);
      for (const int64_t n : {41, 20}) {
        Trial run;
        run.arguments = {random_buffer(element, count_of(shape), 1), random_buffer(element, count_of(shape), 2),
                         int_scalar(n)};
        expect_same(k.text(), run);
      }
    }
  }
}

// Rows that lie in another order than the tile's, and columns that do not lie side by side.
TEST(NarrowAxesOnCpu, OtherStrides) {
  for (const Shape& strides : {Shape{1, 40}, Shape{3, 1}, Shape{2, 90}, Shape{5, 2}}) {
    const Shape shape = {40, 2};
    TextKernel k(kXY);
    const std::string x = k.op("load " + k.pointers("%x", shape, 0, strides));
    k.line("store " + k.pointers("%o", shape, 0, strides) + ", " + k.op("neg " + x));
    check(k, 400, 400, 0);
  }
}

TextKernel complex_product(int64_t rows, const std::string& result) {
  const Shape shape = {rows, 2};
  TextKernel k(kXY);
  const std::string mask = k.mask(shape, {"%n", ""});
  const std::string x = k.op("load " + k.pointers("%x", shape) + ", " + mask);
  const std::string y = k.op("load " + k.pointers("%y", shape) + ", " + mask);
  k.line("%a, %b = split " + x).line("%c, %d = split " + y);
  const std::string re = k.op("sub " + k.op("mul %a, %c") + ", " + k.op("mul %b, %d"));
  const std::string im = k.op("add " + k.op("mul %a, %d") + ", " + k.op("mul %b, %c"));
  k.line("store " + k.pointers(result, shape) + ", " + k.op("join " + re + ", " + im) + ", " + mask);
  return k;
}

TEST(NarrowAxesOnCpu, SplitAndJoin) {
  for (const int64_t rows : {1, 7, 64, 130}) {
    for (const std::string result : {"%o", "%x"}) {
      const TextKernel k = complex_product(rows, result);
      for (const int64_t n : {rows, rows / 2, int64_t{0}})
        check(k, static_cast<size_t>(rows) * 2, static_cast<size_t>(rows) * 2, n);
    }
  }
}

// a0 b0 a1 b1 …, cut off at n elements, which need not be even.
TextKernel interleaved(int64_t pairs, const std::string& result) {
  const Shape half = {pairs}, whole = {2 * pairs};
  TextKernel k(kXY);
  const std::string x = k.op("load " + k.pointers("%x", half)), y = k.op("load " + k.pointers("%y", half));
  const std::string all =
      k.op("reshape " + k.op("join " + x + ", " + y) + " {shape = " + TextKernel::list(whole) + "}");
  const std::string scaled = k.op("mul " + all + ", " + k.fill("3.0", "f32", whole));
  k.line("store " + k.pointers(result, whole) + ", " + scaled + ", " + k.mask(whole, {"%n"}));
  return k;
}

TEST(NarrowAxesOnCpu, InterleavedStores) {
  for (const int64_t pairs : {1, 5, 16, 65}) {
    const TextKernel k = interleaved(pairs, "%o");
    for (const int64_t n : {2 * pairs, 2 * pairs - 1, pairs, int64_t{1}, int64_t{0}}) {
      check(k, static_cast<size_t>(pairs), static_cast<size_t>(pairs) * 2, n);
    }
  }
}

// A reshape of what is loaded takes no memory, and reads what was there before a store.
struct Narrow {
  std::string text;
  int64_t scratch_bytes = 0;
};
Narrow narrow_of(const dsl::Kernel& kernel) {
  auto artifact = compile(kernel, {}, {}, "cpu:x86-64-v3", "llvm");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return {};
  return {{reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()},
          artifact->metadata.scratch_bytes.value_or(0)};
}

// Pairs of halves of bytes, of a row that a product finds.
Result<dsl::Kernel> unpacked() {
  using namespace dsl::lang;
  return kernel("unpacked", {"x", "y", "cols", "B=256"},
                [](Ptr<const u8> x, Ptr<f32> y, i32 cols, Const B) {
                  const Value row = program_id(0);
                  for (Value at : range(0, cols / 2, B)) {
                    const Value pairs = tile(x + row * (cols / 2), {cols / 2}).load({at}, {B});
                    tile(y + row * cols, {cols}).store({at * 2}, cast(interleave(pairs & 15, pairs >> 4), f32_t));
                  }
                })
      .ir();
}

TEST(NarrowAxesOnCpu, SplitJoinAndInterleaveAreInRegisters) {
  const auto rows = unpacked();
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  for (const dsl::Kernel& kernel :
       {parse_kernel(complex_product(128, "%o").text()), parse_kernel(interleaved(128, "%o").text()), *rows}) {
    const auto [text, scratch_bytes] = narrow_of(kernel);
    EXPECT_EQ(scratch_bytes, 0) << kernel.name;
    EXPECT_NE(text.find("shufflevector"), std::string::npos) << kernel.name;
    for (const char* slow : {"masked.gather", "masked.scatter"}) {
      EXPECT_EQ(text.find(slow), std::string::npos) << kernel.name << ": " << slow << "\n" << text;
    }
  }
}

TEST(NarrowAxesOnCpu, ReshapedLoads) {
  for (const int64_t pairs : {3, 16, 70}) {
    const Shape whole = {2 * pairs}, rows = {pairs, 2}, half = {pairs};
    TextKernel k(kXY);
    const std::string x = k.op("load " + k.pointers("%x", whole) + ", " + k.mask(whole, {"%n"}));
    k.line("store " + k.pointers("%x", whole) + ", " + k.fill("7.0", "f32", whole));
    k.line("%a, %b = split " + k.op("reshape " + x + " {shape = " + TextKernel::list(rows) + "}"));
    k.line("store " + k.pointers("%o", half) + ", " + k.op("sub %a, %b"));
    for (const int64_t n : {2 * pairs, 2 * pairs - 3})
      check(k, static_cast<size_t>(pairs) * 2, static_cast<size_t>(pairs), n);
  }
}

TEST(NarrowAxesOnCpu, Reductions) {
  for (const std::string kind : {"sum", "max", "argmin"}) {
    for (int64_t last = 1; last <= 8; ++last) {
      const Shape shape = {37, last};
      TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %o: ptr<" + std::string(kind == "argmin" ? "i32" : "f32") +
                   ">, %n: i32, %m: i32");
      const std::string x = k.op("load " + k.pointers("%x", shape) + ", " + k.mask(shape, {"%n", "%m"}));
      k.line("store " + k.pointers("%o", {37}) + ", " + k.op("reduce " + x + " {kind = " + kind + ", axis = 1}"));
      for (const int64_t n : {37, 20}) {
        Trial run;
        run.arguments = {random_buffer(ElementType::kF32, count_of(shape), 1, false),
                         random_buffer(ElementType::kF32, count_of(shape), 2, false),
                         random_buffer(kind == "argmin" ? ElementType::kI32 : ElementType::kF32, 37, 3), int_scalar(n),
                         int_scalar(last)};
        run.match = {1e-6, 1e-6, true};
        expect_same(k.text(), run);
      }
    }
  }
}

// Expensive values of small rows that two stores want, and joins of joins.
TEST(NarrowAxesOnCpu, SharedAndNested) {
  for (const int64_t rows : {4, 19, 64}) {
    const Shape half = {rows}, twice = {rows, 2, 2}, flat = {4 * rows};
    TextKernel k(kXY);
    const std::string x = k.op("load " + k.pointers("%x", half)), y = k.op("load " + k.pointers("%y", half));
    const std::string first = k.op("join " + x + ", " + y), second = k.op("join " + y + ", " + k.op("neg " + x));
    const std::string all = k.op("math " + k.op("join " + first + ", " + second) + " {fn = tanh}");
    k.line("store " + k.pointers("%o", twice) + ", " + all);
    const std::string row = k.op("reshape " + all + " {shape = " + TextKernel::list(flat) + "}");
    k.line("store " + k.pointers("%x", flat) + ", " + row);
    check(k, static_cast<size_t>(rows) * 4, static_cast<size_t>(rows) * 4, 0);
  }
}

// The carried tiles of a loop, element by element, or from each other.
TextKernel loop_of_three(const Shape& shape, bool turned) {
  TextKernel k(kXY);
  const std::string x = k.op("load " + k.pointers("%x", shape)), y = k.op("load " + k.pointers("%y", shape));
  const std::string zero = k.constant("0", "i32"), one = k.constant("1", "i32");
  const std::string none = k.fill("0.0", "f32", shape);
  const std::string tile = "tile<" + TextKernel::list(shape) + ", f32>";
  k.line("%u, %v, %w = for %i = " + zero + " to %n step " + one + " carry (%p = " + x + ", %q = " + y +
         ", %r = " + none + ") : " + tile + ", " + tile + ", " + tile + " {");
  const std::string shared = k.op("mul " + x + ", " + k.op("add %p, %q"));
  const std::string next = k.op("add %r, " + shared), other = k.op("sub %q, " + shared);
  const std::string third = turned ? k.op("permute %p {order = [1, 0]}") : k.op("mul %p, " + y);
  k.line("yield " + (turned ? third + ", " + next + ", " + other : third + ", " + other + ", " + next));
  k.line("}");
  const std::string sum = k.op("add %u, " + k.op("add %v, %w"));
  k.line("store " + k.pointers("%o", shape) + ", " + sum);
  return k;
}

TEST(CarriedTogetherOnCpu, ElementByElementAndTurned) {
  for (const bool turned : {false, true}) {
    for (const Shape& shape : {Shape{9, 9}, Shape{3, 3}, Shape{17, 17}}) {
      for (const int64_t n : {0, 1, 3}) check(loop_of_three(shape, turned), count_of(shape), count_of(shape), n);
    }
  }
  for (const Shape& shape : {Shape{40, 2}, Shape{70}, Shape{9, 3}}) {
    for (const int64_t n : {0, 1, 3}) check(loop_of_three(shape, false), count_of(shape), count_of(shape), n);
  }
}

// One row of a carried tile a turn, by its index, which may lie outside; the others stay what they are.
TEST(CarriedTogetherOnCpu, RowByRow) {
  for (const Shape& shape : {Shape{5, 33}, Shape{16, 16}, Shape{3, 2}, Shape{4, 7, 9}}) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      TextKernel k(kXY);
      const std::string zero = k.constant("0", "i32"), one = k.constant("1", "i32");
      const std::string x = k.op("load " + k.pointers("%x", shape)), none = k.fill("2.0", "f32", shape);
      const std::string tile = "tile<" + TextKernel::list(shape) + ", f32>", along = k.along(shape, axis);
      k.line("%r = for %i = " + zero + " to %n step " + one + " carry (%t = " + none + ") : " + tile + " {");
      const std::string at = k.op("mul %i, %m");
      const std::string here = k.op("cmp " + along + ", " + k.splat(at, shape) + " {pred = eq}");
      const std::string next = k.op("add " + x + ", " + k.op("mul %t, " + x));
      k.line("yield " + k.op("select " + here + ", " + next + ", %t")).line("}");
      k.line("store " + k.pointers("%o", shape) + ", %r");
      for (const int64_t n : {0, 1, 4}) {
        for (const int64_t m : {1, 2, -1}) check(k, count_of(shape), count_of(shape), n, m);
      }
    }
  }
}

}  // namespace
}  // namespace kiln::test
