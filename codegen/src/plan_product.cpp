#include "plan_product.h"

#include <algorithm>

#include "kiln/dsl/canonical.h"
#include "plan_split.h"
#include "plan_stores.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

constexpr size_t kFirstInit = 3;         // operands of a `for`: start, end, step, what it carries
constexpr int64_t kPartElements = 2048;  // of a tile that a program of the last stage stores, about

size_t uses_of(const dsl::Region& region, ValueId id) {
  size_t out = 0;
  for (const Op& op : region.ops) {
    out += static_cast<size_t>(std::ranges::count(op.operands, id));
    for (const dsl::Region& inner : op.regions) out += uses_of(inner, id);
  }
  return out;
}

// Whether the loop carries sums alone: the next one is a product's, which is all that uses this one.
bool adds_up_products(const Op& loop) {
  const dsl::Region& body = loop.regions[0];
  const std::vector<ValueId>& next = body.ops.back().operands;
  for (size_t i = 0; i < next.size(); ++i) {
    const ValueId sum = body.args[i + 1];
    const bool is_added = std::ranges::any_of(body.ops, [&](const Op& op) {
      return (op.code == OpCode::kDot || op.code == OpCode::kDotScaled) && op.results[0] == next[i] &&
             op.operands.back() == sum;
    });
    if (!is_added || uses_of(body, sum) != 1) return false;
  }
  return !next.empty();
}

const Op* find_loop(const dsl::Kernel& kernel) {
  const std::vector<const Op*> definition = top_level_definitions(kernel);
  for (const Op& op : kernel.body.ops) {
    if (has_trait(op, dsl::kWrites)) return nullptr;
    if (op.code != OpCode::kFor || !adds_up_products(op)) continue;
    const Op* step = definition[op.operands[2]];
    if (step && step->code == OpCode::kConstant) return &op;
  }
  return nullptr;
}

// Scalars of one int type.
class Ints {
 public:
  Ints(OpBuilder& build, ElementType type) : build_(build), type_(type) {}
  ValueId constant(int64_t x) { return build_.constant(type_, bits_from_number(type_, x)); }
  ValueId add(ValueId a, ValueId b) { return build_.add(OpCode::kAdd, {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return build_.add(OpCode::kSub, {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return build_.add(OpCode::kMul, {a, b}); }
  ValueId min(ValueId a, ValueId b) { return build_.add(OpCode::kMin, {a, b}); }
  ValueId max(ValueId a, ValueId b) { return build_.add(OpCode::kMax, {a, b}); }
  // Of numbers that are not negative.
  ValueId quotient_up(ValueId a, ValueId b) {
    const ValueId rest = min(build_.add(OpCode::kRem, {a, b}), constant(1));
    return add(build_.add(OpCode::kDiv, {a, b}), rest);
  }

 private:
  OpBuilder& build_;
  ElementType type_;
};

// How a loop is split, and parameters of the stage that is made.
struct Split {
  Op loop;
  int64_t parts;
  ValueId chunk = dsl::kNoValue;
  std::vector<ValueId> pointers = {};  // where partial sums lie, one a sum

  void take_params(const dsl::Kernel& kernel, size_t first) {
    chunk = kernel.params[first].value;
    pointers.clear();
    for (size_t i = first + 1; i < kernel.params.size(); ++i) pointers.push_back(kernel.params[i].value);
  }
};

// Where the partial sums of one part lie, a tile of pointers; `part`: its number, a scalar i32.
ValueId places(OpBuilder& build, ValueId pointer, ValueId part, const std::vector<dsl::Expr>& shape) {
  const ValueId elements = build.constant(ElementType::kI32, static_cast<uint64_t>(element_product(shape)));
  const ValueId first = build.add(OpCode::kAddptr, {pointer, build.add(OpCode::kMul, {part, elements})});
  return build.add(OpCode::kAddptr, {build.splat(first, shape), row_numbers(build, shape, 1)});
}

void assume_part(OpBuilder& build, const Split& split, int64_t parts) {
  const auto expr = [](int64_t x) { return dsl::Expr(x); };
  build.effect(OpCode::kAssume, {split.chunk}, {expr(1), expr(1), expr(0), expr(parts - 1)});
  for (ValueId pointer : split.pointers) build.effect(OpCode::kAssume, {pointer}, {expr(64)});
}

// The loop with the bounds of this part, in place.
void cut_loop(dsl::Kernel& kernel, std::vector<Op>& out, const Split& split, Op loop) {
  OpBuilder build(kernel, out, loop.loc);
  const ElementType type = kernel.type(loop.operands[0]).element;
  Ints ints(build, type);
  const ValueId lo = loop.operands[0], hi = loop.operands[1], step = loop.operands[2];
  const ValueId chunk = type == ElementType::kI32 ? split.chunk : build.add(OpCode::kCast, {split.chunk}, {type});
  const ValueId trips = ints.quotient_up(ints.max(ints.sub(hi, lo), ints.constant(0)), step);
  const ValueId each = ints.quotient_up(trips, ints.constant(split.parts));
  const ValueId from = ints.add(lo, ints.mul(ints.min(ints.mul(chunk, each), trips), step));
  loop.operands[0] = from;
  loop.operands[1] = ints.add(from, ints.min(ints.mul(each, step), ints.sub(hi, from)));
  for (size_t i = kFirstInit; i < loop.operands.size(); ++i) {
    const dsl::Type& sums = kernel.type(loop.operands[i]);
    loop.operands[i] = build.splat(build.constant(sums.element, 0), std::vector(sums.shape));
  }
  out.push_back(std::move(loop));
}

// The kernel without its effects, which the stores of partial sums replace; what they alone needed is dropped.
dsl::Kernel make_parts(const dsl::Kernel& source, const Split& split) {
  dsl::Kernel kernel = source;
  kernel.body.ops.clear();
  OpBuilder build(kernel, kernel.body.ops, split.loop.loc);
  assume_part(build, split, split.parts);
  for (const Op& op : source.body.ops) {
    if (op.results == split.loop.results) {
      cut_loop(kernel, kernel.body.ops, split, op);
    } else if (op.code == OpCode::kAssume || !(has_trait(op, dsl::kEffect) || has_trait(op, dsl::kWrites))) {
      kernel.body.ops.push_back(op);
    }
  }
  for (size_t i = 0; i < split.pointers.size(); ++i) {
    const ValueId sums = split.loop.results[i];
    const std::vector<dsl::Expr> shape = kernel.type(sums).shape;
    build.effect(OpCode::kStore, {places(build, split.pointers[i], split.chunk, shape), sums});
  }
  return dsl::canonicalise(kernel);
}

bool is_zero(const dsl::Kernel& source, ValueId tile) {
  const std::vector<const Op*> definition = top_level_definitions(source);
  const Op* splat = definition[tile];
  const Op* scalar = splat && splat->code == OpCode::kSplat ? definition[splat->operands[0]] : nullptr;
  return scalar && scalar->code == OpCode::kConstant && std::get<dsl::Literal>(scalar->attrs[0]).bits == 0;
}

// What takes the loop's place: its results as sums of partial sums. These are never -0: they began at 0.
void add_partials(const dsl::Kernel& source, dsl::Kernel& kernel, std::vector<Op>& out, const Split& split) {
  OpBuilder build(kernel, out, split.loop.loc);
  for (size_t i = 0; i < split.pointers.size(); ++i) {
    const ValueId begin = split.loop.operands[kFirstInit + i];
    const std::vector<dsl::Expr> shape = kernel.type(begin).shape;
    ValueId sum = is_zero(source, begin) ? dsl::kNoValue : begin;
    for (int64_t part = 0; part < split.parts; ++part) {
      const ValueId number = build.constant(ElementType::kI32, static_cast<uint64_t>(part));
      const ValueId partial = build.add(OpCode::kLoad, {places(build, split.pointers[i], number, shape)});
      sum = sum == dsl::kNoValue ? partial : build.add(OpCode::kAdd, {sum, partial});
    }
    out.back().results[0] = split.loop.results[i];
  }
}

dsl::Kernel make_sums(const dsl::Kernel& source, const Split& split) {
  dsl::Kernel kernel = source;
  kernel.body.ops.clear();
  OpBuilder build(kernel, kernel.body.ops, split.loop.loc);
  for (ValueId pointer : split.pointers) build.effect(OpCode::kAssume, {pointer}, {dsl::Expr(64)});
  for (const Op& op : source.body.ops) {
    if (op.results == split.loop.results) {
      add_partials(source, kernel, kernel.body.ops, split);
    } else {
      kernel.body.ops.push_back(op);
    }
  }
  return dsl::canonicalise(kernel);
}

// The most rows that divide them all, so that a program has few elements.
int64_t rows_of_part(const dsl::Type& tile) {
  const int64_t rows = *tile.shape[0].as_constant();
  const int64_t wanted = std::max<int64_t>(1, kPartElements * rows / element_product(tile.shape));
  for (int64_t out = std::min(wanted, rows); out > 1; --out) {
    if (rows % out == 0) return out;
  }
  return 1;
}

// Where all tiles that the last stage stores have as many rows, some rows each.
void store_by_rows(Plan& plan) {
  const dsl::Kernel& kernel = plan.stages.back().kernel;
  const auto store = std::ranges::find(kernel.body.ops, OpCode::kStore, &Op::code);
  if (store == kernel.body.ops.end()) return;
  const dsl::Type& tile = kernel.type(store->operands[0]);
  if (tile.rank() < 2) return;
  const int64_t extent = *tile.shape[0].as_constant(), rows = rows_of_part(tile);
  cut_stores(plan, 0, {extent, rows, extent / rows});
}

}  // namespace

bool split_product(Plan& plan, int64_t parts) {
  const Op* loop = find_loop(plan.stages.back().kernel);
  if (!loop) return false;
  Split split{*loop, parts};
  for (ValueId sums : split.loop.results) {
    const dsl::Kernel& kernel = plan.stages.back().kernel;
    add_room(plan, kernel.type(sums).element, parts * element_product(kernel.type(sums).shape));
  }
  Stage& last = plan.stages.back();
  split.take_params(last.kernel, plan.kernel_params);
  Stage before{make_parts(last.kernel, split), "kiln_stage_0", parts};
  last.kernel = make_sums(last.kernel, split);
  store_by_rows(plan);
  plan.stages.insert(plan.stages.end() - 1, std::move(before));
  return true;
}

}  // namespace kiln::codegen
