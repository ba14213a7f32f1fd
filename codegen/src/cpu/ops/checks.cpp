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
Element element_at(Context& c, size_t parameter, Value* pointer) {
  Builder& b = c.b;
  const dsl::Param& param = c.kernel.params[parameter];
  const int bytes = dsl::info(param.type.element).bytes;
  auto address = [&](Value* p) { return b.CreatePtrToInt(p, b.getInt64Ty()); };
  Value* offset = b.CreateSub(address(pointer), address(c.scalars[param.value]));
  Value* index = b.CreateSDiv(offset, c.i64(bytes));
  Value* extent = c.extents[parameter];
  return {index, b.CreateOr(b.CreateICmpSLT(extent, c.i64(0)), b.CreateICmpULT(index, extent))};
}

}  // namespace

void check_address(Context& c, const Op& op, Value* pointer, llvm::function_ref<Value*()> number) {
  if (!c.pointers) c.pointers.emplace(c.kernel);
  if (const auto parameter = c.pointers->parameter(op.operands[0])) {
    const Element element = element_at(c, *parameter, pointer);
    fail_if(c, op, c.b.CreateNot(element.inside), [&] {
      return FailureAt{Failure::kOutOfBounds, static_cast<uint32_t>(*parameter), number(), element.index};
    });
    return;
  }
  // Any buffer of such elements may be meant.
  Value* inside = c.b.getFalse();
  for (size_t i = 0; i < c.kernel.params.size(); ++i) {
    const dsl::Type& type = c.kernel.params[i].type;
    if (!type.pointer || type.element != c.type(op.operands[0]).element) continue;
    inside = c.b.CreateOr(inside, element_at(c, i, pointer).inside);
  }
  fail_if(c, op, c.b.CreateNot(inside),
          [&] { return FailureAt{Failure::kOutOfBounds, KILN_NO_PARAMETER, number(), nullptr}; });
}

Result<void> lower_checked_access(Context& c, const Op& op) {
  Builder& b = c.b;
  const bool is_load = op.code == OpCode::kLoad;
  const size_t mask = is_load ? 1 : 2;
  LaneOp lanes;
  lanes.pointer = op.operands[0];
  lanes.exact_pointers = true;
  if (!is_load) lanes.values.push_back(op.operands[1]);
  if (op.operands.size() > mask) lanes.mask = op.operands[mask];
  if (is_load) lanes.result = op.results[0];
  if (is_load && op.operands.size() > 2) lanes.other = op.operands[2];
  const dsl::Type& type = c.type(op.operands[0]);
  llvm::Type* memory = memory_type(b.getContext(), type.element, false);
  return for_each_lane(
      c, lanes, [&](Value* pointer, llvm::ArrayRef<Value*> values, llvm::function_ref<Value*()> number) -> Value* {
        check_address(c, op, pointer, number);
        if (is_load) return b.CreateLoad(memory, pointer);
        b.CreateStore(values[0], pointer);
        return nullptr;
      });
}

Result<void> check_gather(Context& c, const Op& op) {
  const ValueId index = op.operands[1];
  const bool is_signed = dsl::info(c.type(index).element).is_signed;
  const auto axis = static_cast<size_t>(std::get<int64_t>(op.attrs[0]));
  const int64_t length = dsl::concrete_shape(c.type(op.operands[0]))[axis];
  return for_each_chunk(c, index, [&](Nest& nest, Value* chunk) {
    llvm::Type* type = like(chunk, c.b.getInt64Ty());
    Value* wide = is_signed ? c.b.CreateSExt(chunk, type) : c.b.CreateZExt(chunk, type);
    Value* outside = c.b.CreateICmpUGE(wide, int_constant(wide, static_cast<uint64_t>(length)));
    fail_if_any(nest, op, Failure::kOutOfBounds, outside, wide);
  });
}

}  // namespace kiln::codegen::cpu
