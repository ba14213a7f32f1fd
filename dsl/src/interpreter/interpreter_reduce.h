// What reduce and scan share.
#pragma once

#include <utility>

#include "interpreter/interpreter_impl.h"

namespace kiln::dsl::interpreter {

// Element i of all lines along an axis, for each operand of a reduce or scan.
void read_slice(const Machine& machine, const Op& op, const Lines& lines, size_t i, std::vector<Tile>& slice);

// While it lives, the region of a custom reduce or scan runs for so many lanes at once: a scalar that the region takes
// from outside has one element for each.
class CombineLanes {
 public:
  CombineLanes(Machine& machine, const Op& op, size_t lanes);
  ~CombineLanes();
  CombineLanes(const CombineLanes&) = delete;

 private:
  Machine& machine_;
  std::vector<std::pair<ValueId, Tile>> outer_;
};

// Whether an int sum, product, minimum or maximum would be an index that wrapped: the exact value beside the wrapping
// one. Bit operations begin a new value, as div and rem do.
class IndexWatch {
 public:
  explicit IndexWatch(ReduceKind kind) : kind_(kind) {}

  void take(Wide number, bool was_wrapped) {
    wrapped_ |= was_wrapped && kind_ <= ReduceKind::kMax;
    if (first_) exact_ = number;
    if (!first_ && kind_ == ReduceKind::kSum) exact_ += number;
    if (!first_ && kind_ == ReduceKind::kProd) wrapped_ |= __builtin_mul_overflow(exact_, number, &exact_);
    first_ = false;
  }
  bool wrapped(Wide result) const {
    const bool is_exact = kind_ == ReduceKind::kSum || kind_ == ReduceKind::kProd;
    return wrapped_ || (is_exact && result != exact_);
  }

 private:
  ReduceKind kind_;
  Wide exact_ = 0;
  bool first_ = true, wrapped_ = false;
};

}  // namespace kiln::dsl::interpreter
