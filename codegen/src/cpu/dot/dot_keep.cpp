// Packed operands of dot that serve more than one program. A thread runs neighbours of the grid one after the other,
// and those of a column share their B: what was packed is a function of a few scalars (pointers, sizes, positions) and
// of memory that the kernel does not change, so where the scalars are those of an earlier program, it is there still.
//
//   for program:                              for program, turn:
//     for k:  pack B(k, j);  multiply    →      place = places[turn];  if place.key != (B, N, k, j): pack;  multiply
//
// Programs that share nothing use one place for all turns, which stays in the cache.
#include "cpu/dot/dot_keep.h"

#include "cpu/dot/dot_pack.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int64_t kKeptBytes = int64_t{4} << 20;  // of an operand; what L2 does not hold still comes in order
constexpr int64_t kMostPlaces = 16;
constexpr size_t kMostScalars = 16;
constexpr int kMostKept = 64;  // operands of a kernel: each takes memory for all its places, and code
constexpr uint64_t kFirstProgram = 2, kLastProgram = 3;  // arguments of the entry

// The parameter that a pointer, or a tile of pointers, is computed from.
const dsl::Param* parameter_behind(const Context& c, ValueId id) {
  for (;;) {
    for (const dsl::Param& param : c.kernel.params) {
      if (param.value == id) return &param;
    }
    const Op* op = c.schedule.definition[id];
    if (!op || !moves_pointer(*op)) return nullptr;
    id = op->operands[0];
  }
}

bool is_constant_memory(const Context& c, const Op& load) {
  const dsl::Param* param = parameter_behind(c, load.operands[0]);
  return param && param->readonly && !param->may_alias;
}

// The scalars that a tile is a function of; false where it depends on more than these and constant memory.
bool collect_scalars(const Context& c, ValueId id, std::set<ValueId>& seen, std::vector<Value*>& scalars) {
  if (!seen.insert(id).second) return true;
  if (c.type(id).is_scalar()) {
    Value* value = c.scalars[id];
    if (value && !llvm::isa<llvm::Constant>(value) && !llvm::is_contained(scalars, value)) scalars.push_back(value);
    return value != nullptr;
  }
  const Op* op = c.schedule.definition[id];
  if (!op || c.slots[id] || !op->regions.empty()) return false;
  if (has_effect(*op)) return false;
  if (may_read(*op) && (op->code != OpCode::kLoad || !is_constant_memory(c, *op))) return false;
  return llvm::all_of(op->operands, [&](ValueId operand) { return collect_scalars(c, operand, seen, scalars); });
}

Value* as_i64(Builder& b, Value* x) {
  if (x->getType()->isPointerTy()) return b.CreatePtrToInt(x, b.getInt64Ty());
  const auto bits = static_cast<unsigned>(x->getType()->getPrimitiveSizeInBits().getFixedValue());
  if (!x->getType()->isIntegerTy()) x = b.CreateBitCast(x, b.getIntNTy(bits));
  return b.CreateZExt(x, b.getInt64Ty());
}

// Numbers on the stack that live as long as a call of the entry.
class State {
 public:
  State(Context& c, int64_t count)
      : c_(c), array_(entry_alloca(c, llvm::ArrayType::get(c.b.getInt64Ty(), static_cast<uint64_t>(count)))) {}

  Value* at(Value* index) { return c_.b.CreateInBoundsGEP(c_.b.getInt64Ty(), array_, index); }
  Value* load(Value* index) { return c_.b.CreateLoad(c_.b.getInt64Ty(), at(index)); }
  void store(Value* index, Value* value) { c_.b.CreateStore(value, at(index)); }
  // Where the call begins.
  void init(int64_t index, llvm::function_ref<Value*(Builder&)> value) {
    Builder b(c_.function->getEntryBlock().getTerminator());
    b.CreateStore(value(b), b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), array_, static_cast<uint64_t>(index)));
  }

 private:
  Context& c_;
  Value* array_;
};

}  // namespace

bool moves_pointer(const Op& op) { return op.code == OpCode::kAddptr || op.code == OpCode::kSplat || is_view(op); }

Kept keep(Context& c, ValueId id, int64_t bytes) {
  Builder& b = c.b;
  std::set<ValueId> seen;
  std::vector<Value*> key;
  const bool is_known = c.kept_operands < kMostKept && collect_scalars(c, id, seen, key) && key.size() <= kMostScalars;
  if (!is_known) return {reserve(c, bytes), b.getFalse(), b.getFalse()};
  ++c.kept_operands;
  for (Value*& scalar : key) scalar = as_i64(b, scalar);
  const int64_t size = (bytes + 127) / 64 * 64, places = std::clamp<int64_t>(kKeptBytes / size, 1, kMostPlaces);
  // Keys of all places, and that of the last program's first turn; a key begins with whether there is one.
  const int64_t key_size = static_cast<int64_t>(key.size()) + 1, first_key = places * key_size;
  const int64_t program_at = first_key + key_size, turn_at = program_at + 1, strange_at = program_at + 2;
  State state(c, strange_at + 1);
  for (int64_t place = 0; place <= places; ++place) {
    state.init(place * key_size, [](Builder& at) { return at.getInt64(0); });
  }
  state.init(program_at, [](Builder& at) { return at.getInt64(~uint64_t{0}); });
  state.init(turn_at, [](Builder& at) { return at.getInt64(0); });
  // So many programs in a row shared nothing with the one before. A program alone is no different.
  state.init(strange_at, [&](Builder& at) {
    Value* count = at.CreateSub(c.function->getArg(kLastProgram), c.function->getArg(kFirstProgram));
    return at.CreateSelect(at.CreateICmpSGT(count, at.getInt64(1)), at.getInt64(0), at.getInt64(2));
  });

  auto holds = [&](Value* from) {
    Value* equal = b.CreateICmpNE(state.load(from), c.i64(0));
    for (size_t i = 0; i < key.size(); ++i) {
      Value* word = state.load(b.CreateAdd(from, c.i64(static_cast<int64_t>(i) + 1)));
      equal = b.CreateAnd(equal, b.CreateICmpEQ(word, key[i]));
    }
    return equal;
  };
  auto remember = [&](Value* from) {
    state.store(from, c.i64(1));
    for (size_t i = 0; i < key.size(); ++i) state.store(b.CreateAdd(from, c.i64(static_cast<int64_t>(i) + 1)), key[i]);
  };
  Value* first = b.CreateICmpNE(state.load(c.i64(program_at)), c.linear_program);
  state.store(c.i64(program_at), c.linear_program);
  emit_if(
      b, first, "program", [](llvm::Instruction*) {},
      [&] {
        state.store(c.i64(turn_at), c.i64(-1));
        Value* strange = b.CreateAdd(state.load(c.i64(strange_at)), c.i64(1));
        state.store(c.i64(strange_at), b.CreateSelect(holds(c.i64(first_key)), c.i64(0), strange));
        remember(c.i64(first_key));
      });
  Value* turn = b.CreateAdd(state.load(c.i64(turn_at)), c.i64(1));
  state.store(c.i64(turn_at), turn);
  Value* sharing = b.CreateICmpSLT(state.load(c.i64(strange_at)), c.i64(2));
  Value* place =
      b.CreateSelect(sharing, b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, turn, c.i64(places - 1)), c.i64(0));
  Value* place_key = b.CreateMul(place, c.i64(key_size));
  Value* present = holds(place_key);
  remember(place_key);
  Value* stays = b.CreateAnd(sharing, b.CreateICmpSLT(turn, c.i64(places - 1)));
  Value* pointer = reserve(c, places * size);
  return {b.CreateInBoundsGEP(b.getInt8Ty(), pointer, b.CreateMul(place, c.i64(size))), present, stays};
}

}  // namespace kiln::codegen::cpu
