// Bitonic merge sort of a power of two of ints; the rest of the row is filled with the greatest. Each vector is sorted
// in its register; then sorted blocks are merged two by two. A merge exchanges each element of the first block with its
// mirror image in the second, which leaves two bitonic halves of which the first is below the second, and goes on in
// each half with the element half as far away; distances below a vector are shuffles. All blocks are ascending.
#include "cpu/ops/sort_network.h"

#include <llvm/Support/MathExtras.h>

namespace kiln::codegen::cpu {
namespace {

void nothing(llvm::Instruction*) {}

int lanes_of(const Context& ctx, int bits) { return ctx.target.vector_bytes * 8 / bits; }

class SortNetwork {
 public:
  SortNetwork(Context& ctx, int bits, llvm::Function* function)
      : ir(ctx.module.getContext()),
        lanes_(lanes_of(ctx, bits)),
        scalar_(ir.getIntNTy(static_cast<unsigned>(bits))),
        vector_(llvm::FixedVectorType::get(scalar_, static_cast<unsigned>(lanes_))),
        row_(function->getArg(0)),
        count_(function->getArg(1)),
        function_(function) {}

  void emit() {
    ir.SetInsertPoint(llvm::BasicBlock::Create(ir.getContext(), "entry", function_));
    Value* vectors = fill();
    loop(i64(0), vectors, "vector", [&](Value* i) {
      Value* x = load(i);
      for (int size = 2; size <= lanes_; size *= 2) {
        x = exchange_lanes(x, size - 1);
        for (int distance = size / 4; distance > 0; distance /= 2) x = exchange_lanes(x, distance);
      }
      store(x, i);
    });
    Value* merges = ir.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, vectors, ir.getTrue());
    loop(i64(0), merges, "merge", [&](Value* level) { merge(vectors, level); });
    ir.CreateRetVoid();
  }

 private:
  llvm::ConstantInt* i64(int64_t value) { return ir.getInt64(static_cast<uint64_t>(value)); }
  void loop(Value* begin, Value* end, const char* name, llvm::function_ref<void(Value*)> body) {
    emit_loop(ir, begin, end, i64(1), name, nothing, body);
  }
  Value* address(Value* vector) { return ir.CreateInBoundsGEP(vector_, row_, vector); }
  llvm::Align align() const { return llvm::Align(scalar_->getBitWidth() / 8); }
  Value* load(Value* i) { return ir.CreateAlignedLoad(vector_, address(i), align()); }
  void store(Value* x, Value* i) { ir.CreateAlignedStore(x, address(i), align()); }
  Value* least(Value* x, Value* y) { return ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y); }
  Value* greatest(Value* x, Value* y) { return ir.CreateBinaryIntrinsic(llvm::Intrinsic::umax, x, y); }

  // Number of vectors, a power of two.
  Value* fill() {
    Value* last = ir.CreateSub(ir.CreateBinaryIntrinsic(llvm::Intrinsic::umax, count_, i64(lanes_)), i64(1));
    Value* zeros = ir.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, last, ir.getTrue());
    Value* all = ir.CreateShl(i64(1), ir.CreateSub(i64(64), zeros));
    emit_loop(ir, count_, all, i64(lanes_), "fill", nothing, [&](Value* i) {
      ir.CreateAlignedStore(llvm::Constant::getAllOnesValue(vector_), ir.CreateInBoundsGEP(scalar_, row_, i), align());
    });
    return ir.CreateUDiv(all, i64(lanes_));
  }

  // Lane i with lane i ^ distance, the smaller one first.
  Value* exchange_lanes(Value* x, int distance) {
    std::vector<int> partners, chosen;
    const auto highest = static_cast<int>(llvm::bit_floor(static_cast<unsigned>(distance)));
    for (int i = 0; i < lanes_; ++i) {
      partners.push_back(i ^ distance);
      chosen.push_back((i & highest) == 0 ? i : i + lanes_);
    }
    Value* other = ir.CreateShuffleVector(x, partners);
    return ir.CreateShuffleVector(least(x, other), greatest(x, other), chosen);
  }

  Value* mirrored(Value* x) {
    std::vector<int> order;
    for (int i = lanes_ - 1; i >= 0; --i) order.push_back(i);
    return ir.CreateShuffleVector(x, order);
  }

  // Blocks of 2^level vectors.
  void merge(Value* vectors, Value* level) {
    Value *pairs = ir.CreateLShr(vectors, i64(1)), *half = ir.CreateShl(i64(1), level);
    // The first vector of pair p's block, and how far into it p is.
    auto place = [&](Value* p, Value* size) {
      Value* inner = ir.CreateSub(size, i64(1));
      return std::pair{ir.CreateShl(ir.CreateAnd(p, ir.CreateNot(inner)), i64(1)), ir.CreateAnd(p, inner)};
    };
    loop(i64(0), pairs, "mirror", [&](Value* p) {
      const auto [block, inside] = place(p, half);
      Value* first = ir.CreateAdd(block, inside);
      Value* second = ir.CreateSub(ir.CreateAdd(block, ir.CreateShl(half, i64(1))), ir.CreateAdd(inside, i64(1)));
      Value *x = load(first), *y = mirrored(load(second));
      store(least(x, y), first);
      store(mirrored(greatest(x, y)), second);
    });
    loop(i64(0), level, "distance", [&](Value* step) {
      Value* distance = ir.CreateLShr(half, ir.CreateAdd(step, i64(1)));
      loop(i64(0), pairs, "pair", [&](Value* p) {
        const auto [block, inside] = place(p, distance);
        Value *first = ir.CreateAdd(block, inside), *second = ir.CreateAdd(first, distance);
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

  Builder ir;
  const int lanes_;
  llvm::IntegerType* scalar_;
  llvm::FixedVectorType* vector_;
  Value *row_, *count_;
  llvm::Function* function_;
};

}  // namespace

int64_t network_capacity(const Context& ctx, int bits, int64_t count) {
  return std::max<int64_t>(lanes_of(ctx, bits), static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(count))));
}

llvm::Function* sort_network(Context& ctx, int bits) {
  const std::string name = "kiln.sort.network." + std::to_string(bits);
  if (llvm::Function* known = ctx.module.getFunction(name)) return known;
  auto* type = llvm::FunctionType::get(ctx.ir.getVoidTy(), {ctx.ir.getPtrTy(), ctx.ir.getInt64Ty()}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, ctx.module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  SortNetwork(ctx, bits, function).emit();
  return function;
}

}  // namespace kiln::codegen::cpu
