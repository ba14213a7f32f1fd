#include "cpu/sinks.h"

#include <algorithm>
#include <utility>

#include "cpu/schedule.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {

using dsl::Op;
using dsl::OpCode;
using dsl::Region;
using dsl::ValueId;

void ProgramOrder::number(const Region& region) {
  for (const Op& op : region.ops) {
    const auto begin = static_cast<int>(ops.size());
    ops.push_back(&op);
    for (const Region& inner : op.regions) {
      around[&inner] = &op;
      number(inner);
    }
    places[&op] = {begin, static_cast<int>(ops.size()), &region};
  }
}

const Op& ProgramOrder::within(const Region& region, const Op& op) const {
  const Op* at = &op;
  for (const Region* here = place(op).region; here != &region; here = place(*at).region) at = around.at(here);
  return *at;
}

bool is_sink(const Op& op) {
  return is_eager(op.code) || dsl::info(op.code).has(dsl::kEffect) || op.code == OpCode::kYield;
}

bool makes_code(const Op& op) { return op.code != OpCode::kAssume && op.code != OpCode::kRequire; }

namespace {

void add(Sinks& sinks, const Sinks::Until& until) {
  if (!until.sink) return;
  if (sinks.last.sink == until.sink) {
    sinks.last.end = std::max(sinks.last.end, until.end);
  } else if (until.end > sinks.last.end) {
    sinks.last_but_one = std::exchange(sinks.last, until);
  } else if (sinks.last_but_one.sink == until.sink || until.end > sinks.last_but_one.end) {
    sinks.last_but_one = {until.sink, std::max(until.end, sinks.last_but_one.end)};
  }
}

void add(Sinks& sinks, const Sinks::Write& write) {
  for (Sinks::Write& known : sinks.writes) {
    if (known.parameter != write.parameter) continue;
    if (known.pointer != write.pointer) known.pointer = dsl::kNoValue;
    known.in_place = known.in_place && write.in_place;
    return;
  }
  sinks.writes.push_back(write);
}

bool moves_elements(const Op& op) { return !is_elementwise(op) && op.code != OpCode::kLoad; }

// What `user` adds to the sinks of a value of `region`.
void add_user(Sinks& out, const Op& user, const Region* region, const ProgramOrder& order, const Pointers& pointers,
              const std::vector<Sinks>& all) {
  const Place& place = order.place(user);
  const bool inside = place.region != region;
  // Visited as often as the loop runs: all of that counts.
  const int end = inside && region ? order.place(order.within(*region, user)).end : place.begin;
  if (is_sink(user)) {
    add(out, Sinks::Until{&user, end});
    out.elsewhere = out.elsewhere || inside;
    if (dsl::info(user.code).has(dsl::kWrites)) {
      const ValueId pointer = user.operands[0];
      add(out, Sinks::Write{pointers.parameter(pointer), pointer, user.code == OpCode::kStore});
    }
    return;
  }
  for (ValueId result : user.results) {
    const Sinks& its = all[result];
    for (const Sinks::Until& until : {its.last, its.last_but_one}) {
      add(out, Sinks::Until{until.sink, inside ? end : until.end});
    }
    out.elsewhere = out.elsewhere || (inside ? its.any() : its.elsewhere);
    for (Sinks::Write write : its.writes) {
      write.in_place = write.in_place && !moves_elements(user);
      add(out, write);
    }
  }
}

}  // namespace

std::vector<Sinks> find_sinks(const dsl::Kernel& kernel, const ProgramOrder& order, const Pointers& pointers,
                              const std::vector<const Region*>& defining_region) {
  std::vector<Sinks> out(kernel.values.size());
  // Users stand behind what they use.
  for (size_t i = order.ops.size(); i-- > 0;) {
    const Op& op = *order.ops[i];
    if (!makes_code(op)) continue;
    for (ValueId operand : op.operands) {
      if (!kernel.type(operand).is_scalar()) add_user(out[operand], op, defining_region[operand], order, pointers, out);
    }
  }
  return out;
}

std::vector<int> find_groups(const dsl::Kernel& kernel, const ProgramOrder& order,
                             const std::vector<std::vector<const Op*>>& groups) {
  constexpr int kOther = -1, kNothing = -2;
  std::unordered_map<const Op*, int> group_of;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const Op* sink : groups[g]) group_of[sink] = static_cast<int>(g);
  }
  std::vector<int> out(kernel.values.size(), kNothing);
  const auto join = [&](int& into, int group) {
    if (group != kNothing) into = into == kNothing || into == group ? group : kOther;
  };
  for (size_t i = order.ops.size(); i-- > 0;) {
    const Op& op = *order.ops[i];
    if (!makes_code(op)) continue;
    int group = kNothing;
    if (is_sink(op)) {
      const auto found = group_of.find(&op);
      group = found == group_of.end() ? kOther : found->second;
    } else {
      for (ValueId result : op.results) join(group, out[result]);
    }
    for (ValueId operand : op.operands) join(out[operand], group);
  }
  for (int& group : out) group = std::max(group, kOther);
  return out;
}

}  // namespace kiln::codegen::cpu
