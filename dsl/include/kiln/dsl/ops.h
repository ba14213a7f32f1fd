// The op table as data; see ops.def.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::dsl {

enum class OpCode : uint8_t {
#define KILN_OP(id, ...) id,
#include "kiln/dsl/ops.def"
#undef KILN_OP
};
inline constexpr int kOpCount = 0
#define KILN_OP(...) +1
#include "kiln/dsl/ops.def"
#undef KILN_OP
    ;

enum Trait : uint32_t {
  kPure = 1,
  kReads = 2,
  kWrites = 4,
  kEffect = 8,
  kElementwise = 16,
  kRegion = 32,
  kTerminator = 64,
};

enum class AttrKind : uint8_t { kInt, kExpr, kShape, kElement, kLiteral, kString, kEnum };

struct OperandInfo {
  std::string name;
  bool optional = false;
  bool variadic = false;
};

struct AttrInfo {
  std::string name;
  AttrKind kind;
  std::vector<std::string> values;  // of an enum, in the order of the C++ enum
};

struct OpInfo {
  OpCode code;
  std::string name;
  std::vector<OperandInfo> operands;
  std::vector<AttrInfo> attrs;
  uint32_t traits;
  std::string doc;
  std::string example;

  bool has(Trait trait) const { return (traits & trait) != 0; }
};

std::span<const OpInfo> op_table();
const OpInfo& info(OpCode code);
std::optional<OpCode> parse_op(std::string_view name);

// The enums of the table's enum attributes; the order is that of ops.def (a test compares them).
enum class Predicate : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
enum class MathFn : uint8_t {
  kExp,
  kExp2,
  kLog,
  kLog2,
  kSin,
  kCos,
  kTanh,
  kErf,
  kSqrt,
  kRsqrt,
  kFloor,
  kCeil,
  kRound,
  kTrunc,
};
enum class Precision : uint8_t { kIeee, kTf32 };
enum class ReduceKind : uint8_t { kSum, kProd, kMin, kMax };

}  // namespace kiln::dsl
