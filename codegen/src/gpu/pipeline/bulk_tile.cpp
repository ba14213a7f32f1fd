#include "gpu/pipeline/bulk_tile.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "gpu/block/block_shape.h"
#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Expr;
using dsl::OpCode;

constexpr int64_t kMostOfBox = 256;  // elements along one dimension
constexpr int64_t kLine = 128;       // bytes of a swizzled line, at most
constexpr int64_t kLeastLine = 32;   // bytes of a swizzled line, at least
constexpr int64_t kLines = 8;        // of one period of the swizzle
constexpr int64_t kLeastBytes = 16;  // of a line
constexpr size_t kMostParams = 128;  // of a kernel: behind them there is room for its maps

Error no(std::string why) { return invalid_argument(std::move(why)); }

bool is_power_of_two(int64_t x) { return std::has_single_bit(static_cast<uint64_t>(x)); }

class TilePlan {
 public:
  TilePlan(const dsl::Kernel& kernel, const dsl::Op& op, TensorAccess access, const LinearForms& forms,
           int64_t least_boxes)
      : forms_(forms),
        least_boxes_(least_boxes),
        type_(kernel.type(op.operands[0])),
        shape_(dsl::concrete_shape(type_)),
        padded_(padded_shape(type_)),
        bytes_(dsl::info(type_.element).bytes) {
    out_.access = std::move(access);
  }

  Result<BulkTile> make() {
    for (const TensorDim& dim : out_.access.dims) {
      if (dim.axis) order_.push_back(*dim.axis);
    }
    if (auto fine = check(); !fine) return fine.error();
    lay_out();
    make_map();
    make_boxes(std::vector<int64_t>(out_.access.dims.size()), out_.access.dims.size());
    return out_;
  }

 private:
  int64_t extent(size_t dim) const {
    const auto& axis = out_.access.dims[dim].axis;
    return axis ? shape_[static_cast<size_t>(*axis)] : 1;
  }

  // Lines lie one behind another without gaps, so only the outermost axis may be padded; and the innermost one, which
  // is as many panels as there are in the tile.
  Result<void> check() const {
    for (size_t i = 0; i < order_.size(); ++i) {
      const bool last = i > 0 && i + 1 == order_.size();
      if (is_power_of_two(extent(i)) || (last && extent(i) <= kMostOfBox)) continue;
      if (i == 0 && lines() >= kLines && extent(0) * bytes_ % line_bytes() == 0) continue;
      return no("an extent of the tile is no power of two");
    }
    if (extent(0) * bytes_ < kLeastBytes) return no("lines of less than 16 bytes");
    return {};
  }

  int64_t lines() const {
    const int64_t inner = padded_[static_cast<size_t>(order_[0])];
    return std::accumulate(padded_.begin(), padded_.end(), int64_t{1}, std::multiplies<>()) / inner;
  }

  // Of a swizzled line: the longest that ends where the innermost axis does.
  int64_t line_bytes() const {
    const int64_t axis_bytes = extent(0) * bytes_;
    int64_t out = kLine;
    while (out > kLeastLine && axis_bytes % out != 0) out /= 2;
    return out;
  }

  // Lines of at most 128 bytes, swizzled where there is a period of them, else of as many elements as a box may have.
  void lay_out() {
    const bool is_swizzled = lines() >= kLines && extent(0) * bytes_ >= kLeastLine;
    width_ = is_swizzled ? line_bytes() / bytes_ : std::min(extent(0), kMostOfBox);
    out_.map.swizzle_bytes = is_swizzled ? static_cast<int>(line_bytes()) : 0;
    std::vector<int> order = order_;
    for (int axis = 0; axis < std::ssize(shape_); ++axis) {
      if (std::ranges::find(order, axis) == order.end()) order.push_back(axis);
    }
    out_.memory = is_swizzled ? shared_panels(padded_, static_cast<int>(8 * bytes_), out_.map.swizzle_bytes, order)
                              : plain_panels(order);
    out_.bytes = out_.memory.size() * bytes_;
  }

  SharedLayout plain_panels(const std::vector<int>& order) const {
    const auto inner = static_cast<size_t>(order[0]);
    std::vector<int64_t> panel = padded_, panels(padded_.size(), 1);
    panels[inner] = panel[inner] / width_;
    panel[inner] = width_;
    return {product(shared_linear(panel, order).elements, shared_linear(panels, order).elements)};
  }

  void make_map() {
    TensorMap& map = out_.map;
    map.param = out_.access.param;
    map.offset = out_.access.offset;
    map.element = type_.element;
    map.fills_nan = out_.access.fills_nan;
    for (size_t i = 0; i < out_.access.dims.size(); ++i) {
      const TensorDim& dim = out_.access.dims[i];
      // Where there is no element the guards keep out what is not there.
      const bool may_be_empty = forms_.range(dim.extent).low < 1;
      map.dims.push_back(may_be_empty ? Expr::apply(dsl::AtomKind::kMax, dim.extent, Expr(1)) : dim.extent);
      if (i > 0) map.strides_bytes.push_back(dim.stride * Expr(bytes_));
      map.box.push_back(i == 0 ? width_ : std::min(extent(i), kMostOfBox));
    }
    while (box_count() < least_boxes_ && halve_box()) {
    }
    out_.box_bytes = std::accumulate(map.box.begin(), map.box.end(), bytes_, std::multiplies<>());
  }

  int64_t box_count() const {
    int64_t out = 1;
    for (size_t i = 0; i < out_.map.box.size(); ++i) out *= (extent(i) + out_.map.box[i] - 1) / out_.map.box[i];
    return out;
  }

  // Of lines, so that each box begins with a period of the swizzle.
  bool halve_box() {
    for (size_t i = out_.map.box.size(); i-- > 1;) {
      int64_t& lines = out_.map.box[i];
      if (lines % (2 * kLines) != 0) continue;
      lines /= 2;
      return true;
    }
    return false;
  }

  // The boxes of the tile that begin at `start`, along the dimensions below `dims` anywhere.
  void make_boxes(std::vector<int64_t> start, size_t dims) {
    if (dims == 0) {
      std::vector<int64_t> element(shape_.size());
      for (size_t i = 0; i < order_.size(); ++i) element[static_cast<size_t>(order_[i])] = start[i];
      const Bits packed = out_.memory.elements.element(element);
      out_.boxes.push_back({std::move(start), out_.memory.offset_of(packed) * bytes_});
      return;
    }
    const size_t dim = dims - 1;
    for (int64_t at = 0; at < extent(dim); at += out_.map.box[dim]) {
      start[dim] = at;
      make_boxes(start, dim);
    }
  }

  const LinearForms& forms_;
  const int64_t least_boxes_;
  const dsl::Type& type_;
  const std::vector<int64_t> shape_, padded_;
  const int64_t bytes_;
  std::vector<int> order_;  // axes, the innermost first, of more than one element
  int64_t width_ = 0;       // elements of a line
  BulkTile out_;
};

// Whether another bit of registers, lanes or warps moves along this one too.
bool is_shared_coordinate(const Layout& layout, Bits one) {
  int found = 0;
  for (const Dim dim : {Dim::kRegister, Dim::kLane, Dim::kWarp}) {
    found += static_cast<int>(std::ranges::count_if(layout.bases(dim), [&](Bits basis) { return (basis & one) != 0; }));
  }
  return found != 1;
}

}  // namespace

Result<BulkTile> plan_bulk_tile(const dsl::Kernel& kernel, const dsl::Op& access, LinearForms& forms,
                                int64_t least_boxes) {
  if (kernel.params.size() > kMostParams) return no("the kernel has too many parameters");
  auto found = find_tensor_access(kernel, access, forms);
  if (!found) return found.error();
  return TilePlan(kernel, access, std::move(*found), forms, least_boxes).make();
}

// Where each warp bit stands for a bit of a coordinate that is alike in all of a box.
std::vector<int> owners_of_boxes(const BulkTile& tile, const Layout& layout) {
  std::vector<int> out(tile.boxes.size());
  const Columns& warps = layout.bases(Dim::kWarp);
  for (size_t bit = 0; bit < warps.size(); ++bit) {
    if ((1 << bit) < kStoringWarps) continue;
    const std::vector<int64_t> step = layout.coordinates(warps[bit]);
    if (std::popcount(static_cast<uint64_t>(warps[bit])) != 1) return {};
    bool is_outside = false;
    for (size_t i = 0; i < tile.map.box.size(); ++i) {
      const auto axis = tile.access.dims[i].axis;
      const int64_t along = axis ? step[static_cast<size_t>(*axis)] : 0;
      is_outside |= along >= tile.map.box[i];
      for (size_t box = 0; box < out.size(); ++box) {
        if (along != 0 && (tile.boxes[box].start[i] & along) != 0) out[box] |= (1 << bit) / kStoringWarps;
      }
    }
    if (!is_outside || is_shared_coordinate(layout, warps[bit])) return {};
  }
  return out;
}

}  // namespace kiln::codegen::gpu
