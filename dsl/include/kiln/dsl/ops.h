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
  kMovesElements = 32,
  kExpensive = 64,
  kRegion = 128,
  kTerminator = 256,
  kNoCpu = 512,
  kNoGpu = 1024,
};

// Ops that go the same way; the sections of docs/reference/ops.md, some of which have several.
enum class OpFamily : uint8_t {
  kProgram,     // program_id, num_programs
  kMake,        // constant, arange, splat
  kView,        // broadcast, expand_dims, permute: an operand's elements at places computed axis by axis
  kPair,        // join, split
  kMovement,    // reshape, cat, slice, gather
  kArithmetic,  // add … abs
  kBits,        // and … shr
  kChoice,      // cmp, select
  kMath,        // math
  kConversion,  // cast, bitcast
  kMemory,      // addptr, load, store
  kAtomic,      // atomic_rmw, atomic_cas
  kDescribed,   // descriptor … gather_rows: expand_descriptors leaves none of them to targets
  kDot,         // dot, dot_scaled
  kCollective,  // reduce, scan, sort, topk, histogram: an element of the result is made of many
  kRandom,      // philox
  kControl,     // for, while, if, yield
  kFact,        // assume, require, assert, print
  kAsm,         // inline_asm
};

enum class AttrKind : uint8_t { kInt, kFlag, kExpr, kShape, kElement, kLiteral, kString, kEnum };

struct OperandInfo {
  std::string name;
  bool optional = false;
  bool variadic = false;
};

struct AttrInfo {
  std::string name;
  AttrKind kind;
  std::vector<std::string> values;            // of an enum, in the order of the C++ enum
  std::optional<int64_t> default_value = {};  // where text and builder may leave it out
};

struct OpInfo {
  OpCode code;
  std::string name;
  std::vector<OperandInfo> operands;
  std::vector<AttrInfo> attrs;
  OpFamily family;
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
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kAtan2,
  kSinh,
  kCosh,
  kTanh,
  kErf,
  kErfc,
  kSqrt,
  kRsqrt,
  kPow,
  kHypot,
  kCopysign,
  kSignbit,
  kFloor,
  kCeil,
  kRound,
  kTrunc,
  kIsnan,
  kIsinf,
};
enum class Rounding : uint8_t { kNearest, kStochastic };
enum class CacheHint : uint8_t { kAll, kGlobal, kStreaming };
enum class Eviction : uint8_t { kNormal, kFirst, kLast };
enum class AtomicKind : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kXchg };  // reduce_tile: all but kXchg
enum class MemoryOrder : uint8_t { kAcqRel, kRelaxed, kAcquire, kRelease };
enum class MemoryScope : uint8_t { kDevice, kBlock, kSystem };
enum class Fill : uint8_t { kZero, kNan };
enum class Precision : uint8_t { kIeee, kTf32, kTf32x3, kBf16x3 };
enum class ReduceKind : uint8_t { kSum, kProd, kMin, kMax, kAnd, kOr, kXor, kArgmin, kArgmax, kCustom };

// How many operands a math function takes.
inline int math_arity(MathFn fn) {
  return fn == MathFn::kAtan2 || fn == MathFn::kPow || fn == MathFn::kHypot || fn == MathFn::kCopysign ? 2 : 1;
}
// signbit, isnan and isinf give i1.
inline bool is_float_test(MathFn fn) { return fn == MathFn::kSignbit || fn == MathFn::kIsnan || fn == MathFn::kIsinf; }

}  // namespace kiln::dsl
