// Tile values at the points of a nest, pulled in from their producers.
#include "cpu/nest/nest.h"
#include "elementwise/calls.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int64_t kMostStride = 8;  // of lanes that are taken out of whole vectors

// Memory of zeros, for a vector.
Value* zeros(Context& ctx) {
  constexpr uint64_t kBytes = 64 * 8;
  auto* type = llvm::ArrayType::get(ctx.ir.getInt8Ty(), kBytes);
  return ctx.module.getOrInsertGlobal("kiln.zeros", type, [&] {
    auto* out = new llvm::GlobalVariable(ctx.module, type, true, llvm::GlobalValue::InternalLinkage,
                                         llvm::Constant::getNullValue(type), "kiln.zeros");
    out->setAlignment(llvm::Align(64));
    return out;
  });
}

}  // namespace

int Nest::depth_now() const { return static_cast<int>(guards_.size()); }

Value* Nest::splat(Value* x) {
  return x->getType()->isVectorTy() ? x : ir.CreateVectorSplat(static_cast<unsigned>(width_), x);
}

Result<Value*> Nest::evaluate_vector(ValueId id, const Point& point) {
  auto value = evaluate(id, point);
  if (!value) return value;
  return splat(*value);
}

Result<Value*> Nest::evaluate(ValueId id, const Point& point_in) {
  if (ctx.type(id).is_scalar()) return ctx.scalars[id];
  const Point point = normalise(id, point_in);
  const int depth = depth_of(id, point);
  const Key key{id, {point.begin(), point.end()}};
  for (int level = 0; level <= depth; ++level) {
    if (auto found = memo_[level].find(key); found != memo_[level].end()) return found->second;
  }
  if (masks_.count({id, point})) {
    if (mode_ == Mode::kOutside) return ir.getFalse();
    if (mask_holds(id, point)) return lanes_ && varies(point) ? lanes_ : static_cast<Value*>(ir.getTrue());
  }
  auto value = at_depth(depth, [&] { return evaluate_new(id, point); });
  if (!value) return value;
  memo_[depth][key] = *value;
  if (keep_allowed_ && !region_ && ctx.keep[id] && !ctx.slots[id] && mode_ == Mode::kInterior && varies(point))
    keep(id, point, *value);
  return value;
}

// Stores an expensive value where the nests to come find it. The slot is published after the walk (see finish()).
void Nest::keep(ValueId id, const Point& point, Value* value) {
  if (point.size() != static_cast<size_t>(rank())) return;
  for (int d = 0; d < rank(); ++d) {
    if (dims_[d].inner || (point[d] != d && dims_[d].extent > 1)) return;
  }
  auto [entry, is_new] = kept_.try_emplace(id);
  if (is_new) {
    entry->second = allocate_scratch_slot(ctx, ctx.type(id));
    entry->second.valid_under = masks_;
  }
  store_slot(entry->second, point, ctx.type(id), splat(value));
}

void Nest::finish() {
  for (ValueId id : rows_.values) ctx.slots[id].reset();
  rows_ = {};
  for (auto& [id, slot] : kept_) ctx.slots[id] = slot;
  kept_.clear();
}

bool Nest::slot_usable(const ScratchSlot& slot, const Point& point) const {
  if (slot.valid_under.empty()) return true;
  // What does not vary along the vectors is computed before the point is known to be inside.
  if (mode_ != Mode::kInterior || !varies(point)) return false;
  return std::includes(masks_.begin(), masks_.end(), slot.valid_under.begin(), slot.valid_under.end());
}

Result<Value*> Nest::evaluate_new(ValueId id, const Point& point) {
  if (ctx.slots[id] && slot_usable(*ctx.slots[id], point)) {
    Value* kept = load_slot(*ctx.slots[id], point, ctx.type(id));
    const auto initial = ctx.initial_splats.find(id);
    if (initial == ctx.initial_splats.end()) return kept;
    if (!kept->getType()->isVectorTy()) return ir.CreateSelect(initial->second.later, kept, initial->second.with);
    // Masks and vectors, before all loops: a choice by a bit would be a branch for each register.
    auto [later, with] = initial->second;
    at_depth(0, [&] { later = splat(later), with = splat(with); });
    return ir.CreateSelect(later, kept, with);
  }
  const Op* op = ctx.schedule.definition[id];
  if (!op) return internal_error("a tile without a definition or a place in scratch");
  const AtLine line = ctx.at_line(*op);
  switch (op->code) {
    case OpCode::kArange: {
      Value* start = ir.getInt32(static_cast<uint32_t>(*std::get<dsl::Expr>(op->attrs[0]).as_constant()));
      if (point[0] < 0) return ir.CreateAdd(start, ir.getInt32(static_cast<uint32_t>(index_at(point[0]))));
      Value* first = ir.CreateAdd(ir.CreateTrunc(dims_[point[0]].index, ir.getInt32Ty()), start);
      if (!varies(point)) return first;
      std::vector<llvm::Constant*> lanes;
      for (int i = 0; i < width_; ++i) lanes.push_back(ir.getInt32(static_cast<uint32_t>(i)));
      return ir.CreateAdd(splat(first), llvm::ConstantVector::get(lanes));
    }
    case OpCode::kSplat:
      return ctx.scalars[op->operands[0]];
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      return evaluate(op->operands[0], source_point(*op, point));
    case OpCode::kSplit: {
      const auto source = sources(id, *op, point)[0];
      return evaluate(source.first, source.second);
    }
    case OpCode::kJoin:
      return evaluate_join(*op, point);
    case OpCode::kLoad:
      return evaluate_load(*op, point);
    default:
      if (!is_elementwise(*op)) {
        return internal_error(dsl::info(op->code).name + " has no place in scratch");
      }
      return evaluate_elementwise(*op, point);
  }
}

// At a fixed index of the last axis one of the two, else chosen by the index.
Result<Value*> Nest::evaluate_join(const Op& op, const Point& point) {
  llvm::SmallVector<Value*, 2> parts;
  for (const auto& [operand, at] : sources(op.results[0], op, point)) {
    auto part = evaluate(operand, at);
    if (!part) return part;
    parts.push_back(*part);
  }
  if (parts.size() == 1) return parts[0];
  if (!varies({point.back()})) {
    Value* is_second = ir.CreateICmpNE(dims_[point.back()].index, ctx.i64(0));
    if (parts[0]->getType() != parts[1]->getType()) parts = {splat(parts[0]), splat(parts[1])};
    return ir.CreateSelect(is_second, parts[1], parts[0]);
  }
  std::vector<llvm::Constant*> is_second;
  for (int i = 0; i < width_; ++i) is_second.push_back(ir.getInt1(i == 1));
  return ir.CreateSelect(llvm::ConstantVector::get(is_second), splat(parts[1]), splat(parts[0]));
}

// The loop level of what a value is a copy of.
int Nest::origin_depth(ValueId id, const Point& point_in) const {
  const Point point = normalise(id, point_in);
  const Op* op = ctx.schedule.definition[id];
  if (mode_ == Mode::kOutside || !op || ctx.slots[id] || ctx.schedule.defining_region[id] == region_) {
    return depth_of(id, point);
  }
  if (op->code == OpCode::kSplat) return 0;
  const bool copies = is_view(*op);
  return copies ? origin_depth(op->operands[0], source_point(*op, point)) : depth_of(point);
}

Result<llvm::SmallVector<Value*, 4>> Nest::evaluate_operands(const Op& op, const Point& point) {
  llvm::SmallVector<Value*, 4> operands;
  bool any_vector = false;
  for (ValueId operand : op.operands) {
    auto value = evaluate(operand, point);
    if (!value) return value.error();
    operands.push_back(*value);
    any_vector |= (*value)->getType()->isVectorTy();
  }
  if (!any_vector) return operands;
  // What all lanes share is repeated once, before the loop over the lanes.
  for (size_t i = 0; i < operands.size(); ++i) {
    operands[i] = at_depth(origin_depth(op.operands[i], point), [&] { return splat(operands[i]); });
  }
  return operands;
}

Result<Value*> Nest::evaluate_elementwise(const Op& op, const Point& point) {
  auto operands = evaluate_operands(op, point);
  if (!operands) return operands.error();
  return emit_op(ctx, ctx.ir, op, *operands);
}

Result<Value*> Nest::evaluate_lanes(ValueId id, const Point& point) {
  return vector_dim_ >= 0 ? evaluate_vector(id, point) : evaluate(id, point);
}

// ---- memory ----

// Neighbours in memory where a condition holds that all lanes share, else `other`. The condition chooses the address: a
// load all of whose lanes are off takes hundreds of cycles where its address has no memory.
Value* Nest::load_if(const Op& op, const Point& point, Value* condition, Value* pointer, Value* other) {
  const dsl::Type& type = ctx.type(op.results[0]);
  auto* wide = llvm::FixedVectorType::get(memory_type(ir.getContext(), type.element, type.pointer),
                                          static_cast<unsigned>(width_));
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  if (!lanes_) prefetch_ahead(op, point, pointer);
  Value* from = ir.CreateSelect(condition, pointer, zeros(ctx));
  Value* loaded =
      lanes_ ? ir.CreateMaskedLoad(wide, from, align, ctx.memory_mask(lanes_), llvm::Constant::getNullValue(wide))
             : static_cast<Value*>(ir.CreateAlignedLoad(wide, from, align));
  loaded = from_memory(ir, loaded, type);
  auto* constant = llvm::dyn_cast<llvm::Constant>(other);
  return constant && constant->isNullValue() ? loaded : ir.CreateSelect(condition, loaded, splat(other));
}

// The first lane of each group loads, for those of its group that are active.
Value* Nest::load_groups(const dsl::Type& type, const Address& where, Value* mask, Value* other) {
  auto* wide = llvm::FixedVectorType::get(memory_type(ir.getContext(), type.element, type.pointer),
                                          static_cast<unsigned>(width_));
  std::vector<llvm::Constant*> firsts;
  std::vector<int> first_of;
  for (int i = 0; i < width_; ++i) {
    firsts.push_back(ir.getInt1(i % where.group == 0));
    first_of.push_back(i / where.group * where.group);
  }
  Value *lanes = llvm::ConstantVector::get(firsts), *from = where.pointer;
  if (mask && mask->getType()->isVectorTy()) {
    Value* any = mask;
    for (int distance = 1; distance < where.group; distance *= 2) {
      std::vector<int> partner;
      for (int i = 0; i < width_; ++i) partner.push_back(i ^ distance);
      any = ir.CreateOr(any, ir.CreateShuffleVector(any, partner));
    }
    lanes = ctx.memory_mask(ir.CreateAnd(lanes, any));
  } else if (mask) {
    from = ir.CreateSelect(mask, from, zeros(ctx));
  }
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  Value* loaded = ir.CreateMaskedLoad(wide, from, align, lanes, llvm::Constant::getNullValue(wide));
  Value* value = from_memory(ir, ir.CreateShuffleVector(loaded, first_of), type);
  if (!mask) return value;
  const auto* constant = llvm::dyn_cast<llvm::Constant>(other);
  const bool is_zero = constant && constant->isNullValue() && !mask->getType()->isVectorTy();
  return is_zero ? value : ir.CreateSelect(mask, value, splat(other));
}

Result<Value*> Nest::evaluate_load(const Op& op, const Point& point) {
  const dsl::Type& type = ctx.type(op.results[0]);
  const ValueId mask_id = op.operands.size() > 1 ? op.operands[1] : dsl::kNoValue;
  const bool has_mask = mask_id != dsl::kNoValue;
  llvm::Type* scalar = register_type(ir.getContext(), type);
  Value* other = llvm::Constant::getNullValue(scalar);
  if (op.operands.size() > 2) {
    auto value = evaluate(op.operands[2], point);
    if (!value) return value;
    other = *value;
  }
  if (mode_ == Mode::kOutside && has_mask && masks_.count({mask_id, normalise(mask_id, point)})) return other;

  Value* mask = nullptr;  // null: all active lanes
  if (has_mask) {
    const bool by_row = rows_.word && mode_ == Mode::kInterior && varies(point) &&
                        llvm::is_contained(point, static_cast<int8_t>(rows_.dim));
    auto value = by_row ? mask_on_row(mask_id, point) : active_mask(mask_id, point);
    if (!value) return value;
    mask = *value;
  }
  const bool vector = varies(point) && mode_ != Mode::kOutside;
  if (vector) {
    auto loaded = load_side_by_side(op, point);
    if (!loaded || *loaded) return loaded;
  }
  auto where = address(op.operands[0], point, vector ? Heeds::kGroups : Heeds::kPointers);
  if (!where) return where.error();
  if (vector && where->contiguous && mask && !mask->getType()->isVectorTy()) {
    return load_if(op, point, mask, where->pointer, other);
  }
  if (vector && where->group > 1) {
    const bool is_shared = mask && !mask->getType()->isVectorTy();
    return load_groups(type, *where, is_shared && !lanes_ ? mask : in_active_lanes(mask), other);
  }
  if (vector) mask = in_active_lanes(mask);
  llvm::Type* memory = memory_type(ir.getContext(), type.element, type.pointer);
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  if (where->contiguous && vector) {
    auto* wide = llvm::FixedVectorType::get(memory, static_cast<unsigned>(width_));
    if (mask && !lanes_) prefetch_ahead(op, point, where->pointer);
    if (!mask) {
      prefetch_behind(op, point, where->pointer);
      return from_memory(ir, ir.CreateAlignedLoad(wide, where->pointer, align), type);
    }
    return from_memory(
        ir, ir.CreateMaskedLoad(wide, where->pointer, align, ctx.memory_mask(splat(mask)), to_memory(ir, splat(other))),
        type);
  }
  if (where->pointer->getType()->isVectorTy()) {
    auto* wide = llvm::FixedVectorType::get(memory, static_cast<unsigned>(width_));
    return from_memory(ir,
                       ir.CreateMaskedGather(wide, where->pointer, align, mask ? ctx.memory_mask(splat(mask)) : nullptr,
                                             to_memory(ir, splat(other))),
                       type);
  }
  // One address for all lanes. Where one mask for all of them is off, the address is that of a zero, if that is wanted:
  // a choice between two floats would be a branch.
  Value* any = mask && mask->getType()->isVectorTy() ? ir.CreateOrReduce(mask) : mask;
  const auto* constant = llvm::dyn_cast<llvm::Constant>(other);
  const bool from_zeros = any && any == mask && constant && constant->isNullValue();
  Value* pointer = where->pointer;
  if (any) pointer = ir.CreateSelect(any, pointer, from_zeros ? zeros(ctx) : entry_alloca(ctx, memory));
  Value* loaded = from_memory(ir, ir.CreateAlignedLoad(memory, pointer, align), type);
  if (!mask || from_zeros) return loaded;
  if (mask->getType()->isVectorTy()) return ir.CreateSelect(mask, splat(loaded), splat(other));
  if (other->getType()->isVectorTy()) loaded = splat(loaded);
  return ir.CreateSelect(mask, loaded, other);
}

Result<Value*> Nest::active_mask(ValueId mask, const Point& point_in) {
  const Point point = normalise(mask, point_in);
  if (mask_holds(mask, point)) return static_cast<Value*>(nullptr);
  return evaluate(mask, point);
}

Value* Nest::slot_pointer(const ScratchSlot& slot, const Point& point, ElementType element, bool pointer) {
  llvm::Type* memory = memory_type(ir.getContext(), element, pointer);
  Value* base = at_depth(0, [&] { return scratch_slot_address(ctx, slot); });
  Value* offset = ctx.i64(0);
  for (size_t i = 0; i < point.size(); ++i) {
    if (point[i] < 0) {
      if (point[i] != kZero) offset = ir.CreateAdd(offset, ctx.i64(index_at(point[i]) * slot.strides[i]));
      continue;
    }
    const Dim& d = dims_[point[i]];
    offset = ir.CreateAdd(offset, at_depth(d.depth, [&] { return ir.CreateMul(d.index, ctx.i64(slot.strides[i])); }));
  }
  return ir.CreateInBoundsGEP(memory, base, offset);
}

int64_t Nest::lane_stride(const ScratchSlot& slot, const Point& point) const {
  for (size_t i = 0; i < point.size(); ++i) {
    if (point[i] == vector_dim_) return slot.strides[i];
  }
  return 1;
}

Value* Nest::strided_lanes(Value* first, llvm::Type* memory, int64_t stride) {
  std::vector<llvm::Constant*> lanes;
  for (int i = 0; i < width_; ++i) lanes.push_back(ir.getInt64(static_cast<uint64_t>(i * stride)));
  return ir.CreateGEP(memory, first, llvm::ConstantVector::get(lanes));
}

Value* Nest::load_slot(const ScratchSlot& slot, const Point& point, const dsl::Type& type) {
  llvm::Type* memory = memory_type(ir.getContext(), type.element, type.pointer);
  Value* pointer = slot_pointer(slot, point, type.element, type.pointer);
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  if (!varies(point)) return from_memory(ir, ir.CreateAlignedLoad(memory, pointer, align), type);
  auto* wide = llvm::FixedVectorType::get(memory, static_cast<unsigned>(width_));
  const int64_t stride = lane_stride(slot, point);
  if (stride == 1) return from_memory(ir, ir.CreateAlignedLoad(wide, pointer, align), type);
  if (stride > 1 && stride <= kMostStride) return load_strided(slot, point, type, stride);
  Value* pointers = strided_lanes(pointer, memory, stride);
  return from_memory(ir, ir.CreateMaskedGather(wide, pointers, align, ctx.memory_mask(lanes_)), type);
}

void Nest::store_slot(const ScratchSlot& slot, const Point& point, const dsl::Type& type, Value* vector) {
  Value* pointer = slot_pointer(slot, point, type.element, type.pointer);
  vector = to_memory(ir, vector);
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  const int64_t stride = lane_stride(slot, point);
  if (!vector->getType()->isVectorTy() || (stride == 1 && !slot.exact)) {
    ir.CreateAlignedStore(vector, pointer, align);
    return;
  }
  // A strided row has no padding behind its last lane. Chunks without lanes of their own are whole, but for those of
  // walk_outside.
  const int64_t extent = dims_[vector_dim_].extent;
  const bool partial = extent % width_ != 0 && (lanes_ != nullptr || mode_ == Mode::kOutside);
  Value* active = ctx.memory_mask(partial ? lanes_below(ctx.i64(extent)) : nullptr);
  if (stride != 1) {
    Value* pointers = strided_lanes(pointer, memory_type(ir.getContext(), type.element, type.pointer), stride);
    ir.CreateMaskedScatter(vector, pointers, align, active);
  } else if (active) {
    ir.CreateMaskedStore(vector, pointer, align, active);
  } else {
    ir.CreateAlignedStore(vector, pointer, align);
  }
}

Value* Nest::gather_slot(const dsl::Type& type, const ScratchSlot& slot, const Point& point, size_t axis, Value* index,
                         bool index_is_signed) {
  llvm::Type* memory = memory_type(ir.getContext(), type.element, type.pointer);
  Point others = point;
  others[axis] = kZero;
  Value* first = slot_pointer(slot, others, type.element, type.pointer);
  llvm::Type* wide = like(index, ir.getInt64Ty());
  Value* offset = index_is_signed ? ir.CreateSExt(index, wide) : ir.CreateZExt(index, wide);
  offset = ir.CreateMul(offset, int_constant(offset, static_cast<uint64_t>(slot.strides[axis])));
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  if (!offset->getType()->isVectorTy()) {
    return from_memory(ir, ir.CreateAlignedLoad(memory, ir.CreateGEP(memory, first, offset), align), type);
  }
  if (vector_dim_ != static_cast<int>(axis) && varies(others)) {
    first = strided_lanes(first, memory, lane_stride(slot, others));
  }
  // The last lanes of a row hold no index of the author's.
  const int64_t extent = dims_[vector_dim_].extent;
  Value* active = ctx.memory_mask(extent % width_ != 0 ? lanes_below(ctx.i64(extent)) : nullptr);
  auto* vector = llvm::FixedVectorType::get(memory, static_cast<unsigned>(width_));
  Value* none = llvm::Constant::getNullValue(vector);
  Value* loaded = ir.CreateMaskedGather(vector, ir.CreateGEP(memory, first, offset), align, active, none);
  return from_memory(ir, loaded, type);
}

}  // namespace kiln::codegen::cpu
