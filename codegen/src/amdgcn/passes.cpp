#include "amdgcn/passes.h"

#include <llvm/ADT/StringSet.h>
#include <llvm/Pass.h>
#include <llvm/PassInfo.h>
#include <llvm/PassRegistry.h>

#include <climits>

#include "amdgcn/wide_constants.h"
#include "emit.h"

namespace kiln::codegen::amdgcn {
namespace {

// For what our code never has; each would walk it, and most want analyses of their own before.
const llvm::StringSet<>& left_out() {
  static const llvm::StringSet<> names = {
      // of other languages and their runtime libraries
      "amdgpu-lower-ctor-dtor", "amdgpu-lower-enqueued-block", "amdgpu-printf-runtime-binding", "callbrprepare",
      "expand-memcmp", "expandvp", "fixup-statepoint-caller-saved", "lowerinvoke", "mergeicmps",
      "partially-inline-libcalls", "replace-with-veclib", "safe-stack", "scalarize-masked-mem-intrin",
      "stack-protector", "tlshoist",
      // of types and intrinsics that lowering does not use
      "amdgpu-image-intrinsic-opt", "amdgpu-lower-buffer-fat-pointers", "amdgpu-nsa-reassign",
      "amdgpu-remove-incompatible-functions", "expand-large-div-rem", "expand-large-fp-convert", "init-undef",
      // done before, on the whole module (clean_up in emit.h, inline_functions)
      "always-inline", "amdgpu-always-inline", "infer-address-spaces", "lower-constant-intrinsics",
      // of frames
      "amdgpu-mark-last-scratch-load", "localstackalloc", "machine-latecleanup", "shrink-wrap", "stack-coloring",
      "stack-frame-layout",
      // of instrumented code, and of variables in debug information, which has lines alone
      "fentry-insert", "livedebugvalues", "machine-sanmd", "post-inline-ee-instrument", "removeredundantdebugvalues",
      "xray-instrumentation",
      // of scheduling behind register allocation, which there is none of
      "postmisched", "si-post-ra-bundler",
      // that bring what another block wants there, and then hold its operands in registers on the way
      "machine-sink", "postra-machine-sink", "sink",
      // that found nothing to improve in any kernel of the library
      "amdgpu-late-codegenprepare", "amdgpu-perf-hint", "consthoist", "early-tailduplication", "flattencfg", "opt-phis",
      "tailduplication"};
  return names;
}

// A pass over functions that is made anew for each: what it found in one, and keeps by addresses, is nothing to the
// next, whose values may have the same addresses. Functions of more than `most` instructions go without.
class MadeAnew : public llvm::FunctionPass {
 public:
  MadeAnew(std::unique_ptr<llvm::Pass> first, const llvm::PassInfo& info, unsigned most)
      : FunctionPass(kId), first_(std::move(first)), info_(info), most_(most) {}

  llvm::StringRef getPassName() const override { return info_.getPassName(); }
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override { first_->getAnalysisUsage(usage); }

  bool runOnFunction(llvm::Function& function) override {
    if (function.getInstructionCount() > most_) return false;
    const std::unique_ptr<llvm::Pass> pass(info_.createPass());
    auto* analyses = new llvm::AnalysisResolver(getResolver()->getPMDataManager());
    pass->setResolver(analyses);  // which deletes it
    llvm::AnalysisUsage usage;
    pass->getAnalysisUsage(usage);
    for (const llvm::AnalysisID id : usage.getRequiredSet()) {
      analyses->addAnalysisImplsPair(id, getResolver()->findImplPass(id));
    }
    return static_cast<FunctionPass&>(*pass).runOnFunction(function);
  }

 private:
  static char kId;

  std::unique_ptr<llvm::Pass> first_;
  const llvm::PassInfo& info_;
  const unsigned most_;
};

char MadeAnew::kId = 0;

// Remembers by address the values that scalar loads of all functions before read, and waits for those loads before a
// store to such a value.
constexpr char kKeepsAddresses[] = "si-insert-waitcnts";

// Whose time grows with the cube of a chain of selects, and the most instructions of a function that it sees: 2.3 s of
// the 22000 of a hundred hyperbolic tangents one after the other, 20 s of twice as many.
constexpr char kGrowsFast[] = "codegenprepare";
constexpr unsigned kMostPrepared = 16384;

// Whose constants wide_constants.h mends.
constexpr char kFoldsConstants[] = "peephole-opt";

}  // namespace

void CodeGenerationPasses::add(llvm::Pass* pass) {
  const llvm::PassInfo* info = llvm::PassRegistry::getPassRegistry()->getPassInfo(pass->getPassID());
  if (info && left_out().contains(info->getPassArgument())) {
    const std::unique_ptr<llvm::Pass> unused(pass);
    return;
  }
  const llvm::StringRef name = info ? info->getPassArgument() : "";
  if (name == kKeepsAddresses || name == kGrowsFast) {
    const unsigned most = name == kGrowsFast ? kMostPrepared : UINT_MAX;
    pass = new MadeAnew(std::unique_ptr<llvm::Pass>(pass), *info, most);
  }
  llvm::legacy::PassManager::add(pass);
  if (name == kFoldsConstants) llvm::legacy::PassManager::add(make_wide_constants_pass());
}

namespace {

// What LLVM's code generator does that our code has no use for: addresses are computed once, accesses are as wide as
// they get and in their order, and nothing is computed twice. To ask an alias analysis about all pairs of accesses of a
// block changes no kernel's code, and takes up to a quarter of the time. Where registers bound the waves of a SIMD, the
// scheduler would order each block once more for more of its loads at once, which takes a sixth of the time of such a
// kernel: of the library's on five processors none has fewer waves without it, and none a spill that it had not.
constexpr CodeGenerationSwitch kTrimmed[] = {
    {"disable-lsr", "true"},
    {"disable-machine-cse", "true"},
    {"amdgpu-scalar-ir-passes", "false"},
    {"amdgpu-load-store-vectorizer", "false"},
    {"amdgpu-opt-vgpr-liverange", "false"},
    {"amdgpu-enable-pre-ra-optimizations", "false"},
    {"amdgpu-atomic-optimizer-strategy", "None"},
    {"amdgpu-disable-clustered-low-occupancy-reschedule", "true"},
    {"combiner-global-alias-analysis", "false"},
    {"enable-aa-sched-mi", "false"},
    {"enable-post-misched", "false"},
};

}  // namespace

std::unique_ptr<CodeGenerator> CodeGenerator::create(llvm::TargetMachine& machine, llvm::CodeGenFileType type) {
  const CodeGenerationSwitches trimmed(kTrimmed);
  std::unique_ptr<CodeGenerator> out(new CodeGenerator);
  const bool fails = machine.addPassesToEmitFile(out->passes_, out->stream_, nullptr, type, /*DisableVerify=*/true);
  return fails ? nullptr : std::move(out);
}

llvm::SmallVector<char, 0> CodeGenerator::emit(llvm::Module& module) {
  const CodeGenerationSwitches trimmed(kTrimmed);
  buffer_.clear();
  passes_.run(module);
  return std::move(buffer_);
}

}  // namespace kiln::codegen::amdgcn
