// The kernel function: its parameters, who the thread is, the ops.
#include "gpu/lower.h"

#include <algorithm>

#include "elementwise/calls.h"
#include "gpu/cluster.h"
#include "gpu/constant_loads.h"
#include "gpu/context.h"
#include "gpu/copying_warps.h"
#include "gpu/defer_reductions.h"
#include "gpu/gather_waits.h"
#include "gpu/held_tiles.h"
#include "gpu/launch_shape.h"
#include "gpu/order_products.h"
#include "gpu/persistent.h"
#include "gpu/plain_divisions.h"
#include "gpu/program_factors.h"
#include "gpu/shared_memory.h"
#include "gpu/stages.h"
#include "gpu/swap_factors.h"
#include "kiln/dsl/verify.h"
#include "passes/unpack_e2m1.h"

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

int most_stages(const std::map<const Op*, Pipeline>& pipelines) {
  int out = 0;
  for (const auto& [loop, pipeline] : pipelines) out = std::max(out, pipeline.asked_stages());
  return out;
}

Error refusal(const dsl::Kernel& kernel, const CrampedProduct& cramped, const TargetInfo& target,
              const BlockShape& block, const std::string& processor) {
  const std::string advice = cramped.warps > 0 ? "`num_warps = " + std::to_string(cramped.warps) + "` would do"
                                               : "no `num_warps` would do: its columns must be fewer";
  return error(ErrorCode::kCompileFailed,
               dsl::diagnostic(kernel, cramped.dot->loc,
                               "target `" + processor + "`: dot: " + std::to_string(block.warps) +
                                   " warps leave a thread " + std::to_string(target.most_registers(block.threads())) +
                                   " registers, too few for the sums of a product; " + advice));
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

Result<Lowered> lower(const dsl::Kernel& optimised, const TargetInfo& target, const LaunchShape& launch,
                      const std::string& processor, llvm::Module& module, const std::string& entry_name) {
  BlockShape block{target.lanes(), launch.warps, launch.programs};
  block.persistent = launch.persistent && target.bulk_engine() && launch.programs == 1;
  block.queued = launch.queued && block.persistent;
  if (block.persistent && block.warps == kCrewWarps) block.crews = launch.crews;
  block.most_stages = launch.most_stages;
  Lowered out;
  out.programs = block.programs;
  out.kernel = std::make_shared<const dsl::Kernel>(order_products(gather_waits(
      defer_reductions(swap_factors(unpack_e2m1(optimised), target, block), block.threads()), block.threads())));
  if (const auto cramped = cramped_product(*out.kernel, target, block)) {
    if (launch.is_given || cramped->warps == 0) return refusal(*out.kernel, *cramped, target, block, processor);
    LaunchShape other = launch;
    other.warps = cramped->warps;
    return lower(optimised, target, other, processor, module, entry_name);
  }
  std::vector<AxisInfo> info = axis_info(*out.kernel, Wrap::kIndex);
  Placement placement = place(*out.kernel, target, block, info);
  if (placement.pipelines.empty() && holds_too_much(*out.kernel, placement)) {
    out.kernel = std::make_shared<const dsl::Kernel>(load_late(*out.kernel));
    info = axis_info(*out.kernel, Wrap::kIndex);
    placement = place(*out.kernel, target, block, info);
  }
  const dsl::Kernel& kernel = *out.kernel;
  if (auto fits = check_held_tiles(kernel, placement, target, block, processor); !fits) return fits.error();
  const Op* copied = launch.specialise && target.bulk_engine() ? loop_for_copying_warps(kernel, placement) : nullptr;
  if (copied) block.copying = target.bulk_engine()->copying_warps(block);
  const auto without_persistence = [&] {
    remove_code(module);
    LaunchShape other = launch;
    other.persistent = other.queued = false;
    return lower(optimised, target, other, processor, module, entry_name);
  };
  if (block.persistent && block.copying == 0) return without_persistence();
  if (block.crews > 1 && !is_fit_for_crews(kernel, *copied, info, placement.pipelines.at(copied))) {
    remove_code(module);
    LaunchShape other = launch;
    other.crews = 1;
    return lower(optimised, target, other, processor, module, entry_name);
  }
  const bool in_cluster = block.persistent && launch.cluster > 1 && target.bulk_engine()->most_of_cluster() > 1 &&
                          plan_cluster(kernel, *copied, info, placement.pipelines.at(copied));
  if (in_cluster) block.cluster = launch.cluster;
  if (block.persistent && !block.queued) {
    LinearForms forms(kernel, info);
    block.turns = !is_alike_in_all_programs(*copied, forms);
  }
  out.threads = block.block_threads();
  out.persistent = block.persistent;
  out.queued = block.queued;
  out.cluster = block.cluster;
  Context c(kernel, target, module, placement, block, processor);
  c.effort = launch.effort;
  c.info = std::move(info);
  c.forms.emplace(kernel, c.info);
  c.constant_loads = constant_loads(kernel);
  c.plain_divisions = plain_divisions(kernel);
  // A product of several warps would wait for its end beside calls (docs/gpu-codegen.md).
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
    if (auto begun = begin_copying_warps(c, *copied); !begun) return begun.error();
  }
  if (auto done = lower_body(c, copied); !done) return done.error();
  c.b.CreateRetVoid();
  const SharedPlan shared = allocate_shared_memory(*c.function, part ? part : c.crew, block.crews);
  insert_barriers(*c.function, shared, c.order, target, block);
  if (c.lines) c.lines->finish();
  out.checks = std::move(c.checks);
  out.prints = std::move(c.prints);
  out.shared_bytes = shared.bytes * block.programs;
  // Several programs in a block are for those that are small.
  if (block.programs > 1 && out.shared_bytes > target.lane_facts().shared_bytes / 4) {
    remove_code(module);
    LaunchShape other = launch;
    other.programs = 1;
    other.persistent = other.queued = false;
    return lower(optimised, target, other, processor, module, entry_name);
  }
  const bool is_too_large = out.shared_bytes > target.lane_facts().shared_bytes;
  if (block.crews > 1 && is_too_large && most_stages(placement.pipelines) > 2) {
    remove_code(module);
    LaunchShape other = launch;
    other.most_stages = most_stages(placement.pipelines) - 1;
    return lower(optimised, target, other, processor, module, entry_name);
  }
  if (block.persistent && is_too_large) return without_persistence();
  if (is_too_large && !placement.pipelines.empty()) {
    // What stands beside the loops needs more than their stages left to it.
    remove_code(module);
    LaunchShape other = launch;
    other.most_stages = most_stages(placement.pipelines) - 1;
    return lower(optimised, target, other, processor, module, entry_name);
  }
  if (is_too_large) {
    return error(ErrorCode::kCompileFailed, "kernel `" + kernel.name + "` needs " + std::to_string(out.shared_bytes) +
                                                " bytes of shared memory a block; " + processor + " has " +
                                                std::to_string(target.lane_facts().shared_bytes));
  }
  return out;
}

}  // namespace kiln::codegen::gpu
