#include "aten/import/slices.h"

namespace kiln::graph::aten {
namespace {

Dim least(const Dim& a, const Dim& b) { return at_most(a, b) ? a : at_most(b, a) ? b : min(a, b); }
Dim greatest(const Dim& a, const Dim& b) { return at_most(a, b) ? b : at_most(b, a) ? a : max(a, b); }

}  // namespace

Dim counted_from_end(const Dim& place, const Dim& extent) { return at_most(place, -1) ? place + extent : place; }

SliceBounds slice_bounds(Arguments& arguments, const Dim& extent) {
  const auto bound = [&](std::string_view name, const Dim& otherwise) {
    return greatest(least(counted_from_end(arguments.dim(name, otherwise), extent), extent), 0);
  };
  SliceBounds out{bound("start", 0), bound("end", extent), arguments.integer("step", 1)};
  out.end = greatest(out.end, out.start);
  if (out.step < 1) arguments.fail("a slice by steps of " + std::to_string(out.step));
  return out;
}

}  // namespace kiln::graph::aten
