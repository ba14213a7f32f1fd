// The kernel function: its parameters, who the thread is, the ops.
#include "gpu/lower.h"

#include "gpu/context.h"
#include "gpu/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

constexpr char kEntry[] = "kiln_entry";

// i1 arrives as a byte, as it lies in the parameter block.
std::vector<llvm::Type*> parameter_types(const dsl::Kernel& kernel, llvm::LLVMContext& context) {
  std::vector<llvm::Type*> out;
  for (const dsl::Param& param : kernel.params) {
    out.push_back(param.type.pointer ? llvm::PointerType::get(context, 1)
                                     : memory_type(context, param.type.element, false));
  }
  return out;
}

void define_parameters(Context& c) {
  for (size_t i = 0; i < c.kernel.params.size(); ++i) {
    const dsl::Param& param = c.kernel.params[i];
    llvm::Argument* argument = c.function->getArg(static_cast<unsigned>(i));
    argument->setName(param.name);
    Value* value = argument;
    if (param.type.pointer) {
      if (param.readonly) argument->addAttr(llvm::Attribute::ReadOnly);
      value = c.b.CreateAddrSpaceCast(argument, c.b.getPtrTy());
    } else if (param.type.element == ElementType::kI1) {
      value = c.b.CreateIsNotNull(argument);
    }
    c.define(param.value, {value});
  }
}

void define_thread(Context& c) {
  Builder& b = c.b;
  Value* thread = c.target.thread_id(b);
  c.lane = b.CreateAnd(thread, b.getInt32(static_cast<uint32_t>(c.block.lanes - 1)), "lane");
  Value* warp =
      b.CreateLShr(thread, b.getInt32(static_cast<uint32_t>(__builtin_ctz(static_cast<unsigned>(c.block.lanes)))));
  c.warp = c.block.warps == 1 ? b.getInt32(0) : c.target.warp_uniform(b, warp);
  for (int axis = 0; axis < 3; ++axis) {
    c.program_id[static_cast<size_t>(axis)] = c.target.program_id(b, axis);
    c.num_programs[static_cast<size_t>(axis)] = c.target.num_programs(b, axis);
  }
}

}  // namespace

Result<Lowered> lower(const dsl::Kernel& kernel, const TargetInfo& target, const LaunchShape& launch,
                      const std::string& processor, llvm::Module& module) {
  const BlockShape block{target.lanes(), launch.warps};
  std::vector<AxisInfo> info = axis_info(kernel, Wrap::kIndex);
  const Placement placement = place(kernel, target, block, info);
  Context c(kernel, target, module, placement, block, processor);
  c.info = std::move(info);

  Lowered out;
  out.threads = block.lanes * block.warps;
  c.function = target.create_kernel(module, kEntry, parameter_types(kernel, module.getContext()), out.threads);
  auto* entry = llvm::BasicBlock::Create(module.getContext(), "entry", c.function);
  auto* body = llvm::BasicBlock::Create(module.getContext(), "body", c.function);
  c.b.SetInsertPoint(entry);
  c.prologue_end = c.b.CreateBr(body);
  c.b.SetInsertPoint(c.prologue_end);
  define_thread(c);
  define_parameters(c);
  c.b.SetInsertPoint(body);
  if (auto done = lower_region(c, kernel.body); !done) return done.error();
  c.b.CreateRetVoid();
  const SharedPlan shared = allocate_shared_memory(*c.function);
  insert_barriers(*c.function, shared, target);
  out.shared_bytes = shared.bytes;
  if (out.shared_bytes > target.lane_facts().shared_bytes) {
    return error(ErrorCode::kCompileFailed, "kernel `" + kernel.name + "` needs " + std::to_string(out.shared_bytes) +
                                                " bytes of shared memory a block; " + processor + " has " +
                                                std::to_string(target.lane_facts().shared_bytes));
  }
  return out;
}

}  // namespace kiln::codegen::gpu
