#include "cpu/supported.h"

#include "kiln/dsl/verify.h"

namespace kiln::codegen::cpu {
namespace {

using dsl::Kernel;
using dsl::Op;
using dsl::OpCode;

bool has_math(dsl::MathFn fn) {
  using dsl::MathFn;
  switch (fn) {
    case MathFn::kExp:
    case MathFn::kExp2:
    case MathFn::kLog:
    case MathFn::kLog2:
    case MathFn::kSin:
    case MathFn::kCos:
    case MathFn::kTanh:
    case MathFn::kErf:
    case MathFn::kSqrt:
    case MathFn::kRsqrt:
    case MathFn::kFloor:
    case MathFn::kCeil:
    case MathFn::kRound:
    case MathFn::kTrunc:
      return true;
    default:
      return false;
  }
}

int64_t number(const Op& op, size_t attr) { return std::get<int64_t>(op.attrs[attr]); }

// The name of what is missing; "" when nothing is. No default: a new op says here where it stands.
std::string missing(const Kernel& kernel, const Op& op) {
  const std::string& name = dsl::info(op.code).name;
  auto value_of = [&](size_t attr) {
    return dsl::info(op.code).attrs[attr].values[static_cast<size_t>(number(op, attr))];
  };
  switch (op.code) {
    case OpCode::kProgramId:
    case OpCode::kNumPrograms:
    case OpCode::kConstant:
    case OpCode::kArange:
    case OpCode::kSplat:
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
    case OpCode::kAdd:
    case OpCode::kSub:
    case OpCode::kMul:
    case OpCode::kDiv:
    case OpCode::kRem:
    case OpCode::kFma:
    case OpCode::kMin:
    case OpCode::kMax:
    case OpCode::kNeg:
    case OpCode::kAbs:
    case OpCode::kAnd:
    case OpCode::kOr:
    case OpCode::kXor:
    case OpCode::kShl:
    case OpCode::kShr:
    case OpCode::kCmp:
    case OpCode::kSelect:
    case OpCode::kBitcast:
    case OpCode::kAddptr:
    case OpCode::kLoad:
    case OpCode::kStore:
    case OpCode::kFor:
    case OpCode::kYield:
    case OpCode::kAssume:
    case OpCode::kRequire:
      return "";
    case OpCode::kMath:
      return has_math(static_cast<dsl::MathFn>(number(op, 0))) ? "" : "math of " + value_of(0);
    case OpCode::kCast:
      return number(op, 1) == 0 && number(op, 2) == 1 ? "" : "cast with stochastic rounding or without saturation";
    case OpCode::kDot:
      if (kernel.type(op.operands[0]).rank() == 3) return "dot with a batch";
      return kernel.type(op.operands[0]).element == kernel.type(op.operands[1]).element ? "" : "dot of i8 with u8";
    case OpCode::kReduce:
      return static_cast<dsl::ReduceKind>(number(op, 0)) <= dsl::ReduceKind::kMax ? ""
                                                                                  : "reduce of kind " + value_of(0);
    case OpCode::kAssert:
      return kernel.options.debug ? "assert" : "";
    case OpCode::kReshape:
    case OpCode::kJoin:
    case OpCode::kSplit:
    case OpCode::kCat:
    case OpCode::kSlice:
    case OpCode::kGather:
    case OpCode::kMulhi:
    case OpCode::kAtomicRmw:
    case OpCode::kAtomicCas:
    case OpCode::kDescriptor:
    case OpCode::kLoadTile:
    case OpCode::kStoreTile:
    case OpCode::kReduceTile:
    case OpCode::kGatherRows:
    case OpCode::kDotScaled:
    case OpCode::kScan:
    case OpCode::kSort:
    case OpCode::kTopk:
    case OpCode::kHistogram:
    case OpCode::kPhilox:
    case OpCode::kWhile:
    case OpCode::kIf:
    case OpCode::kPrint:
    case OpCode::kInlineAsm:
      return name;
  }
  return name;
}

Result<void> check_region(const Kernel& kernel, const dsl::Region& region) {
  for (const Op& op : region.ops) {
    const std::string what = missing(kernel, op);
    if (!what.empty()) {
      return error(ErrorCode::kCompileFailed,
                   dsl::diagnostic(kernel, op.loc, what + ": the CPU backend does not compile this"));
    }
    for (const dsl::Region& inner : op.regions) {
      if (auto fine = check_region(kernel, inner); !fine) return fine;
    }
  }
  return {};
}

}  // namespace

Result<void> check_supported(const Kernel& kernel) {
  if (kernel.options.check_bounds) {
    return error(ErrorCode::kCompileFailed,
                 "kernel `" + kernel.name + "`: the CPU backend does not compile the option check_bounds");
  }
  return check_region(kernel, kernel.body);
}

}  // namespace kiln::codegen::cpu
