#include "gpu/supported.h"

#include <algorithm>

#include "kiln/dsl/verify.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Kernel;
using dsl::Op;
using dsl::OpCode;

// What is missing of an op; "" when nothing is. No default: a new op says here where it stands.
std::string missing(const Op& op) {
  const std::string& name = dsl::info(op.code).name;
  switch (op.code) {
    case OpCode::kProgramId:
    case OpCode::kNumPrograms:
    case OpCode::kConstant:
    case OpCode::kArange:
    case OpCode::kSplat:
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
    case OpCode::kJoin:
    case OpCode::kSplit:
    case OpCode::kAdd:
    case OpCode::kSub:
    case OpCode::kMul:
    case OpCode::kDiv:
    case OpCode::kRem:
    case OpCode::kMulhi:
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
    case OpCode::kMath:
    case OpCode::kCast:
    case OpCode::kBitcast:
    case OpCode::kPhilox:
    case OpCode::kAddptr:
    case OpCode::kLoad:
    case OpCode::kStore:
    case OpCode::kReshape:
    case OpCode::kCat:
    case OpCode::kSlice:
    case OpCode::kGather:
    case OpCode::kAtomicRmw:
    case OpCode::kAtomicCas:
    case OpCode::kDot:
    case OpCode::kReduce:
    case OpCode::kScan:
    case OpCode::kSort:
    case OpCode::kTopk:
    case OpCode::kHistogram:
    case OpCode::kDotScaled:
    case OpCode::kFor:
    case OpCode::kWhile:
    case OpCode::kIf:
    case OpCode::kYield:
    case OpCode::kAssume:
    case OpCode::kRequire:
    case OpCode::kAssert:
    case OpCode::kPrint:
    case OpCode::kInlineAsm:
      return "";
    case OpCode::kDescriptor:
    case OpCode::kLoadTile:
    case OpCode::kStoreTile:
    case OpCode::kReduceTile:
    case OpCode::kGatherRows:
      return name;
  }
  return name;
}

Result<void> check_region(const Kernel& kernel, const dsl::Region& region, const std::string& processor) {
  for (const Op& op : region.ops) {
    if (const std::string what = missing(op); !what.empty()) {
      return error(
          ErrorCode::kCompileFailed,
          dsl::diagnostic(kernel, op.loc, "target `" + processor + "`: " + what + " is not lowered to GPUs yet"));
    }
    for (const dsl::Region& inner : op.regions) {
      if (auto fine = check_region(kernel, inner, processor); !fine) return fine;
    }
  }
  return {};
}

}  // namespace

Result<void> check_supported(const Kernel& kernel, const std::string& processor) {
  return check_region(kernel, kernel.body, processor);
}

}  // namespace kiln::codegen::gpu
