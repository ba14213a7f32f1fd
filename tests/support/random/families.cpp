#include "families.h"

#include <algorithm>

namespace kiln::random_kernel {

using dsl::OpCode;

const std::map<OpCode, std::string>& never_generated() {
  static const std::map<OpCode, std::string> reasons = {
      {OpCode::kInlineAsm, "assembly of one target"},
      {OpCode::kYield, "every region ends with one"},
  };
  return reasons;
}

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      {OpCode::kProgramId, make_scalar},
      {OpCode::kNumPrograms, make_scalar},
      {OpCode::kConstant, make_scalar},
      {OpCode::kArange, make_scalar},
      {OpCode::kSplat, make_scalar},
      {OpCode::kBroadcast, make_reshaped},
      {OpCode::kExpandDims, make_reshaped},
      {OpCode::kReshape, make_reshaped},
      {OpCode::kPermute, make_reshaped},
      {OpCode::kJoin, make_joined},
      {OpCode::kSplit, make_joined},
      {OpCode::kCat, make_joined},
      {OpCode::kSlice, make_part},
      {OpCode::kGather, make_part},
      {OpCode::kAdd, make_arithmetic},
      {OpCode::kSub, make_arithmetic},
      {OpCode::kMul, make_arithmetic},
      {OpCode::kDiv, make_arithmetic},
      {OpCode::kRem, make_arithmetic},
      {OpCode::kMulhi, make_arithmetic},
      {OpCode::kFma, make_arithmetic},
      {OpCode::kMin, make_arithmetic},
      {OpCode::kMax, make_arithmetic},
      {OpCode::kNeg, make_arithmetic},
      {OpCode::kAbs, make_arithmetic},
      {OpCode::kAnd, make_bits},
      {OpCode::kOr, make_bits},
      {OpCode::kXor, make_bits},
      {OpCode::kShl, make_bits},
      {OpCode::kShr, make_bits},
      {OpCode::kCmp, make_compare},
      {OpCode::kSelect, make_select},
      {OpCode::kMath, make_math},
      {OpCode::kCast, make_cast},
      {OpCode::kBitcast, make_bitcast},
      {OpCode::kAddptr, make_load},
      {OpCode::kLoad, make_load},
      {OpCode::kStore, make_store},
      {OpCode::kAtomicRmw, make_atomic},
      {OpCode::kAtomicCas, make_atomic},
      {OpCode::kDescriptor, make_described},
      {OpCode::kLoadTile, make_described},
      {OpCode::kStoreTile, make_described},
      {OpCode::kReduceTile, make_described},
      {OpCode::kGatherRows, make_described},
      {OpCode::kDot, make_dot},
      {OpCode::kDotScaled, make_dot_scaled},
      {OpCode::kReduce, make_combine},
      {OpCode::kScan, make_combine},
      {OpCode::kSort, make_order},
      {OpCode::kTopk, make_order},
      {OpCode::kHistogram, make_order},
      {OpCode::kPhilox, make_philox},
      {OpCode::kFor, make_for},
      {OpCode::kWhile, make_while},
      {OpCode::kIf, make_if},
      {OpCode::kAssume, make_fact},
      {OpCode::kRequire, make_fact},
      {OpCode::kAssert, make_fact},
      {OpCode::kPrint, make_fact},
      // Ops of many kinds, or that few tries bring about, once more.
      {OpCode::kMath, make_math},
      {OpCode::kMath, make_math},
      {OpCode::kMath, make_math},
      {OpCode::kCast, make_cast},
      {OpCode::kCast, make_cast},
      {OpCode::kReduce, make_combine},
      {OpCode::kReduce, make_combine},
      {OpCode::kScan, make_combine},
      {OpCode::kScan, make_combine},
      {OpCode::kDot, make_dot},
      {OpCode::kFor, make_for},
      {OpCode::kIf, make_if},
  };
  return table;
}

bool is_generated(OpCode code) {
  return std::any_of(families().begin(), families().end(), [&](const Family& family) { return family.code == code; });
}

}  // namespace kiln::random_kernel
