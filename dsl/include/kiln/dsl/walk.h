// Walks over the ops of a kernel, those inside of other ops' regions included. A walk takes a Kernel, whose body it
// goes through, a Region, or (for_each_op, any_op) an Op, const or not, and owns nothing of it. Recursion follows how
// deep regions are nested, which is bounded (kMaxRegionDepth), never how long they are. Pure templates: a walk that
// only reads may run on several threads.
//
//   for_each_op(kernel, [&](const Op& op) { loads += op.code == OpCode::kLoad; });
//   if (const Op* dot = find_op(loop.regions[0], is_product)) …
#pragma once

#include <concepts>
#include <type_traits>

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

template <class T, class Of>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Of>;

// visit(region), then the regions inside, in program order. A visit may change the region.
template <MaybeConst<Region> R, class Visit>
void for_each_region(R& region, Visit&& visit) {
  visit(region);
  for (auto& op : region.ops) {
    for (auto& inner : op.regions) for_each_region(inner, visit);
  }
}

// The regions inside come first: a visit may give the region another list of ops.
template <MaybeConst<Region> R, class Visit>
void for_each_region_postorder(R& region, Visit&& visit) {
  for (auto& op : region.ops) {
    for (auto& inner : op.regions) for_each_region_postorder(inner, visit);
  }
  visit(region);
}

// visit(op) in program order, before what is inside of the op. A visit may change the op, but not the list it is in.
template <MaybeConst<Region> R, class Visit>
void for_each_op(R& region, Visit&& visit) {
  for (auto& op : region.ops) {
    visit(op);
    for (auto& inner : op.regions) for_each_op(inner, visit);
  }
}

// What is inside of an op comes before it.
template <MaybeConst<Region> R, class Visit>
void for_each_op_postorder(R& region, Visit&& visit) {
  for (auto& op : region.ops) {
    for (auto& inner : op.regions) for_each_op_postorder(inner, visit);
    visit(op);
  }
}

template <MaybeConst<Kernel> K, class Visit>
void for_each_region(K& kernel, Visit&& visit) {
  for_each_region(kernel.body, visit);
}
template <MaybeConst<Kernel> K, class Visit>
void for_each_region_postorder(K& kernel, Visit&& visit) {
  for_each_region_postorder(kernel.body, visit);
}
template <MaybeConst<Kernel> K, class Visit>
void for_each_op(K& kernel, Visit&& visit) {
  for_each_op(kernel.body, visit);
}
// The op itself, then what is inside of it.
template <MaybeConst<Op> O, class Visit>
void for_each_op(O& op, Visit&& visit) {
  visit(op);
  for (auto& inner : op.regions) for_each_op(inner, visit);
}
template <MaybeConst<Kernel> K, class Visit>
void for_each_op_postorder(K& kernel, Visit&& visit) {
  for_each_op_postorder(kernel.body, visit);
}

// The first op in the order of for_each_op for which `holds`; null where there is none.
template <MaybeConst<Region> R, std::predicate<const Op&> Holds>
auto find_op(R& region, const Holds& holds) -> decltype(region.ops.data()) {
  for (auto& op : region.ops) {
    if (holds(op)) return &op;
    for (auto& inner : op.regions) {
      if (auto* found = find_op(inner, holds)) return found;
    }
  }
  return nullptr;
}
template <MaybeConst<Kernel> K, std::predicate<const Op&> Holds>
auto find_op(K& kernel, const Holds& holds) {
  return find_op(kernel.body, holds);
}

// Whether `holds` for an op; of an Op: for it or one inside.
template <std::predicate<const Op&> Holds>
bool any_op(const Region& region, const Holds& holds) {
  return find_op(region, holds) != nullptr;
}
template <std::predicate<const Op&> Holds>
bool any_op(const Kernel& kernel, const Holds& holds) {
  return any_op(kernel.body, holds);
}
template <std::predicate<const Op&> Holds>
bool any_op(const Op& op, const Holds& holds) {
  if (holds(op)) return true;
  for (const Region& inner : op.regions) {
    if (any_op(inner, holds)) return true;
  }
  return false;
}

}  // namespace kiln::dsl
