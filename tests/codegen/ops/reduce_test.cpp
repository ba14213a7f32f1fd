// reduce: every kind on every element type, along every axis, and regions.
#include "algebra_case.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

std::vector<std::string> chosen_kinds(ElementType type) {
  if (type == ElementType::kI1) return {};
  return {"min", "max", "argmin", "argmax"};
}

std::vector<std::string> int_kinds(ElementType type) {
  if (dsl::is_float(type)) return {};
  if (type == ElementType::kI1) return {"and", "or", "xor"};
  return {"sum", "prod", "and", "or", "xor"};
}

// What another order of accumulation may change: the last bit of a small float, a few of the sum of the magnitudes.
Match sum_match(ElementType type, int64_t count) {
  const auto n = static_cast<double>(count);
  switch (type) {
    case ElementType::kF64:
      return {1e-13, 1e-15 * n, true};
    case ElementType::kF32:
      return {1.3e-6, 2e-7 * n, true};
    case ElementType::kF16:
      return {1.0 / 1024, 2e-7 * n, true};
    case ElementType::kBF16:
      return {1.0 / 128, 2e-7 * n, true};
    case ElementType::kF8E4M3:
      return {1.0 / 8, 2e-3, true};
    default:
      return {1.0 / 4, 2e-5, true};
  }
}

std::string reduce(const std::string& kind, size_t axis) {
  return "reduce %x0 {kind = " + kind + ", axis = " + std::to_string(axis) + "}";
}

std::string other_of(ElementType type) { return dsl::is_float(type) ? "-1.5" : "1"; }

// `bounds` empty: all elements are loaded.
void check_kinds(ElementType type, const Shape& shape, const std::vector<int64_t>& bounds,
                 const std::vector<std::string>& targets = {""}) {
  const int64_t count = elements_of(shape);
  const std::string other = bounds.empty() ? "" : other_of(type);
  AlgebraCase chosen(shape, {{type, random_buffer(type, static_cast<size_t>(count), 3), other}}, bounds);
  AlgebraCase ties(shape, {{type, tied_buffer(type, count, 5), other}}, bounds);
  AlgebraCase sums(shape, {{type, random_buffer(type, static_cast<size_t>(count), 4, false), other}}, bounds);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const Shape out = without_axis(shape, axis);
    for (const std::string& kind : chosen_kinds(type)) {
      const ElementType result = kind.starts_with("arg") ? ElementType::kI32 : type;
      chosen.apply(reduce(kind, axis), {{result, out, {0, 0, true}}});
      ties.apply(reduce(kind, axis), {{result, out, {0, 0, true}}});
    }
    for (const std::string& kind : int_kinds(type)) chosen.apply(reduce(kind, axis), {{type, out}});
    if (dsl::is_float(type)) {
      for (const char* kind : {"sum", "prod"})
        sums.apply(reduce(kind, axis), {{type, out, sum_match(type, shape[axis])}});
    }
  }
  chosen.check(targets);
  if (type != ElementType::kI1) ties.check(targets);
  if (dsl::is_float(type)) sums.check(targets);
}

class ReduceOnCpu : public testing::TestWithParam<ElementType> {};

TEST_P(ReduceOnCpu, AnyExtentOfOneAxis) {
  for (int64_t n : extents_for(GetParam())) check_kinds(GetParam(), {n}, {});
  check_kinds(GetParam(), {130}, {70});
  check_kinds(GetParam(), {65}, {0});
}

TEST_P(ReduceOnCpu, AnyAxisOfAnyRank) {
  check_kinds(GetParam(), shape_for(GetParam()), {});
  const std::vector<std::pair<Shape, Shape>> bounded = {{{70, 35}, {41, 30}}, {{2, 33, 17}, {2, 20, 17}}};
  for (const auto& [shape, bounds] : sampled(bounded, 1))
    check_kinds(GetParam(), shape, bounds, targets_for(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Types, ReduceOnCpu, testing::ValuesIn(all_element_types()),
                         [](const testing::TestParamInfo<ElementType>& info) { return type_name(info.param); });

// ---- regions ----

std::string custom(const std::string& operands, size_t axis, const std::string& arguments, const std::string& body) {
  return "reduce " + operands + " {kind = custom, axis = " + std::to_string(axis) + "} (" + arguments + ") {\n" + body +
         "\n  }";
}

void check_regions(const Shape& shape, const std::vector<int64_t>& bounds, const std::vector<std::string>& targets) {
  const auto count = static_cast<size_t>(elements_of(shape));
  std::vector<AlgebraCase::Input> inputs;
  for (uint32_t i = 0; i < 4; ++i) {
    inputs.push_back({ElementType::kI32, random_buffer(ElementType::kI32, count, i), bounds.empty() ? "" : "2"});
  }
  inputs.push_back({ElementType::kF64, tied_buffer(ElementType::kF64, static_cast<int64_t>(count), 7), ""});
  inputs.push_back({ElementType::kI1, tied_buffer(ElementType::kI1, static_cast<int64_t>(count), 8), ""});
  AlgebraCase test(shape, inputs, bounds);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const Shape out = without_axis(shape, axis);
    const AlgebraCase::Result i32{ElementType::kI32, out}, f64{ElementType::kF64, out}, i1{ElementType::kI1, out};
    test.apply(custom("%x0, %x1, %x2, %x3", axis, "%a$, %b$, %c$, %d$, %e$, %f$, %g$, %h$",
                      "  %ae$ = mul %a$, %e$\n  %bg$ = mul %b$, %g$\n  %s$ = add %ae$, %bg$\n"
                      "  %af$ = mul %a$, %f$\n  %bh$ = mul %b$, %h$\n  %t$ = add %af$, %bh$\n"
                      "  %ce$ = mul %c$, %e$\n  %dg$ = mul %d$, %g$\n  %u$ = add %ce$, %dg$\n"
                      "  %cf$ = mul %c$, %f$\n  %dh$ = mul %d$, %h$\n  %v$ = add %cf$, %dh$\n"
                      "  yield %s$, %t$, %u$, %v$"),
               {i32, i32, i32, i32});
    test.apply(custom("%x4", axis, "%l$, %r$",
                      "  %z$ = constant {value = 0.0, type = f64}\n  %is$ = cmp %r$, %z$ {pred = ne}\n"
                      "  %k$ = select %is$, %r$, %l$\n  yield %k$"),
               {f64});
    test.apply(custom("%x0, %x1", axis, "%a$, %b$, %p$, %q$",
                      "  %ap$ = mul %a$, %p$\n  %bp$ = mul %b$, %p$\n  %s$ = add %bp$, %q$\n  yield %ap$, %s$"),
               {i32, i32});
    test.apply(custom("%x5, %x4", axis, "%f$, %x$, %g$, %y$",
                      "  %h$ = or %f$, %g$\n  %s$ = add %x$, %y$\n  %k$ = select %g$, %y$, %s$\n  yield %h$, %k$"),
               {i1, {ElementType::kF64, out, {1e-12, 1e-12, true}}});
  }
  test.check(targets);
}

TEST(ReduceRegionsOnCpu, NeedNotCommute) {
  for (int64_t n : {1, 2, 3, 7, 31, 33, 130, 1000}) check_regions({n}, {}, {""});
  for (const Shape& shape : {Shape{5, 1}, Shape{3, 70}, Shape{70, 3}}) check_regions(shape, {}, {""});
  check_regions({65, 33}, {40, 20}, all_targets());
  check_regions({2, 5, 3}, {2, 3, 3}, all_targets());
}

TEST(ReduceRegionsOnCpu, ReadScalarsFromOutside) {
  expect_same(
      "kernel test(%p: ptr<i32>, %m: i32, %o: ptr<i32>, %q: ptr<i32>) {\n  grid [1, 1, 1]\n"
      "  %i = arange {start = 0, end = 77}\n  %b = splat %p {shape = [77]}\n  %a = addptr %b, %i\n  %x = load %a\n"
      "  %s = reduce %x {kind = custom, axis = 0} (%l, %r) {\n    %t = add %l, %r\n    %u = rem %t, %m\n    yield %u\n "
      " }\n"
      "  store %o, %s\n"
      "  %y = reshape %x {shape = [7, 11]}\n"
      "  %c = reduce %y {kind = custom, axis = 0} (%l2, %r2) {\n    %t2 = min %l2, %m\n    %u2 = max %t2, %r2\n"
      "    yield %u2\n  }\n"
      "  %j = arange {start = 0, end = 11}\n  %d = splat %q {shape = [11]}\n  %e = addptr %d, %j\n  store %e, %c\n}\n",
      {{buffer(std::vector<int32_t>(77, 5)), int_scalar(13), buffer(std::vector<int32_t>(1)),
        buffer(std::vector<int32_t>(11))},
       kExact});
}

// ---- several of the same rows ----

// One waits for another or does not, or for a store in between; they share walks where they may.
void check_siblings(const Shape& shape, const std::vector<int64_t>& bounds) {
  TextKernel k("%x: ptr<f32>, %o: ptr<f32>");
  const size_t axis = shape.size() - 1;
  const Shape out = without_axis(shape, axis);
  std::vector<std::string> limits;
  for (int64_t bound : bounds) limits.push_back(k.constant(std::to_string(bound), "i32"));
  const std::string at = k.pointers("%x", shape);
  const std::string v = k.op("load " + at + (bounds.empty() ? "" : ", " + k.mask(shape, limits)));
  auto reduce_of = [&](const std::string& tile, const std::string& kind) {
    return k.op("reduce " + tile + " {kind = " + kind + ", axis = " + std::to_string(axis) + "}");
  };
  int64_t place = 0;
  auto put = [&](const std::string& value) {
    const std::string number =
        out.empty() ? k.op("addptr %o, " + k.constant(std::to_string(place), "i32")) : k.pointers("%o", out, place);
    k.line("store " + number + ", " + value);
    place += elements_of(out);
  };
  const std::string top = reduce_of(v, "max"), sum = reduce_of(v, "sum");
  std::string spread = top;
  if (!out.empty()) {
    spread = k.op("broadcast " + k.op("expand_dims " + top + " {axis = " + std::to_string(axis) + "}") +
                  " {shape = " + TextKernel::list(shape) + "}");
  } else {
    spread = k.splat(top, shape);
  }
  const std::string distance = k.op("sub " + v + ", " + spread);
  const std::string low = reduce_of(distance, "min"), where = reduce_of(v, "argmin");
  const std::string squares = reduce_of(k.op("mul " + distance + ", " + distance), "sum");
  for (const std::string& value : {top, sum, low, squares}) put(value);
  put(k.op("cast " + where + " {to = f32}"));
  put(reduce_of(k.op("mul " + v + ", " + v), "sum"));
  const auto count = static_cast<size_t>(elements_of(shape));
  expect_same(k.text(), {{random_buffer(ElementType::kF32, count, 3, false),
                          buffer(std::vector<float>(static_cast<size_t>(6 * elements_of(out))))},
                         sum_match(ElementType::kF32, 40 * shape[axis])});
}

TEST(ReduceOnCpu, SeveralOfTheSameRows) {
  for (int64_t n : {1, 7, 64, 1000, 5000}) check_siblings({n}, {});
  check_siblings({1000}, {700});
  check_siblings({5, 130}, {});
  check_siblings({5, 130}, {3, 100});
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Of the same columns, and some that wait for others: x is read once for the first four.
TEST(ReduceOnCpu, SeveralOfTheSameColumns) {
  for (const Shape& shape : {Shape{16, 64}, Shape{70, 45}, Shape{3, 5}}) {
    TextKernel k("%x: ptr<f32>, %o: ptr<f32>");
    const std::string v = k.op("load " + k.pointers("%x", shape));
    const auto reduce_of = [&](const std::string& tile, const std::string& kind) {
      return k.op("reduce " + tile + " {kind = " + kind + ", axis = 0}");
    };
    const std::string sum = reduce_of(v, "sum"), top = reduce_of(v, "max");
    const std::string where = k.op("cast " + reduce_of(v, "argmin") + " {to = f32}");
    const std::string squares = reduce_of(k.op("mul " + v + ", " + v), "sum");
    const std::string spread =
        k.op("broadcast " + k.op("expand_dims " + top + " {axis = 0}") + " {shape = " + TextKernel::list(shape) + "}");
    const std::string distances = reduce_of(k.op("sub " + v + ", " + spread), "sum");
    std::string all = sum;
    for (const std::string& each : {top, where, squares, distances}) all = k.op("add " + all + ", " + each);
    k.line("store " + k.pointers("%o", {shape[1]}) + ", " + all);
    const auto count = static_cast<size_t>(elements_of(shape));
    expect_same(k.text(), {{random_buffer(ElementType::kF32, count, 3, false),
                            buffer(std::vector<float>(static_cast<size_t>(shape[1])))},
                           sum_match(ElementType::kF32, 40 * shape[0])});
    if (shape[1] != 64) continue;  // others have a tail
    auto code = compile(parse_kernel(k.text()), {}, {}, "cpu:x86-64-v4", "llvm");
    ASSERT_TRUE(code.ok()) << code.error().message;
    const std::string text(reinterpret_cast<const char*>(code->code.data()), code->code.size());
    EXPECT_EQ(occurrences(text, "\ninner.end"), 2U) << text;
  }
}

// x, its sum and its sum of squares, or the sum of distances from a mean: how often is memory read, and asked for
// ahead?
std::string code_of_two_sums(bool second_waits) {
  TextKernel k("%x: ptr<f32>, %o: ptr<f32>");
  const std::string v = k.op("load " + k.pointers("%x", {4096}));
  const std::string first = k.op("reduce " + v + " {kind = sum, axis = 0}");
  const std::string distance = second_waits ? k.op("sub " + v + ", " + k.splat(first, {4096})) : v;
  const std::string second = k.op("reduce " + k.op("mul " + distance + ", " + distance) + " {kind = sum, axis = 0}");
  k.line("store %o, " + k.op("add " + first + ", " + second));
  auto code = compile(parse_kernel(k.text()), {}, {}, "cpu:x86-64-v4", "llvm");
  EXPECT_TRUE(code.ok()) << code.error().message;
  return code ? std::string(reinterpret_cast<const char*>(code->code.data()), code->code.size()) : "";
}

TEST(ReduceOnCpu, OfTheSameRowsAtOnceUnlessOneWaits) {
  const std::string once = code_of_two_sums(false), twice = code_of_two_sums(true);
  EXPECT_EQ(occurrences(once, "load <"), 1) << once;
  EXPECT_EQ(occurrences(twice, "load <"), 2) << twice;
  EXPECT_EQ(once.find("llvm.prefetch"), std::string::npos);
  EXPECT_NE(twice.find("llvm.prefetch"), std::string::npos);
}

// ---- sums of many ----

std::string sum_of_copies(int64_t rows, int64_t columns, size_t axis) {
  const std::string shape = TextKernel::list({rows, columns});
  const int64_t kept = axis == 0 ? columns : rows;
  const std::string out = "[" + std::to_string(kept) + "]";
  return "kernel test(%x: f32, %o: ptr<f32>) {\n  grid [1, 1, 1]\n  %t = splat %x {shape = " + shape +
         "}\n  %s = reduce %t {kind = sum, axis = " + std::to_string(axis) +
         "}\n  %i = arange {start = 0, end = " + std::to_string(kept) + "}\n  %b = splat %o {shape = " + out +
         "}\n  %p = addptr %b, %i\n  store %p, %s\n}\n";
}

float first_sum(int64_t rows, int64_t columns, size_t axis, float x) {
  const dsl::Kernel kernel = parse_kernel(sum_of_copies(rows, columns, axis));
  auto artifact = compile(kernel, {}, {}, "");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  const std::vector<float> out(static_cast<size_t>(axis == 0 ? columns : rows));
  std::vector<TestArgument> arguments = {scalar_bits(dsl::bits_from_double(ElementType::kF32, x)), buffer(out)};
  EXPECT_TRUE(artifact.ok() && run_compiled(kernel, *artifact, arguments).ok());
  return values_of<float>(arguments[1])[0];
}

TEST(SumsOnCpu, OfManyElementsLoseNothing) {
  constexpr int64_t kMany = int64_t{1} << 25;
  EXPECT_EQ(first_sum(1, kMany, 1, 1), 33554432.0f);
  EXPECT_EQ(first_sum(kMany / 4, 4, 0, 1), 8388608.0f);
  for (const float x : {0.1f, 1.0000001f, 0.7f}) {
    const double along = static_cast<double>(x) * kMany, across = along / 4;
    EXPECT_NEAR(first_sum(1, kMany, 1, x), along, 1.3e-6 * along) << x;
    EXPECT_NEAR(first_sum(kMany / 4, 4, 0, x), across, 1.3e-6 * across) << x;
  }
}

// A warp whose lanes are all behind the tile's end puts one value in its place of shared memory, not one of each lane.
TEST(ReduceOnGpu, ArgminOfWhatNobodyLoadsInWarpsBehindTheEnd) {
  for (const char* kind : {"argmin", "argmax"}) {
    TextKernel kernel("%o: ptr<i32>");
    const std::string place =
        kernel.op(std::string("reduce ") + kernel.along({129}, 0) + " {kind = " + kind + ", axis = 0}");
    kernel.line("store %o, " + place);
    expect_same(
        kernel.text(),
        {{random_buffer(ElementType::kI32, 1, 1)}, kExact, {"gpu:warps=8", "gpu:warps=4,lanes=64", "gpu:warps=16"}});
  }
}

}  // namespace
}  // namespace kiln::test
