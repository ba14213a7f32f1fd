// Packed operands of dot that serve more than one program. A thread runs neighbours of the grid one after the other,
// and those of a column share their B: what was packed is a function of a few scalars (pointers, sizes, positions) and
// of memory that the kernel does not change, so where the scalars are those of an earlier program, it is there still.
//
//   for program:                              for program, i:
//     for k:  pack B(k, j);  multiply    →      place = places[i];  if place.key != (B, N, k, j): pack;  multiply
//
// Programs that share nothing use one place for all iterations, which stays in the cache.
#include "cpu/dot/dot_cache.h"

#include "cpu/dot/dot_pack.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int64_t kCachedBytes = int64_t{4} << 20;  // of an operand; what L2 does not hold still comes in order
constexpr int64_t kMostPlaces = 16;
constexpr size_t kMostScalars = 16;
constexpr int kMostCached = 64;  // operands of a kernel: each takes memory for all its places, and code
constexpr uint64_t kFirstProgram = 2, kLastProgram = 3;  // arguments of the entry

// The parameter that a pointer, or a tile of pointers, is computed from.
const dsl::Param* parameter_behind(const Context& ctx, ValueId id) {
  for (;;) {
    for (const dsl::Param& param : ctx.kernel.params) {
      if (param.value == id) return &param;
    }
    const Op* op = ctx.schedule.definition[id];
    if (!op || !moves_pointer(*op)) return nullptr;
    id = op->operands[0];
  }
}

bool is_constant_memory(const Context& ctx, const Op& load) {
  const dsl::Param* param = parameter_behind(ctx, load.operands[0]);
  return param && param->readonly && !param->may_alias;
}

// The scalars that a tile is a function of; false where it depends on more than these and constant memory.
bool collect_scalars(const Context& ctx, ValueId id, std::set<ValueId>& seen, std::vector<Value*>& scalars) {
  if (!seen.insert(id).second) return true;
  if (ctx.type(id).is_scalar()) {
    Value* value = ctx.scalars[id];
    if (value && !llvm::isa<llvm::Constant>(value) && !llvm::is_contained(scalars, value)) scalars.push_back(value);
    return value != nullptr;
  }
  const Op* op = ctx.schedule.definition[id];
  if (!op || ctx.slots[id] || !op->regions.empty()) return false;
  if (has_effect(*op)) return false;
  if (may_read(*op) && (op->code != OpCode::kLoad || !is_constant_memory(ctx, *op))) return false;
  return llvm::all_of(op->operands, [&](ValueId operand) { return collect_scalars(ctx, operand, seen, scalars); });
}

Value* as_i64(Builder& ir, Value* x) {
  if (x->getType()->isPointerTy()) return ir.CreatePtrToInt(x, ir.getInt64Ty());
  const auto bits = static_cast<unsigned>(x->getType()->getPrimitiveSizeInBits().getFixedValue());
  if (!x->getType()->isIntegerTy()) x = ir.CreateBitCast(x, ir.getIntNTy(bits));
  return ir.CreateZExt(x, ir.getInt64Ty());
}

// Numbers on the stack that live as long as a call of the entry.
class State {
 public:
  State(Context& ctx, int64_t count)
      : ctx_(ctx), array_(entry_alloca(ctx, llvm::ArrayType::get(ctx.ir.getInt64Ty(), static_cast<uint64_t>(count)))) {}

  Value* at(Value* index) { return ctx_.ir.CreateInBoundsGEP(ctx_.ir.getInt64Ty(), array_, index); }
  Value* load(Value* index) { return ctx_.ir.CreateLoad(ctx_.ir.getInt64Ty(), at(index)); }
  void store(Value* index, Value* value) { ctx_.ir.CreateStore(value, at(index)); }
  // Where the call begins.
  void init(int64_t index, llvm::function_ref<Value*(Builder&)> value) {
    Builder ir(ctx_.function->getEntryBlock().getTerminator());
    ir.CreateStore(value(ir), ir.CreateConstInBoundsGEP1_64(ir.getInt64Ty(), array_, static_cast<uint64_t>(index)));
  }

 private:
  Context& ctx_;
  Value* array_;
};

}  // namespace

bool moves_pointer(const Op& op) { return op.code == OpCode::kAddptr || op.code == OpCode::kSplat || is_view(op); }

CachedOperand cache_operand(Context& ctx, ValueId id, int64_t bytes) {
  Builder& ir = ctx.ir;
  std::set<ValueId> seen;
  std::vector<Value*> key;
  const bool is_known =
      ctx.cached_operands < kMostCached && collect_scalars(ctx, id, seen, key) && key.size() <= kMostScalars;
  if (!is_known) return {reserve(ctx, bytes), ir.getFalse(), ir.getFalse()};
  ++ctx.cached_operands;
  for (Value*& scalar : key) scalar = as_i64(ir, scalar);
  const int64_t size = (bytes + 127) / 64 * 64, places = std::clamp<int64_t>(kCachedBytes / size, 1, kMostPlaces);
  // Keys of all places, and that of the last program's first iteration; a key begins with whether there is one.
  const int64_t key_size = static_cast<int64_t>(key.size()) + 1, first_key = places * key_size;
  const int64_t program_at = first_key + key_size, iteration_at = program_at + 1, strange_at = program_at + 2;
  State state(ctx, strange_at + 1);
  for (int64_t place = 0; place <= places; ++place) {
    state.init(place * key_size, [](Builder& at) { return at.getInt64(0); });
  }
  state.init(program_at, [](Builder& at) { return at.getInt64(~uint64_t{0}); });
  state.init(iteration_at, [](Builder& at) { return at.getInt64(0); });
  // So many programs in a row shared nothing with the one before. A program alone is no different.
  state.init(strange_at, [&](Builder& at) {
    Value* count = at.CreateSub(ctx.function->getArg(kLastProgram), ctx.function->getArg(kFirstProgram));
    return at.CreateSelect(at.CreateICmpSGT(count, at.getInt64(1)), at.getInt64(0), at.getInt64(2));
  });

  auto holds = [&](Value* from) {
    Value* equal = ir.CreateICmpNE(state.load(from), ctx.i64(0));
    for (size_t i = 0; i < key.size(); ++i) {
      Value* word = state.load(ir.CreateAdd(from, ctx.i64(static_cast<int64_t>(i) + 1)));
      equal = ir.CreateAnd(equal, ir.CreateICmpEQ(word, key[i]));
    }
    return equal;
  };
  auto remember = [&](Value* from) {
    state.store(from, ctx.i64(1));
    for (size_t i = 0; i < key.size(); ++i)
      state.store(ir.CreateAdd(from, ctx.i64(static_cast<int64_t>(i) + 1)), key[i]);
  };
  Value* first = ir.CreateICmpNE(state.load(ctx.i64(program_at)), ctx.linear_program);
  state.store(ctx.i64(program_at), ctx.linear_program);
  emit_if(
      ir, first, "program", [](llvm::Instruction*) {},
      [&] {
        state.store(ctx.i64(iteration_at), ctx.i64(-1));
        Value* strange = ir.CreateAdd(state.load(ctx.i64(strange_at)), ctx.i64(1));
        state.store(ctx.i64(strange_at), ir.CreateSelect(holds(ctx.i64(first_key)), ctx.i64(0), strange));
        remember(ctx.i64(first_key));
      });
  Value* iteration = ir.CreateAdd(state.load(ctx.i64(iteration_at)), ctx.i64(1));
  state.store(ctx.i64(iteration_at), iteration);
  Value* sharing = ir.CreateICmpSLT(state.load(ctx.i64(strange_at)), ctx.i64(2));
  Value* place = ir.CreateSelect(
      sharing, ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, iteration, ctx.i64(places - 1)), ctx.i64(0));
  Value* place_key = ir.CreateMul(place, ctx.i64(key_size));
  Value* present = holds(place_key);
  remember(place_key);
  Value* stays = ir.CreateAnd(sharing, ir.CreateICmpSLT(iteration, ctx.i64(places - 1)));
  Value* pointer = reserve(ctx, places * size);
  return {ir.CreateInBoundsGEP(ir.getInt8Ty(), pointer, ir.CreateMul(place, ctx.i64(size))), present, stays};
}

}  // namespace kiln::codegen::cpu
