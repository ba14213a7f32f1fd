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
      : c(context),
        b(context.b),
        row_(row),
        element_(element),
        largest_(largest),
        k_(k),
        capacity_(capacity),
        width_(width) {
    if (element == ElementType::kF32 || element == ElementType::kF64) {
      worst_element_ = entry_alloca(c, register_type(b.getContext(), dsl::scalar_type(element)));
    }
    count_ = entry_alloca(c, b.getInt64Ty());
    worst_ = entry_alloca(c, row.key_type());
    is_full_ = entry_alloca(c, b.getInt1Ty());
    keys_ = entry_alloca(c, llvm::FixedVectorType::get(row.key_type(), static_cast<unsigned>(width)));
  }

  void reset() {
    b.CreateStore(b.getInt64(0), count_);
    b.CreateStore(llvm::Constant::getAllOnesValue(row_.key_type()), worst_);
    b.CreateStore(b.getFalse(), is_full_);
    if (!worst_element_) return;
    auto* type = llvm::cast<llvm::AllocaInst>(worst_element_)->getAllocatedType();
    b.CreateStore(llvm::ConstantFP::getInfinity(type, /*Negative=*/largest_), worst_element_);
  }

  // `x`: elements; `keep` is run where there may be candidates among them.
  void add(Value* x, Value* lanes, Value* index, llvm::function_ref<void()> keep) {
    if (!worst_element_) return add_keys(order_keys(b, element_, largest_, x), lanes, index, keep);
    // Nearly all vectors hold none, which a single comparison of floats tells; NaN passes.
    Value* worst = splat(b.CreateLoad(x->getType()->getScalarType(), worst_element_));
    Value* maybe = largest_ ? b.CreateFCmpUGE(x, worst) : b.CreateFCmpULE(x, worst);
    emit_if(b, b.CreateOrReduce(maybe), "maybe", nothing,
            [&] { add_keys(order_keys(b, element_, largest_, x), lanes, index, keep); });
  }

  void sort() { row_.sort(b.CreateLoad(b.getInt64Ty(), count_)); }

 private:
  Value* splat(Value* x) { return b.CreateVectorSplat(static_cast<unsigned>(width_), x); }

  // A later element of an equal key comes behind those that are there.
  void add_keys(Value* keys, Value* lanes, Value* index, llvm::function_ref<void()> keep) {
    Value* better = b.CreateICmpULT(keys, splat(b.CreateLoad(row_.key_type(), worst_)));
    better = b.CreateOr(better, splat(b.CreateNot(b.CreateLoad(b.getInt1Ty(), is_full_))));
    if (lanes) better = b.CreateAnd(better, lanes);
    Value* bits = b.CreateBitCast(better, b.getIntNTy(static_cast<unsigned>(width_)));
    bits = b.CreateZExt(bits, b.getInt64Ty());
    emit_if(b, b.CreateICmpNE(bits, b.getInt64(0)), "candidates", nothing, [&] {
      keep();
      b.CreateStore(keys, keys_);
      put_each(bits, index);
      Value* full = b.CreateICmpSGT(b.CreateLoad(b.getInt64Ty(), count_), c.i64(capacity_ - width_));
      emit_if(b, full, "drop", nothing, [&] { drop(); });
    });
  }

  void put_each(Value* bits, Value* index) {
    auto* before = b.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(b.getContext(), "candidate", c.function);
    auto* after = llvm::BasicBlock::Create(b.getContext(), "candidate.end", c.function);
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    auto* left = b.CreatePHI(b.getInt64Ty(), 2);
    left->addIncoming(bits, before);
    Value* lane = b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, b.getTrue());
    Value* key = b.CreateLoad(row_.key_type(), b.CreateInBoundsGEP(row_.key_type(), keys_, lane));
    Value* count = b.CreateLoad(b.getInt64Ty(), count_);
    row_.put(count, key, b.CreateAdd(index, lane));
    b.CreateStore(b.CreateAdd(count, b.getInt64(1)), count_);
    Value* rest = b.CreateAnd(left, b.CreateSub(left, b.getInt64(1)));
    left->addIncoming(rest, loop);
    b.CreateCondBr(b.CreateICmpNE(rest, b.getInt64(0)), loop, after);
    b.SetInsertPoint(after);
  }

  void drop() {
    sort();
    b.CreateStore(c.i64(k_), count_);
    Value* worst = row_.key_of(c.i64(k_ - 1));
    b.CreateStore(worst, worst_);
    if (worst_element_) b.CreateStore(elements_of(b, element_, largest_, worst), worst_element_);
    b.CreateStore(b.getTrue(), is_full_);
  }

  Context& c;
  Builder& b;
  SortRow& row_;
  const ElementType element_;
  const bool largest_;
  const int64_t k_, capacity_;
  const int width_;
  Value *count_, *worst_, *is_full_, *keys_;
  Value* worst_element_ = nullptr;  // of floats that compare in one instruction
};

}  // namespace

Result<void> lower_topk(Context& c, const Op& op) {
  Builder& b = c.b;
  const ValueId x = op.operands[0];
  const int64_t k = number(op.attrs[0]);
  const auto axis = static_cast<size_t>(number(op.attrs[1]));
  const bool largest = number(op.attrs[2]) != 0;
  const dsl::Type& type = c.type(x);
  const int64_t extent = dsl::concrete_shape(type)[axis];
  OrderNest order(c, x, axis);
  order.nest.choose_width(x, kMaxWidth);
  const auto capacity = static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(k + std::max(k, kLeastSpare))));
  const bool long_row = extent > capacity;
  SortRow row(c, type.element, std::min(extent, capacity));
  const Slot elements = row_slot(c, type, extent);
  const std::array<Slot, 2> results = {allocate_slot(c, c.type(op.results[0])),
                                       allocate_slot(c, c.type(op.results[1]))};
  std::optional<Candidates> candidates;
  if (long_row) candidates.emplace(c, row, type.element, largest, k, capacity, order.nest.width());

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
      row.put(order.index(), order_keys(b, type.element, largest, *value), order.index());
    }
    return {};
  };
  body.end_row = [&]() -> Result<void> {
    if (candidates) {
      candidates->sort();
    } else {
      row.sort(c.i64(extent));
    }
    emit_loop(b, c.i64(0), c.i64(k), c.i64(1), "best", nothing, [&](Value* i) {
      Value* from = row.index_of(i);
      order.put(results[0], type, i, order.pick(elements, type, from));
      order.put(results[1], c.type(op.results[1]), i, b.CreateTrunc(from, b.getInt32Ty()));
    });
    return {};
  };
  if (auto done = order.nest.walk(body, false); !done) return done;
  for (size_t i = 0; i < results.size(); ++i) c.slots[op.results[i]] = results[i];
  return {};
}

}  // namespace kiln::codegen::cpu
