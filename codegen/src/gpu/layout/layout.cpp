#include "gpu/layout/layout.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace kiln::codegen::gpu {
namespace {

int log2_of(int64_t extent) {
  assert(extent > 0 && std::has_single_bit(static_cast<uint64_t>(extent)));
  return std::countr_zero(static_cast<uint64_t>(extent));
}

const char* name(Dim dim) {
  constexpr const char* kNames[] = {"register", "lane", "warp", "block", "offset"};
  return kNames[static_cast<size_t>(dim)];
}

}  // namespace

Layout::Layout(const std::vector<int64_t>& shape) {
  for (int64_t extent : shape) axis_bits_.push_back(log2_of(extent));
  assert(element_bits() < 64);
}

void Layout::add(Dim dim, Bits element) {
  assert(element >> element_bits() == 0);
  bases_[static_cast<size_t>(dim)].push_back(element);
}

void Layout::add(Dim dim, const Columns& elements) {
  for (Bits element : elements) add(dim, element);
}

std::vector<int64_t> Layout::shape() const {
  std::vector<int64_t> out;
  for (int bits : axis_bits_) out.push_back(int64_t{1} << bits);
  return out;
}

int Layout::axis_offset(int axis) const {
  int out = 0;
  for (int i = rank() - 1; i > axis; --i) out += axis_bits_[i];
  return out;
}

Columns Layout::columns() const {
  Columns out;
  for (const Columns& bases : bases_) out.insert(out.end(), bases.begin(), bases.end());
  return out;
}

Bits Layout::at(const Index& index) const {
  return multiply(bases(Dim::kRegister), index.reg) ^ multiply(bases(Dim::kLane), index.lane) ^
         multiply(bases(Dim::kWarp), index.warp) ^ multiply(bases(Dim::kBlock), index.block) ^
         multiply(bases(Dim::kOffset), index.offset);
}

std::vector<int64_t> Layout::coordinates(Bits element) const {
  std::vector<int64_t> out;
  for (int axis = 0; axis < rank(); ++axis) {
    out.push_back(static_cast<int64_t>(element >> axis_offset(axis) & ((Bits{1} << axis_bits_[axis]) - 1)));
  }
  return out;
}

Bits Layout::element(const std::vector<int64_t>& coordinates) const {
  Bits out = 0;
  for (int axis = 0; axis < rank(); ++axis) out |= static_cast<Bits>(coordinates[axis]) << axis_offset(axis);
  return out;
}

bool Layout::injective() const { return kernel(columns()).empty(); }

bool Layout::surjective() const { return Span(columns()).rank() == element_bits(); }

Bits Layout::free_mask(Dim dim) const {
  Bits out = 0;
  for (int i = 0; i < bits(dim); ++i) {
    if (bases(dim)[i] == 0) out |= Bits{1} << i;
  }
  return out;
}

int64_t Layout::elements_per_thread() const { return int64_t{1} << Span(bases(Dim::kRegister)).rank(); }

int64_t Layout::contiguous_per_thread(int axis) const {
  const Span registers(bases(Dim::kRegister));
  int bits = 0;
  Bits group = 0;
  while (bits < axis_bits_[axis]) {
    const Bits next = Bits{1} << (axis_offset(axis) + bits);
    if (!registers.contains(next)) break;
    // A thread that begins inside the group would have it in another order.
    const auto inside = [&](Bits element) { return (element & next) != 0; };
    bool by_thread = false;
    for (Dim dim : {Dim::kLane, Dim::kWarp, Dim::kBlock}) by_thread |= std::ranges::any_of(bases(dim), inside);
    if (by_thread) break;
    group |= next;
    ++bits;
  }
  return int64_t{1} << std::popcount(group);
}

std::string to_string(const Layout& layout) {
  const auto list = [](const std::vector<int64_t>& numbers, const char* separator) {
    std::string out;
    for (int64_t number : numbers) out += (out.empty() ? "" : separator) + std::to_string(number);
    return out;
  };
  std::string out = "[" + list(layout.shape(), ", ") + "]:";
  for (Dim dim : kDims) {
    if (layout.bits(dim) == 0) continue;
    std::string elements;
    for (Bits element : layout.bases(dim)) {
      elements += (elements.empty() ? "(" : ", (") + list(layout.coordinates(element), ",") + ")";
    }
    out += std::string(" ") + name(dim) + "=[" + elements + "]";
  }
  return out;
}

Layout from_steps(const std::vector<int64_t>& shape, const std::vector<Step>& steps) {
  Layout out(shape);
  std::vector<int> used(shape.size());
  for (const Step& step : steps) {
    for (int i = 0; i < step.bits; ++i) {
      const bool left = step.axis != kNoAxis && used[step.axis] < out.axis_bits(step.axis);
      out.add(step.dim, left ? Bits{1} << (out.axis_offset(step.axis) + used[step.axis]++) : 0);
    }
  }
  return out;
}

Layout blocked(const std::vector<int64_t>& shape, const std::vector<int64_t>& per_thread,
               const std::vector<int64_t>& lanes, const std::vector<int64_t>& warps, const std::vector<int>& order) {
  const Layout tile(shape);
  std::vector<Step> steps;
  std::vector<int> left;
  for (int axis = 0; axis < tile.rank(); ++axis) left.push_back(tile.axis_bits(axis));
  const auto hand_out = [&](Dim dim, int axis, int bits) {
    steps.push_back({dim, axis, bits});
    left[axis] = std::max(0, left[axis] - bits);
  };
  for (int axis : order) hand_out(Dim::kRegister, axis, std::min(left[axis], log2_of(per_thread[axis])));
  for (int axis : order) hand_out(Dim::kLane, axis, log2_of(lanes[axis]));
  for (int axis : order) hand_out(Dim::kWarp, axis, log2_of(warps[axis]));
  for (int axis : order) hand_out(Dim::kRegister, axis, left[axis]);
  return from_steps(shape, steps);
}

}  // namespace kiln::codegen::gpu
