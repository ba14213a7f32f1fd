// Facts: products, reductions, scans.
#include <algorithm>
#include <cmath>

#include "random/facts_rules.h"

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::OpCode;
using dsl::Precision;
using dsl::ReduceKind;

namespace {

// Sums up to here are exact whatever the order, of integers.
double exact_sum(ElementType accumulator) { return 2 / unit_of(accumulator); }

// One unit in the last place of 1, of a product's sums of floats. Operands of 8 bits are f8, or e2m1 in pairs.
double sum_unit(const Rule& rule, ElementType accumulator) {
  return dsl::info(rule.element(0)).bits == 8 ? std::ldexp(2.0, -rule.world.f8_sum_bits) : unit_of(accumulator);
}

// Relative error of one product by the precision.
double product_unit(const Rule& rule, Precision precision, ElementType accumulator) {
  switch (precision) {
    case Precision::kTf32:
      return 0x1p-9;
    case Precision::kTf32x3:
    case Precision::kBf16x3:
      return 0x1p-14;
    default:
      return sum_unit(rule, accumulator);
  }
}

Outcome sum_of_products(const Rule& rule, double depth, double factor, const Fact& acc, double unit,
                        ElementType accumulator, bool exact_operands) {
  const double total = depth * factor + acc.bound;
  if (!(total < largest_of(accumulator) / 4)) return open("a sum that may overflow, or of infinities");
  if (exact_operands && acc.integral && total <= 2 / sum_unit(rule, accumulator)) {
    Fact out = any_float(Level::kValue);
    out.bound = total;
    // A product of zero may be -0, but added to an accumulator that is not it is +0.
    out.integral = true;
    return fine(out);
  }
  if (rule.worst() == Level::kNear) return open("a product of inexact values");
  Fact out = near(0, (depth + 2) * unit * total + smallest_of(accumulator) * (depth + 1));
  return fine(out);
}

}  // namespace

Outcome dot_rule(const Rule& rule) {
  if (rule.op.code == OpCode::kDotScaled) {
    const Fact &a_scale = rule.in[1], &b_scale = rule.in[3];
    auto tame = [](const Fact& scale) { return scale.low >= 100 && scale.high <= 150; };
    if (!tame(a_scale) || !tame(b_scale)) return open("scales of every size");
    auto bound = [&](size_t i) { return rule.element(i) == ElementType::kU8 ? 6.0 : rule.in[i].bound; };
    const double scale = std::ldexp(1.0, static_cast<int>(a_scale.high + b_scale.high) - 254);
    const double depth = static_cast<double>(rule.extent(0, 1)) * (rule.element(0) == ElementType::kU8 ? 2 : 1);
    return sum_of_products(rule, depth, bound(0) * bound(2) * scale, rule.in[4], sum_unit(rule, ElementType::kF32),
                           ElementType::kF32, false);
  }
  const ElementType accumulator = rule.element(2);
  if (!dsl::is_float(accumulator)) return fine(any_int(accumulator, true));
  const auto precision = static_cast<Precision>(rule.number(0));
  const double depth = static_cast<double>(rule.extent(0, static_cast<size_t>(rule.type(0).rank()) - 1));
  const bool exact = rule.in[0].integral && rule.in[1].integral &&
                     (precision == Precision::kIeee || std::max(rule.in[0].bound, rule.in[1].bound) <= 256);
  return sum_of_products(rule, depth, rule.in[0].bound * rule.in[1].bound, rule.in[2],
                         product_unit(rule, precision, accumulator), accumulator, exact);
}

namespace {

// What of floats does not depend on the grouping. The casts are those of fused precision: to f32 and back.
bool keeps_floats_exact(const dsl::Region& region) {
  return std::all_of(region.ops.begin(), region.ops.end(), [](const dsl::Op& op) {
    return op.code == OpCode::kCmp || op.code == OpCode::kSelect || op.code == OpCode::kAnd || op.code == OpCode::kOr ||
           op.code == OpCode::kMin || op.code == OpCode::kMax || op.code == OpCode::kCast || op.code == OpCode::kYield;
  });
}

Outcome custom(const Rule& rule) {
  Outcome out;
  for (size_t i = 0; i < rule.in.size(); ++i) {
    if (!dsl::is_float(rule.element(i))) {
      out.results.push_back(any_int(rule.element(i), true));
      continue;
    }
    // With NaN a comparison is no order.
    if (!rule.in[i].is_bounded() || rule.in[i].level == Level::kNear || !keeps_floats_exact(rule.op.regions[0])) {
      return open("a region whose result on floats depends on the grouping");
    }
    out.results.push_back(any_float(Level::kAnyZero));
    out.results.back().bound = rule.in[i].bound;
  }
  return out;
}

Outcome float_sum(const Rule& rule, double length, bool is_scan) {
  const ElementType type = rule.element(0);
  const Fact& x = rule.in[0];
  // Reductions of small floats round once, at the end; scans may round at every step.
  const ElementType wide = type == ElementType::kF64 ? type : ElementType::kF32;
  const ElementType accumulator = is_scan ? type : wide;
  const double total = length * x.bound;
  if (!(total < largest_of(type) / 4)) return open("a sum that may overflow, or of infinities");
  if (x.integral && total <= exact_sum(accumulator)) {
    Fact out = any_float(Level::kValue);
    out.bound = total * (1 + unit_of(type));
    out.integral = total <= exact_sum(type);
    return fine(out);
  }
  if (length == 1) return fine(x);
  const double rounding = type == wide ? 0 : 1.01 * unit_of(type);
  return fine(near(rounding, length * unit_of(accumulator) * total + smallest_of(type)));
}

Outcome float_product(const Rule& rule, double length) {
  const ElementType type = rule.element(0);
  const Fact& x = rule.in[0];
  if (length == 1) return fine(x);
  const double total = std::pow(std::max(x.bound, 1.0), length);
  if (!(total < largest_of(type) / 4)) return open("a product that may overflow");
  return fine(near(length * unit_of(type), smallest_of(type) * length * total));
}

}  // namespace

Outcome combine_rule(const Rule& rule) {
  const auto kind = static_cast<ReduceKind>(rule.number(0));
  const bool is_scan = rule.op.code == OpCode::kScan;
  const auto length = static_cast<double>(rule.extent(0, static_cast<size_t>(rule.number(1))));
  const ElementType type = rule.element(0);
  if (kind == ReduceKind::kCustom) return custom(rule);
  if (rule.worst() == Level::kNear) return open("a reduction of inexact values");
  if (kind == ReduceKind::kArgmin || kind == ReduceKind::kArgmax) {
    Fact out;
    out.high = static_cast<Wide>(length) - 1;
    return fine(out);
  }
  if (!dsl::is_float(type)) {
    const bool keeps = kind == ReduceKind::kMin || kind == ReduceKind::kMax;
    return fine(keeps ? rule.in[0] : any_int(type, true));
  }
  switch (kind) {
    case ReduceKind::kSum:
      return rule.in[0].level > Level::kValue ? open("a sum of zeros of unknown sign")
                                              : float_sum(rule, length, is_scan);
    case ReduceKind::kProd:
      return rule.in[0].level > Level::kValue ? open("a product of zeros of unknown sign")
                                              : float_product(rule, length);
    default: {
      Fact out = rule.in[0];
      out.level = out.integral ? std::max(out.level, Level::kValue) : Level::kAnyZero;
      return fine(out);
    }
  }
}

}  // namespace kiln::random_kernel
