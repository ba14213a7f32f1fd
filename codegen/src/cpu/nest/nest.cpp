// The walk: loops, bounds from masks, interior and outside.
#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;   // lanes; rows of slots are padded to it
constexpr int kFunction = 12;   // ops that an elementary function counts as
constexpr int kExpensive = 24;  // ops in an expression that make it keep two registers a value, not four

const Op* definition_of(Context& ctx, ValueId id) { return ctx.schedule.definition[id]; }

// Lanes of a register: of 32 bits, which is what most values have.
int native_lanes(const CpuTarget& target) { return target.vector_bytes / 4; }

// Is there an elementary function below these values that is a longer chain of operations than exp is? Two registers
// hide the latency of that one as well as four, and take half the code.
bool has_long_function(Context& ctx, llvm::ArrayRef<ValueId> values) {
  std::set<ValueId> seen;
  llvm::SmallVector<ValueId, 8> todo(values.begin(), values.end());
  while (!todo.empty()) {
    const ValueId id = todo.pop_back_val();
    const Op* op = definition_of(ctx, id);
    if (!op || ctx.type(id).is_scalar() || ctx.slots[id] || op->code == OpCode::kLoad || !seen.insert(id).second)
      continue;
    if (op->code == OpCode::kMath) {
      const auto function = static_cast<dsl::MathFn>(std::get<int64_t>(op->attrs[0]));
      if (function != dsl::MathFn::kExp && function != dsl::MathFn::kExp2) return true;
    }
    todo.append(op->operands.begin(), op->operands.end());
  }
  return false;
}

}  // namespace

Nest::Nest(Context& context, std::vector<int64_t> extents) : ctx(context), ir(context.ir) {
  for (int64_t extent : extents) dims_.push_back({.extent = extent, .index = context.i64(0)});
  for (int d = rank() - 1; d >= 0; --d) {
    if (dims_[d].extent > 1) {
      vector_dim_ = d;
      break;
    }
  }
  memo_.resize(static_cast<size_t>(rank()) + 5);
  points_ = {identity()};
}

int Nest::add_inner_dim(int64_t extent) {
  dims_.push_back({.extent = extent, .index = ctx.i64(0), .inner = true});
  memo_.resize(memo_.size() + 1);
  return rank() - 1;
}

void Nest::fix_dim(int dim, Value* index) {
  dims_[dim].inner = true;
  dims_[dim].index = index;
}

void Nest::walk_inner(int dim, Value* begin, Value* end, const std::function<void()>& body) {
  Dim& d = dims_[dim];
  const int depth = static_cast<int>(guards_.size()) + 1;
  emit_loop(
      ir, begin, end, ctx.i64(1), "inner", [&](llvm::Instruction* guard) { guards_.push_back(guard); },
      [&](Value* index) {
        d.index = index;
        d.depth = depth;
        memo_[depth].clear();
        body();
      });
  guards_.pop_back();
  d.index = ctx.i64(0);
  d.depth = 0;
}

void Nest::walk_region(const dsl::Region& region, Value* begin, Value* end, Value* step,
                       const std::function<void(Value*)>& iteration) {
  const size_t depth = guards_.size() + 1;
  emit_loop(
      ir, begin, end, step, "for", [&](llvm::Instruction* guard) { guards_.push_back(guard); },
      [&](Value* count) {
        region_ = &region;
        memo_[depth].clear();
        iteration(count);
        region_ = nullptr;
      });
  guards_.pop_back();
}

void Nest::bind(ValueId argument, Value* lanes) {
  const Point point = normalise(argument, identity());
  memo_[guards_.size()][{argument, {point.begin(), point.end()}}] = lanes;
}

Point Nest::identity() const {
  Point point;
  for (int d = 0; d < rank(); ++d) point.push_back(static_cast<int8_t>(d));
  return point;
}

bool Nest::varies(const Point& point) const {
  return vector_dim_ >= 0 && llvm::is_contained(point, static_cast<int8_t>(vector_dim_));
}

int Nest::depth_of(const Point& point) const {
  int depth = 0;
  for (int8_t dim : point) {
    if (dim >= 0) depth = std::max(depth, dims_[dim].depth);
  }
  return depth;
}

int Nest::depth_of(ValueId id, const Point& point) const {
  const bool is_inside = region_ && ctx.schedule.defining_region[id] == region_;
  // Outside, values do not vary along the vector dimension; one lane stands for all.
  return is_inside || mode_ == Mode::kOutside ? depth_now() : depth_of(point);
}

Point Nest::normalise(ValueId id, const Point& point) const {
  Point out = point;
  const auto& shape = ctx.type(id).shape;
  for (size_t i = 0; i < out.size(); ++i) {
    if (shape[i].as_constant() == 1 || (out[i] >= 0 && dims_[out[i]].extent == 1)) out[i] = kZero;
  }
  return out;
}

// Counts the ops that evaluating a value takes, up to a budget.
int Nest::cost(ValueId id, int budget) const {
  const Op* op = definition_of(ctx, id);
  if (!op || budget <= 0 || ctx.type(id).is_scalar() || ctx.slots[id]) return 0;
  int sum = 0;
  switch (op->code) {
    case OpCode::kMath:
      sum = kFunction;
      break;
    case OpCode::kDiv:
    case OpCode::kRem:
      sum = 3;
      break;
    case OpCode::kLoad:
      return 1;
    default:
      sum = 1;
  }
  for (ValueId operand : op->operands) sum += cost(operand, budget - sum);
  return sum;
}

void Nest::choose_width(llvm::ArrayRef<ValueId> values, int max_width) {
  if (vector_dim_ < 0) {
    width_ = 1;
    return;
  }
  int total = 0;
  for (ValueId id : values) total += cost(id, 2 * kExpensive);
  const int native = native_lanes(ctx.target);
  int registers = 4;
  if (total >= kExpensive) {
    registers = ctx.target.vector_registers >= 32 ? 2 : 1;
  } else if (total >= kFunction && !has_long_function(ctx, values)) {
    registers = 2;
  }
  int width = std::min({native * registers, max_width, kMaxWidth});
  while (width > native && width > dims_[vector_dim_].extent) width /= 2;
  while (width > 4 && width / 2 >= dims_[vector_dim_].extent) width /= 2;
  width_ = width;
}

// ---- the walk ----

Value* Nest::trip_count() const {
  Value* total = ctx.i64(1);
  for (const Dim& d : dims_) total = ir.CreateMul(total, d.limit ? d.limit : ctx.i64(d.extent));
  return total;
}

Value* Nest::trip_count_of_row() const {
  if (vector_dim_ < 0) return ctx.i64(1);
  const Dim& d = dims_[vector_dim_];
  return d.limit ? d.limit : ctx.i64(d.extent);
}

Value* Nest::lanes_below(Value* bound, int times) {
  auto* type = llvm::FixedVectorType::get(ir.getInt32Ty(), static_cast<unsigned>(width_ * times));
  std::vector<llvm::Constant*> lanes;
  for (int i = 0; i < width_ * times; ++i) lanes.push_back(ir.getInt32(static_cast<uint32_t>(i / times)));
  Value* left = ir.CreateSub(bound, dims_[vector_dim_].index);
  left = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, ctx.i64(width_));
  Value* limit = ir.CreateVectorSplat(type->getElementCount(), ir.CreateTrunc(left, ir.getInt32Ty()));
  return ir.CreateICmpSLT(llvm::ConstantVector::get(lanes), limit);
}

Value* Nest::in_active_lanes(Value* mask) {
  if (!mask || !lanes_) return mask ? mask : lanes_;
  if (mask->getType()->isVectorTy()) return ir.CreateAnd(mask, lanes_);
  // Not the splat of the bit and the lanes: LLVM 22 makes whole loads of the masked-off parts of that for AVX2.
  return lanes_below(ir.CreateSelect(mask, lanes_end_, dims_[vector_dim_].index));
}

void Nest::walk_outside(Value* first, const std::function<void()>& body) {
  Dim& d = dims_[vector_dim_];
  const int depth = d.depth;
  Value* start = ir.CreateAnd(ir.CreateAdd(first, ctx.i64(width_ - 1)), ctx.i64(-static_cast<int64_t>(width_)));
  emit_loop(
      ir, start, ctx.i64(d.extent), ctx.i64(width_), "fill",
      [&](llvm::Instruction* guard) { guards_.push_back(guard); },
      [&](Value* index) {
        d.index = index;
        d.depth = depth + 1;
        body();
      });
  guards_.pop_back();
  d.depth = depth;
}

Result<void> Nest::walk(const Body& body, bool interior_only) {
  rows_restricted_ = interior_only;
  keep_allowed_ = masks_.empty() || interior_only || body.outside;
  guards_.clear();
  Result<void> result = walk_dim(0, body, interior_only, nullptr);
  guards_.clear();
  for (ValueId id : loaded_) ++ctx.passes_over[id];
  return result;
}

// `inside`: i1, all outer indices are inside their bounds; null when that is certain.
Result<void> Nest::walk_dim(int dim, const Body& body, bool interior_only, Value* inside) {
  if (dim == rank()) return walk_row(body, interior_only, inside);
  Dim& d = dims_[dim];
  if (dim == vector_dim_ || d.extent == 1 || d.inner) {
    if (dim != vector_dim_ && d.bound) {
      Value* in = ir.CreateICmpSGT(d.bound, ctx.i64(0));
      inside = inside ? ir.CreateAnd(inside, in) : in;
    }
    return walk_dim(dim + 1, body, interior_only, inside);
  }
  if (dim == rows_.dim && rows_.fused > 1 && body.chunk_of_rows && interior_only && !inside) {
    return walk_fused_rows(body);
  }
  Value* end = interior_only && d.bound ? d.bound : d.limit ? d.limit : ctx.i64(d.extent);
  if (d.listed) end = d.listed->count;
  Result<void> result;
  const int depth = static_cast<int>(guards_.size()) + 1;
  emit_loop(
      ir, ctx.i64(0), end, ctx.i64(1), "row", [&](llvm::Instruction* guard) { guards_.push_back(guard); },
      [&](Value* iteration) {
        Value* index = iteration;
        if (d.listed) {
          Value* at = ir.CreateInBoundsGEP(ir.getInt32Ty(), d.listed->table, iteration);
          index = ir.CreateZExt(ir.CreateLoad(ir.getInt32Ty(), at), ir.getInt64Ty());
        }
        d.index = index;
        d.depth = depth;
        memo_[depth].clear();
        Value* in = inside;
        if (d.bound && !interior_only) {
          Value* here = ir.CreateICmpSLT(index, d.bound);
          in = in ? ir.CreateAnd(in, here) : here;
        }
        result = walk_dim(dim + 1, body, interior_only, in);
      });
  guards_.pop_back();
  d.index = ctx.i64(0);
  d.depth = 0;
  return result;
}

Result<void> Nest::walk_row(const Body& body, bool interior_only, Value* inside) {
  if (body.begin_row) {
    if (auto r = body.begin_row(); !r) return r;
  }
  Result<void> result;
  split_row([&] {
    if (result.ok()) result = walk_vectors(body, interior_only, inside);
  });
  if (result.ok() && body.end_row) result = body.end_row();
  return result;
}

Result<void> Nest::walk_vectors(const Body& body, bool interior_only, Value* inside) {
  const int depth = static_cast<int>(guards_.size()) + 1;
  Result<void> result;
  auto chunk = [&](Mode mode, Value* lanes_bound) {
    memo_[depth].clear();
    ahead_.clear();
    mode_ = mode;
    lanes_ = lanes_bound ? lanes_below(lanes_bound) : nullptr;
    lanes_end_ = lanes_bound;
    if (result.ok()) result = body.chunk();
    lanes_ = nullptr;
    mode_ = Mode::kInterior;
  };
  auto enter = [&](llvm::Instruction* guard) { guards_.push_back(guard); };
  auto leave = [&] { guards_.pop_back(); };

  if (vector_dim_ < 0) {
    // A single element. Inside or not is a branch of its own.
    const Mode mode = inside && !interior_only ? Mode::kGeneric : Mode::kInterior;
    emit_if(ir, inside && interior_only ? inside : ir.getTrue(), "element", enter, [&] { chunk(mode, nullptr); });
    leave();
    return result;
  }

  Dim& d = dims_[vector_dim_];
  d.depth = depth;
  const bool bounded = d.bound != nullptr || inside != nullptr;
  Value* extent = ctx.i64(d.extent);
  Value* bound = d.bound ? d.bound : extent;
  if (inside) bound = ir.CreateSelect(inside, bound, ctx.i64(0));
  Value* main_end = ir.CreateAnd(bound, ctx.i64(-static_cast<int64_t>(width_)));
  emit_loop(ir, ctx.i64(0), main_end, ctx.i64(width_), "vector", enter, [&](Value* index) {
    d.index = index;
    chunk(Mode::kInterior, nullptr);
  });
  leave();
  const int whole = width_;
  if (body.any_width) width_ = std::min(width_, native_lanes(ctx.target));
  const bool complement = bounded && !interior_only;
  if (complement && !body.outside) {
    emit_loop(ir, main_end, d.limit ? d.limit : extent, ctx.i64(width_), "masked", enter, [&](Value* index) {
      d.index = index;
      chunk(Mode::kGeneric, d.extent % width_ != 0 ? extent : nullptr);
    });
    leave();
  } else if (bounded || d.extent % whole != 0) {
    // Less than a whole chunk.
    emit_loop(ir, main_end, bound, ctx.i64(width_), "tail", enter, [&](Value* index) {
      d.index = index;
      chunk(Mode::kInterior, bound);
    });
    leave();
  }
  if (complement && body.outside) {
    d.index = main_end;
    mode_ = Mode::kOutside;
    memo_[depth].clear();
    emit_if(ir, ir.CreateICmpSLT(bound, extent), "outside", enter, [&] {
      if (result.ok()) result = body.outside(bound, ir.CreateSub(extent, bound));
    });
    leave();
    mode_ = Mode::kInterior;
  }
  width_ = whole;
  d.index = ctx.i64(0);
  d.depth = 0;
  return result;
}

}  // namespace kiln::codegen::cpu
