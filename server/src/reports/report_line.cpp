#include "reports/report_line.h"

#include <algorithm>
#include <iterator>

namespace kiln::server {

std::vector<ReportLine::Asked> ReportLine::take() {
  if (empty()) return {};
  const auto next = std::ranges::min_element(waiting_, {}, [&](const Asked& one) { return one.owner - last_ - 1; });
  last_ = next->owner;
  const auto alike = std::ranges::stable_partition(
      waiting_, [wanted = next->wanted](const Asked& one) { return one.wanted != wanted; });
  std::vector<Asked> out(std::move_iterator(alike.begin()), std::move_iterator(alike.end()));
  waiting_.erase(alike.begin(), alike.end());
  return out;
}

}  // namespace kiln::server
