// dot_scaled, by the target's own instruction where it has one. Elsewhere the 32 elements along K that share a scale
// are multiplied as they are, by matrix instructions (or multiply-adds that stand for them) into sums of their own.
// Those come to the accumulator times both scales, so that no range but the result's matters.
#include "gpu/dot/dot_scaled.h"

#include <bit>

#include "gpu/dot/dot_fragments.h"
#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int64_t kBlock = 32;  // elements along K that share a scale

// 2^(s - 127) as the product of two, with exponents that differ by 1 at most: neither of the products that two scales
// make of their first and second halves leaves f32, as one's larger half meets the other's smaller one.
struct Scale {
  Value *smaller, *larger;
};

Scale decode(Builder& ir, Value* s) {
  const auto power = [&](Value* exponent) {
    Value* biased = ir.CreateAdd(exponent, ir.getInt32(127));
    return ir.CreateBitCast(ir.CreateShl(biased, 23), ir.getFloatTy());
  };
  Value* wide = ir.CreateZExt(s, ir.getInt32Ty());
  Value* exponent = ir.CreateSub(wide, ir.getInt32(127));
  Value* half = ir.CreateAShr(exponent, 1);
  Value* nan = ir.CreateICmpEQ(wide, ir.getInt32(0xff));
  Value* smaller = ir.CreateSelect(nan, llvm::ConstantFP::getNaN(ir.getFloatTy()), power(half));
  return {smaller, power(ir.CreateSub(exponent, half))};
}

// The scales of the rows (or columns) that a thread has sums of, for all blocks of K.
class Scales {
 public:
  Scales(const Layout& accumulators, int other_axis)
      : lines_(without_copies_in_registers(slice(accumulators, other_axis))) {}

  Result<void> read(Context& ctx, ValueId id) {
    const Layout layout = broadcast(expand(lines_.layout, 1), padded_shape(ctx.type(id)));
    auto registers = ctx.get(id, layout);
    if (!registers) return registers.error();
    for (Value* s : *registers) scales_.push_back(decode(ctx.ir, s));
    return {};
  }

  const Scale& at(Bits sum_register, int64_t block) const {
    const Bits line = multiply(lines_.kept, sum_register);
    return scales_[line | static_cast<Bits>(block) << lines_.layout.bits(Dim::kRegister)];
  }

 private:
  Deduplicated lines_;
  std::vector<Scale> scales_;
};

Result<void> multiply_by_target(Context& ctx, const Op& op, const DotFragments& all, const Registers& x,
                                const Registers& y, Registers& accumulators) {
  auto rows = ctx.get(op.operands[1], all.scaled->a_scales);
  if (!rows) return rows.error();
  auto columns = ctx.get(op.operands[3], all.scaled->b_scales);
  if (!columns) return columns.error();
  for (int64_t k = 0; k < all.k; ++k) {
    multiply_scaled_fragments(ctx, all, x, y, *rows, *columns, accumulators, k);
  }
  return {};
}

Result<void> multiply_by_blocks(Context& ctx, const Op& op, const DotFragments& all, const Registers& x,
                                const Registers& y, Registers& accumulators) {
  Builder& ir = ctx.ir;
  Scales rows(all.accumulators, 1), columns(all.accumulators, 0);
  if (auto done = rows.read(ctx, op.operands[1]); !done) return done;
  if (auto done = columns.read(ctx, op.operands[3]); !done) return done;
  const int64_t steps = kBlock / all.instruction.a.shape()[1];
  const int64_t blocks = dsl::concrete_shape(ctx.type(op.operands[0]))[1] / kBlock;
  for (int64_t block = 0; block < blocks; ++block) {
    Registers products(accumulators.size(), llvm::ConstantFP::get(ir.getFloatTy(), 0));
    for (int64_t k = 0; k < steps; ++k) multiply_fragments(ctx, all, x, y, products, 0, block * steps + k);
    for (size_t reg = 0; reg < accumulators.size(); ++reg) {
      const Scale &row = rows.at(static_cast<Bits>(reg), block), &column = columns.at(static_cast<Bits>(reg), block);
      Value* scaled = ir.CreateFMul(products[reg], ir.CreateFMul(row.smaller, column.larger));
      Value* factor = ir.CreateFMul(row.larger, column.smaller);
      accumulators[reg] =
          ir.CreateIntrinsic(llvm::Intrinsic::fma, {ir.getFloatTy()}, {scaled, factor, accumulators[reg]});
    }
  }
  return {};
}

}  // namespace

Result<void> lower_dot_scaled(Context& ctx, const Op& op) {
  const DotLayouts layouts = dot_layouts(ctx.kernel, op, ctx.target, ctx.block);
  const DotFragments& all = *layouts.fragments;
  auto x = ctx.get(op.operands[0], all.a), y = ctx.get(op.operands[2], all.b);
  if (!x || !y) return (x ? y : x).error();
  auto accumulators = fragment_accumulators(ctx, op.operands[4], layouts);
  if (!accumulators) return accumulators.error();
  auto done = all.scaled ? multiply_by_target(ctx, op, all, *x, *y, *accumulators)
                         : multiply_by_blocks(ctx, op, all, *x, *y, *accumulators);
  if (!done) return done;
  ctx.define(op.results[0], without_copies(*accumulators, layouts));
  return {};
}

}  // namespace kiln::codegen::gpu
