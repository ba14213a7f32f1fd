// code-digests TARGET EMIT [--backwards]: what each third kernel of the library, or with KILN_TEST_ALL each, compiles
// to with its defaults, as a line of its name, the size of the code and a hash of it, or the error; the kernels one
// after the other in this process, or from the last to the first. Another target has other kernels.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "kiln/dsl/kernels.h"
#include "requests/requests.h"

int main(int argc, char** argv) {
  using namespace kiln;
  if (argc < 3) return 1;
  std::vector<const dsl::LibraryKernel*> kernels;
  const size_t part = std::getenv("KILN_TEST_ALL") ? 1 : 3;
  size_t at = std::strlen(argv[1]);
  for (const dsl::LibraryKernel& kernel : dsl::library_kernels()) {
    if (at++ % part == 0) kernels.push_back(&kernel);
  }
  if (argc > 3 && std::strcmp(argv[3], "--backwards") == 0) std::ranges::reverse(kernels);
  for (const dsl::LibraryKernel* kernel : kernels) {
    const dsl::Kernel& ir = **kernel->ir;
    const auto artifact = test::compile_kernel(ir, argv[1], {}, test::aligned_facts(ir), argv[2]);
    const std::string name(kernel->name);
    if (!artifact) {
      std::printf("%s: %s\n", name.c_str(), artifact.error().message.c_str());
      continue;
    }
    const std::string_view code(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
    std::printf("%s %zu %016zx\n", name.c_str(), code.size(), std::hash<std::string_view>()(code));
  }
  return 0;
}
