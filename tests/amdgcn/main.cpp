// kiln-amdgcn [--target amd:GFX] [--set NAME=VALUE]… [--aligned] [--type f32|bf16|f16|i8] [--count] NAME: the assembly
// of a kernel of the library for an AMD GPU; with --count how many instructions of each class it has, and what its
// waves take. `--aligned`: pointers and ints are multiples of 16. A last argument that ends in .check stands for
// nothing: it is the golden file.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>

#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/kernels.h"

namespace {

using namespace kiln;
namespace lang = dsl::lang;

struct Options {
  std::string name, type = "f32", target = "amd:gfx942";
  dsl::ConstexprValues config;
  bool aligned = false, count = false;
};

int fail(const std::string& message) {
  std::fprintf(stderr, "kiln-amdgcn: %s\n", message.c_str());
  return 1;
}

Options parse(int argc, char** argv) {
  Options out;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (argument == "--target") {
      out.target = value();
    } else if (argument == "--type") {
      out.type = value();
    } else if (argument == "--set") {
      const std::string set = value();
      const size_t equals = std::min(set.find('='), set.size());
      out.config[set.substr(0, equals)] = std::atoll(set.c_str() + std::min(equals + 1, set.size()));
    } else if (argument == "--aligned") {
      out.aligned = true;
    } else if (argument == "--count") {
      out.count = true;
    } else if (!argument.ends_with(".check")) {
      out.name = argument;
    }
  }
  return out;
}

template <class T>
Result<dsl::Kernel> typed(const std::string& name) {
  if (name == "matmul") return kernels::matmul<T>().ir();
  if constexpr (!std::is_same_v<T, lang::i8>) {
    if (name == "attention") return kernels::attention<T>().ir();
  }
  return invalid_argument("`" + name + "` is not there for this type");
}

Result<dsl::Kernel> find_kernel(const Options& options) {
  if (options.type == "bf16") return typed<lang::bf16>(options.name);
  if (options.type == "f16") return typed<lang::f16>(options.name);
  if (options.type == "i8") return typed<lang::i8>(options.name);
  for (const dsl::LibraryKernel& kernel : dsl::library_kernels()) {
    if (kernel.name == options.name) return **kernel.ir;
  }
  return invalid_argument("the library has no kernel `" + options.name + "`");
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

Result<Artifact> compile(const dsl::Kernel& kernel, const Options& options, const std::string& emit) {
  auto config = dsl::complete_constexprs(kernel, options.config, options.target);
  if (!config) return config.error();
  auto request = dsl::encode_request({kernel, options.target, *config, facts_of(kernel, options.aligned), emit});
  if (!request) return request.error();
  return codegen::compile(request->canonical, request->debug, {});
}

std::string class_of(const std::string& mnemonic) {
  static const std::pair<const char*, const char*> kClasses[] = {
      {"v_mfma", "matrix"},         {"v_wmma", "matrix"}, {"v_", "vector"},       {"s_waitcnt", "wait"},
      {"s_wait_", "wait"},          {"s_delay", "wait"},  {"s_nop", "wait"},      {"s_barrier", "barrier"},
      {"s_load", "scalar memory"},  {"s_", "scalar"},     {"ds_", "LDS"},         {"global_", "global memory"},
      {"buffer_", "global memory"}, {"flat_", "flat"},    {"scratch_", "scratch"}};
  for (const auto& [prefix, name] : kClasses) {
    if (mnemonic.starts_with(prefix)) return name;
  }
  return "other";
}

void print_counts(const std::string& assembly, const nlohmann::json& device) {
  std::map<std::string, int> counts;
  std::istringstream lines(assembly);
  for (std::string line; std::getline(lines, line);) {
    std::string mnemonic;
    if (!line.starts_with("\t") || !(std::istringstream(line) >> mnemonic)) continue;
    if (std::islower(static_cast<unsigned char>(mnemonic[0])) && mnemonic.find('_') != std::string::npos) {
      ++counts[class_of(mnemonic)];
    }
  }
  for (const auto& [name, count] : counts) std::printf("%-14s %d\n", name.c_str(), count);
  std::printf("%s\n", device.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto kernel = find_kernel(options);
  if (!kernel) return fail(kernel.error().message);
  codegen::warm_up();
  const auto artifact = compile(*kernel, options, "asm");
  if (!artifact) return fail(artifact.error().message);
  const std::string text(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
  if (!options.count) {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  const auto linked = compile(*kernel, options, "hsaco");
  if (!linked) return fail(linked.error().message);
  print_counts(text, linked->metadata.at("device"));
  return 0;
}
