#include "aten/import/functions.h"

#include <unordered_map>

#include "kiln/dsl/kept.h"

namespace kiln::graph::aten {

std::vector<std::span<const Function>> function_families() {
  return {make_functions(),  elementwise_functions(), arithmetic_functions(), view_functions(),   join_functions(),
          index_functions(), reduce_functions(),      contract_functions(),   window_functions(), sampling_functions(),
          norm_functions(),  loss_functions(),        backward_functions()};
}

const Function* find_function(std::string_view name) {
  static const dsl::Kept by_name = [] {
    std::unordered_map<std::string_view, const Function*> out;
    for (const std::span<const Function> family : function_families()) {
      for (const Function& each : family) out.emplace(each.name, &each);
    }
    return out;
  }();
  const auto found = by_name->find(name);
  return found == by_name->end() ? nullptr : found->second;
}

}  // namespace kiln::graph::aten
