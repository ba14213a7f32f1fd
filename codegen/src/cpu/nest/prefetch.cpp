// What a kernel will load soon is asked for early: the hardware's own prefetches end at a page, and while the lanes of
// a chunk are computed, or a row is read again, memory would stand idle.
//
//   behind the row   the second pass over a row asks for what lies behind it, which is the next program's or the next
//                    block's where rows are dense; where a third one stores, each of the two asks for a half
//   a page ahead     what a pass reads for the first time: where it stores past the caches, and of a histogram
//   lines ahead      what a pass over several arrays stores in place of: more streams than the hardware follows
//   iterations ahead part of a row, of which a loop reads the same part of the next rows: some iterations later
#include <llvm/Analysis/ValueTracking.h>

#include <set>

#include "cpu/nest/nest.h"
#include "cpu/schedule.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int64_t kPageAhead = 4096;                        // bytes
constexpr int64_t kNear = 512;                              // bytes
constexpr size_t kManyArrays = 3;                           // each of them a stream that is read, or is written too
constexpr int64_t kMostOfArray = 4;                         // of many neighbours, the first ones and the last ask
constexpr int64_t kLeastRow = 1 << 10, kMostRow = 1 << 18;  // bytes: what the hardware misses, what L2 holds
constexpr int64_t kIterationsAhead = 8192, kMostIterationsAhead = 16;  // bytes that the iterations between read
constexpr int kDeepest = 256;         // ops behind each other of an address that is looked into
constexpr int64_t kHalves = 1 << 13;  // bytes of a row of which each pass asks for a half

// How far an int moves from an iteration of the innermost loop to the next, or a pointer, in bytes. Null: who knows.
class Movement {
 public:
  explicit Movement(Context& ctx) : ctx_(ctx) {}

  Value* of(ValueId id) {
    if (ctx_.schedule.defining_region[id] != ctx_.iteration.body) return ctx_.i64(0);
    const auto [at, is_new] = known_.try_emplace(id, nullptr);
    if (!is_new || depth_ == kDeepest) return at->second;
    ++depth_;
    at->second = of_new(id);
    --depth_;
    return at->second;
  }

 private:
  static bool is_zero(Value* x) {
    const auto* number = llvm::dyn_cast<llvm::ConstantInt>(x);
    return number && number->isZero();
  }

  Value* of_new(ValueId id) {
    const Op* op = ctx_.schedule.definition[id];
    if (!op) return id == ctx_.iteration.body->args[0] ? ctx_.iteration.step : nullptr;
    llvm::SmallVector<Value*, 2> moves;
    for (ValueId operand : op->operands) {
      moves.push_back(of(operand));
      if (!moves.back()) return nullptr;
    }
    const bool pure = is_elementwise(*op) || is_shape(op->code) || op->operands.empty();
    if (pure && llvm::all_of(moves, is_zero)) return ctx_.i64(0);
    if (is_shape(op->code)) return moves[0];
    switch (op->code) {
      case OpCode::kCast:
        return dsl::is_int(ctx_.type(id).element) ? moves[0] : nullptr;
      case OpCode::kAdd:
        return ctx_.ir.CreateAdd(moves[0], moves[1]);
      case OpCode::kSub:
        return ctx_.ir.CreateSub(moves[0], moves[1]);
      case OpCode::kMul:
        return is_zero(moves[1])   ? by(moves[0], op->operands[1])
               : is_zero(moves[0]) ? by(moves[1], op->operands[0])
                                   : nullptr;
      case OpCode::kAddptr:
        return ctx_.ir.CreateAdd(moves[0],
                                 ctx_.ir.CreateMul(moves[1], ctx_.i64(dsl::info(ctx_.type(id).element).bytes)));
      default:
        return nullptr;
    }
  }

  static bool is_shape(OpCode code) {
    return code == OpCode::kSplat || code == OpCode::kBroadcast || code == OpCode::kExpandDims;
  }

  // Times the same number in all lanes.
  Value* by(Value* moves, ValueId factor) {
    for (const Op* op = ctx_.schedule.definition[factor]; op && is_shape(op->code);
         op = ctx_.schedule.definition[factor]) {
      factor = op->operands[0];
    }
    if (!ctx_.type(factor).is_scalar()) return nullptr;
    const bool is_signed = dsl::info(ctx_.type(factor).element).is_signed;
    return ctx_.ir.CreateMul(moves, ctx_.ir.CreateIntCast(ctx_.scalars[factor], ctx_.ir.getInt64Ty(), is_signed));
  }

  Context& ctx_;
  std::map<ValueId, Value*> known_;
  int depth_ = 0;
};

}  // namespace

// Of whole vectors that are loaded from `pointer` on.
void Nest::prefetch_ahead(const Op& load, const Point& point, Value* pointer) {
  const int64_t bytes = width_ * memory_bytes(ctx.type(load.results[0]));
  const bool all_dims = llvm::all_of(llvm::enumerate(dims_), [&](const auto& d) {
    return d.value().extent == 1 || llvm::is_contained(point, static_cast<int8_t>(d.index()));
  });
  const Moves& moves = ctx.schedule.moves[load.operands[0]];
  if (!all_dims || !moves.at_all || moves.by_rows) return;
  const Ahead next{ir.CreateGEP(ir.getInt8Ty(), pointer, ctx.i64(kPageAhead)), bytes};
  const Value* array = llvm::getUnderlyingObject(pointer);
  const auto of_array = [&](const Ahead& each) { return llvm::getUnderlyingObject(each.pointer) == array; };
  if (llvm::count_if(ahead_, of_array) < kMostOfArray) {
    ahead_.push_back(next);
  } else {
    *std::find_if(ahead_.rbegin(), ahead_.rend(), of_array) = next;
  }
}

// AdamW reads four arrays and writes three. On an AMD EPYC with AVX2 it takes 0.9 of the time so, where memory is what
// it waits for, and as long as without where caches hold all of it.
void Nest::prefetch_near() {
  std::set<const Value*> arrays;
  for (const Ahead& each : ahead_) arrays.insert(llvm::getUnderlyingObject(each.pointer));
  if (!ctx.target.is_x86 || lanes_ || mode_ != Mode::kInterior || arrays.size() < kManyArrays) return;
  for (const Ahead& each : ahead_) {
    prefetch(ctx, {ir.CreateGEP(ir.getInt8Ty(), each.pointer, ctx.i64(kNear - kPageAhead)), each.bytes});
  }
}

// Is it part of a row, of which the next iterations of the loop read the same part of other rows? Then that is asked
// for: no prefetch of the hardware goes from row to row.
bool Nest::prefetch_iterations(const Op& load, const Point& point, Value* pointer) {
  if (!ctx.iteration.body || ctx.schedule.defining_region[load.results[0]] != ctx.iteration.body || !varies(point))
    return false;
  const int64_t element = memory_bytes(ctx.type(load.results[0]));
  int64_t tile = element;
  for (const Dim& d : dims_) tile *= d.extent;
  if (extent(vector_dim_) * element > kPageAhead || !ctx.schedule.moves[load.operands[0]].by_rows) return false;
  const auto iterations = std::clamp<int64_t>(kIterationsAhead / tile, 1, kMostIterationsAhead);
  Value* distance = at_depth(0, [&]() -> Value* {
    Value* iteration = Movement(ctx).of(load.operands[0]);
    return iteration ? ir.CreateMul(iteration, ctx.i64(iterations)) : nullptr;
  });
  if (!distance) return false;
  prefetch(ctx, {ir.CreateGEP(ir.getInt8Ty(), pointer, distance), width_ * element});
  return true;
}

void Nest::prefetch_behind(const Op& load, const Point& point, Value* pointer) {
  const ValueId id = load.results[0];
  loaded_.insert(id);
  const int64_t element = memory_bytes(ctx.type(id)), row = extent(vector_dim_) * element, bytes = width_ * element;
  const int pass = ctx.passes_over[id];
  if (pass == 0 && prefetch_iterations(load, point, pointer)) return;
  if (pass == 0) return prefetch_ahead(load, point, pointer);
  auto behind = [&](int64_t distance) { return ir.CreateGEP(ir.getInt8Ty(), pointer, ctx.i64(distance)); };
  const bool one_row = llvm::count_if(dims_, [](const Dim& d) { return d.extent > 1; }) == 1;
  if (!one_row || row < kLeastRow || row > kMostRow) return;
  const bool first_half =
      pass == 1 && !is_store_ && row >= kHalves && ctx.schedule.stored_again.contains({ctx.region, id});
  const bool second_half = pass > 1 && is_store_ && row >= kHalves;
  if (!first_half && !second_half) {
    if (pass == 1) prefetch(ctx, {behind(row), bytes});
    return;
  }
  // Chunk by chunk through one half while the row is walked: half as fast.
  Value* walked = ir.CreateLShr(ir.CreateMul(index(vector_dim_), ctx.i64(element)), ctx.i64(1));
  Value* from = ir.CreateGEP(ir.getInt8Ty(), behind(first_half ? row : row + row / 2), ir.CreateNeg(walked));
  if (first_half) {
    prefetch(ctx, {from, bytes / 2});
  } else {
    ahead_.push_back({from, bytes / 2});
  }
}

}  // namespace kiln::codegen::cpu
