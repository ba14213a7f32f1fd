// Loops over tiles and the walks that compute them: sums that stay in registers, new tiles that a reduction puts in
// place on its way, sources of reshapes that one walk makes.
#include "differential.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

constexpr char kXY[] = "%x: ptr<f32>, %y: ptr<f32>, %o: ptr<f32>, %n: i32, %m: i32";

size_t count_of(const Shape& shape) {
  size_t out = 1;
  for (int64_t extent : shape) out *= static_cast<size_t>(extent);
  return out;
}

std::string code_of(const TextKernel& kernel, const std::string& form = "llvm") {
  auto artifact = compile(parse_kernel(kernel.text()), {}, {}, "cpu:x86-64-v3", form);
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return "";
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

size_t times(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

void check(const TextKernel& kernel, const Shape& shape, int64_t n, int64_t m = 1000) {
  Trial run;
  const size_t count = count_of(shape) + 64;
  run.arguments = {random_buffer(ElementType::kF32, count, 1, false), random_buffer(ElementType::kF32, count, 2, false),
                   random_buffer(ElementType::kF32, count, 3, false), int_scalar(n), int_scalar(m)};
  run.match = {1e-4, 1e-4, true};
  expect_same(kernel.text(), run);
}

void loop(TextKernel& k, const std::string& results, const std::string& carried, const std::string& types) {
  k.line("%zero = constant {value = 0, type = i32}\n  %one = constant {value = 1, type = i32}");
  k.line(results + " = for %i = %zero to %n step %one carry (" + carried + ") : " + types + " {");
}

std::string tile_of(const Shape& shape) { return "tile<" + TextKernel::list(shape) + ", f32>"; }

// What each of n numbers of y adds to the elements of x, twice over.
TextKernel sums(const Shape& shape, const std::string& first, const std::string& second) {
  TextKernel k(kXY);
  const std::string mask = k.mask(shape, std::vector<std::string>(shape.size(), "%m"));
  const std::string x = k.op("load " + k.pointers("%x", shape) + ", " + mask), none = k.fill("0.5", "f32", shape);
  k.line("%x1 = add " + x + ", " + x);
  loop(k, "%u, %v", "%s = " + none + ", %t = " + x, tile_of(shape) + ", " + tile_of(shape));
  k.line("%p = addptr %y, %i\n  %a = load %p\n  %b = cast %i {to = f32}");
  k.line("%a1 = splat %a {shape = " + TextKernel::list(shape) + "}");
  k.line("%b1 = splat %b {shape = " + TextKernel::list(shape) + "}");
  k.line("%d = sub %a1, %x1\n  %e = mul %d, %b1");
  k.line("%more = " + first).line("%other = " + second).line("yield %more, %other\n  }");
  k.line("%w = sub %u, %v");
  k.line("store " + k.pointers("%o", shape) + ", %w, " + mask);
  return k;
}

// Whether the kernel's loop is entered from a chunk of a walk.
bool loops_in_walk(const std::string& text) {
  const size_t loop = text.find("\nfor:");
  return text.substr(loop, text.find('\n', loop + 1) - loop).find("%vector") != std::string::npos;
}

TEST(LoopsOfSumsOnCpu, RunInTheWalk) {
  const std::string text = code_of(sums({256}, "add %s, %e", "max %t, %d"));
  EXPECT_TRUE(loops_in_walk(text)) << text;
  // A term of another sum, and a long chain from one sum to the next.
  for (const char* second : {"mul %s, %t", "math %t {fn = exp}"}) {
    const std::string other = code_of(sums({256}, "add %s, %e", second));
    EXPECT_FALSE(loops_in_walk(other)) << other;
  }
}

TEST(LoopsOfSumsOnCpu, OfAnyExtentsAndIterations) {
  for (const Shape& shape : {Shape{1}, Shape{7}, Shape{100}, Shape{5, 33}, Shape{9, 2}, Shape{2, 3, 65}}) {
    for (const char* second : {"sub %d, %t", "fma %d, %d, %t", "mul %s, %t"}) {
      const TextKernel k = sums(shape, "add %s, %e", second);
      for (const int64_t n : {0, 1, 5}) {
        check(k, shape, n);
        check(k, shape, n, shape.back() / 2);
      }
    }
  }
}

// h = h·a + b; its sums along an axis go to o. `also`: a second tile, and what is stored of it.
TextKernel recurrence(const Shape& shape, size_t axis, const std::string& also, const std::string& terms = "%h1") {
  TextKernel k(kXY);
  Shape row = shape;
  row.erase(row.begin() + static_cast<std::ptrdiff_t>(axis));
  const std::string mask = k.mask(shape, std::vector<std::string>(shape.size(), "%m"));
  const std::string a = k.op("load " + k.pointers("%x", shape) + ", " + mask);
  const std::string b = k.op("load " + k.pointers("%y", shape) + ", " + mask);
  loop(k, "%u, %v", "%h = " + k.fill("1.0", "f32", shape) + ", %g = " + b, tile_of(shape) + ", " + tile_of(shape));
  k.line("%h0 = mul %h, " + a).line("%h1 = add %h0, " + b);
  k.line("%c = mul " + terms + ", " + b);
  k.line("%r = reduce %c {kind = sum, axis = " + std::to_string(axis) + "}");
  if (row.empty()) {
    k.line("store %o, %r");
  } else {
    k.line("store " + k.pointers("%o", row) + ", %r");
  }
  k.line("%g1 = " + also).line("yield %h1, %g1\n  }");
  k.line("%w = add %u, %v").line("store " + k.pointers("%x", shape) + ", %w");
  return k;
}

TEST(EarlyTilesOnCpu, AreStoredByTheWalkThatReadsThem) {
  // For the sum, within the masks' bounds and outside; the tile itself is not computed again.
  const std::string text = code_of(recurrence({64, 16}, 1, "add %g, %g"));
  EXPECT_EQ(times(text, "call <16 x float> @llvm.fma"), 2u) << text;
}

TEST(EarlyTilesOnCpu, AreThoseOfAnyAxisAndOthersOld) {
  for (const Shape& shape : {Shape{40}, Shape{17, 16}, Shape{70, 3}, Shape{4, 5, 9}}) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      // Nobody wants the old tile behind the sum; another tile does; the sum does.
      const std::vector<std::pair<const char*, const char*>> forms = {{"add %g, %h1", "%h1"},
                                                                      {"add %g, %h", "%h1"},
                                                                      {"mul %h0, %g", "%h1"},
                                                                      {"add %g, %g", "%h"},
                                                                      {"sub %h1, %g", "%h0"}};
      for (const auto& [also, terms] : sampled(forms, 2)) {
        const TextKernel k = recurrence(shape, axis, also, terms);
        for (const int64_t n : {0, 3}) check(k, shape, n);
        check(k, shape, 2, shape.back() / 2);
      }
    }
  }
}

// A factor a row, masked: where its mask is off it is read from a zero, not chosen.
TEST(MaskedLoadsOnCpu, OfOneElementReadAZero) {
  for (const char* other : {"0.0", "2.0"}) {
    const Shape shape = {9, 64};
    TextKernel k(kXY);
    const std::string mask = k.mask({9}, {"%n"});
    const std::string factor = k.op("load " + k.pointers("%y", {9}) + ", " + mask + ", " + k.fill(other, "f32", {9}));
    const std::string wide = k.op("broadcast " + k.op("expand_dims " + factor + " {axis = 1}") +
                                  " {shape = " + TextKernel::list(shape) + "}");
    const std::string product = k.op("mul " + wide + ", " + k.op("load " + k.pointers("%x", shape)));
    k.line("store " + k.pointers("%o", {64}) + ", " + k.op("reduce " + product + " {kind = sum, axis = 0}"));
    for (const int64_t n : {0, 4, 9}) check(k, shape, n);
    const std::string text = code_of(k);
    EXPECT_EQ(text.find("@kiln.zeros") != std::string::npos, other[0] == '0') << text;
  }
}

// Both parts of numbers that lie side by side, halves apart.
TextKernel halves(int64_t pairs, bool second_waits) {
  const Shape shape = {pairs, 2}, turned = {2, pairs / 2};
  TextKernel k(kXY);
  k.line("%a, %b = split " + k.op("load " + k.pointers("%x", shape)));
  const std::string form = " {shape = " + TextKernel::list(turned) + "}";
  const std::string sum = k.op("add %a, %b"), difference = k.op("sub %a, %b");
  const std::string first = k.op("reshape " + sum + form);
  std::string other = difference;
  if (second_waits) {
    const std::string rows = k.op("reduce " + first + " {kind = sum, axis = 1}");
    const std::string all = k.op("reduce " + rows + " {kind = sum, axis = 0}");
    other = k.op("mul " + difference + ", " + k.splat(all, {pairs}));
  }
  const std::string second = k.op("reshape " + other + form);
  const std::string ends = k.op("permute " + k.op("mul " + first + ", " + second) + " {order = [1, 0]}");
  k.line("store " + k.pointers("%o", {pairs / 2, 2}) + ", " + ends);
  return k;
}

TEST(ReshapesOnCpu, OfTheSamePointsShareAWalk) {
  for (const bool second_waits : {false, true}) {
    for (const int64_t pairs : {2, 34, 256}) check(halves(pairs, second_waits), {pairs, 2}, 0);
  }
  const std::string text = code_of(halves(256, false));
  EXPECT_EQ(times(text, "\nvector") - times(text, "\nvector.end"), 2u) << text;
}

// A product of complex numbers; `weighted`: times a number of y each.
TextKernel product(bool weighted) {
  const Shape shape = {64, 2};
  TextKernel k(kXY);
  k.line("%a, %b = split " + k.op("load " + k.pointers("%x", shape)));
  const std::string square = k.op("mul %a, %a"), other = k.op("mul %b, %b"), twice = k.op("mul %a, %b");
  std::string re = k.op("sub " + square + ", " + other);
  if (weighted) re = k.op("mul " + re + ", " + k.op("load " + k.pointers("%y", {64})));
  k.line("store " + k.pointers("%o", shape) + ", " + k.op("join " + re + ", " + twice));
  return k;
}

TEST(PairsOnCpu, StayInHalvesOfRegisters) {
  for (const bool weighted : {false, true}) {
    const std::string text = code_of(product(weighted), "asm");
    EXPECT_EQ(text.find("vperm") != std::string::npos, weighted) << text;
    check(product(weighted), {64, 2}, 0);
  }
}

}  // namespace
}  // namespace kiln::test
