// gpu-compile REQUEST OUT: compiles one kernel in this process and writes the code to OUT and the metadata
// (docs/reference/artifact.md) to OUT.json, for launchers that are no client of Kiln's. REQUEST is JSON:
//
//   {"kernel": "softmax", "type": "bf16", "target": "cuda:sm_90a",
//    "constexprs": {"BLOCK": 4096}, "facts": {"x": "align16"}, "emit": "ptx"}
//
// with "file": "softmax.kiln" in place of the kernel and its type, and "emit": "ptx" for what is no machine code.
// gpu-compile --params KERNEL TYPE prints the names of the kernel's parameters.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench_kernels.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"

namespace kiln::test {
namespace {

using nlohmann::json;

Result<dsl::Facts> facts_of(const dsl::Kernel& kernel, const json& named) {
  dsl::Facts facts(kernel.params.size(), dsl::ParamFact::kNone);
  for (const auto& [name, fact] : named.items()) {
    const auto index = kernel.find_param(name);
    if (!index) return invalid_argument("kernel `" + kernel.name + "` has no parameter `" + name + "`");
    const auto known = dsl::parse_fact(fact.get<std::string>());
    if (!known) return invalid_argument("there is no fact " + fact.dump());
    facts[*index] = *known;
  }
  return facts;
}

Result<dsl::Kernel> kernel_of(const json& request) {
  if (!request.contains("file")) return bench_kernel(request.at("kernel"), request.at("type"));
  const std::string path = request.at("file");
  std::ifstream file(path);
  if (!file) return invalid_argument("cannot read " + path);
  auto kernel = dsl::parse(std::string(std::istreambuf_iterator<char>(file), {}), path);
  if (!kernel) return kernel.error();
  if (auto valid = dsl::verify(*kernel); !valid) return valid.error();
  return kernel;
}

Result<Artifact> compile(const json& request) {
  auto kernel = kernel_of(request);
  if (!kernel) return kernel.error();
  auto facts = facts_of(*kernel, request.at("facts"));
  if (!facts) return facts.error();
  const auto constexprs = request.at("constexprs").get<dsl::ConstexprValues>();
  auto bytes = dsl::encode_request({*kernel, request.at("target"), constexprs, *facts, request.value("emit", "so")});
  if (!bytes) return bytes.error();
  codegen::warm_up();
  return codegen::compile(bytes->canonical, bytes->debug, {});
}

int run(const char* request, const std::string& out) try {
  auto artifact = compile(json::parse(request));
  if (!artifact) {
    std::fprintf(stderr, "%s\n", artifact.error().message.c_str());
    return 1;
  }
  std::ofstream(out, std::ios::binary)
      .write(reinterpret_cast<const char*>(artifact->code.data()), static_cast<std::streamsize>(artifact->code.size()));
  std::ofstream(out + ".json") << abi::write_metadata(artifact->metadata);
  return 0;
} catch (const json::exception& problem) {
  std::fprintf(stderr, "bad request: %s\n", problem.what());
  return 2;
}

int print_params(const char* name, const char* type) {
  auto kernel = bench_kernel(name, type);
  if (!kernel) {
    std::fprintf(stderr, "%s\n", kernel.error().message.c_str());
    return 1;
  }
  for (const dsl::Param& param : kernel->params) std::printf("%s\n", param.name.c_str());
  return 0;
}

}  // namespace
}  // namespace kiln::test

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--params") return kiln::test::print_params(argv[2], argv[3]);
  if (argc == 3) return kiln::test::run(argv[1], argv[2]);
  std::fprintf(stderr, "gpu-compile REQUEST OUT, or --params KERNEL TYPE; see the head of gpu_compile.cpp\n");
  return 2;
}
