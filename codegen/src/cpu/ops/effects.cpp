// print and assert, and how a failure leaves the entry: a branch to a block that writes the record and returns.
#include "cpu/ops/effects.h"

#include <llvm/IR/MDBuilder.h>

#include "cpu/nest/materialise.h"
#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;  // lanes; their mask is an i64

Value* byte_offset(Context& ctx, Value* pointer, uint64_t bytes) {
  return ctx.ir.CreateConstInBoundsGEP1_64(ctx.ir.getInt8Ty(), pointer, bytes);
}

// Whether the caller's kiln_ctx has that many bytes.
Value* context_has(Context& ctx, uint64_t bytes) {
  Value* size = ctx.ir.CreateLoad(ctx.ir.getInt64Ty(), ctx.launch_context);
  return ctx.ir.CreateICmpUGE(size, ctx.i64(static_cast<int64_t>(bytes)));
}

}  // namespace

Value* context_field(Context& ctx, uint64_t offset) {
  Builder& ir = ctx.ir;
  Value* none = entry_alloca(ctx, ir.getPtrTy());
  ir.CreateStore(llvm::ConstantPointerNull::get(ir.getPtrTy()), none);
  Value* at = ir.CreateSelect(context_has(ctx, offset + 8), byte_offset(ctx, ctx.launch_context, offset), none);
  return ir.CreateLoad(ir.getPtrTy(), at);
}

void fail_if(Context& ctx, const Op& op, Value* condition, llvm::function_ref<FailureAt()> where) {
  Builder& ir = ctx.ir;
  auto* fail = llvm::BasicBlock::Create(ir.getContext(), "fail", ctx.function);
  auto* next = llvm::BasicBlock::Create(ir.getContext(), "pass", ctx.function);
  ir.CreateCondBr(condition, fail, next, llvm::MDBuilder(ir.getContext()).createUnlikelyBranchWeights());
  ir.SetInsertPoint(fail);
  const FailureAt failure = where();
  constexpr uint64_t kOffset = offsetof(kiln_ctx, failure), kBytes = sizeof(kiln_failure);
  Value* none = entry_alloca(ctx, llvm::ArrayType::get(ir.getInt8Ty(), kBytes));
  Value* record =
      ir.CreateSelect(context_has(ctx, kOffset + kBytes), byte_offset(ctx, ctx.launch_context, kOffset), none);
  auto put = [&](uint64_t offset, Value* value) {
    ir.CreateAlignedStore(value, byte_offset(ctx, record, offset), llvm::Align(4));
  };
  put(offsetof(kiln_failure, check), ir.getInt32(static_cast<uint32_t>(ctx.checks.size())));
  put(offsetof(kiln_failure, parameter), ir.getInt32(failure.parameter));
  put(offsetof(kiln_failure, program), ctx.linear_program);
  put(offsetof(kiln_failure, lane), failure.lane);
  put(offsetof(kiln_failure, index), failure.index ? failure.index : ctx.i64(0));
  ir.CreateRet(ir.getInt32(static_cast<uint32_t>(failure.code)));
  ir.SetInsertPoint(next);
  ctx.checks.push_back(&op);
}

Value* lane_bits(Nest& nest, Value* mask) {
  Builder& ir = nest.ir;
  const auto width = static_cast<unsigned>(nest.width());
  if (!mask) return ir.getInt64(width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1);
  return ir.CreateZExt(ir.CreateBitCast(nest.splat(mask), ir.getIntNTy(width)), ir.getInt64Ty());
}

Value* lane_number(Nest& nest, Value* lane) {
  Builder& ir = nest.ir;
  Value* out = lane;
  int64_t stride = 1;
  for (int d = nest.rank(); d-- > 0; stride *= nest.extent(d)) {
    out = ir.CreateAdd(out, ir.CreateMul(nest.index(d), nest.ctx.i64(stride)));
  }
  return out;
}

void fail_if_any(Nest& nest, const Op& op, Failure code, Value* lanes, Value* index) {
  Context& ctx = nest.ctx;
  Builder& ir = ctx.ir;
  if (nest.vector_dim() < 0) {
    fail_if(ctx, op, lanes, [&] { return FailureAt{code, KILN_NO_PARAMETER, ctx.i64(0), index}; });
    return;
  }
  Value* bits = lane_bits(nest, nest.in_active_lanes(nest.splat(lanes)));
  fail_if(ctx, op, ir.CreateICmpNE(bits, ctx.i64(0)), [&] {
    Value* lane = ir.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, ir.getTrue());
    Value* at = index ? ir.CreateExtractElement(nest.splat(index), lane) : nullptr;
    return FailureAt{code, KILN_NO_PARAMETER, lane_number(nest, lane), at};
  });
}

Result<void> for_each_chunk(Context& ctx, ValueId id, llvm::function_ref<void(Nest&, Value*)> visit) {
  Nest nest(ctx, dsl::concrete_shape(ctx.type(id)));
  nest.choose_width(id, kMaxWidth);
  Nest::Body body;
  body.chunk = [&]() -> Result<void> {
    auto value = nest.evaluate(id, nest.identity());
    if (!value) return value.error();
    visit(nest, *value);
    return {};
  };
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  return {};
}

Result<void> lower_assert(Context& ctx, const Op& op) {
  if (!ctx.kernel.options.debug) return {};
  const ValueId condition = op.operands[0];
  if (ctx.type(condition).is_scalar()) {
    fail_if(ctx, op, ctx.ir.CreateNot(ctx.scalars[condition]),
            [&] { return FailureAt{Failure::kAssert, KILN_NO_PARAMETER, ctx.i64(0), nullptr}; });
    return {};
  }
  return for_each_chunk(ctx, condition, [&](Nest& nest, Value* holds) {
    fail_if_any(nest, op, Failure::kAssert, ctx.ir.CreateNot(holds), nullptr);
  });
}

// The values are made whether or not anybody wants them: what lies in scratch after this place must not depend on it.
Result<void> lower_print(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  auto* list = llvm::ArrayType::get(ir.getPtrTy(), std::max<size_t>(op.operands.size(), 1));
  Value* values = entry_alloca(ctx, list);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    auto slot = slot_of(ctx, op.operands[i], Rows::kDense);
    if (!slot) return slot.error();
    ir.CreateStore(scratch_slot_address(ctx, *slot), ir.CreateConstInBoundsGEP2_64(list, values, 0, i));
  }
  Value* sink = context_field(ctx, offsetof(kiln_ctx, print));
  emit_if(
      ir, ir.CreateIsNotNull(sink), "print", [](llvm::Instruction*) {},
      [&] {
        auto* type = llvm::FunctionType::get(ir.getVoidTy(),
                                             {ir.getPtrTy(), ir.getInt32Ty(), ir.getInt64Ty(), ir.getPtrTy()}, false);
        ir.CreateCall(type, sink,
                      {context_field(ctx, offsetof(kiln_ctx, print_data)),
                       ir.getInt32(static_cast<uint32_t>(ctx.prints.size())), ctx.linear_program, values});
      });
  ctx.prints.push_back(&op);
  return {};
}

}  // namespace kiln::codegen::cpu
