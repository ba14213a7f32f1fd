// What the op table says of ops (ops.def). Pure functions.
#pragma once

#include "kiln/dsl/walk.h"

namespace kiln::dsl {

inline OpFamily family_of(const Op& op) { return info(op.code).family; }

// Of the op itself. Pure: without an effect, and the same where it is computed again; loops, branches and loads are
// not.
inline bool is_pure(const Op& op) { return info(op.code).has(kPure); }
inline bool is_elementwise(const Op& op) { return info(op.code).has(kElementwise); }
// broadcast, expand_dims, permute.
inline bool is_view(const Op& op) { return family_of(op) == OpFamily::kView; }

// Of an op or a region: whether an op, those inside of others included, has one of these traits.
inline bool has_trait(const Op& op, uint32_t traits) {
  return any_op(op, [&](const Op& each) { return (info(each.code).traits & traits) != 0; });
}
inline bool has_trait(const Region& region, uint32_t traits) {
  return any_op(region, [&](const Op& each) { return (info(each.code).traits & traits) != 0; });
}

// Memory, through a pointer or a descriptor.
template <class T>
bool may_read(const T& of) {
  return has_trait(of, kReads);
}
template <class T>
bool may_write(const T& of) {
  return has_trait(of, kWrites);
}
template <class T>
bool touches_memory(const T& of) {
  return has_trait(of, kReads | kWrites);
}
// It keeps its place among others of this kind: it writes, checks, prints or states.
template <class T>
bool has_effect(const T& of) {
  return has_trait(of, kEffect);
}

}  // namespace kiln::dsl
