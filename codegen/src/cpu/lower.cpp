// The entry function: the loop over programs, the parameters, the program ids.
#include "cpu/lower.h"

#include "cpu/context.h"
#include "cpu/schedule.h"

namespace kiln::codegen::cpu {
namespace {

// Offset of `scratch` in kiln_ctx (kiln/client/cpu_abi.h).
constexpr uint64_t kContextScratch = 8;

void load_params(Context& c, Value* params) {
  uint64_t total = 0;
  const std::vector<ParamSlot> layout = param_layout(c.kernel, total);
  for (size_t i = 0; i < layout.size(); ++i) {
    const dsl::Param& param = c.kernel.params[i];
    llvm::Type* type = memory_type(c.b.getContext(), param.type.element, param.type.pointer);
    Value* value =
        c.b.CreateAlignedLoad(type, c.b.CreateConstInBoundsGEP1_64(c.b.getInt8Ty(), params, layout[i].offset),
                              llvm::Align(layout[i].bytes), param.name);
    if (!param.type.pointer && param.type.element == ElementType::kI1) value = c.b.CreateICmpNE(value, c.b.getInt8(0));
    c.scalars[param.value] = value;
  }
}

// program = x + gx·(y + gy·z)
void split_program(Context& c, Value* program) {
  Builder& b = c.b;
  Value* gx = b.CreateZExt(c.num_programs[0], b.getInt64Ty());
  Value* gy = b.CreateZExt(c.num_programs[1], b.getInt64Ty());
  Value* rest = b.CreateUDiv(program, gx);
  c.program_id[0] = b.CreateTrunc(b.CreateURem(program, gx), b.getInt32Ty());
  c.program_id[1] = b.CreateTrunc(b.CreateURem(rest, gy), b.getInt32Ty());
  c.program_id[2] = b.CreateTrunc(b.CreateUDiv(rest, gy), b.getInt32Ty());
}

}  // namespace

std::vector<ParamSlot> param_layout(const dsl::Kernel& kernel, uint64_t& total_bytes) {
  std::vector<ParamSlot> out;
  uint64_t offset = 0;
  for (const dsl::Param& param : kernel.params) {
    const auto bytes = static_cast<uint64_t>(memory_bytes(param.type));
    offset = (offset + bytes - 1) / bytes * bytes;
    out.push_back({offset, bytes});
    offset += bytes;
  }
  total_bytes = offset;
  return out;
}

Result<Lowered> lower(const dsl::Kernel& kernel, CpuTarget& target, llvm::Module& module) {
  Context c(kernel, target, module);
  Schedule schedule = make_schedule(kernel);
  c.definition = std::move(schedule.definition);
  c.use_count = std::move(schedule.use_count);
  c.home = std::move(schedule.home);
  c.keep = std::move(schedule.keep);
  c.materialise = std::move(schedule.materialise);
  c.scalars.resize(kernel.values.size());
  c.slots.resize(kernel.values.size());

  Builder& b = c.b;
  auto* type = llvm::FunctionType::get(
      b.getInt32Ty(), {b.getPtrTy(), b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty(), b.getPtrTy()}, false);
  c.function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "kiln_entry", module);
  c.function->addFnAttr(llvm::Attribute::NoUnwind);
  b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", c.function));
  load_params(c, c.function->getArg(0));
  for (uint64_t axis = 0; axis < 3; ++axis) {
    c.num_programs[axis] =
        b.CreateLoad(b.getInt32Ty(), b.CreateConstInBoundsGEP1_64(b.getInt32Ty(), c.function->getArg(1), axis));
  }
  c.scratch =
      b.CreateLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), c.function->getArg(4), kContextScratch));
  Result<void> result;
  emit_loop(
      b, c.function->getArg(2), c.function->getArg(3), c.i64(1), "program", [](llvm::Instruction*) {},
      [&](Value* program) {
        split_program(c, program);
        result = lower_region(c, kernel.body);
      });
  if (!result) return result.error();
  b.CreateRet(b.getInt32(0));
  return Lowered{c.scratch_bytes};
}

}  // namespace kiln::codegen::cpu
