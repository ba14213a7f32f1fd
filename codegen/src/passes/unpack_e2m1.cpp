#include "passes/unpack_e2m1.h"

#include "kiln/dsl/op_builder.h"
#include "kiln/dsl/rewrite.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Expr;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

class Unpacking {
 public:
  Unpacking(dsl::Kernel& kernel, std::vector<Op>& out, const dsl::Location& loc) : b_(kernel, out, loc) {}

  ValueId operand(ValueId packed, bool is_second) {
    const std::vector<Expr> shape = b_.type(packed).shape;
    const ValueId low = code(b_.add(OpCode::kAnd, {packed, fill(15, shape)}), shape);
    const ValueId high = code(b_.add(OpCode::kShr, {packed, fill(4, shape)}), shape);
    ValueId pairs = b_.add(OpCode::kJoin, {low, high});
    if (is_second) pairs = b_.add(OpCode::kPermute, {pairs}, {std::vector<Expr>{0, 2, 1}});
    std::vector<Expr> whole = shape;
    whole[is_second ? 0 : 1] = Expr(2) * whole[is_second ? 0 : 1];
    const ValueId codes = b_.add(OpCode::kReshape, {pairs}, {whole});
    return b_.add(OpCode::kBitcast, {codes}, {ElementType::kF8E4M3});
  }

 private:
  ValueId fill(uint64_t value, const std::vector<Expr>& shape) {
    return b_.splat(b_.constant(ElementType::kU8, value), shape);
  }

  // e2m1 to e4m3: the sign moves from bit 3 to bit 7, the exponent's bias grows from 1 to 7; 0 and the subnormal 0.5
  // (which is 2^-1, exponent 6) stand for themselves.
  ValueId code(ValueId nibble, const std::vector<Expr>& shape) {
    const ValueId magnitude = b_.add(OpCode::kAnd, {nibble, fill(7, shape)});
    const ValueId sign = b_.add(OpCode::kShl, {b_.add(OpCode::kAnd, {nibble, fill(8, shape)}), fill(4, shape)});
    const ValueId shifted = b_.add(OpCode::kShl, {magnitude, fill(2, shape)});
    const ValueId normal = b_.add(OpCode::kAdd, {shifted, fill(6 << 3, shape)});
    const ValueId small = b_.add(OpCode::kMul, {magnitude, fill(6 << 3, shape)});
    const auto below = static_cast<int64_t>(dsl::Predicate::kLt);
    const ValueId is_small = b_.add(OpCode::kCmp, {magnitude, fill(2, shape)}, {below});
    return b_.add(OpCode::kOr, {b_.add(OpCode::kSelect, {is_small, small, normal}), sign});
  }

  OpBuilder b_;
};

}  // namespace

dsl::Kernel unpack_e2m1(dsl::Kernel kernel) {
  dsl::rewrite_ops(kernel, [&](Op& op, std::vector<Op>& out) {
    if (op.code == OpCode::kDotScaled) {
      for (size_t i : {size_t{0}, size_t{2}}) {
        if (kernel.type(op.operands[i]).element != ElementType::kU8) continue;
        op.operands[i] = Unpacking(kernel, out, op.loc).operand(op.operands[i], i != 0);
      }
    }
    out.push_back(std::move(op));
  });
  return kernel;
}

}  // namespace kiln::codegen
