// Where pointers come from, for rules about the order of accesses: which parameter, and whether lanes share addresses.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "kiln/dsl/uses.h"

namespace kiln::codegen {

class Pointers {
 public:
  explicit Pointers(const dsl::Kernel& kernel);

  // The number of the parameter that a pointer (tile) is derived from; nothing where run time chooses among several.
  std::optional<size_t> parameter(dsl::ValueId pointer) const;
  // No two lanes have the same address. Known for sums of arange · scalar; strides are taken to be at least as long as
  // what they step over.
  bool distinct(dsl::ValueId pointer);
  // The region whose run gives a value its elements.
  const dsl::Region* region(dsl::ValueId id) const { return def_use_.region(id); }

 private:
  void note_sources(const dsl::Op& op);
  void find_parameters();
  const std::vector<bool>& distinct_axes(dsl::ValueId id);
  std::vector<bool> distinct_axes_new(dsl::ValueId id);

  const dsl::Kernel& kernel_;
  const dsl::DefUse def_use_;
  std::vector<std::vector<dsl::ValueId>> sources_;  // what a value's addresses are derived from
  std::vector<int32_t> parameter_;                  // by value: a parameter's number, kNobody or kSeveral
  std::map<dsl::ValueId, std::vector<bool>> distinct_;
};

}  // namespace kiln::codegen
