// A permuted tile goes through scratch twice: once as its operand lies in memory, in whole vectors and under the masks
// of its loads, then in square blocks of registers to where the result's last axis is the contiguous one. Blocks reach
// beyond the tile into padding.
#include "cpu/nest/transpose.h"

#include "cpu/nest/materialise.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxBlock = 16;  // registers, of bytes; half of it for wider elements: as fast, and much less code
constexpr int64_t kLeastExtent = 4;

void nothing(llvm::Instruction*) {}

// How values change along an axis, and where they come from. Remembers what it was asked.
class Contiguity {
 public:
  explicit Contiguity(const Context& context) : ctx(context) {}

  // Where a value comes from, by elementwise ops, as far as that varies along the axis: all loads and tiles in scratch
  // are contiguous along it, and there is one.
  bool is_along(ValueId id, size_t axis) {
    find_sources(id, axis);
    return along_ && !otherwise_;
  }

 private:
  // From one index to the next.
  enum class Step : uint8_t { kNone, kOne, kOther };

  Step step(ValueId id, size_t axis) {
    const dsl::Type& type = ctx.type(id);
    if (type.is_scalar() || type.shape[axis].as_constant() == 1) return Step::kNone;
    if (auto known = steps_.find({id, axis}); known != steps_.end()) return known->second;
    const Op* op = ctx.schedule.definition[id];
    return steps_[{id, axis}] = op && !ctx.slots[id] ? step_of(*op, axis) : Step::kOther;
  }

  Step step_of(const Op& op, size_t axis) {
    switch (op.code) {
      case OpCode::kArange:
        return Step::kOne;
      case OpCode::kSplat:
        return Step::kNone;
      case OpCode::kBroadcast:
      case OpCode::kCast:
        return step(op.operands[0], axis);
      case OpCode::kExpandDims: {
        const auto added = static_cast<size_t>(std::get<int64_t>(op.attrs[0]));
        return axis == added ? Step::kNone : step(op.operands[0], axis < added ? axis : axis - 1);
      }
      case OpCode::kPermute: {
        const auto& order = std::get<std::vector<dsl::Expr>>(op.attrs[0]);
        return step(op.operands[0], static_cast<size_t>(*order[axis].as_constant()));
      }
      case OpCode::kAddptr:
      case OpCode::kAdd: {
        const Step x = step(op.operands[0], axis), y = step(op.operands[1], axis);
        if (x == Step::kNone) return y;
        return y == Step::kNone ? x : Step::kOther;
      }
      case OpCode::kSplit:
      case OpCode::kJoin:
        return Step::kOther;
      default:
        return llvm::all_of(op.operands, [&](ValueId x) { return step(x, axis) == Step::kNone; }) ? Step::kNone
                                                                                                  : Step::kOther;
    }
  }

  void find_sources(ValueId id, size_t axis) {
    if (ctx.type(id).is_scalar() || !visited_.insert(id).second) return;
    const Op* op = ctx.schedule.definition[id];
    if (ctx.slots[id] || !op) {
      (ctx.slots[id] && ctx.slots[id]->strides[axis] == 1 ? along_ : otherwise_) = true;
    } else if (op->code == OpCode::kLoad) {
      const Step pointers = step(op->operands[0], axis);
      along_ = along_ || pointers == Step::kOne;
      otherwise_ = otherwise_ || pointers == Step::kOther;
    } else if (is_elementwise(*op)) {
      for (ValueId operand : op->operands) find_sources(operand, axis);
    } else if (step(id, axis) != Step::kNone) {
      otherwise_ = true;
    }
  }

  const Context& ctx;
  std::map<std::pair<ValueId, size_t>, Step> steps_;
  std::set<ValueId> visited_;
  bool along_ = false, otherwise_ = false;
};

std::vector<size_t> order_of(const Op& permute) {
  std::vector<size_t> out;
  for (const dsl::Expr& axis : std::get<std::vector<dsl::Expr>>(permute.attrs[0])) {
    out.push_back(static_cast<size_t>(*axis.as_constant()));
  }
  return out;
}

bool is_worthwhile(const Context& ctx, const Op& permute) {
  const dsl::Type& type = ctx.type(permute.operands[0]);
  // Of an outer region: that place in scratch would not be filled on all ways.
  if (type.pointer || ctx.schedule.defining_region[permute.results[0]] != ctx.region) return false;
  const auto shape = dsl::concrete_shape(type);
  const size_t last = shape.size() - 1, becomes_last = order_of(permute).back();
  if (becomes_last == last || shape[last] < kLeastExtent || shape[becomes_last] < kLeastExtent) return false;
  return Contiguity(ctx).is_along(permute.operands[0], last);
}

struct Axis {
  int64_t extent, from, to;  // strides in elements
};

class BlockTranspose {
 public:
  BlockTranspose(Context& context, const dsl::Type& type, const ScratchSlot& from, const ScratchSlot& to)
      : ctx(context),
        ir(context.ir),
        lanes_(block_of(ctx, type)),
        element_(memory_type(ir.getContext(), type.element, false)),
        vector_(llvm::FixedVectorType::get(element_, static_cast<unsigned>(lanes_))),
        align_(static_cast<uint64_t>(memory_bytes(type))),
        from_(scratch_slot_address(ctx, from)),
        to_(scratch_slot_address(ctx, to)) {}

  static int block_of(const Context& ctx, const dsl::Type& type) {
    const int bytes = memory_bytes(type);
    return std::min(bytes < 2 ? kMaxBlock : kMaxBlock / 2, ctx.target.vector_bytes / bytes);
  }

  // `others` are walked index by index; `rows` becomes contiguous, `columns` is.
  void emit(llvm::ArrayRef<Axis> others, const Axis& rows, const Axis& columns) {
    each(others, from_, to_, [&](Value* from, Value* to) {
      loop(rows.extent, lanes_, "block.row", [&](Value* row) {
        loop(columns.extent, lanes_, "block", [&](Value* column) { block(from, to, rows, columns, row, column); });
      });
    });
  }

 private:
  void loop(int64_t extent, int64_t by, const char* name, llvm::function_ref<void(Value*)> body) {
    emit_loop(ir, ctx.i64(0), ctx.i64(extent), ctx.i64(by), name, nothing, body);
  }
  Value* at(Value* base, Value* index, int64_t stride) {
    return ir.CreateInBoundsGEP(element_, base, ir.CreateMul(index, ctx.i64(stride)));
  }

  void each(llvm::ArrayRef<Axis> others, Value* from, Value* to, llvm::function_ref<void(Value*, Value*)> body) {
    if (others.empty()) return body(from, to);
    const Axis& axis = others.front();
    loop(axis.extent, 1, "other",
         [&](Value* index) { each(others.drop_front(), at(from, index, axis.from), at(to, index, axis.to), body); });
  }

  void block(Value* from, Value* to, const Axis& rows, const Axis& columns, Value* row, Value* column) {
    llvm::SmallVector<Value*, kMaxBlock> registers;
    from = at(from, column, columns.from);
    for (int i = 0; i < lanes_; ++i) {
      Value* index = ir.CreateAdd(row, ctx.i64(i));
      // Nothing lies behind the last row.
      if (rows.extent % lanes_ != 0) {
        index = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, index, ctx.i64(rows.extent - 1));
      }
      registers.push_back(ir.CreateAlignedLoad(vector_, at(from, index, rows.from), align_));
    }
    transpose_registers(ir, registers);
    to = at(to, row, rows.to);
    for (int i = 0; i < lanes_; ++i) {
      ir.CreateAlignedStore(registers[static_cast<size_t>(i)], at(to, ir.CreateAdd(column, ctx.i64(i)), columns.to),
                            align_);
    }
  }

  Context& ctx;
  Builder& ir;
  const int lanes_;
  llvm::Type* element_;
  llvm::FixedVectorType* vector_;
  const llvm::Align align_;
  Value *from_, *to_;
};

Result<void> transpose(Context& ctx, const Op& permute) {
  const dsl::Type& type = ctx.type(permute.operands[0]);
  const auto from = slot_of(ctx, permute.operands[0]);
  if (!from) return from.error();
  const std::vector<size_t> order = order_of(permute);
  const size_t last = order.size() - 1;
  auto shape = dsl::concrete_shape(type);
  // Room for the whole blocks of the columns.
  std::vector<dsl::Expr> room;
  const int64_t lanes = BlockTranspose::block_of(ctx, type);
  for (size_t axis : order) {
    room.emplace_back(axis == last ? (shape[axis] + lanes - 1) / lanes * lanes : shape[axis]);
  }
  const ScratchSlot to = allocate_scratch_slot(ctx, dsl::tile_type(type.element, room));
  llvm::SmallVector<Axis, 5> others;
  Axis rows{}, columns{};
  for (size_t i = 0; i < order.size(); ++i) {
    const Axis axis{shape[order[i]], from->strides[order[i]], to.strides[i]};
    if (i == last) {
      rows = axis;
    } else if (order[i] == last) {
      columns = axis;
    } else {
      others.push_back(axis);
    }
  }
  BlockTranspose(ctx, type, *from, to).emit(others, rows, columns);
  ctx.slots[permute.results[0]] = to;
  return {};
}

}  // namespace

// log2 n steps: step d exchanges bit d of the lane's number with bit d of the vector's.
void transpose_registers(Builder& ir, llvm::MutableArrayRef<Value*> rows) {
  const auto n = static_cast<int>(rows.size());
  for (int d = 1; d < n; d *= 2) {
    std::vector<int> low, high;
    for (int lane = 0; lane < n; ++lane) {
      low.push_back((lane & d) == 0 ? lane : lane - d + n);
      high.push_back((lane & d) == 0 ? lane + d : lane + n);
    }
    for (int i = 0; i < n; ++i) {
      if ((i & d) != 0) continue;
      Value *&x = rows[static_cast<size_t>(i)], *&y = rows[static_cast<size_t>(i + d)];
      Value* first = ir.CreateShuffleVector(x, y, low);
      y = ir.CreateShuffleVector(x, y, high);
      x = first;
    }
  }
}

Result<void> transpose_operands(Context& ctx, ValueId value) {
  std::set<ValueId> visited;
  std::vector<ValueId> todo = {value};
  while (!todo.empty()) {
    const ValueId id = todo.back();
    todo.pop_back();
    const Op* op = ctx.schedule.definition[id];
    if (!op || ctx.slots[id] || ctx.type(id).is_scalar() || !visited.insert(id).second) continue;
    if (op->code == OpCode::kPermute && is_worthwhile(ctx, *op)) {
      if (auto done = transpose(ctx, *op); !done) return done;
    } else if (is_elementwise(*op)) {
      todo.insert(todo.end(), op->operands.begin(), op->operands.end());
    }
  }
  return {};
}

}  // namespace kiln::codegen::cpu
