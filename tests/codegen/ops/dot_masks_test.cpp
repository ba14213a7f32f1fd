// Products whose operands end along K before the tile does, of few rows and columns and short along K, against the
// interpreter on all targets. Buffers end where the last element does that no mask hides.
#include "sampled.h"
#include "small_numbers.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

struct Masked {
  ElementType type;
  Shape out;            // [M, N] or [batch, M, N]
  int64_t k, there;     // extent of the tile, and how many of it exist
  bool a_ends, b_ends;  // which operands have the mask
  bool k_first;         // A by columns, B by rows: K is slower in memory
};

// Of `shape`, with the elements along `axis` as far as `there` close together.
std::string masked_operand(TextKernel& k, const std::string& param, const Shape& shape, size_t axis, const Masked& m,
                           bool ends) {
  Shape memory = shape, strides(shape.size(), 1);
  if (ends) memory[axis] = std::max<int64_t>(m.there, 1);
  std::vector<size_t> order;  // from the fastest axis on
  for (size_t i = shape.size(); i-- > 0;) {
    if (i != axis) order.push_back(i);
  }
  order.insert(m.k_first ? order.end() : order.begin(), axis);
  int64_t stride = 1;
  for (size_t i : order) {
    strides[i] = stride;
    stride *= memory[i];
  }
  std::vector<std::string> bounds(shape.size(), "");
  bounds[axis] = "%n";
  return k.op("load " + k.pointers(param, shape, 0, strides) + (ends ? ", " + k.mask(shape, bounds) : ""));
}

void expect_masked(const Masked& m, std::mt19937_64& random) {
  const std::string type(dsl::info(m.type).name);
  const bool is_int = !dsl::is_float(m.type);
  const ElementType sum = is_int ? ElementType::kI32 : m.type == ElementType::kF64 ? m.type : ElementType::kF32;
  const std::string sum_name(dsl::info(sum).name);
  Shape a = m.out, b = m.out;
  a.back() = b[b.size() - 2] = m.k;
  TextKernel k("%A: ptr<" + type + "> readonly, %B: ptr<" + type + "> readonly, %C: ptr<" + sum_name + ">, %n: i32");
  const std::string x = masked_operand(k, "%A", a, a.size() - 1, m, m.a_ends);
  const std::string y = masked_operand(k, "%B", b, b.size() - 2, m, m.b_ends);
  const std::string zero = k.fill(is_int ? "0" : "0.0", sum_name, m.out);
  k.line("store " + k.pointers("%C", m.out) + ", " + k.op("dot " + x + ", " + y + ", " + zero));
  const auto size = [&](const Shape& shape, bool ends) { return elements(shape) / m.k * (ends ? m.there : m.k); };
  Trial run;
  run.arguments = {small_numbers(m.type, size(a, m.a_ends), random), small_numbers(m.type, size(b, m.b_ends), random),
                   random_buffer(sum, static_cast<size_t>(elements(m.out)), 3, false), int_scalar(m.there)};
  run.match = {0, 0, true};
  SCOPED_TRACE(type + " " + TextKernel::list(m.out) + " k " + std::to_string(m.k) + " there " +
               std::to_string(m.there));
  expect_same(k.text(), run);
}

TEST(DotMask, BothOperandsEndAlongKBeforeTheTile) {
  std::mt19937_64 random(1);
  const Shape shapes[] = {{1, 1}, {1, 3}, {3, 1}, {2, 2}, {2, 1, 5}};
  for (int64_t k = 1; k <= 5; ++k) {
    for (int64_t there = 0; there <= k; ++there) {
      const Shape& out = shapes[random() % std::size(shapes)];
      for (bool k_first : {false, true}) expect_masked({ElementType::kF32, out, k, there, true, true, k_first}, random);
    }
  }
}

TEST(DotMask, RandomMasksAlongK) {
  std::mt19937_64 random(2);
  const auto any = [&](const std::vector<int64_t>& of) { return of[random() % of.size()]; };
  const ElementType types[] = {ElementType::kF32, ElementType::kF64, ElementType::kBF16, ElementType::kF16,
                               ElementType::kI8};
  for (int i = 0; i < (runs_all_cases() ? 40 : 15); ++i) {
    const int64_t k = any({1, 2, 3, 4, 7, 8, 16, 33, 64});
    Shape out = {any({1, 1, 2, 3, 5, 17}), any({1, 1, 2, 3, 8, 33})};
    if (random() % 4 == 0) out.insert(out.begin(), any({1, 2, 3}));
    const int64_t there = any({0, 1, k / 2, k - 1, k});
    const bool a_ends = random() % 4 != 0, b_ends = !a_ends || random() % 4 != 0;
    expect_masked({types[random() % std::size(types)], out, k, there, a_ends, b_ends, random() % 2 == 0}, random);
  }
}

}  // namespace
}  // namespace kiln::test
