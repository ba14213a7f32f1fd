// Where the sums of a dot are kept: in the slot of its accumulator, updated in place. Zeros that start them are not
// written there first, the micro-kernel begins with them. Sums that loops carry and a store then puts into memory
// unchanged go there in the last turn of all, where the tile lies within the bounds of the store's mask and nothing
// else reaches that memory: then the store finds its work done. (Not in every turn: the rows of a matrix may lie so
// that they fight for the sets of a cache, those of a slot do not.)
#include "cpu/dot/dot_accumulator.h"

#include "cpu/dot/dot.h"
#include "cpu/dot/dot_keep.h"
#include "cpu/nest/materialise.h"
#include "cpu/nest/nest.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

bool is_zeros(const Context& c, ValueId id) {
  const Op* op = c.schedule.definition[id];
  if (!op || op->code != OpCode::kSplat) return false;
  auto* value = llvm::dyn_cast_or_null<llvm::Constant>(c.scalars[op->operands[0]]);
  return value && value->isNullValue();
}

// The dot that alone reads carried value number i and makes its next one, in this loop or in one that it consists of.
const Op* dot_of(const Context& c, const Op& loop, size_t i) {
  const dsl::Region& region = loop.regions[0];
  const ValueId argument = region.args[i + 1], next = region.ops.back().operands[i];
  const Op* op = c.schedule.definition[next];
  if (!op || c.schedule.home[next] != &region || c.schedule.use_count[argument] != 1 || c.schedule.use_count[next] != 1)
    return nullptr;
  if (op->code == OpCode::kDot) return op->operands[2] == argument ? op : nullptr;
  if (op->code != OpCode::kFor) return nullptr;
  const auto j = static_cast<size_t>(llvm::find(op->results, next) - op->results.begin());
  return op->operands[j + 3] == argument ? dot_of(c, *op, j) : nullptr;
}

// Whether the loops that this one consists of have turns in each of its own, or in none: their bounds are the same.
bool runs_in_last_turn(const Context& c, const Op& loop, size_t i, std::set<const dsl::Region*> inside = {}) {
  const dsl::Region& region = loop.regions[0];
  inside.insert(&region);
  const ValueId next = region.ops.back().operands[i];
  const Op& op = *c.schedule.definition[next];
  if (op.code == OpCode::kDot) return true;
  for (size_t bound = 0; bound < 3; ++bound) {
    const ValueId id = op.operands[bound];
    const Op* by = c.schedule.definition[id];
    if (inside.contains(c.schedule.home[id]) && !(by && by->code == OpCode::kConstant)) return false;
  }
  return runs_in_last_turn(c, op, static_cast<size_t>(llvm::find(op.results, next) - op.results.begin()), inside);
}

// The only use of the loop's result, with nothing between the two that could tell when memory changes.
const Op* store_of(const Context& c, const Op& loop, ValueId result) {
  if (c.schedule.use_count[result] != 1 || c.kernel.options.check_bounds) return nullptr;
  const auto behind = llvm::ArrayRef(c.region->ops).drop_front(static_cast<size_t>(&loop - c.region->ops.data()) + 1);
  const auto op = llvm::find_if(
      behind, [](const Op& each) { return dsl::info(each.code).has(dsl::kEffect) || !each.regions.empty(); });
  return op != behind.end() && op->code == OpCode::kStore && op->operands[1] == result ? op : nullptr;
}

// All scalars that a value is computed from are known by now.
bool available(const Context& c, ValueId root) {
  std::set<ValueId> seen;
  std::vector<ValueId> todo = {root};
  while (!todo.empty()) {
    const ValueId id = todo.back();
    todo.pop_back();
    if (!seen.insert(id).second) continue;
    const Op* op = c.schedule.definition[id];
    if (c.type(id).is_scalar()) {
      if (!c.scalars[id]) return false;
    } else if (!op || !op->regions.empty()) {
      return false;
    } else {
      todo.insert(todo.end(), op->operands.begin(), op->operands.end());
    }
  }
  return true;
}

bool is_in(const Op& op, const dsl::Region& region) {
  const Op* first = region.ops.data();
  return !std::less<>()(&op, first) && std::less<>()(&op, first + region.ops.size());
}

// So many rows of a loop's result a store takes, as it is or with ops applied to each element, and nobody sees the
// others; null where that is not so. Not through ops that could trap on what they hold then.
Value* rows_seen(Context& c, ValueId result) {
  for (ValueId id = result; c.schedule.use_count[id] == 1;) {
    const Op* user = c.schedule.user[id];
    if (!is_in(*user, *c.region)) return nullptr;
    if (user->code == OpCode::kStore) {
      if (user->operands[1] != id || user->operands.size() < 3 || !available(c, user->operands[2])) return nullptr;
      Nest nest(c, dsl::concrete_shape(c.type(id)));
      return nest.bound_of_mask(user->operands[2], nest.identity(), nest.rank() - 2);
    }
    if (!is_elementwise(*user) || !dsl::is_float(c.type(id).element)) return nullptr;
    id = user->results[0];
  }
  return nullptr;
}

// The memory behind these pointers is reached by them alone, as far as this kernel goes.
bool reached_alone(const Context& c, ValueId pointers) {
  for (ValueId at = pointers; c.schedule.use_count[at] == 1;) {
    for (const dsl::Param& param : c.kernel.params) {
      if (param.value == at) return !param.may_alias;
    }
    const Op* op = c.schedule.definition[at];
    if (!op || !moves_pointer(*op)) return false;
    at = op->operands[0];
  }
  return false;
}

// The slot of `acc` may be written: this dot is its only reader.
bool updates_in_place(const Context& c, const DotPlan& plan, ValueId acc, ValueId result) {
  const size_t row = static_cast<size_t>(c.type(result).rank()) - 2;
  const bool last_use =
      c.schedule.use_count[acc] == 1 && c.schedule.home[acc] == c.schedule.home[result];  // not one an iteration
  const auto& known = c.slots[acc];
  return last_use && known && known->valid_under.empty() && !known->view && !known->exact &&
         known->strides[row] >= plan.padded_n() && (plan.n == 1 || known->strides[row + 1] == 1);
}

// A slot that holds the accumulator and may be written: its own or a copy.
Result<Slot> slot_of_sums(Context& c, const DotPlan& plan, ValueId acc, ValueId result) {
  if (updates_in_place(c, plan, acc, result)) return *c.slots[acc];
  const size_t row = static_cast<size_t>(c.type(result).rank()) - 2;
  const int64_t padded_n = plan.padded_n();
  const auto& known = c.slots[acc];
  dsl::Type padded = c.type(result);
  padded.shape[row + 1] = dsl::Expr(padded_n);
  Slot slot = allocate_slot(c, padded);
  if (known || !is_zeros(c, acc)) {
    if (auto done = materialise(c, acc, slot); !done) return done.error();
  }
  return slot;
}

}  // namespace

bool accumulates_from_zeros(const Context& c, const Op& loop, size_t i) {
  const ValueId init = loop.operands[i + 3];
  if (c.type(init).is_scalar() || c.slots[init] || !is_zeros(c, init)) return false;
  // The slot of a single column is no accumulator, see slot_of_sums.
  return dsl::concrete_shape(c.type(init)).back() > 1 && dot_of(c, loop, i);
}

bool continues_accumulator(const Context& c, const Op& loop, size_t i) {
  const ValueId init = loop.operands[i + 3];
  if (c.type(init).is_scalar() || !c.slots[init] || !dot_of(c, loop, i)) return false;
  const auto known = c.dot_accumulators.find(c.slots[init]->offset);
  return known != c.dot_accumulators.end() && known->second.fresh;
}

DotAccumulator make_dot_accumulator(Context& c, const Op& loop, size_t i, bool has_effects) {
  auto variable = [&](bool value) {
    Value* out = entry_alloca(c, c.b.getInt1Ty());
    c.b.CreateStore(c.b.getInt1(value), out);
    return out;
  };
  DotAccumulator out;
  out.fresh = variable(true);
  out.rows = rows_seen(c, loop.results[i]);
  out.ends = runs_in_last_turn(c, loop, i) && !has_effects;
  const Op& dot = *dot_of(c, loop, i);
  const DotPlan plan = plan_dot(c, dot);
  const Op* store = has_effects ? nullptr : store_of(c, loop, loop.results[i]);
  if (!store || (plan.n % plan.panel() != 0 && !plan.masks_columns) || !reached_alone(c, store->operands[0]))
    return out;
  if (!llvm::all_of(store->operands, [&](ValueId id) { return id == loop.results[i] || available(c, id); })) return out;
  Nest nest(c, dsl::concrete_shape(c.type(store->operands[0])));
  const auto mask = store->operands.size() > 2 ? std::optional(store->operands[2]) : std::nullopt;
  const auto view = nest.memory_view(store->operands[0], mask, nest.identity());
  if (!view) return out;
  auto* unit_stride = llvm::dyn_cast<llvm::ConstantInt>(view->strides.back());
  if (!unit_stride || !unit_stride->isOne()) return out;
  const size_t row = view->strides.size() - 2;
  Value* bytes = c.i64(dsl::info(plan.form.acc).bytes);
  out.in_place = view->whole;
  out.stored = variable(false);
  out.pointer = view->pointer;
  out.row = c.b.CreateMul(view->strides[row], bytes);
  out.batch = row > 0 ? c.b.CreateMul(view->strides[0], bytes) : c.i64(0);
  return out;
}

const DotAccumulator* sums_of_loops(const Context& c, const DotPlan& plan, ValueId acc, ValueId result) {
  if (!updates_in_place(c, plan, acc, result)) return nullptr;
  const auto carried = c.dot_accumulators.find(c.slots[acc]->offset);
  return carried != c.dot_accumulators.end() && carried->second.fresh ? &carried->second : nullptr;
}

Result<OperandC> accumulator(Context& c, const DotPlan& plan, ValueId acc, ValueId result) {
  Builder& b = c.b;
  const bool zeros = !c.slots[acc] && is_zeros(c, acc);
  auto slot = slot_of_sums(c, plan, acc, result);
  if (!slot) return slot.error();
  c.slots[result] = *slot;
  const size_t row = slot->strides.size() - 2;
  const int64_t bytes = dsl::info(plan.form.acc).bytes;
  const Sums kept{slot_address(c, *slot), c.i64(slot->strides[row] * bytes),
                  c.i64(row > 0 ? slot->strides[0] * bytes : 0)};
  OperandC out{kept, kept, b.getInt1(zeros)};
  const auto carried = c.dot_accumulators.find(slot->offset);
  if (carried == c.dot_accumulators.end()) return out;
  const DotAccumulator& sums = carried->second;
  if (!sums.fresh) return out;
  out.rows = sums.rows;
  out.fresh = b.CreateLoad(b.getInt1Ty(), sums.fresh);
  b.CreateStore(b.getFalse(), sums.fresh);
  if (!sums.in_place) return out;
  Value* store = b.CreateAnd(sums.in_place, sums.last);
  b.CreateStore(store, sums.stored);
  out.to.pointer = b.CreateSelect(store, sums.pointer, kept.pointer);
  out.to.row = b.CreateSelect(store, sums.row, kept.row);
  out.to.batch = b.CreateSelect(store, sums.batch, kept.batch);
  return out;
}

}  // namespace kiln::codegen::cpu
