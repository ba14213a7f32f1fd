// Where the accumulators of a dot are kept: in the slot of its accumulator, updated in place. Zeros that start them are
// not written there first, the micro-kernel begins with them. Sums that loops carry and a store then puts into memory
// unchanged go there in the last iteration of all, where the tile lies within the bounds of the store's mask and
// nothing else reaches that memory: then the store finds its work done. (Not in every iteration: the rows of a matrix
// may lie so that they fight for the sets of a cache, those of a slot do not.)
#include "cpu/dot/dot_accumulator.h"

#include "cpu/dot/dot.h"
#include "cpu/dot/dot_cache.h"
#include "cpu/nest/materialise.h"
#include "cpu/nest/nest.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

bool is_zeros(const Context& ctx, ValueId id) {
  const Op* op = ctx.schedule.definition[id];
  if (!op || op->code != OpCode::kSplat) return false;
  auto* value = llvm::dyn_cast_or_null<llvm::Constant>(ctx.scalars[op->operands[0]]);
  return value && value->isNullValue();
}

// The dot that alone reads carried value number i and makes its next one, in this loop or in one that it consists of.
const Op* dot_of(const Context& ctx, const Op& loop, size_t i) {
  const dsl::Region& region = loop.regions[0];
  const ValueId argument = region.args[i + 1], next = region.ops.back().operands[i];
  const Op* op = ctx.schedule.definition[next];
  if (!op || ctx.schedule.defining_region[next] != &region || ctx.schedule.use_count[argument] != 1 ||
      ctx.schedule.use_count[next] != 1)
    return nullptr;
  if (op->code == OpCode::kDot) return op->operands[2] == argument ? op : nullptr;
  if (op->code != OpCode::kFor) return nullptr;
  const auto j = static_cast<size_t>(llvm::find(op->results, next) - op->results.begin());
  return op->operands[j + 3] == argument ? dot_of(ctx, *op, j) : nullptr;
}

// Whether the loops that this one consists of have iterations in each of its own, or in none: their bounds are the
// same.
bool runs_in_last_iteration(const Context& ctx, const Op& loop, size_t i, std::set<const dsl::Region*> inside = {}) {
  const dsl::Region& region = loop.regions[0];
  inside.insert(&region);
  const ValueId next = region.ops.back().operands[i];
  const Op& op = *ctx.schedule.definition[next];
  if (op.code == OpCode::kDot) return true;
  for (size_t bound = 0; bound < 3; ++bound) {
    const ValueId id = op.operands[bound];
    const Op* by = ctx.schedule.definition[id];
    if (inside.contains(ctx.schedule.defining_region[id]) && !(by && by->code == OpCode::kConstant)) return false;
  }
  return runs_in_last_iteration(ctx, op, static_cast<size_t>(llvm::find(op.results, next) - op.results.begin()),
                                inside);
}

// The only use of the loop's result, with nothing between the two that could tell when memory changes.
const Op* store_of(const Context& ctx, const Op& loop, ValueId result) {
  if (ctx.schedule.use_count[result] != 1 || ctx.kernel.options.check_bounds) return nullptr;
  const auto behind =
      llvm::ArrayRef(ctx.region->ops).drop_front(static_cast<size_t>(&loop - ctx.region->ops.data()) + 1);
  const auto op = llvm::find_if(
      behind, [](const Op& each) { return dsl::info(each.code).has(dsl::kEffect) || !each.regions.empty(); });
  return op != behind.end() && op->code == OpCode::kStore && op->operands[1] == result ? op : nullptr;
}

// All scalars that a value is computed from are known by now.
bool available(const Context& ctx, ValueId root) {
  std::set<ValueId> seen;
  std::vector<ValueId> todo = {root};
  while (!todo.empty()) {
    const ValueId id = todo.back();
    todo.pop_back();
    if (!seen.insert(id).second) continue;
    const Op* op = ctx.schedule.definition[id];
    if (ctx.type(id).is_scalar()) {
      if (!ctx.scalars[id]) return false;
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
Value* rows_seen(Context& ctx, ValueId result) {
  for (ValueId id = result; ctx.schedule.use_count[id] == 1;) {
    const Op* user = ctx.schedule.user[id];
    if (!is_in(*user, *ctx.region)) return nullptr;
    if (user->code == OpCode::kStore) {
      if (user->operands[1] != id || user->operands.size() < 3 || !available(ctx, user->operands[2])) return nullptr;
      Nest nest(ctx, dsl::concrete_shape(ctx.type(id)));
      return nest.bound_of_mask(user->operands[2], nest.identity(), nest.rank() - 2);
    }
    if (!is_elementwise(*user) || !dsl::is_float(ctx.type(id).element)) return nullptr;
    id = user->results[0];
  }
  return nullptr;
}

// The memory behind these pointers is reached by them alone, as far as this kernel goes.
bool reached_alone(const Context& ctx, ValueId pointers) {
  for (ValueId at = pointers; ctx.schedule.use_count[at] == 1;) {
    for (const dsl::Param& param : ctx.kernel.params) {
      if (param.value == at) return !param.may_alias;
    }
    const Op* op = ctx.schedule.definition[at];
    if (!op || !moves_pointer(*op)) return false;
    at = op->operands[0];
  }
  return false;
}

// The slot of `acc` may be written: this dot is its only reader.
bool updates_in_place(const Context& ctx, const DotBlocking& blocking, ValueId acc, ValueId result) {
  const size_t row = static_cast<size_t>(ctx.type(result).rank()) - 2;
  const bool last_use =
      ctx.schedule.use_count[acc] == 1 &&
      ctx.schedule.defining_region[acc] == ctx.schedule.defining_region[result];  // not one an iteration
  const auto& known = ctx.slots[acc];
  return last_use && known && known->valid_under.empty() && !known->view && !known->exact &&
         known->strides[row] >= blocking.padded_n() && (blocking.n == 1 || known->strides[row + 1] == 1);
}

// A slot that holds the accumulator and may be written: its own or a copy.
Result<ScratchSlot> slot_of_accumulator(Context& ctx, const DotBlocking& blocking, ValueId acc, ValueId result) {
  if (updates_in_place(ctx, blocking, acc, result)) return *ctx.slots[acc];
  const size_t row = static_cast<size_t>(ctx.type(result).rank()) - 2;
  const int64_t padded_n = blocking.padded_n();
  const auto& known = ctx.slots[acc];
  dsl::Type padded = ctx.type(result);
  padded.shape[row + 1] = dsl::Expr(padded_n);
  ScratchSlot slot = allocate_scratch_slot(ctx, padded);
  if (known || !is_zeros(ctx, acc)) {
    if (auto done = materialise(ctx, acc, slot); !done) return done.error();
  }
  return slot;
}

}  // namespace

bool accumulates_from_zeros(const Context& ctx, const Op& loop, size_t i) {
  const ValueId init = loop.operands[i + 3];
  if (ctx.type(init).is_scalar() || ctx.slots[init] || !is_zeros(ctx, init)) return false;
  // The slot of a single column is no accumulator, see slot_of_accumulator.
  return dsl::concrete_shape(ctx.type(init)).back() > 1 && dot_of(ctx, loop, i);
}

bool continues_accumulator(const Context& ctx, const Op& loop, size_t i) {
  const ValueId init = loop.operands[i + 3];
  if (ctx.type(init).is_scalar() || !ctx.slots[init] || !dot_of(ctx, loop, i)) return false;
  const auto known = ctx.dot_accumulators.find(ctx.slots[init]->offset);
  return known != ctx.dot_accumulators.end() && known->second.fresh;
}

DotAccumulator make_dot_accumulator(Context& ctx, const Op& loop, size_t i, bool has_effects) {
  auto variable = [&](bool value) {
    Value* out = entry_alloca(ctx, ctx.ir.getInt1Ty());
    ctx.ir.CreateStore(ctx.ir.getInt1(value), out);
    return out;
  };
  DotAccumulator out;
  out.fresh = variable(true);
  out.rows = rows_seen(ctx, loop.results[i]);
  out.ends = runs_in_last_iteration(ctx, loop, i) && !has_effects;
  const Op& dot = *dot_of(ctx, loop, i);
  const DotBlocking blocking = choose_blocking(ctx, dot);
  const Op* store = has_effects ? nullptr : store_of(ctx, loop, loop.results[i]);
  if (!store || (blocking.n % blocking.panel() != 0 && !blocking.masks_columns) ||
      !reached_alone(ctx, store->operands[0]))
    return out;
  if (!llvm::all_of(store->operands, [&](ValueId id) { return id == loop.results[i] || available(ctx, id); }))
    return out;
  Nest nest(ctx, dsl::concrete_shape(ctx.type(store->operands[0])));
  const auto mask = store->operands.size() > 2 ? std::optional(store->operands[2]) : std::nullopt;
  const auto view = nest.memory_view(store->operands[0], mask, nest.identity());
  if (!view) return out;
  auto* unit_stride = llvm::dyn_cast<llvm::ConstantInt>(view->strides.back());
  if (!unit_stride || !unit_stride->isOne()) return out;
  const size_t row = view->strides.size() - 2;
  Value* bytes = ctx.i64(dsl::info(blocking.form.acc).bytes);
  out.in_place = view->whole;
  out.stored = variable(false);
  out.pointer = view->pointer;
  out.row = ctx.ir.CreateMul(view->strides[row], bytes);
  out.batch = row > 0 ? ctx.ir.CreateMul(view->strides[0], bytes) : ctx.i64(0);
  return out;
}

const DotAccumulator* accumulators_of_loops(const Context& ctx, const DotBlocking& blocking, ValueId acc,
                                            ValueId result) {
  if (!updates_in_place(ctx, blocking, acc, result)) return nullptr;
  const auto carried = ctx.dot_accumulators.find(ctx.slots[acc]->offset);
  return carried != ctx.dot_accumulators.end() && carried->second.fresh ? &carried->second : nullptr;
}

Result<OperandC> accumulator(Context& ctx, const DotBlocking& blocking, ValueId acc, ValueId result) {
  Builder& ir = ctx.ir;
  const bool zeros = !ctx.slots[acc] && is_zeros(ctx, acc);
  auto slot = slot_of_accumulator(ctx, blocking, acc, result);
  if (!slot) return slot.error();
  ctx.slots[result] = *slot;
  const size_t row = slot->strides.size() - 2;
  const int64_t bytes = dsl::info(blocking.form.acc).bytes;
  const AccumulatorPlace kept{scratch_slot_address(ctx, *slot), ctx.i64(slot->strides[row] * bytes),
                              ctx.i64(row > 0 ? slot->strides[0] * bytes : 0)};
  OperandC out{kept, kept, ir.getInt1(zeros)};
  const auto carried = ctx.dot_accumulators.find(slot->offset);
  if (carried == ctx.dot_accumulators.end()) return out;
  const DotAccumulator& accumulator = carried->second;
  if (!accumulator.fresh) return out;
  out.rows = accumulator.rows;
  out.fresh = ir.CreateLoad(ir.getInt1Ty(), accumulator.fresh);
  ir.CreateStore(ir.getFalse(), accumulator.fresh);
  if (!accumulator.in_place) return out;
  Value* store = ir.CreateAnd(accumulator.in_place, accumulator.last);
  ir.CreateStore(store, accumulator.stored);
  out.to.pointer = ir.CreateSelect(store, accumulator.pointer, kept.pointer);
  out.to.row = ir.CreateSelect(store, accumulator.row, kept.row);
  out.to.batch = ir.CreateSelect(store, accumulator.batch, kept.batch);
  return out;
}

}  // namespace kiln::codegen::cpu
