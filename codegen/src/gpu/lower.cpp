// The kernel function: its parameters, who the thread is, the ops.
#include "gpu/lower.h"

#include <algorithm>

#include "gpu/analysis/program_operands.h"
#include "gpu/block/shape.h"
#include "gpu/context.h"
#include "gpu/dot/tensor_memory.h"
#include "gpu/llvm_passes/allocate_shared.h"
#include "gpu/llvm_passes/insert_barriers.h"
#include "gpu/pipeline/bulk_store.h"
#include "gpu/pipeline/cluster.h"
#include "gpu/pipeline/persistent.h"
#include "gpu/pipeline/producer_warps.h"
#include "gpu/region.h"
#include "gpu/shared/shared_memory.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen::gpu {
namespace {

// Pointers to the workspace are parameters of the stages' kernels.
abi::LaunchCounts launch_counts(const dsl::Kernel& kernel, size_t tensor_maps, const BlockShape& block) {
  using enum abi::LaunchField;
  const LaunchParams params = launch_params(kernel);
  abi::LaunchCounts out;
  out[kTensorMaps] = static_cast<uint32_t>(tensor_maps);
  out[kFailure] = params.failure ? 1 : 0;
  out[kExtents] = params.extents ? abi::pointer_count(kernel) : 0;
  out[kPrint] = params.print ? 1 : 0;
  out[kPrograms] = block.programs > 1 ? 1 : 0;
  out[kGrid] = block.persistent ? 3 : 0;
  out[kQueue] = block.queued ? 1 : 0;
  return out;
}

// What a launch puts behind the arguments counts too.
Result<void> check_block_bytes(const dsl::Kernel& kernel, const abi::LaunchCounts& launch) {
  const uint32_t own = abi::lay_out_params(kernel).bytes, all = abi::lay_out_launch_block(own, launch).bytes;
  if (all <= abi::kMaxBlockBytes) return {};
  const std::string behind = all > own ? ", and its launch " + std::to_string(all - own) + " behind them" : "";
  return error(ErrorCode::kCompileFailed, "kernel `" + kernel.name + "` takes " + std::to_string(own) +
                                              " bytes of parameters" + behind + "; a GPU takes at most " +
                                              std::to_string(abi::kMaxBlockBytes));
}

llvm::Type* type_of(abi::LaunchField field, llvm::LLVMContext& context) {
  switch (field) {
    case abi::LaunchField::kTensorMaps:
      return llvm::ArrayType::get(llvm::Type::getInt8Ty(context), abi::kTensorMapBytes);
    case abi::LaunchField::kExtents:
    case abi::LaunchField::kPrograms:
      return llvm::Type::getInt64Ty(context);
    case abi::LaunchField::kGrid:
      return llvm::Type::getInt32Ty(context);
    case abi::LaunchField::kWorkspace:
    case abi::LaunchField::kFailure:
    case abi::LaunchField::kPrint:
    case abi::LaunchField::kQueue:
      break;
  }
  return llvm::PointerType::get(context, 1);
}

// i1 arrives as a byte, as it lies in the parameter block.
std::vector<llvm::Type*> parameter_types(const dsl::Kernel& kernel, const abi::LaunchCounts& launch,
                                         llvm::LLVMContext& context) {
  std::vector<llvm::Type*> out;
  for (const dsl::Param& param : kernel.params) {
    out.push_back(param.type.pointer ? llvm::PointerType::get(context, 1)
                                     : memory_type(context, param.type.element, false));
  }
  for (const abi::LaunchParam& param : abi::lay_out_launch_block(0, launch).tail) {
    out.push_back(type_of(param.field, context));
  }
  return out;
}

void define_launch_params(Context& ctx, const abi::LaunchCounts& launch) {
  auto next = static_cast<unsigned>(ctx.kernel.params.size());
  std::vector<Value*> extents;
  for (const abi::LaunchParam& param : abi::lay_out_launch_block(0, launch).tail) {
    llvm::Argument* argument = ctx.function->getArg(next++);
    const auto pointer = [&] { return ctx.ir.CreateAddrSpaceCast(argument, ctx.ir.getPtrTy()); };
    switch (param.field) {
      case abi::LaunchField::kWorkspace:
        break;
      case abi::LaunchField::kTensorMaps:
        ctx.tensor_maps.push_back(argument);
        break;
      case abi::LaunchField::kFailure:
        ctx.failure_record = pointer();
        break;
      case abi::LaunchField::kExtents:
        extents.push_back(argument);
        break;
      case abi::LaunchField::kPrint:
        ctx.print_ring = pointer();
        break;
      case abi::LaunchField::kPrograms:
        ctx.num_programs[0] = ctx.ir.CreateTrunc(argument, ctx.ir.getInt32Ty());
        break;
      case abi::LaunchField::kGrid:
        ctx.num_programs[param.index] = argument;
        break;
      case abi::LaunchField::kQueue:
        ctx.program_counter = pointer();
        break;
    }
  }
  if (extents.empty()) return;
  auto extent = extents.begin();
  for (const dsl::Param& param : ctx.kernel.params) ctx.extents.push_back(param.type.pointer ? *extent++ : nullptr);
}

void define_parameters(Context& ctx) {
  for (size_t i = 0; i < ctx.kernel.params.size(); ++i) {
    const dsl::Param& param = ctx.kernel.params[i];
    llvm::Argument* argument = ctx.function->getArg(static_cast<unsigned>(i));
    argument->setName(param.name);
    Value* value = argument;
    if (param.type.pointer) {
      if (param.readonly) argument->addAttr(llvm::Attribute::ReadOnly);
      value = ctx.ir.CreateAddrSpaceCast(argument, ctx.ir.getPtrTy());
    } else if (param.type.element == ElementType::kI1) {
      value = ctx.ir.CreateIsNotNull(argument);
    }
    ctx.define(param.value, {value});
  }
}

std::vector<TensorMap> maps_of(const BulkAccesses& accesses) {
  std::vector<TensorMap> out(accesses.size());
  for (const auto& [op, access] : accesses) out[access.map] = access.tile.map;
  return out;
}

// Which of the block's programs the thread is in; null: there is one.
llvm::Instruction* define_thread(Context& ctx) {
  Builder& ir = ctx.ir;
  Value* thread = ctx.target.thread_id(ir);
  ctx.lane = ir.CreateAnd(thread, ir.getInt32(static_cast<uint32_t>(ctx.block.lanes - 1)), "lane");
  Value* warp =
      ir.CreateLShr(thread, ir.getInt32(static_cast<uint32_t>(__builtin_ctz(static_cast<unsigned>(ctx.block.lanes)))));
  ctx.warp = ctx.block.warps == 1 ? ir.getInt32(0) : ctx.target.warp_uniform(ir, warp);
  ctx.thread = thread;
  if (ctx.block.consumer_groups > 1) {
    const auto warps = static_cast<uint32_t>(ctx.block.warps), threads = static_cast<uint32_t>(ctx.block.threads());
    ctx.consumer_group = llvm::cast<llvm::Instruction>(ir.CreateUDiv(ctx.warp, ir.getInt32(warps), "consumer_group"));
    ctx.warp = ir.CreateURem(ctx.warp, ir.getInt32(warps));
    ctx.thread = ir.CreateURem(thread, ir.getInt32(threads));
  }
  for (int axis = 0; axis < 3; ++axis) {
    ctx.program_id[static_cast<size_t>(axis)] = ctx.target.program_id(ir, axis);
    ctx.num_programs[static_cast<size_t>(axis)] = ctx.target.num_programs(ir, axis);
  }
  if (ctx.block.programs == 1) return nullptr;
  auto* part = llvm::cast<llvm::Instruction>(ctx.target.warp_uniform(ir, warp));
  Value* first = ir.CreateMul(ctx.program_id[0], ir.getInt32(static_cast<uint32_t>(ctx.block.programs)));
  ctx.program_id[0] = ir.CreateAdd(first, part);
  return part;
}

// Programs of the last block that the grid has not.
void leave_beyond_grid(Context& ctx) {
  Builder& ir = ctx.ir;
  auto* outside = llvm::BasicBlock::Create(ir.getContext(), "outside", ctx.function);
  auto* inside = llvm::BasicBlock::Create(ir.getContext(), "inside", ctx.function);
  ir.CreateCondBr(ir.CreateICmpULT(ctx.program_id[0], ctx.num_programs[0]), inside, outside);
  ir.SetInsertPoint(outside);
  ir.CreateRetVoid();
  ir.SetInsertPoint(inside);
}

// `program_operands`: the parity of the barrier of those that the loop has, or null.
Result<void> lower_program(Context& ctx, const Op* copied, llvm::AllocaInst* program_operands) {
  if (!program_operands) return lower_region(ctx, ctx.kernel.body);
  const Pipeline& pipeline = ctx.placement.pipelines.at(copied);
  const Op* last = last_reader(ctx.kernel, pipeline);
  take_operands(ctx, pipeline, program_operands);
  return lower_region(ctx, ctx.kernel.body, [&](const Op& op) {
    auto done = lower_op(ctx, op);
    if (done && &op == last) leave_operands(ctx);
    return done;
  });
}

// All that a program's threads do.
Result<void> lower_body(Context& ctx, const Op* copied) {
  if (!ctx.block.persistent) return lower_region(ctx, ctx.kernel.body);
  llvm::AllocaInst* parity = ctx.program_operands ? begin_operands(ctx, false) : nullptr;
  const ProgramLoop programs = begin_programs(ctx, ProgramRole::kComputes);
  if (auto done = lower_program(ctx, copied, parity); !done) return done;
  end_programs(ctx, programs);
  ctx.target.bulk_engine()->wait_store_groups(ctx.ir, 0, true, tells_of_stores(ctx));
  return {};
}

// Takes back what lowering a kernel has made.
void remove_code(llvm::Module& module) {
  for (llvm::Function& function : module) function.dropAllReferences();
  while (!module.empty()) module.begin()->eraseFromParent();
  while (!module.global_empty()) module.global_begin()->eraseFromParent();
  if (llvm::NamedMDNode* units = module.getNamedMetadata("llvm.dbg.cu")) units->eraseFromParent();
}

}  // namespace

bool allows_bulk(const dsl::Kernel& kernel) {
  const LaunchParams more = launch_params(kernel);
  return !more.failure && !more.extents && !more.print;
}

LaunchParams launch_params(const dsl::Kernel& kernel) {
  const dsl::KernelOptions& options = kernel.options;
  LaunchParams out;
  dsl::for_each_op(kernel, [&](const Op& op) {
    switch (op.code) {
      case OpCode::kLoad:
      case OpCode::kStore:
      case OpCode::kAtomicRmw:
      case OpCode::kAtomicCas:
        out.failure = out.failure || options.check_bounds;
        out.extents = out.extents || options.check_bounds;
        break;
      case OpCode::kGather:
        out.failure = out.failure || options.check_bounds;
        break;
      case OpCode::kAssert:
        out.failure = out.failure || options.debug;
        break;
      case OpCode::kPrint:
        out.print = true;
        break;
      default:
        break;
    }
  });
  return out;
}

// What is marked in the code of a kernel that is complete, and what becomes of it.
struct SharedFacts {
  llvm::Function& function;
  llvm::Instruction* part;  // which part of the block the thread is in; null: it has one
  Context& ctx;
  SharedPlan& plan;
};

namespace {

constexpr LlvmPass<SharedFacts> kSharedPasses[] = {
    {"allocate_shared",
     [](llvm::Module&, const SharedFacts& facts) {
       facts.plan = allocate_shared_memory(facts.function, facts.part, facts.ctx.block.consumer_groups);
     },
     "once all buffers are asked for; the marks of their accesses are still there"},
    {"insert_barriers",
     [](llvm::Module&, const SharedFacts& facts) {
       insert_barriers(facts.function, facts.plan, facts.ctx.order, facts.ctx.target, facts.ctx.block);
     },
     "once it is known which buffers share bytes"},
};

// The code of one shape.
Result<Lowered> lower_shaped(const ShapedKernel& shaped, const TargetInfo& target, const std::string& processor,
                             llvm::Module& module, const std::string& entry_name, const PassObserver& observer) {
  const dsl::Kernel& kernel = *shaped.kernel;
  const BlockShape& block = shaped.block;
  Lowered out;
  out.kernel = shaped.kernel;
  out.programs = block.programs;
  out.threads = block.block_threads();
  out.persistent = block.persistent;
  out.queued = block.queued;
  out.cluster = block.cluster;
  Context ctx(shaped, target, module, processor);
  out.tensor_maps = maps_of(ctx.bulk);
  out.launch = launch_counts(kernel, out.tensor_maps.size(), block);
  if (auto fine = check_block_bytes(kernel, out.launch); !fine) return fine.error();
  const std::vector<llvm::Type*> params = parameter_types(kernel, out.launch, module.getContext());
  ctx.function = target.create_kernel(module, entry_name, params, out.threads);
  auto* entry = llvm::BasicBlock::Create(module.getContext(), "entry", ctx.function);
  auto* body = llvm::BasicBlock::Create(module.getContext(), "body", ctx.function);
  ctx.ir.SetInsertPoint(entry);
  ctx.prologue_end = ctx.ir.CreateBr(body);
  ctx.ir.SetInsertPoint(ctx.prologue_end);
  llvm::Instruction* part = define_thread(ctx);
  define_parameters(ctx);
  define_launch_params(ctx, out.launch);
  ctx.ir.SetInsertPoint(body);
  if (part) leave_beyond_grid(ctx);
  if (kernel.options.names_lines())
    ctx.lines = std::make_unique<DebugLines>(kernel, *ctx.function, DebugLines::Form::kDirectives);
  if (block.producers == 0) {
    for (Value* map : ctx.tensor_maps) {
      target.bulk_engine()->prefetch_map(ctx.ir, map, ctx.ir.CreateIsNull(target.thread_id(ctx.ir)));
    }
  }
  if (block.producers > 0) {
    if (auto begun = begin_producer_warps(ctx, *shaped.copied); !begun) return begun.error();
  }
  const std::unique_ptr<TensorMemory> tensor_memory = TensorMemory::begin(ctx);
  ctx.tensor_memory = tensor_memory.get();
  if (auto done = lower_body(ctx, shaped.copied); !done) return done.error();
  if (tensor_memory) tensor_memory->end();
  ctx.ir.CreateRetVoid();
  SharedPlan shared;
  const SharedFacts facts{*ctx.function, part ? part : ctx.consumer_group, ctx, shared};
  run_passes(shared_passes(), module, observer, facts);
  if (ctx.lines) ctx.lines->finish();
  out.checks = std::move(ctx.checks);
  out.prints = std::move(ctx.prints);
  out.shared_bytes = shared.bytes * block.programs;
  return out;
}

}  // namespace

std::span<const LlvmPass<SharedFacts>> shared_passes() { return kSharedPasses; }

Result<Lowered> lower(const dsl::Kernel& kernel, const TargetInfo& target, const LaunchShape& launch,
                      const std::string& processor, llvm::Module& module, const std::string& entry,
                      const PassObserver& observer) {
  for (LaunchShape asked = launch;;) {
    auto shaped = choose_shape(kernel, target, asked, processor, observer);
    if (!shaped) return shaped.error();
    auto lowered = lower_shaped(*shaped, target, processor, module, entry, observer);
    if (!lowered) return lowered;
    auto smaller = smaller_shape(*shaped, lowered->shared_bytes, target, processor);
    if (!smaller) return smaller.error();
    if (!*smaller) return lowered;
    remove_code(module);
    asked = **smaller;
  }
}

}  // namespace kiln::codegen::gpu
