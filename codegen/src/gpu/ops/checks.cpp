// Checks under the options debug and check_bounds, before the op that they are about: nothing of it happens where one
// fails. All threads learn the first element in row-major order that fails; where there is one, the thread that has it
// claims the failure record (docs/reference/artifact.md), and all of them end.
#include "gpu/ops/checks.h"

#include <llvm/IR/MDBuilder.h>

#include "gpu/address/address.h"
#include "gpu/address/register_groups.h"
#include "gpu/analysis/all_threads.h"
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

void write_record(Context& c, const Failing& failing, Value* lane, Value* index, Value* acts) {
  Builder& b = c.b;
  const auto at = [&](uint64_t offset) { return b.CreateConstGEP1_64(b.getInt8Ty(), c.failure_record, offset); };
  Value* before = c.target.atomic_rmw(b, dsl::AtomicKind::kXchg, ElementType::kU32, b.getInt32(1), true,
                                      {at(offsetof(FailureRecord, claimed)), acts, dsl::MemoryScope::kDevice});
  Value* writes = b.CreateAnd(acts, b.CreateIsNull(before));
  const auto put = [&](uint64_t offset, Value* value) { c.target.store_global(b, value, {at(offset), writes}); };
  put(offsetof(FailureRecord, check), b.getInt32(static_cast<uint32_t>(c.checks.size())));
  put(offsetof(FailureRecord, parameter), b.getInt32(failing.parameter));
  for (size_t axis = 0; axis < 3; ++axis) put(offsetof(FailureRecord, program) + 4 * axis, c.program_id[axis]);
  put(offsetof(FailureRecord, lane), b.CreateZExt(lane, b.getInt64Ty()));
  put(offsetof(FailureRecord, index), index);
  put(offsetof(FailureRecord, extent), failing.extent ? failing.extent : b.getInt64(0));
  c.target.fence(b, dsl::MemoryScope::kSystem, writes);
  put(offsetof(FailureRecord, code), b.getInt32(failing.code));
}

void end_if_any(Context& c, const Op& op, const dsl::Type& type, const Layout& layout, const Failing& failing) {
  Builder& b = c.b;
  Value *none = b.getInt32(0xffffffff), *lane = none, *index = b.getInt64(0);
  for (size_t reg = 0; reg < failing.fails.size(); ++reg) {
    Value* fails = both(b, failing.fails[reg], c.in_tile(layout, reg, type));
    Value* number = b.CreateSelect(fails, c.element_number(layout, reg, type), none);
    Value* earlier = b.CreateICmpULT(number, lane);
    lane = b.CreateSelect(earlier, number, lane);
    if (!failing.index.empty()) index = b.CreateSelect(earlier, failing.index[reg], index);
  }
  const auto least = [&](Value* x, Value* y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y); };
  Value* first = over_all_threads(c, {{lane, least}})[0];
  auto* fail = llvm::BasicBlock::Create(b.getContext(), "fail", c.function);
  auto* pass = llvm::BasicBlock::Create(b.getContext(), "pass", c.function);
  b.CreateCondBr(b.CreateICmpNE(first, none), fail, pass,
                 llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights());
  b.SetInsertPoint(fail);
  write_record(c, failing, lane, index, both(b, b.CreateICmpEQ(lane, first), is_first_copy(c, layout)));
  b.CreateRetVoid();
  b.SetInsertPoint(pass);
  c.checks.push_back(&op);
}

// The element of a parameter's buffer that lies at an address, and whether the buffer has it (or its end is not known).
struct Element {
  Value* index;
  Value* inside;
};
Element element_at(Context& c, size_t parameter, Value* pointer) {
  Builder& b = c.b;
  const dsl::Param& param = c.kernel.params[parameter];
  const auto address = [&](Value* p) { return b.CreatePtrToInt(p, b.getInt64Ty()); };
  Value* offset = b.CreateSub(address(pointer), address(c.scalar(param.value)));
  Value* index = b.CreateSDiv(offset, b.getInt64(static_cast<uint64_t>(dsl::info(param.type.element).bytes)));
  Value* extent = c.extents[parameter];
  return {index, b.CreateOr(b.CreateICmpSLT(extent, b.getInt64(0)), b.CreateICmpULT(index, extent))};
}

Result<void> check_addresses(Context& c, const Op& op, const Layout& layout, std::optional<ValueId> mask) {
  Builder& b = c.b;
  auto where = addresses(c, op.operands[0], layout);
  if (!where) return where.error();
  auto masks = get_if(c, mask, layout);
  if (!masks) return masks.error();
  const dsl::Type& type = c.type(op.operands[0]);
  const auto parameter = c.order.pointers().parameter(op.operands[0]);
  Failing failing{
      KILN_OUT_OF_BOUNDS, parameter ? static_cast<uint32_t>(*parameter) : KILN_NO_PARAMETER, nullptr, {}, {}};
  if (parameter) failing.extent = c.extents[*parameter];
  for (size_t reg = 0; reg < where->size(); ++reg) {
    Value *pointer = pointer_of(c, (*where)[reg]), *inside = b.getFalse();
    if (parameter) {
      const Element element = element_at(c, *parameter, pointer);
      inside = element.inside;
      failing.index.push_back(element.index);
    }
    // Any buffer of such elements may be meant.
    for (size_t i = 0; !parameter && i < c.kernel.params.size(); ++i) {
      const dsl::Type& other = c.kernel.params[i].type;
      if (other.pointer && other.element == type.element) inside = b.CreateOr(inside, element_at(c, i, pointer).inside);
    }
    failing.fails.push_back(both(b, b.CreateNot(inside), mask ? (*masks)[reg] : nullptr));
  }
  end_if_any(c, op, type, layout, failing);
  return {};
}

Result<void> check_gather(Context& c, const Op& op) {
  Builder& b = c.b;
  const ValueId id = op.operands[1];
  const Layout layout = c.layout_at_hand(id);
  auto indices = c.get(id, layout);
  if (!indices) return indices.error();
  const bool is_signed = dsl::info(c.type(id).element).is_signed;
  const auto length = dsl::concrete_shape(c.type(op.operands[0]))[static_cast<size_t>(int_attr(op, 0))];
  Failing failing{KILN_OUT_OF_BOUNDS, KILN_NO_PARAMETER, nullptr, {}, {}};
  for (Value* index : *indices) {
    Value* wide = is_signed ? b.CreateSExt(index, b.getInt64Ty()) : b.CreateZExt(index, b.getInt64Ty());
    failing.index.push_back(wide);
    failing.fails.push_back(b.CreateICmpUGE(wide, b.getInt64(static_cast<uint64_t>(length))));
  }
  end_if_any(c, op, c.type(id), layout, failing);
  return {};
}

Result<void> check_assert(Context& c, const Op& op) {
  const ValueId id = op.operands[0];
  const Layout layout = c.layout_at_hand(id);
  auto holds = c.get(id, layout);
  if (!holds) return holds.error();
  Failing failing;
  for (Value* x : *holds) failing.fails.push_back(c.b.CreateNot(x));
  end_if_any(c, op, c.type(id), layout, failing);
  return {};
}

}  // namespace

Result<void> lower_check(Context& c, const Op& op) {
  if (op.code == OpCode::kAssert) return c.kernel.options.debug ? check_assert(c, op) : Result<void>();
  if (!c.kernel.options.check_bounds) return {};
  switch (op.code) {
    case OpCode::kLoad:
      return check_addresses(c, op, *c.placement.home[op.results[0]], operand(op, 1));
    case OpCode::kStore:
    case OpCode::kAtomicRmw:
      return check_addresses(c, op, c.placement.wanted.at(&op), operand(op, 2));
    case OpCode::kAtomicCas:
      return check_addresses(c, op, c.placement.wanted.at(&op), operand(op, 3));
    case OpCode::kGather:
      return check_gather(c, op);
    default:
      return {};
  }
}

}  // namespace kiln::codegen::gpu
