// topk: row by row. A short row is sorted as a whole. Of a long one, candidates are collected: once there are k, only
// elements before the k-th best so far can be among the best; when the candidates' place is full, they are sorted and
// all but k are dropped.
#include "cpu/ops/topk.h"

#include <llvm/Support/MathExtras.h>

#include "cpu/ops/order_nest.h"
#include "cpu/ops/sort_records.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 32;
constexpr int64_t kLeastSpare = 64;  // candidates beyond k: at least two vectors

void nothing(llvm::Instruction*) {}

int64_t number(const dsl::Attr& attr) {
  if (auto* expr = std::get_if<dsl::Expr>(&attr)) return *expr->as_constant();
  return std::get<int64_t>(attr);
}

// The candidates of a long row.
class Candidates {
 public:
  Candidates(Context& context, SortRow& row, ElementType element, bool largest, int64_t k, int64_t capacity, int width)
      : ctx(context),
        ir(context.ir),
        row_(row),
        element_(element),
        largest_(largest),
        k_(k),
        capacity_(capacity),
        width_(width) {
    if (element == ElementType::kF32 || element == ElementType::kF64) {
      worst_element_ = entry_alloca(ctx, register_type(ir.getContext(), dsl::scalar_type(element)));
    }
    count_ = entry_alloca(ctx, ir.getInt64Ty());
    worst_ = entry_alloca(ctx, row.key_type());
    is_full_ = entry_alloca(ctx, ir.getInt1Ty());
    keys_ = entry_alloca(ctx, llvm::FixedVectorType::get(row.key_type(), static_cast<unsigned>(width)));
  }

  void reset() {
    ir.CreateStore(ir.getInt64(0), count_);
    ir.CreateStore(llvm::Constant::getAllOnesValue(row_.key_type()), worst_);
    ir.CreateStore(ir.getFalse(), is_full_);
    if (!worst_element_) return;
    auto* type = llvm::cast<llvm::AllocaInst>(worst_element_)->getAllocatedType();
    ir.CreateStore(llvm::ConstantFP::getInfinity(type, /*Negative=*/largest_), worst_element_);
  }

  // `x`: elements; `keep` is run where there may be candidates among them.
  void add(Value* x, Value* lanes, Value* index, llvm::function_ref<void()> keep) {
    if (!worst_element_) return add_keys(order_keys(ir, element_, largest_, x), lanes, index, keep);
    // Nearly all vectors hold none, which a single comparison of floats tells; NaN passes.
    Value* worst = splat(ir.CreateLoad(x->getType()->getScalarType(), worst_element_));
    Value* maybe = largest_ ? ir.CreateFCmpUGE(x, worst) : ir.CreateFCmpULE(x, worst);
    emit_if(ir, ir.CreateOrReduce(maybe), "maybe", nothing,
            [&] { add_keys(order_keys(ir, element_, largest_, x), lanes, index, keep); });
  }

  void sort() { row_.sort(ir.CreateLoad(ir.getInt64Ty(), count_)); }

 private:
  Value* splat(Value* x) { return ir.CreateVectorSplat(static_cast<unsigned>(width_), x); }

  // A later element of an equal key comes behind those that are there.
  void add_keys(Value* keys, Value* lanes, Value* index, llvm::function_ref<void()> keep) {
    Value* better = ir.CreateICmpULT(keys, splat(ir.CreateLoad(row_.key_type(), worst_)));
    better = ir.CreateOr(better, splat(ir.CreateNot(ir.CreateLoad(ir.getInt1Ty(), is_full_))));
    if (lanes) better = ir.CreateAnd(better, lanes);
    Value* bits = ir.CreateBitCast(better, ir.getIntNTy(static_cast<unsigned>(width_)));
    bits = ir.CreateZExt(bits, ir.getInt64Ty());
    emit_if(ir, ir.CreateICmpNE(bits, ir.getInt64(0)), "candidates", nothing, [&] {
      keep();
      ir.CreateStore(keys, keys_);
      put_each(bits, index);
      Value* full = ir.CreateICmpSGT(ir.CreateLoad(ir.getInt64Ty(), count_), ctx.i64(capacity_ - width_));
      emit_if(ir, full, "drop", nothing, [&] { drop(); });
    });
  }

  void put_each(Value* bits, Value* index) {
    auto* before = ir.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(ir.getContext(), "candidate", ctx.function);
    auto* after = llvm::BasicBlock::Create(ir.getContext(), "candidate.end", ctx.function);
    ir.CreateBr(loop);
    ir.SetInsertPoint(loop);
    auto* left = ir.CreatePHI(ir.getInt64Ty(), 2);
    left->addIncoming(bits, before);
    Value* lane = ir.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, ir.getTrue());
    Value* key = ir.CreateLoad(row_.key_type(), ir.CreateInBoundsGEP(row_.key_type(), keys_, lane));
    Value* count = ir.CreateLoad(ir.getInt64Ty(), count_);
    row_.put(count, key, ir.CreateAdd(index, lane));
    ir.CreateStore(ir.CreateAdd(count, ir.getInt64(1)), count_);
    Value* rest = ir.CreateAnd(left, ir.CreateSub(left, ir.getInt64(1)));
    left->addIncoming(rest, loop);
    ir.CreateCondBr(ir.CreateICmpNE(rest, ir.getInt64(0)), loop, after);
    ir.SetInsertPoint(after);
  }

  void drop() {
    sort();
    ir.CreateStore(ctx.i64(k_), count_);
    Value* worst = row_.key_of(ctx.i64(k_ - 1));
    ir.CreateStore(worst, worst_);
    if (worst_element_) ir.CreateStore(elements_of(ir, element_, largest_, worst), worst_element_);
    ir.CreateStore(ir.getTrue(), is_full_);
  }

  Context& ctx;
  Builder& ir;
  SortRow& row_;
  const ElementType element_;
  const bool largest_;
  const int64_t k_, capacity_;
  const int width_;
  Value *count_, *worst_, *is_full_, *keys_;
  Value* worst_element_ = nullptr;  // of floats that compare in one instruction
};

}  // namespace

Result<void> lower_topk(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  const ValueId x = op.operands[0];
  const int64_t k = number(op.attrs[0]);
  const auto axis = static_cast<size_t>(number(op.attrs[1]));
  const bool largest = number(op.attrs[2]) != 0;
  const dsl::Type& type = ctx.type(x);
  const int64_t extent = dsl::concrete_shape(type)[axis];
  OrderNest order(ctx, x, axis);
  order.nest.choose_width(x, kMaxWidth);
  const auto capacity = static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(k + std::max(k, kLeastSpare))));
  const bool long_row = extent > capacity;
  SortRow row(ctx, type.element, std::min(extent, capacity));
  const ScratchSlot elements = row_slot(ctx, type, extent);
  const std::array<ScratchSlot, 2> results = {allocate_scratch_slot(ctx, ctx.type(op.results[0])),
                                              allocate_scratch_slot(ctx, ctx.type(op.results[1]))};
  std::optional<Candidates> candidates;
  if (long_row) candidates.emplace(ctx, row, type.element, largest, k, capacity, order.nest.width());

  Nest::Body body;
  body.begin_row = [&]() -> Result<void> {
    if (candidates) candidates->reset();
    return {};
  };
  body.chunk = [&]() -> Result<void> {
    auto value = order.evaluate(x);
    if (!value) return value.error();
    auto keep = [&] { order.keep(elements, type, *value); };
    if (candidates) {
      candidates->add(*value, order.nest.lane_mask(), order.index(), keep);
    } else {
      keep();
      row.put(order.index(), order_keys(ir, type.element, largest, *value), order.index());
    }
    return {};
  };
  body.end_row = [&]() -> Result<void> {
    if (candidates) {
      candidates->sort();
    } else {
      row.sort(ctx.i64(extent));
    }
    emit_loop(ir, ctx.i64(0), ctx.i64(k), ctx.i64(1), "best", nothing, [&](Value* i) {
      Value* from = row.index_of(i);
      order.put(results[0], type, i, order.pick(elements, type, from));
      order.put(results[1], ctx.type(op.results[1]), i, ir.CreateTrunc(from, ir.getInt32Ty()));
    });
    return {};
  };
  if (auto done = order.nest.walk(body, false); !done) return done;
  for (size_t i = 0; i < results.size(); ++i) ctx.slots[op.results[i]] = results[i];
  return {};
}

}  // namespace kiln::codegen::cpu
