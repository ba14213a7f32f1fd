// The operands of dot_scaled (OCP microscaling formats), decoded into the packed form of an f64 dot.
#include "cpu/dot/dot_scaled.h"

#include "cpu/dot/dot_form.h"
#include "cpu/dot/dot_pack.h"
#include "cpu/nest/materialise.h"
#include "elementwise/conversions.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int64_t kBlock = 32;  // elements along K that share a scale

// 2^(s - 127) as the exponent of an f64; 0xff is NaN.
Value* decode_scale(Builder& ir, Value* s) {
  Value* wide = ir.CreateZExt(s, like(s, ir.getInt64Ty()));
  Value* bits = ir.CreateShl(ir.CreateAdd(wide, int_constant(wide, 1023 - 127)), int_constant(wide, 52));
  llvm::Type* type = like(s, ir.getDoubleTy());
  Value* nan = ir.CreateICmpEQ(wide, int_constant(wide, 0xff));
  return ir.CreateSelect(nan, llvm::ConstantFP::getNaN(type), ir.CreateBitCast(bits, type));
}

// e2m1 in the low bits. As an f32 whose exponent's bias differs by 126: one multiplication puts that right, for
// the subnormal 0.5 too.
Value* decode_e2m1(Builder& ir, Value* nibble) {
  Value* wide = ir.CreateZExt(nibble, like(nibble, ir.getInt32Ty()));
  Value* magnitude = ir.CreateShl(ir.CreateAnd(wide, int_constant(wide, 7)), int_constant(wide, 22));
  llvm::Type* type = like(nibble, ir.getFloatTy());
  Value* scaled = ir.CreateFMul(ir.CreateBitCast(magnitude, type), llvm::ConstantFP::get(type, 0x1p126));
  Value* sign = ir.CreateShl(ir.CreateAnd(wide, int_constant(wide, 8)), int_constant(wide, 28));
  return ir.CreateFPExt(ir.CreateBitCast(ir.CreateOr(ir.CreateBitCast(scaled, wide->getType()), sign), type),
                        like(nibble, ir.getDoubleTy()));
}

Value* decode_element(Context& ctx, ElementType element, Value* x) {
  return ctx.ir.CreateFPExt(to_f32(ctx, ctx.ir, element, x), like(x, ctx.ir.getDoubleTy()));
}

Value* byte_at(Context& ctx, Value* pointer, Value* offset) {
  return ctx.ir.CreateInBoundsGEP(ctx.ir.getInt8Ty(), pointer, offset);
}

Value* load_bytes(Context& ctx, Value* pointer, int64_t count) {
  auto* type = llvm::FixedVectorType::get(ctx.ir.getInt8Ty(), static_cast<unsigned>(count));
  return ctx.ir.CreateAlignedLoad(type, pointer, llvm::Align(1));
}

// The numbers of a vector of bytes that packs two each, the low halves first.
Value* unpack_nibbles(Builder& ir, Value* bytes) {
  const auto count = static_cast<int>(llvm::cast<llvm::FixedVectorType>(bytes->getType())->getNumElements());
  std::vector<int> order;
  for (int i = 0; i < count; ++i) {
    order.push_back(i);
    order.push_back(count + i);
  }
  return ir.CreateShuffleVector(bytes, ir.CreateLShr(bytes, int_constant(bytes, 4)), order);
}

}  // namespace

Result<OperandA> unpack_scaled_a(Context& ctx, const DotBlocking& blocking, ValueId id, ValueId scale) {
  auto elements = slot_of(ctx, id);
  if (!elements) return elements.error();
  auto scales = slot_of(ctx, scale);
  if (!scales) return scales.error();
  Builder& ir = ctx.ir;
  const ElementType type = ctx.type(id).element;
  const bool packs_two = type == ElementType::kU8;
  const int64_t row_bytes = packed_row_bytes(blocking), block_bytes = packs_two ? kBlock / 2 : kBlock;
  Value *out = reserve(ctx, blocking.m * row_bytes), *from = scratch_slot_address(ctx, *elements),
        *scale_at = scratch_slot_address(ctx, *scales);
  auto none = [](llvm::Instruction*) {};
  auto index = [&](const ScratchSlot& slot, Value* row, Value* column, int64_t step) {
    return ir.CreateAdd(ir.CreateMul(row, ctx.i64(slot.strides[0])),
                        ir.CreateMul(column, ctx.i64(slot.strides[1] * step)));
  };
  emit_loop(ir, ctx.i64(0), ctx.i64(blocking.m), ctx.i64(1), "row", none, [&](Value* row) {
    emit_loop(ir, ctx.i64(0), ctx.i64(blocking.k / kBlock), ctx.i64(1), "block", none, [&](Value* block) {
      Value* bytes = load_bytes(ctx, byte_at(ctx, from, index(*elements, row, block, block_bytes)), block_bytes);
      Value* numbers = packs_two ? decode_e2m1(ir, unpack_nibbles(ir, bytes)) : decode_element(ctx, type, bytes);
      Value* factor =
          decode_scale(ir, ir.CreateLoad(ir.getInt8Ty(), byte_at(ctx, scale_at, index(*scales, row, block, 1))));
      Value* scaled = ir.CreateFMul(numbers, ir.CreateVectorSplat(static_cast<unsigned>(kBlock), factor));
      Value* place = ir.CreateAdd(ir.CreateMul(row, ctx.i64(row_bytes)), ir.CreateMul(block, ctx.i64(kBlock * 8)));
      ir.CreateAlignedStore(scaled, byte_at(ctx, out, place), llvm::Align(8));
    });
  });
  return OperandA{LayoutA::kRows, out, ctx.i64(row_bytes), ctx.i64(row_bytes), ctx.i64(0)};
}

Result<OperandB> unpack_scaled_b(Context& ctx, const DotBlocking& blocking, ValueId id, ValueId scale) {
  auto elements = slot_of(ctx, id);
  if (!elements) return elements.error();
  auto scales = slot_of(ctx, scale);
  if (!scales) return scales.error();
  Builder& ir = ctx.ir;
  const ElementType type = ctx.type(id).element;
  const bool packs_two = type == ElementType::kU8;
  const int64_t panel_bytes = packed_panel_bytes(blocking), row_bytes = blocking.panel() * blocking.unit_bytes;
  Value* out = reserve(ctx, blocking.panels() * panel_bytes);
  Value *from = scratch_slot_address(ctx, *elements), *scale_at = scratch_slot_address(ctx, *scales);
  // One scale a column of a block of rows, as f64 in a row of their own.
  Value* factors = reserve(ctx, blocking.panels() * row_bytes);
  auto none = [](llvm::Instruction*) {};
  auto place = [&](Value* k, Value* n) {
    Value* panel = ir.CreateMul(ir.CreateUDiv(n, ctx.i64(blocking.panel())), ctx.i64(panel_bytes));
    Value* column = ir.CreateMul(ir.CreateURem(n, ctx.i64(blocking.panel())), ctx.i64(blocking.unit_bytes));
    return byte_at(ctx, out, ir.CreateAdd(ir.CreateAdd(panel, ir.CreateMul(k, ctx.i64(row_bytes))), column));
  };
  const int64_t rows_a_byte = packs_two ? 2 : 1;
  emit_loop(ir, ctx.i64(0), ctx.i64(blocking.k / kBlock), ctx.i64(1), "block", none, [&](Value* block) {
    emit_loop(ir, ctx.i64(0), ctx.i64(blocking.n), ctx.i64(1), "scale", none, [&](Value* n) {
      Value* at =
          ir.CreateAdd(ir.CreateMul(n, ctx.i64(scales->strides[0])), ir.CreateMul(block, ctx.i64(scales->strides[1])));
      Value* factor = decode_scale(ir, ir.CreateLoad(ir.getInt8Ty(), byte_at(ctx, scale_at, at)));
      ir.CreateAlignedStore(factor, byte_at(ctx, factors, ir.CreateMul(n, ctx.i64(8))), llvm::Align(8));
    });
    emit_loop(ir, ctx.i64(0), ctx.i64(kBlock / rows_a_byte), ctx.i64(1), "row", none, [&](Value* row_in_block) {
      Value* row = ir.CreateAdd(ir.CreateMul(block, ctx.i64(kBlock / rows_a_byte)), row_in_block);
      emit_loop(ir, ctx.i64(0), ctx.i64(blocking.n), ctx.i64(blocking.lanes), "column", none, [&](Value* n) {
        Value* at = ir.CreateAdd(ir.CreateMul(row, ctx.i64(elements->strides[0])), n);
        Value* bytes = load_bytes(ctx, byte_at(ctx, from, at), blocking.lanes);
        Value* factor = ir.CreateAlignedLoad(vector_of(blocking, ir.getDoubleTy()),
                                             byte_at(ctx, factors, ir.CreateMul(n, ctx.i64(8))), llvm::Align(8));
        Value* k = ir.CreateMul(row, ctx.i64(rows_a_byte));
        for (int64_t i = 0; i < rows_a_byte; ++i) {
          Value* half = i == 0 ? bytes : ir.CreateLShr(bytes, int_constant(bytes, 4));
          Value* numbers = packs_two ? decode_e2m1(ir, half) : decode_element(ctx, type, bytes);
          ir.CreateAlignedStore(ir.CreateFMul(numbers, factor), place(ir.CreateAdd(k, ctx.i64(i)), n), llvm::Align(8));
        }
      });
    });
  });
  return OperandB{out, ctx.i64(row_bytes), ctx.i64(panel_bytes), ctx.i64(0), nullptr, 0};
}

}  // namespace kiln::codegen::cpu
