#include "gpu/layout/access.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace kiln::codegen::gpu {

int64_t vector_width(const Layout& layout, int64_t contiguous, int64_t multiple_of_bytes, int element_bits,
                     int64_t max_bytes) {
  const int64_t element_bytes = std::max(1, element_bits / 8);
  // Powers of two only: the largest that divides what is known. 0 is a multiple of everything.
  const auto power = [](int64_t number) { return number == 0 ? int64_t{1} << 62 : number & -number; };
  const int64_t in_thread = layout.rank() == 0 ? 1 : layout.contiguous_per_thread(layout.rank() - 1);
  const int64_t aligned = std::min(power(multiple_of_bytes), max_bytes) / element_bytes;
  return std::max<int64_t>(1, std::min({in_thread, power(contiguous), aligned}));
}

int64_t lines_touched(const Layout& layout, int64_t width, int element_bits, int64_t line_bytes) {
  const int64_t per_line = std::max(width, line_bytes * 8 / element_bits);
  const int line_bits = std::countr_zero(static_cast<uint64_t>(per_line));
  const int row_bits = layout.rank() == 0 ? 0 : layout.axis_bits(layout.rank() - 1);
  // Neighbours within a line, as far as the row goes, are no new line.
  Span lines(unit_vectors(std::min(line_bits, row_bits)));
  const int within = lines.rank();
  lines.insert(layout.bases(Dim::kLane));
  return int64_t{1} << (lines.rank() - within);
}

}  // namespace kiln::codegen::gpu
