// The rules behind facts_of, by family.
#pragma once

#include "random/facts.h"

namespace kiln::random_kernel {

struct Rule {
  const World& world;
  const dsl::Op& op;
  const std::vector<Fact>& in;

  const dsl::Type& type(size_t operand) const { return world.kernel.type(op.operands[operand]); }
  dsl::ElementType element(size_t operand) const { return type(operand).element; }
  bool of_floats() const { return dsl::is_float(element(0)); }
  int64_t number(size_t attr) const { return std::get<int64_t>(op.attrs[attr]); }
  int64_t expr(size_t attr) const { return world.value(std::get<dsl::Expr>(op.attrs[attr])); }
  int64_t extent(size_t operand, size_t axis) const { return world.value(type(operand).shape[axis]); }
  Level worst() const;
};

inline Outcome fine(Fact fact) { return {"", {fact}}; }
inline Outcome open(std::string why) { return {std::move(why), {}}; }
Fact any_int(dsl::ElementType type, bool may_wrap);
// An exact float of which only the level is known.
Fact any_float(Level level);
Fact near(double rtol, double atol);

Outcome int_rule(const Rule& rule);      // add … abs, mulhi, bits
Outcome float_rule(const Rule& rule);    // add … abs, fma
Outcome math_rule(const Rule& rule);     // math
Outcome cast_rule(const Rule& rule);     // cast, bitcast
Outcome memory_rule(const Rule& rule);   // addptr … gather_rows
Outcome dot_rule(const Rule& rule);      // dot, dot_scaled
Outcome combine_rule(const Rule& rule);  // reduce, scan

}  // namespace kiln::random_kernel
