// The trace: regions, the ops made of them, and the variables they carry.
#include <algorithm>

#include "kiln/dsl/rewrite.h"
#include "trace/trace.h"

namespace kiln::dsl::lang {
namespace {

// Regions whose arguments carry variables.
bool is_loop(Trace::RegionKind kind) {
  return kind == Trace::RegionKind::kLoop || kind == Trace::RegionKind::kCondition || kind == Trace::RegionKind::kBody;
}

bool is_before(const Trace::Touched& a, const Trace::Touched& b) { return a.slot < b.slot; }

// Of a closed region, or of what it carries.
const Trace::Touched* find_slot(const std::vector<Trace::Touched>& list, uint32_t slot) {
  const auto found = std::lower_bound(list.begin(), list.end(), Trace::Touched{slot, kNoValue, kNoValue}, is_before);
  return found == list.end() || found->slot != slot ? nullptr : &*found;
}

}  // namespace

// --- regions -----------------------------------------------------------------------------------------------------

void Trace::open(RegionKind kind) {
  kinds_.push_back(kind);
  open_.push_back({kind, static_cast<uint32_t>(kinds_.size()), {}, {}, {}});
}

Value Trace::add_argument(Type type) {
  const Value argument = add_value(std::move(type));
  open_.back().region.args.push_back(argument.id());
  return argument;
}

Trace::TracedRegion Trace::close() {
  TracedRegion region = std::move(open_.back());
  open_.pop_back();
  std::sort(region.touched.begin(), region.touched.end(), is_before);
  for (Touched& touched : region.touched) {
    touched.after = slots_[touched.slot].now;
    slots_[touched.slot].now = touched.before;
  }
  return region;
}

void Trace::reopen(TracedRegion region) {
  for (const Touched& touched : region.touched) slots_[touched.slot].now = touched.after;
  open_.push_back(std::move(region));
}

bool Trace::fits_region(OpCode code, const std::source_location& loc) {
  const OpInfo& op = info(code);
  const bool in_function = !open_.empty() && open_.back().kind == RegionKind::kCombine;
  if (!in_function || op.has(kElementwise) || code == OpCode::kConstant) return true;
  report(loc, op.name + ": is not allowed in a combining function, which holds elementwise ops on scalars");
  return false;
}

void Trace::add_yield(TracedRegion& region, const std::vector<ValueId>& values, const std::source_location& loc) {
  region.region.ops.push_back({OpCode::kYield, values, {}, {}, {}, intern(scope_.value_or(loc))});
}

Trace::Carried Trace::carried_by(const TracedRegion& body) {
  Carried carried;
  for (const Touched& touched : body.touched) {
    if (!touched.changed()) continue;
    if (touched.after == kNoValue) {
      slots_[touched.slot].now = kNoValue;  // after an error
      continue;
    }
    carried.variables.push_back(touched);
    carried.slots.push_back(touched.slot);
    carried.inits.emplace_back(touched.before, serial_);
    carried.next.push_back(touched.after);
  }
  return carried;
}

void Trace::carry(TracedRegion& region, const std::vector<Touched>& carried) {
  ValueMap from_outside;
  for (const Touched& touched : region.touched) {
    if (!find_slot(carried, touched.slot)) from_outside.set(touched.inside, touched.before);
  }
  replace_uses(region.region, from_outside);
  for (const Touched& variable : carried) {
    const Touched* own = find_slot(region.touched, variable.slot);
    region.region.args.push_back(own ? own->inside : add_value(kernel_.values[variable.before].type).id());
  }
}

std::vector<Value> Trace::add_region_op(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs,
                                        std::vector<Region> regions, const std::vector<uint32_t>& slots,
                                        const std::source_location& loc) {
  std::vector<std::vector<ValueId>> yields;
  for (const Region& region : regions) yields.push_back(region.ops.back().operands);
  std::vector<Value> results = emit_all(code, operands, std::move(attrs), loc, std::move(regions));
  for (const std::vector<ValueId>& values : yields) {
    for (size_t i = 0; i < values.size() && i < results.size(); ++i) {
      fact(results[i]).readonly |= facts_[values[i]].readonly;
    }
  }
  const size_t first = results.size() - std::min(results.size(), slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots_[slots[i]];
    if (results.empty()) {
      slot.now = kNoValue;
      continue;
    }
    fact(results[first + i]).readonly |= facts_[slot.now].readonly;
    slot.now = results[first + i].id();
  }
  results.resize(first);
  return results;
}

void Trace::add_for(const std::vector<Value>& bounds, const Expr& stages, TracedRegion body,
                    const std::source_location& loc) {
  const Carried carried = carried_by(body);
  std::vector<Value> operands = bounds;
  operands.insert(operands.end(), carried.inits.begin(), carried.inits.end());
  add_yield(body, carried.next, loc);
  carry(body, carried.variables);
  add_region_op(OpCode::kFor, operands, {stages}, {std::move(body.region)}, carried.slots, loc);
}

void Trace::add_while(TracedRegion condition, const Value& goes_on, TracedRegion body,
                      const std::source_location& loc) {
  const Carried carried = carried_by(body);
  add_yield(condition, {goes_on.id()}, loc);
  add_yield(body, carried.next, loc);
  carry(condition, carried.variables);
  carry(body, carried.variables);
  add_region_op(OpCode::kWhile, carried.inits, {}, {std::move(condition.region), std::move(body.region)}, carried.slots,
                loc);
}

std::vector<Value> Trace::add_if(const Value& condition, Branch then, Branch otherwise,
                                 const std::source_location& loc) {
  Branch* branches[] = {&then, &otherwise};
  std::map<uint32_t, std::array<ValueId, 2>> changed;  // what a variable holds after each branch
  std::vector<ValueId> yields[2];
  for (size_t b : {0, 1}) {
    for (const Value& value : branches[b]->values) yields[b].push_back(value.id());
    for (const Touched& touched : branches[b]->region.touched) {
      if (!touched.changed()) continue;
      changed.try_emplace(touched.slot, std::array{touched.before, touched.before}).first->second[b] = touched.after;
    }
  }
  std::vector<uint32_t> slots;
  for (const auto& [index, after] : changed) {
    Slot& slot = slots_[index];
    bool fine = after[0] != kNoValue && after[1] != kNoValue;
    if (fine && !may_equal(kernel_.values[after[0]].type, kernel_.values[after[1]].type)) {
      report(loc, "if_: the Var of line " + std::to_string(slot.loc.line()) + " is " + text(after[0]) +
                      " after the first branch and " + text(after[1]) + " after the second; give it one type in both");
      fine = false;
    }
    if (!fine) {
      slot.now = kNoValue;
      continue;
    }
    slots.push_back(index);
    for (size_t b : {0, 1}) yields[b].push_back(after[b]);
  }
  for (size_t b : {0, 1}) add_yield(branches[b]->region, yields[b], loc);
  return add_region_op(OpCode::kIf, {condition}, {},
                       {std::move(then.region.region), std::move(otherwise.region.region)}, slots, loc);
}

std::vector<Value> Trace::add_combine(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs,
                                      TracedRegion function, const std::vector<Value>& yields,
                                      const std::source_location& loc) {
  std::vector<ValueId> ids;
  for (const Value& value : yields) ids.push_back(value.id());
  add_yield(function, ids, loc);
  return add_region_op(code, operands, std::move(attrs), {std::move(function.region)}, {}, loc);
}

// --- variables ---------------------------------------------------------------------------------------------------

uint32_t Trace::add_slot(const Value& init, const std::source_location& loc) {
  slots_.push_back({init.id(), open_.size(), loc});
  return static_cast<uint32_t>(slots_.size() - 1);
}

// Tells every open region that was opened after the slot was made, from the outermost inwards.
void Trace::touch(uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.now == kNoValue || !is_open(facts_[slot.now].region)) return;
  for (size_t depth = slot.depth; depth < open_.size(); ++depth) {
    TracedRegion& region = open_[depth];
    if (!region.slots.insert(index).second) continue;
    ValueId inside = slot.now;
    if (is_loop(region.kind)) {
      const Value argument = add_value(kernel_.values[slot.now].type);
      fact(argument) = {region.serial, std::nullopt, facts_[slot.now].readonly};
      inside = argument.id();
    }
    region.touched.push_back({index, slot.now, inside});
    slot.now = inside;
  }
}

Value Trace::read_slot(uint32_t slot) {
  touch(slot);
  return {slots_[slot].now, serial_};
}

void Trace::write_slot(uint32_t index, const Value& value, const std::source_location& loc) {
  touch(index);
  Slot& slot = slots_[index];
  if (!usable(value, loc)) {
    slot.now = kNoValue;
    return;
  }
  bool carried = false;
  for (size_t depth = slot.depth; depth < open_.size(); ++depth) {
    const RegionKind kind = open_[depth].kind;
    if (kind == RegionKind::kCondition) return report(loc, "the condition of a while_ cannot assign a Var");
    if (kind == RegionKind::kCombine) return report(loc, "a combining function cannot assign a Var of outside");
    carried |= is_loop(kind);
  }
  if (carried && slot.now != kNoValue && !may_equal(type(value), kernel_.values[slot.now].type)) {
    report(loc, "a variable carried by a loop keeps its type: it is " + text(slot.now) + " and cannot become " +
                    text(value.id()) + "; cast or broadcast the value, or start the variable with that type");
    slot.now = kNoValue;
    return;
  }
  slot.now = value.id();
}

}  // namespace kiln::dsl::lang
