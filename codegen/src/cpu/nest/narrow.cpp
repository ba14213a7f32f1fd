// Small last axes. A nest over [..., n, 2] walks n in vectors and has one for each index of the last axis:
//
//   a chunk      i = 0, 1, ...        memory
//   at [i, 0]    a0 a1 a2 a3    <-->  a0 b0 a1 b1 a2 b2 a3 b3
//   at [i, 1]    b0 b1 b2 b3
//
// What lies side by side is read and written whole; registers are taken apart and put together by shuffles. `split` and
// `join` are then but a choice of the vector. Where a mask decides, its lanes are put together in the same way.
#include <bit>

#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {
namespace {

// Any index of an axis: no dimension of a nest.
constexpr int8_t kAnyIndex = -128;

unsigned lanes_in(const Value* x) { return llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements(); }

// x0 y0 z0 x1 y1 z1 ...: of an even number as pairs of what is interleaved already, which is what shuffles do best.
Value* interleave(Builder& ir, llvm::ArrayRef<Value*> x) {
  if (x.size() == 1) return x[0];
  const auto count = static_cast<int>(x.size()), lanes = static_cast<int>(lanes_in(x[0]));
  std::vector<int> order;
  if (count % 2 == 0) {
    llvm::SmallVector<Value*, 4> even, odd;
    for (size_t i = 0; i < x.size(); ++i) (i % 2 == 0 ? even : odd).push_back(x[i]);
    Value *first = interleave(ir, even), *second = interleave(ir, odd);
    const int half = lanes * count / 2;
    for (int i = 0; i < half; ++i) order.insert(order.end(), {i, half + i});
    return ir.CreateShuffleVector(first, second, order);
  }
  // One behind the other, then in order.
  Value* all = x[0];
  for (int i = 1; i < count; ++i) {
    std::vector<int> wider;
    for (int lane = 0; lane < lanes * i; ++lane) wider.push_back(lane < lanes ? lane : -1);
    Value* next = i == 1 ? x[1] : ir.CreateShuffleVector(x[static_cast<size_t>(i)], wider);
    std::vector<int> behind;
    for (int lane = 0; lane < lanes * (i + 1); ++lane) behind.push_back(lane);
    all = ir.CreateShuffleVector(all, next, behind);
  }
  for (int lane = 0; lane < lanes; ++lane) {
    for (int i = 0; i < count; ++i) order.push_back(i * lanes + lane);
  }
  return ir.CreateShuffleVector(all, order);
}

// Lanes first, first + step, ...: an even step by way of every second one.
Value* every(Builder& ir, Value* x, int first, int step) {
  for (; step % 2 == 0; step /= 2, first /= 2) {
    std::vector<int> half;
    for (unsigned i = 0; i < lanes_in(x) / 2; ++i) half.push_back(static_cast<int>(2 * i) + first % 2);
    x = ir.CreateShuffleVector(x, half);
  }
  if (step == 1) return x;
  std::vector<int> order;
  for (unsigned i = 0; i < lanes_in(x) / static_cast<unsigned>(step); ++i) {
    order.push_back(first + static_cast<int>(i) * step);
  }
  return ir.CreateShuffleVector(x, order);
}

}  // namespace

void Nest::unroll_narrow() {
  std::vector<int64_t> extents;
  for (const Dim& d : dims_) extents.push_back(d.extent);
  const auto row = axis_before_narrow(extents);
  if (!row) return;
  vector_dim_ = static_cast<int>(*row);
  for (int d = vector_dim_ + 1; d < rank(); ++d) {
    dims_[d].inner = true;
    std::vector<Point> all;
    for (const Point& point : points_) {
      for (int index = 0; index < dims_[d].extent; ++index) {
        all.push_back(point);
        all.back()[static_cast<size_t>(d)] = at_index(index);
      }
    }
    points_ = std::move(all);
  }
}

int Nest::most_lanes(int most) const {
  // LLVM 22 makes what it has no instruction for of 16 lanes, seven elements apart, of scalable vectors of 512 bits.
  const int native = (ctx.target.sve_bits > 256 ? 32 : ctx.target.vector_bytes) / 4;
  return is_narrow() ? std::max(native, most / static_cast<int>(std::bit_ceil(points_.size()))) : most;
}

// ---- memory ----

// The elements at the indices of one axis, which lie side by side, and the vectors' axis is the one before: all of them
// are read, of which this point takes a part. Null: they lie otherwise.
Result<Value*> Nest::load_side_by_side(const Op& op, const Point& point) {
  const dsl::Type& type = ctx.type(op.results[0]);
  int axis = -1;
  for (size_t i = 0; i < point.size(); ++i) {
    if (point[i] >= 0 || type.shape[i].as_constant() == 1) continue;
    if (axis >= 0) return static_cast<Value*>(nullptr);
    axis = static_cast<int>(i);
  }
  if (axis < 0) return static_cast<Value*>(nullptr);
  const auto at = static_cast<size_t>(axis);
  Point any = point, first = point;
  any[at] = kAnyIndex;
  first[at] = kZero;
  if (pointers_along(op.operands[0], any, kAnyIndex) != Along::kByOne) return static_cast<Value*>(nullptr);
  auto where = address(op.operands[0], first, Heeds::kStride);
  if (!where) return where.error();
  const int count = where->stride;
  if (count < 2 || type.shape[at].as_constant() != count) return static_cast<Value*>(nullptr);

  llvm::SmallVector<Value*, 8> masks(static_cast<size_t>(count), nullptr);
  const auto mine = static_cast<size_t>(index_at(point[at]));
  for (int i = 0; op.operands.size() > 1 && i < count; ++i) {
    Point each = point;
    each[at] = at_index(i);
    auto mask = active_mask(op.operands[1], each);
    if (!mask) return mask;
    masks[static_cast<size_t>(i)] = *mask;
  }
  llvm::Type* memory = memory_type(ir.getContext(), type.element, type.pointer);
  auto* wide = llvm::FixedVectorType::get(memory, static_cast<unsigned>(width_ * count));
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  Value* mask = mask_side_by_side(masks);
  Value* all =
      mask ? ir.CreateMaskedLoad(wide, where->pointer, align, ctx.memory_mask(mask), llvm::Constant::getNullValue(wide))
           : static_cast<Value*>(ir.CreateAlignedLoad(wide, where->pointer, align));
  Value* value = from_memory(ir, every(ir, all, static_cast<int>(mine), count), type);
  // Behind a bound, too, where the mask is known to hold before it: scratch takes the whole vector.
  Value* active = in_active_lanes(masks[mine]);
  if (!active || op.operands.size() < 3) return value;
  auto other = evaluate(op.operands[2], point);
  if (!other) return other;
  return ir.CreateSelect(active, value, splat(*other));
}

Result<Value*> Nest::address_side_by_side(ValueId pointers) {
  Point any = points_[0];
  int64_t count = 1;
  // Of several small axes each goes on where the one behind it ends.
  for (int d = rank() - 1; d > vector_dim_; --d) {
    if (dims_[d].extent == 1) continue;
    if (count > 1) return static_cast<Value*>(nullptr);
    any[static_cast<size_t>(d)] = kAnyIndex;
    count = dims_[d].extent;
  }
  if (pointers_along(pointers, any, kAnyIndex) != Along::kByOne) return static_cast<Value*>(nullptr);
  auto where = address(pointers, points_[0], Heeds::kStride);
  if (!where) return where.error();
  return where->stride == count ? where->pointer : nullptr;
}

Value* Nest::side_by_side(llvm::ArrayRef<Value*> vectors) { return interleave(ir, vectors); }

Value* Nest::mask_side_by_side(llvm::ArrayRef<Value*> masks) {
  const auto count = static_cast<int>(masks.size());
  if (llvm::none_of(masks, [](Value* mask) { return mask; })) {
    return lanes_ ? lanes_below(lanes_end_, count) : nullptr;
  }
  llvm::SmallVector<Value*, 8> lanes;
  for (Value* mask : masks) {
    Value* active = in_active_lanes(mask);
    lanes.push_back(splat(active ? active : static_cast<Value*>(ir.getTrue())));
  }
  return interleave(ir, lanes);
}

// ---- scratch ----

// Reads past the last lane, which all of scratch has room for.
Value* Nest::load_strided(const ScratchSlot& slot, const Point& point, const dsl::Type& type, int64_t stride) {
  Point row = point;
  int64_t beside = 0;
  for (size_t i = 0; i < point.size(); ++i) {
    if (point[i] >= 0) continue;
    beside += index_at(point[i]) * slot.strides[i];
    row[i] = kZero;
  }
  ScratchSlot from = slot;
  from.offset += static_cast<uint64_t>((beside - beside % stride) * memory_bytes(type));
  llvm::Type* memory = memory_type(ir.getContext(), type.element, type.pointer);
  auto* wide = llvm::FixedVectorType::get(memory, static_cast<unsigned>(width_ * stride));
  const auto bytes = static_cast<uint64_t>(width_ * stride * memory_bytes(type));
  ctx.scratch_tail = std::max(ctx.scratch_tail, (bytes + 63) / 64 * 64);
  Value* all = ir.CreateAlignedLoad(wide, slot_pointer(from, row, type.element, type.pointer),
                                    llvm::Align(static_cast<uint64_t>(memory_bytes(type))));
  return from_memory(ir, every(ir, all, static_cast<int>(beside % stride), static_cast<int>(stride)), type);
}

void Nest::store_slot(const ScratchSlot& slot, const dsl::Type& type, llvm::ArrayRef<Value*> vectors) {
  const auto count = static_cast<int64_t>(points_.size());
  bool whole = count > 1;
  int64_t dense = 1;
  for (int d = rank(); d-- > vector_dim_ && whole;) {
    const auto axis = static_cast<size_t>(d);
    whole = dims_[d].extent == 1 || slot.strides[axis] == dense;
    dense *= dims_[d].extent;
  }
  if (!whole) {
    for (size_t i = 0; i < vectors.size(); ++i) store_slot(slot, points_[i], type, vectors[i]);
    return;
  }
  llvm::SmallVector<Value*, 8> lanes;
  for (Value* vector : vectors) lanes.push_back(to_memory(ir, splat(vector)));
  Value* all = interleave(ir, lanes);
  Value* pointer = slot_pointer(slot, points_[0], type.element, type.pointer);
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  const int64_t extent = dims_[vector_dim_].extent;
  const bool partial = extent % width_ != 0 && (lanes_ != nullptr || mode_ == Mode::kOutside);
  if (slot.close || !partial) {
    ir.CreateAlignedStore(all, pointer, align);
  } else {
    ir.CreateMaskedStore(all, pointer, align, ctx.memory_mask(lanes_below(ctx.i64(extent), static_cast<int>(count))));
  }
}

}  // namespace kiln::codegen::cpu
