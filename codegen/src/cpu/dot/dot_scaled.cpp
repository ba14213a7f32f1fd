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
Value* decode_scale(Builder& b, Value* s) {
  Value* wide = b.CreateZExt(s, like(s, b.getInt64Ty()));
  Value* bits = b.CreateShl(b.CreateAdd(wide, int_constant(wide, 1023 - 127)), int_constant(wide, 52));
  llvm::Type* type = like(s, b.getDoubleTy());
  Value* nan = b.CreateICmpEQ(wide, int_constant(wide, 0xff));
  return b.CreateSelect(nan, llvm::ConstantFP::getNaN(type), b.CreateBitCast(bits, type));
}

// e2m1 in the low bits. As an f32 whose exponent's bias differs by 126: one multiplication puts that right, for
// the subnormal 0.5 too.
Value* decode_e2m1(Builder& b, Value* nibble) {
  Value* wide = b.CreateZExt(nibble, like(nibble, b.getInt32Ty()));
  Value* magnitude = b.CreateShl(b.CreateAnd(wide, int_constant(wide, 7)), int_constant(wide, 22));
  llvm::Type* type = like(nibble, b.getFloatTy());
  Value* scaled = b.CreateFMul(b.CreateBitCast(magnitude, type), llvm::ConstantFP::get(type, 0x1p126));
  Value* sign = b.CreateShl(b.CreateAnd(wide, int_constant(wide, 8)), int_constant(wide, 28));
  return b.CreateFPExt(b.CreateBitCast(b.CreateOr(b.CreateBitCast(scaled, wide->getType()), sign), type),
                       like(nibble, b.getDoubleTy()));
}

Value* decode_element(Context& c, ElementType element, Value* x) {
  return c.b.CreateFPExt(to_f32(c, c.b, element, x), like(x, c.b.getDoubleTy()));
}

Value* byte_at(Context& c, Value* pointer, Value* offset) {
  return c.b.CreateInBoundsGEP(c.b.getInt8Ty(), pointer, offset);
}

Value* load_bytes(Context& c, Value* pointer, int64_t count) {
  auto* type = llvm::FixedVectorType::get(c.b.getInt8Ty(), static_cast<unsigned>(count));
  return c.b.CreateAlignedLoad(type, pointer, llvm::Align(1));
}

// The numbers of a vector of bytes that packs two each, the low halves first.
Value* unpack_nibbles(Builder& b, Value* bytes) {
  const auto count = static_cast<int>(llvm::cast<llvm::FixedVectorType>(bytes->getType())->getNumElements());
  std::vector<int> order;
  for (int i = 0; i < count; ++i) {
    order.push_back(i);
    order.push_back(count + i);
  }
  return b.CreateShuffleVector(bytes, b.CreateLShr(bytes, int_constant(bytes, 4)), order);
}

}  // namespace

Result<OperandA> unpack_scaled_a(Context& c, const DotPlan& plan, ValueId id, ValueId scale) {
  auto elements = slot_of(c, id);
  if (!elements) return elements.error();
  auto scales = slot_of(c, scale);
  if (!scales) return scales.error();
  Builder& b = c.b;
  const ElementType type = c.type(id).element;
  const bool packs_two = type == ElementType::kU8;
  const int64_t row_bytes = packed_row_bytes(plan), block_bytes = packs_two ? kBlock / 2 : kBlock;
  Value *out = reserve(c, plan.m * row_bytes), *from = slot_address(c, *elements), *scale_at = slot_address(c, *scales);
  auto none = [](llvm::Instruction*) {};
  auto index = [&](const Slot& slot, Value* row, Value* column, int64_t step) {
    return b.CreateAdd(b.CreateMul(row, c.i64(slot.strides[0])), b.CreateMul(column, c.i64(slot.strides[1] * step)));
  };
  emit_loop(b, c.i64(0), c.i64(plan.m), c.i64(1), "row", none, [&](Value* row) {
    emit_loop(b, c.i64(0), c.i64(plan.k / kBlock), c.i64(1), "block", none, [&](Value* block) {
      Value* bytes = load_bytes(c, byte_at(c, from, index(*elements, row, block, block_bytes)), block_bytes);
      Value* numbers = packs_two ? decode_e2m1(b, unpack_nibbles(b, bytes)) : decode_element(c, type, bytes);
      Value* factor = decode_scale(b, b.CreateLoad(b.getInt8Ty(), byte_at(c, scale_at, index(*scales, row, block, 1))));
      Value* scaled = b.CreateFMul(numbers, b.CreateVectorSplat(static_cast<unsigned>(kBlock), factor));
      Value* place = b.CreateAdd(b.CreateMul(row, c.i64(row_bytes)), b.CreateMul(block, c.i64(kBlock * 8)));
      b.CreateAlignedStore(scaled, byte_at(c, out, place), llvm::Align(8));
    });
  });
  return OperandA{LayoutA::kRows, out, c.i64(row_bytes), c.i64(row_bytes), c.i64(0)};
}

Result<OperandB> unpack_scaled_b(Context& c, const DotPlan& plan, ValueId id, ValueId scale) {
  auto elements = slot_of(c, id);
  if (!elements) return elements.error();
  auto scales = slot_of(c, scale);
  if (!scales) return scales.error();
  Builder& b = c.b;
  const ElementType type = c.type(id).element;
  const bool packs_two = type == ElementType::kU8;
  const int64_t panel_bytes = packed_panel_bytes(plan), row_bytes = plan.panel() * plan.unit_bytes;
  Value* out = reserve(c, plan.panels() * panel_bytes);
  Value *from = slot_address(c, *elements), *scale_at = slot_address(c, *scales);
  // One scale a column of a block of rows, as f64 in a row of their own.
  Value* factors = reserve(c, plan.panels() * row_bytes);
  auto none = [](llvm::Instruction*) {};
  auto place = [&](Value* k, Value* n) {
    Value* panel = b.CreateMul(b.CreateUDiv(n, c.i64(plan.panel())), c.i64(panel_bytes));
    Value* column = b.CreateMul(b.CreateURem(n, c.i64(plan.panel())), c.i64(plan.unit_bytes));
    return byte_at(c, out, b.CreateAdd(b.CreateAdd(panel, b.CreateMul(k, c.i64(row_bytes))), column));
  };
  const int64_t rows_a_byte = packs_two ? 2 : 1;
  emit_loop(b, c.i64(0), c.i64(plan.k / kBlock), c.i64(1), "block", none, [&](Value* block) {
    emit_loop(b, c.i64(0), c.i64(plan.n), c.i64(1), "scale", none, [&](Value* n) {
      Value* at = b.CreateAdd(b.CreateMul(n, c.i64(scales->strides[0])), b.CreateMul(block, c.i64(scales->strides[1])));
      Value* factor = decode_scale(b, b.CreateLoad(b.getInt8Ty(), byte_at(c, scale_at, at)));
      b.CreateAlignedStore(factor, byte_at(c, factors, b.CreateMul(n, c.i64(8))), llvm::Align(8));
    });
    emit_loop(b, c.i64(0), c.i64(kBlock / rows_a_byte), c.i64(1), "row", none, [&](Value* row_in_block) {
      Value* row = b.CreateAdd(b.CreateMul(block, c.i64(kBlock / rows_a_byte)), row_in_block);
      emit_loop(b, c.i64(0), c.i64(plan.n), c.i64(plan.lanes), "column", none, [&](Value* n) {
        Value* at = b.CreateAdd(b.CreateMul(row, c.i64(elements->strides[0])), n);
        Value* bytes = load_bytes(c, byte_at(c, from, at), plan.lanes);
        Value* factor = b.CreateAlignedLoad(vector_of(plan, b.getDoubleTy()),
                                            byte_at(c, factors, b.CreateMul(n, c.i64(8))), llvm::Align(8));
        Value* k = b.CreateMul(row, c.i64(rows_a_byte));
        for (int64_t i = 0; i < rows_a_byte; ++i) {
          Value* half = i == 0 ? bytes : b.CreateLShr(bytes, int_constant(bytes, 4));
          Value* numbers = packs_two ? decode_e2m1(b, half) : decode_element(c, type, bytes);
          b.CreateAlignedStore(b.CreateFMul(numbers, factor), place(b.CreateAdd(k, c.i64(i)), n), llvm::Align(8));
        }
      });
    });
  });
  return OperandB{out, c.i64(row_bytes), c.i64(panel_bytes), c.i64(0), nullptr, 0};
}

}  // namespace kiln::codegen::cpu
