// print and assert, and how a failure leaves the entry: a branch to a block that writes the record and returns.
#include "cpu/ops/effects.h"

#include <llvm/IR/MDBuilder.h>

#include "cpu/nest/materialise.h"
#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;  // lanes; their mask is an i64

Value* byte_offset(Context& c, Value* pointer, uint64_t bytes) {
  return c.b.CreateConstInBoundsGEP1_64(c.b.getInt8Ty(), pointer, bytes);
}

// Whether the caller's kiln_ctx has that many bytes.
Value* context_has(Context& c, uint64_t bytes) {
  Value* size = c.b.CreateLoad(c.b.getInt64Ty(), c.launch_context);
  return c.b.CreateICmpUGE(size, c.i64(static_cast<int64_t>(bytes)));
}

}  // namespace

Value* context_field(Context& c, uint64_t offset) {
  Builder& b = c.b;
  Value* none = entry_alloca(c, b.getPtrTy());
  b.CreateStore(llvm::ConstantPointerNull::get(b.getPtrTy()), none);
  Value* at = b.CreateSelect(context_has(c, offset + 8), byte_offset(c, c.launch_context, offset), none);
  return b.CreateLoad(b.getPtrTy(), at);
}

void fail_if(Context& c, const Op& op, Value* condition, llvm::function_ref<FailureAt()> where) {
  Builder& b = c.b;
  auto* fail = llvm::BasicBlock::Create(b.getContext(), "fail", c.function);
  auto* next = llvm::BasicBlock::Create(b.getContext(), "pass", c.function);
  b.CreateCondBr(condition, fail, next, llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights());
  b.SetInsertPoint(fail);
  const FailureAt failure = where();
  constexpr uint64_t kOffset = offsetof(kiln_ctx, failure), kBytes = sizeof(kiln_failure);
  Value* none = entry_alloca(c, llvm::ArrayType::get(b.getInt8Ty(), kBytes));
  Value* record = b.CreateSelect(context_has(c, kOffset + kBytes), byte_offset(c, c.launch_context, kOffset), none);
  auto put = [&](uint64_t offset, Value* value) {
    b.CreateAlignedStore(value, byte_offset(c, record, offset), llvm::Align(4));
  };
  put(offsetof(kiln_failure, check), b.getInt32(static_cast<uint32_t>(c.checks.size())));
  put(offsetof(kiln_failure, parameter), b.getInt32(failure.parameter));
  put(offsetof(kiln_failure, program), c.linear_program);
  put(offsetof(kiln_failure, lane), failure.lane);
  put(offsetof(kiln_failure, index), failure.index ? failure.index : c.i64(0));
  b.CreateRet(b.getInt32(static_cast<uint32_t>(failure.code)));
  b.SetInsertPoint(next);
  c.checks.push_back(&op);
}

Value* lane_bits(Nest& nest, Value* mask) {
  Builder& b = nest.b;
  const auto width = static_cast<unsigned>(nest.width());
  if (!mask) return b.getInt64(width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1);
  return b.CreateZExt(b.CreateBitCast(nest.splat(mask), b.getIntNTy(width)), b.getInt64Ty());
}

Value* lane_number(Nest& nest, Value* lane) {
  Builder& b = nest.b;
  Value* out = lane;
  int64_t stride = 1;
  for (int d = nest.rank(); d-- > 0; stride *= nest.extent(d)) {
    out = b.CreateAdd(out, b.CreateMul(nest.index(d), nest.c.i64(stride)));
  }
  return out;
}

void fail_if_any(Nest& nest, const Op& op, Failure code, Value* lanes, Value* index) {
  Context& c = nest.c;
  Builder& b = c.b;
  if (nest.vector_dim() < 0) {
    fail_if(c, op, lanes, [&] { return FailureAt{code, KILN_NO_PARAMETER, c.i64(0), index}; });
    return;
  }
  Value* bits = lane_bits(nest, nest.in_active_lanes(nest.splat(lanes)));
  fail_if(c, op, b.CreateICmpNE(bits, c.i64(0)), [&] {
    Value* lane = b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, b.getTrue());
    Value* at = index ? b.CreateExtractElement(nest.splat(index), lane) : nullptr;
    return FailureAt{code, KILN_NO_PARAMETER, lane_number(nest, lane), at};
  });
}

Result<void> for_each_chunk(Context& c, ValueId id, llvm::function_ref<void(Nest&, Value*)> visit) {
  Nest nest(c, dsl::concrete_shape(c.type(id)));
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

Result<void> lower_assert(Context& c, const Op& op) {
  if (!c.kernel.options.debug) return {};
  const ValueId condition = op.operands[0];
  if (c.type(condition).is_scalar()) {
    fail_if(c, op, c.b.CreateNot(c.scalars[condition]),
            [&] { return FailureAt{Failure::kAssert, KILN_NO_PARAMETER, c.i64(0), nullptr}; });
    return {};
  }
  return for_each_chunk(c, condition, [&](Nest& nest, Value* holds) {
    fail_if_any(nest, op, Failure::kAssert, c.b.CreateNot(holds), nullptr);
  });
}

// The values are made whether or not anybody wants them: what lies in scratch after this place must not depend on it.
Result<void> lower_print(Context& c, const Op& op) {
  Builder& b = c.b;
  auto* list = llvm::ArrayType::get(b.getPtrTy(), std::max<size_t>(op.operands.size(), 1));
  Value* values = entry_alloca(c, list);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    auto slot = slot_of(c, op.operands[i], Rows::kDense);
    if (!slot) return slot.error();
    b.CreateStore(slot_address(c, *slot), b.CreateConstInBoundsGEP2_64(list, values, 0, i));
  }
  Value* sink = context_field(c, offsetof(kiln_ctx, print));
  emit_if(
      b, b.CreateIsNotNull(sink), "print", [](llvm::Instruction*) {},
      [&] {
        auto* type =
            llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt32Ty(), b.getInt64Ty(), b.getPtrTy()}, false);
        b.CreateCall(type, sink,
                     {context_field(c, offsetof(kiln_ctx, print_data)),
                      b.getInt32(static_cast<uint32_t>(c.prints.size())), c.linear_program, values});
      });
  c.prints.push_back(&op);
  return {};
}

}  // namespace kiln::codegen::cpu
