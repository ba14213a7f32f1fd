#include "random/facts.h"

#include <algorithm>
#include <cmath>

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::Type;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

Wide lowest_int(ElementType type) {
  const dsl::ElementTypeInfo& about = dsl::info(type);
  return about.is_signed ? -(Wide{1} << (about.bits - 1)) : 0;
}

Wide highest_int(ElementType type) {
  const dsl::ElementTypeInfo& about = dsl::info(type);
  return (Wide{1} << (about.is_signed ? about.bits - 1 : about.bits)) - 1;
}

double unit_of(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return 0x1p-10;
    case ElementType::kBF16:
      return 0x1p-7;
    case ElementType::kF64:
      return 0x1p-52;
    case ElementType::kF8E4M3:
      return 0x1p-3;
    case ElementType::kF8E5M2:
      return 0x1p-2;
    default:
      return 0x1p-23;
  }
}

double smallest_of(ElementType type) { return dsl::double_from_bits(type, 1); }

double largest_of(ElementType type) {
  if (type == ElementType::kF8E4M3) return 448;
  return dsl::double_from_bits(type, dsl::bits_from_double(type, kInfinite) - (type == ElementType::kF8E5M2 ? 0 : 1));
}

Fact full_fact(const Type& type) {
  Fact out;
  if (type.is_value() && !dsl::is_float(type.element)) {
    out.low = lowest_int(type.element);
    out.high = highest_int(type.element);
  }
  return out;
}

Fact carried_fact(const Type& type) {
  Fact out = full_fact(type);
  if (dsl::is_float(type.element)) out.level = Level::kValue;
  out.may_wrap = dsl::is_int(type.element) && type.element != ElementType::kI1;
  return out;
}

Fact join(const Fact& a, const Fact& b) {
  Fact out = a;
  out.level = std::max(a.level, b.level);
  out.rtol = std::max(a.rtol, b.rtol);
  out.atol = std::max(a.atol, b.atol);
  out.bound = std::max(a.bound, b.bound);
  out.integral = a.integral && b.integral;
  out.low = std::min(a.low, b.low);
  out.high = std::max(a.high, b.high);
  out.may_wrap = a.may_wrap || b.may_wrap;
  return out;
}

bool within(const Fact& fact, const Fact& allowed) {
  if (fact.level == Level::kNear && allowed.level == Level::kNear) {
    return fact.rtol <= allowed.rtol && fact.atol <= allowed.atol;
  }
  return fact.level <= allowed.level;
}

dsl::Bindings config_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& values) {
  dsl::Bindings out;
  for (const dsl::Constexpr& item : kernel.constexprs) {
    const auto given = values.find(item.name);
    out.constexprs.push_back(given != values.end() ? given->second : item.default_value);
  }
  return out;
}

std::vector<int64_t> World::shape(const Type& type) const {
  std::vector<int64_t> out;
  for (const dsl::Expr& extent : type.shape) out.push_back(value(extent));
  return out;
}

int64_t World::count(const Type& type) const {
  int64_t out = 1;
  for (const int64_t extent : shape(type)) out *= extent;
  return out;
}

namespace {

void add_element(ElementType type, uint64_t bits, Fact& fact) {
  if (dsl::is_float(type)) {
    const double value = dsl::double_from_bits(type, bits);
    fact.bound = std::isfinite(value) ? std::max(fact.bound, std::fabs(value)) : kInfinite;
    fact.integral = fact.integral && value == std::floor(value) && !(value == 0 && std::signbit(value));
    return;
  }
  const int shift = 64 - dsl::info(type).bits;
  const Wide value = dsl::info(type).is_signed ? Wide{static_cast<int64_t>(bits << shift) >> shift} : Wide{bits};
  fact.low = std::min(fact.low, value);
  fact.high = std::max(fact.high, value);
}

Fact empty_fact(ElementType type) {
  Fact out;
  out.bound = 0;
  out.integral = true;
  out.low = highest_int(type);
  out.high = lowest_int(type);
  return out;
}

}  // namespace

Fact fact_of_bits(ElementType type, uint64_t bits) {
  Fact out = empty_fact(type);
  add_element(type, bits, out);
  return out;
}

Fact World::argument(size_t param) const {
  const Type& type = kernel.params[param].type;
  Fact out = type.pointer ? Fact{} : fact_of_bits(type.element, inputs[param].bits);
  out.root = static_cast<uint32_t>(param);
  return out;
}

Fact World::loaded_from(size_t param) const {
  const Type type = dsl::scalar_type(kernel.params[param].type.element);
  if (!kernel.params[param].readonly) {
    Fact out = storable_to(param);
    out.rtol = out.atol = 0;
    out.low = full_fact(type).low;
    out.high = full_fact(type).high;
    return out;
  }
  contents.resize(kernel.params.size());
  if (!contents[param]) {
    contents[param] = empty_fact(type.element);
    const size_t count = element_count(type.element, inputs[param]);
    // An infinite bound stays: max() keeps it.
    for (size_t i = 0; i < count; ++i) {
      const double before = contents[param]->bound;
      add_element(type.element, element_at(type.element, inputs[param], i), *contents[param]);
      contents[param]->bound = std::max(before, contents[param]->bound);
    }
  }
  return *contents[param];
}

// What is read again must be exact; what is only written may be near.
Fact World::storable_to(size_t param) const {
  Fact out;
  const bool is_number = dsl::is_float(kernel.params[param].type.element);
  out.level = !is_number ? Level::kBits : loaded[param] ? Level::kValue : Level::kNear;
  out.rtol = out.atol = kInfinite;
  return out;
}

bool agrees(ElementType type, uint64_t actual, uint64_t expected, const Fact& fact) {
  if (actual == expected) return true;
  if (!dsl::is_float(type) || fact.level == Level::kBits) return false;
  const double a = dsl::double_from_bits(type, actual), b = dsl::double_from_bits(type, expected);
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == 0 && b == 0) return fact.level >= Level::kAnyZero;
  if (fact.level != Level::kNear) return false;
  // One side may have overflowed where the other just did not.
  const double largest = largest_of(type);
  auto clipped = [&](double x) { return std::isinf(x) ? std::copysign(largest, x) : x; };
  const double x = clipped(a), y = clipped(b);
  return std::fabs(x - y) <= fact.atol + fact.rtol * std::fabs(y);
}

std::string differences(const Case& test, const std::vector<Input>& actual, const std::vector<Input>& expected) {
  auto facts = output_facts(test);
  if (!facts) return "the case has no certain result: " + facts.error().message;
  std::string out;
  size_t wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const ElementType type = test.kernel.params[i].type.element;
    const size_t count = expected[i].is_buffer ? element_count(type, expected[i]) : 0;
    for (size_t k = 0; k < count; ++k) {
      const uint64_t a = element_at(type, actual[i], k), b = element_at(type, expected[i], k);
      if (agrees(type, a, b, (*facts)[i]) || ++wrong > 5) continue;
      char line[200];
      std::snprintf(line, sizeof line, "%s[%zu]: %.17g (%llx) instead of %.17g (%llx), rtol %g, atol %g\n",
                    test.kernel.params[i].name.c_str(), k, dsl::double_from_bits(type, a),
                    static_cast<unsigned long long>(a), dsl::double_from_bits(type, b),
                    static_cast<unsigned long long>(b), (*facts)[i].rtol, (*facts)[i].atol);
      out += line;
    }
  }
  return wrong > 5 ? out + "and " + std::to_string(wrong - 5) + " more\n" : out;
}

}  // namespace kiln::random_kernel
