// kiln-ptx [--target cuda:SM] [--set NAME=VALUE]… [--aligned] (NAME | FILE.kiln): the PTX of a kernel of the library
// (or `attention_bf16`), or of a text, for an NVIDIA GPU. `--aligned`: pointers and ints are multiples of 16. A last
// argument that ends in .check stands for nothing: it is the golden file.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"

namespace {

using namespace kiln;

struct Options {
  std::string source, target = "cuda:sm_80";
  dsl::ConstexprValues config;
  bool aligned = false;
};

int fail(const std::string& message) {
  std::fprintf(stderr, "kiln-ptx: %s\n", message.c_str());
  return 1;
}

Options parse(int argc, char** argv) {
  Options out;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (argument == "--target") {
      out.target = value();
    } else if (argument == "--set") {
      const std::string set = value();
      const size_t equals = std::min(set.find('='), set.size());
      out.config[set.substr(0, equals)] = std::atoll(set.c_str() + std::min(equals + 1, set.size()));
    } else if (argument == "--aligned") {
      out.aligned = true;
    } else if (!argument.ends_with(".check")) {
      out.source = argument;
    }
  }
  return out;
}

Result<dsl::Kernel> find_kernel(const std::string& source) {
  if (source.ends_with(".kiln")) {
    std::ifstream file(source);
    return dsl::parse(std::string(std::istreambuf_iterator<char>(file), {}), source);
  }
  if (source == "attention_bf16") return kernels::attention<dsl::lang::bf16>().ir();
  for (const dsl::LibraryKernel& kernel : dsl::library_kernels()) {
    if (kernel.name == source) return **kernel.ir;
  }
  return invalid_argument("the library has no kernel `" + source + "`");
}

dsl::Facts facts_of(const dsl::Kernel& kernel, bool aligned) {
  dsl::Facts out;
  for (const dsl::Param& param : kernel.params) {
    out.push_back(!aligned                            ? dsl::ParamFact::kNone
                  : param.type.pointer                ? dsl::ParamFact::kAlign16
                  : dsl::is_float(param.type.element) ? dsl::ParamFact::kNone
                                                      : dsl::ParamFact::kMultiple16);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto kernel = find_kernel(options.source);
  if (!kernel) return fail(kernel.error().message);
  const auto config = dsl::complete_constexprs(*kernel, options.config, options.target);
  if (!config) return fail(config.error().message);
  const auto request =
      dsl::encode_request({*kernel, options.target, *config, facts_of(*kernel, options.aligned), "ptx"});
  if (!request) return fail(request.error().message);
  codegen::warm_up();
  const auto artifact = codegen::compile(request->canonical, request->debug, {});
  if (!artifact) return fail(artifact.error().message);
  std::fwrite(artifact->code.data(), 1, artifact->code.size(), stdout);
  return 0;
}
