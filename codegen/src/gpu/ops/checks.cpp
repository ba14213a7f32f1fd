// Checks under the options debug and check_bounds, before the op that they are about: nothing of it happens where one
// fails. All threads learn the first element in row-major order that fails; where there is one, the thread that has it
// claims the failure record (docs/reference/artifact.md), and all of them end.
#include "gpu/ops/checks.h"

#include <llvm/IR/MDBuilder.h>

#include "gpu/address/address.h"
#include "gpu/address/register_groups.h"
#include "gpu/analysis/all_threads.h"
#include "gpu/dot/tensor_memory.h"
#include "kiln/abi/failure_record.h"

namespace kiln::codegen::gpu {
namespace {

using abi::FailureRecord;

// Of one thread's elements: which fail, and what index is at fault.
struct Failing {
  uint32_t code = KILN_ASSERT_FAILED;
  uint32_t parameter = KILN_NO_PARAMETER;
  Value* extent = nullptr;  // i64; null: 0
  Registers fails;          // i1
  Registers index;          // i64; empty: 0
};

void write_record(Context& ctx, const Failing& failing, Value* lane, Value* index, Value* acts) {
  Builder& ir = ctx.ir;
  const auto at = [&](uint64_t offset) { return ir.CreateConstGEP1_64(ir.getInt8Ty(), ctx.failure_record, offset); };
  Value* before = ctx.target.atomic_rmw(ir, dsl::AtomicKind::kXchg, ElementType::kU32, ir.getInt32(1), true,
                                        {at(offsetof(FailureRecord, claimed)), acts, dsl::MemoryScope::kDevice});
  Value* writes = ir.CreateAnd(acts, ir.CreateIsNull(before));
  const auto put = [&](uint64_t offset, Value* value) { ctx.target.store_global(ir, value, {at(offset), writes}); };
  put(offsetof(FailureRecord, check), ir.getInt32(static_cast<uint32_t>(ctx.checks.size())));
  put(offsetof(FailureRecord, parameter), ir.getInt32(failing.parameter));
  for (size_t axis = 0; axis < 3; ++axis) put(offsetof(FailureRecord, program) + 4 * axis, ctx.program_id[axis]);
  put(offsetof(FailureRecord, lane), ir.CreateZExt(lane, ir.getInt64Ty()));
  put(offsetof(FailureRecord, index), index);
  put(offsetof(FailureRecord, extent), failing.extent ? failing.extent : ir.getInt64(0));
  ctx.target.fence(ir, dsl::MemoryScope::kSystem, writes);
  put(offsetof(FailureRecord, code), ir.getInt32(failing.code));
}

void end_if_any(Context& ctx, const Op& op, const dsl::Type& type, const Layout& layout, const Failing& failing) {
  Builder& ir = ctx.ir;
  Value *none = ir.getInt32(0xffffffff), *lane = none, *index = ir.getInt64(0);
  for (size_t reg = 0; reg < failing.fails.size(); ++reg) {
    Value* fails = both(ir, failing.fails[reg], ctx.in_tile(layout, reg, type));
    Value* number = ir.CreateSelect(fails, ctx.element_number(layout, reg, type), none);
    Value* earlier = ir.CreateICmpULT(number, lane);
    lane = ir.CreateSelect(earlier, number, lane);
    if (!failing.index.empty()) index = ir.CreateSelect(earlier, failing.index[reg], index);
  }
  const auto least = [&](Value* x, Value* y) { return ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y); };
  Value* first = over_all_threads(ctx, {{lane, least}})[0];
  auto* fail = llvm::BasicBlock::Create(ir.getContext(), "fail", ctx.function);
  auto* pass = llvm::BasicBlock::Create(ir.getContext(), "pass", ctx.function);
  ir.CreateCondBr(ir.CreateICmpNE(first, none), fail, pass,
                  llvm::MDBuilder(ir.getContext()).createUnlikelyBranchWeights());
  ir.SetInsertPoint(fail);
  if (ctx.tensor_memory) ctx.tensor_memory->end();
  write_record(ctx, failing, lane, index, both(ir, ir.CreateICmpEQ(lane, first), is_first_copy(ctx, layout)));
  ir.CreateRetVoid();
  ir.SetInsertPoint(pass);
  ctx.checks.push_back(&op);
}

// The element of a parameter's buffer that lies at an address, and whether the buffer has it (or its end is not known).
struct Element {
  Value* index;
  Value* inside;
};
Element element_at(Context& ctx, size_t parameter, Value* pointer) {
  Builder& ir = ctx.ir;
  const dsl::Param& param = ctx.kernel.params[parameter];
  const auto address = [&](Value* p) { return ir.CreatePtrToInt(p, ir.getInt64Ty()); };
  Value* offset = ir.CreateSub(address(pointer), address(ctx.scalar(param.value)));
  Value* index = ir.CreateSDiv(offset, ir.getInt64(static_cast<uint64_t>(dsl::info(param.type.element).bytes)));
  Value* extent = ctx.extents[parameter];
  return {index, ir.CreateOr(ir.CreateICmpSLT(extent, ir.getInt64(0)), ir.CreateICmpULT(index, extent))};
}

Result<void> check_addresses(Context& ctx, const Op& op, const Layout& layout, std::optional<ValueId> mask) {
  Builder& ir = ctx.ir;
  auto where = addresses(ctx, op.operands[0], layout);
  if (!where) return where.error();
  auto masks = get_if(ctx, mask, layout);
  if (!masks) return masks.error();
  const dsl::Type& type = ctx.type(op.operands[0]);
  const auto parameter = ctx.order.pointers().parameter(op.operands[0]);
  Failing failing{
      KILN_OUT_OF_BOUNDS, parameter ? static_cast<uint32_t>(*parameter) : KILN_NO_PARAMETER, nullptr, {}, {}};
  if (parameter) failing.extent = ctx.extents[*parameter];
  for (size_t reg = 0; reg < where->size(); ++reg) {
    Value *pointer = pointer_of(ctx, (*where)[reg]), *inside = ir.getFalse();
    if (parameter) {
      const Element element = element_at(ctx, *parameter, pointer);
      inside = element.inside;
      failing.index.push_back(element.index);
    }
    // Any buffer of such elements may be meant.
    for (size_t i = 0; !parameter && i < ctx.kernel.params.size(); ++i) {
      const dsl::Type& other = ctx.kernel.params[i].type;
      if (other.pointer && other.element == type.element)
        inside = ir.CreateOr(inside, element_at(ctx, i, pointer).inside);
    }
    failing.fails.push_back(both(ir, ir.CreateNot(inside), mask ? (*masks)[reg] : nullptr));
  }
  end_if_any(ctx, op, type, layout, failing);
  return {};
}

Result<void> check_gather(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  const ValueId id = op.operands[1];
  const Layout layout = ctx.layout_at_hand(id);
  auto indices = ctx.get(id, layout);
  if (!indices) return indices.error();
  const bool is_signed = dsl::info(ctx.type(id).element).is_signed;
  const auto length = dsl::concrete_shape(ctx.type(op.operands[0]))[static_cast<size_t>(int_attr(op, 0))];
  Failing failing{KILN_OUT_OF_BOUNDS, KILN_NO_PARAMETER, nullptr, {}, {}};
  for (Value* index : *indices) {
    Value* wide = is_signed ? ir.CreateSExt(index, ir.getInt64Ty()) : ir.CreateZExt(index, ir.getInt64Ty());
    failing.index.push_back(wide);
    failing.fails.push_back(ir.CreateICmpUGE(wide, ir.getInt64(static_cast<uint64_t>(length))));
  }
  end_if_any(ctx, op, ctx.type(id), layout, failing);
  return {};
}

Result<void> check_assert(Context& ctx, const Op& op) {
  const ValueId id = op.operands[0];
  const Layout layout = ctx.layout_at_hand(id);
  auto holds = ctx.get(id, layout);
  if (!holds) return holds.error();
  Failing failing;
  for (Value* x : *holds) failing.fails.push_back(ctx.ir.CreateNot(x));
  end_if_any(ctx, op, ctx.type(id), layout, failing);
  return {};
}

}  // namespace

Result<void> lower_check(Context& ctx, const Op& op) {
  if (op.code == OpCode::kAssert) return ctx.kernel.options.debug ? check_assert(ctx, op) : Result<void>();
  if (!ctx.kernel.options.check_bounds) return {};
  switch (op.code) {
    case OpCode::kLoad:
      return check_addresses(ctx, op, *ctx.placement.home[op.results[0]], operand(op, 1));
    case OpCode::kStore:
    case OpCode::kAtomicRmw:
      return check_addresses(ctx, op, ctx.placement.wanted.at(&op), operand(op, 2));
    case OpCode::kAtomicCas:
      return check_addresses(ctx, op, ctx.placement.wanted.at(&op), operand(op, 3));
    case OpCode::kGather:
      return check_gather(ctx, op);
    default:
      return {};
  }
}

}  // namespace kiln::codegen::gpu
