#include "launches/stores.h"

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/traits.h"
#include "passes/pointers.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

constexpr int64_t kLittle = 2048;  // elements that the first program stores beside its chunk

class Stores {
 public:
  Stores(const LaunchSequence& sequence, size_t axis, int64_t extent, const std::vector<ValueId>& known)
      : kernel_(sequence.steps.back().kernel),
        pointers_(kernel_),
        check_(kernel_),
        kernel_params_(sequence.kernel_params),
        axis_(axis),
        extent_(extent) {
    for (ValueId tile : known) check_.assume(tile, axis);
    for (const Op& op : kernel_.body.ops) {
      if (op.code == OpCode::kStore) stores_.push_back(&op);
    }
  }

  bool can_be_cut() {
    return std::ranges::all_of(stores_, [&](const Op* op) { return has_axis(*op) ? is_cut(*op) : is_little(*op); }) &&
           std::ranges::any_of(stores_, [&](const Op* op) { return has_axis(*op); }) &&
           std::ranges::all_of(kernel_.body.ops, [&](const Op& op) { return is_apart(op); });
  }

  bool has_axis(const Op& store) const {
    const dsl::Type& type = kernel_.type(store.operands[0]);
    return axis_ < type.shape.size() && *type.shape[axis_].as_constant() == extent_;
  }

 private:
  bool is_cut(const Op& store) {
    return std::ranges::all_of(store.operands, [&](ValueId tile) { return check_.along(tile, axis_); });
  }

  bool is_little(const Op& store) {
    return dsl::element_count(kernel_.type(store.operands[0])) <= kLittle &&
           std::ranges::all_of(store.operands, [&](ValueId tile) { return check_.whole(tile); });
  }

  // Whether the op has no effect but a store, and loads nothing that another program may store: what is stored to is
  // loaded by the same pointers and used in the same part, or not at all.
  bool is_apart(const Op& op) const {
    if (op.code == OpCode::kStore || op.code == OpCode::kAssume) return true;
    if (op.code != OpCode::kLoad) return !has_effect(op) && !may_read(op);
    const auto from = pointers_.parameter(op.operands[0]);
    if (!from) return false;
    if (*from > kernel_params_) return true;  // partial results
    return !kernel_.params[*from].may_alias && std::ranges::all_of(stores_, [&](const Op* store) {
      const auto to = pointers_.parameter(store->operands[0]);
      if (!to || kernel_.params[*to].may_alias) return false;
      return to != from || (store->operands[0] == op.operands[0] && check_.is_only_along(op.results[0], axis_));
    });
  }

  const dsl::Kernel& kernel_;
  const Pointers pointers_;
  PartCheck check_;
  const size_t kernel_params_, axis_;
  const int64_t extent_;
  std::vector<const Op*> stores_;
};

// The first program's alone.
void store_once(OpBuilder& build, const Op& store, ValueId is_first) {
  const ValueId mask = build.splat(is_first, std::vector(build.type(store.operands[0]).shape));
  std::vector<ValueId> operands = store.operands;
  if (operands.size() < 3) {
    operands.push_back(mask);
  } else {
    operands[2] = build.add(OpCode::kAnd, {operands[2], mask});
  }
  build.effect(OpCode::kStore, operands, store.attrs);
}

}  // namespace

bool cut_stores(LaunchSequence& sequence, size_t axis, const Chunks& chunks, const KnownParts& known) {
  Stores stores(sequence, axis, chunks.extent, known.tiles);
  if (!stores.can_be_cut()) return false;
  LaunchStep& step = sequence.steps.back();
  const dsl::Kernel& source = step.kernel;
  dsl::Kernel kernel = source;
  const ValueId chunk = kernel.params[sequence.kernel_params].value;
  std::erase_if(kernel.body.ops, [](const Op& op) { return op.code == OpCode::kStore; });
  const dsl::Location loc = kernel.body.ops.back().loc;
  OpBuilder build(kernel, kernel.body.ops, loc);
  const dsl::Expr one(1);
  build.effect(OpCode::kAssume, {chunk}, {one, one, dsl::Expr(0), dsl::Expr(chunks.count - 1)});
  append_chunk(kernel, loc, chunks, chunk, [&](std::vector<Op>& out, const Part& part) {
    PartBuilder parts(source, kernel, out, loc, part);
    if (known.make) {
      const std::vector<ValueId> made = known.make(parts);
      for (size_t i = 0; i < made.size(); ++i) parts.set(known.tiles[i], axis, made[i]);
    }
    for (const Op& store : source.body.ops) {
      if (store.code != OpCode::kStore || !stores.has_axis(store)) continue;
      std::vector<ValueId> operands;
      for (ValueId operand : store.operands) operands.push_back(parts.part(operand, axis));
      parts.build().effect(OpCode::kStore, operands, store.attrs);
    }
  });
  ValueId is_first = dsl::kNoValue;
  for (const Op& store : source.body.ops) {
    if (store.code != OpCode::kStore || stores.has_axis(store)) continue;
    if (is_first == dsl::kNoValue) {
      const ValueId zero = build.constant(ElementType::kI32, 0);
      is_first = build.add(OpCode::kCmp, {chunk, zero}, {static_cast<int64_t>(dsl::Predicate::kEq)});
    }
    store_once(build, store, is_first);
  }
  step.kernel = dsl::canonicalise(kernel);
  step.chunks = chunks.count;
  return true;
}

bool cut_long_stores(LaunchSequence& sequence, const Lengths& lengths) {
  const dsl::Kernel& kernel = sequence.steps.back().kernel;
  size_t axis = 0;
  Chunks found;
  for (const Op& op : kernel.body.ops) {
    if (op.code != OpCode::kStore) continue;
    for (size_t i = 0; i < kernel.type(op.operands[1]).shape.size(); ++i) {
      const Chunks chunks = chunks_of(lengths, 2 * lengths.chunk, kernel, {op.operands[1]}, i);
      // Along the longest axis, so that a chunk of the widest elements is no longer than it may be.
      if (std::pair(chunks.extent, -chunks.length) <= std::pair(found.extent, -found.length)) continue;
      axis = i;
      found = chunks;
    }
  }
  return found.count > 1 && cut_stores(sequence, axis, found);
}

}  // namespace kiln::codegen
