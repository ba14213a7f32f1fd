#include "aten/aten.h"

#include <algorithm>
#include <array>

namespace kiln::graph {
namespace {

constexpr auto kRows = [] {
  using enum AtenKind;
  return std::to_array<AtenRow>({
#define KILN_ATEN(...) {__VA_ARGS__},
#include "aten/aten_ops.def"
#undef KILN_ATEN
  });
}();

}  // namespace

std::span<const AtenRow> aten_table() { return kRows; }

const AtenRow* find_aten(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const AtenRow& row) { return row.name == name; });
  return found == std::end(kRows) ? nullptr : &*found;
}

}  // namespace kiln::graph
