// kiln-amdgcn [--target amd:GFX] [--set NAME=VALUE]… [--aligned] [--type f32|bf16|f16|i8] [--count] NAME: the assembly
// of a kernel of the library for an AMD GPU; with --count how many instructions of each class it has, and what its
// waves take. `kiln-amdgcn --table`: the same of the kernels that matter. `--aligned`: pointers and ints are multiples
// of 16. A last argument that ends in .check stands for nothing: it is the golden file.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "instruction_counts.h"
#include "kiln/abi/metadata_json.h"
#include "kiln/dsl/kernels.h"
#include "requests/requests.h"

namespace {

using namespace kiln;
namespace lang = dsl::lang;

struct Options {
  test::CommandLine common{.target = "amd:gfx942"};
  std::string type = "f32";
  bool count = false, table = false;
};

int fail(const std::string& message) {
  std::fprintf(stderr, "kiln-amdgcn: %s\n", message.c_str());
  return 1;
}

Options parse(int argc, char** argv) {
  Options out;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--type") {
      out.type = i + 1 < argc ? argv[++i] : "";
    } else if (argument == "--count") {
      out.count = true;
    } else if (argument == "--table") {
      out.table = true;
    } else {
      out.common.take(argc, argv, i);
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
  const std::string& name = options.common.kernel;
  if (options.type == "bf16") return typed<lang::bf16>(name);
  if (options.type == "f16") return typed<lang::f16>(name);
  if (options.type == "i8") return typed<lang::i8>(name);
  return test::library_kernel(name);
}

Result<Artifact> compile(const dsl::Kernel& kernel, const Options& options, const std::string& emit) {
  const test::CommandLine& common = options.common;
  return test::compile_kernel(kernel, common.target, common.config, common.facts(kernel), emit);
}

void print_counts(const std::string& assembly, const abi::Metadata& metadata) {
  for (const auto& [name, count] : test::count_classes(test::mnemonics_of(assembly, false)))
    std::printf("%-14s %d\n", name.c_str(), count);
  std::printf("%s\n", abi::to_json(metadata).at("device").dump().c_str());
}

struct Compiled {
  std::string assembly;
  abi::Metadata metadata;
};

Result<Compiled> compile_both(const dsl::Kernel& kernel, const Options& options) {
  const auto text = compile(kernel, options, "asm");
  if (!text) return text.error();
  const auto linked = compile(kernel, options, "hsaco");
  if (!linked) return linked.error();
  return Compiled{{reinterpret_cast<const char*>(text->code.data()), text->code.size()}, linked->metadata};
}

// A line for each kernel that matters on each processor: what one wave does in an iteration of its hottest loop (the
// whole program where there is none), its resources, and the cycles that a block takes each unit of a compute unit.
int print_table() {
  std::printf("%-16s %-8s %6s %6s %5s %6s %6s %5s %6s %5s %6s %5s | %7s %7s %7s %7s  %s\n", "kernel", "gfx", "matrix",
              "vector", "LDS", "global", "scalar", "wait", "share", "VGPR", "LDS B", "waves", "matrix", "vector", "LDS",
              "memory", "bound");
  for (const auto& [name, type] : {std::pair{"matmul", "bf16"},
                                   {"matmul", "i8"},
                                   {"matmul_f32", "f32"},
                                   {"attention", "bf16"},
                                   {"softmax", "f32"},
                                   {"layer_norm", "f32"},
                                   {"row_sum", "f32"},
                                   {"transpose", "f32"}}) {
    for (const char* gfx : {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1250"}) {
      Options options;
      options.type = type;
      options.common = {.kernel = name, .target = std::string("amd:") + gfx, .aligned = true};
      const auto kernel = find_kernel(options);
      if (!kernel) return fail(kernel.error().message);
      const auto both = compile_both(*kernel, options);
      if (!both) return fail(both.error().message);
      const auto mnemonics = test::mnemonics_of(both->assembly, true);
      auto counts = test::count_classes(mnemonics);
      const abi::Device& device = *both->metadata.device;
      const test::Cycles cycles = test::cycles_of(mnemonics, gfx, static_cast<int>(device.threads.value()));
      const std::string label = std::string(name) + (std::string(type) == "f32" ? "" : std::string("_") + type);
      std::printf("%-16s %-8s %6d %6d %5d %6d %6d %5d %5.0f%% %5d %6d %5d | %7.0f %7.0f %7.0f %7.0f  %s\n",
                  label.c_str(), gfx, counts["matrix"], counts["vector"], counts["LDS"], counts["global memory"],
                  counts["scalar"] + counts["scalar memory"], counts["wait"],
                  100.0 * counts["matrix"] / static_cast<double>(mnemonics.size()),
                  static_cast<int>(device.registers.value()), static_cast<int>(device.lds_bytes.value()),
                  static_cast<int>(device.waves_per_simd.value()), cycles.matrix, cycles.vector, cycles.lds,
                  cycles.global, cycles.bound());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.table) return print_table();
  const auto kernel = find_kernel(options);
  if (!kernel) return fail(kernel.error().message);
  if (options.count) {
    const auto both = compile_both(*kernel, options);
    if (!both) return fail(both.error().message);
    print_counts(both->assembly, both->metadata);
    return 0;
  }
  const auto artifact = compile(*kernel, options, "asm");
  if (!artifact) return fail(artifact.error().message);
  std::fwrite(artifact->code.data(), 1, artifact->code.size(), stdout);
  return 0;
}
