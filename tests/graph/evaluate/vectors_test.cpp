// The evaluator against results that NumPy wrote: vectors/*.json, made by make_vectors.py. Each case runs over
// contiguous inputs, over inputs whose strides are negative and not contiguous, and in f64. What it gives for inputs
// whose rows are one row in memory is compared with what it gives for copies of them.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "evaluate/arrays.h"
#include "kiln/dsl/scalar_lanes.h"

namespace kiln::graph::evaluating {
namespace {

using Json = nlohmann::json;

uint64_t element_bits(ElementType type, const Json& element) {
  if (!dsl::is_float(type)) {
    const uint64_t bits =
        element.is_number_unsigned() ? element.get<uint64_t>() : static_cast<uint64_t>(element.get<int64_t>());
    return dsl::scalar::low_bits(bits, dsl::info(type).bits);
  }
  const double number =
      element.is_string() ? std::strtod(element.get<std::string>().c_str(), nullptr) : element.get<double>();
  if (type == ElementType::kF8E5M2 && std::isinf(number)) return number > 0 ? 0x7c : 0xfc;
  return dsl::bits_from_double(type, number);
}

Array array(const Json& tensor) {
  const ElementType type = *dsl::parse_element_type(tensor["t"].get<std::string>());
  Array out = own(type, tensor["s"].get<std::vector<int64_t>>());
  EXPECT_EQ(static_cast<size_t>(out.count()), tensor["d"].size());
  for (int64_t i = 0; i < out.count(); ++i) set_bits(out, i, element_bits(type, tensor["d"][static_cast<size_t>(i)]));
  return out;
}

Attr attribute(const AttrInfo& info, const Json& value, const AttrList& before) {
  auto element = [&] { return std::get<ElementType>(before[0]); };
  switch (info.kind) {
    case AttrKind::kFloat:
      return value.get<double>();
    case AttrKind::kExpr:
      return Expr(value.get<int64_t>());
    case AttrKind::kShape: {
      std::vector<Expr> shape;
      for (const Json& extent : value) shape.emplace_back(extent.get<int64_t>());
      return shape;
    }
    case AttrKind::kInts:
      return value.get<std::vector<int64_t>>();
    case AttrKind::kElement:
      return *dsl::parse_element_type(value.get<std::string>());
    case AttrKind::kLiteral:
      return Literal{element_bits(element(), value)};
    case AttrKind::kData: {
      std::vector<uint64_t> data;
      for (const Json& number : value) data.push_back(element_bits(element(), number));
      return data;
    }
    default:
      return value.get<int64_t>();
  }
}

struct Case {
  TensorOp op;
  std::vector<std::optional<Array>> inputs;
  std::vector<Array> outputs;
  AttrList attrs;
  double relative = 0, absolute = 0;
  bool by_value = false;
};

Case read_case(const Json& json) {
  Case out;
  out.op = *parse_op(json["op"].get<std::string>());
  for (const Json& input : json["in"])
    out.inputs.push_back(input.is_null() ? std::nullopt : std::optional(array(input)));
  for (const Json& output : json["out"]) out.outputs.push_back(array(output));
  const std::vector<AttrInfo>& attrs = info(out.op).attrs;
  EXPECT_EQ(attrs.size(), json["at"].size());
  for (size_t i = 0; i < attrs.size(); ++i) out.attrs.push_back(attribute(attrs[i], json["at"][i], out.attrs));
  out.by_value = json.contains("eq") || json.contains("tol");
  if (json.contains("tol")) {
    out.relative = json["tol"][0].get<double>();
    out.absolute = json["tol"][1].get<double>();
  }
  return out;
}

void run(const Case& test, const Graph& graph, bool turn) {
  std::vector<Array> inputs;
  for (const auto& input : test.inputs) {
    if (input) inputs.push_back(turn ? turned(*input) : *input);
  }
  auto got = evaluate(graph, inputs);
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->size(), test.outputs.size());
  for (size_t i = 0; i < got->size(); ++i) {
    const Array &y = (*got)[i], &expected = test.outputs[i];
    const bool right = test.by_value ? y.element == expected.element && near(y, expected, test.relative, test.absolute)
                                     : same_bits(y, expected);
    EXPECT_TRUE(right) << (turn ? "turned, " : "") << "result " << i << "\n  " << show(y) << "\nnot " << show(expected);
  }
}

// In f64, results are those of NumPy within what rounding to the type makes of them. Ops that look at the rounding
// itself, or at bits, are not compared.
void run_wide(const Case& test, const Graph& graph) {
  const bool rounds = test.op == TensorOp::kCast || test.op == TensorOp::kBitcast || test.op == TensorOp::kSort;
  std::vector<Array> inputs;
  for (const auto& input : test.inputs) {
    if (input) inputs.push_back(*input);
  }
  auto got = evaluate(graph, inputs, {}, {.wide = true});
  ASSERT_TRUE(got) << got.error().message;
  for (size_t i = 0; i < got->size(); ++i) {
    const Array &y = (*got)[i], &expected = test.outputs[i];
    if (!dsl::is_float(expected.element)) continue;
    EXPECT_EQ(y.element, ElementType::kF64);
    // Of numbers that a type ends at, f64 has more.
    bool ends = false;
    for (int64_t k = 0; k < expected.count(); ++k) {
      ends |= !std::isfinite(expected.number(k)) || std::fabs(expected.number(k)) > 1e4;
    }
    if (rounds || ends || expected.element == ElementType::kF8E4M3 || expected.element == ElementType::kF8E5M2)
      continue;
    const double step = std::ldexp(1.0, expected.element == ElementType::kF64   ? -52
                                        : expected.element == ElementType::kF32 ? -23
                                        : expected.element == ElementType::kF16 ? -10
                                                                                : -7);
    EXPECT_TRUE(near(y, expected, test.relative + step, test.absolute + step))
        << "wide, result " << i << "\n  " << show(y) << "\nnot " << show(expected);
  }
}

// Strides of 0 along the first axis, beside an array of its own with the same elements.
void run_repeated(const Case& test, const Graph& graph) {
  std::vector<Array> repeated, copies;
  for (const auto& input : test.inputs) {
    if (!input) continue;
    Array rows = *input;
    if (!rows.shape.empty()) rows.strides[0] = 0;
    Array copy = own(rows.element, rows.shape);
    for (int64_t i = 0; i < copy.count(); ++i) set_bits(copy, i, rows.bits(i));
    repeated.push_back(std::move(rows));
    copies.push_back(std::move(copy));
  }
  auto got = evaluate(graph, repeated), expected = evaluate(graph, copies);
  ASSERT_EQ(got.ok(), expected.ok());
  for (size_t i = 0; got && i < got->size(); ++i) EXPECT_TRUE(same_bits((*got)[i], (*expected)[i])) << "repeated";
}

class Vectors : public testing::TestWithParam<const char*> {};

TEST_P(Vectors, AreWhatNumPyWrote) {
  std::ifstream file(std::string(KILN_SOURCE_DIR) + "/tests/graph/evaluate/vectors/" + GetParam() + ".json");
  const Json cases = Json::parse(file);
  ASSERT_GT(cases.size(), 10u);
  Json inputs;
  for (size_t number = 0; number < cases.size(); ++number) {
    Json json = cases[number];
    if (json["in"] == "=") json["in"] = inputs;
    inputs = json["in"];
    SCOPED_TRACE(std::string(GetParam()) + " case " + std::to_string(number) + ": " + json.dump().substr(0, 300));
    const Case test = read_case(json);
    auto graph = graph_of(test.op, test.inputs, test.attrs);
    ASSERT_TRUE(graph) << graph.error().message;
    run(test, *graph, /*turn=*/false);
    run(test, *graph, /*turn=*/true);
    run_wide(test, *graph);
    run_repeated(test, *graph);
    if (HasFatalFailure()) return;
  }
}

constexpr const char* kFamilies[] = {"make",  "elementwise", "math", "cast",   "view",   "index",      "reduce", "scan",
                                     "order", "dot",         "conv", "window", "resize", "composites", "empty"};

bool has_none(const Json& tensors) {
  return std::ranges::any_of(tensors, [](const Json& tensor) { return tensor.is_object() && tensor["d"].empty(); });
}

TEST(EvaluateVectors, HaveEveryOpOfTheTableAlsoWithoutElements) {
  std::set<std::string> found, empty;
  for (const char* family : kFamilies) {
    std::ifstream file(std::string(KILN_SOURCE_DIR) + "/tests/graph/evaluate/vectors/" + family + ".json");
    for (const Json& json : Json::parse(file)) {
      found.insert(json["op"].get<std::string>());
      if (has_none(json["out"]) || (json["in"].is_array() && has_none(json["in"]))) empty.insert(json["op"]);
    }
  }
  // Over dims, bodies and kernels: sizes_test.cpp, control_test.cpp, kernel_test.cpp.
  const std::set<std::string> elsewhere = {"extent", "reduce_custom", "scan_custom", "loop", "cond", "call", "kernel"};
  for (const OpInfo& op : op_table()) {
    EXPECT_NE(found.contains(op.name), elsewhere.contains(op.name)) << op.name;
    EXPECT_NE(empty.contains(op.name), elsewhere.contains(op.name)) << op.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Evaluate, Vectors, testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace kiln::graph::evaluating
