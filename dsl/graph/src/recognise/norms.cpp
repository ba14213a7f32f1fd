// Layer, RMS, group and batch norm: first what is normalised, then weight and bias, which join one by one.
#include <algorithm>
#include <array>
#include <cmath>

#include "kiln/graph/extents.h"
#include "recognise/matching.h"

namespace kiln::graph::recognition {
namespace {

using enum TensorOp;

// A value times 1/sqrt(spread + eps), from the value's frame.
struct Normalised {
  ValueId value = kNoValue;
  Seen spread;
  double eps = 0;
};

// spread + eps. (sqrt(spread) + eps is another number.)
bool read_spread(const Matching& m, const Seen& sum, Normalised& out) {
  if (!m.is(sum.value, kAdd)) return false;
  for (size_t i = 0; i < 2; ++i) {
    const auto eps = m.number(m.operand(sum.value, i));
    if (!eps || !(*eps >= 0)) continue;
    out.eps = *eps;
    out.spread = m.peel(sum, 1 - i);
    return true;
  }
  return false;
}

// Whether a value is 1/sqrt(spread + eps): as rsqrt, as a quotient, or as a power.
bool read_factor(const Matching& m, const Seen& factor, Normalised& out) {
  if (m.is(factor.value, kRsqrt)) return read_spread(m, m.peel(factor, 0), out);
  if (m.is(factor.value, kPow) && m.is_number(m.operand(factor.value, 1), -0.5)) {
    return read_spread(m, m.peel(factor, 0), out);
  }
  if (m.reciprocal_of(factor.value) == kNoValue) return false;
  const Seen root = m.peel(factor, m.is(factor.value, kDiv) ? 1 : 0);
  const bool is_root =
      m.is(root.value, kSqrt) || (m.is(root.value, kPow) && m.is_number(m.operand(root.value, 1), 0.5));
  return is_root && read_spread(m, m.peel(root, 0), out);
}

std::optional<Normalised> normalised(const Matching& m, ValueId root) {
  Normalised out;
  if (m.is(root, kDiv)) {
    const Seen divisor = m.peel(m.operand(root, 1));
    const bool is_root =
        m.is(divisor.value, kSqrt) || (m.is(divisor.value, kPow) && m.is_number(m.operand(divisor.value, 1), 0.5));
    out.value = m.operand(root, 0);
    if (is_root && read_spread(m, m.peel(divisor, 0), out)) return out;
    return std::nullopt;
  }
  for (size_t i = 0; m.is(root, kMul) && i < 2; ++i) {
    out.value = m.operand(root, i);
    if (read_factor(m, m.peel(m.operand(root, 1 - i)), out)) return out;
  }
  return std::nullopt;
}

// A float that was widened exactly, as it was: norms take weights of any float.
ValueId unwidened(const Matching& m, ValueId value) {
  if (!m.is(value, kCast)) return value;
  const ElementType from = m.type(m.operand(value, 0)).element, to = m.type(value).element;
  const bool exact =
      dsl::is_float(from) && (to == ElementType::kF64 || (to == ElementType::kF32 && dsl::is_small_float(from)));
  return exact ? m.operand(value, 0) : value;
}

// How many of the last axes these are, all of them; 0 where they are others.
int64_t last_axes(std::vector<int64_t> axes, int rank) {
  std::sort(axes.begin(), axes.end());
  const auto count = static_cast<int64_t>(axes.size());
  for (int64_t i = 0; i < count; ++i) {
    if (axes[static_cast<size_t>(i)] != rank - count + i) return 0;
  }
  return count;
}

// x·rsqrt(mean(x²) + eps).
ValueId find_rms_norm(Matching& m, const Normalised& found) {
  const auto mean = m.rows(found.spread, kMean);
  if (!mean || m.square_of(mean->of) != found.value) return kNoValue;
  const int64_t axes = last_axes(mean->axes, m.rank(found.value));
  return axes == 0 ? kNoValue : m.emit(kRmsNorm, {found.value, kNoValue}, {axes, found.eps});
}

// (x - mean)·rsqrt(variance + eps): over the last axes of x, or of channels with statistics that are given.
ValueId find_centered(Matching& m, const Normalised& found) {
  if (!m.is(found.value, kSub)) return kNoValue;
  const ValueId x = m.operand(found.value, 0);
  const Seen center = m.peel(m.operand(found.value, 1));
  const auto mean = m.rows(center, kMean), variance = m.rows(found.spread, kVariance);
  if (mean && variance) {
    const int64_t axes = last_axes(mean->axes, m.rank(x));
    const bool fits = mean->of == x && variance->of == x && axes == last_axes(variance->axes, m.rank(x)) &&
                      int_attr(m.attrs(found.spread.value), 1) == 0;
    if (fits && axes > 0) return m.emit(kLayerNorm, {x, kNoValue, kNoValue}, {axes, found.eps});
  }
  if (!m.lies_on_channels(center, m.shape(x)) || !m.lies_on_channels(found.spread, m.shape(x))) return kNoValue;
  return m.emit(kBatchNorm, {x, unwidened(m, center.value), unwidened(m, found.spread.value), kNoValue, kNoValue},
                {found.eps});
}

// The place of the weight among a norm's operands, where it takes one; the bias is behind it.
std::optional<size_t> weight_place(TensorOp op) {
  switch (op) {
    case kLayerNorm:
    case kRmsNorm:
    case kGroupNorm:
      return 1;
    case kBatchNorm:
      return 3;
    default:
      return std::nullopt;
  }
}

// The norm with one more operand, which lies beside x as weights do.
ValueId joined(Matching& m, ValueId norm, ValueId added, size_t place) {
  const Node& node = *m.node(norm);
  const Seen seen = m.peel(added);
  const std::vector<Expr>& frame = m.shape(norm);
  const bool by_row = node.op == kLayerNorm || node.op == kRmsNorm;
  const bool fits = by_row ? m.lies_last(seen, frame, static_cast<size_t>(int_attr(m.attrs(norm), 0)))
                           : m.lies_on_channels(seen, frame);
  if (!fits || !dsl::is_float(m.type(seen.value).element)) return kNoValue;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < node.operand_count; ++i) operands.push_back(m.operand(norm, i));
  operands[place] = unwidened(m, seen.value);
  return m.emit(node.op, operands, AttrList(m.attrs(norm)));
}

}  // namespace

ValueId find_norm(Matching& m, ValueId root) {
  const auto found = normalised(m, root);
  if (!found) return kNoValue;
  const ValueId rms = find_rms_norm(m, *found);
  return rms != kNoValue ? rms : find_centered(m, *found);
}

ValueId find_weight(Matching& m, ValueId root) {
  for (size_t i = 0; i < 2; ++i) {
    const ValueId norm = m.operand(root, i);
    const auto place = m.node(norm) ? weight_place(m.node(norm)->op) : std::nullopt;
    if (!place || m.operand(norm, *place) != kNoValue) continue;
    const bool biased = m.node(norm)->op != kRmsNorm && m.operand(norm, *place + 1) != kNoValue;
    const ValueId out = biased ? kNoValue : joined(m, norm, m.operand(root, 1 - i), *place);
    if (out != kNoValue) return out;
  }
  return kNoValue;
}

ValueId find_bias(Matching& m, ValueId root) {
  for (size_t i = 0; i < 2; ++i) {
    const ValueId norm = m.operand(root, i);
    const auto place = m.node(norm) ? weight_place(m.node(norm)->op) : std::nullopt;
    if (!place || m.node(norm)->op == kRmsNorm || m.operand(norm, *place + 1) != kNoValue) continue;
    const ValueId out = joined(m, norm, m.operand(root, 1 - i), *place + 1);
    if (out != kNoValue) return out;
  }
  return kNoValue;
}

// A layer norm without weights over all but the first two axes of [N, G, …], as [N, C, …] again.
ValueId find_group_norm(Matching& m, ValueId root) {
  const ValueId norm = m.operand(root, 0);
  if (!m.is(norm, kLayerNorm) || m.operand(norm, 1) != kNoValue || m.operand(norm, 2) != kNoValue) return kNoValue;
  const std::vector<Expr>& parts = m.shape(norm);
  const std::vector<Expr> whole = m.shape(root);
  if (whole.size() < 2 || parts.size() < 3 || int_attr(m.attrs(norm), 0) != static_cast<int64_t>(parts.size()) - 2) {
    return kNoValue;
  }
  const auto groups = parts[1].as_constant();
  if (!groups || *groups < 1 || !m.same_extent(parts[0], whole[0])) return kNoValue;
  if (!exact_quotient(m.dims(), whole[1], Expr(*groups))) return kNoValue;
  const double eps = float_attr(m.attrs(norm), 1);
  const ValueId x = m.reshaped(m.operand(norm, 0), whole);
  return x == kNoValue ? kNoValue : m.emit(kGroupNorm, {x, kNoValue, kNoValue}, {*groups, eps});
}

}  // namespace kiln::graph::recognition
