// The entry functions: the loop over programs, the parameters, the program ids.
#include "cpu/lower.h"

#include "cpu/context.h"
#include "cpu/nest/streaming.h"
#include "cpu/ops/effects.h"
#include "cpu/region.h"
#include "cpu/schedule.h"
#include "elementwise/calls.h"
#include "kiln/abi/launch_block.h"

namespace kiln::codegen::cpu {
namespace {

llvm::LoadInst* load_context(Context& c, Builder& b, llvm::Type* type, uint64_t offset) {
  return b.CreateLoad(type, b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), c.launch_context, offset));
}

// Once it is known how much the stage needs: a caller that brings less gets an error code before anything is touched.
void require_scratch(Context& c, llvm::Instruction* loaded) {
  const uint64_t needed = c.scratch_bytes + c.scratch_tail;
  if (needed == 0) return;
  llvm::BasicBlock* entry = loaded->getParent();
  auto* rest = entry->splitBasicBlock(std::next(loaded->getIterator()), "enough");
  entry->getTerminator()->eraseFromParent();
  Builder b(entry);
  auto* refused = llvm::BasicBlock::Create(b.getContext(), "too.small", c.function);
  Value* bytes = load_context(c, b, b.getInt64Ty(), offsetof(kiln_ctx, scratch_bytes));
  b.CreateCondBr(b.CreateICmpULT(bytes, b.getInt64(needed)), refused, rest);
  b.SetInsertPoint(refused);
  b.CreateRet(b.getInt32(KILN_SCRATCH_TOO_SMALL));
}

// `count`: those of the kernel, which come from the parameter block.
void load_params(Context& c, Value* params, size_t count) {
  const abi::ParamLayout layout = abi::lay_out_params(c.kernel);
  for (size_t i = 0; i < count; ++i) {
    const dsl::Param& param = c.kernel.params[i];
    llvm::Type* type = memory_type(c.b.getContext(), param.type.element, param.type.pointer);
    Value* value =
        c.b.CreateAlignedLoad(type, c.b.CreateConstInBoundsGEP1_64(c.b.getInt8Ty(), params, layout.slots[i].offset),
                              llvm::Align(layout.slots[i].size), param.name);
    if (!param.type.pointer && param.type.element == ElementType::kI1) value = c.b.CreateICmpNE(value, c.b.getInt8(0));
    c.scalars[param.value] = value;
  }
}

// Each pointer parameter's extent, below 0 where the launcher does not know it.
void load_extents(Context& c) {
  Builder& b = c.b;
  Value* extents = context_field(c, offsetof(kiln_ctx, extents));
  Value* unknown = entry_alloca(c, b.getInt64Ty());
  b.CreateStore(c.i64(-1), unknown);
  for (size_t i = 0; i < c.kernel.params.size(); ++i) {
    Value* at = b.CreateSelect(b.CreateIsNull(extents), unknown, b.CreateConstGEP1_64(b.getInt64Ty(), extents, i));
    c.extents.push_back(b.CreateLoad(b.getInt64Ty(), at));
  }
}

// program = x + gx·(y + gy·z)
void split_program(Context& c, Value* program) {
  Builder& b = c.b;
  c.linear_program = program;
  Value* gx = b.CreateZExt(c.num_programs[0], b.getInt64Ty());
  Value* gy = b.CreateZExt(c.num_programs[1], b.getInt64Ty());
  Value* rest = b.CreateUDiv(program, gx);
  c.program_id[0] = b.CreateTrunc(b.CreateURem(program, gx), b.getInt32Ty());
  c.program_id[1] = b.CreateTrunc(b.CreateURem(rest, gy), b.getInt32Ty());
  c.program_id[2] = b.CreateTrunc(b.CreateUDiv(rest, gy), b.getInt32Ty());
}

// The number of the chunk, and this program's part of the workspace.
void set_stage_params(Context& c, const Plan& plan, Value* chunk, Value* workspace) {
  Builder& b = c.b;
  Value* part = b.CreateGEP(b.getInt8Ty(), workspace, b.CreateMul(c.linear_program, c.i64(plan.workspace_bytes)));
  for (size_t i = plan.kernel_params; i < c.kernel.params.size(); ++i) {
    Value*& value = c.scalars[c.kernel.params[i].value];
    if (i == plan.kernel_params) {
      value = b.CreateTrunc(chunk, b.getInt32Ty());
    } else {
      value = b.CreateConstGEP1_64(b.getInt8Ty(), part,
                                   static_cast<uint64_t>(plan.workspace_offsets[i - plan.kernel_params - 1]));
    }
  }
}

Result<void> lower_stage(const Plan& plan, const Stage& stage, CpuTarget& target, llvm::Module& module, Lowered& out) {
  const dsl::Kernel& kernel = stage.kernel;
  Context c(kernel, target, module);
  c.calls_long_ops = has_many_long_ops(kernel);
  c.scalars.resize(kernel.values.size());
  c.slots.resize(kernel.values.size());
  for (const Report& check : out.checks) c.checks.push_back(check.op);
  for (const Report& print : out.prints) c.prints.push_back(print.op);

  Builder& b = c.b;
  auto* type = llvm::FunctionType::get(
      b.getInt32Ty(), {b.getPtrTy(), b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty(), b.getPtrTy()}, false);
  c.function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, stage.entry, module);
  c.function->addFnAttr(llvm::Attribute::NoUnwind);
  b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", c.function));
  load_params(c, c.function->getArg(0), plan.kernel_params);
  for (uint64_t axis = 0; axis < 3; ++axis) {
    c.num_programs[axis] =
        b.CreateLoad(b.getInt32Ty(), b.CreateConstInBoundsGEP1_64(b.getInt32Ty(), c.function->getArg(1), axis));
  }
  c.launch_context = c.function->getArg(4);
  llvm::LoadInst* scratch = load_context(c, b, b.getPtrTy(), offsetof(kiln_ctx, scratch));
  c.scratch = scratch;
  // The size of kiln_ctx is its first field, and small.
  if (target.is_x86 && target.vector_bytes == 32) {
    c.never = b.CreateICmpSLT(b.CreateLoad(b.getInt64Ty(), c.launch_context), c.i64(0));
  }
  if (kernel.options.check_bounds) load_extents(c);
  const bool planned = plan.stages.size() > 1;
  Value* workspace = planned ? context_field(c, offsetof(kiln_ctx, workspace)) : nullptr;
  Value* chunks = c.i64(stage.chunks);
  if (stage.chunks > 1) c.num_programs[0] = b.CreateUDiv(c.num_programs[0], b.CreateTrunc(chunks, b.getInt32Ty()));
  Result<void> result;
  emit_loop(
      b, c.function->getArg(2), c.function->getArg(3), c.i64(1), "program", [](llvm::Instruction*) {},
      [&](Value* program) {
        split_program(c, b.CreateUDiv(program, chunks));
        if (planned) set_stage_params(c, plan, b.CreateURem(program, chunks), workspace);
        result = lower_region(c, kernel.body);
      });
  if (!result) return result;
  end_streaming(c);
  b.CreateRet(b.getInt32(0));
  split_into_parts(*c.function, c.cuts);
  require_scratch(c, scratch);
  out.scratch_bytes = std::max(out.scratch_bytes, c.scratch_bytes + c.scratch_tail);
  for (size_t i = out.checks.size(); i < c.checks.size(); ++i) out.checks.push_back({&kernel, c.checks[i]});
  for (size_t i = out.prints.size(); i < c.prints.size(); ++i) out.prints.push_back({&kernel, c.prints[i]});
  return {};
}

}  // namespace

Result<Lowered> lower(const Plan& plan, CpuTarget& target, llvm::Module& module) {
  Lowered out;
  for (const Stage& stage : plan.stages) {
    if (auto done = lower_stage(plan, stage, target, module, out); !done) return done.error();
  }
  return out;
}

}  // namespace kiln::codegen::cpu
