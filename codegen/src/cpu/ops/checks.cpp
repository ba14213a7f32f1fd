// Builds with the option check_bounds: loads and stores go lane by lane, each behind a check of its address, so that
// nothing is touched before it is known to be there; what comes before the first bad lane has happened, as in the
// interpreter. (Atomics do the same: atomics.cpp.)
#include "cpu/ops/checks.h"

#include "cpu/ops/effects.h"
#include "cpu/ops/lanes.h"
#include "passes/pointers.h"

namespace kiln::codegen::cpu {
namespace {

// The element of a parameter's buffer that lies at an address, and whether the buffer has it (or its end is not known).
struct Element {
  Value* index;
  Value* inside;
};
Element element_at(Context& ctx, size_t parameter, Value* pointer) {
  Builder& ir = ctx.ir;
  const dsl::Param& param = ctx.kernel.params[parameter];
  const int bytes = dsl::info(param.type.element).bytes;
  auto address = [&](Value* p) { return ir.CreatePtrToInt(p, ir.getInt64Ty()); };
  Value* offset = ir.CreateSub(address(pointer), address(ctx.scalars[param.value]));
  Value* index = ir.CreateSDiv(offset, ctx.i64(bytes));
  Value* extent = ctx.extents[parameter];
  return {index, ir.CreateOr(ir.CreateICmpSLT(extent, ctx.i64(0)), ir.CreateICmpULT(index, extent))};
}

}  // namespace

void check_address(Context& ctx, const Op& op, Value* pointer, llvm::function_ref<Value*()> number) {
  if (!ctx.pointers) ctx.pointers.emplace(ctx.kernel);
  if (const auto parameter = ctx.pointers->parameter(op.operands[0])) {
    const Element element = element_at(ctx, *parameter, pointer);
    fail_if(ctx, op, ctx.ir.CreateNot(element.inside), [&] {
      return FailureAt{Failure::kOutOfBounds, static_cast<uint32_t>(*parameter), number(), element.index};
    });
    return;
  }
  // Any buffer of such elements may be meant.
  Value* inside = ctx.ir.getFalse();
  for (size_t i = 0; i < ctx.kernel.params.size(); ++i) {
    const dsl::Type& type = ctx.kernel.params[i].type;
    if (!type.pointer || type.element != ctx.type(op.operands[0]).element) continue;
    inside = ctx.ir.CreateOr(inside, element_at(ctx, i, pointer).inside);
  }
  fail_if(ctx, op, ctx.ir.CreateNot(inside),
          [&] { return FailureAt{Failure::kOutOfBounds, KILN_NO_PARAMETER, number(), nullptr}; });
}

Result<void> lower_checked_access(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  const bool is_load = op.code == OpCode::kLoad;
  const size_t mask = is_load ? 1 : 2;
  LaneOp lanes;
  lanes.pointer = op.operands[0];
  lanes.exact_pointers = true;
  if (!is_load) lanes.values.push_back(op.operands[1]);
  if (op.operands.size() > mask) lanes.mask = op.operands[mask];
  if (is_load) lanes.result = op.results[0];
  if (is_load && op.operands.size() > 2) lanes.other = op.operands[2];
  const dsl::Type& type = ctx.type(op.operands[0]);
  llvm::Type* memory = memory_type(ir.getContext(), type.element, false);
  return for_each_lane(
      ctx, lanes, [&](Value* pointer, llvm::ArrayRef<Value*> values, llvm::function_ref<Value*()> number) -> Value* {
        check_address(ctx, op, pointer, number);
        if (is_load) return ir.CreateLoad(memory, pointer);
        ir.CreateStore(values[0], pointer);
        return nullptr;
      });
}

Result<void> check_gather(Context& ctx, const Op& op) {
  const ValueId index = op.operands[1];
  const bool is_signed = dsl::info(ctx.type(index).element).is_signed;
  const auto axis = static_cast<size_t>(std::get<int64_t>(op.attrs[0]));
  const int64_t length = dsl::concrete_shape(ctx.type(op.operands[0]))[axis];
  return for_each_chunk(ctx, index, [&](Nest& nest, Value* chunk) {
    llvm::Type* type = like(chunk, ctx.ir.getInt64Ty());
    Value* wide = is_signed ? ctx.ir.CreateSExt(chunk, type) : ctx.ir.CreateZExt(chunk, type);
    Value* outside = ctx.ir.CreateICmpUGE(wide, int_constant(wide, static_cast<uint64_t>(length)));
    fail_if_any(nest, op, Failure::kOutOfBounds, outside, wide);
  });
}

}  // namespace kiln::codegen::cpu
