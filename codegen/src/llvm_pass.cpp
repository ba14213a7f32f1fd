#include "llvm_pass.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "emit.h"
#ifdef KILN_CHECK_PASSES
#include <cstdlib>
#endif

namespace kiln::codegen {

Result<void> check_module(const llvm::Module& module) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream)) return internal_error("the compiler made invalid LLVM IR: " + message);
  return {};
}

void after_pass(std::string_view name, const llvm::Module& module, const PassObserver& observer) {
#ifdef KILN_CHECK_PASSES
  if (auto sound = check_module(module); !sound) {
    llvm::errs() << "after the pass " << name << ": " << sound.error().message << "\n" << module;
    std::abort();
  }
#endif
  if (observer.end) observer.end(name, [&] { return print_module(module); });
}

}  // namespace kiln::codegen
