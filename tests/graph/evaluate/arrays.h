// Arrays and graphs of one node for the tests of the evaluator.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "kiln/graph/builder.h"
#include "kiln/graph/evaluate.h"

namespace kiln::graph::evaluating {

// The same elements with each axis the other way round and gaps between them: negative strides, no row is contiguous.
inline Array turned(const Array& array) {
  std::vector<int64_t> shape = array.shape;
  for (int64_t& extent : shape) extent = std::max<int64_t>(2 * extent, 1);
  Array room = own(array.element, shape);
  for (std::byte& byte : *room.storage) byte = std::byte{0x5a};
  const int64_t bytes = dsl::info(array.element).bytes;
  Array out = room;
  out.shape = array.shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    out.data += std::max<int64_t>(array.shape[axis] - 1, 0) * 2 * room.strides[axis] * bytes;
    out.strides[axis] = -2 * room.strides[axis];
  }
  for (int64_t i = 0; i < array.count(); ++i) set_bits(out, i, array.bits(i));
  return out;
}

inline TensorType type_of(const Array& array) {
  TensorType type{array.element, {}};
  for (const int64_t extent : array.shape) type.shape.emplace_back(extent);
  return type;
}

// Builds a graph node by node; what goes wrong fails the test.
class Maker {
 public:
  explicit Maker(const std::string& name = "test") : builder_(name) {}

  Expr dim(const std::string& name, int64_t low = 1, int64_t high = DimInfo::kMost, int64_t multiple = 1) {
    return Expr::constexpr_ref(checked(builder_.add_dim({name, low, high, multiple})));
  }
  ValueId in(const std::string& name, ElementType element, std::vector<Expr> shape) {
    return checked(builder_.add_input(name, {element, std::move(shape)}));
  }
  ValueId op(TensorOp op, const std::vector<ValueId>& operands, AttrList attrs = {}) {
    return ops(op, operands, std::move(attrs))[0];
  }
  std::vector<ValueId> ops(TensorOp op, const std::vector<ValueId>& operands, AttrList attrs = {}) {
    const Location loc{builder_.add_file("model.cpp"), ++line_, 1};
    auto results = builder_.add(op, operands, std::move(attrs), loc);
    EXPECT_TRUE(results) << results.error().message;
    std::vector<ValueId> out;
    for (uint32_t i = 0; results && i < results->count; ++i) out.push_back(results->first + i);
    if (out.empty()) out.push_back(0);
    return out;
  }
  void out(ValueId value) {
    auto done = builder_.add_output("y" + std::to_string(builder_.body().outputs.size()), value);
    EXPECT_TRUE(done) << done.error().message;
  }
  void open(const std::string& name) { builder_.open_body(name); }
  int64_t close() { return builder_.close_body(); }
  GraphBuilder& builder() { return builder_; }
  Graph take() { return builder_.take(); }

 private:
  template <class T>
  T checked(Result<T> result) {
    EXPECT_TRUE(result) << result.error().message;
    return result ? *result : T{};
  }
  GraphBuilder builder_;
  uint32_t line_ = 0;
};

inline std::string show(const Array& array) {
  std::string out(dsl::info(array.element).name);
  out += '[';
  for (size_t i = 0; i < array.shape.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(array.shape[i]);
  out += "]:";
  for (int64_t i = 0; i < array.count(); ++i) {
    char text[40];
    if (dsl::is_float(array.element)) {
      std::snprintf(text, sizeof text, " %.9g", array.number(i));
      out += text;
    } else {
      const uint64_t bits = array.bits(i);
      const int shift = 64 - dsl::info(array.element).bits;
      out += " " + (dsl::info(array.element).is_signed ? std::to_string(static_cast<int64_t>(bits << shift) >> shift)
                                                       : std::to_string(bits));
    }
  }
  return out;
}

// The message of an evaluation that must fail.
inline std::string failure(const Graph& graph, const std::vector<Array>& inputs,
                           const std::map<std::string, int64_t>& sizes = {}, const EvaluateOptions& options = {}) {
  auto got = evaluate(graph, inputs, sizes, options);
  EXPECT_FALSE(got) << "an error was expected";
  return got ? "" : got.error().message;
}

// The only output, shown; or the error.
inline std::string shown(const Graph& graph, const std::vector<Array>& inputs,
                         const std::map<std::string, int64_t>& sizes = {}, const EvaluateOptions& options = {}) {
  auto got = evaluate(graph, inputs, sizes, options);
  return got ? show(got->front()) : got.error().message;
}

// One node of an op over inputs of the arrays' types; absent: an operand that is left out. Its results are the outputs.
inline Result<Graph> graph_of(TensorOp op, const std::vector<std::optional<Array>>& operands, AttrList attrs) {
  GraphBuilder builder("test");
  std::vector<ValueId> ids;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]) {
      ids.push_back(kNoValue);
      continue;
    }
    auto id = builder.add_input("x" + std::to_string(i), type_of(*operands[i]));
    if (!id) return id.error();
    ids.push_back(*id);
  }
  auto results = builder.add(op, ids, std::move(attrs));
  if (!results) return results.error();
  for (uint32_t i = 0; i < results->count; ++i) {
    if (auto done = builder.add_output("y" + std::to_string(i), results->first + i); !done) return done.error();
  }
  return builder.take();
}

// Bit by bit, but for which NaN it is.
inline bool same_bits(const Array& a, const Array& b) {
  if (a.element != b.element || a.shape != b.shape) return false;
  for (int64_t i = 0; i < a.count(); ++i) {
    const bool nan = dsl::is_float(a.element) && std::isnan(a.number(i)) && std::isnan(b.number(i));
    if (!nan && a.bits(i) != b.bits(i)) return false;
  }
  return true;
}

// As numbers, |a - b| ≤ absolute + relative·|b|.
inline bool near(const Array& a, const Array& b, double relative, double absolute) {
  if (a.shape != b.shape) return false;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = a.number(i), y = b.number(i);
    const bool same = x == y || (std::isnan(x) && std::isnan(y));
    if (!same && !(std::fabs(x - y) <= absolute + relative * std::fabs(y))) return false;
  }
  return true;
}

}  // namespace kiln::graph::evaluating
