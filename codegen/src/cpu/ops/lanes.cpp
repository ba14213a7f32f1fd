#include "cpu/ops/lanes.h"

#include "cpu/ops/effects.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;  // lanes; their mask is an i64

Value* to_memory(Builder& ir, Value* x) {
  return x->getType()->isIntOrIntVectorTy(1) ? ir.CreateZExt(x, like(x, ir.getInt8Ty())) : x;
}

Value* from_memory(Builder& ir, const dsl::Type& type, Value* x) {
  const bool is_flag = type.is_value() && type.element == ElementType::kI1;
  return is_flag ? ir.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType())) : x;
}

// The lanes of a chunk of one operand, to be had one at a time.
class Lanes {
 public:
  Lanes(Context& ctx, Value* x) : ctx_(ctx), x_(x) {
    if (!x->getType()->isVectorTy()) return;
    array_ = entry_alloca(ctx, x->getType());
    ctx.ir.CreateStore(x, array_);
  }

  Value* at(Value* lane) const { return array_ ? ctx_.ir.CreateLoad(scalar(), address(lane)) : x_; }
  void set(Value* lane, Value* value) const { ctx_.ir.CreateStore(value, address(lane)); }
  Value* all() const { return array_ ? ctx_.ir.CreateLoad(x_->getType(), array_) : x_; }

 private:
  llvm::Type* scalar() const { return x_->getType()->getScalarType(); }
  Value* address(Value* lane) const { return ctx_.ir.CreateInBoundsGEP(scalar(), array_, lane); }

  Context& ctx_;
  Value* x_;
  Value* array_ = nullptr;  // null: one value for all lanes
};

// `for (; bits != 0; bits &= bits - 1) body(index of the lowest set bit)`.
void for_each_set_bit(Context& ctx, Value* bits, llvm::function_ref<void(Value*)> body) {
  Builder& ir = ctx.ir;
  auto* before = ir.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(ir.getContext(), "lane", ctx.function);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "lane.end", ctx.function);
  ir.CreateCondBr(ir.CreateICmpNE(bits, ctx.i64(0)), loop, after);
  ir.SetInsertPoint(loop);
  auto* left = ir.CreatePHI(bits->getType(), 2);
  left->addIncoming(bits, before);
  body(ir.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, ir.getTrue()));
  Value* rest = ir.CreateAnd(left, ir.CreateSub(left, ctx.i64(1)));
  left->addIncoming(rest, ir.GetInsertBlock());
  ir.CreateCondBr(ir.CreateICmpNE(rest, ctx.i64(0)), loop, after);
  ir.SetInsertPoint(after);
}

// A scalar, or a tile of one element.
Value* act_once(Context& ctx, Value* mask, Value* pointer, llvm::ArrayRef<Value*> values, Value* other,
                const LaneAction& act) {
  Builder& ir = ctx.ir;
  auto number = [&] { return ctx.i64(0); };
  if (!mask) return act(pointer, values, number);
  Value* result = other ? entry_alloca(ctx, other->getType()) : nullptr;
  if (result) ir.CreateStore(other, result);
  emit_if(
      ir, mask, "lane", [](llvm::Instruction*) {},
      [&] {
        Value* out = act(pointer, values, number);
        if (result) ir.CreateStore(out, result);
      });
  return result ? ir.CreateLoad(other->getType(), result) : nullptr;
}

// What the result's lanes are where nothing is done; null without a result.
Result<Value*> other_lanes(Nest& nest, const LaneOp& op, const Point& point) {
  Context& ctx = nest.ctx;
  if (!op.result) return static_cast<Value*>(nullptr);
  if (op.other) {
    auto value = nest.evaluate(*op.other, point);
    return value ? Result<Value*>(to_memory(ctx.ir, *value)) : value;
  }
  const dsl::Type& type = ctx.type(*op.result);
  Value* zero = llvm::Constant::getNullValue(memory_type(ctx.ir.getContext(), type.element, type.pointer));
  return zero;
}

// The pointer of a lane: the first one's neighbour, one for all, or each its own.
struct LanePointers {
  std::function<Value*(Value* lane)> at;
  bool contiguous;
};
Result<LanePointers> lane_pointers(Nest& nest, const LaneOp& op, const Point& point) {
  Context& ctx = nest.ctx;
  Nest::Address where;
  if (op.exact_pointers) {
    auto pointers = nest.evaluate(op.pointer, point);
    if (!pointers) return pointers.error();
    where.pointer = *pointers;
  } else {
    auto address = nest.address(op.pointer, point);
    if (!address) return address.error();
    where = *address;
  }
  if (!where.contiguous) {
    return LanePointers{[lanes = Lanes(ctx, where.pointer)](Value* lane) { return lanes.at(lane); }, false};
  }
  llvm::Type* element = memory_type(ctx.ir.getContext(), ctx.type(op.pointer).element, false);
  return LanePointers{
      [&ctx, element, first = where.pointer](Value* lane) { return ctx.ir.CreateGEP(element, first, lane); }, true};
}

// The values in groups; `array`: as they lie in memory.
void act_on_groups(Nest& nest, const LaneGroup& group, Value* first, llvm::Type* scalar, Value* array) {
  Context& ctx = nest.ctx;
  auto* vector = llvm::FixedVectorType::get(scalar, group.lanes);
  emit_loop(
      ctx.ir, ctx.i64(0), ctx.i64(nest.width()), ctx.i64(group.lanes), "group", [](llvm::Instruction*) {},
      [&](Value* lane) {
        Value* values = ctx.ir.CreateLoad(vector, ctx.ir.CreateInBoundsGEP(scalar, array, lane));
        group.act(ctx.ir.CreateGEP(scalar, first, lane), values);
      });
}

Result<void> act_on_chunk(Nest& nest, const LaneOp& op, const std::optional<ScratchSlot>& slot, const LaneAction& act) {
  Context& ctx = nest.ctx;
  const Point point = nest.identity();
  Value* mask = nullptr;
  if (op.mask) {
    auto active = nest.active_mask(*op.mask, point);
    if (!active) return active.error();
    mask = *active;
  }
  llvm::SmallVector<Value*, 2> values;
  for (ValueId id : op.values) {
    auto value = nest.evaluate(id, point);
    if (!value) return value.error();
    values.push_back(to_memory(ctx.ir, *value));
  }
  auto other = other_lanes(nest, op, point);
  if (!other) return other.error();
  auto pointer = lane_pointers(nest, op, point);
  if (!pointer) return pointer.error();
  auto publish = [&](Value* vector) {
    if (slot) nest.store_slot(*slot, point, ctx.type(*op.result), vector);
  };
  if (nest.vector_dim() < 0) {
    publish(act_once(ctx, mask, pointer->at(ctx.i64(0)), values, *other, act));
    return {};
  }
  std::vector<Lanes> arrays;
  for (Value* value : values) arrays.emplace_back(ctx, value);
  std::optional<Lanes> results;
  if (op.result) results.emplace(ctx, nest.splat(*other));
  auto one_by_one = [&] {
    for_each_set_bit(ctx, lane_bits(nest, nest.in_active_lanes(mask)), [&](Value* lane) {
      llvm::SmallVector<Value*, 2> here;
      for (const Lanes& array : arrays) here.push_back(array.at(lane));
      Value* out = act(pointer->at(lane), here, [&] { return lane_number(nest, lane); });
      if (results) results->set(lane, out);
    });
  };
  const bool whole = !mask && !nest.lane_mask() && !results && pointer->contiguous;
  if (op.group && whole && nest.width() % static_cast<int>(op.group->lanes) == 0) {
    Builder& ir = ctx.ir;
    Value* first = pointer->at(ctx.i64(0));
    const auto bytes = static_cast<int64_t>(op.group->lanes) * memory_bytes(ctx.type(op.values[0]));
    Value* misplaced = ir.CreateAnd(ir.CreatePtrToInt(first, ir.getInt64Ty()), ctx.i64(bytes - 1));
    Value* aligned = ir.CreateICmpEQ(misplaced, ctx.i64(0));
    Value* array = entry_alloca(ctx, nest.splat(values[0])->getType());
    ir.CreateStore(nest.splat(values[0]), array);
    auto enter = [](llvm::Instruction*) {};
    emit_if(ir, aligned, "groups", enter,
            [&] { act_on_groups(nest, *op.group, first, values[0]->getType()->getScalarType(), array); });
    emit_if(ir, ir.CreateNot(aligned), "lanes", enter, one_by_one);
  } else {
    one_by_one();
  }
  if (results) publish(results->all());
  return {};
}

Result<void> act_on_scalar(Context& ctx, const LaneOp& op, const LaneAction& act) {
  llvm::SmallVector<Value*, 2> values;
  for (ValueId id : op.values) values.push_back(to_memory(ctx.ir, ctx.scalars[id]));
  Value* other = nullptr;
  if (op.result) {
    const dsl::Type& type = ctx.type(*op.result);
    other = op.other ? to_memory(ctx.ir, ctx.scalars[*op.other])
                     : llvm::Constant::getNullValue(memory_type(ctx.ir.getContext(), type.element, type.pointer));
  }
  Value* out = act_once(ctx, op.mask ? ctx.scalars[*op.mask] : nullptr, ctx.scalars[op.pointer], values, other, act);
  if (op.result) ctx.scalars[*op.result] = from_memory(ctx.ir, ctx.type(*op.result), out);
  return {};
}

}  // namespace

Result<void> for_each_lane(Context& ctx, const LaneOp& op_in, const LaneAction& act) {
  LaneOp op = op_in;
  if (op.result && ctx.schedule.use_count[*op.result] == 0) op.result.reset();
  if (ctx.type(op.pointer).is_scalar()) return act_on_scalar(ctx, op, act);
  Nest nest(ctx, dsl::concrete_shape(ctx.type(op.pointer)));
  const Point point = nest.identity();
  std::optional<MaskAt> mask;
  for (ValueId id : op.values) nest.register_masks(id, point);
  if (op.mask) {
    mask = MaskAt{*op.mask, point};
    nest.register_mask(*op.mask, point);
    if (!op.result) nest.limit_to(*mask);
  }
  llvm::SmallVector<ValueId, 3> evaluated(op.values.begin(), op.values.end());
  evaluated.push_back(op.pointer);
  nest.choose_width(evaluated, kMaxWidth);
  std::optional<ScratchSlot> slot;
  if (op.result) slot = allocate_scratch_slot(ctx, ctx.type(*op.result));
  Nest::Body body;
  body.chunk = [&] { return act_on_chunk(nest, op, slot, act); };
  if (auto done = nest.walk(body, !op.result && nest.interior_suffices(mask)); !done) return done;
  nest.finish();
  if (slot) ctx.slots[*op.result] = slot;
  return {};
}

}  // namespace kiln::codegen::cpu
