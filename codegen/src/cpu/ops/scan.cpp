// scan: in place on a copy of each operand, in the results' slots.
//
//   rows    the axis is the last one: prefixes within a vector in log2 steps, then the carry of the vectors before
//   across  rows are combined with the accumulated row before them, which lies in scratch in the accumulator's type
//
// In both what is accumulated stands on the left, and nothing is needed that leaves an element as it is: lanes without
// a left neighbour are chosen, not combined.
#include "cpu/ops/scan.h"

#include "cpu/nest/materialise.h"
#include "cpu/ops/combine.h"

namespace kiln::codegen::cpu {
namespace {

void nothing(llvm::Instruction*) {}

class Scan {
 public:
  Scan(Context& context, const Op& scan, std::vector<ScratchSlot> slots)
      : ctx(context),
        ir(context.ir),
        op(scan),
        kind_(reduce_kind(scan)),
        slots_(std::move(slots)),
        shape_(dsl::concrete_shape(context.type(scan.results[0]))),
        axis_(static_cast<size_t>(std::get<int64_t>(scan.attrs[1]))),
        reverse_(std::get<int64_t>(scan.attrs[2]) != 0) {}

  Result<void> run() {
    const bool last = std::all_of(shape_.begin() + static_cast<int64_t>(axis_) + 1, shape_.end(),
                                  [](int64_t extent) { return extent == 1; });
    choose_width(last);
    if (!last) return across();
    if (shape_[axis_] > 1) return rows();
    return {};
  }

 private:
  const dsl::Type& type(size_t i) const { return ctx.type(op.results[i]); }
  bool custom() const { return kind_ == dsl::ReduceKind::kCustom; }
  // The elements of small floats are rounded, but not what is carried.
  ElementType carried(size_t i) const { return custom() ? type(i).element : accumulator_element(type(i).element); }

  void choose_width(bool last) {
    int bytes = 4;
    for (size_t i = 0; i < op.results.size(); ++i) bytes = std::max(bytes, dsl::info(carried(i)).bytes);
    width_ = ctx.target.vector_bytes / bytes * (last ? 1 : 2);
  }

  int64_t outer_count() const {
    int64_t count = 1;
    for (size_t i = 0; i < axis_; ++i) count *= shape_[i];
    return count;
  }

  llvm::Type* memory(ElementType element) const { return memory_type(ir.getContext(), element, false); }
  llvm::Type* vector_of(llvm::Type* scalar) const {
    return llvm::FixedVectorType::get(scalar, static_cast<unsigned>(width_));
  }

  // `first`: elements from the beginning of each slot.
  std::vector<Value*> places(Value* first) {
    std::vector<Value*> out;
    for (size_t i = 0; i < slots_.size(); ++i) {
      out.push_back(ir.CreateGEP(memory(type(i).element), scratch_slot_address(ctx, slots_[i]), first));
    }
    return out;
  }

  // Vectors in the types that are carried. `lanes`: constant, null for all.
  Registers load(llvm::ArrayRef<Value*> from, llvm::Constant* lanes) {
    Registers out;
    for (size_t i = 0; i < from.size(); ++i) {
      llvm::Type* wide = vector_of(memory(type(i).element));
      const llvm::Align align(static_cast<uint64_t>(memory_bytes(type(i))));
      Value* x =
          lanes ? ir.CreateMaskedLoad(wide, from[i], align, ctx.memory_mask(lanes), llvm::Constant::getNullValue(wide))
                : static_cast<Value*>(ir.CreateAlignedLoad(wide, from[i], align));
      x = from_memory(ir, x, type(i));
      out.push_back(custom() ? x : to_accumulator(ctx, ir, type(i).element, x));
    }
    return out;
  }

  void store(llvm::ArrayRef<Value*> to, Registers values, llvm::Constant* lanes) {
    for (size_t i = 0; i < to.size(); ++i) {
      Value* x = custom() ? values[i] : from_accumulator(ctx, ir, kind_, type(i).element, values[i]);
      const llvm::Align align(static_cast<uint64_t>(memory_bytes(type(i))));
      x = to_memory(ir, x);
      if (lanes) {
        ir.CreateMaskedStore(x, to[i], align, ctx.memory_mask(lanes));
      } else {
        ir.CreateAlignedStore(x, to[i], align);
      }
    }
  }

  // ---- the last axis ----

  // Lanes from `first` on.
  llvm::Constant* lanes_from(int first) const {
    std::vector<llvm::Constant*> lanes;
    for (int i = 0; i < width_; ++i) lanes.push_back(ir.getInt1(i >= first));
    return llvm::ConstantVector::get(lanes);
  }

  Registers reversed(Registers x) {
    std::vector<int> order;
    for (int i = 0; i < width_; ++i) order.push_back(width_ - 1 - i);
    for (Value*& value : x) value = ir.CreateShuffleVector(value, order);
    return x;
  }

  Result<Registers> prefixes(Registers x) {
    for (int step = 1; step < width_; step *= 2) {
      std::vector<int> order;
      for (int i = 0; i < width_; ++i) order.push_back(std::max(i - step, 0));
      Registers left;
      for (Value* value : x) left.push_back(ir.CreateShuffleVector(value, order));
      auto both = combine_operands(ctx, op, left, x);
      if (!both) return both;
      for (size_t i = 0; i < x.size(); ++i) x[i] = ir.CreateSelect(lanes_from(step), (*both)[i], x[i]);
    }
    return x;
  }

  // One vector of a row; `carry` holds the last lane of the vectors before.
  Result<void> chunk(llvm::ArrayRef<Value*> at, Value* is_first, llvm::Constant* lanes,
                     const std::vector<llvm::AllocaInst*>& carry) {
    Registers x = load(at, lanes);
    if (reverse_) x = reversed(x);
    auto own = prefixes(x);
    if (!own) return own.error();
    Registers before;
    for (llvm::AllocaInst* variable : carry) {
      Value* scalar = ir.CreateLoad(variable->getAllocatedType(), variable);
      before.push_back(ir.CreateVectorSplat(static_cast<unsigned>(width_), scalar));
    }
    auto all = combine_operands(ctx, op, before, *own);
    if (!all) return all.error();
    for (size_t i = 0; i < all->size(); ++i) {
      (*all)[i] = ir.CreateSelect(is_first, (*own)[i], (*all)[i]);
      ir.CreateStore(ir.CreateExtractElement((*all)[i], static_cast<uint64_t>(width_ - 1)), carry[i]);
    }
    store(at, reverse_ ? reversed(*all) : *all, lanes);
    return {};
  }

  Result<void> rows() {
    const int64_t extent = shape_[axis_], count = outer_count();
    const int64_t stride = axis_ > 0 ? slots_[0].strides[axis_ - 1] : 0;
    std::vector<llvm::AllocaInst*> carry;
    for (size_t i = 0; i < slots_.size(); ++i) {
      llvm::Type* scalar = register_type(ir.getContext(), dsl::scalar_type(carried(i)));
      carry.push_back(llvm::cast<llvm::AllocaInst>(entry_alloca(ctx, scalar)));
    }
    Result<void> result;
    emit_loop(ir, ctx.i64(0), ctx.i64(count), ctx.i64(1), "scan.row", nothing, [&](Value* row) {
      for (llvm::AllocaInst* variable : carry) {
        ir.CreateStore(llvm::Constant::getNullValue(variable->getAllocatedType()), variable);
      }
      result = row_chunks(ir.CreateMul(row, ctx.i64(stride)), extent, carry);
    });
    return result;
  }

  // Forward the last vector reaches into the row's padding. Backward the vectors end where the row does, and the lanes
  // of the last one that lie before the row are left alone.
  Result<void> row_chunks(Value* row, int64_t extent, const std::vector<llvm::AllocaInst*>& carry) {
    Result<void> result;
    const int64_t rest = reverse_ ? extent % width_ : 0;
    emit_loop(ir, ctx.i64(0), ctx.i64(extent - rest), ctx.i64(width_), "scan", nothing, [&](Value* index) {
      Value* first = reverse_ ? ir.CreateSub(ctx.i64(extent - width_), index) : index;
      Value* is_first = ir.CreateICmpEQ(index, ctx.i64(0));
      result = chunk(places(ir.CreateAdd(row, first)), is_first, nullptr, carry);
    });
    if (!result || rest == 0) return result;
    const std::vector<Value*> at = places(ir.CreateAdd(row, ctx.i64(rest - width_)));
    return chunk(at, ir.getInt1(extent < width_), lanes_from(width_ - static_cast<int>(rest)), carry);
  }

  // ---- another axis ----

  // The rows between two elements along the axis are one run of memory, padding included.
  Result<void> across() {
    const int64_t extent = shape_[axis_], run = slots_[0].strides[axis_], count = outer_count();
    while (run % width_ != 0) width_ /= 2;  // a strip behind the run would be the next row's
    std::vector<ScratchSlot> carry;
    for (size_t i = 0; i < slots_.size(); ++i)
      carry.push_back(allocate_scratch_slot(ctx, dsl::tile_type(carried(i), {dsl::Expr(run)})));
    Result<void> result;
    emit_loop(ir, ctx.i64(0), ctx.i64(count), ctx.i64(1), "scan.tile", nothing, [&](Value* tile) {
      Value* base = ir.CreateMul(tile, ctx.i64(run * extent));
      emit_loop(ir, ctx.i64(0), ctx.i64(extent), ctx.i64(1), "scan.row", nothing, [&](Value* step) {
        Value* row = reverse_ ? ir.CreateSub(ctx.i64(extent - 1), step) : step;
        Value* begin = ir.CreateAdd(base, ir.CreateMul(row, ctx.i64(run)));
        Value* is_first = ir.CreateICmpEQ(step, ctx.i64(0));
        emit_loop(ir, ctx.i64(0), ctx.i64(run), ctx.i64(width_), "scan", nothing, [&](Value* column) {
          if (result.ok()) result = strip(places(ir.CreateAdd(begin, column)), carry, column, is_first);
        });
      });
    });
    return result;
  }

  Result<void> strip(llvm::ArrayRef<Value*> at, const std::vector<ScratchSlot>& carry, Value* column, Value* is_first) {
    const Registers x = load(at, nullptr);
    Registers before;
    std::vector<Value*> kept;
    for (size_t i = 0; i < carry.size(); ++i) {
      const dsl::Type scalar = dsl::scalar_type(carried(i));
      const llvm::Align align(static_cast<uint64_t>(memory_bytes(scalar)));
      kept.push_back(ir.CreateGEP(memory(carried(i)), scratch_slot_address(ctx, carry[i]), column));
      before.push_back(from_memory(ir, ir.CreateAlignedLoad(vector_of(memory(carried(i))), kept[i], align), scalar));
    }
    auto all = combine_operands(ctx, op, before, x);
    if (!all) return all.error();
    for (size_t i = 0; i < all->size(); ++i) {
      (*all)[i] = ir.CreateSelect(is_first, x[i], (*all)[i]);
      const llvm::Align align(static_cast<uint64_t>(dsl::info(carried(i)).bytes));
      ir.CreateAlignedStore(to_memory(ir, (*all)[i]), kept[i], align);
    }
    store(at, *all, nullptr);
    return {};
  }

  Context& ctx;
  Builder& ir;
  const Op& op;
  const dsl::ReduceKind kind_;
  const std::vector<ScratchSlot> slots_;
  const std::vector<int64_t> shape_;
  const size_t axis_;
  const bool reverse_;
  int width_ = 1;
};

}  // namespace

Result<void> lower_scan(Context& ctx, const Op& op) {
  std::vector<ScratchSlot> slots;
  for (size_t i = 0; i < op.results.size(); ++i) {
    // Several are walked together, so their rows are laid out alike, as those of the widest type.
    const dsl::Type& type = ctx.type(op.results[i]);
    slots.push_back(
        allocate_scratch_slot(ctx, op.results.size() > 1 ? dsl::tile_type(ElementType::kI64, type.shape) : type));
    if (auto done = materialise(ctx, op.operands[i], slots.back()); !done) return done;
  }
  if (auto done = Scan(ctx, op, slots).run(); !done) return done;
  for (size_t i = 0; i < slots.size(); ++i) ctx.slots[op.results[i]] = slots[i];
  return {};
}

}  // namespace kiln::codegen::cpu
