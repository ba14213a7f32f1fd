// Masks, broadcasts, permutes, gathers, reductions and dots on every layout that the loop nests distinguish.
#include "differential.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

constexpr ElementType kF32 = ElementType::kF32;
constexpr char kTwoBounds[] = "%x: ptr<f32>, %y: ptr<f32>, %z: ptr<f32>, %a: i32, %b: i32";

size_t product(const Shape& shape) {
  size_t out = 1;
  for (int64_t extent : shape) out *= static_cast<size_t>(extent);
  return out;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{1, 1}, {1, 40}, {5, 1}, {3, 5}, {17, 33}, {2, 130}};
  return all;
}

std::vector<TestArgument> two_bounds(const Shape& shape, int64_t a, int64_t b) {
  const size_t count = product(shape);
  return {random_buffer(kF32, count, 1), random_buffer(kF32, count, 2), random_buffer(kF32, count, 3), int_scalar(a),
          int_scalar(b)};
}

TEST(LayoutOnCpu, MasksOfLoadAndStoreDiffer) {
  for (const Shape& shape : shapes()) {
    for (const std::vector<std::string>& of_store :
         {std::vector<std::string>{"", ""}, {"%a", ""}, {"", "%b"}, {"%a", "%b"}}) {
      for (bool other : {false, true}) {
        TextKernel k(kTwoBounds);
        const std::string m = k.mask(shape, {"%a", "%b"}), row = k.mask(shape, {"%a", ""});
        const std::string fallback = other ? ", " + k.op("load " + k.pointers("%z", shape)) : "";
        const std::string v = k.op("load " + k.pointers("%x", shape) + ", " + m + fallback);
        const std::string w = k.op("load " + k.pointers("%z", shape) + ", " + row);
        const std::string sum = k.op("select " + m + ", " + v + ", " + k.op("neg " + w));
        const std::string store_mask = k.mask(shape, of_store);
        k.line("store " + k.pointers("%y", shape) + ", " + sum + (store_mask.empty() ? "" : ", " + store_mask));
        for (auto [a, b] : {std::pair<int64_t, int64_t>{0, 0}, {1, 1}, {shape[0], shape[1] - 1}, {2, 100}, {-3, 17}}) {
          expect_same(k.text(), {two_bounds(shape, a, b), kExact, {""}});
        }
      }
    }
  }
}

TEST(LayoutOnCpu, RowsAndColumns) {
  for (const Shape& shape : shapes()) {
    TextKernel k(kTwoBounds);
    const Shape row{shape[0], 1}, column{1, shape[1]};
    const std::string r = k.op("load " + k.pointers("%x", row) + ", " + k.mask(row, {"%a", ""}));
    const std::string c = k.op("load " + k.pointers("%z", column) + ", " + k.mask(column, {"", "%b"}) + ", " +
                               k.fill("4", "f32", column));
    const std::string list = TextKernel::list(shape);
    const std::string sum = k.op("sub " + k.op("broadcast " + r + " {shape = " + list + "}") + ", " +
                                 k.op("broadcast " + c + " {shape = " + list + "}"));
    k.line("store " + k.pointers("%y", shape) + ", " + sum + ", " + k.mask(shape, {"", "%b"}));
    for (auto [a, b] : {std::pair<int64_t, int64_t>{0, 5}, {2, 1}, {100, 33}})
      expect_same(k.text(), {two_bounds(shape, a, b), kExact});
  }
}

TEST(LayoutOnCpu, Transposed) {
  for (const Shape& shape : shapes()) {
    for (bool by_load : {false, true}) {
      TextKernel k(kTwoBounds);
      const Shape turned{shape[1], shape[0]};
      const std::string v = k.op("load " + k.pointers("%x", shape, 0, by_load ? Shape{1, shape[0]} : Shape{}) + ", " +
                                 k.mask(shape, {"%a", "%b"}));
      k.line("store " + k.pointers("%y", turned) + ", " + k.op("permute " + v + " {order = [1, 0]}") + ", " +
             k.mask(turned, {"", "%a"}));
      expect_same(k.text(), {two_bounds(shape, 2, 16), kExact});
    }
  }
}

TEST(LayoutOnCpu, GatherAndScatter) {
  for (const char* type : {"i8", "i32", "f16", "f64", "i1"}) {
    for (const char* index : {"i32", "i64", "u8", "i16"}) {
      TextKernel k(std::string("%x: ptr<") + type + ">, %i: ptr<" + index + ">, %y: ptr<" + type + ">, %n: i32");
      const Shape shape{100};
      const std::string m = k.mask(shape, {"%n"});
      const std::string loaded = k.op("load " + k.pointers("%i", shape) + ", " + m);
      const std::string at = k.op("and " + loaded + ", " + k.fill("63", index, shape));
      const std::string v = k.op("load " + k.op("addptr " + k.splat("%x", shape) + ", " + at) + ", " + m);
      // Every second place, from the end.
      const std::string back = k.op("sub " + k.fill("198", "i32", shape) + ", " +
                                    k.op("mul " + k.along(shape, 0) + ", " + k.fill("2", "i32", shape)));
      k.line("store " + k.op("addptr " + k.splat("%y", shape) + ", " + back) + ", " + v + ", " + m);
      const auto element = *dsl::parse_element_type(type);
      expect_same(k.text(), {{random_buffer(element, 64, 1), random_buffer(*dsl::parse_element_type(index), 71, 2),
                              random_buffer(element, 199, 3), int_scalar(71)},
                             kExact});
    }
  }
}

TEST(LayoutOnCpu, ComparisonsThatAreNotBounds) {
  // Unsigned differences, casts that lose the sign, the largest bounds.
  const std::string cases[] = {"%u = cast %l {to = u32}|%s = sub %u, %low|%m = cmp %s, %span {pred = lt}",
                               "%d = sub %l, %lowi|%u = cast %d {to = u32}|%m = cmp %u, %span {pred = lt}",
                               "%w = cast %l {to = u64}|%m = cmp %w, %most {pred = lt}",
                               "%w = cast %l {to = i64}|%m = cmp %w, %largest {pred = le}",
                               "%m = cmp %l, %lowi {pred = ge}",
                               "%m = cmp %lowi, %l {pred = gt}",
                               "%m = cmp %l, %lowi {pred = ne}",
                               "%k = cast %l {to = i8}|%m = cmp %k, %hundred {pred = lt}"};
  const Shape shape{300};
  for (const std::string& text : cases) {
    TextKernel k("%x: ptr<f32>, %y: ptr<f32>");
    k.line("%l = arange {start = 0, end = 300}");
    auto define = [&](const char* name, const char* value, const char* type) {
      k.line(std::string(name) + "s = constant {value = " + value + ", type = " + type + "}")
          .line(std::string(name) + " = splat " + name + "s {shape = [300]}");
    };
    define("%low", "70", "u32"), define("%span", "150", "u32"), define("%lowi", "70", "i32"),
        define("%hundred", "100", "i8");
    define("%most", "18446744073709551615", "u64"), define("%largest", "9223372036854775807", "i64");
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('|', at), text.size());
      k.line(text.substr(at, end - at));
      at = end + 1;
    }
    k.line("store " + k.pointers("%y", shape) + ", " + k.op("load " + k.pointers("%x", shape) + ", %m"));
    expect_same(k.text(), {{random_buffer(kF32, 300, 1), random_buffer(kF32, 300, 2)}, kExact});
  }
}

void check_reduction(const std::string& type, const std::string& kind, const Shape& shape, int64_t axis,
                     bool specials) {
  Shape out = shape;
  out.erase(out.begin() + axis);
  TextKernel k("%x: ptr<" + type + ">, %y: ptr<" + type + ">, %n: i32");
  std::vector<std::string> bounds(shape.size());
  bounds.back() = "%n";
  const std::string v =
      k.op("load " + k.pointers("%x", shape) + ", " + k.mask(shape, bounds) + ", " + k.fill("1", type, shape));
  const std::string r = k.op("reduce " + v + " {kind = " + kind + ", axis = " + std::to_string(axis) + "}");
  k.line("store " + (out.empty() ? "%y" : k.pointers("%y", out)) + ", " + r);
  const ElementType element = *dsl::parse_element_type(type);
  Match match{0, 0, true};
  if (dsl::is_float(element) && (kind == "sum" || kind == "prod")) {
    const double epsilon = type == "f64" ? 1e-13 : type == "f32" ? 1e-5 : type == "f16" ? 2e-3 : 2e-2;
    match = {epsilon, epsilon * 10, true};
  }
  expect_same(k.text(), {{random_buffer(element, product(shape), 1, specials), random_buffer(element, product(out), 2),
                          int_scalar(shape.back() - 1)},
                         match});
}

TEST(LayoutOnCpu, Reductions) {
  for (const char* kind : {"sum", "prod", "min", "max"}) {
    const bool extreme = std::string(kind) == "min" || std::string(kind) == "max";
    const std::vector<const char*> types = {"i8", "u8", "i32", "u64", "f16", "bf16", "f32", "f64"};
    for (const char* type : sampled(types, 4)) {
      for (int64_t axis : {0, 1}) check_reduction(type, kind, {7, 37}, axis, extreme);
    }
    const std::vector<Shape> shapes = {{1}, {200}, {1, 1}, {1, 9}, {9, 1}, {3, 4, 35}, {3, 70, 1}, {2, 1, 5}};
    for (const Shape& shape : sampled(shapes, 4)) {
      for (size_t axis = 0; axis < shape.size(); ++axis)
        check_reduction("f32", kind, shape, static_cast<int64_t>(axis), extreme);
    }
  }
}

void check_dot(const std::string& type, const std::string& accumulator, int64_t m, int64_t n, int64_t k_extent,
               const std::vector<std::string>& targets) {
  TextKernel k("%a: ptr<" + type + ">, %b: ptr<" + type + ">, %c: ptr<" + accumulator + ">, %y: ptr<" + accumulator +
               ">");
  const std::string a = k.op("load " + k.pointers("%a", {m, k_extent})),
                    b = k.op("load " + k.pointers("%b", {k_extent, n}));
  const std::string doubled = k.op("add " + a + ", " + a);
  const std::string turned =
      k.op("permute " + k.op("load " + k.pointers("%b", {n, k_extent}, 0, {1, n})) + " {order = [1, 0]}");
  const std::string c = k.op("load " + k.pointers("%c", {m, n}));
  const std::string first = k.op("dot " + doubled + ", " + b + ", " + c);
  k.line("store " + k.pointers("%y", {m, n}) + ", " + k.op("dot " + a + ", " + turned + ", " + first));
  auto size = [](int64_t x, int64_t y) { return static_cast<size_t>(x * y); };
  const ElementType element = *dsl::parse_element_type(type), acc = *dsl::parse_element_type(accumulator);
  const double epsilon = type == "f64" ? 1e-13 : 2e-5;
  expect_same(k.text(), {{random_buffer(element, size(m, k_extent), 1, false),
                          random_buffer(element, size(k_extent, n), 2, false), random_buffer(acc, size(m, n), 3, false),
                          random_buffer(acc, size(m, n), 4)},
                         {epsilon, epsilon * 10, true},
                         targets});
}

TEST(LayoutOnCpu, Dots) {
  for (auto [type, acc] :
       {std::pair{"f16", "f32"}, {"bf16", "f32"}, {"f32", "f32"}, {"f64", "f64"}, {"i8", "i32"}, {"u8", "i32"}}) {
    const std::vector<std::array<int64_t, 3>> extents = {{17, 33, 5}, {1, 1, 1}, {5, 1, 7}};
    for (auto [m, n, k] : sampled(extents, 1)) check_dot(type, acc, m, n, k, all_targets());
  }
  for (auto [m, n, k] :
       {std::array<int64_t, 3>{1, 70, 3}, {70, 1, 40}, {64, 64, 1}, {13, 130, 2}, {3, 2, 1}, {1, 1, 50}})
    check_dot("f32", "f32", m, n, k, {""});
}

}  // namespace
}  // namespace kiln::test
