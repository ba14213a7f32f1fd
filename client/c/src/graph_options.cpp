#include "graph_options.h"

#include "errors.h"
#include "modes.h"
#include "objects.h"

namespace kiln::c {

Result<GraphOptions> graph_options(const kiln_graph_options* given) {
  auto known = read_options(given, "kiln_graph_options");
  if (!known) return known.error();
  const kiln_graph_options& from = *known;
  GraphOptions out;
  out.target = text_or(from.target, "cpu");
  out.fuse = from.no_fuse == 0;
  out.full = from.full != 0;
  out.deadline_ms = from.deadline_ms;
  auto mode = mode_of(from.mode);
  if (!mode) return mode.error();
  out.mode = *mode;
  out.tune_budget_ms = from.tune_budget_ms;
  out.tune_wait_ms = from.tune_wait_ms;
  if (from.cancel == nullptr) return out;
  auto cancel = pin<CancelObject>(from.cancel, "cancel");
  if (!cancel) return cancel.error();
  out.cancel = (*cancel)->source.get_token();
  return out;
}

}  // namespace kiln::c
