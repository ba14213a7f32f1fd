// sin, cos and tan: x = n·π/2 + r with |r| ≤ π/4 and a little, polynomials for sin r and cos r, and a choice by n
// mod 4.
//
// Arguments below a limit reduce by Cody and Waite's method. With FMA, π/2 stands in parts of full precision: x -
// n·π/2's first step is exact, since both x and n·(first part) are multiples of the part's last place and nearly
// cancel; what the further steps round is small beside r. Without FMA the parts are so short that their products with n
// are exact, for f32 in f64. Larger arguments take a rare path behind one branch (reduce_large.cpp).
#include <llvm/IR/Function.h>
#include <llvm/IR/Module.h>

#include "math/math_builder.h"
#include "math/stack_slot.h"

namespace kiln::codegen {
namespace {

using dsl::MathFn;
using llvm::BasicBlock;
using llvm::Value;

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

struct Reduced {
  Value* r;
  Value* quadrant;  // in the low two bits
};

// From here on arguments are large: n would lose its last bit or its products their exactness.
double large_argument(const MathBuilder& m) {
  if (m.is_f64()) return m.has_fma() ? 0x1p40 : 0x1p20;
  return m.has_fma() ? 0x1p18 : 0x1p28;
}

Value* subtract_parts(MathBuilder& m, Value* x, Value* n, std::initializer_list<double> parts) {
  for (double part : parts) x = m.fma(n, m.constant(-part), x);
  return x;
}

// Of f32 without FMA, through f64.
Reduced reduce_through_f64(MathBuilder& m, Value* x) {
  auto& b = m.b;
  MathBuilder wide(b, m.type()->getWithNewType(b.getDoubleTy()), m.options());
  Value* xd = b.CreateFPExt(x, wide.type());
  const Rounded n = wide.round_product(xd, wide.constant(kTwoOverPi));
  Value* r = subtract_parts(wide, xd, n.value, {0x1.921fb5p+0, 0x1.110b46p-26, 0x1.1a62633145c07p-54});
  return {b.CreateFPTrunc(r, m.type()), b.CreateTrunc(n.bits, m.int_type())};
}

Reduced reduce_small(MathBuilder& m, Value* x) {
  if (!m.is_f64() && !m.has_fma()) return reduce_through_f64(m, x);
  const Rounded n = m.round_product(x, m.constant(kTwoOverPi));
  Value* r = nullptr;
  if (!m.is_f64()) {
    r = subtract_parts(m, x, n.value, {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50});
  } else if (m.has_fma()) {
    r = subtract_parts(m, x, n.value, {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110});
  } else {
    r = subtract_parts(m, x, n.value, {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69, 0x1.b839a252049c1p-104});
  }
  return {r, n.bits};
}

// Least squares at Chebyshev nodes on |r| ≤ 0.81 (f64: 0.7855), relative errors: sin r = r + r³·S(r²), f32 2^-27.6, f64
// 2^-57.9; cos r = 1 - r²/2 + r⁴·C(r²), f32 2^-32.5, f64 2^-63.8.
Value* sine(MathBuilder& m, Value* r, Value* z) {
  Value* s = m.polynomial(z, {-0x1.555542p-3, 0x1.1105fap-7, -0x1.98d73cp-13},
                          {-0x1.5555555555548p-3, 0x1.111111110f75cp-7, -0x1.a01a019bf1f88p-13, 0x1.71de355ede0bep-19,
                           -0x1.ae5e5453375fdp-26, 0x1.5d8e2c6c2e988p-33});
  return m.fma(m.mul(z, r), s, r);
}

Value* cosine(MathBuilder& m, Value* z) {
  Value* c = m.polynomial(z, {0x1.555548p-5, -0x1.6c0aecp-10, 0x1.998d62p-16},
                          {0x1.555555555554ap-5, -0x1.6c16c16c14e49p-10, 0x1.a01a019c6874p-16, -0x1.27e4f7d8d9634p-22,
                           0x1.1ee9ccaafe339p-29, -0x1.8f9f5a29f5f83p-37});
  return m.fma(m.mul(z, z), c, m.fma(z, m.constant(-0.5), m.constant(1.0)));
}

Value* evaluate(MathBuilder& m, MathFn fn, Value* x, const Reduced& reduced) {
  auto& b = m.b;
  Value* z = m.mul(reduced.r, reduced.r);
  Value *s = sine(m, reduced.r, z), *c = cosine(m, z);
  const int sign_bit = m.is_f64() ? 63 : 31;
  Value* quadrant = fn == MathFn::kCos ? b.CreateAdd(reduced.quadrant, m.int_constant(1)) : reduced.quadrant;
  Value* odd = b.CreateICmpNE(b.CreateAnd(quadrant, m.int_constant(1)), m.int_constant(0));
  Value* result = nullptr;
  if (fn == MathFn::kTan) {
    Value* flip = b.CreateShl(quadrant, m.int_constant(sign_bit));
    Value* numerator = m.from_bits(b.CreateXor(m.bits(m.select(odd, c, s)), flip));
    result = m.quotient(numerator, m.select(odd, s, c));
  } else {
    Value* flip = b.CreateShl(b.CreateAnd(quadrant, m.int_constant(2)), m.int_constant(sign_bit - 1));
    result = m.from_bits(b.CreateXor(m.bits(m.select(odd, c, s)), flip));
  }
  // The reduction loses the sign of -0.
  return fn == MathFn::kCos ? result : m.select(m.equal(x, m.constant(0)), x, result);
}

// Of large arguments. A vector's go one by one, through memory, which where frames are slow a single one need not.
Reduced reduce_rare(MathBuilder& m, Value* x, const Reduced& small, double limit) {
  auto& b = m.b;
  llvm::Module& module = *b.GetInsertBlock()->getModule();
  llvm::Type *type = m.type(), *int_type = m.int_type();
  if (!type->isVectorTy()) {
    Value* reduced = b.CreateCall(reduce_large(module), {b.CreateFPExt(x, b.getDoubleTy())});
    return {b.CreateFPTrunc(b.CreateExtractValue(reduced, 0), type),
            b.CreateTrunc(b.CreateExtractValue(reduced, 1), int_type)};
  }
  const auto slot = [&](Value* value) {
    llvm::BasicBlock& entry = b.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> at_entry(&entry, entry.begin());
    Value* out = stack_slot(at_entry, value->getType());
    b.CreateStore(value, out);
    return out;
  };
  Value *x_slot = slot(x), *r_slot = slot(small.r), *q_slot = slot(small.quadrant);
  b.CreateCall(reduce_lanes(module, m, limit), {x_slot, r_slot, q_slot});
  return {b.CreateLoad(type, r_slot), b.CreateLoad(int_type, q_slot)};
}

// One function a type, inlined by the pipeline: it has a branch, which the caller's block must not care about.
llvm::Function* trig_function(MathBuilder& outer, MathFn fn) {
  llvm::Module& module = *outer.b.GetInsertBlock()->getModule();
  llvm::Type* type = outer.type();
  const char* stem = fn == MathFn::kSin ? "kiln.sin." : fn == MathFn::kCos ? "kiln.cos." : "kiln.tan.";
  const std::string name = stem + outer.type_name();
  if (auto* existing = module.getFunction(name)) return existing;
  auto& context = module.getContext();
  llvm::IRBuilder<> b(context);
  auto* function = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false), llvm::Function::InternalLinkage,
                                          name, module);
  function->addFnAttr(llvm::Attribute::AlwaysInline);
  auto* entry = BasicBlock::Create(context, "entry", function);
  auto* rare = BasicBlock::Create(context, "rare", function);
  auto* join = BasicBlock::Create(context, "join", function);
  b.SetInsertPoint(entry);
  MathBuilder m(b, type, outer.options());
  Value* x = function->getArg(0);
  const Reduced reduced = reduce_small(m, x);
  const double limit = large_argument(m);
  Value* large = b.CreateFCmpUGE(m.abs(x), m.constant(limit));
  b.CreateCondBr(type->isVectorTy() ? b.CreateOrReduce(large) : large, rare, join);
  b.SetInsertPoint(rare);
  const Reduced of_large = reduce_rare(m, x, reduced, limit);
  b.CreateBr(join);
  b.SetInsertPoint(join);
  auto *r = b.CreatePHI(type, 2), *quadrant = b.CreatePHI(m.int_type(), 2);
  r->addIncoming(reduced.r, entry);
  r->addIncoming(of_large.r, rare);
  quadrant->addIncoming(reduced.quadrant, entry);
  quadrant->addIncoming(of_large.quadrant, rare);
  b.CreateRet(evaluate(m, fn, x, {r, quadrant}));
  return function;
}

// x less the nearest multiple of 2π, in two parts, by the target's estimates: the error grows with x.
Value* trig_by_estimate(MathBuilder& m, MathFn fn, Value* x) {
  const Rounded n = m.round_product(x, m.constant(kTwoOverPi / 4));
  Value* r = subtract_parts(m, x, n.value, {0x1.921fb6p+2, -0x1.777a5cp-23});
  if (fn == MathFn::kCos) return m.estimate(Estimate::kCos, r);
  Value* sine = m.estimate(Estimate::kSin, r);
  return fn == MathFn::kSin ? sine : m.quotient(sine, m.estimate(Estimate::kCos, r));
}

}  // namespace

Value* emit_trig(MathBuilder& m, MathFn fn, Value* x) {
  if (m.has_estimates() && m.options().fast) return trig_by_estimate(m, fn, x);
  return m.b.CreateCall(trig_function(m, fn), {x});
}

}  // namespace kiln::codegen
