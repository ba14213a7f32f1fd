// reduce: a nest over the operands, with an accumulator.
//
//   along   the reduced axis is the last one: its vectors are added up lane by lane, the lanes at the end of each row
//   across  lanes lie along another axis: rows are added to rows. A long axis goes in blocks of rows, strip by strip of
//           columns, so that memory is walked row by row; what a block leaves waits in scratch for the next.
#include <numeric>

#include "cpu/accumulator.h"
#include "cpu/nest.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;
// Additions of a float sum before it moves to a wider total, which bounds its relative error by 16 · 2^-24 (a tail of
// narrow chunks may add four more).
constexpr int64_t kBlock = 32;

// Vectors of the reduction and what they cost: registers for each operand.
void choose_width(Nest& nest, const Op& op) {
  const auto operands = static_cast<int>(op.operands.size());
  const bool custom = reduce_kind(op) == dsl::ReduceKind::kCustom;
  int width = kMaxWidth;
  while (custom && width > 16 && width * operands > kMaxWidth / 2) width /= 2;
  nest.choose_width(op.operands, width);
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
    return nest.b.CreateShuffleVector(x, none, from);
  };
  for (Value*& value : elements.values) value = wide(value);
  elements.lanes = wide(elements.lanes);
}

Point without(Point point, int axis) {
  point.erase(point.begin() + axis);
  return point;
}

// One scalar a row: into the result itself where it is a scalar, else into its slot.
void put_row_results(Nest& nest, const Op& op, const Registers& totals, llvm::ArrayRef<Slot> slots, const Point& row) {
  Context& c = nest.c;
  for (size_t i = 0; i < totals.size(); ++i) {
    const ValueId result = op.results[i];
    if (c.type(result).is_scalar()) {
      c.scalars[result] = totals[i];
    } else {
      nest.store_slot(slots[i], row, c.type(result), totals[i]);
    }
  }
}

Result<void> reduce_along(Context& c, const Op& op, int axis, const std::vector<Slot>& slots) {
  Builder& b = c.b;
  Nest nest(c, dsl::concrete_shape(c.type(op.operands[0])));
  const Point here = nest.identity(), row = without(here, axis);
  if (nest.extent(axis) > 1) nest.set_vector_dim(axis);
  const bool custom = reduce_kind(op) == dsl::ReduceKind::kCustom;
  if (!custom) nest.register_masks(op.operands[0], here);
  choose_width(nest, op);
  const int64_t block = kBlock * nest.width();
  const bool blocks = nest.extent(axis) > block;
  const int width = nest.width();
  const auto accumulator = make_accumulator(c, op, {width, true, blocks});

  Nest::Body body;
  body.begin_row = [&]() -> Result<void> {
    accumulator->reset();
    return {};
  };
  body.chunk = [&]() -> Result<void> {
    auto elements = elements_at(nest, op, here, axis);
    if (!elements) return elements.error();
    elements->lanes = nest.lane_mask();
    const bool narrow = nest.width() < width;  // in a tail, which is shorter than a block
    if (narrow && !custom) widen(nest, width, *elements);
    if (auto done = accumulator->add(*elements); !done || !blocks || narrow) return done;
    Value* last = b.CreateICmpEQ(b.CreateAnd(nest.index(axis), c.i64(block - 1)), c.i64(block - width));
    emit_if(b, last, "block", [](llvm::Instruction*) {}, [&] { accumulator->end_block(); });
    return {};
  };
  if (!custom && accumulator->takes_equal() && nest.vector_dim() >= 0 && nest.uniform_outside(op.operands[0], here)) {
    body.outside = [&](Value* first, Value* count) -> Result<void> {
      auto value = nest.evaluate(op.operands[0], here);
      if (!value) return value.error();
      accumulator->add_equal(*value, first, count);
      return {};
    };
  }
  body.any_width = nest.masks().empty() || body.outside != nullptr;
  body.end_row = [&]() -> Result<void> {
    accumulator->end_block();
    auto totals = accumulator->total();
    if (!totals) return totals.error();
    put_row_results(nest, op, *totals, slots, row);
    return {};
  };
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  return {};
}

// The state of an accumulator between blocks: a tile each, of the result's shape.
class StateTiles {
 public:
  StateTiles(Context& c, const Accumulator& accumulator, const dsl::Type& result) {
    for (const Accumulator::State& state : accumulator.states) {
      types_.push_back(dsl::tile_type(state.element, result.shape));
      slots_.push_back(allocate_slot(c, types_.back()));
    }
  }

  // But for the first block, which begins with the accumulator as it is.
  void load(Nest& nest, const Point& point, const Accumulator& accumulator, Value* is_first) const {
    Builder& b = nest.b;
    for (size_t i = 0; i < slots_.size(); ++i) {
      Value* variable = accumulator.states[i].variable;
      Value* kept = nest.load_slot(slots_[i], point, types_[i]);
      Value* initial = b.CreateLoad(kept->getType(), variable);
      b.CreateStore(b.CreateSelect(is_first, initial, kept), variable);
    }
  }

  void store(Nest& nest, const Point& point, const Accumulator& accumulator) const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      auto* variable = llvm::cast<llvm::AllocaInst>(accumulator.states[i].variable);
      nest.store_slot(slots_[i], point, types_[i], nest.b.CreateLoad(variable->getAllocatedType(), variable));
    }
  }

 private:
  std::vector<dsl::Type> types_;
  std::vector<Slot> slots_;
};

Result<void> reduce_across(Context& c, const Op& op, int axis, const std::vector<Slot>& slots) {
  Builder& b = c.b;
  auto shape = dsl::concrete_shape(c.type(op.operands[0]));
  const int64_t rows = shape[static_cast<size_t>(axis)], blocks = (rows + kBlock - 1) / kBlock;
  shape[static_cast<size_t>(axis)] = blocks;  // the nest walks blocks, and rows inside its chunks
  Nest nest(c, shape);
  choose_width(nest, op);
  const Point out = without(nest.identity(), axis);
  const int row = nest.add_inner_dim(rows);
  Point in = out;
  in.insert(in.begin() + axis, static_cast<int8_t>(row));
  const auto accumulator = make_accumulator(c, op, {nest.width(), false, blocks > 1});
  std::optional<StateTiles> tiles;
  if (blocks > 1) tiles.emplace(c, *accumulator, c.type(op.results[0]));

  Nest::Body body;
  body.chunk = [&]() -> Result<void> {
    accumulator->reset();
    Value *begin = c.i64(0), *end = c.i64(rows);
    if (tiles) {
      begin = b.CreateMul(nest.index(axis), c.i64(kBlock));
      end = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b.CreateAdd(begin, c.i64(kBlock)), end);
      tiles->load(nest, out, *accumulator, b.CreateICmpEQ(begin, c.i64(0)));
    }
    Result<void> status;
    nest.walk_inner(row, begin, end, [&] {
      auto elements = elements_at(nest, op, in, row);
      status = elements ? accumulator->add(*elements) : elements.error();
    });
    if (!status) return status;
    accumulator->end_block();
    if (tiles) tiles->store(nest, out, *accumulator);
    // Of the blocks so far; the last one has the last word.
    const Registers results = accumulator->lanes();
    for (size_t i = 0; i < results.size(); ++i) nest.store_slot(slots[i], out, c.type(op.results[i]), results[i]);
    return {};
  };
  return nest.walk(body, false);
}

}  // namespace

Result<void> lower_reduce(Context& c, const Op& op) {
  const auto shape = dsl::concrete_shape(c.type(op.operands[0]));
  const auto axis = static_cast<size_t>(std::get<int64_t>(op.attrs[1]));
  std::vector<Slot> slots;
  for (ValueId result : op.results) {
    if (!c.type(result).is_scalar()) slots.push_back(allocate_slot(c, c.type(result)));
  }
  const bool last = std::all_of(shape.begin() + static_cast<int64_t>(axis) + 1, shape.end(),
                                [](int64_t extent) { return extent == 1; });
  const bool along = shape.size() == 1 || (last && shape[axis] > 1);
  const int reduced = static_cast<int>(axis);
  auto done = along ? reduce_along(c, op, reduced, slots) : reduce_across(c, op, reduced, slots);
  if (!done) return done;
  for (size_t i = 0; i < slots.size(); ++i) c.slots[op.results[i]] = slots[i];
  return {};
}

}  // namespace kiln::codegen::cpu
