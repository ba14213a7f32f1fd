// The trace: loops and the variables they carry.
#include <algorithm>
#include <map>

#include "trace.h"

namespace kiln::dsl::lang {
namespace {

using Replacements = std::map<ValueId, ValueId>;

ValueId replaced(const Replacements& replacements, ValueId id) {
  auto found = replacements.find(id);
  return found == replacements.end() ? id : found->second;
}

void replace_uses(std::vector<Op>& ops, const Replacements& replacements) {
  for (Op& op : ops) {
    for (ValueId& id : op.operands) id = replaced(replacements, id);
    for (Region& region : op.regions) replace_uses(region.ops, replacements);
  }
}

}  // namespace

Value Trace::open_loop(const std::vector<Value>& bounds, Expr stages, const std::source_location& loc) {
  OpenLoop loop{next_region_++, {}, {}, std::move(stages), loc, {}};
  for (const Value& bound : bounds) loop.bounds.push_back(bound.id());
  const Type index_type = type(bounds[0]);
  loops_.push_back(std::move(loop));
  Value index = add_value(index_type);
  loops_.back().region.args.push_back(index.id());
  return index;
}

void Trace::close_loop() {
  OpenLoop loop = std::move(loops_.back());
  loops_.pop_back();
  // In the order of their declaration: the order of first touch depends on how a host compiler evaluates operands.
  std::sort(loop.carried.begin(), loop.carried.end(),
            [](const Carried& a, const Carried& b) { return a.slot < b.slot; });

  Replacements only_read;
  std::vector<Carried> kept;
  for (const Carried& carried : loop.carried) {
    Slot& slot = slots_[carried.slot];
    if (slot.now == carried.arg || slot.now == kNoValue) {
      only_read[carried.arg] = carried.init;
      if (slot.now != kNoValue) slot.now = carried.init;
    } else {
      kept.push_back(carried);
    }
  }

  Op op{OpCode::kFor, loop.bounds, {}, {std::move(loop.stages)}, {}, intern(loop.loc)};
  Op yield{OpCode::kYield, {}, {}, {}, {}, op.loc};
  replace_uses(loop.region.ops, only_read);
  for (const Carried& carried : kept) {
    Slot& slot = slots_[carried.slot];
    op.operands.push_back(carried.init);
    loop.region.args.push_back(carried.arg);
    yield.operands.push_back(replaced(only_read, slot.now));
    op.results.push_back(add_value(kernel_.values[carried.arg].type).id());
    slot.now = op.results.back();
  }
  loop.region.ops.push_back(std::move(yield));
  op.regions.push_back(std::move(loop.region));
  ops().push_back(std::move(op));
}

void Trace::abandon_loop() {
  for (const Carried& carried : loops_.back().carried) slots_[carried.slot].now = carried.init;
  loops_.pop_back();
}

uint32_t Trace::add_slot(const Value& init) {
  slots_.push_back({init.id(), loops_.size()});
  return static_cast<uint32_t>(slots_.size() - 1);
}

// Makes the slot an argument of every open loop that was opened after it was made, from the outermost inwards.
void Trace::carry(uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.now == kNoValue) return;
  for (size_t depth = slot.depth; depth < loops_.size(); ++depth) {
    OpenLoop& loop = loops_[depth];
    auto is_slot = [index](const Carried& carried) { return carried.slot == index; };
    if (std::any_of(loop.carried.begin(), loop.carried.end(), is_slot)) continue;
    const Value arg = add_value(kernel_.values[slot.now].type);
    fact(arg) = {loop.serial, std::nullopt, facts_[slot.now].readonly};
    loop.carried.push_back({index, slot.now, arg.id()});
    slot.now = arg.id();
  }
}

Value Trace::read_slot(uint32_t slot) {
  carry(slot);
  return {slots_[slot].now, serial_};
}

void Trace::write_slot(uint32_t index, const Value& value, const std::source_location& loc) {
  carry(index);
  Slot& slot = slots_[index];
  if (!usable(value, loc)) {
    slot.now = kNoValue;
    return;
  }
  const bool is_carried = slot.depth < loops_.size();
  if (is_carried && slot.now != kNoValue && type(value) != kernel_.values[slot.now].type) {
    report(loc, "a variable carried by a loop keeps its type: it is " + text(slot.now) + " and cannot become " +
                    text(value.id()) + "; cast or broadcast the value, or start the variable with that type");
    slot.now = kNoValue;
    return;
  }
  slot.now = value.id();
}

}  // namespace kiln::dsl::lang
