// dot_scaled: the 32 elements along K that share a scale are multiplied as they are, by matrix instructions (or
// multiply-adds that stand for them) into sums of their own. Those come to the accumulator times both scales, so that
// no range but the result's matters.
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

Scale decode(Builder& b, Value* s) {
  const auto power = [&](Value* exponent) {
    Value* biased = b.CreateAdd(exponent, b.getInt32(127));
    return b.CreateBitCast(b.CreateShl(biased, 23), b.getFloatTy());
  };
  Value* wide = b.CreateZExt(s, b.getInt32Ty());
  Value* exponent = b.CreateSub(wide, b.getInt32(127));
  Value* half = b.CreateAShr(exponent, 1);
  Value* nan = b.CreateICmpEQ(wide, b.getInt32(0xff));
  Value* smaller = b.CreateSelect(nan, llvm::ConstantFP::getNaN(b.getFloatTy()), power(half));
  return {smaller, power(b.CreateSub(exponent, half))};
}

// The scales of the rows (or columns) that a thread has sums of, for all blocks of K.
class Scales {
 public:
  Scales(const Layout& sums, int other_axis) : lines_(without_copies_in_registers(slice(sums, other_axis))) {}

  Result<void> read(Context& c, ValueId id) {
    const Layout layout = broadcast(expand(lines_.layout, 1), padded_shape(c.type(id)));
    auto registers = c.get(id, layout);
    if (!registers) return registers.error();
    for (Value* s : *registers) scales_.push_back(decode(c.b, s));
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

}  // namespace

Result<void> lower_dot_scaled(Context& c, const Op& op) {
  Builder& b = c.b;
  const DotLayouts layouts = dot_layouts(c.kernel, op, c.target, c.block);
  const DotFragments& all = *layouts.fragments;
  auto x = c.get(op.operands[0], all.a), y = c.get(op.operands[2], all.b);
  if (!x || !y) return (x ? y : x).error();
  auto sums = fragment_sums(c, op.operands[4], layouts);
  if (!sums) return sums.error();
  Scales rows(all.sums, 1), columns(all.sums, 0);
  if (auto done = rows.read(c, op.operands[1]); !done) return done;
  if (auto done = columns.read(c, op.operands[3]); !done) return done;

  const int64_t steps = kBlock / all.instruction.a.shape()[1];
  const int64_t blocks = dsl::concrete_shape(c.type(op.operands[0]))[1] / kBlock;
  for (int64_t block = 0; block < blocks; ++block) {
    Registers products(sums->size(), llvm::ConstantFP::get(b.getFloatTy(), 0));
    for (int64_t k = 0; k < steps; ++k) multiply_fragments(c, all, *x, *y, products, 0, block * steps + k);
    for (size_t reg = 0; reg < sums->size(); ++reg) {
      const Scale &row = rows.at(static_cast<Bits>(reg), block), &column = columns.at(static_cast<Bits>(reg), block);
      Value* scaled = b.CreateFMul(products[reg], b.CreateFMul(row.smaller, column.larger));
      Value* factor = b.CreateFMul(row.larger, column.smaller);
      (*sums)[reg] = b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()}, {scaled, factor, (*sums)[reg]});
    }
  }
  c.define(op.results[0], without_copies(*sums, layouts));
  return {};
}

}  // namespace kiln::codegen::gpu
