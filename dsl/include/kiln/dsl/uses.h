// Where the values of a kernel are defined and used. The tables point into the kernel: they hold as long as it lives
// and no list of ops in it changes. They own no op; reading them is safe on several threads.
#pragma once

#include <span>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// By value: the op that it is a result of; null for parameters and the arguments of regions.
std::vector<const Op*> definitions(const Kernel& kernel);

// By value: how many operands name it; an op that takes it twice counts twice. Points at nothing: passes that change
// the kernel keep it up to date themselves.
std::vector<uint32_t> count_uses(const Kernel& kernel);

// Whether an operand names it.
bool is_used(const Kernel& kernel, ValueId id);

// All of it.
class DefUse {
 public:
  explicit DefUse(const Kernel& kernel);

  // As definitions().
  const Op* definition(ValueId id) const { return definition_[id]; }
  // The region whose run gives it its elements: that of its op, or the one that it is an argument of; the kernel's
  // body for parameters.
  const Region* region(ValueId id) const { return region_[id]; }
  // The ops that take it, in program order; one that takes it twice comes twice.
  std::span<const Op* const> users(ValueId id) const {
    return std::span(users_).subspan(first_user_[id], first_user_[id + 1] - first_user_[id]);
  }
  // As count_uses().
  size_t uses(ValueId id) const { return users(id).size(); }

 private:
  std::vector<const Op*> definition_;
  std::vector<const Region*> region_;
  std::vector<size_t> first_user_;  // by value, and one behind the last: into users_
  std::vector<const Op*> users_;
};

}  // namespace kiln::dsl
