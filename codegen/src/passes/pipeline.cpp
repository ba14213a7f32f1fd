#include "passes/pipeline.h"

#include "kiln/dsl/canonical.h"
#include "passes/cse.h"
#include "passes/expand_descriptors.h"
#include "passes/fold.h"
#include "passes/licm.h"
#include "passes/simplify_masks.h"

namespace kiln::codegen {
namespace {

// Dead ops (loads too), dead carried values, and the canonical order: what the language does before it hashes a kernel.
dsl::Kernel dce(dsl::Kernel kernel) { return dsl::canonicalise(kernel); }

// Descriptors first: what they stand for is then simplified like all else. Masks before folding, which takes away what
// constants in their place leave to do. Equal ops become one before loops are emptied, so that each leaves once; what
// all of them left without use goes at the end.
constexpr Pass kPipeline[] = {
    {"expand_descriptors", expand_descriptors},
    {"simplify_masks", simplify_masks},
    {"fold", fold},
    {"cse", eliminate_common_subexpressions},
    {"licm", licm},
    {"dce", dce},
};

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }

const Pass* find_pass(std::string_view name) {
  for (const Pass& pass : kPipeline) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

std::string pass_names() {
  std::string out;
  for (const Pass& pass : kPipeline) out += (out.empty() ? "" : ", ") + std::string(pass.name);
  return out;
}

dsl::Kernel run_passes(dsl::Kernel kernel, const PassObserver& observer) {
  for (const Pass& pass : kPipeline) {
    if (observer.begin) observer.begin(pass.name);
    kernel = pass.run(std::move(kernel));
    if (observer.end) observer.end(pass.name, kernel);
  }
  return kernel;
}

}  // namespace kiln::codegen
