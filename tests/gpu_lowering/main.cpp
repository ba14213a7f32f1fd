// kiln-gpu-lowering [--warps N] [--lanes N] [--aligned] FILE.kiln: where the tiles of a kernel live, a line for each
// value that has a name and for each store. `--aligned`: pointers and ints are multiples of 16.
// kiln-gpu-lowering --shared FILE.ll: LLVM IR with marked buffers, after places and barriers.
#include <llvm/IR/Module.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "emulated_target.h"
#include "gpu/global_order.h"
#include "gpu/placement.h"
#include "gpu/shared_memory.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"

namespace {

namespace dsl = kiln::dsl;
namespace gpu = kiln::codegen::gpu;
using kiln::test::EmulatedTarget;

struct Options {
  gpu::BlockShape block;
  bool aligned = false, shared = false;
  std::string file;
};

int fail(const std::string& message) {
  std::fprintf(stderr, "kiln-gpu-lowering: %s\n", message.c_str());
  return 1;
}

// Barriers that a golden file can name.
class NamedBarriers : public EmulatedTarget {
 public:
  using EmulatedTarget::EmulatedTarget;
  void barrier(Builder& b) const override {
    llvm::Module& module = *b.GetInsertBlock()->getModule();
    b.CreateCall(module.getOrInsertFunction("barrier", b.getVoidTy()));
  }
};

void print_region(const dsl::Kernel& kernel, const gpu::Placement& placement, const dsl::Region& region) {
  for (const dsl::Op& op : region.ops) {
    for (dsl::ValueId id : op.results) {
      if (kernel.type(id).rank() == 0 || kernel.values[id].name.empty()) continue;
      const auto& home = placement.home[id];
      std::printf("%%%s: %s\n", kernel.values[id].name.c_str(), home ? to_string(*home).c_str() : "no home");
    }
    const auto wanted = placement.wanted.find(&op);
    if (op.results.empty() && wanted != placement.wanted.end()) {
      std::printf("%s: %s\n", std::string(dsl::info(op.code).name).c_str(), to_string(wanted->second).c_str());
    }
    for (const dsl::Region& inner : op.regions) print_region(kernel, placement, inner);
  }
}

int print_placement(const Options& options) {
  std::ifstream stream(options.file);
  std::stringstream text;
  text << stream.rdbuf();
  auto parsed = dsl::parse(text.str(), options.file);
  if (!parsed) return fail(parsed.error().message);
  dsl::Facts facts;
  for (const dsl::Param& param : parsed->params) {
    const bool is_float = !param.type.pointer && dsl::is_float(param.type.element);
    facts.push_back(!options.aligned || is_float ? dsl::ParamFact::kNone
                    : param.type.pointer         ? dsl::ParamFact::kAlign16
                                                 : dsl::ParamFact::kMultiple16);
  }
  auto kernel = dsl::instantiate(*parsed, {}, facts);
  if (!kernel) return fail(kernel.error().message);
  const auto info = kiln::codegen::axis_info(*kernel, kiln::codegen::Wrap::kIndex);
  const gpu::Placement placement = gpu::place(*kernel, EmulatedTarget(options.block.lanes), options.block, info);
  print_region(*kernel, placement, kernel->body);
  return 0;
}

int print_shared(const Options& options) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  const auto module = llvm::parseIRFile(options.file, diagnostic, context);
  if (!module) return fail(diagnostic.getMessage().str());
  for (llvm::Function& function : *module) {
    if (function.isDeclaration()) continue;
    const gpu::SharedPlan plan = gpu::allocate_shared_memory(function);
    const dsl::Kernel none;
    gpu::insert_barriers(function, plan, gpu::GlobalOrder(none), NamedBarriers(options.block.lanes), options.block);
    llvm::outs() << "bytes: " << plan.bytes << "\n" << function;
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
    } else if (argument == "--shared") {
      options.shared = true;
    } else {
      options.file = argument;
    }
  }
  return options.shared ? print_shared(options) : print_placement(options);
}
