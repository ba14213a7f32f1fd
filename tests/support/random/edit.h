// Small changes of a kernel, for the shrinker. None looks whether the result is still a kernel.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "kiln/dsl/rewrite.h"

namespace kiln::random_kernel {

// All ops in order of the text, but not those of combining regions: their associativity is the author's promise.
using Visit = std::function<void(dsl::Region& region, size_t index)>;
void visit_ops(dsl::Region& region, const Visit& visit);
// Op number `place` of that order.
void at_op(dsl::Kernel& kernel, size_t place, const Visit& visit);

std::vector<dsl::Op> ops_of(const dsl::Kernel& kernel);
size_t count_ops(const dsl::Kernel& kernel);  // but for yields
std::set<dsl::ValueId> used_values(const dsl::Kernel& kernel);
// Places of ops with no result that another op uses.
std::vector<size_t> ops_without_uses(const dsl::Kernel& kernel);

// Ops that no longer stand for a value are dropped by canonicalise().
dsl::Kernel without_ops(const dsl::Kernel& kernel, const std::vector<size_t>& places);

// One op with regions replaced by what it does: way 0 runs the first region (of `if`), or once the body; way 1 runs the
// second, or nothing.
constexpr int kWays = 2;
dsl::Kernel unwrapped(const dsl::Kernel& kernel, size_t place, int way);

// A constant of every element before the op, in place of its result.
dsl::Kernel with_constant(const dsl::Kernel& kernel, size_t place, size_t result, uint64_t bits);

// Every extent `from` becomes `to`, and types follow. An empty kernel where they cannot.
dsl::Kernel with_extent(const dsl::Kernel& kernel, int64_t from, int64_t to);

// The values that decide which addresses are written and how often loops run: changing one could make two lanes write
// to one address, or a loop endless, and so a failure of its own.
std::vector<bool> frozen_values(const dsl::Kernel& kernel);

}  // namespace kiln::random_kernel
