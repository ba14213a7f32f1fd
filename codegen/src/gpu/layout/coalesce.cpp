#include "gpu/layout/coalesce.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "kiln/dsl/walk.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

constexpr int64_t kVectorBytes = 16;

// Each op's rule; what is not an index or a pointer has no strides.
class StrideRules {
 public:
  explicit StrideRules(const dsl::Kernel& kernel)
      : kernel_(kernel), strides_(kernel.values.size()), known_(strides_.size()) {
    for (const dsl::Param& param : kernel.params) set(param.value, {}, param.type);
    dsl::for_each_region(kernel, [&](const dsl::Region& region) {
      for (ValueId arg : region.args) set(arg, {}, kernel.type(arg));
    });
    dsl::for_each_op_postorder(kernel, [&](const Op& op) { visit(op); });
  }

  std::vector<Strides> take() { return std::move(strides_); }

 private:
  void set(ValueId id, Strides strides, const dsl::Type& type) {
    strides.resize(type.shape.size());
    strides_[id] = std::move(strides);
  }

  void visit(const Op& op) {
    for (ValueId id : op.results) set(id, {}, kernel_.type(id));
    if (op.results.size() == 1) set(op.results[0], result(op), kernel_.type(op.results[0]));
    if (op.code == OpCode::kConstant) note_constant(op);
  }

  void note_constant(const Op& op) {
    const auto element = std::get<dsl::ElementType>(op.attrs[1]);
    if (dsl::is_float(element)) return;
    known_[op.results[0]] = static_cast<int64_t>(number_from_bits(element, std::get<dsl::Literal>(op.attrs[0]).bits));
  }

  Strides combined(const Strides& a, const Strides& b, const std::function<int64_t(int64_t, int64_t)>& f) const {
    Strides out(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] && b[i]) out[i] = f(*a[i], *b[i]);
    }
    return out;
  }

  // The number that every element of the tile is.
  std::optional<int64_t> known(ValueId id) const { return known_[id]; }

  Strides scaled(const Strides& strides, std::optional<int64_t> factor) const {
    Strides out(strides.size());
    for (size_t i = 0; i < strides.size(); ++i) {
      if (strides[i] == 0) out[i] = 0;
      if (strides[i] && factor) out[i] = *strides[i] * *factor;
    }
    return out;
  }

  // A product of a tile with one that does not vary along an axis keeps a stride of 0 there, and of a known factor.
  Strides product(const Op& op) const {
    const Strides &a = strides_[op.operands[0]], &b = strides_[op.operands[1]];
    Strides out = known(op.operands[1]) ? scaled(a, known(op.operands[1])) : scaled(b, known(op.operands[0]));
    for (size_t i = 0; i < out.size(); ++i) {
      if (a[i] == 0 && b[i] == 0) out[i] = 0;
    }
    return out;
  }

  Strides result(const Op& op) {
    const auto operand = [&](size_t i) -> const Strides& { return strides_[op.operands[i]]; };
    switch (op.code) {
      case OpCode::kArange:
        return {1};
      case OpCode::kSplat:
        known_[op.results[0]] = known(op.operands[0]);
        return Strides(kernel_.type(op.results[0]).shape.size(), 0);
      case OpCode::kExpandDims: {
        Strides out = operand(0);
        out.insert(out.begin() + int_attr(op, 0), 0);
        known_[op.results[0]] = known(op.operands[0]);
        return out;
      }
      case OpCode::kBroadcast: {
        Strides out = operand(0);
        const auto from = dsl::concrete_shape(kernel_.type(op.operands[0]));
        const auto to = dsl::concrete_shape(kernel_.type(op.results[0]));
        for (size_t i = 0; i < out.size(); ++i) {
          if (from[i] != to[i]) out[i] = 0;
        }
        known_[op.results[0]] = known(op.operands[0]);
        return out;
      }
      case OpCode::kPermute: {
        Strides out;
        for (const dsl::Expr& axis : std::get<std::vector<dsl::Expr>>(op.attrs[0])) {
          out.push_back(operand(0)[static_cast<size_t>(axis.as_constant().value())]);
        }
        return out;
      }
      case OpCode::kAdd:
      case OpCode::kAddptr:
        return combined(operand(0), operand(1), std::plus<>());
      case OpCode::kSub:
        return combined(operand(0), operand(1), std::minus<>());
      case OpCode::kMul:
        return product(op);
      case OpCode::kCast:
        return dsl::is_int(kernel_.type(op.operands[0]).element) ? operand(0) : Strides{};
      default:
        return {};
    }
  }

  const dsl::Kernel& kernel_;
  std::vector<Strides> strides_;
  std::vector<std::optional<int64_t>> known_;
};

int64_t power_of_two_below(int64_t x) {
  int64_t out = 1;
  while (out * 2 <= x) out *= 2;
  return out;
}

}  // namespace

std::vector<Strides> strides_of(const dsl::Kernel& kernel) { return StrideRules(kernel).take(); }

AccessShape access_shape(const dsl::Kernel& kernel, const Op& access, const std::vector<AxisInfo>& info,
                         const std::vector<Strides>& strides) {
  const ValueId pointer = access.operands[0];
  const dsl::Type& type = kernel.type(pointer);
  AccessShape out;
  out.bytes = dsl::info(type.element).bytes;
  out.order.resize(type.shape.size());
  std::iota(out.order.rbegin(), out.order.rend(), 0);
  // Axes of stride 1 first; the others as in a row-major array.
  std::stable_partition(out.order.begin(), out.order.end(),
                        [&](int axis) { return strides[pointer][static_cast<size_t>(axis)] == 1; });
  const int last = type.rank() - 1;
  if (type.rank() == 0 || out.order.front() != last) return out;
  int64_t vector = std::min(power_of_two_below(info[pointer].contiguous), kVectorBytes / out.bytes);
  const bool has_mask = access.code == OpCode::kLoad ? access.operands.size() > 1 : access.operands.size() > 2;
  if (has_mask) {
    const ValueId mask = access.operands[access.code == OpCode::kLoad ? 1 : 2];
    vector = std::min(vector, power_of_two_below(info[mask].constant));
  }
  while (vector > 1 && multiple_of_groups(info[pointer], vector, out.bytes) % (vector * out.bytes) != 0) vector /= 2;
  out.vector = vector;
  return out;
}

namespace {

// Lanes side by side along the fastest axis, and warps; what is left of them, and of the tile, along the scanned one.
Layout coalesced_for_scan(const std::vector<int64_t>& shape, const AccessShape& access, const BlockShape& block) {
  const size_t rank = shape.size();
  std::vector<int64_t> per_thread(rank, 1), lanes(rank, 1), warps(rank, 1);
  const auto fast = static_cast<size_t>(access.order.front()), scanned = static_cast<size_t>(*access.scanned);
  std::vector<int> order = access.order;
  std::stable_partition(order.begin(), order.end(), [&](int axis) { return axis != access.scanned; });
  per_thread[fast] = std::min(access.vector, std::max<int64_t>(1, shape[fast] / block.lanes));
  int64_t lanes_left = block.lanes, warps_left = block.warps;
  for (int axis : order) {
    const auto a = static_cast<size_t>(axis);
    lanes[a] = std::min(lanes_left, shape[a] / per_thread[a]);
    lanes_left /= lanes[a];
    warps[a] = std::min(warps_left, shape[a] / (per_thread[a] * lanes[a]));
    warps_left /= warps[a];
  }
  per_thread[scanned] = shape[scanned] / (lanes[scanned] * warps[scanned]);
  lanes[fast] *= lanes_left;
  warps[fast] *= warps_left;
  return blocked(shape, per_thread, lanes, warps, access.order);
}

Layout coalesced_along(const std::vector<int64_t>& shape, int axis, const AccessShape& access,
                       const BlockShape& block) {
  std::vector<int64_t> per_thread = shape, lanes(shape.size(), 1), warps(shape.size(), 1);
  const auto a = static_cast<size_t>(axis);
  lanes[a] = block.lanes;
  warps[a] = block.warps;
  const int64_t share = std::max<int64_t>(1, shape[a] / block.threads());
  per_thread[a] = access.order.front() == axis ? std::min(access.vector, share) : 1;
  return blocked(shape, per_thread, lanes, warps, access.order);
}

// Of rows that are reduced: no more than fill a line of memory, as far as there are rows enough for a warp's others.
int64_t most_lanes_of_row(const std::vector<int64_t>& shape, const AccessShape& access, const BlockShape& block) {
  constexpr int64_t kLine = 128;
  if (access.reduced != access.order.front()) return block.lanes;
  int64_t rows = 1;
  for (int axis : access.order) rows *= axis == access.order.front() ? 1 : shape[static_cast<size_t>(axis)];
  const int64_t rows_of_warp = std::max<int64_t>(1, rows / block.warps);
  const int64_t fill_line = std::max<int64_t>(1, kLine / (access.vector * access.bytes));
  return std::min<int64_t>(block.lanes, std::max(fill_line, block.lanes / rows_of_warp));
}

}  // namespace

Layout coalesced(const std::vector<int64_t>& shape, const AccessShape& access, const BlockShape& block) {
  const size_t rank = shape.size();
  std::vector<int64_t> per_thread(rank, 1), lanes(rank, 1), warps(rank, 1);
  if (rank == 0) return replicated(shape, block);
  if (access.ordered) return coalesced_along(shape, *access.ordered, access, block);
  if (access.scanned && access.scanned != access.order.front()) return coalesced_for_scan(shape, access, block);
  const int64_t elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const size_t fast = static_cast<size_t>(access.order.front());
  // No wider than leaves work for every thread.
  const int64_t share = std::max<int64_t>(1, elements / (block.lanes * block.warps));
  per_thread[fast] = std::min({access.vector, shape[fast], power_of_two_below(share)});
  int64_t left = block.lanes;
  for (int axis : access.order) {
    const auto a = static_cast<size_t>(axis);
    lanes[a] = std::min({left, shape[a] / per_thread[a], a == fast ? most_lanes_of_row(shape, access, block) : left});
    left /= lanes[a];
  }
  lanes[fast] *= left;
  // Warps take rows of their own first, so that what a row needs stays in a warp.
  left = block.warps;
  for (size_t i = access.order.size(); i-- > 0;) {
    const auto a = static_cast<size_t>(access.order[i]);
    warps[a] = std::min(left, std::max<int64_t>(1, shape[a] / (per_thread[a] * lanes[a])));
    left /= warps[a];
  }
  warps[fast] *= left;
  return blocked(shape, per_thread, lanes, warps, access.order);
}

}  // namespace kiln::codegen::gpu
