// What a kernel will load soon is asked for early: the hardware's own prefetches end at a page, and while the lanes of
// a chunk are computed, or a row is read again, memory would stand idle.
//
//   behind the row   the second sweep over a row asks for what lies behind it, which is the next program's or the next
//                    block's where rows are dense; where a third one stores, each of the two asks for a half
//   a page ahead     what a sweep reads for the first time: where it stores past the caches, and of a histogram
//   lines ahead      what a sweep over several arrays stores in place of: more streams than the hardware follows
//   turns ahead      part of a row, of which a loop reads the same part of the next rows: some turns later
#include <llvm/Analysis/ValueTracking.h>

#include <set>

#include "cpu/nest/nest.h"
#include "cpu/schedule.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int64_t kAhead = 4096;                            // bytes
constexpr int64_t kNear = 512;                              // bytes
constexpr size_t kManyArrays = 3;                           // each of them a stream that is read, or is written too
constexpr int64_t kMostOfArray = 4;                         // of many neighbours, the first ones and the last ask
constexpr int64_t kLeastRow = 1 << 10, kMostRow = 1 << 18;  // bytes: what the hardware misses, what L2 holds
constexpr int64_t kTurnsAhead = 8192, kMostTurns = 16;      // bytes that the turns between read
constexpr int kDeepest = 256;                               // ops behind each other of an address that is looked into
constexpr int64_t kHalves = 1 << 13;                        // bytes of a row of which each sweep asks for a half

// How far an int moves from a turn of the innermost loop to the next, or a pointer, in bytes. Null: who knows.
class Movement {
 public:
  explicit Movement(Context& c) : c_(c) {}

  Value* of(ValueId id) {
    if (c_.schedule.home[id] != c_.turn.body) return c_.i64(0);
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
    const Op* op = c_.schedule.definition[id];
    if (!op) return id == c_.turn.body->args[0] ? c_.turn.step : nullptr;
    llvm::SmallVector<Value*, 2> moves;
    for (ValueId operand : op->operands) {
      moves.push_back(of(operand));
      if (!moves.back()) return nullptr;
    }
    const bool pure = is_elementwise(*op) || is_shape(op->code) || op->operands.empty();
    if (pure && llvm::all_of(moves, is_zero)) return c_.i64(0);
    if (is_shape(op->code)) return moves[0];
    switch (op->code) {
      case OpCode::kCast:
        return dsl::is_int(c_.type(id).element) ? moves[0] : nullptr;
      case OpCode::kAdd:
        return c_.b.CreateAdd(moves[0], moves[1]);
      case OpCode::kSub:
        return c_.b.CreateSub(moves[0], moves[1]);
      case OpCode::kMul:
        return is_zero(moves[1])   ? by(moves[0], op->operands[1])
               : is_zero(moves[0]) ? by(moves[1], op->operands[0])
                                   : nullptr;
      case OpCode::kAddptr:
        return c_.b.CreateAdd(moves[0], c_.b.CreateMul(moves[1], c_.i64(dsl::info(c_.type(id).element).bytes)));
      default:
        return nullptr;
    }
  }

  static bool is_shape(OpCode code) {
    return code == OpCode::kSplat || code == OpCode::kBroadcast || code == OpCode::kExpandDims;
  }

  // Times the same number in all lanes.
  Value* by(Value* moves, ValueId factor) {
    for (const Op* op = c_.schedule.definition[factor]; op && is_shape(op->code); op = c_.schedule.definition[factor]) {
      factor = op->operands[0];
    }
    if (!c_.type(factor).is_scalar()) return nullptr;
    const bool is_signed = dsl::info(c_.type(factor).element).is_signed;
    return c_.b.CreateMul(moves, c_.b.CreateIntCast(c_.scalars[factor], c_.b.getInt64Ty(), is_signed));
  }

  Context& c_;
  std::map<ValueId, Value*> known_;
  int depth_ = 0;
};

}  // namespace

// Of whole vectors that are loaded from `pointer` on.
void Nest::prefetch_ahead(const Op& load, const Point& point, Value* pointer) {
  const int64_t bytes = width_ * memory_bytes(c.type(load.results[0]));
  const bool all_dims = llvm::all_of(llvm::enumerate(dims_), [&](const auto& d) {
    return d.value().extent == 1 || llvm::is_contained(point, static_cast<int8_t>(d.index()));
  });
  const Moves& moves = c.schedule.moves[load.operands[0]];
  if (!all_dims || !moves.at_all || moves.by_rows) return;
  const Ahead next{b.CreateGEP(b.getInt8Ty(), pointer, c.i64(kAhead)), bytes};
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
  if (!c.target.is_x86 || lanes_ || mode_ != Mode::kInterior || arrays.size() < kManyArrays) return;
  for (const Ahead& each : ahead_) {
    prefetch(c, {b.CreateGEP(b.getInt8Ty(), each.pointer, c.i64(kNear - kAhead)), each.bytes});
  }
}

// Is it part of a row, of which the next turns of the loop read the same part of other rows? Then that is asked for: no
// prefetch of the hardware goes from row to row.
bool Nest::prefetch_turns(const Op& load, const Point& point, Value* pointer) {
  if (!c.turn.body || c.schedule.home[load.results[0]] != c.turn.body || !varies(point)) return false;
  const int64_t element = memory_bytes(c.type(load.results[0]));
  int64_t tile = element;
  for (const Dim& d : dims_) tile *= d.extent;
  if (extent(vector_dim_) * element > kAhead || !c.schedule.moves[load.operands[0]].by_rows) return false;
  const auto turns = std::clamp<int64_t>(kTurnsAhead / tile, 1, kMostTurns);
  Value* distance = at_depth(0, [&]() -> Value* {
    Value* turn = Movement(c).of(load.operands[0]);
    return turn ? b.CreateMul(turn, c.i64(turns)) : nullptr;
  });
  if (!distance) return false;
  prefetch(c, {b.CreateGEP(b.getInt8Ty(), pointer, distance), width_ * element});
  return true;
}

void Nest::prefetch_behind(const Op& load, const Point& point, Value* pointer) {
  const ValueId id = load.results[0];
  loaded_.insert(id);
  const int64_t element = memory_bytes(c.type(id)), row = extent(vector_dim_) * element, bytes = width_ * element;
  const int sweep = c.sweeps[id];
  if (sweep == 0 && prefetch_turns(load, point, pointer)) return;
  if (sweep == 0) return prefetch_ahead(load, point, pointer);
  auto behind = [&](int64_t distance) { return b.CreateGEP(b.getInt8Ty(), pointer, c.i64(distance)); };
  const bool one_row = llvm::count_if(dims_, [](const Dim& d) { return d.extent > 1; }) == 1;
  if (!one_row || row < kLeastRow || row > kMostRow) return;
  const bool first_half =
      sweep == 1 && !is_store_ && row >= kHalves && c.schedule.stored_again.contains({c.region, id});
  const bool second_half = sweep > 1 && is_store_ && row >= kHalves;
  if (!first_half && !second_half) {
    if (sweep == 1) prefetch(c, {behind(row), bytes});
    return;
  }
  // Chunk by chunk through one half while the row is walked: half as fast.
  Value* walked = b.CreateLShr(b.CreateMul(index(vector_dim_), c.i64(element)), c.i64(1));
  Value* from = b.CreateGEP(b.getInt8Ty(), behind(first_half ? row : row + row / 2), b.CreateNeg(walked));
  if (first_half) {
    prefetch(c, {from, bytes / 2});
  } else {
    ahead_.push_back({from, bytes / 2});
  }
}

}  // namespace kiln::codegen::cpu
