#include "launches/loop.h"

#include <algorithm>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/traits.h"
#include "kiln/dsl/uses.h"
#include "launches/split.h"
#include "launches/stores.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

constexpr int64_t kPartElements = 2048;  // of a tile that a program of the last step stores, about

size_t uses_of(const dsl::Region& region, ValueId id) {
  size_t out = 0;
  dsl::for_each_op(region, [&](const Op& op) { out += static_cast<size_t>(std::ranges::count(op.operands, id)); });
  return out;
}

// Whether the loop carries sums alone: the next one is a product's, which is all that uses this one.
bool adds_up_products(const Op& loop) {
  const dsl::Region& body = loop.regions[0];
  const std::vector<ValueId>& next = body.ops.back().operands;
  for (size_t i = 0; i < next.size(); ++i) {
    const ValueId sum = body.args[i + 1];
    const bool is_added = std::ranges::any_of(body.ops, [&](const Op& op) {
      return family_of(op) == dsl::OpFamily::kDot && op.results[0] == next[i] && op.operands.back() == sum;
    });
    if (!is_added || uses_of(body, sum) != 1) return false;
  }
  return !next.empty();
}

// Where the partial sums of a slot lie, a tile of pointers.
ValueId places(OpBuilder& build, ValueId pointer, ValueId slot, const std::vector<dsl::Expr>& shape) {
  const ValueId elements = build.constant(ElementType::kI32, static_cast<uint64_t>(element_product(shape)));
  const ValueId first = build.add(OpCode::kAddptr, {pointer, build.add(OpCode::kMul, {slot, elements})});
  return build.add(OpCode::kAddptr, {build.splat(first, shape), row_numbers(build, shape, 1)});
}

bool is_zero(const dsl::Kernel& source, ValueId tile) {
  const std::vector<const Op*> definition = dsl::definitions(source);
  const Op* splat = definition[tile];
  const Op* scalar = splat && splat->code == OpCode::kSplat ? definition[splat->operands[0]] : nullptr;
  return scalar && scalar->code == OpCode::kConstant && std::get<dsl::Literal>(scalar->attrs[0]).bits == 0;
}

// What a slot holds; 0 where it is none of those that are in use.
ValueId load_slot(OpBuilder& build, ValueId pointer, int64_t slot, ValueId used, const std::vector<dsl::Expr>& shape) {
  const ValueId number = build.constant(ElementType::kI32, static_cast<uint64_t>(slot));
  std::vector<ValueId> operands = {places(build, pointer, number, shape)};
  if (used != dsl::kNoValue) {
    const ValueId wide = build.constant(ElementType::kI64, static_cast<uint64_t>(slot));
    const ValueId is_used = build.add(OpCode::kCmp, {wide, used}, {static_cast<int64_t>(dsl::Predicate::kLt)});
    operands.push_back(build.splat(is_used, shape));
  }
  return build.add(OpCode::kLoad, operands);
}

// What takes the loop's place: its results as sums of partial sums. These are never -0: they began at 0.
void add_partials(const dsl::Kernel& source, dsl::Kernel& kernel, std::vector<Op>& out, const SplitLoop& split,
                  const UsedSlots& used_slots) {
  OpBuilder build(kernel, out, split.loop.loc);
  const ValueId used = used_slots ? used_slots(build) : dsl::kNoValue;
  for (size_t i = 0; i < split.pointers.size(); ++i) {
    const ValueId begin = split.loop.operands[kFirstInit + i];
    const std::vector<dsl::Expr> shape = kernel.type(begin).shape;
    ValueId sum = is_zero(source, begin) ? dsl::kNoValue : begin;
    for (int64_t slot = 0; slot < split.slots; ++slot) {
      const ValueId partial = load_slot(build, split.pointers[i], slot, used, shape);
      sum = sum == dsl::kNoValue ? partial : build.add(OpCode::kAdd, {sum, partial});
    }
    out.back().results[0] = split.loop.results[i];
  }
}

// The axis that is cut: the first one that has more than one place, as that of rows mostly does.
size_t axis_of_parts(const dsl::Type& tile) {
  size_t axis = 0;
  while (axis + 1 < tile.shape.size() && *tile.shape[axis].as_constant() == 1) ++axis;
  return axis;
}

// The most places along it that divide them all, so that a program has few elements.
int64_t length_of_part(const dsl::Type& tile, size_t axis) {
  const int64_t extent = *tile.shape[axis].as_constant();
  const int64_t wanted = std::max<int64_t>(1, kPartElements * extent / element_product(tile.shape));
  for (int64_t out = std::min(wanted, extent); out > 1; --out) {
    if (extent % out == 0) return out;
  }
  return 1;
}

}  // namespace

const Op* find_product_loop(const dsl::Kernel& kernel) {
  const std::vector<const Op*> definition = dsl::definitions(kernel);
  for (const Op& op : kernel.body.ops) {
    if (may_write(op)) return nullptr;
    if (op.code != OpCode::kFor || !adds_up_products(op)) continue;
    const Op* step = definition[op.operands[2]];
    if (step && step->code == OpCode::kConstant) return &op;
  }
  return nullptr;
}

void add_slots(LaunchSequence& sequence, SplitLoop& split) {
  for (ValueId sums : split.loop.results) {
    const dsl::Kernel& kernel = sequence.steps.back().kernel;
    add_room(sequence, kernel.type(sums).element, split.slots * element_product(kernel.type(sums).shape));
  }
  const dsl::Kernel& kernel = sequence.steps.back().kernel;
  split.chunk = kernel.params[sequence.kernel_params].value;
  for (size_t i = sequence.kernel_params + 1; i < kernel.params.size(); ++i) {
    split.pointers.push_back(kernel.params[i].value);
  }
}

void assume_params(OpBuilder& build, const SplitLoop& split, int64_t chunks) {
  const auto expr = [](int64_t x) { return dsl::Expr(x); };
  build.effect(OpCode::kAssume, {split.chunk}, {expr(1), expr(1), expr(0), expr(chunks - 1)});
  for (ValueId pointer : split.pointers) build.effect(OpCode::kAssume, {pointer}, {expr(64)});
}

// The index's type may not hold the distance of its ends; 64 bits without a sign do.
ValueId trips_of(OpBuilder& build, const Op& loop) {
  Ints wide(build, ElementType::kU64);
  const ValueId lo = loop.operands[0], hi = loop.operands[1], step = loop.operands[2];
  const ValueId is_any = build.add(OpCode::kCmp, {lo, hi}, {static_cast<int64_t>(dsl::Predicate::kLt)});
  const ValueId distance = wide.sub(wide.cast(hi), wide.cast(lo));
  const ValueId length = build.add(OpCode::kSelect, {is_any, distance, wide.constant(0)});
  return Ints(build, ElementType::kI64).cast(wide.quotient_up(length, wide.cast(step)));
}

// No number is made that the loop as a whole does not have: near the ends of its type the index would wrap.
void append_part(dsl::Kernel& kernel, std::vector<Op>& out, Op loop, const Iterations& part) {
  OpBuilder build(kernel, out, loop.loc);
  Ints wide(build, ElementType::kI64), ints(build, kernel.type(loop.operands[0]).element);
  const ValueId lo = loop.operands[0], hi = loop.operands[1], step = loop.operands[2];
  const auto index = [&](ValueId number) { return ints.add(lo, ints.mul(ints.cast(number), step)); };
  const auto is_behind = [&](ValueId number, ValueId end) {
    return build.add(OpCode::kCmp, {number, end}, {static_cast<int64_t>(dsl::Predicate::kGe)});
  };
  const auto choose = [&](ValueId condition, ValueId a, ValueId b) {
    return build.add(OpCode::kSelect, {condition, a, b});
  };
  const ValueId last = wide.max(wide.sub(part.all, wide.constant(1)), wide.constant(0));
  const ValueId from = index(wide.min(part.first, last));
  const ValueId end = wide.min(part.end, part.all);
  loop.operands[0] = from;
  loop.operands[1] = choose(is_behind(part.first, end), from, choose(is_behind(end, part.all), hi, index(end)));
  for (size_t i = kFirstInit; i < loop.operands.size(); ++i) {
    const dsl::Type sums = kernel.type(loop.operands[i]);
    loop.operands[i] = build.splat(build.constant(sums.element, 0), sums.shape);
  }
  out.push_back(std::move(loop));
}

void store_partials(OpBuilder& build, const SplitLoop& split, const std::vector<ValueId>& pointers, ValueId slot) {
  for (size_t i = 0; i < pointers.size(); ++i) {
    const ValueId sums = split.loop.results[i];
    const std::vector<dsl::Expr> shape = build.type(sums).shape;
    build.effect(OpCode::kStore, {places(build, pointers[i], slot, shape), sums});
  }
}

dsl::Kernel make_sums(const dsl::Kernel& source, const SplitLoop& split, const UsedSlots& used) {
  dsl::Kernel kernel = source;
  kernel.body.ops.clear();
  OpBuilder build(kernel, kernel.body.ops, split.loop.loc);
  for (ValueId pointer : split.pointers) build.effect(OpCode::kAssume, {pointer}, {dsl::Expr(64)});
  for (const Op& op : source.body.ops) {
    if (op.results == split.loop.results) {
      add_partials(source, kernel, kernel.body.ops, split, used);
    } else {
      kernel.body.ops.push_back(op);
    }
  }
  return dsl::canonicalise(kernel);
}

void store_in_parts(LaunchSequence& sequence) {
  const dsl::Kernel& kernel = sequence.steps.back().kernel;
  const auto store = std::ranges::find(kernel.body.ops, OpCode::kStore, &Op::code);
  if (store == kernel.body.ops.end()) return;
  const dsl::Type& tile = kernel.type(store->operands[0]);
  if (tile.rank() < 2) return;
  const size_t axis = axis_of_parts(tile);
  const int64_t extent = *tile.shape[axis].as_constant(), length = length_of_part(tile, axis);
  if (length < extent) cut_stores(sequence, axis, {extent, length, extent / length});
}

}  // namespace kiln::codegen
