// An element is one of 2^16 values of a table, by a hash of seed, array and position: so each element costs a few
// multiplications, whatever its distribution and type, and threads may fill any parts.
#include "inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace kiln::autotune {
namespace {

constexpr size_t kTableSize = 1u << 16;
constexpr uint64_t kMaxBytes = uint64_t{1} << 40;

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Of the standard normal distribution, by bisection of erfc; made once a process.
double normal_quantile(double p) {
  double low = -9, high = 9;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

const std::vector<double>& normal_table() {
  static const std::vector<double> table = [] {
    std::vector<double> out(kTableSize);
    for (size_t i = 0; i < kTableSize / 2; ++i) {
      out[i] = normal_quantile((static_cast<double>(i) + 0.5) / kTableSize);
      out[kTableSize - 1 - i] = -out[i];
    }
    return out;
  }();
  return table;
}

bool is_byte_float(dsl::ElementType element) { return dsl::is_float(element) && dsl::info(element).bytes == 1; }

std::vector<uint64_t> float_table(dsl::ElementType element, const WorkloadArgument& argument) {
  std::vector<uint64_t> out(kTableSize);
  const double scale = is_byte_float(element) ? 0.125 : 1;
  for (size_t i = 0; i < kTableSize; ++i) {
    double value = normal_table()[i] * scale;
    if (argument.range) {
      const auto low = static_cast<double>(argument.range->first), high = static_cast<double>(argument.range->second);
      value = low + (high - low) * static_cast<double>(i) / kTableSize;
    }
    out[i] = dsl::bits_from_double(element, value);
  }
  return out;
}

// The first value, and how many there are.
std::pair<int64_t, uint64_t> int_range(dsl::ElementType element, const WorkloadArgument& argument) {
  if (argument.range) {
    const auto [low, high] = *argument.range;
    return {low, high > low ? static_cast<uint64_t>(high) - static_cast<uint64_t>(low) : 1};
  }
  if (element == dsl::ElementType::kI1) return {0, 2};
  return {dsl::info(element).is_signed ? -4 : 0, 8};
}

template <class Word, class Value>
void fill_words(std::span<std::byte> out, const Value& value) {
  const auto count = static_cast<int64_t>(out.size() / sizeof(Word));
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const auto word = static_cast<Word>(value(static_cast<uint64_t>(i)));
    std::memcpy(out.data() + static_cast<size_t>(i) * sizeof(Word), &word, sizeof word);
  }
}

template <class Value>
void fill_elements(dsl::ElementType element, std::span<std::byte> out, const Value& value) {
  switch (dsl::info(element).bytes) {
    case 1:
      return fill_words<uint8_t>(out, value);
    case 2:
      return fill_words<uint16_t>(out, value);
    case 4:
      return fill_words<uint32_t>(out, value);
    default:
      return fill_words<uint64_t>(out, value);
  }
}

}  // namespace

Result<uint64_t> array_bytes(const dsl::Param& param, const WorkloadArgument& argument) {
  uint64_t bytes = 0;
  const auto size = static_cast<uint64_t>(dsl::info(param.type.element).bytes);
  if (argument.elements < 0 || __builtin_mul_overflow(static_cast<uint64_t>(argument.elements), size, &bytes) ||
      bytes > kMaxBytes) {
    return invalid_argument("parameter `" + param.name + "` cannot have " + std::to_string(argument.elements) +
                            " elements");
  }
  return bytes;
}

void fill_array(dsl::ElementType element, const WorkloadArgument& argument, uint64_t seed, size_t number,
                std::span<std::byte> out) {
  const uint64_t stream = mix(seed * 0x9e3779b97f4a7c15u + number + 1);
  const auto random = [stream](uint64_t i) { return mix(stream + i * 0x9e3779b97f4a7c15u); };
  if (dsl::is_float(element)) {
    const std::vector<uint64_t> table = float_table(element, argument);
    fill_elements(element, out, [&](uint64_t i) { return table[random(i) % kTableSize]; });
    return;
  }
  const auto [low, count] = int_range(element, argument);
  fill_elements(element, out,
                [&, first = static_cast<uint64_t>(low), n = count](uint64_t i) { return first + random(i) % n; });
}

}  // namespace kiln::autotune
