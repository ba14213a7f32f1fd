// Passes on LLVM IR as rows of a table, as those on the tile IR are (passes/pass.h).
#pragma once

#include <llvm/IR/Module.h>

#include "kiln/dsl/result.h"
#include "passes/pass.h"

namespace kiln::codegen {

template <class... Facts>
struct LlvmPass {
  std::string_view name;
  void (*run)(llvm::Module& module, const Facts&... facts);
  std::string_view place;
};

// A module that LLVM's verifier rejects is a bug of ours; better an error than LLVM's behaviour on broken IR.
Result<void> check_module(const llvm::Module& module);

// What follows each pass: where KILN_CHECK_PASSES is defined (debug builds) broken IR ends the process.
void after_pass(std::string_view name, const llvm::Module& module, const PassObserver& observer);

template <class... Facts>
void run_passes(std::span<const LlvmPass<Facts...>> passes, llvm::Module& module, const PassObserver& observer,
                const Facts&... facts) {
  for (const LlvmPass<Facts...>& pass : passes) {
    if (observer.begin) observer.begin(pass.name);
    pass.run(module, facts...);
    after_pass(pass.name, module, observer);
  }
}

}  // namespace kiln::codegen
