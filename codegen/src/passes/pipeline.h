// The passes on instantiated tile IR, in order: the same for every target. docs/inside/passes.md is the guide.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

struct Pass {
  std::string_view name;
  dsl::Kernel (*run)(dsl::Kernel);
};

std::span<const Pass> pipeline();
// Nothing by that name: null.
const Pass* find_pass(std::string_view name);
// "expand_descriptors, simplify_masks, …", for messages that say what there is.
std::string pass_names();

// Before and after each pass.
struct PassObserver {
  std::function<void(std::string_view name)> begin = {};
  std::function<void(std::string_view name, const dsl::Kernel& after)> end = {};
};
dsl::Kernel run_passes(dsl::Kernel kernel, const PassObserver& observer = {});

}  // namespace kiln::codegen
