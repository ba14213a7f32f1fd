// reshape, join, split, cat, slice, gather: every element type, ranks 0 to 5, masked sources, chains of views.
#include "differential.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

size_t count_of(const Shape& shape) {
  size_t out = 1;
  for (int64_t extent : shape) out *= static_cast<size_t>(extent);
  return out;
}

Trial with_arguments(std::vector<TestArgument> arguments) {
  Trial run;
  run.arguments = std::move(arguments);
  return run;
}

// Loads a tile of the source shape from %x (masked along the last axis by %n), applies the op, stores each result.
struct Move {
  Shape source;
  std::string op;  // over %v and %w, both of the source shape
  std::vector<Shape> results;
};

void check_move(const Move& move, ElementType type, int64_t bound, const std::vector<std::string>& targets = {""}) {
  const std::string name(dsl::info(type).name);
  std::string params = "%x: ptr<" + name + ">, %y: ptr<" + name + ">, %n: i32";
  for (size_t i = 0; i < move.results.size(); ++i) params += ", %o" + std::to_string(i) + ": ptr<" + name + ">";
  TextKernel kernel(params);
  std::vector<std::string> bounds(move.source.size());
  if (!bounds.empty()) bounds.back() = "%n";
  kernel.line("%v = load " + kernel.pointers("%x", move.source) + ", " + kernel.mask(move.source, bounds));
  kernel.line("%w = load " + kernel.pointers("%y", move.source));
  std::string names;
  for (size_t i = 0; i < move.results.size(); ++i) names += (i ? ", %r" : "%r") + std::to_string(i);
  kernel.line(names + " = " + move.op);
  Trial run;
  run.targets = targets;
  run.arguments = {random_buffer(type, count_of(move.source), 1), random_buffer(type, count_of(move.source), 2),
                   int_scalar(bound)};
  for (size_t i = 0; i < move.results.size(); ++i) {
    kernel.line("store " + kernel.pointers("%o" + std::to_string(i), move.results[i]) + ", %r" + std::to_string(i));
    run.arguments.push_back(random_buffer(type, count_of(move.results[i]), 3));
  }
  expect_same(kernel.text(), run);
}

std::string reshape_to(const Shape& shape) { return "reshape %v {shape = " + TextKernel::list(shape) + "}"; }

TEST(ShapeOpsOnCpu, Reshape) {
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{1}, {1, 1, 1}},         {{6}, {2, 3}},           {{2, 3}, {6}},      {{65, 2}, {2, 65}}, {{130}, {13, 10}},
      {{4, 33}, {2, 2, 3, 11}}, {{2, 3, 2, 5}, {5, 12}}, {{3, 1, 7}, {7, 3}}};
  for (const auto& [from, to] : cases) {
    check_move({from, reshape_to(to), {to}}, ElementType::kF32, 1000, all_targets());
    check_move({from, reshape_to(to), {to}}, ElementType::kI8, from.back() / 2);
  }
}

TEST(ShapeOpsOnCpu, Slice) {
  for (int64_t start : {0, 1, 5, 63}) {
    for (int64_t length : {1, 2, 64, 66}) {
      const std::string range =
          ", start = " + std::to_string(start) + ", end = " + std::to_string(start + length) + "}";
      check_move({{130}, "slice %v {axis = 0" + range, {{length}}}, ElementType::kF32, 120, all_targets());
      check_move({{3, 130}, "slice %v {axis = 1" + range, {{3, length}}}, ElementType::kF16, 130);
    }
  }
  check_move({{7, 2, 9}, "slice %v {axis = 0, start = 2, end = 6}", {{4, 2, 9}}}, ElementType::kI64, 5);
}

TEST(ShapeOpsOnCpu, SplitAndJoin) {
  for (const Shape& rest : {Shape{1}, Shape{33}, Shape{3, 65}, Shape{2, 2, 2, 9}}) {
    Shape whole = rest;
    whole.push_back(2);
    check_move({whole, "split %v", {rest, rest}}, ElementType::kF32, 2, all_targets());
    check_move({rest, "join %v, %w", {whole}}, ElementType::kBF16, 20, all_targets());
  }
}

TEST(ShapeOpsOnCpu, Cat) {
  for (int64_t n : {1, 2, 63, 64, 65}) {
    check_move({{n}, "cat %v, %w {axis = 0}", {{2 * n}}}, ElementType::kF32, n - 1, all_targets());
    check_move({{3, n}, "cat %v, %w {axis = 0}", {{6, n}}}, ElementType::kU8, n);
    check_move({{3, n}, "cat %v, %w {axis = 1}", {{3, 2 * n}}}, ElementType::kF64, n);
  }
}

// Unequal parts: a short one behind a long one and the other way round, several rows.
TEST(ShapeOpsOnCpu, CatOfUnequalParts) {
  for (const auto& [first, second] : {std::pair<int64_t, int64_t>{63, 65}, {65, 1}, {1, 64}, {127, 2}}) {
    const std::string cut = std::to_string(first);
    TextKernel kernel("%x: ptr<f32>, %o: ptr<f32>");
    const Shape whole = {3, first + second};
    kernel.line("%v = load " + kernel.pointers("%x", whole));
    kernel.line("%a = slice %v {axis = 1, start = 0, end = " + cut + "}");
    kernel.line("%b = slice %v {axis = 1, start = " + cut + ", end = " + std::to_string(first + second) + "}");
    kernel.line("%c = cat %b, %a {axis = 1}");
    kernel.line("store " + kernel.pointers("%o", whole) + ", %c");
    expect_same(kernel.text(), with_arguments({random_buffer(ElementType::kF32, count_of(whole), 1),
                                               random_buffer(ElementType::kF32, count_of(whole), 2)}));
  }
}

TEST(ShapeOpsOnCpu, EveryElementType) {
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    check_move({{5, 14}, reshape_to({10, 7}), {{10, 7}}}, type, 9);
    check_move({{5, 14}, "slice %v {axis = 1, start = 3, end = 12}", {{5, 9}}}, type, 9);
    check_move({{37}, "join %v, %w", {{37, 2}}}, type, 30);
    check_move({{37, 2}, "split %v", {{37}, {37}}}, type, 1);
    check_move({{4, 33}, "cat %v, %w {axis = 1}", {{4, 66}}}, type, 20);
  }
}

TEST(ShapeOpsOnCpu, Scalars) {
  TextKernel kernel("%x: ptr<f32>, %o: ptr<f32>");
  kernel.line("%s = load %x");
  kernel.line("%t = reshape %s {shape = [1, 1]}\n  %j = join %s, %s\n  %a, %b = split %j");
  kernel.line("%r = reshape %t {shape = []}\n  %u = add %a, %b\n  %v = add %u, %r\n  store %o, %v");
  expect_same(kernel.text(),
              with_arguments({random_buffer(ElementType::kF32, 1, 1), random_buffer(ElementType::kF32, 1, 2)}));
}

// What a view shows is not changed by what is computed from it later.
TEST(ShapeOpsOnCpu, ViewsAreNotUpdatedInPlace) {
  TextKernel kernel("%x: ptr<f32>, %o: ptr<f32>, %q: ptr<f32>, %n: i32");
  kernel.line("%v = load " + kernel.pointers("%x", {8, 64}));
  kernel.line("%h = slice %v {axis = 0, start = 0, end = 4}");
  kernel.line("%lo = constant {value = 0, type = i32}\n  %one = constant {value = 1, type = i32}");
  kernel.line(
      "%r = for %k = %lo to %n step %one carry (%acc = %h) : tile<[4, 64], f32> {\n"
      "    %twice = add %acc, %acc\n    yield %twice\n  }");
  kernel.line("store " + kernel.pointers("%o", {4, 64}) + ", %r");
  kernel.line("store " + kernel.pointers("%q", {8, 64}) + ", %v");
  expect_same(kernel.text(),
              with_arguments({random_buffer(ElementType::kF32, 512, 1, false), random_buffer(ElementType::kF32, 256, 2),
                              random_buffer(ElementType::kF32, 512, 3), int_scalar(3)}));
}

// index = (7·i + j) mod extent, along each axis, of every index type.
TEST(ShapeOpsOnCpu, Gather) {
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{10}, {33}},          {{100}, {7}}, {{5, 40}, {5, 9}}, {{5, 40}, {70, 40}}, {{3, 4, 5}, {3, 4, 70}},
      {{3, 4, 5}, {3, 9, 5}}};
  for (const auto& [source, result] : cases) {
    size_t axis = 0;
    while (source[axis] == result[axis]) ++axis;
    for (const char* index_type : {"i32", "u8", "i64"}) {
      TextKernel kernel("%x: ptr<f32>, %n: i32, %o: ptr<f32>");
      kernel.line("%v = load " + kernel.pointers("%x", source));
      const std::string seven = kernel.op("mul " + kernel.index(result) + ", " + kernel.fill("7", "i32", result));
      const std::string index =
          kernel.op("rem " + seven + ", " + kernel.fill(std::to_string(source[axis]), "i32", result));
      kernel.line("%i = cast " + index + " {to = " + std::string(index_type) + "}");
      kernel.line("%r = gather %v, %i {axis = " + std::to_string(axis) + "}");
      kernel.line("store " + kernel.pointers("%o", result) + ", %r");
      Trial run;
      run.arguments = {random_buffer(ElementType::kF32, count_of(source), 1), int_scalar(0),
                       random_buffer(ElementType::kF32, count_of(result), 2)};
      expect_same(kernel.text(), run);
    }
  }
}

}  // namespace
}  // namespace kiln::test
