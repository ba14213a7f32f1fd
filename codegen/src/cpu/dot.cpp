// dot: operands are packed into scratch (which also converts them), then a register-blocked micro-kernel runs over the
// accumulator tile.
//
//   A  row-major [M][K], rows padded                      broadcast element by element
//   B  panels of NR columns, each K × NR                  read as NV vectors
//   C  the accumulator's slot, row-major, padded rows      MR × NV vectors held in registers over the whole of K
#include "cpu/nest.h"

namespace kiln::codegen::cpu {
namespace {

struct Blocking {
  int rows;     // MR
  int vectors;  // NV
};

// The most rows whose accumulators, with NV vectors of B and one of A, stay in registers.
int max_rows(int registers, int vectors) { return (registers - vectors - 1) / vectors; }

// Fewest FMA slots for the tile, counting the work on padding and the loads that do not hide behind few FMAs.
Blocking choose_blocking(int registers, int lanes, int64_t m, int64_t n) {
  Blocking best{1, 1};
  double best_cost = 1e30;
  for (int vectors : {1, 2, 4}) {
    const int64_t panels = (n + vectors * lanes - 1) / (vectors * lanes);
    const int cap = std::min<int>(max_rows(registers, vectors), static_cast<int>(m));
    for (int rows = cap; rows >= std::max(1, cap / 2); --rows) {
      const auto cost_of = [&](int r) {
        const double fma = r * vectors / 2.0, loads = (r + vectors) / 2.0;
        return std::max({fma, loads, 4.0});
      };
      double cost = static_cast<double>(m / rows) * cost_of(rows);
      if (m % rows) cost += cost_of(static_cast<int>(m % rows)) * 1.05;
      cost *= static_cast<double>(panels);
      if (cost < best_cost * 0.999) {
        best_cost = cost;
        best = {rows, vectors};
      }
    }
  }
  return best;
}

struct DotShape {
  int64_t m, n, k;
  int64_t lda, ldc;
  ElementType element;  // of the accumulator
  llvm::Type* type;
  int lanes;
};

Value* multiply_add(Context& c, Builder& b, ElementType element, Value* x, Value* y, Value* acc) {
  if (!dsl::is_float(element)) return b.CreateAdd(b.CreateMul(x, y), acc);
  if (!c.target.has_fma) return b.CreateFAdd(b.CreateFMul(x, y), acc);
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {acc->getType()}, {x, y, acc});
}

// void kiln.dot.MRxNV(ptr a, ptr b, ptr c): c += a·b for one block; strides and K are constants.
llvm::Function* micro_kernel(Context& c, const DotShape& shape, Blocking block) {
  const std::string name = "kiln.dot." + std::to_string(block.rows) + "x" + std::to_string(block.vectors) + "." +
                           std::to_string(shape.k) + "." + std::to_string(shape.lda) + "." + std::to_string(shape.ldc) +
                           "." + std::string(dsl::info(shape.element).name);
  if (auto* existing = c.module.getFunction(name)) return existing;
  Builder b(c.module.getContext());
  auto* fn =
      llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), b.getPtrTy()}, false),
                             llvm::Function::InternalLinkage, name, c.module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  fn->addFnAttr(llvm::Attribute::NoUnwind);
  for (unsigned i = 0; i < 3; ++i) fn->addParamAttr(i, llvm::Attribute::NoAlias);
  b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", fn));
  auto* vector = llvm::FixedVectorType::get(shape.type, static_cast<unsigned>(shape.lanes));
  const llvm::Align align(shape.type->getScalarSizeInBits() / 8);
  auto c_pointer = [&](int row, int v) {
    return b.CreateConstInBoundsGEP1_64(shape.type, fn->getArg(2),
                                        static_cast<uint64_t>(row * shape.ldc + v * shape.lanes));
  };
  std::vector<Value*> start;
  for (int row = 0; row < block.rows; ++row) {
    for (int v = 0; v < block.vectors; ++v) start.push_back(b.CreateAlignedLoad(vector, c_pointer(row, v), align));
  }
  auto* before = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "k", fn);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "store", fn);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  auto* k = b.CreatePHI(b.getInt64Ty(), 2, "k");
  k->addIncoming(b.getInt64(0), before);
  std::vector<llvm::PHINode*> acc;
  for (Value* value : start) {
    acc.push_back(b.CreatePHI(vector, 2));
    acc.back()->addIncoming(value, before);
  }
  std::vector<Value*> columns;
  Value* b_row = b.CreateInBoundsGEP(shape.type, fn->getArg(1),
                                     b.CreateMul(k, b.getInt64(static_cast<uint64_t>(block.vectors * shape.lanes))));
  for (int v = 0; v < block.vectors; ++v) {
    columns.push_back(b.CreateAlignedLoad(
        vector, b.CreateConstInBoundsGEP1_64(shape.type, b_row, static_cast<uint64_t>(v * shape.lanes)), align));
  }
  Value* a_column = b.CreateInBoundsGEP(shape.type, fn->getArg(0), k);
  std::vector<Value*> sums;
  for (int row = 0; row < block.rows; ++row) {
    Value* scalar = b.CreateAlignedLoad(
        shape.type, b.CreateConstInBoundsGEP1_64(shape.type, a_column, static_cast<uint64_t>(row * shape.lda)), align);
    Value* lanes = b.CreateVectorSplat(static_cast<unsigned>(shape.lanes), scalar);
    for (int v = 0; v < block.vectors; ++v) {
      sums.push_back(multiply_add(c, b, shape.element, lanes, columns[static_cast<size_t>(v)], acc[sums.size()]));
    }
  }
  Value* next = b.CreateAdd(k, b.getInt64(1));
  k->addIncoming(next, loop);
  for (size_t i = 0; i < acc.size(); ++i) acc[i]->addIncoming(sums[i], loop);
  b.CreateCondBr(b.CreateICmpULT(next, b.getInt64(static_cast<uint64_t>(shape.k))), loop, after);
  b.SetInsertPoint(after);
  for (int row = 0; row < block.rows; ++row) {
    for (int v = 0; v < block.vectors; ++v) {
      b.CreateAlignedStore(sums[static_cast<size_t>(row * block.vectors + v)], c_pointer(row, v), align);
    }
  }
  b.CreateRetVoid();
  return fn;
}

// What the micro-kernel reads: f32, f64 or i32.
Value* widen_operand(Context& c, Builder& b, ElementType from, ElementType to, Value* x) {
  if (dsl::is_small_float(from)) return to_accumulator(c, b, from, x);
  if (dsl::is_float(from)) return x;
  auto* type = x->getType()->getWithNewType(b.getIntNTy(static_cast<unsigned>(dsl::info(to).bits)));
  return dsl::info(from).is_signed ? b.CreateSExt(x, type) : b.CreateZExt(x, type);
}

Result<void> pack_operands(Context& c, const Op& op, const DotShape& shape, Blocking block, const Slot& a_slot,
                           const Slot& b_slot) {
  const int panel = block.vectors * shape.lanes;
  const int pack_width = std::min(64, 4 * shape.lanes);
  const ElementType from = c.type(op.operands[0]).element;
  Value *a_base = slot_address(c, a_slot), *b_base = slot_address(c, b_slot);
  const llvm::Align align(shape.type->getScalarSizeInBits() / 8);
  auto store = [&](Nest& nest, Value* base, Value* index, Value* vector) {
    Value* lanes = widen_operand(c, c.b, from, shape.element, nest.splat(vector));
    c.b.CreateAlignedStore(lanes, c.b.CreateInBoundsGEP(shape.type, base, index), align);
  };
  auto a_done = pack(c, op.operands[0], 1, pack_width, [&](Nest& nest, Value* vector) {
    Value* row = c.b.CreateMul(nest.index(0), c.i64(shape.lda));
    store(nest, a_base, c.b.CreateAdd(row, nest.index(1)), vector);
  });
  if (!a_done) return a_done;
  // One chunk is one row of one panel: column n = j·NR starts at j·K·NR = n·K.
  return pack(c, op.operands[1], 1, panel, [&](Nest& nest, Value* vector) {
    Value* start = c.b.CreateMul(nest.index(1), c.i64(shape.k));
    store(nest, b_base, c.b.CreateAdd(start, c.b.CreateMul(nest.index(0), c.i64(panel))), vector);
  });
}

void run_blocks(Context& c, const DotShape& shape, Blocking block, const Slot& a_slot, const Slot& b_slot,
                const Slot& c_slot) {
  Builder& b = c.b;
  const int64_t panel = block.vectors * shape.lanes;
  Value *a_base = slot_address(c, a_slot), *b_base = slot_address(c, b_slot), *c_base = slot_address(c, c_slot);
  auto none = [](llvm::Instruction*) {};
  auto call = [&](llvm::Function* fn, Value* row, Value* column) {
    Value* a = b.CreateInBoundsGEP(shape.type, a_base, b.CreateMul(row, c.i64(shape.lda)));
    Value* panel_start = b.CreateInBoundsGEP(shape.type, b_base, b.CreateMul(column, c.i64(shape.k)));
    Value* out = b.CreateInBoundsGEP(shape.type, c_base, b.CreateAdd(b.CreateMul(row, c.i64(shape.ldc)), column));
    b.CreateCall(fn, {a, panel_start, out});
  };
  const int64_t whole = shape.m / block.rows * block.rows;
  emit_loop(b, c.i64(0), c.i64(shape.n), c.i64(panel), "panel", none, [&](Value* column) {
    if (whole > 0) {
      llvm::Function* fn = micro_kernel(c, shape, block);
      emit_loop(b, c.i64(0), c.i64(whole), c.i64(block.rows), "block", none,
                [&](Value* row) { call(fn, row, column); });
    }
    if (whole < shape.m) {
      call(micro_kernel(c, shape, {static_cast<int>(shape.m - whole), block.vectors}), c.i64(whole), column);
    }
  });
}

}  // namespace

Result<void> lower_dot(Context& c, const Op& op) {
  const ValueId a = op.operands[0], acc = op.operands[2], result = op.results[0];
  const auto a_shape = dsl::concrete_shape(c.type(a)), c_shape = dsl::concrete_shape(c.type(result));
  DotShape shape{c_shape[0], c_shape[1], a_shape[1], 0, 0, c.type(result).element, nullptr, 0};
  const dsl::ElementType from = c.type(a).element;
  if (from == ElementType::kF8E4M3 || from == ElementType::kF8E5M2) {
    return c.unsupported(op, "f8 operands are not available on this target yet");
  }
  shape.type = register_type(c.b.getContext(), dsl::scalar_type(shape.element));
  shape.lanes = c.target.vector_bytes / dsl::info(shape.element).bytes;
  const Blocking block = choose_blocking(c.target.vector_registers, shape.lanes, shape.m, shape.n);

  // The accumulator is updated in place where this dot is its only reader.
  Slot c_slot;
  const int64_t panel = block.vectors * shape.lanes;
  const int64_t padded_n = (shape.n + panel - 1) / panel * panel;
  const bool last_use = c.use_count[acc] == 1 && c.home[acc] == c.home[result];  // not one an iteration
  if (last_use && c.slots[acc] && c.slots[acc]->valid_under.empty() && c.slots[acc]->strides[0] >= padded_n) {
    c_slot = *c.slots[acc];
  } else {
    c_slot = allocate_slot(c, dsl::tile_type(shape.element, {dsl::Expr(shape.m), dsl::Expr(padded_n)}));
    if (auto done = materialise(c, acc, c_slot); !done) return done;
  }
  // Chunks of a row are stored whole, so a row is padded even where K is 1.
  const Slot a_slot =
      allocate_slot(c, dsl::tile_type(shape.element, {dsl::Expr(shape.m), dsl::Expr(std::max<int64_t>(shape.k, 2))}));
  const Slot b_slot = allocate_slot(c, dsl::tile_type(shape.element, {dsl::Expr(padded_n * shape.k)}));
  shape.lda = a_slot.strides[0];
  shape.ldc = c_slot.strides[0];
  if (auto done = pack_operands(c, op, shape, block, a_slot, b_slot); !done) return done;
  run_blocks(c, shape, block, a_slot, b_slot, c_slot);
  c.slots[result] = c_slot;
  return {};
}

}  // namespace kiln::codegen::cpu
