// Fused precision: a chain of ops on small floats is rounded once, where it ends, instead of at each op.
//
//   before                                     after
//     %p = mul %a, %b : tile<[8], bf16>          %x = cast %a {to = f32} : tile<[8], f32>
//     %s = add %p, %c : tile<[8], bf16>          %y = cast %b {to = f32} : tile<[8], f32>
//                                                %q = mul %x, %y : tile<[8], f32>
//                                                %z = cast %c {to = f32} : tile<[8], f32>
//                                                %t = add %q, %z : tile<[8], f32>
//                                                %s = cast %t {to = bf16} : tile<[8], bf16>
//
// Each arithmetic op runs on f32 copies of its operands; of an operand that such an op gave, the copy is that op's own
// result, unrounded. The author's casts are ops of their own and round as ever. Copies that nothing uses are dropped by
// canonicalise(). What chooses or moves an element of f8 is left as it is, since a cast to f8 gives no infinity.
#include <unordered_map>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/rounding.h"

namespace kiln::dsl {
namespace {

bool keeps_infinity(const Op& op) {
  if (op.code != OpCode::kMath) {
    return op.code == OpCode::kMin || op.code == OpCode::kMax || op.code == OpCode::kNeg || op.code == OpCode::kAbs;
  }
  const auto function = static_cast<MathFn>(std::get<int64_t>(op.attrs[0]));
  return function == MathFn::kFloor || function == MathFn::kCeil || function == MathFn::kRound ||
         function == MathFn::kTrunc || function == MathFn::kCopysign;
}

bool is_chained(const Op& op, ElementType element) {
  const OpFamily family = info(op.code).family;
  if (family != OpFamily::kArithmetic && family != OpFamily::kMath) return false;
  return is_small_float(element) && !(info(element).bits == 8 && keeps_infinity(op));
}

class Fusion {
 public:
  explicit Fusion(Kernel& kernel) : kernel_(kernel) {}

  // Appends what stands in place of the op.
  void rewrite(Op& op, std::vector<Op>& ops) {
    const Type type = op.operands.empty() ? Type{} : kernel_.type(op.operands[0]);
    if (is_chained(op, type.element)) {
      widen(op, type, ops);
    } else {
      ops.push_back(std::move(op));
    }
  }

 private:
  void widen(Op& op, const Type& type, std::vector<Op>& ops) {
    for (ValueId& operand : op.operands) operand = wide(operand, op.loc, ops);
    const ValueId result = op.results[0];
    // signbit, isnan and isinf give the same i1 of either.
    if (kernel_.type(result).element == ElementType::kI1) return ops.push_back(std::move(op));
    op.results[0] = fresh_value(kernel_, tile_type(ElementType::kF32, type.shape));
    wide_[result] = op.results[0];
    Op round = cast(op.results[0], result, type.element, op.loc);
    ops.push_back(std::move(op));
    ops.push_back(std::move(round));
  }

  // The f32 copy of a small float. A copy made here is for this op alone: another's region may not see it.
  ValueId wide(ValueId id, const Location& loc, std::vector<Op>& ops) {
    if (auto found = wide_.find(id); found != wide_.end()) return found->second;
    const ValueId copy = fresh_value(kernel_, tile_type(ElementType::kF32, kernel_.type(id).shape));
    ops.push_back(cast(id, copy, ElementType::kF32, loc));
    return copy;
  }

  static Op cast(ValueId from, ValueId to, ElementType element, const Location& loc) {
    return {OpCode::kCast, {from}, {to}, with_default_attrs(OpCode::kCast, {element}), {}, loc};
  }

  Kernel& kernel_;
  std::unordered_map<ValueId, ValueId> wide_;  // result of an op that ran in f32 → that op's own result
};

}  // namespace

Kernel fuse_precision(Kernel kernel) {
  if (!kernel.options.fuse_precision) return kernel;
  Fusion fusion(kernel);
  rewrite_ops(kernel, [&](Op& op, std::vector<Op>& ops) { fusion.rewrite(op, ops); });
  return canonicalise(kernel);
}

}  // namespace kiln::dsl
