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

llvm::LoadInst* load_context(Context& ctx, Builder& ir, llvm::Type* type, uint64_t offset) {
  return ir.CreateLoad(type, ir.CreateConstInBoundsGEP1_64(ir.getInt8Ty(), ctx.launch_context, offset));
}

// Once it is known how much the step needs: a caller that brings less gets an error code before anything is touched.
void require_scratch(Context& ctx, llvm::Instruction* loaded) {
  const uint64_t needed = ctx.scratch_bytes + ctx.scratch_tail;
  if (needed == 0) return;
  llvm::BasicBlock* entry = loaded->getParent();
  auto* rest = entry->splitBasicBlock(std::next(loaded->getIterator()), "enough");
  entry->getTerminator()->eraseFromParent();
  Builder ir(entry);
  auto* refused = llvm::BasicBlock::Create(ir.getContext(), "too.small", ctx.function);
  Value* bytes = load_context(ctx, ir, ir.getInt64Ty(), offsetof(kiln_ctx, scratch_bytes));
  ir.CreateCondBr(ir.CreateICmpULT(bytes, ir.getInt64(needed)), refused, rest);
  ir.SetInsertPoint(refused);
  ir.CreateRet(ir.getInt32(KILN_SCRATCH_TOO_SMALL));
}

// `count`: those of the kernel, which come from the parameter block.
void load_params(Context& ctx, Value* params, size_t count) {
  const abi::ParamLayout layout = abi::lay_out_params(ctx.kernel);
  for (size_t i = 0; i < count; ++i) {
    const dsl::Param& param = ctx.kernel.params[i];
    llvm::Type* type = memory_type(ctx.ir.getContext(), param.type.element, param.type.pointer);
    Value* value = ctx.ir.CreateAlignedLoad(
        type, ctx.ir.CreateConstInBoundsGEP1_64(ctx.ir.getInt8Ty(), params, layout.slots[i].offset),
        llvm::Align(layout.slots[i].size), param.name);
    if (!param.type.pointer && param.type.element == ElementType::kI1)
      value = ctx.ir.CreateICmpNE(value, ctx.ir.getInt8(0));
    ctx.scalars[param.value] = value;
  }
}

// Each pointer parameter's extent, below 0 where the launcher does not know it.
void load_extents(Context& ctx) {
  Builder& ir = ctx.ir;
  Value* extents = context_field(ctx, offsetof(kiln_ctx, extents));
  Value* unknown = entry_alloca(ctx, ir.getInt64Ty());
  ir.CreateStore(ctx.i64(-1), unknown);
  for (size_t i = 0; i < ctx.kernel.params.size(); ++i) {
    Value* at = ir.CreateSelect(ir.CreateIsNull(extents), unknown, ir.CreateConstGEP1_64(ir.getInt64Ty(), extents, i));
    ctx.extents.push_back(ir.CreateLoad(ir.getInt64Ty(), at));
  }
}

// program = x + gx·(y + gy·z)
void split_program(Context& ctx, Value* program) {
  Builder& ir = ctx.ir;
  ctx.linear_program = program;
  Value* gx = ir.CreateZExt(ctx.num_programs[0], ir.getInt64Ty());
  Value* gy = ir.CreateZExt(ctx.num_programs[1], ir.getInt64Ty());
  Value* rest = ir.CreateUDiv(program, gx);
  ctx.program_id[0] = ir.CreateTrunc(ir.CreateURem(program, gx), ir.getInt32Ty());
  ctx.program_id[1] = ir.CreateTrunc(ir.CreateURem(rest, gy), ir.getInt32Ty());
  ctx.program_id[2] = ir.CreateTrunc(ir.CreateUDiv(rest, gy), ir.getInt32Ty());
}

// The number of the chunk, and this program's part of the workspace.
void set_step_params(Context& ctx, const LaunchSequence& sequence, Value* chunk, Value* workspace) {
  Builder& ir = ctx.ir;
  Value* part =
      ir.CreateGEP(ir.getInt8Ty(), workspace, ir.CreateMul(ctx.linear_program, ctx.i64(sequence.workspace_bytes)));
  for (size_t i = sequence.kernel_params; i < ctx.kernel.params.size(); ++i) {
    Value*& value = ctx.scalars[ctx.kernel.params[i].value];
    if (i == sequence.kernel_params) {
      value = ir.CreateTrunc(chunk, ir.getInt32Ty());
    } else {
      value = ir.CreateConstGEP1_64(ir.getInt8Ty(), part,
                                    static_cast<uint64_t>(sequence.workspace_offsets[i - sequence.kernel_params - 1]));
    }
  }
}

Result<void> lower_step(const LaunchSequence& sequence, const LaunchStep& step, CpuTarget& target, llvm::Module& module,
                        Lowered& out) {
  const dsl::Kernel& kernel = step.kernel;
  Context ctx(kernel, target, module);
  ctx.calls_long_ops = has_many_long_ops(kernel);
  ctx.scalars.resize(kernel.values.size());
  ctx.slots.resize(kernel.values.size());
  for (const Report& check : out.checks) ctx.checks.push_back(check.op);
  for (const Report& print : out.prints) ctx.prints.push_back(print.op);

  Builder& ir = ctx.ir;
  auto* type = llvm::FunctionType::get(
      ir.getInt32Ty(), {ir.getPtrTy(), ir.getPtrTy(), ir.getInt64Ty(), ir.getInt64Ty(), ir.getPtrTy()}, false);
  ctx.function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, step.entry, module);
  ctx.function->addFnAttr(llvm::Attribute::NoUnwind);
  if (kernel.options.names_lines()) {
    ctx.lines = std::make_unique<DebugLines>(kernel, *ctx.function, DebugLines::Form::kTables);
    ctx.lines->begin(ir);
  }
  ir.SetInsertPoint(llvm::BasicBlock::Create(ir.getContext(), "entry", ctx.function));
  load_params(ctx, ctx.function->getArg(0), sequence.kernel_params);
  for (uint64_t axis = 0; axis < 3; ++axis) {
    ctx.num_programs[axis] =
        ir.CreateLoad(ir.getInt32Ty(), ir.CreateConstInBoundsGEP1_64(ir.getInt32Ty(), ctx.function->getArg(1), axis));
  }
  ctx.launch_context = ctx.function->getArg(4);
  llvm::LoadInst* scratch = load_context(ctx, ir, ir.getPtrTy(), offsetof(kiln_ctx, scratch));
  ctx.scratch = scratch;
  // The size of kiln_ctx is its first field, and small.
  if (target.is_x86 && target.vector_bytes == 32) {
    ctx.opaque_false = ir.CreateICmpSLT(ir.CreateLoad(ir.getInt64Ty(), ctx.launch_context), ctx.i64(0));
  }
  if (kernel.options.check_bounds) load_extents(ctx);
  const bool planned = sequence.steps.size() > 1;
  Value* workspace = planned ? context_field(ctx, offsetof(kiln_ctx, workspace)) : nullptr;
  Value* chunks = ctx.i64(step.chunks);
  if (step.chunks > 1)
    ctx.num_programs[0] = ir.CreateUDiv(ctx.num_programs[0], ir.CreateTrunc(chunks, ir.getInt32Ty()));
  Result<void> result;
  emit_loop(
      ir, ctx.function->getArg(2), ctx.function->getArg(3), ctx.i64(1), "program", [](llvm::Instruction*) {},
      [&](Value* program) {
        split_program(ctx, ir.CreateUDiv(program, chunks));
        if (planned) set_step_params(ctx, sequence, ir.CreateURem(program, chunks), workspace);
        result = lower_region(ctx, kernel.body);
      });
  if (!result) return result;
  end_streaming(ctx);
  ir.CreateRet(ir.getInt32(0));
  split_into_parts(*ctx.function, ctx.cuts);
  require_scratch(ctx, scratch);
  if (ctx.lines) {
    ctx.lines->cover_calls();
    ctx.lines->finish();
  }
  out.scratch_bytes = std::max(out.scratch_bytes, ctx.scratch_bytes + ctx.scratch_tail);
  for (size_t i = out.checks.size(); i < ctx.checks.size(); ++i) out.checks.push_back({&kernel, ctx.checks[i]});
  for (size_t i = out.prints.size(); i < ctx.prints.size(); ++i) out.prints.push_back({&kernel, ctx.prints[i]});
  return {};
}

// LLVM makes scalable instructions of vectors longer than 128 bits if it knows their length. Shorter ones are Neon's.
void fix_vector_length(llvm::Module& module, int bits) {
  if (bits <= 128) return;
  const auto blocks = static_cast<unsigned>(bits / 128);
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr(llvm::Attribute::getWithVScaleRangeArgs(module.getContext(), blocks, blocks));
  }
}

}  // namespace

Result<Lowered> lower(const LaunchSequence& sequence, CpuTarget& target, llvm::Module& module) {
  Lowered out;
  for (const LaunchStep& step : sequence.steps) {
    if (auto done = lower_step(sequence, step, target, module, out); !done) return done.error();
  }
  fix_vector_length(module, target.sve_bits);
  return out;
}

}  // namespace kiln::codegen::cpu
