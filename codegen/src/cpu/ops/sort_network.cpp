// Bitonic merge sort of a power of two of ints; the rest of the row is filled with the greatest. Each vector is sorted
// in its register; then sorted blocks are merged two by two. A merge exchanges each element of the first block with its
// mirror image in the second, which leaves two bitonic halves of which the first is below the second, and goes on in
// each half with the element half as far away; distances below a vector are shuffles. All blocks are ascending.
#include "cpu/ops/sort_network.h"

#include <llvm/Support/MathExtras.h>

namespace kiln::codegen::cpu {
namespace {

void nothing(llvm::Instruction*) {}

int lanes_of(const Context& c, int bits) { return c.target.vector_bytes * 8 / bits; }

class SortNetwork {
 public:
  SortNetwork(Context& c, int bits, llvm::Function* function)
      : b(c.module.getContext()),
        lanes_(lanes_of(c, bits)),
        scalar_(b.getIntNTy(static_cast<unsigned>(bits))),
        vector_(llvm::FixedVectorType::get(scalar_, static_cast<unsigned>(lanes_))),
        row_(function->getArg(0)),
        count_(function->getArg(1)),
        function_(function) {}

  void emit() {
    b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", function_));
    Value* vectors = fill();
    loop(i64(0), vectors, "vector", [&](Value* i) {
      Value* x = load(i);
      for (int size = 2; size <= lanes_; size *= 2) {
        x = exchange_lanes(x, size - 1);
        for (int distance = size / 4; distance > 0; distance /= 2) x = exchange_lanes(x, distance);
      }
      store(x, i);
    });
    Value* merges = b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, vectors, b.getTrue());
    loop(i64(0), merges, "merge", [&](Value* level) { merge(vectors, level); });
    b.CreateRetVoid();
  }

 private:
  llvm::ConstantInt* i64(int64_t value) { return b.getInt64(static_cast<uint64_t>(value)); }
  void loop(Value* begin, Value* end, const char* name, llvm::function_ref<void(Value*)> body) {
    emit_loop(b, begin, end, i64(1), name, nothing, body);
  }
  Value* address(Value* vector) { return b.CreateInBoundsGEP(vector_, row_, vector); }
  llvm::Align align() const { return llvm::Align(scalar_->getBitWidth() / 8); }
  Value* load(Value* i) { return b.CreateAlignedLoad(vector_, address(i), align()); }
  void store(Value* x, Value* i) { b.CreateAlignedStore(x, address(i), align()); }
  Value* least(Value* x, Value* y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y); }
  Value* greatest(Value* x, Value* y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, x, y); }

  // Number of vectors, a power of two.
  Value* fill() {
    Value* last = b.CreateSub(b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, count_, i64(lanes_)), i64(1));
    Value* zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, last, b.getTrue());
    Value* all = b.CreateShl(i64(1), b.CreateSub(i64(64), zeros));
    emit_loop(b, count_, all, i64(lanes_), "fill", nothing, [&](Value* i) {
      b.CreateAlignedStore(llvm::Constant::getAllOnesValue(vector_), b.CreateInBoundsGEP(scalar_, row_, i), align());
    });
    return b.CreateUDiv(all, i64(lanes_));
  }

  // Lane i with lane i ^ distance, the smaller one first.
  Value* exchange_lanes(Value* x, int distance) {
    std::vector<int> partners, chosen;
    const auto highest = static_cast<int>(llvm::bit_floor(static_cast<unsigned>(distance)));
    for (int i = 0; i < lanes_; ++i) {
      partners.push_back(i ^ distance);
      chosen.push_back((i & highest) == 0 ? i : i + lanes_);
    }
    Value* other = b.CreateShuffleVector(x, partners);
    return b.CreateShuffleVector(least(x, other), greatest(x, other), chosen);
  }

  Value* mirrored(Value* x) {
    std::vector<int> order;
    for (int i = lanes_ - 1; i >= 0; --i) order.push_back(i);
    return b.CreateShuffleVector(x, order);
  }

  // Blocks of 2^level vectors.
  void merge(Value* vectors, Value* level) {
    Value *pairs = b.CreateLShr(vectors, i64(1)), *half = b.CreateShl(i64(1), level);
    // The first vector of pair p's block, and how far into it p is.
    auto place = [&](Value* p, Value* size) {
      Value* inner = b.CreateSub(size, i64(1));
      return std::pair{b.CreateShl(b.CreateAnd(p, b.CreateNot(inner)), i64(1)), b.CreateAnd(p, inner)};
    };
    loop(i64(0), pairs, "mirror", [&](Value* p) {
      const auto [block, inside] = place(p, half);
      Value* first = b.CreateAdd(block, inside);
      Value* second = b.CreateSub(b.CreateAdd(block, b.CreateShl(half, i64(1))), b.CreateAdd(inside, i64(1)));
      Value *x = load(first), *y = mirrored(load(second));
      store(least(x, y), first);
      store(mirrored(greatest(x, y)), second);
    });
    loop(i64(0), level, "distance", [&](Value* step) {
      Value* distance = b.CreateLShr(half, b.CreateAdd(step, i64(1)));
      loop(i64(0), pairs, "pair", [&](Value* p) {
        const auto [block, inside] = place(p, distance);
        Value *first = b.CreateAdd(block, inside), *second = b.CreateAdd(first, distance);
        Value *x = load(first), *y = load(second);
        store(least(x, y), first);
        store(greatest(x, y), second);
      });
    });
    loop(i64(0), vectors, "lanes", [&](Value* i) {
      Value* x = load(i);
      for (int distance = lanes_ / 2; distance > 0; distance /= 2) x = exchange_lanes(x, distance);
      store(x, i);
    });
  }

  Builder b;
  const int lanes_;
  llvm::IntegerType* scalar_;
  llvm::FixedVectorType* vector_;
  Value *row_, *count_;
  llvm::Function* function_;
};

}  // namespace

int64_t network_capacity(const Context& c, int bits, int64_t count) {
  return std::max<int64_t>(lanes_of(c, bits), static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(count))));
}

llvm::Function* sort_network(Context& c, int bits) {
  const std::string name = "kiln.sort.network." + std::to_string(bits);
  if (llvm::Function* known = c.module.getFunction(name)) return known;
  auto* type = llvm::FunctionType::get(c.b.getVoidTy(), {c.b.getPtrTy(), c.b.getInt64Ty()}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, c.module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  SortNetwork(c, bits, function).emit();
  return function;
}

}  // namespace kiln::codegen::cpu
