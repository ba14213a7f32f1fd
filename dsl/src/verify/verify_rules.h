// The parts of the verifier.
#pragma once

#include <string>

#include "ir/kernel_limits.h"
#include "kiln/dsl/ir.h"
#include "kiln/dsl/verify.h"

namespace kiln::dsl {

// Collects violations; beyond the first few it only counts.
class Report {
 public:
  explicit Report(const Kernel& kernel) : kernel_(kernel) {}
  void add(const Location& loc, const std::string& message);
  bool empty() const { return count_ == 0; }
  Result<void> result() const;

 private:
  static constexpr size_t kMaxShown = 20;
  const Kernel& kernel_;
  size_t count_ = 0;
  std::string text_;
};

// What is wrong with an expression's references, as the end of a sentence; "" when nothing is.
std::string expr_problem(const Kernel& kernel, const Expr& expr, bool params_allowed);

// Names, parameters, constexprs, space and grid.
void verify_header(const Kernel& kernel, Report& report);
// Indices, arity, attributes, definitions, dominance, regions and yields.
void verify_structure(const Kernel& kernel, Report& report);
// The types of all values; expects sound structure.
void verify_types(const Kernel& kernel, Report& report);
// No store through a pointer that comes from a read-only parameter; expects sound structure.
void verify_readonly(const Kernel& kernel, Report& report);

}  // namespace kiln::dsl
