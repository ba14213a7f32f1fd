// One compiled form of a kernel: immutable, complete, replaced only as a whole.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kiln/abi/launch_block.h"
#include "kiln/client/handle.h"
#include "kiln/client/runtime.h"
#include "kiln/dsl/artifact.h"
#include "kiln/dsl/ir.h"
#include "reports.h"

namespace kiln::client {

namespace gpu {
class KernelCode;
}

// One of the launches that a kernel takes: its grid is the kernel's with axis 0 times `chunks`.
struct LaunchStep {
  kiln_entry_fn entry;
  uint64_t chunks = 1;
};

struct Variant {
  dsl::Facts facts;    // one a parameter
  bool quick = false;  // made quickly, to be replaced
  std::array<dsl::Expr, 3> grid;
  std::vector<std::optional<int64_t>> config;  // the constexprs', where there are constraints
  abi::Metadata metadata;

  // Compiled code for a CPU; empty when the interpreter runs `concrete`, or a GPU `device_code`.
  std::shared_ptr<const Module> module;
  std::vector<LaunchStep> steps;  // run one after the other
  uint64_t scratch_bytes = 0;
  uint64_t workspace_bytes = 0;  // for each program of the grid
  Reports reports;
  std::optional<dsl::Kernel> concrete;
  std::shared_ptr<const gpu::KernelCode> device_code;
};

using abi::ParamLayout;
// `block` has room for layout.bytes.
void pack_arguments(const dsl::Kernel& kernel, const ParamLayout& layout, std::span<const Argument> arguments,
                    std::byte* block);

// Elements behind a pointer, for kernels that check their bounds; below 0 where nobody knows.
int64_t extent_of(const Argument& argument);

// Checks the metadata against the kernel (docs/reference/artifact.md) and loads the code.
Result<std::shared_ptr<const Variant>> load_variant(const dsl::Kernel& kernel, const Artifact& artifact,
                                                    const dsl::Facts& facts);
Result<std::shared_ptr<const Variant>> interpreted_variant(const dsl::Kernel& kernel,
                                                           const dsl::ConstexprValues& values, const dsl::Facts& facts);

// The most that is true of these arguments, one fact a parameter.
dsl::Facts exact_facts(const dsl::Kernel& kernel, std::span<const Argument> arguments);
void exact_facts(const dsl::Kernel& kernel, std::span<const Argument> arguments, dsl::Facts& facts);
// Whether a variant compiled for `facts` may run where `exact` is what holds.
bool is_sound(const dsl::Facts& facts, const dsl::Facts& exact);
std::string facts_text(const dsl::Kernel& kernel, const dsl::Facts& facts);

// `owner` keeps variant, kernel and layout: a launch on a CPU's stream runs later. Without one the caller does.
Result<void> launch_variant(const Variant& variant, const dsl::Kernel& kernel, const ParamLayout& layout,
                            std::span<const Argument> arguments, const LaunchOptions& options,
                            const std::shared_ptr<const void>& owner = nullptr);

}  // namespace kiln::client
