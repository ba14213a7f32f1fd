// for, while and if: carried values live in allocas (scalars) and slots (tiles).
#include "cpu/control.h"

#include <numeric>

#include "cpu/carried_tiles.h"
#include "cpu/dot/dot_accumulator.h"
#include "cpu/nest/materialise.h"
#include "cpu/nest/nest.h"
#include "cpu/region.h"
#include "cpu/register_sums.h"
#include "elementwise/loop_range.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;

// A carried scalar lives in an alloca that the pipeline promotes, a carried tile in a slot.
struct Carried {
  ValueId argument;
  Value* variable = nullptr;
  ScratchSlot slot;
};

// Which values are computed from a place in scratch, when they are computed now.
class Readers {
 public:
  Readers(const Context& context, const ScratchSlot& place) : ctx_(context), offset_(place.offset) {}

  bool reads(ValueId id) {
    if (auto known = reads_.find(id); known != reads_.end()) return known->second;
    return reads_[id] = reads_new(id);
  }

  // Element i of `id` depends on the place through element i alone.
  bool elementwise(ValueId id) {
    if (auto known = elementwise_.find(id); known != elementwise_.end()) return known->second;
    return elementwise_[id] = elementwise_new(id);
  }

 private:
  bool has_place(ValueId id) const { return ctx_.slots[id] && ctx_.slots[id]->offset == offset_; }

  bool reads_new(ValueId id) {
    if (has_place(id)) return true;
    const Op* op = ctx_.schedule.definition[id];
    if (!op || ctx_.type(id).is_scalar() || (ctx_.slots[id] && ctx_.slots[id]->valid_under.empty())) return false;
    return llvm::any_of(op->operands, [&](ValueId operand) { return reads(operand); });
  }

  bool elementwise_new(ValueId id) {
    if (has_place(id) || !reads(id)) return true;
    const Op* op = ctx_.schedule.definition[id];
    return is_elementwise(*op) && llvm::all_of(op->operands, [&](ValueId operand) { return elementwise(operand); });
  }

  const Context& ctx_;
  uint64_t offset_;
  std::map<ValueId, bool> reads_, elementwise_;
};

// A new tile that is the old one but where an int along one axis equals another: select(cmp eq, value, old).
struct RowUpdate {
  ValueId value;
  const Op* comparison;
  size_t axis_of_comparison;
  int dim;  // that axis in the tile; not the last, which is walked in vectors
};

std::optional<RowUpdate> row_update(const Context& ctx, ValueId next, ValueId old) {
  const Op* select = ctx.schedule.definition[next];
  if (!select || select->code != OpCode::kSelect || select->operands[2] != old) return std::nullopt;
  const auto shape = dsl::concrete_shape(ctx.type(next));
  std::vector<int> dims(shape.size());  // by axis of the mask
  std::iota(dims.begin(), dims.end(), 0);
  ValueId mask = select->operands[0];
  const Op* op = ctx.schedule.definition[mask];
  while (op && (op->code == OpCode::kBroadcast || op->code == OpCode::kExpandDims)) {
    if (op->code == OpCode::kExpandDims) dims.erase(dims.begin() + std::get<int64_t>(op->attrs[0]));
    mask = op->operands[0];
    op = ctx.schedule.definition[mask];
  }
  if (!op || op->code != OpCode::kCmp || ctx.slots[mask] || dsl::is_float(ctx.type(op->operands[0]).element) ||
      static_cast<dsl::Predicate>(std::get<int64_t>(op->attrs[0])) != dsl::Predicate::kEq) {
    return std::nullopt;
  }
  std::optional<RowUpdate> out;
  const auto extents = dsl::concrete_shape(ctx.type(mask));
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] == 1) continue;
    if (out) return std::nullopt;
    out = RowUpdate{select->operands[1], op, axis, dims[axis]};
  }
  const bool is_last = out && std::all_of(shape.begin() + out->dim + 1, shape.end(), [](int64_t n) { return n == 1; });
  return is_last ? std::nullopt : out;
}

// Puts the one row in place. False: its index cannot be told, and nothing is done.
Result<bool> put_row(Context& ctx, const RowUpdate& update, const ScratchSlot& slot) {
  Builder& ir = ctx.ir;
  Nest nest(ctx, dsl::concrete_shape(ctx.type(update.value)));
  const Op& cmp = *update.comparison;
  const Point first(ctx.type(cmp.results[0]).shape.size(), kZero);
  Point along = first;
  along[update.axis_of_comparison] = static_cast<int8_t>(update.dim);
  llvm::SmallVector<Value*, 2> numbers;
  llvm::SmallVector<Nest::Along, 2> moves;
  for (ValueId operand : cmp.operands) {
    moves.push_back(nest.along(operand, along, update.dim, true));
    auto number = nest.evaluate(operand, first);
    if (!number) return number.error();
    const bool is_signed = dsl::info(ctx.type(operand).element).is_signed;
    numbers.push_back(is_signed ? ir.CreateSExt(*number, ir.getInt64Ty()) : ir.CreateZExt(*number, ir.getInt64Ty()));
  }
  if (moves[0] == Nest::Along::kSame) {
    std::swap(moves[0], moves[1]);
    std::swap(numbers[0], numbers[1]);
  }
  if (moves[0] != Nest::Along::kByOne || moves[1] != Nest::Along::kSame) return false;
  Value* index = ir.CreateSub(numbers[1], numbers[0]);
  Result<void> result;
  const auto put = [&] {
    nest.fix_dim(update.dim, index);
    nest.choose_width(update.value, kMaxWidth);
    Nest::Body body;
    body.any_width = true;
    body.chunk = [&]() -> Result<void> {
      auto value = nest.evaluate_lanes(update.value, nest.identity());
      if (!value) return value.error();
      nest.store_slot(slot, nest.identity(), ctx.type(update.value), *value);
      return {};
    };
    result = nest.walk(body, false);
  };
  emit_if(ir, ir.CreateICmpULT(index, ctx.i64(nest.extent(update.dim))), "row", [](llvm::Instruction*) {}, put);
  if (!result) return result.error();
  return true;
}

// New tiles are computed into places of their own before any old one is overwritten: they may refer to each other.
Result<void> lower_yield(Context& ctx, const Op& yield, std::vector<Carried>& carried) {
  std::vector<CarriedTile> tiles;
  for (size_t i = 0; i < carried.size(); ++i) {
    tiles.push_back({yield.operands[i], carried[i].variable ? std::nullopt : std::optional(carried[i].slot.offset)});
  }
  const CarriedTiles news(ctx, std::move(tiles));
  const std::vector<std::vector<size_t>> groups = news.in_place_together();
  std::set<size_t> done_together;
  for (const std::vector<size_t>& group : groups) done_together.insert(group.begin(), group.end());
  std::vector<std::pair<size_t, ScratchSlot>> copies;
  std::vector<Value*> scalars(carried.size(), nullptr);
  for (size_t i = 0; i < carried.size(); ++i) {
    const ValueId next = yield.operands[i];
    if (carried[i].variable) {
      scalars[i] = ctx.scalars[next];
      continue;
    }
    if (done_together.contains(i) || (ctx.slots[next] && ctx.slots[next]->offset == carried[i].slot.offset)) continue;
    Readers old(ctx, carried[i].slot);
    const bool others_need_old = llvm::any_of(news.readers(i), [&](const CarriedTiles::Reader& reader) {
      return reader.tile != i && old.reads(yield.operands[reader.tile]);
    });
    // An elementwise update reads each element before it writes it, so it can go in place.
    const bool in_place = !others_need_old && old.elementwise(next);
    if (const auto row = in_place ? row_update(ctx, next, carried[i].argument) : std::nullopt) {
      auto put = put_row(ctx, *row, carried[i].slot);
      if (!put) return put.error();
      if (*put) continue;
    }
    ScratchSlot target = in_place ? carried[i].slot : allocate_scratch_slot(ctx, ctx.type(next), Rows::kClose);
    if (auto done = materialise(ctx, next, target); !done) return done;
    if (!in_place) copies.emplace_back(i, target);
  }
  for (const std::vector<size_t>& group : groups) {
    std::vector<TilePlace> tiles;
    for (size_t i : group) tiles.push_back({yield.operands[i], carried[i].slot});
    if (auto done = materialise(ctx, tiles); !done) return done;
  }
  for (const Carried& each : carried) ctx.initial_splats.erase(each.argument);
  for (auto& [i, from] : copies) {
    ctx.slots[carried[i].argument] = from;
    auto done = materialise(ctx, carried[i].argument, carried[i].slot);
    ctx.slots[carried[i].argument] = carried[i].slot;
    if (!done) return done;
  }
  for (size_t i = 0; i < carried.size(); ++i) {
    if (scalars[i]) ctx.ir.CreateStore(scalars[i], carried[i].variable);
  }
  return {};
}

// What a carried value begins with.
enum class Start : uint8_t {
  kCopy,    // the initial value, in a place of its own
  kSplat,   // the same element everywhere: the first iteration reads that in place of the tile
  kZeros,   // the accumulator of a dot, which makes the zeros itself
  kShared,  // the same in loops inside of the one that made its place
};

bool in_dots(Start start) { return start == Start::kZeros || start == Start::kShared; }

// Gives each carried value its place.
Result<std::vector<Carried>> begin_carried(Context& ctx, llvm::ArrayRef<ValueId> inits,
                                           llvm::ArrayRef<ValueId> arguments, llvm::ArrayRef<Start> starts) {
  std::vector<Carried> carried;
  for (size_t i = 0; i < inits.size(); ++i) {
    Carried state{arguments[i], nullptr, {}};
    const dsl::Type& type = ctx.type(state.argument);
    if (type.is_scalar()) {
      state.variable = entry_alloca(ctx, register_type(ctx.ir.getContext(), type));
      ctx.ir.CreateStore(ctx.scalars[inits[i]], state.variable);
    } else if (starts[i] == Start::kShared) {
      state.slot = *ctx.slots[inits[i]];
    } else {
      state.slot = allocate_scratch_slot(ctx, type, in_dots(starts[i]) ? Rows::kPadded : Rows::kClose);
      if (starts[i] == Start::kCopy) {
        if (auto done = materialise(ctx, inits[i], state.slot); !done) return done.error();
      }
    }
    carried.push_back(std::move(state));
  }
  return carried;
}

// The values carried at this place of the program, under these names: region arguments, results.
void read_carried(Context& ctx, const std::vector<Carried>& carried, llvm::ArrayRef<ValueId> names) {
  for (size_t i = 0; i < carried.size(); ++i) {
    if (carried[i].variable) {
      ctx.scalars[names[i]] =
          ctx.ir.CreateLoad(register_type(ctx.ir.getContext(), ctx.type(names[i])), carried[i].variable);
    } else {
      ctx.slots[names[i]] = carried[i].slot;
    }
  }
}

// What a branch of `if` yields, into the places of the results.
Result<void> lower_branch(Context& ctx, const dsl::Region& region, const std::vector<Carried>& results) {
  if (auto done = lower_region(ctx, region); !done) return done;
  const Op& yield = region.ops.back();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].variable) {
      ctx.ir.CreateStore(ctx.scalars[yield.operands[i]], results[i].variable);
    } else if (auto done = materialise(ctx, yield.operands[i], results[i].slot); !done) {
      return done;
    }
  }
  return {};
}

bool has_write_only_store(const Context& ctx, const dsl::Region& region) {
  return any_op(region, [&](const Op& op) { return ctx.schedule.write_only.contains(&op); });
}

Start start_of(const Context& ctx, const Op& loop, size_t i) {
  if (accumulates_from_zeros(ctx, loop, i)) return Start::kZeros;
  if (continues_accumulator(ctx, loop, i)) return Start::kShared;
  const ValueId init = loop.operands[i + 3], argument = loop.regions[0].args[i + 1];
  const Op* op = ctx.schedule.definition[init];
  // The rows that no iteration has put in place are read too.
  if (row_update(ctx, loop.regions[0].ops.back().operands[i], argument)) return Start::kCopy;
  const bool is_splat = op && op->code == OpCode::kSplat && !ctx.slots[init] && !ctx.type(init).pointer;
  return is_splat && ctx.schedule.by_elements[argument] ? Start::kSplat : Start::kCopy;
}

}  // namespace

Result<void> lower_for(Context& ctx, const Op& op) {
  if (adds_in_registers(ctx, op)) return lower_register_sums(ctx, op);
  Builder& ir = ctx.ir;
  const dsl::Region& region = op.regions[0];
  const ElementType element = ctx.type(op.operands[0]).element;
  const auto arguments = llvm::ArrayRef(region.args).drop_front();
  const auto inits = llvm::ArrayRef(op.operands).drop_front(3);
  std::vector<Start> starts;
  for (size_t i = 0; i < inits.size(); ++i) starts.push_back(start_of(ctx, op, i));
  auto carried = begin_carried(ctx, inits, arguments, starts);
  if (!carried) return carried.error();
  const LoopRange range = make_loop_range(ir, element, ctx.scalars[op.operands[0]], ctx.scalars[op.operands[1]],
                                          ctx.scalars[op.operands[2]]);
  Value* outer_trip_count = ctx.trip_count;
  if (has_write_only_store(ctx, region)) {
    Value* distance = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, ir.CreateSub(range.end, range.start), ctx.i64(0));
    Value* trip_count = ir.CreateUDiv(distance, range.step);  // or one more, which matters little
    ctx.trip_count = outer_trip_count ? ir.CreateMul(outer_trip_count, trip_count) : trip_count;
  }
  Result<void> result;
  const bool effects = has_effect(region);
  for (size_t i = 0; i < inits.size(); ++i) {
    if (starts[i] != Start::kZeros) continue;
    ctx.dot_accumulators[(*carried)[i].slot.offset] = make_dot_accumulator(ctx, op, i, effects);
  }
  std::vector<Value*> last_iterations(inits.size());  // of the loops around this one
  const Iteration around = std::exchange(ctx.iteration, {&region, range.growth()});
  emit_loop(
      ir, range.start, range.end, range.step, "for", [](llvm::Instruction*) {},
      [&](Value* count) {
        for (size_t i = 0; i < inits.size(); ++i) {
          if (starts[i] == Start::kSplat) {
            ctx.initial_splats[arguments[i]] = {ir.CreateICmpNE(count, range.start),
                                                ctx.scalars[ctx.schedule.definition[inits[i]]->operands[0]]};
          }
          if (!in_dots(starts[i])) continue;
          DotAccumulator& accumulator = ctx.dot_accumulators[(*carried)[i].slot.offset];
          last_iterations[i] = accumulator.last;
          Value* last = ir.CreateICmpSGE(ir.CreateAdd(count, range.step), range.end);
          accumulator.last = accumulator.last ? ir.CreateAnd(accumulator.last, last) : last;
        }
        ctx.scalars[region.args[0]] = range.index(ir, count, element);
        read_carried(ctx, *carried, arguments);
        result = lower_region(ctx, region);
        if (result.ok()) result = lower_yield(ctx, region.ops.back(), *carried);
      });
  ctx.trip_count = outer_trip_count;
  ctx.iteration = around;
  if (!result) return result;
  for (size_t i = 0; i < inits.size(); ++i) {
    if (starts[i] == Start::kSplat) {
      auto done = unless(ctx, ir.CreateICmpSLT(range.start, range.end),
                         [&] { return materialise(ctx, inits[i], (*carried)[i].slot); });
      if (!done) return done;
    }
    if (!in_dots(starts[i])) continue;
    const ScratchSlot& slot = (*carried)[i].slot;
    DotAccumulator& accumulator = ctx.dot_accumulators[slot.offset];
    accumulator.last = last_iterations[i];
    if (starts[i] == Start::kShared) continue;
    Value* touched = ir.CreateNot(ir.CreateLoad(ir.getInt1Ty(), accumulator.fresh));
    accumulator.fresh = nullptr;
    if (auto done = unless(ctx, touched, [&] { return materialise(ctx, inits[i], slot); }); !done) return done;
  }
  read_carried(ctx, *carried, op.results);
  return {};
}

Result<void> lower_while(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  const dsl::Region &condition = op.regions[0], &body = op.regions[1];
  auto carried = begin_carried(ctx, op.operands, condition.args, std::vector<Start>(op.operands.size()));
  if (!carried) return carried.error();
  auto* test = llvm::BasicBlock::Create(ir.getContext(), "while", ctx.function);
  auto* loop = llvm::BasicBlock::Create(ir.getContext(), "while.body", ctx.function);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "while.end", ctx.function);
  ir.CreateBr(test);
  ir.SetInsertPoint(test);
  read_carried(ctx, *carried, condition.args);
  if (auto done = lower_region(ctx, condition); !done) return done;
  ir.CreateCondBr(ctx.scalars[condition.ops.back().operands[0]], loop, after);
  ir.SetInsertPoint(loop);
  for (size_t i = 0; i < carried->size(); ++i) (*carried)[i].argument = body.args[i];
  read_carried(ctx, *carried, body.args);
  if (auto done = lower_region(ctx, body); !done) return done;
  if (auto done = lower_yield(ctx, body.ops.back(), *carried); !done) return done;
  ir.CreateBr(test);
  ir.SetInsertPoint(after);
  read_carried(ctx, *carried, op.results);
  return {};
}

Result<void> lower_if(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  std::vector<Carried> results;
  for (ValueId id : op.results) {
    Carried place{id, nullptr, {}};
    if (ctx.type(id).is_scalar()) {
      place.variable = entry_alloca(ctx, register_type(ir.getContext(), ctx.type(id)));
    } else {
      place.slot = allocate_scratch_slot(ctx, ctx.type(id), Rows::kClose);
    }
    results.push_back(std::move(place));
  }
  auto* then = llvm::BasicBlock::Create(ir.getContext(), "then", ctx.function);
  auto* otherwise = llvm::BasicBlock::Create(ir.getContext(), "else", ctx.function);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "if.end", ctx.function);
  ir.CreateCondBr(ctx.scalars[op.operands[0]], then, otherwise);
  ir.SetInsertPoint(then);
  if (auto done = lower_branch(ctx, op.regions[0], results); !done) return done;
  ir.CreateBr(after);
  ir.SetInsertPoint(otherwise);
  if (auto done = lower_branch(ctx, op.regions[1], results); !done) return done;
  ir.CreateBr(after);
  ir.SetInsertPoint(after);
  read_carried(ctx, results, op.results);
  return {};
}

}  // namespace kiln::codegen::cpu
