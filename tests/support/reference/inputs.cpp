#include "reference/inputs.h"

#include <algorithm>

#include "reference/formats.h"
#include "reference/ints.h"
#include "reference/random.h"

namespace kiln::reference {
namespace {

uint64_t word64(const Counter& words, size_t first) { return uint64_t{words[first]} << 32 | words[first + 1]; }

Bits random_element(Type type, const Counter& words) {
  if (is_float(type)) return from_real(type, randn(words[0], words[1]).cosine);
  return word64(words, 0) & mask(type);
}

template <class Element>
std::vector<Bits> generated(int64_t size, uint64_t seed, Element element) {
  std::vector<Bits> out;
  out.reserve(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) out.push_back(element(philox(seed, static_cast<uint64_t>(i))));
  return out;
}

std::vector<Bits> special_floats(Type type) {
  const Format f = format(type);
  const Bits least_normal = Bits{1} << f.mantissa_bits;
  const Bits one = static_cast<Bits>(f.bias()) << f.mantissa_bits;
  std::vector<Bits> out = {0, 1, least_normal - 1, least_normal, one - 1, one, one + 1, f.largest()};
  if (f.specials == Format::Specials::kIeee) out.push_back(f.infinity());
  const size_t positives = out.size();
  for (size_t i = 0; i < positives; ++i) out.push_back(out[i] | f.sign_bit());
  out.push_back(f.quiet_nan());
  return out;
}

bool is_prime(int64_t value) {
  if (value < 2) return false;
  for (int64_t divisor = 2; divisor * divisor <= value; ++divisor) {
    if (value % divisor == 0) return false;
  }
  return true;
}

}  // namespace

std::vector<Bits> specials(Type type) {
  if (is_float(type)) return special_floats(type);
  std::vector<Bits> out;
  const Wide low = int_min(type), high = int_max(type);
  for (const Wide value : {low, low + 1, Wide{-2}, Wide{-1}, Wide{0}, Wide{1}, Wide{2}, high - 1, high}) {
    const Bits bits = wrap(type, value);
    if (value >= low && value <= high && std::find(out.begin(), out.end(), bits) == out.end()) out.push_back(bits);
  }
  return out;
}

std::vector<Bits> all_values(Type type) {
  std::vector<Bits> out;
  for (Bits bits = 0; bits <= mask(type); ++bits) out.push_back(bits);
  return out;
}

std::vector<Bits> random_elements(Type type, int64_t size, uint64_t seed, bool with_specials) {
  const std::vector<Bits> special = specials(type);
  return generated(size, seed, [&](const Counter& words) {
    if (with_specials && words[2] % 8 == 0) return special[words[3] % special.size()];
    return random_element(type, words);
  });
}

std::vector<Bits> random_bits(Type type, int64_t size, uint64_t seed) {
  return generated(size, seed, [&](const Counter& words) { return word64(words, 0) & mask(type); });
}

std::vector<Bits> random_ints(Type type, int64_t size, Wide low, Wide high, uint64_t seed) {
  return generated(size, seed, [&](const Counter& words) {
    const UWide word = static_cast<UWide>(word64(words, 0)) << 64 | word64(words, 2);
    return wrap(type, low + static_cast<Wide>(word % static_cast<UWide>(high - low + 1)));
  });
}

std::vector<int64_t> extents(int64_t limit) {
  std::vector<int64_t> out;
  for (int64_t value = 2; value <= 31; ++value) {
    if (is_prime(value)) out.push_back(value);
  }
  for (int64_t power = 1; power - 1 <= limit; power *= 2) {
    int64_t prime = power + 1;
    while (!is_prime(prime)) ++prime;
    out.insert(out.end(), {power - 1, power, power + 1, prime});
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  std::erase_if(out, [&](int64_t extent) { return extent < 1 || extent > limit; });
  return out;
}

std::vector<Shape> shapes(size_t rank, int64_t limit, int64_t max_count) {
  const std::vector<int64_t> all = extents(limit);
  std::vector<Shape> out;
  if (rank == 0) return {{}};
  for (size_t turn = 0; turn < (rank == 1 ? 1 : all.size()); ++turn) {
    for (size_t i = 0; i < all.size(); ++i) {
      // Axis a starts a·turn further along the list than axis 0.
      Shape shape;
      for (size_t axis = 0; axis < rank; ++axis) shape.push_back(all[(i + axis * turn) % all.size()]);
      if (count(shape) <= max_count) out.push_back(std::move(shape));
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace kiln::reference
