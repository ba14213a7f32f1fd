#include "cpu/register_sums.h"

#include <set>

#include "cpu/nest/nest.h"
#include "cpu/region.h"
#include "elementwise/loop_range.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

// Each chunk's loop has all of the body: a long one is code in two or three copies, and more than registers hold.
constexpr size_t kMostOps = 64, kMostSums = 4;

bool is_costly(const Op& op) { return op.code == OpCode::kMath || dsl::info(op.code).has(dsl::kExpensive); }

// What may be computed chunk by chunk: scalars, which each chunk computes again, and elements of the whole tile.
bool may_repeat(const Context& ctx, const Op& op, int64_t elements) {
  if (!op.regions.empty() || has_effect(op) || is_eager(op.code)) return false;
  return llvm::all_of(op.results, [&](ValueId id) {
    const dsl::Type& type = ctx.type(id);
    if (!type.is_scalar() && (op.code == OpCode::kLoad || ctx.schedule.materialise[id])) return false;
    return !is_costly(op) || (!type.is_scalar() && dsl::element_count(type) == elements);
  });
}

bool is_sum(const Context& ctx, ValueId old, ValueId next, const dsl::Region& body) {
  const Op* op = ctx.schedule.definition[next];
  return op && ctx.schedule.defining_region[next] == &body && is_elementwise(*op) && !is_costly(*op) &&
         ctx.schedule.use_count[old] == 1 && ctx.schedule.user[old] == op && ctx.schedule.use_count[next] == 1;
}

// Vectors so wide that registers hold all that stays in them, the sums and what the body reads of the tile: the chains
// of an iteration are long, and two hide each other's latency.
int width_of(const Context& ctx, const dsl::Region& body) {
  std::set<ValueId> stay(body.ops.back().operands.begin(), body.ops.back().operands.end());
  for (const Op& op : body.ops) {
    for (ValueId id : op.operands) {
      const Op* from = ctx.schedule.definition[id];
      const bool varies = from && from->code != OpCode::kSplat && from->code != OpCode::kArange;
      if (varies && ctx.schedule.defining_region[id] != &body && !ctx.type(id).is_scalar()) stay.insert(id);
    }
  }
  int held = 0;  // registers, where a vector of 32 bits is one
  for (ValueId id : stay) held += memory_bytes(ctx.type(id)) > 4 ? 2 : 1;
  int registers = 4;
  while (registers > 1 && held * registers > ctx.target.vector_registers * 3 / 4) registers /= 2;
  return registers * ctx.target.vector_bytes / 4;
}

}  // namespace

bool adds_in_registers(const Context& ctx, const Op& loop) {
  const dsl::Region& body = loop.regions[0];
  const std::vector<ValueId>& news = body.ops.back().operands;
  if (ctx.kernel.options.check_bounds || news.empty() || news.size() > kMostSums || body.ops.size() > kMostOps) {
    return false;
  }
  const dsl::Type& first = ctx.type(news[0]);
  if (first.is_scalar()) return false;
  for (size_t i = 0; i < news.size(); ++i) {
    const dsl::Type& type = ctx.type(news[i]);
    if (type.is_scalar() || type.pointer || dsl::concrete_shape(type) != dsl::concrete_shape(first)) return false;
    if (!is_sum(ctx, body.args[i + 1], news[i], body)) return false;
  }
  return llvm::all_of(llvm::ArrayRef(body.ops).drop_back(),
                      [&](const Op& op) { return may_repeat(ctx, op, dsl::element_count(first)); });
}

Result<void> lower_register_sums(Context& ctx, const Op& loop) {
  Builder& ir = ctx.ir;
  const dsl::Region& body = loop.regions[0];
  const auto olds = llvm::ArrayRef(body.args).drop_front();
  const auto inits = llvm::ArrayRef(loop.operands).drop_front(3);
  const std::vector<ValueId>& news = body.ops.back().operands;
  const ElementType element = ctx.type(loop.operands[0]).element;
  const LoopRange range = make_loop_range(ir, element, ctx.scalars[loop.operands[0]], ctx.scalars[loop.operands[1]],
                                          ctx.scalars[loop.operands[2]]);
  Nest nest(ctx, dsl::concrete_shape(ctx.type(news[0])));
  const Point here = nest.identity();
  std::vector<ScratchSlot> slots;
  for (size_t i = 0; i < news.size(); ++i) {
    slots.push_back(allocate_scratch_slot(ctx, ctx.type(news[i]), Rows::kClose));
    nest.register_masks(inits[i], here);
    nest.register_masks(news[i], here);
  }
  nest.choose_width({}, width_of(ctx, body));

  const auto iteration = [&](llvm::ArrayRef<Value*> sums, Value* count) -> Result<void> {
    ctx.scalars[body.args[0]] = range.index(ir, count, element);
    if (auto done = lower_region(ctx, body); !done) return done;
    for (size_t i = 0; i < sums.size(); ++i) {
      nest.bind(olds[i], ir.CreateLoad(llvm::cast<llvm::AllocaInst>(sums[i])->getAllocatedType(), sums[i]));
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      auto next = nest.evaluate_lanes(news[i], here);
      if (!next) return next.error();
      ir.CreateStore(*next, sums[i]);
    }
    return {};
  };
  Nest::Body walk;
  walk.any_width = true;
  walk.chunk = [&]() -> Result<void> {
    llvm::SmallVector<Value*, 4> sums;  // variables, which the pipeline promotes
    for (ValueId init : inits) {
      auto value = nest.evaluate_lanes(init, here);
      if (!value) return value.error();
      sums.push_back(entry_alloca(ctx, (*value)->getType()));
      ir.CreateStore(*value, sums.back());
    }
    Result<void> status;
    nest.walk_region(body, range.start, range.end, range.step, [&](Value* count) { status = iteration(sums, count); });
    for (size_t i = 0; i < sums.size(); ++i) {
      Value* sum = ir.CreateLoad(llvm::cast<llvm::AllocaInst>(sums[i])->getAllocatedType(), sums[i]);
      nest.store_slot(slots[i], here, ctx.type(news[i]), sum);
    }
    return status;
  };
  if (auto done = nest.walk(walk, false); !done) return done;
  nest.finish();
  for (size_t i = 0; i < news.size(); ++i) ctx.slots[loop.results[i]] = slots[i];
  return {};
}

}  // namespace kiln::codegen::cpu
