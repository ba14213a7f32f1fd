// Products of small numbers as kernels of one dot, and how far results are from sums in f64.
#pragma once

#include <cmath>

#include "random/case.h"

namespace kiln::test {

using dsl::ElementType;
using random_kernel::Case;
using random_kernel::Input;

struct Product {
  ElementType a, b;
  int64_t m, n, k;
  bool b_transposed = false;
  std::string precision = "ieee";

  ElementType sum() const { return dsl::is_float(a) ? ElementType::kF32 : ElementType::kI32; }
};

inline std::string name_of(ElementType type) { return std::string(dsl::info(type).name); }

// A tile of pointers `%NAMEp` at the elements of a row-major matrix, or of one by columns.
inline std::string pointers(const std::string& name, int64_t rows, int64_t columns, bool by_columns) {
  const std::string shape = " {shape = [" + std::to_string(rows) + ", " + std::to_string(columns) + "]}";
  std::string out;
  const auto op = [&](const std::string& suffix, const std::string& expression) {
    out += "%" + name + suffix + " = " + expression + "\n";
    return "%" + name + suffix;
  };
  const auto along = [&](const std::string& suffix, int64_t extent, int axis) {
    const std::string line = op(suffix, "arange {start = 0, end = " + std::to_string(extent) + "}");
    const std::string added = op(suffix + "e", "expand_dims " + line + " {axis = " + std::to_string(1 - axis) + "}");
    return op(suffix + "b", "broadcast " + added + shape);
  };
  const std::string row = along("r", rows, 0), column = along("c", columns, 1);
  const std::string width =
      op("w", "constant {value = " + std::to_string(by_columns ? rows : columns) + ", type = i32}");
  const std::string begin = op("m", "mul " + (by_columns ? column : row) + ", " + op("ws", "splat " + width + shape));
  const std::string index = op("i", "add " + begin + ", " + (by_columns ? row : column));
  op("p", "addptr " + op("s", "splat %" + name + shape) + ", " + index);
  return out;
}

inline std::string text_of(const Product& t) {
  return "kernel products(%a: ptr<" + name_of(t.a) + "> readonly, %b: ptr<" + name_of(t.b) + "> readonly, %c: ptr<" +
         name_of(t.sum()) + ">) {\ngrid [1, 1, 1]\n" + pointers("a", t.m, t.k, false) +
         pointers("b", t.k, t.n, t.b_transposed) + pointers("c", t.m, t.n, false) +
         "%x = load %ap\n%y = load %bp\n%z = load %cp\n%d = dot %x, %y, %z {precision = " + t.precision +
         "}\nstore %cp, %d\n}\n";
}

inline Case case_of(const Product& t, uint64_t seed) {
  random_kernel::Random random(seed);
  auto buffer = [&](ElementType type, int64_t rows, int64_t columns) {
    const auto content = dsl::is_float(type) ? random_kernel::Content::kTame : random_kernel::Content::kWhole;
    return random_kernel::random_buffer(type, static_cast<size_t>(rows * columns), content, random);
  };
  return random_kernel::make_case(text_of(t), {}, {},
                                  {buffer(t.a, t.m, t.k), buffer(t.b, t.k, t.n), buffer(t.sum(), t.m, t.n)});
}

inline double value_of(ElementType type, const Input& input, int64_t index) {
  const uint64_t bits = random_kernel::element_at(type, input, static_cast<size_t>(index));
  if (dsl::is_float(type)) return dsl::double_from_bits(type, bits);
  if (type == ElementType::kU8) return static_cast<uint8_t>(bits);
  return type == ElementType::kI8 ? static_cast<int8_t>(bits) : static_cast<int32_t>(bits);
}

// ‖out - sums‖ / ‖sums‖, as docs/reference/ops.md measures dots.
inline double error_of(const Product& t, const std::vector<Input>& before, const Input& after) {
  double wrong = 0, all = 0;
  for (int64_t i = 0; i < t.m; ++i) {
    for (int64_t j = 0; j < t.n; ++j) {
      double sum = value_of(t.sum(), before[2], i * t.n + j);
      for (int64_t k = 0; k < t.k; ++k) {
        sum += value_of(t.a, before[0], i * t.k + k) *
               value_of(t.b, before[1], t.b_transposed ? j * t.k + k : k * t.n + j);
      }
      if (!dsl::is_float(t.a)) sum = static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(sum)));
      const double off = value_of(t.sum(), after, i * t.n + j) - sum;
      wrong += off * off;
      all += sum * sum;
    }
  }
  return all > 0 ? std::sqrt(wrong / all) : std::sqrt(wrong);
}

}  // namespace kiln::test
