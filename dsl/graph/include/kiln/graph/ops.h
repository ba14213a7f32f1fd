// The op table of graphs as data; see tensor_ops.def.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::graph {

enum class TensorOp : uint8_t {
#define KILN_TENSOR_OP(id, ...) id,
#include "kiln/graph/tensor_ops.def"
#undef KILN_TENSOR_OP
};
inline constexpr int kTensorOpCount = 0
#define KILN_TENSOR_OP(...) +1
#include "kiln/graph/tensor_ops.def"
#undef KILN_TENSOR_OP
    ;

enum Trait : uint32_t {
  kPrimitive = 1,  // exactly one of these two
  kComposite = 2,  // has a decomposition into primitives (decompose.h)
  kCommutes = 4,   // of two operands, in either order
  kMath = 8,       // of floats only, elementwise, within the bounds of docs/reference/ops.md
  kRandom = 16,    // never computed twice by a rewrite
  kBody = 32,      // has attributes that are bodies of the graph
};

// Ops that go the same way through type rules, evaluator and lowering.
enum class Family : uint8_t {
  kMake,         // no tensors in
  kElementwise,  // one element of each operand in, one out; all of one shape
  kView,         // an index map: an operand's elements at other places (pad adds a value)
  kCat,
  kIndex,     // places that are data
  kReduce,    // axes disappear
  kScan,      // along one axis, shapes stay
  kOrder,     // sort, topk, histogram
  kContract,  // sums of products
  kConv,
  kWindow,
  kResize,
  kNorm,       // composites over rows or channels whose shape stays
  kOptimiser,  // composites over one parameter, elementwise but for norms
  kControl,    // bodies
  kKernel,
};

enum class AttrKind : uint8_t {
  kInt,
  kFlag,
  kFloat,
  kExpr,
  kShape,
  kInts,
  kElement,
  kLiteral,
  kData,
  kString,
  kBody,
  kKernel,
  kEnum
};

struct OperandInfo {
  std::string name;
  bool optional = false;  // its place holds kNoValue where it is left out
  bool variadic = false;  // the last one only
};

struct AttrInfo {
  std::string name;
  AttrKind kind;
  std::vector<std::string> values;          // of an enum, in the order of the C++ enum
  std::optional<std::string> default_text;  // where text and builders may leave it out: as written in the table
};

struct OpInfo {
  TensorOp op;
  std::string name;
  std::vector<OperandInfo> operands;
  std::vector<OperandInfo> results;
  std::vector<AttrInfo> attrs;
  Family family;
  uint32_t traits;
  std::string doc;
  std::string example;

  bool has(Trait trait) const { return (traits & trait) != 0; }
};

// By TensorOp. Thread-safe.
std::span<const OpInfo> op_table();
inline const OpInfo& info(TensorOp op) {
  static const std::span<const OpInfo> table = op_table();
  return table[static_cast<size_t>(op)];
}
std::optional<TensorOp> parse_op(std::string_view name);
// Place of an attribute in the op's list, by name; the name must be one of the op's.
size_t attr_index(TensorOp op, std::string_view name);
std::string_view to_string(Family family);

// The enums of the table's enum attributes, in its order (a test compares them).
enum class Predicate : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
enum class ScatterKind : uint8_t { kSet, kAdd, kMul, kMin, kMax };
enum class ReduceKind : uint8_t { kSum, kProd, kMin, kMax, kAnd, kOr, kXor };
enum class ArgKind : uint8_t { kMin, kMax };
enum class Precision : uint8_t { kIeee, kTf32, kTf32x3, kBf16x3 };
enum class WindowKind : uint8_t { kSum, kMax, kMin };
enum class PickKind : uint8_t { kMax, kMin };
enum class ResizeMode : uint8_t { kNearest, kLinear, kCubic };
enum class GeluKind : uint8_t { kErf, kTanh };
enum class BagMode : uint8_t { kSum, kMean, kMax };
enum class LossReduction : uint8_t { kNone, kMean, kSum };

}  // namespace kiln::graph
