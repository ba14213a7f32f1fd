// The kernel function: its parameters, who the thread is, the ops.
#include "gpu/lower.h"

#include <algorithm>

#include "elementwise/calls.h"
#include "gpu/analysis/constant_loads.h"
#include "gpu/analysis/plain_divisions.h"
#include "gpu/analysis/program_factors.h"
#include "gpu/block/shape.h"
#include "gpu/context.h"
#include "gpu/llvm_passes/allocate_shared.h"
#include "gpu/llvm_passes/insert_barriers.h"
#include "gpu/pipeline/bulk_store.h"
#include "gpu/pipeline/cluster.h"
#include "gpu/pipeline/copying_warps.h"
#include "gpu/pipeline/persistent.h"
#include "gpu/region.h"
#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

void note_launch_params(const dsl::KernelOptions& options, const dsl::Region& region, LaunchParams& out) {
  for (const Op& op : region.ops) {
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
    for (const dsl::Region& inner : op.regions) note_launch_params(options, inner, out);
  }
}

// A long op on so many registers of a thread counts as one of those that are too many to be inline (calls.h).
constexpr int64_t kRegistersTogether = 8;

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

void define_launch_params(Context& c, const abi::LaunchCounts& launch) {
  auto next = static_cast<unsigned>(c.kernel.params.size());
  std::vector<Value*> extents;
  for (const abi::LaunchParam& param : abi::lay_out_launch_block(0, launch).tail) {
    llvm::Argument* argument = c.function->getArg(next++);
    const auto pointer = [&] { return c.b.CreateAddrSpaceCast(argument, c.b.getPtrTy()); };
    switch (param.field) {
      case abi::LaunchField::kWorkspace:
        break;
      case abi::LaunchField::kTensorMaps:
        c.tensor_maps.push_back(argument);
        break;
      case abi::LaunchField::kFailure:
        c.failure_record = pointer();
        break;
      case abi::LaunchField::kExtents:
        extents.push_back(argument);
        break;
      case abi::LaunchField::kPrint:
        c.print_ring = pointer();
        break;
      case abi::LaunchField::kPrograms:
        c.num_programs[0] = c.b.CreateTrunc(argument, c.b.getInt32Ty());
        break;
      case abi::LaunchField::kGrid:
        c.num_programs[param.index] = argument;
        break;
      case abi::LaunchField::kQueue:
        c.program_counter = pointer();
        break;
    }
  }
  if (extents.empty()) return;
  auto extent = extents.begin();
  for (const dsl::Param& param : c.kernel.params) c.extents.push_back(param.type.pointer ? *extent++ : nullptr);
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

std::vector<TensorMap> maps_of(const BulkAccesses& accesses) {
  std::vector<TensorMap> out(accesses.size());
  for (const auto& [op, access] : accesses) out[access.map] = access.tile.map;
  return out;
}

// Which of the block's programs the thread is in; null: there is one.
llvm::Instruction* define_thread(Context& c) {
  Builder& b = c.b;
  Value* thread = c.target.thread_id(b);
  c.lane = b.CreateAnd(thread, b.getInt32(static_cast<uint32_t>(c.block.lanes - 1)), "lane");
  Value* warp =
      b.CreateLShr(thread, b.getInt32(static_cast<uint32_t>(__builtin_ctz(static_cast<unsigned>(c.block.lanes)))));
  c.warp = c.block.warps == 1 ? b.getInt32(0) : c.target.warp_uniform(b, warp);
  c.thread = thread;
  if (c.block.crews > 1) {
    const auto warps = static_cast<uint32_t>(c.block.warps), threads = static_cast<uint32_t>(c.block.threads());
    c.crew = llvm::cast<llvm::Instruction>(b.CreateUDiv(c.warp, b.getInt32(warps), "crew"));
    c.warp = b.CreateURem(c.warp, b.getInt32(warps));
    c.thread = b.CreateURem(thread, b.getInt32(threads));
  }
  for (int axis = 0; axis < 3; ++axis) {
    c.program_id[static_cast<size_t>(axis)] = c.target.program_id(b, axis);
    c.num_programs[static_cast<size_t>(axis)] = c.target.num_programs(b, axis);
  }
  if (c.block.programs == 1) return nullptr;
  auto* part = llvm::cast<llvm::Instruction>(c.target.warp_uniform(b, warp));
  Value* first = b.CreateMul(c.program_id[0], b.getInt32(static_cast<uint32_t>(c.block.programs)));
  c.program_id[0] = b.CreateAdd(first, part);
  return part;
}

// Programs of the last block that the grid has not.
void leave_beyond_grid(Context& c) {
  Builder& b = c.b;
  auto* outside = llvm::BasicBlock::Create(b.getContext(), "outside", c.function);
  auto* inside = llvm::BasicBlock::Create(b.getContext(), "inside", c.function);
  b.CreateCondBr(b.CreateICmpULT(c.program_id[0], c.num_programs[0]), inside, outside);
  b.SetInsertPoint(outside);
  b.CreateRetVoid();
  b.SetInsertPoint(inside);
}

// `factors`: the parity of the barrier of those that the loop has, or null.
Result<void> lower_program(Context& c, const Op* copied, llvm::AllocaInst* factors) {
  if (!factors) return lower_region(c, c.kernel.body);
  const Pipeline& pipeline = c.placement.pipelines.at(copied);
  const Op* last = last_reader(c.kernel, pipeline);
  take_factors(c, pipeline, factors);
  return lower_region(c, c.kernel.body, [&](const Op& op) {
    auto done = lower_op(c, op);
    if (done && &op == last) leave_factors(c);
    return done;
  });
}

// All that a program's threads do.
Result<void> lower_body(Context& c, const Op* copied) {
  if (!c.block.persistent) return lower_region(c, c.kernel.body);
  llvm::AllocaInst* parity = c.factors ? begin_factors(c, false) : nullptr;
  const ProgramLoop programs = begin_programs(c, ProgramRole::kComputes);
  if (auto done = lower_program(c, copied, parity); !done) return done;
  end_programs(c, programs);
  c.target.bulk_engine()->wait_store_groups(c.b, 0, true, tells_of_stores(c));
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
  LaunchParams out;
  note_launch_params(kernel.options, kernel.body, out);
  return out;
}

// What is marked in the code of a kernel that is complete, and what becomes of it.
struct SharedFacts {
  llvm::Function& function;
  llvm::Instruction* part;  // which part of the block the thread is in; null: it has one
  Context& c;
  SharedPlan& plan;
};

namespace {

constexpr LlvmPass<SharedFacts> kSharedPasses[] = {
    {"allocate_shared",
     [](llvm::Module&, const SharedFacts& facts) {
       facts.plan = allocate_shared_memory(facts.function, facts.part, facts.c.block.crews);
     },
     "once all buffers are asked for; the marks of their accesses are still there"},
    {"insert_barriers",
     [](llvm::Module&, const SharedFacts& facts) {
       insert_barriers(facts.function, facts.plan, facts.c.order, facts.c.target, facts.c.block);
     },
     "once it is known which buffers share bytes"},
};

// The code of one shape.
Result<Lowered> lower_shaped(const ShapedKernel& shaped, const TargetInfo& target, const std::string& processor,
                             llvm::Module& module, const std::string& entry_name, const PassObserver& observer) {
  const dsl::Kernel& kernel = *shaped.kernel;
  const BlockShape& block = shaped.block;
  const Placement& placement = shaped.placement;
  const LaunchShape& launch = shaped.launch;
  Lowered out;
  out.kernel = shaped.kernel;
  out.programs = block.programs;
  out.threads = block.block_threads();
  out.persistent = block.persistent;
  out.queued = block.queued;
  out.cluster = block.cluster;
  Context c(kernel, target, module, placement, block, processor);
  c.effort = launch.effort;
  c.info = shaped.info;
  c.forms.emplace(kernel, c.info);
  c.constant_loads = constant_loads(kernel);
  c.plain_divisions = plain_divisions(kernel);
  // A product of several warps would wait for its end beside calls (docs/inside/gpu/products.md).
  c.calls_long_ops = !has_products(kernel.body) && has_many_long_ops(kernel, kRegistersTogether * block.threads());
  if (target.bulk_engine() && allows_bulk(kernel) && block.programs == 1)
    c.bulk = plan_bulk_accesses(kernel, placement, c.info, block, launch.bulk_stores);
  out.tensor_maps = maps_of(c.bulk);
  out.launch = launch_counts(kernel, out.tensor_maps.size(), block);
  const std::vector<llvm::Type*> params = parameter_types(kernel, out.launch, module.getContext());
  c.function = target.create_kernel(module, entry_name, params, out.threads);
  auto* entry = llvm::BasicBlock::Create(module.getContext(), "entry", c.function);
  auto* body = llvm::BasicBlock::Create(module.getContext(), "body", c.function);
  c.b.SetInsertPoint(entry);
  c.prologue_end = c.b.CreateBr(body);
  c.b.SetInsertPoint(c.prologue_end);
  llvm::Instruction* part = define_thread(c);
  define_parameters(c);
  define_launch_params(c, out.launch);
  c.b.SetInsertPoint(body);
  if (part) leave_beyond_grid(c);
  if (kernel.options.names_lines()) c.lines = std::make_unique<DebugLines>(kernel, *c.function);
  if (block.copying == 0) {
    for (Value* map : c.tensor_maps) {
      target.bulk_engine()->prefetch_map(c.b, map, c.b.CreateIsNull(target.thread_id(c.b)));
    }
  }
  if (block.copying > 0) {
    if (auto begun = begin_copying_warps(c, *shaped.copied); !begun) return begun.error();
  }
  if (auto done = lower_body(c, shaped.copied); !done) return done.error();
  c.b.CreateRetVoid();
  SharedPlan shared;
  const SharedFacts facts{*c.function, part ? part : c.crew, c, shared};
  run_passes(shared_passes(), module, observer, facts);
  if (c.lines) c.lines->finish();
  out.checks = std::move(c.checks);
  out.prints = std::move(c.prints);
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
