#include "cpu/early_tiles.h"

#include <set>

#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

// What is computed where it is wanted.
bool is_lazy(const Context& ctx, const Op& op) {
  if (op.results.empty() || !op.regions.empty() || is_eager(op.code)) return false;
  return llvm::none_of(op.results,
                       [&](ValueId id) { return ctx.type(id).is_scalar() || ctx.schedule.materialise[id]; });
}

// What is computed from an old tile when it is wanted, other than by way of the new one.
class OldValues {
 public:
  OldValues(const Context& ctx, ValueId old, ValueId next) : ctx_(ctx), next_(next), values_{old} {
    for (const Op& op : ctx.region->ops) add(op);
  }

  bool read_by(const Op& op) const {
    return any_op(op, [&](const Op& each) {
      return llvm::any_of(each.operands, [&](ValueId id) { return values_.contains(id); });
    });
  }

  // Whether element i of the new tile is computed from the old one's element i alone.
  bool by_elements() const {
    std::set<ValueId> seen = {next_};
    llvm::SmallVector<ValueId, 8> todo = {next_};
    while (!todo.empty()) {
      const Op* op = ctx_.schedule.definition[todo.pop_back_val()];
      if (!op) continue;  // the old tile itself
      if (!is_elementwise(*op)) return false;
      for (ValueId id : op->operands) {
        if (values_.contains(id) && seen.insert(id).second) todo.push_back(id);
      }
    }
    return true;
  }

 private:
  void add(const Op& op) {
    if (!is_lazy(ctx_, op) || !read_by(op)) return;
    for (ValueId id : op.results) {
      if (id != next_ && !is_whole(ctx_, id)) values_.insert(id);
    }
  }

  const Context& ctx_;
  const ValueId next_;
  std::set<ValueId> values_;
};

// The values of which these reductions compute, where they want an element, the same element.
std::set<ValueId> elements_of(const Context& ctx, llvm::ArrayRef<const Op*> reductions) {
  std::set<ValueId> out;
  llvm::SmallVector<ValueId, 8> todo;
  for (const Op* each : reductions) todo.push_back(each->operands[0]);
  while (!todo.empty()) {
    const ValueId id = todo.pop_back_val();
    const Op* op = ctx.schedule.definition[id];
    if (!op || ctx.slots[id] || ctx.type(id).is_scalar() || !is_elementwise(*op) || !out.insert(id).second) continue;
    todo.append(op->operands.begin(), op->operands.end());
  }
  return out;
}

bool may_be_early(const Context& ctx, ValueId old, ValueId next, const Op& first) {
  // A choice may keep all rows but one (control.cpp puts that one in place).
  const bool is_choice = ctx.schedule.definition[next]->code == OpCode::kSelect;
  if (is_choice || ctx.schedule.defining_region[next] != ctx.region || ctx.schedule.materialise[next]) return false;
  const OldValues olds(ctx, old, next);
  if (!olds.by_elements()) return false;
  // From here on nobody else may want an old element: the walk overwrites it.
  const Op* end = ctx.region->ops.data() + ctx.region->ops.size();
  return std::none_of(&first, end, [&](const Op& op) { return !is_lazy(ctx, op) && olds.read_by(op); });
}

}  // namespace

std::vector<TilePlace> take_early_tiles(Context& ctx, llvm::ArrayRef<const Op*> reductions) {
  std::vector<TilePlace> out;
  if (!ctx.region || ctx.iteration.body != ctx.region) return out;
  const std::vector<ValueId>& news = ctx.region->ops.back().operands;
  const std::set<ValueId> wanted = elements_of(ctx, reductions);
  const auto shape = dsl::concrete_shape(ctx.type(reductions[0]->operands[0]));
  for (size_t i = 0; i < news.size(); ++i) {
    const ValueId old = ctx.region->args[i + 1], next = news[i];
    if (!wanted.contains(next) || dsl::concrete_shape(ctx.type(next)) != shape || llvm::count(news, next) > 1) continue;
    if (ctx.dot_accumulators.contains(ctx.slots[old]->offset) || !may_be_early(ctx, old, next, *reductions[0]))
      continue;
    ctx.keep[next] = false;
    out.push_back({next, *ctx.slots[old]});
  }
  return out;
}

Result<void> put_early_tiles(Nest& nest, llvm::ArrayRef<TilePlace> tiles, llvm::ArrayRef<Point> points) {
  for (const TilePlace& tile : tiles) {
    llvm::SmallVector<Value*, 8> vectors;
    for (const Point& point : points) {
      auto value = nest.evaluate_lanes(tile.id, point);
      if (!value) return value.error();
      vectors.push_back(*value);
    }
    const dsl::Type& type = nest.ctx.type(tile.id);
    if (points.size() > 1) {
      nest.store_slot(tile.slot, type, vectors);
    } else {
      nest.store_slot(tile.slot, points[0], type, vectors[0]);
    }
  }
  return {};
}

}  // namespace kiln::codegen::cpu
