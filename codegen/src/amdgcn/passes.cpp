#include "amdgcn/passes.h"

#include <llvm/ADT/StringSet.h>
#include <llvm/Pass.h>
#include <llvm/PassInfo.h>
#include <llvm/PassRegistry.h>

#include <memory>

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
      "amdgpu-image-intrinsic-opt", "amdgpu-lower-buffer-fat-pointers", "amdgpu-remove-incompatible-functions",
      "expand-large-div-rem", "expand-large-fp-convert", "init-undef",
      // done before, on the whole module (clean_up in emit.h, inline_functions)
      "always-inline", "amdgpu-always-inline", "infer-address-spaces", "lower-constant-intrinsics",
      // of frames
      "localstackalloc", "stack-coloring", "stack-frame-layout",
      // of instrumented code, and of variables in debug information, which has lines alone
      "fentry-insert", "livedebugvalues", "machine-sanmd", "post-inline-ee-instrument", "removeredundantdebugvalues",
      "xray-instrumentation",
      // that found nothing to improve in any kernel of the library
      "amdgpu-late-codegenprepare", "amdgpu-perf-hint", "consthoist", "early-tailduplication", "flattencfg"};
  return names;
}

}  // namespace

void CodeGenerationPasses::add(llvm::Pass* pass) {
  const llvm::PassInfo* info = llvm::PassRegistry::getPassRegistry()->getPassInfo(pass->getPassID());
  if (info && left_out().contains(info->getPassArgument())) {
    const std::unique_ptr<llvm::Pass> unused(pass);
    return;
  }
  llvm::legacy::PassManager::add(pass);
}

}  // namespace kiln::codegen::amdgcn
