#include "reference/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/cast.h"
#include "reference/formats.h"

namespace kiln::reference {
namespace {

constexpr long double kInfinity = std::numeric_limits<long double>::infinity();

// Spacing of the float type at |value|.
long double spacing(Type type, long double value) {
  const Format f = format(type);
  if (value == 0) return std::ldexp(1.0L, f.least_unit());
  return std::ldexp(1.0L, std::max(std::ilogb(value) - f.mantissa_bits, f.least_unit()));
}

}  // namespace

Tolerance tolerance(Type type) {
  switch (type) {
    case Type::kF16:
      return {1e-3L, 1e-5L};
    case Type::kBF16:
      return {1.6e-2L, 1e-5L};
    case Type::kF32:
      return {1.3e-6L, 1e-5L};
    case Type::kF64:
      return {1e-13L, 1e-13L};
    case Type::kF8E4M3:
      return {0x1p-3L, 0x1p-9L};
    case Type::kF8E5M2:
      return {0x1p-2L, 0x1p-16L};
    default:
      return {};
  }
}

bool same(Type type, Bits a, Bits b, bool any_zero) {
  return a == b || (is_nan(type, a) && is_nan(type, b)) || (any_zero && is_zero(type, a) && is_zero(type, b));
}

bool close(Type type, Bits out, long double ref) { return close(type, out, ref, tolerance(type)); }

bool close(Type type, Bits out, long double ref, const Tolerance& tolerance) {
  const long double value = real_value(type, out);
  if (std::isnan(value) || std::isnan(ref)) return std::isnan(value) && std::isnan(ref);
  if (std::isinf(ref)) return out == element_of(type, ref);
  const long double allowed = tolerance.atol + tolerance.rtol * std::fabs(ref);
  if (std::fabs(value - ref) <= allowed) return true;
  const bool overflowed = out == element_of(type, std::copysign(kInfinity, value));
  return overflowed && out == element_of(type, ref + std::copysign(allowed, ref));
}

std::vector<size_t> mismatches(Type type, const std::vector<Bits>& out, const std::vector<long double>& ref) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < ref.size(); ++i) {
    if (i >= out.size() || !close(type, out[i], ref[i])) positions.push_back(i);
  }
  return positions;
}

long double ulp_error(Type type, Bits out, long double ref) {
  const long double value = real_value(type, out);
  if (std::isnan(value) || std::isnan(ref)) return std::isnan(value) && std::isnan(ref) ? 0 : kInfinity;
  if (same(type, out, element_of(type, ref), true)) return 0;
  if (std::isinf(value) || std::isinf(ref)) return kInfinity;
  return std::fabs(value - ref) / spacing(type, ref);
}

long double dot_error(Type type, const std::vector<Bits>& out, const std::vector<long double>& ref) {
  if (out.size() != ref.size()) return kInfinity;
  long double error = 0, norm = 0;
  for (size_t i = 0; i < ref.size(); ++i) {
    const long double value = real_value(type, out[i]);
    if (!std::isfinite(value) || !std::isfinite(ref[i])) {
      if (!same(type, out[i], element_of(type, ref[i]))) return kInfinity;
      continue;
    }
    error += (value - ref[i]) * (value - ref[i]);
    norm += ref[i] * ref[i];
  }
  if (error == 0) return 0;
  return norm == 0 ? kInfinity : std::sqrt(error / norm);
}

long double dot_tolerance(Type operands, Type result, int64_t depth, DotPrecision precision) {
  if (!is_float(operands)) return 0;
  // The result's own rounding decides where it is narrower than the accumulator.
  if (result == Type::kF16 || result == Type::kBF16) return 1e-2L;
  const long double ieee = 3e-8L * std::sqrt(static_cast<long double>(depth)) + 1e-7L;
  switch (operands) {
    case Type::kF16:
    case Type::kBF16:
      return 1e-5L;
    case Type::kF8E4M3:
    case Type::kF8E5M2:
      return 5e-3L;
    case Type::kF64:
      return std::ldexp(ieee, -29);
    default:
      return precision == DotPrecision::kIeee ? ieee : 1e-3L;
  }
}

}  // namespace kiln::reference
