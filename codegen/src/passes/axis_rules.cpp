#include "passes/axis_rules.h"

#include <algorithm>
#include <numeric>

#include "passes/axis_arithmetic.h"
#include "passes/axis_shapes.h"

namespace kiln::codegen::axis {

using dsl::ElementType;
using dsl::Op;
using dsl::OpCode;
using dsl::Type;
using dsl::Wide;

namespace {

bool has_range(const Type& type) { return type.is_value() && dsl::is_int(type.element); }

int64_t last_extent(const Type& type) { return type.shape.empty() ? 1 : type.shape.back().as_constant().value(); }

int64_t step_of(const Type& type) { return type.pointer ? dsl::info(type.element).bytes : 1; }

// The least common multiple of two claims; the greater where it is no int64. 0 is a multiple of everything.
int64_t both_multiples(int64_t x, int64_t y) {
  if (x == 0 || y == 0) return 0;
  int64_t product;
  return __builtin_mul_overflow(x / std::gcd(x, y), y, &product) ? std::max(x, y) : product;
}

AxisInfo in_range(const Type& type, Wide low, Wide high) {
  AxisInfo out = unknown(type);
  out.low = std::max(low, out.low);
  out.high = std::min(high, out.high);
  return out;
}

AxisInfo reduced(const Facts& facts, const Op& op, size_t result) {
  const AxisInfo& x = facts.operand(op, result);
  const Type& from = facts.type(op.operands[result]);
  const Type& type = facts.type(op.results[result]);
  const int64_t length = dsl::concrete_shape(from)[static_cast<size_t>(int_attr(op, 1))];
  switch (static_cast<dsl::ReduceKind>(int_attr(op, 0))) {
    case dsl::ReduceKind::kArgmin:
    case dsl::ReduceKind::kArgmax:
      return in_range(type, 0, length - 1);
    case dsl::ReduceKind::kMin:
    case dsl::ReduceKind::kMax:
      return in_range(type, x.low, x.high);
    case dsl::ReduceKind::kAnd:
    case dsl::ReduceKind::kOr:
      return type.element == ElementType::kI1 ? in_range(type, x.low, x.high) : unknown(type);
    case dsl::ReduceKind::kSum: {
      const AxisInfo all = unknown(type);
      if (!has_range(type)) return all;
      const Wide low = std::min(x.low, x.low * length), high = std::max(x.high, x.high * length);
      return low >= all.low && high <= all.high ? in_range(type, low, high) : all;
    }
    default:
      return unknown(type);
  }
}

// program_id, constant, arange, and the ops that order or count.
AxisInfo made(const Facts& facts, const Op& op, size_t result) {
  const Type& type = facts.type(op.results[result]);
  // docs/reference/ops.md: axis 0 of a grid is below 2^31, the others at most 65535, whoever gives the grid.
  auto programs = [&] { return Wide{int_attr(op, 0) == 0 ? 0x7fffffff : 65535}; };
  switch (op.code) {
    case OpCode::kProgramId:
      return in_range(type, 0, programs() - 1);
    case OpCode::kNumPrograms:
      return in_range(type, 1, programs());
    case OpCode::kConstant:
      if (!has_range(type)) return unknown(type);
      return known(type.element, number_from_bits(type.element, std::get<dsl::Literal>(op.attrs[0]).bits));
    case OpCode::kArange: {
      const int64_t start = number_attr(op, 0), end = number_attr(op, 1);
      AxisInfo out = in_range(type, start, end - 1);
      out.contiguous = end - start;
      out.multiple_of = std::abs(start);
      return out;
    }
    case OpCode::kSort: {
      const AxisInfo& x = facts.operand(op, result);
      AxisInfo out = unknown(type);
      out.low = x.low, out.high = x.high;
      out.multiple_of = multiple_of_groups(x, 1);
      return out;
    }
    case OpCode::kTopk: {
      const AxisInfo& x = facts.operand(op, 0);
      const auto axis = static_cast<size_t>(int_attr(op, 1));
      if (result == 1) return in_range(type, 0, dsl::concrete_shape(facts.type(op.operands[0]))[axis] - 1);
      return has_range(type) ? in_range(type, x.low, x.high) : unknown(type);
    }
    case OpCode::kHistogram:
      return in_range(type, 0, dsl::element_count(facts.type(op.operands[0])));
    case OpCode::kReduce:
    case OpCode::kScan:
      return reduced(facts, op, result);
    default:
      return unknown(type);
  }
}

}  // namespace

AxisInfo unknown(const Type& type) {
  AxisInfo out;
  out.low = has_range(type) ? lowest(type.element) : -kFar;
  out.high = has_range(type) ? highest(type.element) : kFar;
  return out;
}

AxisInfo known(ElementType element, Wide number) {
  AxisInfo out;
  out.low = out.high = number;
  const Wide magnitude = number < 0 ? -number : number;
  // The largest u64 are multiples of what fits.
  out.multiple_of = magnitude <= INT64_MAX
                        ? static_cast<int64_t>(magnitude)
                        : int64_t{1} << std::min(62, __builtin_ctzll(bits_from_number(element, number)));
  return out;
}

int64_t common_groups(int64_t x, int64_t y, int64_t extent) {
  if (x >= extent) return y;
  return y >= extent ? x : std::gcd(x, y);
}

AxisInfo join(const AxisInfo& x, const AxisInfo& y, const Type& type) {
  const int64_t extent = last_extent(type);
  AxisInfo out;
  out.low = std::min(x.low, y.low);
  out.high = std::max(x.high, y.high);
  out.contiguous = common_groups(x.contiguous, y.contiguous, extent);
  out.constant = common_groups(x.constant, y.constant, extent);
  const int64_t step = step_of(type);
  out.multiple_of = std::gcd(multiple_of_groups(x, out.contiguous, step), multiple_of_groups(y, out.contiguous, step));
  if (x.base == y.base) {
    out.base = x.base;
    out.base_low = std::min(x.base_low, y.base_low);
    out.base_high = std::max(x.base_high, y.base_high);
  }
  return out;
}

AxisInfo assumed(AxisInfo x, const Op& op, const Type& type) {
  const int64_t multiple = number_attr(op, 0), contiguous = number_attr(op, 1);
  const int64_t low = number_attr(op, 2), high = number_attr(op, 3);
  if (contiguous > x.contiguous) {
    x.multiple_of = both_multiples(multiple, multiple_of_groups(x, contiguous, step_of(type)));
    x.contiguous = std::min(contiguous, last_extent(type));
  } else if (x.contiguous % contiguous == 0) {
    x.multiple_of = both_multiples(multiple, x.multiple_of);
  }
  if (!has_range(type)) return x;
  const Wide least = std::max(x.low, Wide{low}), most = high == INT64_MAX ? x.high : std::min(x.high, Wide{high});
  if (least <= most) x.low = least, x.high = most;  // else the word is false
  return x;
}

AxisInfo result_info(const Facts& facts, const Op& op, size_t result) {
  if (auto info = shape_info(facts, op)) return *info;
  if (auto info = arithmetic_info(facts, op)) return *info;
  return made(facts, op, result);
}

}  // namespace kiln::codegen::axis
