#include "passes/pipeline.h"

#include <array>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/rounding.h"
#include "passes/cse.h"
#include "passes/expand_descriptors.h"
#include "passes/fold.h"
#include "passes/licm.h"
#include "passes/refine_axes.h"
#include "passes/simplify_masks.h"
#include "passes/unpack_e2m1.h"

namespace kiln::codegen {
namespace {

// Dead ops (loads too), dead carried values, and the canonical order: what the language does before it hashes a kernel.
dsl::Kernel dce(dsl::Kernel kernel) { return dsl::canonicalise(kernel); }

constexpr Pass kRoundingPasses[] = {
    {"fuse_precision", dsl::fuse_precision, "before contract, which then finds the sums of products in f32"},
    {"contract", dsl::contract, "before all others: they take what is rounded as it is, for every target alike"},
};

constexpr Pass kPipeline[] = {
    {"expand_descriptors", expand_descriptors, "first: what descriptors stand for is simplified like all else"},
    {"simplify_masks", simplify_masks, "before fold, which takes away what constants in place of masks leave to do"},
    {"fold", fold, "before cse: ops with equal constants are equal ops"},
    {"cse", eliminate_common_subexpressions, "before licm, so that equal ops leave a loop once"},
    {"licm", licm, "once ops are few: each is asked whether it may leave"},
    {"dce", dce, "last: what the others left without use goes"},
};

constexpr Pass kCpuPasses[] = {
    {"refine_axes", refine_axes, "before cuts, which take a kernel's axes as they are"},
};

constexpr Pass kGpuPasses[] = {
    {"unpack_e2m1", unpack_e2m1, "before swap_operands: what is unpacked is computed by threads"},
};

std::array<std::span<const Pass>, 4> tables() { return {kRoundingPasses, kPipeline, kCpuPasses, kGpuPasses}; }

}  // namespace

std::span<const Pass> rounding_passes() { return kRoundingPasses; }
std::span<const Pass> pipeline() { return kPipeline; }
std::span<const Pass> cpu_passes() { return kCpuPasses; }
std::span<const Pass> gpu_passes() { return kGpuPasses; }

const Pass* find_pass(std::string_view name) {
  for (std::span<const Pass> table : tables()) {
    for (const Pass& pass : table) {
      if (pass.name == name) return &pass;
    }
  }
  return nullptr;
}

std::string pass_names() {
  std::string out;
  for (std::span<const Pass> table : tables()) out += (out.empty() ? "" : ", ") + names_of(table);
  return out;
}

dsl::Kernel run_passes(dsl::Kernel kernel, const PassObserver& observer) {
  return run_passes(pipeline(), std::move(kernel), observer);
}

}  // namespace kiln::codegen
