// The micro-kernel of dot for AMX: up to 32 rows × 32 columns of C in four tile registers, 16 units of K a step.
//
//   tmm0 tmm1   C, rows 0-15        tmm4  A, rows 0-15       tmm6  B, columns 0-15
//   tmm2 tmm3   C, rows 16-31       tmm5  A, rows 16-31      tmm7  B, columns 16-31
//
// Packed operands suit tile loads as they are: rows of A are K-major, 16 rows of a panel of B are 16 units along K.
#include "cpu/dot/dot_tiles.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "cpu/dot/dot_kernel.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kTileRows = 16;

// Linux lends tile registers to a process on request only; the answer holds for all its threads.
llvm::Function* enable_tiles(Context& ctx) {
  constexpr char kName[] = "kiln.enable_tiles";
  if (auto* existing = ctx.module.getFunction(kName)) return existing;
  constexpr uint64_t kArchPrctl = 158, kRequestPermission = 0x1023, kTileData = 18;
  Builder ir(ctx.module.getContext());
  auto* fn = llvm::Function::Create(llvm::FunctionType::get(ir.getInt64Ty(), false), llvm::Function::InternalLinkage,
                                    kName, ctx.module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  fn->addFnAttr(llvm::Attribute::NoUnwind);
  auto* granted = new llvm::GlobalVariable(ctx.module, ir.getInt64Ty(), false, llvm::GlobalValue::InternalLinkage,
                                           ir.getInt64(1), "kiln.tiles_refused");
  ir.SetInsertPoint(llvm::BasicBlock::Create(ir.getContext(), "entry", fn));
  auto load = [&] {
    auto* value = ir.CreateAlignedLoad(ir.getInt64Ty(), granted, llvm::Align(8));
    value->setAtomic(llvm::AtomicOrdering::Monotonic);
    return value;
  };
  emit_if(
      ir, ir.CreateICmpNE(load(), ir.getInt64(0)), "ask", [](llvm::Instruction*) {},
      [&] {
        auto* type =
            llvm::FunctionType::get(ir.getInt64Ty(), {ir.getInt64Ty(), ir.getInt64Ty(), ir.getInt64Ty()}, false);
        auto* call = llvm::InlineAsm::get(type, "syscall", "={ax},{ax},{di},{si},~{rcx},~{r11},~{memory}", true);
        Value* answer =
            ir.CreateCall(call, {ir.getInt64(kArchPrctl), ir.getInt64(kRequestPermission), ir.getInt64(kTileData)});
        auto* store = ir.CreateAlignedStore(answer, granted, llvm::Align(8));
        store->setAtomic(llvm::AtomicOrdering::Monotonic);
      });
  ir.CreateRet(load());
  return fn;
}

// Once, where the entry begins: a refusal is its error code.
void require_tiles(Context& ctx) {
  llvm::Function* enable = enable_tiles(ctx);
  if (!enable->use_empty()) return;
  llvm::BasicBlock& entry = ctx.function->getEntryBlock();
  auto* rest = entry.splitBasicBlock(entry.getTerminator()->getIterator(), "granted");
  entry.getTerminator()->eraseFromParent();
  Builder ir(&entry);
  auto* refused = llvm::BasicBlock::Create(ir.getContext(), "refused", ctx.function);
  Value* answer = ir.CreateCall(enable, {});
  ir.CreateCondBr(ir.CreateICmpEQ(answer, ir.getInt64(0)), rest, refused);
  ir.SetInsertPoint(refused);
  ir.CreateRet(ir.CreateTrunc(answer, ir.getInt32Ty()));
}

llvm::Intrinsic::ID product(const DotForm& form) {
  if (form.packed == ElementType::kBF16) return llvm::Intrinsic::x86_tdpbf16ps;
  if (form.packed == ElementType::kF16) return llvm::Intrinsic::x86_tdpfp16ps;
  if (form.packed == ElementType::kF32) return llvm::Intrinsic::x86_tmmultf32ps;
  if (dsl::is_float(form.a)) {  // hf8 is e4m3, bf8 e5m2
    const bool b_e4m3 = form.b == ElementType::kF8E4M3;
    if (form.a == ElementType::kF8E4M3) return b_e4m3 ? llvm::Intrinsic::x86_tdphf8ps : llvm::Intrinsic::x86_tdphbf8ps;
    return b_e4m3 ? llvm::Intrinsic::x86_tdpbhf8ps : llvm::Intrinsic::x86_tdpbf8ps;
  }
  const bool a_signed = form.a == ElementType::kI8, b_signed = form.b == ElementType::kI8;
  if (a_signed) return b_signed ? llvm::Intrinsic::x86_tdpbssd : llvm::Intrinsic::x86_tdpbsud;
  return b_signed ? llvm::Intrinsic::x86_tdpbusd : llvm::Intrinsic::x86_tdpbuud;
}

// The 64 bytes that ldtilecfg reads: palette 1, then bytes a row (u16 from byte 16) and rows (from byte 48) of each
// tile.
llvm::Constant* configuration(Context& ctx, int rows) {
  std::array<uint8_t, 64> bytes{};
  bytes[0] = 1;
  const int upper = std::min(rows, kTileRows), lower = rows - upper;
  const std::array<int, 8> tile_rows = {upper, upper, lower, lower, upper, lower, kTileRows, kTileRows};
  for (size_t tile = 0; tile < tile_rows.size(); ++tile) {
    // A tile of no rows must have no columns either.
    bytes[16 + 2 * tile] = tile_rows[tile] > 0 ? 64 : 0;
    bytes[48 + tile] = static_cast<uint8_t>(tile_rows[tile]);
  }
  auto* data = llvm::ConstantDataArray::get(ctx.module.getContext(), llvm::ArrayRef<uint8_t>(bytes));
  return new llvm::GlobalVariable(ctx.module, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data,
                                  "kiln.tile_configuration");
}

void emit_tile_kernel(Context& ctx, const DotBlocking& blocking, int rows, llvm::Function* fn) {
  Builder ir(ctx.module.getContext());
  ir.SetInsertPoint(llvm::BasicBlock::Create(ir.getContext(), "entry", fn));
  using namespace llvm::Intrinsic;
  auto call = [&](ID id, llvm::ArrayRef<Value*> operands) { ir.CreateIntrinsic(id, operands); };
  auto tile = [&](int number) { return ir.getInt8(static_cast<uint8_t>(number)); };
  auto at = [&](Value* pointer, Value* offset) { return ir.CreateInBoundsGEP(ir.getInt8Ty(), pointer, offset); };
  const int high = rows > kTileRows ? 2 : 1, wide = blocking.block.vectors;
  Value *a_row = fn->getArg(kADistance), *b_row = fn->getArg(kBRow);
  auto each_sum = [&](ID id, Value* block, Value* c_row) {
    for (int i = 0; i < high; ++i) {
      for (int j = 0; j < wide; ++j) {
        Value* where =
            at(block, ir.CreateAdd(ir.CreateMul(c_row, ctx.i64(i * kTileRows)), ctx.i64(j * blocking.lanes * 4)));
        if (id == x86_tilezero) {
          call(id, {tile(2 * i + j)});
        } else {
          call(id, {tile(2 * i + j), where, c_row});
        }
      }
    }
  };
  auto none = [](llvm::Instruction*) {};
  Value* fresh = fn->getArg(kFresh);
  emit_if(ir, fresh, "zeros", none, [&] { each_sum(x86_tilezero, fn->getArg(kFrom), fn->getArg(kFromRow)); });
  emit_if(ir, ir.CreateNot(fresh), "load", none,
          [&] { each_sum(x86_tileloadd64, fn->getArg(kFrom), fn->getArg(kFromRow)); });
  emit_loop(ir, ctx.i64(0), ctx.i64(blocking.k_units), ctx.i64(kTileRows), "k", none, [&](Value* k) {
    for (int i = 0; i < high; ++i) {
      Value* block = at(fn->getArg(kA), ir.CreateMul(a_row, ctx.i64(i * kTileRows)));
      call(x86_tileloadd64, {tile(4 + i), at(block, ir.CreateMul(k, ctx.i64(4))), a_row});
    }
    for (int j = 0; j < wide; ++j) {
      Value* row = at(fn->getArg(kB), ir.CreateMul(k, b_row));
      call(x86_tileloadd64, {tile(6 + j), at(row, ctx.i64(j * blocking.lanes * 4)), b_row});
    }
    for (int i = 0; i < high; ++i) {
      for (int j = 0; j < wide; ++j) call(product(blocking.form), {tile(2 * i + j), tile(4 + i), tile(6 + j)});
    }
  });
  each_sum(x86_tilestored64, fn->getArg(kTo), fn->getArg(kToRow));
  ir.CreateRetVoid();
}

}  // namespace

void configure_tiles(Context& ctx, int rows) {
  require_tiles(ctx);
  ctx.ir.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {configuration(ctx, rows)});
}
void release_tiles(Context& ctx) { ctx.ir.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}); }

llvm::Function* tile_kernel(Context& ctx, const DotBlocking& blocking, int rows) {
  const std::string name = "kiln.dot.tiles." + std::to_string(rows) + "x" + std::to_string(blocking.block.vectors) +
                           "." + std::to_string(blocking.k_units) + "." + std::string(dsl::info(blocking.form.a).name) +
                           "." + std::string(dsl::info(blocking.form.b).name);
  if (auto* existing = ctx.module.getFunction(name)) return existing;
  auto* fn = declare_kernel(ctx, name);
  emit_tile_kernel(ctx, blocking, rows, fn);
  return fn;
}

}  // namespace kiln::codegen::cpu
