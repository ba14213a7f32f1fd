// kiln-gpu-lowering [--warps N] [--lanes N] [--aligned] FILE.kiln: where the tiles of a kernel live, a line for each
// value that has a name and for each store. `--aligned`: pointers and ints are multiples of 16. With --ir the tile IR
// after the passes for GPUs; with --code the LLVM IR, in which a target's instructions are calls; --groups: the target
// has products of several warps.
// kiln-gpu-lowering --shared FILE.ll: LLVM IR with marked buffers, after places and barriers. --late FILE.ll: LLVM IR
// whose computations are put where they are wanted.
#include <llvm/IR/Module.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "gpu/analysis/global_order.h"
#include "gpu/llvm_passes/allocate_shared.h"
#include "gpu/llvm_passes/compute_late.h"
#include "gpu/llvm_passes/insert_barriers.h"
#include "gpu/lower.h"
#include "gpu/passes/block_passes.h"
#include "gpu/placement.h"
#include "gpu/shared/shared_memory.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "kiln/dsl/walk.h"
#include "named_target.h"

namespace {

namespace dsl = kiln::dsl;
namespace gpu = kiln::codegen::gpu;
using kiln::test::NamedTarget;

struct Options {
  gpu::BlockShape block;
  bool aligned = false, groups = false;
  std::string print = "--placement";
  std::string file;
};

int fail(const std::string& message) {
  std::fprintf(stderr, "kiln-gpu-lowering: %s\n", message.c_str());
  return 1;
}

void print_layouts(const dsl::Kernel& kernel, const gpu::Placement& placement) {
  dsl::for_each_op(kernel, [&](const dsl::Op& op) {
    for (dsl::ValueId id : op.results) {
      if (kernel.type(id).rank() == 0 || kernel.values[id].name.empty()) continue;
      const auto& home = placement.home[id];
      std::printf("%%%s: %s\n", kernel.values[id].name.c_str(), home ? to_string(*home).c_str() : "no home");
    }
    const auto wanted = placement.wanted.find(&op);
    if (op.results.empty() && wanted != placement.wanted.end()) {
      std::printf("%s: %s\n", std::string(dsl::info(op.code).name).c_str(), to_string(wanted->second).c_str());
    }
  });
}

kiln::Result<dsl::Kernel> read_kernel(const Options& options) {
  std::ifstream stream(options.file);
  std::stringstream text;
  text << stream.rdbuf();
  auto parsed = dsl::parse(text.str(), options.file);
  if (!parsed) return parsed;
  dsl::Facts facts;
  for (const dsl::Param& param : parsed->params) {
    const bool is_float = !param.type.pointer && dsl::is_float(param.type.element);
    facts.push_back(!options.aligned || is_float ? dsl::ParamFact::kNone
                    : param.type.pointer         ? dsl::ParamFact::kAlign16
                                                 : dsl::ParamFact::kMultiple16);
  }
  return dsl::instantiate(*parsed, {}, facts);
}

int print_placement(const Options& options, const dsl::Kernel& kernel) {
  const auto info = kiln::codegen::axis_info(kernel, kiln::codegen::Wrap::kIndex);
  const gpu::Placement placement =
      gpu::place(kernel, NamedTarget(options.block.lanes, options.groups), options.block, info);
  print_layouts(kernel, placement);
  return 0;
}

int print_code(const Options& options, const dsl::Kernel& kernel) {
  llvm::LLVMContext context;
  llvm::Module module("kiln", context);
  const NamedTarget target(options.block.lanes, options.groups);
  const auto lowered = gpu::lower(kernel, target, {.warps = options.block.warps, .programs = 1}, "gpu", module);
  if (!lowered) return fail(lowered.error().message);
  llvm::outs() << *module.getFunction(gpu::kEntry);
  return 0;
}

int print_kernel(const Options& options) {
  auto kernel = read_kernel(options);
  if (!kernel) return fail(kernel.error().message);
  if (options.print == "--code") return print_code(options, *kernel);
  if (options.print == "--placement") return print_placement(options, *kernel);
  const NamedTarget target(options.block.lanes, options.groups);
  const gpu::BlockFacts facts{target, options.block};
  const dsl::Kernel passed = kiln::codegen::run_passes(
      gpu::block_passes(), kiln::codegen::run_passes(kiln::codegen::gpu_passes(), *kernel, {}), {}, facts);
  if (auto sound = dsl::verify(passed); !sound) return fail(sound.error().message);
  std::printf("%s", dsl::print(passed).c_str());
  return 0;
}

int print_module(const Options& options) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  const auto module = llvm::parseIRFile(options.file, diagnostic, context);
  if (!module) return fail(diagnostic.getMessage().str());
  for (llvm::Function& function : *module) {
    if (function.isDeclaration()) continue;
    if (options.print == "--late") {
      gpu::compute_late(function, false);
    } else {
      const gpu::SharedPlan plan = gpu::allocate_shared_memory(function);
      const dsl::Kernel none;
      gpu::insert_barriers(function, plan, gpu::GlobalOrder(none), NamedTarget(options.block.lanes), options.block);
      llvm::outs() << "bytes: " << plan.bytes << "\n";
    }
    llvm::outs() << function;
    return 0;
  }
  return fail("no function");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--warps" && i + 1 < argc) {
      options.block.warps = std::atoi(argv[++i]);
    } else if (argument == "--lanes" && i + 1 < argc) {
      options.block.lanes = std::atoi(argv[++i]);
    } else if (argument == "--aligned") {
      options.aligned = true;
    } else if (argument == "--groups") {
      options.groups = true;
    } else if (argument.starts_with("--")) {
      options.print = argument;
    } else {
      options.file = argument;
    }
  }
  return options.file.ends_with(".ll") ? print_module(options) : print_kernel(options);
}
