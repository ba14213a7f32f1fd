// reduce: a nest over the operands, with an accumulator.
//
//   along   the reduced axis is the last one: its vectors are added up lane by lane, the lanes at the end of each row
//           (reductions of the same tile share a walk)
//   narrow  … but is small: lanes lie along the axis before it
//   across  lanes lie along another axis: rows are added to rows. A long axis goes in blocks of rows, strip by strip of
//           columns, so that memory is walked row by row; what a block leaves waits in scratch for the next.
#include "cpu/ops/reduce.h"

#include <numeric>

#include "cpu/early_tiles.h"
#include "cpu/nest/nest.h"
#include "cpu/ops/accumulator.h"
#include "cpu/siblings.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;
// Additions of a float sum before it moves to a wider total, which bounds its relative error by 16 · 2^-24 (a tail of
// narrow chunks may add four more).
constexpr int64_t kBlock = 32;
constexpr size_t kMostSiblings = 3;           // reductions of one walk: their accumulators take registers
constexpr size_t kMostAcross = 4;             // and those of columns, such as a norm's gradients
constexpr ptrdiff_t kFarthestSibling = 1024;  // ops further down

// Vectors of the reduction and what they cost: registers for each operand.
void choose_width(Nest& nest, dsl::ReduceKind kind, llvm::ArrayRef<ValueId> operands) {
  const auto count = static_cast<int>(operands.size());
  const bool custom = kind == dsl::ReduceKind::kCustom;
  int width = count > 1 && nest.ctx.target.vector_registers < 32 ? kMaxWidth / 4 : kMaxWidth;
  while (custom && width > 16 && width * count > kMaxWidth / 2) width /= 2;
  nest.choose_width(operands, width);
}

Result<Accumulator::Elements> elements_at(Nest& nest, const Op& op, const Point& point, int reduced_dim) {
  Accumulator::Elements out;
  for (ValueId operand : op.operands) {
    auto value = nest.evaluate_lanes(operand, point);
    if (!value) return value.error();
    out.values.push_back(*value);
  }
  out.index = nest.index(reduced_dim);
  return out;
}

// The lanes of a narrow chunk as the first ones of a whole one; the others are off.
void widen(Nest& nest, int width, Accumulator::Elements& elements) {
  const int lanes = nest.width();
  std::vector<int> from(static_cast<size_t>(width), lanes);  // the first lane of `none`
  std::iota(from.begin(), from.begin() + lanes, 0);
  auto wide = [&](Value* x) {
    Value* none = llvm::Constant::getNullValue(x->getType());
    return nest.ir.CreateShuffleVector(x, none, from);
  };
  for (Value*& value : elements.values) value = wide(value);
  elements.lanes = wide(elements.lanes);
}

Point without(Point point, int axis) {
  point.erase(point.begin() + axis);
  return point;
}

// One scalar a row: into the result itself where it is a scalar, else into its slot.
void put_row_results(Nest& nest, const Op& op, const Registers& totals, llvm::ArrayRef<ScratchSlot> slots,
                     const Point& row) {
  Context& ctx = nest.ctx;
  for (size_t i = 0; i < totals.size(); ++i) {
    const ValueId result = op.results[i];
    if (ctx.type(result).is_scalar()) {
      ctx.scalars[result] = totals[i];
    } else {
      nest.store_slot(slots[i], row, ctx.type(result), totals[i]);
    }
  }
}

// A reduction of the nest, with where its results go.
struct Reduction {
  const Op* op;
  std::vector<ScratchSlot> slots;
  std::unique_ptr<Accumulator> accumulator{};
};

using Reductions = std::vector<Reduction>;
using Tiles = llvm::ArrayRef<TilePlace>;

bool all_take_equal(Nest& nest, const Reductions& reductions) {
  return llvm::all_of(reductions, [&](const Reduction& r) {
    return reduce_kind(*r.op) != dsl::ReduceKind::kCustom && r.accumulator->takes_equal() &&
           nest.uniform_outside(r.op->operands[0], nest.identity());
  });
}

Result<void> reduce_along(Context& ctx, int axis, Reductions& reductions, Tiles early) {
  Builder& ir = ctx.ir;
  Nest nest(ctx, dsl::concrete_shape(ctx.type(reductions[0].op->operands[0])));
  const Point here = nest.identity(), row = without(here, axis);
  if (nest.extent(axis) > 1) nest.set_vector_dim(axis);
  llvm::SmallVector<ValueId, 4> operands;
  for (const Reduction& r : reductions) {
    if (reduce_kind(*r.op) != dsl::ReduceKind::kCustom) nest.register_masks(r.op->operands[0], here);
    operands.append(r.op->operands.begin(), r.op->operands.end());
  }
  choose_width(nest, reductions.size() == 1 ? reduce_kind(*reductions[0].op) : dsl::ReduceKind::kSum, operands);
  const int64_t block = kBlock * nest.width();
  const bool blocks = nest.extent(axis) > block;
  const int width = nest.width();
  for (Reduction& r : reductions) r.accumulator = make_accumulator(ctx, *r.op, {width, true, blocks});
  auto end_blocks = [&] {
    for (const Reduction& r : reductions) r.accumulator->end_block();
  };

  Nest::Body body;
  body.begin_row = [&]() -> Result<void> {
    for (const Reduction& r : reductions) r.accumulator->reset();
    return {};
  };
  body.chunk = [&]() -> Result<void> {
    const bool narrow = nest.width() < width;  // in a tail, which is shorter than a block
    if (auto done = put_early_tiles(nest, early, here); !done) return done;
    for (const Reduction& r : reductions) {
      auto elements = elements_at(nest, *r.op, here, axis);
      if (!elements) return elements.error();
      elements->lanes = nest.lane_mask();
      if (narrow && reduce_kind(*r.op) != dsl::ReduceKind::kCustom) widen(nest, width, *elements);
      if (auto done = r.accumulator->add(*elements); !done) return done;
    }
    if (!blocks || narrow) return {};
    Value* last = ir.CreateICmpEQ(ir.CreateAnd(nest.index(axis), ctx.i64(block - 1)), ctx.i64(block - width));
    emit_if(ir, last, "block", [](llvm::Instruction*) {}, end_blocks);
    return {};
  };
  if (nest.vector_dim() >= 0 && early.empty() && all_take_equal(nest, reductions)) {
    body.outside = [&](Value* first, Value* count) -> Result<void> {
      for (const Reduction& r : reductions) {
        auto value = nest.evaluate(r.op->operands[0], here);
        if (!value) return value.error();
        r.accumulator->add_equal(*value, first, count);
      }
      return {};
    };
  }
  body.any_width = nest.masks().empty() || body.outside != nullptr;
  body.end_row = [&]() -> Result<void> {
    end_blocks();
    for (const Reduction& r : reductions) {
      auto totals = r.accumulator->total();
      if (!totals) return totals.error();
      put_row_results(nest, *r.op, *totals, r.slots, row);
    }
    return {};
  };
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  return {};
}

// The reduced axis is small: the rows before it are walked in vectors, which have one for each of its indices.
Result<void> reduce_narrow(Context& ctx, int axis, Reductions& reductions, Tiles early) {
  Nest nest(ctx, dsl::concrete_shape(ctx.type(reductions[0].op->operands[0])));
  nest.unroll_narrow();
  llvm::SmallVector<ValueId, 4> operands;
  for (const Reduction& r : reductions) {
    for (const Point& point : nest.points()) {
      for (ValueId operand : r.op->operands) nest.register_masks(operand, point);
    }
    operands.append(r.op->operands.begin(), r.op->operands.end());
  }
  nest.choose_width(operands, nest.most_lanes(kMaxWidth));
  for (Reduction& r : reductions) r.accumulator = make_accumulator(ctx, *r.op, {nest.width(), false, false});
  const Point row = without(nest.points()[0], axis);
  Nest::Body body;
  body.chunk = [&]() -> Result<void> {
    if (auto done = put_early_tiles(nest, early, nest.points()); !done) return done;
    for (const Reduction& r : reductions) {
      r.accumulator->reset();
      for (size_t i = 0; i < nest.points().size(); ++i) {
        auto elements = elements_at(nest, *r.op, nest.points()[i], axis);
        if (!elements) return elements.error();
        elements->index = ctx.i64(static_cast<int64_t>(i));
        if (auto done = r.accumulator->add(*elements); !done) return done;
      }
      const Registers totals = r.accumulator->lanes();
      for (size_t i = 0; i < totals.size(); ++i)
        nest.store_slot(r.slots[i], row, ctx.type(r.op->results[i]), totals[i]);
    }
    return {};
  };
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  return {};
}

// The state of an accumulator between blocks: a tile each, of the result's shape.
class StateTiles {
 public:
  StateTiles(Context& ctx, const Accumulator& accumulator, const dsl::Type& result) {
    for (const Accumulator::State& state : accumulator.states) {
      types_.push_back(dsl::tile_type(state.element, result.shape));
      slots_.push_back(allocate_scratch_slot(ctx, types_.back()));
    }
  }

  // But for the first block, which begins with the accumulator as it is.
  void load(Nest& nest, const Point& point, const Accumulator& accumulator, Value* is_first) const {
    Builder& ir = nest.ir;
    for (size_t i = 0; i < slots_.size(); ++i) {
      Value* variable = accumulator.states[i].variable;
      Value* kept = nest.load_slot(slots_[i], point, types_[i]);
      Value* initial = ir.CreateLoad(kept->getType(), variable);
      ir.CreateStore(ir.CreateSelect(is_first, initial, kept), variable);
    }
  }

  void store(Nest& nest, const Point& point, const Accumulator& accumulator) const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      auto* variable = llvm::cast<llvm::AllocaInst>(accumulator.states[i].variable);
      nest.store_slot(slots_[i], point, types_[i], nest.ir.CreateLoad(variable->getAllocatedType(), variable));
    }
  }

 private:
  std::vector<dsl::Type> types_;
  std::vector<ScratchSlot> slots_;
};

Result<void> reduce_across(Context& ctx, int axis, Reductions& reductions, Tiles early) {
  Builder& ir = ctx.ir;
  auto shape = dsl::concrete_shape(ctx.type(reductions[0].op->operands[0]));
  const int64_t rows = shape[static_cast<size_t>(axis)], blocks = (rows + kBlock - 1) / kBlock;
  shape[static_cast<size_t>(axis)] = blocks;  // the nest walks blocks, and rows inside its chunks
  Nest nest(ctx, shape);
  llvm::SmallVector<ValueId, 4> operands;
  for (const Reduction& r : reductions) operands.append(r.op->operands.begin(), r.op->operands.end());
  choose_width(nest, reduce_kind(*reductions[0].op), operands);
  const Point out = without(nest.identity(), axis);
  const int row = nest.add_inner_dim(rows);
  Point in = out;
  in.insert(in.begin() + axis, static_cast<int8_t>(row));
  std::vector<StateTiles> tiles;
  for (Reduction& r : reductions) {
    r.accumulator = make_accumulator(ctx, *r.op, {nest.width(), false, blocks > 1});
    if (blocks > 1) tiles.emplace_back(ctx, *r.accumulator, ctx.type(r.op->results[0]));
  }

  Nest::Body body;
  body.chunk = [&]() -> Result<void> {
    Value *begin = ctx.i64(0), *end = ctx.i64(rows);
    if (blocks > 1) {
      begin = ir.CreateMul(nest.index(axis), ctx.i64(kBlock));
      end = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir.CreateAdd(begin, ctx.i64(kBlock)), end);
    }
    for (const auto& [i, r] : llvm::enumerate(reductions)) {
      r.accumulator->reset();
      if (blocks > 1) tiles[i].load(nest, out, *r.accumulator, ir.CreateICmpEQ(begin, ctx.i64(0)));
    }
    Result<void> status;
    nest.walk_inner(row, begin, end, [&] {
      if (status.ok()) status = put_early_tiles(nest, early, in);
      for (const Reduction& r : reductions) {
        auto elements = elements_at(nest, *r.op, in, row);
        if (status.ok()) status = elements ? r.accumulator->add(*elements) : elements.error();
      }
    });
    if (!status) return status;
    for (const auto& [i, r] : llvm::enumerate(reductions)) {
      r.accumulator->end_block();
      if (blocks > 1) tiles[i].store(nest, out, *r.accumulator);
      // Of the blocks so far; the last one has the last word.
      const Registers results = r.accumulator->lanes();
      for (size_t j = 0; j < results.size(); ++j) {
        nest.store_slot(r.slots[j], out, ctx.type(r.op->results[j]), results[j]);
      }
    }
    return {};
  };
  return nest.walk(body, false);
}

size_t axis_of(const Op& op) { return static_cast<size_t>(std::get<int64_t>(op.attrs[1])); }

bool is_along(const Context& ctx, const Op& op) {
  const auto shape = dsl::concrete_shape(ctx.type(op.operands[0]));
  const size_t axis = axis_of(op);
  const bool last = std::all_of(shape.begin() + static_cast<int64_t>(axis) + 1, shape.end(),
                                [](int64_t extent) { return extent == 1; });
  return shape.size() == 1 || (last && shape[axis] > 1);
}

// Whether it is along the one small axis behind rows that are walked in vectors.
bool is_narrow(const Context& ctx, const Op& op) {
  const auto shape = dsl::concrete_shape(ctx.type(op.operands[0]));
  const auto row = axis_before_narrow(shape);
  return row && std::all_of(shape.begin() + static_cast<int64_t>(*row) + 1, shape.end(),
                            [&](const int64_t& extent) { return extent == 1 || &extent == &shape[axis_of(op)]; });
}

// This reduction and those further down of the same rows: one walk serves them all.
std::vector<const Op*> of_same_rows(const Context& ctx, const Op& op) {
  const auto custom = [](const Op& each) { return reduce_kind(each) == dsl::ReduceKind::kCustom; };
  const auto shape = dsl::concrete_shape(ctx.type(op.operands[0]));
  const size_t most = custom(op) ? 1 : is_along(ctx, op) ? kMostSiblings : kMostAcross;
  return with_siblings(ctx, op, {most, kFarthestSibling}, [&](const Op& each) {
    return each.code == OpCode::kReduce && !custom(each) && axis_of(each) == axis_of(op) &&
           dsl::concrete_shape(ctx.type(each.operands[0])) == shape;
  });
}

}  // namespace

Result<void> lower_reduce(Context& ctx, const Op& op) {
  if (is_there(ctx, op.results[0])) return {};  // with one before it
  const std::vector<const Op*> ops = of_same_rows(ctx, op);
  const std::vector<TilePlace> early = take_early_tiles(ctx, ops);
  Reductions reductions;
  for (const Op* each : ops) {
    Reduction reduction{each, {}};
    for (ValueId result : each->results) {
      if (!ctx.type(result).is_scalar()) reduction.slots.push_back(allocate_scratch_slot(ctx, ctx.type(result)));
    }
    reductions.push_back(std::move(reduction));
  }
  const auto axis = static_cast<int>(axis_of(op));
  auto done = !is_along(ctx, op)   ? reduce_across(ctx, axis, reductions, early)
              : is_narrow(ctx, op) ? reduce_narrow(ctx, axis, reductions, early)
                                   : reduce_along(ctx, axis, reductions, early);
  if (!done) return done;
  for (const TilePlace& tile : early) ctx.slots[tile.id] = tile.slot;
  for (const Reduction& r : reductions) {
    for (size_t i = 0; i < r.slots.size(); ++i) ctx.slots[r.op->results[i]] = r.slots[i];
  }
  return {};
}

}  // namespace kiln::codegen::cpu
