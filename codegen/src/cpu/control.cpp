// for, while and if: carried values live in allocas (scalars) and slots (tiles).
#include "cpu/control.h"

#include <numeric>

#include "cpu/carried_tiles.h"
#include "cpu/dot/dot_accumulator.h"
#include "cpu/nest/materialise.h"
#include "cpu/nest/nest.h"
#include "cpu/region.h"
#include "elementwise/loop_range.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;

// A carried scalar lives in an alloca that the pipeline promotes, a carried tile in a slot.
struct Carried {
  ValueId argument;
  Value* variable = nullptr;
  Slot slot;
};

// Which values are computed from a place in scratch, when they are computed now.
class Readers {
 public:
  Readers(const Context& context, const Slot& place) : c_(context), offset_(place.offset) {}

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
  bool has_place(ValueId id) const { return c_.slots[id] && c_.slots[id]->offset == offset_; }

  bool reads_new(ValueId id) {
    if (has_place(id)) return true;
    const Op* op = c_.schedule.definition[id];
    if (!op || c_.type(id).is_scalar() || (c_.slots[id] && c_.slots[id]->valid_under.empty())) return false;
    return llvm::any_of(op->operands, [&](ValueId operand) { return reads(operand); });
  }

  bool elementwise_new(ValueId id) {
    if (has_place(id) || !reads(id)) return true;
    const Op* op = c_.schedule.definition[id];
    return is_elementwise(*op) && llvm::all_of(op->operands, [&](ValueId operand) { return elementwise(operand); });
  }

  const Context& c_;
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

std::optional<RowUpdate> row_update(const Context& c, ValueId next, ValueId old) {
  const Op* select = c.schedule.definition[next];
  if (!select || select->code != OpCode::kSelect || select->operands[2] != old) return std::nullopt;
  const auto shape = dsl::concrete_shape(c.type(next));
  std::vector<int> dims(shape.size());  // by axis of the mask
  std::iota(dims.begin(), dims.end(), 0);
  ValueId mask = select->operands[0];
  const Op* op = c.schedule.definition[mask];
  while (op && (op->code == OpCode::kBroadcast || op->code == OpCode::kExpandDims)) {
    if (op->code == OpCode::kExpandDims) dims.erase(dims.begin() + std::get<int64_t>(op->attrs[0]));
    mask = op->operands[0];
    op = c.schedule.definition[mask];
  }
  if (!op || op->code != OpCode::kCmp || c.slots[mask] || dsl::is_float(c.type(op->operands[0]).element) ||
      static_cast<dsl::Predicate>(std::get<int64_t>(op->attrs[0])) != dsl::Predicate::kEq) {
    return std::nullopt;
  }
  std::optional<RowUpdate> out;
  const auto extents = dsl::concrete_shape(c.type(mask));
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] == 1) continue;
    if (out) return std::nullopt;
    out = RowUpdate{select->operands[1], op, axis, dims[axis]};
  }
  const bool is_last = out && std::all_of(shape.begin() + out->dim + 1, shape.end(), [](int64_t n) { return n == 1; });
  return is_last ? std::nullopt : out;
}

// Puts the one row in place. False: its index cannot be told, and nothing is done.
Result<bool> put_row(Context& c, const RowUpdate& update, const Slot& slot) {
  Builder& b = c.b;
  Nest nest(c, dsl::concrete_shape(c.type(update.value)));
  const Op& cmp = *update.comparison;
  const Point first(c.type(cmp.results[0]).shape.size(), kZero);
  Point along = first;
  along[update.axis_of_comparison] = static_cast<int8_t>(update.dim);
  llvm::SmallVector<Value*, 2> numbers;
  llvm::SmallVector<Nest::Along, 2> moves;
  for (ValueId operand : cmp.operands) {
    moves.push_back(nest.along(operand, along, update.dim, true));
    auto number = nest.evaluate(operand, first);
    if (!number) return number.error();
    const bool is_signed = dsl::info(c.type(operand).element).is_signed;
    numbers.push_back(is_signed ? b.CreateSExt(*number, b.getInt64Ty()) : b.CreateZExt(*number, b.getInt64Ty()));
  }
  if (moves[0] == Nest::Along::kSame) {
    std::swap(moves[0], moves[1]);
    std::swap(numbers[0], numbers[1]);
  }
  if (moves[0] != Nest::Along::kByOne || moves[1] != Nest::Along::kSame) return false;
  Value* index = b.CreateSub(numbers[1], numbers[0]);
  Result<void> result;
  const auto put = [&] {
    nest.fix_dim(update.dim, index);
    nest.choose_width(update.value, kMaxWidth);
    Nest::Body body;
    body.any_width = true;
    body.chunk = [&]() -> Result<void> {
      auto value = nest.evaluate_lanes(update.value, nest.identity());
      if (!value) return value.error();
      nest.store_slot(slot, nest.identity(), c.type(update.value), *value);
      return {};
    };
    result = nest.walk(body, false);
  };
  emit_if(b, b.CreateICmpULT(index, c.i64(nest.extent(update.dim))), "row", [](llvm::Instruction*) {}, put);
  if (!result) return result.error();
  return true;
}

// New tiles are computed into places of their own before any old one is overwritten: they may refer to each other.
Result<void> lower_yield(Context& c, const Op& yield, std::vector<Carried>& carried) {
  std::vector<CarriedTile> tiles;
  for (size_t i = 0; i < carried.size(); ++i) {
    tiles.push_back({yield.operands[i], carried[i].variable ? std::nullopt : std::optional(carried[i].slot.offset)});
  }
  const CarriedTiles news(c, std::move(tiles));
  const std::vector<std::vector<size_t>> groups = news.in_place_together();
  std::set<size_t> done_together;
  for (const std::vector<size_t>& group : groups) done_together.insert(group.begin(), group.end());
  std::vector<std::pair<size_t, Slot>> copies;
  std::vector<Value*> scalars(carried.size(), nullptr);
  for (size_t i = 0; i < carried.size(); ++i) {
    const ValueId next = yield.operands[i];
    if (carried[i].variable) {
      scalars[i] = c.scalars[next];
      continue;
    }
    if (done_together.contains(i) || (c.slots[next] && c.slots[next]->offset == carried[i].slot.offset)) continue;
    Readers old(c, carried[i].slot);
    const bool others_need_old = llvm::any_of(news.readers(i), [&](const CarriedTiles::Reader& reader) {
      return reader.tile != i && old.reads(yield.operands[reader.tile]);
    });
    // An elementwise update reads each element before it writes it, so it can go in place.
    const bool in_place = !others_need_old && old.elementwise(next);
    if (const auto row = in_place ? row_update(c, next, carried[i].argument) : std::nullopt) {
      auto put = put_row(c, *row, carried[i].slot);
      if (!put) return put.error();
      if (*put) continue;
    }
    Slot target = in_place ? carried[i].slot : allocate_slot(c, c.type(next), Rows::kClose);
    if (auto done = materialise(c, next, target); !done) return done;
    if (!in_place) copies.emplace_back(i, target);
  }
  for (const std::vector<size_t>& group : groups) {
    std::vector<TilePlace> tiles;
    for (size_t i : group) tiles.push_back({yield.operands[i], carried[i].slot});
    if (auto done = materialise(c, tiles); !done) return done;
  }
  for (const Carried& each : carried) c.begins.erase(each.argument);
  for (auto& [i, from] : copies) {
    c.slots[carried[i].argument] = from;
    auto done = materialise(c, carried[i].argument, carried[i].slot);
    c.slots[carried[i].argument] = carried[i].slot;
    if (!done) return done;
  }
  for (size_t i = 0; i < carried.size(); ++i) {
    if (scalars[i]) c.b.CreateStore(scalars[i], carried[i].variable);
  }
  return {};
}

// What a carried value begins with.
enum class Start : uint8_t {
  kCopy,    // the initial value, in a place of its own
  kSplat,   // the same element everywhere: the first turn reads that in place of the tile
  kZeros,   // the accumulator of a dot, which makes the zeros itself
  kShared,  // the same in loops inside of the one that made its place
};

bool in_dots(Start start) { return start == Start::kZeros || start == Start::kShared; }

// Gives each carried value its place.
Result<std::vector<Carried>> begin_carried(Context& c, llvm::ArrayRef<ValueId> inits, llvm::ArrayRef<ValueId> arguments,
                                           llvm::ArrayRef<Start> starts) {
  std::vector<Carried> carried;
  for (size_t i = 0; i < inits.size(); ++i) {
    Carried state{arguments[i], nullptr, {}};
    const dsl::Type& type = c.type(state.argument);
    if (type.is_scalar()) {
      state.variable = entry_alloca(c, register_type(c.b.getContext(), type));
      c.b.CreateStore(c.scalars[inits[i]], state.variable);
    } else if (starts[i] == Start::kShared) {
      state.slot = *c.slots[inits[i]];
    } else {
      state.slot = allocate_slot(c, type, in_dots(starts[i]) ? Rows::kPadded : Rows::kClose);
      if (starts[i] == Start::kCopy) {
        if (auto done = materialise(c, inits[i], state.slot); !done) return done.error();
      }
    }
    carried.push_back(std::move(state));
  }
  return carried;
}

// The values carried at this place of the program, under these names: region arguments, results.
void read_carried(Context& c, const std::vector<Carried>& carried, llvm::ArrayRef<ValueId> names) {
  for (size_t i = 0; i < carried.size(); ++i) {
    if (carried[i].variable) {
      c.scalars[names[i]] = c.b.CreateLoad(register_type(c.b.getContext(), c.type(names[i])), carried[i].variable);
    } else {
      c.slots[names[i]] = carried[i].slot;
    }
  }
}

// What a branch of `if` yields, into the places of the results.
Result<void> lower_branch(Context& c, const dsl::Region& region, const std::vector<Carried>& results) {
  if (auto done = lower_region(c, region); !done) return done;
  const Op& yield = region.ops.back();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].variable) {
      c.b.CreateStore(c.scalars[yield.operands[i]], results[i].variable);
    } else if (auto done = materialise(c, yield.operands[i], results[i].slot); !done) {
      return done;
    }
  }
  return {};
}

bool has_write_only_store(const Context& c, const dsl::Region& region) {
  return any_op(region, [&](const Op& op) { return c.schedule.write_only.contains(&op); });
}

Start start_of(const Context& c, const Op& loop, size_t i) {
  if (accumulates_from_zeros(c, loop, i)) return Start::kZeros;
  if (continues_accumulator(c, loop, i)) return Start::kShared;
  const ValueId init = loop.operands[i + 3], argument = loop.regions[0].args[i + 1];
  const Op* op = c.schedule.definition[init];
  // The rows that no turn has put in place are read too.
  if (row_update(c, loop.regions[0].ops.back().operands[i], argument)) return Start::kCopy;
  const bool is_splat = op && op->code == OpCode::kSplat && !c.slots[init] && !c.type(init).pointer;
  return is_splat && c.schedule.by_elements[argument] ? Start::kSplat : Start::kCopy;
}

}  // namespace

Result<void> lower_for(Context& c, const Op& op) {
  Builder& b = c.b;
  const dsl::Region& region = op.regions[0];
  const ElementType element = c.type(op.operands[0]).element;
  const auto arguments = llvm::ArrayRef(region.args).drop_front();
  const auto inits = llvm::ArrayRef(op.operands).drop_front(3);
  std::vector<Start> starts;
  for (size_t i = 0; i < inits.size(); ++i) starts.push_back(start_of(c, op, i));
  auto carried = begin_carried(c, inits, arguments, starts);
  if (!carried) return carried.error();
  const LoopRange range =
      make_loop_range(b, element, c.scalars[op.operands[0]], c.scalars[op.operands[1]], c.scalars[op.operands[2]]);
  Value* outer_visits = c.visits;
  if (has_write_only_store(c, region)) {
    Value* distance = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b.CreateSub(range.end, range.start), c.i64(0));
    Value* visits = b.CreateUDiv(distance, range.step);  // or one more, which matters little
    c.visits = outer_visits ? b.CreateMul(outer_visits, visits) : visits;
  }
  Result<void> result;
  const bool effects = has_effect(region);
  for (size_t i = 0; i < inits.size(); ++i) {
    if (starts[i] != Start::kZeros) continue;
    c.dot_accumulators[(*carried)[i].slot.offset] = make_dot_accumulator(c, op, i, effects);
  }
  std::vector<Value*> last_turns(inits.size());  // of the loops around this one
  const Turn around = std::exchange(c.turn, {&region, range.growth()});
  emit_loop(
      b, range.start, range.end, range.step, "for", [](llvm::Instruction*) {},
      [&](Value* count) {
        for (size_t i = 0; i < inits.size(); ++i) {
          if (starts[i] == Start::kSplat) {
            c.begins[arguments[i]] = {b.CreateICmpNE(count, range.start),
                                      c.scalars[c.schedule.definition[inits[i]]->operands[0]]};
          }
          if (!in_dots(starts[i])) continue;
          DotAccumulator& sums = c.dot_accumulators[(*carried)[i].slot.offset];
          last_turns[i] = sums.last;
          Value* last = b.CreateICmpSGE(b.CreateAdd(count, range.step), range.end);
          sums.last = sums.last ? b.CreateAnd(sums.last, last) : last;
        }
        c.scalars[region.args[0]] = range.index(b, count, element);
        read_carried(c, *carried, arguments);
        result = lower_region(c, region);
        if (result.ok()) result = lower_yield(c, region.ops.back(), *carried);
      });
  c.visits = outer_visits;
  c.turn = around;
  if (!result) return result;
  for (size_t i = 0; i < inits.size(); ++i) {
    if (starts[i] == Start::kSplat) {
      auto done = unless(c, b.CreateICmpSLT(range.start, range.end),
                         [&] { return materialise(c, inits[i], (*carried)[i].slot); });
      if (!done) return done;
    }
    if (!in_dots(starts[i])) continue;
    const Slot& slot = (*carried)[i].slot;
    DotAccumulator& sums = c.dot_accumulators[slot.offset];
    sums.last = last_turns[i];
    if (starts[i] == Start::kShared) continue;
    Value* touched = b.CreateNot(b.CreateLoad(b.getInt1Ty(), sums.fresh));
    sums.fresh = nullptr;
    if (auto done = unless(c, touched, [&] { return materialise(c, inits[i], slot); }); !done) return done;
  }
  read_carried(c, *carried, op.results);
  return {};
}

Result<void> lower_while(Context& c, const Op& op) {
  Builder& b = c.b;
  const dsl::Region &condition = op.regions[0], &body = op.regions[1];
  auto carried = begin_carried(c, op.operands, condition.args, std::vector<Start>(op.operands.size()));
  if (!carried) return carried.error();
  auto* test = llvm::BasicBlock::Create(b.getContext(), "while", c.function);
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "while.body", c.function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "while.end", c.function);
  b.CreateBr(test);
  b.SetInsertPoint(test);
  read_carried(c, *carried, condition.args);
  if (auto done = lower_region(c, condition); !done) return done;
  b.CreateCondBr(c.scalars[condition.ops.back().operands[0]], loop, after);
  b.SetInsertPoint(loop);
  for (size_t i = 0; i < carried->size(); ++i) (*carried)[i].argument = body.args[i];
  read_carried(c, *carried, body.args);
  if (auto done = lower_region(c, body); !done) return done;
  if (auto done = lower_yield(c, body.ops.back(), *carried); !done) return done;
  b.CreateBr(test);
  b.SetInsertPoint(after);
  read_carried(c, *carried, op.results);
  return {};
}

Result<void> lower_if(Context& c, const Op& op) {
  Builder& b = c.b;
  std::vector<Carried> results;
  for (ValueId id : op.results) {
    Carried place{id, nullptr, {}};
    if (c.type(id).is_scalar()) {
      place.variable = entry_alloca(c, register_type(b.getContext(), c.type(id)));
    } else {
      place.slot = allocate_slot(c, c.type(id), Rows::kClose);
    }
    results.push_back(std::move(place));
  }
  auto* then = llvm::BasicBlock::Create(b.getContext(), "then", c.function);
  auto* otherwise = llvm::BasicBlock::Create(b.getContext(), "else", c.function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "if.end", c.function);
  b.CreateCondBr(c.scalars[op.operands[0]], then, otherwise);
  b.SetInsertPoint(then);
  if (auto done = lower_branch(c, op.regions[0], results); !done) return done;
  b.CreateBr(after);
  b.SetInsertPoint(otherwise);
  if (auto done = lower_branch(c, op.regions[1], results); !done) return done;
  b.CreateBr(after);
  b.SetInsertPoint(after);
  read_carried(c, results, op.results);
  return {};
}

}  // namespace kiln::codegen::cpu
