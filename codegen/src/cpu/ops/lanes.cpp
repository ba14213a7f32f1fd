#include "cpu/ops/lanes.h"

#include "cpu/ops/effects.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;  // lanes; their mask is an i64

Value* to_memory(Builder& b, Value* x) {
  return x->getType()->isIntOrIntVectorTy(1) ? b.CreateZExt(x, like(x, b.getInt8Ty())) : x;
}

Value* from_memory(Builder& b, const dsl::Type& type, Value* x) {
  const bool is_flag = type.is_value() && type.element == ElementType::kI1;
  return is_flag ? b.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType())) : x;
}

// The lanes of a chunk of one operand, to be had one at a time.
class Lanes {
 public:
  Lanes(Context& c, Value* x) : c_(c), x_(x) {
    if (!x->getType()->isVectorTy()) return;
    array_ = entry_alloca(c, x->getType());
    c.b.CreateStore(x, array_);
  }

  Value* at(Value* lane) const { return array_ ? c_.b.CreateLoad(scalar(), address(lane)) : x_; }
  void set(Value* lane, Value* value) const { c_.b.CreateStore(value, address(lane)); }
  Value* all() const { return array_ ? c_.b.CreateLoad(x_->getType(), array_) : x_; }

 private:
  llvm::Type* scalar() const { return x_->getType()->getScalarType(); }
  Value* address(Value* lane) const { return c_.b.CreateInBoundsGEP(scalar(), array_, lane); }

  Context& c_;
  Value* x_;
  Value* array_ = nullptr;  // null: one value for all lanes
};

// `for (; bits != 0; bits &= bits - 1) body(index of the lowest set bit)`.
void for_each_set_bit(Context& c, Value* bits, llvm::function_ref<void(Value*)> body) {
  Builder& b = c.b;
  auto* before = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "lane", c.function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "lane.end", c.function);
  b.CreateCondBr(b.CreateICmpNE(bits, c.i64(0)), loop, after);
  b.SetInsertPoint(loop);
  auto* left = b.CreatePHI(bits->getType(), 2);
  left->addIncoming(bits, before);
  body(b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, b.getTrue()));
  Value* rest = b.CreateAnd(left, b.CreateSub(left, c.i64(1)));
  left->addIncoming(rest, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpNE(rest, c.i64(0)), loop, after);
  b.SetInsertPoint(after);
}

// A scalar, or a tile of one element.
Value* act_once(Context& c, Value* mask, Value* pointer, llvm::ArrayRef<Value*> values, Value* other,
                const LaneAction& act) {
  Builder& b = c.b;
  auto number = [&] { return c.i64(0); };
  if (!mask) return act(pointer, values, number);
  Value* result = other ? entry_alloca(c, other->getType()) : nullptr;
  if (result) b.CreateStore(other, result);
  emit_if(
      b, mask, "lane", [](llvm::Instruction*) {},
      [&] {
        Value* out = act(pointer, values, number);
        if (result) b.CreateStore(out, result);
      });
  return result ? b.CreateLoad(other->getType(), result) : nullptr;
}

// What the result's lanes are where nothing is done; null without a result.
Result<Value*> other_lanes(Nest& nest, const LaneOp& op, const Point& point) {
  Context& c = nest.c;
  if (!op.result) return static_cast<Value*>(nullptr);
  if (op.other) {
    auto value = nest.evaluate(*op.other, point);
    return value ? Result<Value*>(to_memory(c.b, *value)) : value;
  }
  const dsl::Type& type = c.type(*op.result);
  Value* zero = llvm::Constant::getNullValue(memory_type(c.b.getContext(), type.element, type.pointer));
  return zero;
}

// The pointer of a lane: the first one's neighbour, one for all, or each its own.
struct LanePointers {
  std::function<Value*(Value* lane)> at;
  bool contiguous;
};
Result<LanePointers> lane_pointers(Nest& nest, const LaneOp& op, const Point& point) {
  Context& c = nest.c;
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
    return LanePointers{[lanes = Lanes(c, where.pointer)](Value* lane) { return lanes.at(lane); }, false};
  }
  llvm::Type* element = memory_type(c.b.getContext(), c.type(op.pointer).element, false);
  return LanePointers{[&c, element, first = where.pointer](Value* lane) { return c.b.CreateGEP(element, first, lane); },
                      true};
}

// The values in groups; `array`: as they lie in memory.
void act_on_groups(Nest& nest, const LaneGroup& group, Value* first, llvm::Type* scalar, Value* array) {
  Context& c = nest.c;
  auto* vector = llvm::FixedVectorType::get(scalar, group.lanes);
  emit_loop(
      c.b, c.i64(0), c.i64(nest.width()), c.i64(group.lanes), "group", [](llvm::Instruction*) {},
      [&](Value* lane) {
        Value* values = c.b.CreateLoad(vector, c.b.CreateInBoundsGEP(scalar, array, lane));
        group.act(c.b.CreateGEP(scalar, first, lane), values);
      });
}

Result<void> act_on_chunk(Nest& nest, const LaneOp& op, const std::optional<Slot>& slot, const LaneAction& act) {
  Context& c = nest.c;
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
    values.push_back(to_memory(c.b, *value));
  }
  auto other = other_lanes(nest, op, point);
  if (!other) return other.error();
  auto pointer = lane_pointers(nest, op, point);
  if (!pointer) return pointer.error();
  auto publish = [&](Value* vector) {
    if (slot) nest.store_slot(*slot, point, c.type(*op.result), vector);
  };
  if (nest.vector_dim() < 0) {
    publish(act_once(c, mask, pointer->at(c.i64(0)), values, *other, act));
    return {};
  }
  std::vector<Lanes> arrays;
  for (Value* value : values) arrays.emplace_back(c, value);
  std::optional<Lanes> results;
  if (op.result) results.emplace(c, nest.splat(*other));
  auto one_by_one = [&] {
    for_each_set_bit(c, lane_bits(nest, nest.in_active_lanes(mask)), [&](Value* lane) {
      llvm::SmallVector<Value*, 2> here;
      for (const Lanes& array : arrays) here.push_back(array.at(lane));
      Value* out = act(pointer->at(lane), here, [&] { return lane_number(nest, lane); });
      if (results) results->set(lane, out);
    });
  };
  const bool whole = !mask && !nest.lane_mask() && !results && pointer->contiguous;
  if (op.group && whole && nest.width() % static_cast<int>(op.group->lanes) == 0) {
    Builder& b = c.b;
    Value* first = pointer->at(c.i64(0));
    const auto bytes = static_cast<int64_t>(op.group->lanes) * memory_bytes(c.type(op.values[0]));
    Value* misplaced = b.CreateAnd(b.CreatePtrToInt(first, b.getInt64Ty()), c.i64(bytes - 1));
    Value* aligned = b.CreateICmpEQ(misplaced, c.i64(0));
    Value* array = entry_alloca(c, nest.splat(values[0])->getType());
    b.CreateStore(nest.splat(values[0]), array);
    auto enter = [](llvm::Instruction*) {};
    emit_if(b, aligned, "groups", enter,
            [&] { act_on_groups(nest, *op.group, first, values[0]->getType()->getScalarType(), array); });
    emit_if(b, b.CreateNot(aligned), "lanes", enter, one_by_one);
  } else {
    one_by_one();
  }
  if (results) publish(results->all());
  return {};
}

Result<void> act_on_scalar(Context& c, const LaneOp& op, const LaneAction& act) {
  llvm::SmallVector<Value*, 2> values;
  for (ValueId id : op.values) values.push_back(to_memory(c.b, c.scalars[id]));
  Value* other = nullptr;
  if (op.result) {
    const dsl::Type& type = c.type(*op.result);
    other = op.other ? to_memory(c.b, c.scalars[*op.other])
                     : llvm::Constant::getNullValue(memory_type(c.b.getContext(), type.element, type.pointer));
  }
  Value* out = act_once(c, op.mask ? c.scalars[*op.mask] : nullptr, c.scalars[op.pointer], values, other, act);
  if (op.result) c.scalars[*op.result] = from_memory(c.b, c.type(*op.result), out);
  return {};
}

}  // namespace

Result<void> for_each_lane(Context& c, const LaneOp& op_in, const LaneAction& act) {
  LaneOp op = op_in;
  if (op.result && c.schedule.use_count[*op.result] == 0) op.result.reset();
  if (c.type(op.pointer).is_scalar()) return act_on_scalar(c, op, act);
  Nest nest(c, dsl::concrete_shape(c.type(op.pointer)));
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
  std::optional<Slot> slot;
  if (op.result) slot = allocate_slot(c, c.type(*op.result));
  Nest::Body body;
  body.chunk = [&] { return act_on_chunk(nest, op, slot, act); };
  if (auto done = nest.walk(body, !op.result && nest.interior_suffices(mask)); !done) return done;
  nest.finish();
  if (slot) c.slots[*op.result] = slot;
  return {};
}

}  // namespace kiln::codegen::cpu
