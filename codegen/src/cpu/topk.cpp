// topk: row by row. A short row is sorted as a whole. Of a long one, candidates are collected: once there are k, only
// elements before the k-th best so far can be among the best; when the candidates' place is full, they are sorted and
// all but k are dropped.
#include "cpu/order_nest.h"
#include "cpu/sort_records.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 32;
constexpr int64_t kLeastSpare = 256;  // candidates beyond k

void nothing(llvm::Instruction*) {}

int64_t number(const dsl::Attr& attr) {
  if (auto* expr = std::get_if<dsl::Expr>(&attr)) return *expr->as_constant();
  return std::get<int64_t>(attr);
}

// The candidates of a long row.
class Candidates {
 public:
  Candidates(Context& context, SortRow& row, int64_t k, int64_t capacity, int width)
      : c(context), b(context.b), row_(row), k_(k), capacity_(capacity), width_(width) {
    count_ = entry_alloca(c, b.getInt64Ty());
    worst_ = entry_alloca(c, row.key_type());
    is_full_ = entry_alloca(c, b.getInt1Ty());
    keys_ = entry_alloca(c, llvm::FixedVectorType::get(row.key_type(), static_cast<unsigned>(width)));
  }

  void reset() {
    b.CreateStore(b.getInt64(0), count_);
    b.CreateStore(llvm::Constant::getAllOnesValue(row_.key_type()), worst_);
    b.CreateStore(b.getFalse(), is_full_);
  }

  // A later element of an equal key comes behind those that are there.
  void add(Value* keys, Value* lanes, Value* index) {
    auto splat = [&](Value* x) { return b.CreateVectorSplat(static_cast<unsigned>(width_), x); };
    Value* better = b.CreateICmpULT(keys, splat(b.CreateLoad(row_.key_type(), worst_)));
    better = b.CreateOr(better, splat(b.CreateNot(b.CreateLoad(b.getInt1Ty(), is_full_))));
    if (lanes) better = b.CreateAnd(better, lanes);
    Value* bits = b.CreateBitCast(better, b.getIntNTy(static_cast<unsigned>(width_)));
    bits = b.CreateZExt(bits, b.getInt64Ty());
    emit_if(b, b.CreateICmpNE(bits, b.getInt64(0)), "candidates", nothing, [&] {
      b.CreateStore(keys, keys_);
      put_each(bits, index);
      Value* full = b.CreateICmpSGT(b.CreateLoad(b.getInt64Ty(), count_), c.i64(capacity_ - width_));
      emit_if(b, full, "drop", nothing, [&] { drop(); });
    });
  }

  void sort() { row_.sort(b.CreateLoad(b.getInt64Ty(), count_)); }

 private:
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
    b.CreateStore(row_.key_of(c.i64(k_ - 1)), worst_);
    b.CreateStore(b.getTrue(), is_full_);
  }

  Context& c;
  Builder& b;
  SortRow& row_;
  const int64_t k_, capacity_;
  const int width_;
  Value *count_, *worst_, *is_full_, *keys_;
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
  const int64_t capacity = k + std::max(k, kLeastSpare);
  const bool long_row = extent > capacity;
  SortRow row(c, type.element, std::min(extent, capacity));
  const Slot elements = row_slot(c, type, extent);
  const std::array<Slot, 2> results = {allocate_slot(c, c.type(op.results[0])),
                                       allocate_slot(c, c.type(op.results[1]))};
  std::optional<Candidates> candidates;
  if (long_row) candidates.emplace(c, row, k, capacity, order.nest.width());

  Nest::Body body;
  body.begin_row = [&]() -> Result<void> {
    if (candidates) candidates->reset();
    return {};
  };
  body.chunk = [&]() -> Result<void> {
    auto value = order.evaluate(x);
    if (!value) return value.error();
    order.keep(elements, type, *value);
    Value* keys = order_keys(b, type.element, largest, *value);
    if (candidates) {
      candidates->add(keys, order.nest.lane_mask(), order.index());
    } else {
      row.put(order.index(), keys, order.index());
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
