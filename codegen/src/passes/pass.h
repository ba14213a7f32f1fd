// What tables of passes are made of. A compile is a list of such rows: docs/inside/passes.md.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

// A pass on the tile IR: a function from kernel to kernel, and of what it has to know beside. `place`: why it stands
// where it does.
template <class... Facts>
struct TilePass {
  std::string_view name;
  dsl::Kernel (*run)(dsl::Kernel kernel, const Facts&... facts);
  std::string_view place;
};

// Is told of each pass of a compile, in order, whatever it works on.
using PrintIr = std::function<std::string()>;
struct PassObserver {
  std::function<void(std::string_view name)> begin = {};
  std::function<void(std::string_view name, const PrintIr& print_after)> end = {};
  // The passes that follow are about one launch of several.
  std::function<void(std::string_view entry)> launch = {};
};

// What follows each pass: the observer hears of it, and where KILN_CHECK_PASSES is defined (debug builds, and the tests
// of the passes) an unsound kernel ends the process.
void after_pass(std::string_view name, const dsl::Kernel& kernel, const PassObserver& observer);

template <class... Facts>
dsl::Kernel run_passes(std::span<const TilePass<Facts...>> passes, dsl::Kernel kernel, const PassObserver& observer,
                       const Facts&... facts) {
  for (const TilePass<Facts...>& pass : passes) {
    if (observer.begin) observer.begin(pass.name);
    kernel = pass.run(std::move(kernel), facts...);
    after_pass(pass.name, kernel, observer);
  }
  return kernel;
}

// "fold, cse, …", for messages that say what there is.
template <class Row>
std::string names_of(std::span<const Row> passes) {
  std::string out;
  for (const Row& pass : passes) out += (out.empty() ? "" : ", ") + std::string(pass.name);
  return out;
}

}  // namespace kiln::codegen
