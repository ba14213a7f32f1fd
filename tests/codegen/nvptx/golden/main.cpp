// kiln-ptx [--target cuda:SM] [--set NAME=VALUE]… [--aligned] (NAME | FILE.kiln): the PTX of a kernel of the library
// (or `attention_bf16`), or of a text, for an NVIDIA GPU. `--aligned`: pointers and ints are multiples of 16. A last
// argument that ends in .check stands for nothing: it is the golden file.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"
#include "requests/requests.h"

namespace {

using namespace kiln;

int fail(const std::string& message) {
  std::fprintf(stderr, "kiln-ptx: %s\n", message.c_str());
  return 1;
}

Result<dsl::Kernel> find_kernel(const std::string& source) {
  if (source.ends_with(".kiln")) {
    std::ifstream file(source);
    return dsl::parse(std::string(std::istreambuf_iterator<char>(file), {}), source);
  }
  if (source == "attention_bf16") return kernels::attention<dsl::lang::bf16>().ir();
  return test::library_kernel(source);
}

}  // namespace

int main(int argc, char** argv) {
  test::CommandLine options{.target = "cuda:sm_80"};
  for (int i = 1; i < argc; ++i) options.take(argc, argv, i);
  const auto kernel = find_kernel(options.kernel);
  if (!kernel) return fail(kernel.error().message);
  const auto artifact = test::compile_kernel(*kernel, options.target, options.config, options.facts(*kernel), "ptx");
  if (!artifact) return fail(artifact.error().message);
  std::fwrite(artifact->code.data(), 1, artifact->code.size(), stdout);
  return 0;
}
