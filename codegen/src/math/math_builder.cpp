#include "math/math_builder.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <numeric>

namespace kiln::codegen {
namespace {

using llvm::Value;

// 1.5·2^(mantissa bits): sums with it are rounded to integers, which stand in their low bits.
double rounding_shift(bool is_f64) { return is_f64 ? 0x1.8p52 : 0x1.8p23; }

constexpr int kAvx512Bits = 512;
constexpr int kCurrentRounding = 4;

}  // namespace

unsigned MathBuilder::lanes() const {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_);
  return vector ? vector->getNumElements() : 1;
}

std::string MathBuilder::type_name() const { return (is_f64() ? "f64." : "f32.") + std::to_string(lanes()); }

Value* MathBuilder::horner(Value* x, llvm::ArrayRef<double> coefficients, size_t first, size_t step) {
  size_t last = first + (coefficients.size() - 1 - first) / step * step;
  Value* sum = constant(coefficients[last]);
  while (last > first) sum = fma(sum, x, constant(coefficients[last -= step]));
  return sum;
}

// The first two steps from below are Horner's, for the accuracy; what is above them, in two or four interleaved chains:
// a CPU's window of waiting instructions holds too few vectors to hide the latency of one long chain.
Value* MathBuilder::polynomial(Value* x, Coefficients list) {
  const llvm::ArrayRef<double> coefficients(list);
  if (coefficients.size() < 8) return horner(x, coefficients, 0, 1);
  const llvm::ArrayRef<double> upper = coefficients.drop_front(2);
  Value* x2 = mul(x, x);
  Value* sum = nullptr;
  if (upper.size() < 9) {
    sum = fma(horner(x2, upper, 1, 2), x, horner(x2, upper, 0, 2));
  } else {
    Value* x4 = mul(x2, x2);
    Value* low = fma(horner(x4, upper, 1, 4), x, horner(x4, upper, 0, 4));
    Value* high = fma(horner(x4, upper, 3, 4), x, horner(x4, upper, 2, 4));
    sum = fma(high, x2, low);
  }
  return fma(fma(sum, x, constant(coefficients[1])), x, constant(coefficients[0]));
}

Rounded MathBuilder::round_product(Value* x, Value* factor) {
  Value* shift = constant(rounding_shift(is_f64()));
  Value* shifted = fma(x, factor, shift);
  return {sub(shifted, shift), bits(shifted)};
}

Value* MathBuilder::power_of_two(Value* n) {
  Value* one = int_constant(static_cast<int64_t>(exponent_bias()) << mantissa_bits());
  return from_bits(b.CreateAdd(b.CreateShl(n, int_constant(mantissa_bits())), one));
}

Value* MathBuilder::scale(Value* p, const Rounded& n) {
  if (fills_avx512()) return avx512_scale(p, n.value, nullptr);
  // In two exact steps, so that a subnormal result is rounded once. The shift leaves the floor of n/2 in the low bits.
  Value* half = b.CreateLShr(n.bits, int_constant(1));
  return mul(mul(p, power_of_two(half)), power_of_two(b.CreateSub(n.bits, half)));
}

Value* MathBuilder::scale_or_zero(Value* p, const Rounded& n, Value* vanishes) {
  if (fills_avx512()) return avx512_scale(p, n.value, vanishes);
  return scale(select(vanishes, constant(0), p), n);
}

Value* MathBuilder::avx512_scale(Value* p, Value* n, Value* vanishes) {
  llvm::SmallVector<Value*, 3> operands = {p, n};
  if (vanishes) operands.push_back(b.CreateNot(vanishes));
  const auto id =
      is_f64() ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512 : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512;
  return by_register(operands, [&](llvm::ArrayRef<Value*> part) {
    Value* kept = vanishes ? b.CreateBitCast(part[2], b.getIntNTy(is_f64() ? 8 : 16)) : every_lane();
    return b.CreateIntrinsic(
        id, {},
        {part[0], part[1], llvm::Constant::getNullValue(part[0]->getType()), kept, b.getInt32(kCurrentRounding)});
  });
}

Value* MathBuilder::to_float(Value* n) {
  if (!is_f64()) return b.CreateSIToFP(n, type_);
  // AVX2 has no conversion of 64-bit ints.
  Value* shift = constant(rounding_shift(true));
  return sub(from_bits(b.CreateAdd(n, bits(shift))), shift);
}

bool MathBuilder::fills_avx512() const { return options_.has_avx512 && lanes() % (is_f64() ? 8 : 16) == 0; }

Value* MathBuilder::by_register(llvm::ArrayRef<Value*> operands, EmitRegister emit) {
  const unsigned width = kAvx512Bits / (is_f64() ? 64 : 32);
  if (lanes() == width) return emit(operands);
  Value* out = nullptr;
  for (unsigned first = 0; first < lanes(); first += width) {
    std::vector<int> indices(width);
    std::iota(indices.begin(), indices.end(), static_cast<int>(first));
    llvm::SmallVector<Value*, 2> parts;
    for (Value* operand : operands) parts.push_back(b.CreateShuffleVector(operand, indices));
    Value* done = emit(parts);
    if (!out) {
      out = done;
      continue;
    }
    // Appends the part: widened to the length of what is there, then both side by side.
    std::vector<int> widen(first, -1), all(first + width);
    std::iota(widen.begin(), widen.begin() + width, 0);
    std::iota(all.begin(), all.end(), 0);
    out = b.CreateShuffleVector(out, b.CreateShuffleVector(done, widen), all);
  }
  return out;
}

Value* MathBuilder::near_reciprocal(Value* d) {
  if (has_estimates()) return estimate(Estimate::kReciprocal, d);
  if (!fills_avx512()) return b.CreateFDiv(constant(1.0), d);
  Value* estimate = by_register({d}, [&](llvm::ArrayRef<Value*> part) {
    const auto id = is_f64() ? llvm::Intrinsic::x86_avx512_rcp14_pd_512 : llvm::Intrinsic::x86_avx512_rcp14_ps_512;
    return b.CreateIntrinsic(id, {part[0], part[0], every_lane()});
  });
  if (!is_f64()) return estimate;
  // A step of third order.
  Value* error = fma(neg(d), estimate, constant(1.0));
  return fma(estimate, fma(error, error, error), estimate);
}

// A reciprocal and a correction by the remainder of the quotient, which doubles its bits.
Value* MathBuilder::quotient(Value* n, Value* d) {
  if (!fills_avx512() && !has_estimates()) return b.CreateFDiv(n, d);
  Value* reciprocal = near_reciprocal(d);
  Value* q = mul(n, reciprocal);
  if (options_.fast && has_estimates()) return q;
  return fma(fma(neg(d), q, n), reciprocal, q);
}

Value* MathBuilder::rsqrt_estimate(Value* x) {
  if (has_estimates()) return estimate(Estimate::kRsqrt, x);
  if (!fills_avx512()) return nullptr;
  return by_register({x}, [&](llvm::ArrayRef<Value*> part) {
    const auto id = is_f64() ? llvm::Intrinsic::x86_avx512_rsqrt14_pd_512 : llvm::Intrinsic::x86_avx512_rsqrt14_ps_512;
    return b.CreateIntrinsic(id, {part[0], part[0], every_lane()});
  });
}

Value* MathBuilder::avx512_mantissa(Value* x) {
  constexpr int kFrom075To15 = 3, kPositive = 3 << 2;
  return by_register({x}, [&](llvm::ArrayRef<Value*> part) {
    const auto id =
        is_f64() ? llvm::Intrinsic::x86_avx512_mask_getmant_pd_512 : llvm::Intrinsic::x86_avx512_mask_getmant_ps_512;
    return b.CreateIntrinsic(
        id, {}, {part[0], b.getInt32(kFrom075To15 | kPositive), part[0], every_lane(), b.getInt32(kCurrentRounding)});
  });
}

Value* MathBuilder::avx512_exponent(Value* x) {
  return by_register({x}, [&](llvm::ArrayRef<Value*> part) {
    const auto id =
        is_f64() ? llvm::Intrinsic::x86_avx512_mask_getexp_pd_512 : llvm::Intrinsic::x86_avx512_mask_getexp_ps_512;
    return b.CreateIntrinsic(id, {part[0], part[0], every_lane(), b.getInt32(kCurrentRounding)});
  });
}

Value* MathBuilder::avx512_lookup(std::span<const double, 16> table, Value* index) {
  const std::vector<float> entries(table.begin(), table.end());
  Value* constants = llvm::ConstantDataVector::get(b.getContext(), llvm::ArrayRef<float>(entries));
  return by_register({index}, [&](llvm::ArrayRef<Value*> part) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {constants, part[0]});
  });
}

Pair MathBuilder::two_sum(Value* x, Value* y) {
  Value* s = add(x, y);
  Value* from_y = sub(s, x);
  return {s, add(sub(x, sub(s, from_y)), sub(y, from_y))};
}

Pair MathBuilder::fast_two_sum(Value* x, Value* y) {
  Value* s = add(x, y);
  return {s, sub(y, sub(s, x))};
}

Pair MathBuilder::two_product(Value* x, Value* y) {
  Value* p = mul(x, y);
  if (has_fma()) return {p, fma(x, y, neg(p))};
  // Dekker's product of halves (Veltkamp's splitting).
  auto split = [&](Value* v) -> Pair {
    Value* scaled = mul(v, constant(0x1.001p12, 0x1.0000002p27));
    Value* high = sub(scaled, sub(scaled, v));
    return {high, sub(v, high)};
  };
  const Pair a = split(x), c = split(y);
  Value* error = sub(mul(a.high, c.high), p);
  error = add(error, mul(a.high, c.low));
  error = add(error, mul(a.low, c.high));
  return {p, add(error, mul(a.low, c.low))};
}

}  // namespace kiln::codegen
