// From a kernel to code for the host: as gpu/lower_launches.cpp has it, with another target.
#include "kiln/codegen/compile.h"

#include <llvm/Support/raw_ostream.h>

#include <cstdlib>

#include "emit.h"
#include "emulated_target.h"
#include "gpu/lower.h"
#include "gpu_emulator.h"
#include "instrument.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"
#include "llvm_pass.h"
#include "passes/pipeline.h"
#include "reports.h"
#include "supported.h"
#include "target.h"

namespace kiln::test {
namespace {

namespace gpu = codegen::gpu;

constexpr char kPrefix[] = "gpu";
constexpr std::string_view kLike = "like=";
constexpr std::array kWarps = {1, 2, 4, 8, 4, 2, 16, 4};

struct Shape {
  int warps = 4, lanes = 32;
  bool groups = false;  // products of several warps
  int programs = 1;     // of a block
  // 1: warps of their own copy, where they may; 2: blocks are persistent then; 3: share a queue; 4: have two consumer
  // groups
  int copying = 0;
  const target::NvidiaGpu* like = nullptr;
};

std::optional<int> number_in(const std::string& target, const std::string& name) {
  const size_t at = target.find(name + "=");
  if (at == std::string::npos) return std::nullopt;
  return std::atoi(target.c_str() + at + name.size() + 1);
}

Shape shape_of(const std::string& target, const dsl::Kernel& kernel) {
  const size_t hash = std::hash<std::string>()(dsl::print(kernel));
  Shape out{kWarps[hash % kWarps.size()], hash / kWarps.size() % 4 == 0 ? 64 : 32};
  out.warps = number_in(target, "warps").value_or(out.warps);
  out.lanes = number_in(target, "lanes").value_or(number_in(target, "warps") ? 32 : out.lanes);
  if (const size_t at = target.find(kLike); at != std::string::npos) {
    const std::string name = target.substr(at + kLike.size());
    out.like = target::find_nvidia_gpu(name.substr(0, name.find(',')));
    out.lanes = 32;
  }
  if (out.warps * out.lanes > 1024) out.lanes = 32;
  const bool shares = out.warps == 1 && !gpu::has_products(kernel.body);
  out.programs = shares ? number_in(target, "programs").value_or(hash / 64 % 2 == 0 ? 4 : 1) : 1;
  out.copying = number_in(target, "copying").value_or(static_cast<int>(hash / 128 % 5));
  out.groups = out.lanes == 32 && number_in(target, "groups").value_or(static_cast<int>(hash / 32 % 2)) != 0;
  return out;
}

// Code is made once and runs once: as little as possible is spent on making it good.
Result<codegen::CpuTarget*> host_target() {
  static std::unique_ptr<codegen::CpuTarget> host;
  if (host) return host.get();
  auto made = codegen::make_cpu_target(codegen::native_target());
  if (!made) return made.error();
  host = std::move(*made);
  host->machine->setOptLevel(llvm::CodeGenOptLevel::None);
  host->machine->setFastISel(true);
  return host.get();
}

// The instructions that FastISel does not know, such as those on f16, send the rest of their block through a DAG whose
// handling takes time that is quadratic in its size: minutes for a block of ten thousand.
void split_blocks(llvm::Function& function) {
  constexpr int kLongest = 200;
  for (auto block = function.begin(); block != function.end(); ++block) {
    int length = 0;
    for (llvm::Instruction& instruction : *block) {
      const bool may_begin = !llvm::isa<llvm::PHINode, llvm::AllocaInst>(instruction) && !instruction.isTerminator();
      length = may_begin ? length + 1 : 0;
      if (length <= kLongest) continue;
      block->splitBasicBlock(&instruction);  // visited next
      break;
    }
  }
}

}  // namespace

bool is_emulated(const std::string& target) { return target.starts_with(kPrefix); }

Result<Artifact> compile_emulated(const dsl::Kernel& source, const dsl::ConstexprValues& constexprs,
                                  const dsl::Facts& facts, const std::string& target) {
  auto instantiated = dsl::instantiate(source, constexprs, facts);
  if (!instantiated) return instantiated.error();
  const dsl::Kernel kernel = codegen::run_passes(std::move(*instantiated));
  const target::Processor processor{.family = target::Family::kNvidia, .nvidia = &target::nvidia_gpus().front()};
  if (auto fine = codegen::check_supported(kernel, processor, target); !fine) return fine.error();
  auto host = host_target();
  if (!host) return host.error();
  llvm::LLVMContext context;
  llvm::Module module("kiln", context);
  module.setTargetTriple((*host)->machine->getTargetTriple());
  module.setDataLayout((*host)->machine->createDataLayout());
  const Shape shape = shape_of(target, kernel);
  if (shape.like == nullptr && target.find(kLike) != std::string::npos) {
    return invalid_argument("emulator: no processor is like `" + target + "`");
  }
  auto lowered = gpu::lower(kernel, EmulatedTarget(shape.lanes, shape.groups, shape.like),
                            {.warps = shape.warps,
                             .programs = shape.programs,
                             .specialise = shape.copying > 0,
                             .persistent = shape.copying >= 2,
                             .queued = shape.copying == 3,
                             .consumer_groups = shape.copying == 4 ? 2 : 1,
                             .effort = gpu::effort_for(facts)},
                            target, module);
  if (!lowered) return lowered.error();
  llvm::Function& function = *module.getFunction("kiln_entry");
  place_shared_memory(module, function);
  if (std::getenv("KILN_EMULATOR_PRINT")) llvm::errs() << module;
  if (auto valid = codegen::check_module(module); !valid) return valid.error();
  codegen::clean_up(module, *(*host)->machine, codegen::Invariants::kHoist);
  watch_shared_memory(function);
  split_blocks(function);
  add_entry(module, function, shape.lanes);
  if (auto valid = codegen::check_module(module); !valid) return valid.error();
  auto object = codegen::emit_object(module, **host);
  if (!object) return object.error();
  auto code = codegen::link_shared(*object);
  if (!code) return code.error();

  auto values = dsl::complete_constexprs(source, constexprs);
  if (!values) return values.error();
  abi::Metadata metadata;
  metadata.target = target;
  metadata.params_bytes = 8 * static_cast<int64_t>(kernel.params.size());  // parameters lie in slots of 8 bytes
  metadata.constexprs = std::move(*values);
  metadata.facts = facts;
  abi::Device& device = metadata.device.emplace();
  device.threads = lowered->threads;
  device.programs = lowered->programs;
  device.shared_bytes = lowered->shared_bytes;
  device.tensor_maps = lowered->tensor_maps;
  codegen::describe_launch(kernel, *lowered, metadata);
  return Artifact{std::move(metadata), std::move(*code)};
}

}  // namespace kiln::test
