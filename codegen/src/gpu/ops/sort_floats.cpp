// A key tells its element but for zeros, of which there are two, and NaN. Where a row has a -0 or an unusual NaN, which
// is seen when it is there, its elements are put aside in shared memory before the keys are sorted. Then its zeros and
// NaN take the places of the sorted row's, in the order in which they came.
#include "gpu/ops/sort_floats.h"

#include <limits>

#include "elementwise/order_keys.h"
#include "gpu/analysis/all_threads.h"
#include "gpu/branches.h"
#include "gpu/layout/algebra.h"
#include "gpu/ops/sort_network.h"
#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

// Shorter rows are not worth code for both.
constexpr int64_t kLeastExtent = 512;
constexpr int64_t kOtherBytes = 8192;  // of shared memory, for what threads agree on

int axis_of(const Op& op) { return static_cast<int>(int_attr(op, 0)); }

class FloatRow {
 public:
  FloatRow(Context& ctx, const Op& op)
      : ctx_(ctx),
        ir_(ctx.ir),
        op_(op),
        type_(dsl::scalar_type(ctx.type(op.operands[0]).element)),
        layout_(ctx.placement.wanted.at(&op)),
        extent_(dsl::element_count(ctx.type(op.operands[0]))),
        memory_(memory_type(ir_.getContext(), type_.element, false)),
        row_(ir_, (int64_t{1} << layout_.element_bits()) * memory_bytes(type_)) {}

  Result<void> run() {
    // Keys may come in any order.
    const auto& at_hand = ctx_.placement.home[op_.operands[0]];
    const Layout& from = at_hand && at_hand->injective() && layout_.injective() ? *at_hand : layout_;
    auto elements = ctx_.get(op_.operands[0], from);
    if (!elements) return elements.error();
    Value* any = is_any_ambiguous(*elements);
    put_aside(any, *elements, from);
    auto sorted = sorted_keys(*elements, from);
    if (!sorted) return sorted.error();
    auto out = emit_either(
        ctx_, any, "sort.restore", [&] { return restored(*sorted); },
        [&]() -> Result<Registers> {
          Registers told;
          for (Value* key : *sorted) told.push_back(element_of(key));
          return told;
        });
    if (!out) return out.error();
    ctx_.define(op_.results[0], std::move(*out));
    return {};
  }

 private:
  using Access = SharedBuffer::Access;
  // The zeros, or the NaN: their key, and where in the sorted row the thread's next one goes.
  struct Class {
    Value *key, *place;
  };

  Value* u32(int64_t x) { return ir_.getInt32(static_cast<uint32_t>(x)); }
  llvm::Type* key_type() const { return ir_.getIntNTy(static_cast<unsigned>(8 * memory_bytes(type_))); }
  Value* key_of(Value* element) { return order_keys(ir_, type_.element, int_attr(op_, 1) != 0, element); }
  Value* element_of(Value* record) {
    Value* key = ir_.CreateTrunc(record, key_type());
    return ir_.CreateBitCast(elements_of(ir_, type_.element, int_attr(op_, 1) != 0, key), memory_);
  }
  Value* at(const SharedBuffer& buffer, llvm::Type* type, Value* index) {
    return ir_.CreateGEP(type, buffer.pointer(), index);
  }
  Value* load(const SharedBuffer& buffer, llvm::Type* type, Value* index, int phase) {
    auto* out = ir_.CreateLoad(type, at(buffer, type, index));
    buffer.mark(out, Access::kRead, phase);
    return out;
  }
  void store(const SharedBuffer& buffer, Value* value, Value* index, int phase) {
    buffer.mark(ir_.CreateStore(value, at(buffer, value->getType(), index)), Access::kWrite, phase);
  }
  // for (i = 0; i < count; ++i), with other values carried.
  Result<Registers> repeat(int64_t count, Registers carried, llvm::function_ref<Registers(Value*, Registers)> body) {
    carried.push_back(u32(0));
    return emit_while(
        ctx_, "sort.repeat", carried, [&](const Registers& now) { return ir_.CreateICmpULT(now.back(), u32(count)); },
        [&](const Registers& now) -> Result<Registers> {
          Registers next = body(now.back(), Registers(now.begin(), now.end() - 1));
          next.push_back(ir_.CreateAdd(now.back(), u32(1)));
          return next;
        });
  }

  // The same in all threads.
  Value* is_any_ambiguous(const Registers& elements) {
    Value* any = ir_.getFalse();
    for (Value* x : elements) any = ir_.CreateOr(any, are_ambiguous(ir_, type_.element, x));
    const auto either = [&](Value* x, Value* y) { return ir_.CreateOr(x, y); };
    return ir_.CreateIsNotNull(over_all_threads(ctx_, {{ir_.CreateZExt(any, ir_.getInt32Ty()), either}})[0]);
  }

  void put_aside(Value* any, const Registers& elements, const Layout& from) {
    row_.touch(ir_, Access::kWrite, 0);
    emit_if(ctx_, any, "sort.aside", [&] {
      for (size_t reg = 0; reg < elements.size(); ++reg) {
        store(row_, elements[reg], ctx_.coordinate(from, reg, axis_of(op_)), 0);
      }
    });
  }

  // Padding comes last.
  Result<Registers> sorted_keys(const Registers& elements, const Layout& from) {
    llvm::Type* record = memory_bytes(type_) > 4 ? ir_.getInt64Ty() : ir_.getInt32Ty();
    Registers keys;
    for (size_t reg = 0; reg < elements.size(); ++reg) {
      Value* key = key_of(elements[reg]);
      if (Value* inside = ctx_.in_tile(from, reg, ctx_.type(op_.operands[0]))) {
        key = ir_.CreateSelect(inside, key, llvm::Constant::getAllOnesValue(key->getType()));
      }
      keys.push_back(ir_.CreateZExt(key, record));
    }
    const int64_t count = layout_.shape()[static_cast<size_t>(axis_of(op_))];
    return sort_records(ctx_, op_, std::move(keys), 8 * memory_bytes(type_), layout_, axis_of(op_), count);
  }

  Result<Registers> restored(const Registers& keys) {
    Class zeros{key_of(llvm::Constant::getNullValue(memory_)), nullptr}, nans = zeros;
    const uint64_t nan = dsl::bits_from_double(type_.element, std::numeric_limits<double>::quiet_NaN());
    nans.key = key_of(ir_.CreateBitCast(llvm::ConstantInt::get(key_type(), nan), memory_));
    if (auto done = find_places(keys, zeros, nans); !done) return done.error();
    const SharedBuffer tile(ir_, (int64_t{1} << layout_.element_bits()) * memory_bytes(type_));
    for (size_t reg = 0; reg < keys.size(); ++reg) store(tile, element_of(keys[reg]), place_of(reg), 0);
    tile.touch(ir_, Access::kWrite, 1);
    auto done = walk(zeros, nans, {zeros.place, nans.place},
                     [&](Value* element, Value* is_zero, Value* is_nan, const Registers& now) {
                       emit_if(ctx_, ir_.CreateOr(is_zero, is_nan), "sort.put",
                               [&] { store(tile, element, ir_.CreateSelect(is_nan, now[1], now[0]), 1); });
                     });
    if (!done) return done;
    Registers out;
    for (size_t reg = 0; reg < keys.size(); ++reg) out.push_back(load(tile, memory_, place_of(reg), 2));
    return out;
  }

  Value* place_of(size_t reg) { return ctx_.coordinate(layout_, reg, axis_of(op_)); }

  Value* count_below(const Registers& keys, Value* limit) {
    Value* out = u32(0);
    for (Value* key : keys) {
      Value* is_below = ir_.CreateICmpULT(key, ir_.CreateZExt(limit, key->getType()));
      out = ir_.CreateAdd(out, ir_.CreateZExt(is_below, ir_.getInt32Ty()));
    }
    return out;
  }

  // Each thread has a part of the row, in the order of the threads.
  int64_t part() const { return std::max<int64_t>(1, (int64_t{1} << layout_.element_bits()) / ctx_.block.threads()); }
  Value* thread() { return ir_.CreateAdd(ir_.CreateMul(ctx_.warp, u32(ctx_.block.lanes)), ctx_.lane); }

  // A walk over the thread's part; `visit` is given an element, whether it is a zero, or NaN, and what is carried.
  Result<Registers> walk(const Class& zeros, const Class& nans, const Registers& carried,
                         llvm::function_ref<void(Value*, Value*, Value*, const Registers&)> visit) {
    return repeat(part(), carried, [&](Value* i, Registers now) {
      Value* place = ir_.CreateAdd(ir_.CreateMul(thread(), u32(part())), i);
      Value* inside = ir_.CreateICmpULT(place, u32(extent_));
      Value* element = load(row_, memory_, ir_.CreateSelect(inside, place, u32(0)), 1);
      Value* key = key_of(element);
      Value* zero = ir_.CreateAnd(inside, ir_.CreateICmpEQ(key, zeros.key));
      Value* nan = ir_.CreateAnd(inside, ir_.CreateICmpEQ(key, nans.key));
      visit(element, zero, nan, now);
      now[0] = ir_.CreateAdd(now[0], ir_.CreateZExt(zero, ir_.getInt32Ty()));
      now[1] = ir_.CreateAdd(now[1], ir_.CreateZExt(nan, ir_.getInt32Ty()));
      return now;
    });
  }

  // Behind all that sorts before them, and those of the parts before the thread's.
  Result<void> find_places(const Registers& keys, Class& zeros, Class& nans) {
    auto own = walk(zeros, nans, {u32(0), u32(0)}, [](Value*, Value*, Value*, const Registers&) {});
    if (!own) return own.error();
    const int64_t threads = ctx_.block.threads();
    const SharedBuffer counts(ir_, 8 * threads);
    store(counts, (*own)[0], thread(), 0);
    store(counts, (*own)[1], ir_.CreateAdd(thread(), u32(threads)), 0);
    const auto sum = [&](Value* x, Value* y) { return ir_.CreateAdd(x, y); };
    const std::vector<Value*> first =
        over_all_threads(ctx_, {{count_below(keys, zeros.key), sum}, {count_below(keys, nans.key), sum}});
    const auto places = repeat(threads, {first[0], first[1]}, [&](Value* i, Registers now) {
      Value* is_before = ir_.CreateICmpULT(i, thread());
      for (size_t which : {0, 1}) {
        Value* count = load(counts, ir_.getInt32Ty(), which == 0 ? i : ir_.CreateAdd(i, u32(threads)), 1);
        now[which] = ir_.CreateAdd(now[which], ir_.CreateSelect(is_before, count, u32(0)));
      }
      return now;
    });
    if (!places) return places.error();
    zeros.place = (*places)[0], nans.place = (*places)[1];
    return {};
  }

  Context& ctx_;
  Builder& ir_;
  const Op& op_;
  const dsl::Type type_;
  const Layout& layout_;
  const int64_t extent_;
  llvm::Type* memory_;
  const SharedBuffer row_;
};

}  // namespace

bool sorts_floats(const Context& ctx, const Op& op) {
  const dsl::Type& type = ctx.type(op.operands[0]);
  const Layout& layout = ctx.placement.wanted.at(&op);
  const int axis = axis_of(op);
  const int64_t count = int64_t{1} << layout.element_bits(), bytes = dsl::info(type.element).bytes;
  return op.results.size() == 1 && dsl::is_float(type.element) && layout.element_bits() == layout.axis_bits(axis) &&
         layout.injective() && count >= kLeastExtent &&
         count * (bytes + std::max<int64_t>(4, bytes)) + kOtherBytes <= ctx.target.lane_facts().shared_bytes;
}

Result<void> lower_sort_of_floats(Context& ctx, const Op& op) { return FloatRow(ctx, op).run(); }

}  // namespace kiln::codegen::gpu
