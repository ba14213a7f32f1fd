#include "passes/pass.h"

#include "kiln/dsl/text.h"
#ifdef KILN_CHECK_PASSES
#include <cstdio>
#include <cstdlib>

#include "kiln/dsl/verify.h"
#endif

namespace kiln::codegen {

void after_pass(std::string_view name, const dsl::Kernel& kernel, const PassObserver& observer) {
#ifdef KILN_CHECK_PASSES
  if (auto sound = dsl::verify(kernel); !sound) {
    std::fprintf(stderr, "the pass %.*s left an unsound kernel: %s\n%s", static_cast<int>(name.size()), name.data(),
                 sound.error().message.c_str(), dsl::print(kernel).c_str());
    std::abort();
  }
#endif
  if (observer.end) observer.end(name, [&] { return dsl::print(kernel); });
}

}  // namespace kiln::codegen
