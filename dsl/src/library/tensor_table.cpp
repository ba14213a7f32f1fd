// Tables of tensors, made on the host.
#include "kiln/dsl/tensor_table.h"

#include <algorithm>
#include <limits>
#include <string>

namespace kiln::dsl {
namespace {

constexpr int64_t kMostAlign = 16;

// How many elements behind its array's base a tensor begins.
Result<int64_t> place_of(const TensorArray& array, size_t number, size_t tensor) {
  const auto at = reinterpret_cast<intptr_t>(array.addresses[tensor]);
  const auto bytes = static_cast<int64_t>(at - reinterpret_cast<intptr_t>(array.addresses[0]));
  if (bytes % array.element_bytes == 0) return bytes / array.element_bytes;
  return invalid_argument("tensor " + std::to_string(tensor) + " of array " + std::to_string(number) + " lies " +
                          std::to_string(bytes) + " bytes behind the first one, no multiple of the " +
                          std::to_string(array.element_bytes) + " of an element");
}

Result<void> check_arrays(std::span<const int64_t> lengths, std::span<const TensorArray> arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::string name = "array " + std::to_string(i);
    if (arrays[i].element_bytes < 1) return invalid_argument(name + " has elements of no bytes");
    if (arrays[i].addresses.size() != lengths.size()) {
      return invalid_argument(name + " has " + std::to_string(arrays[i].addresses.size()) + " tensors instead of " +
                              std::to_string(lengths.size()));
    }
  }
  return {};
}

}  // namespace

Result<TensorTable> tensor_table(std::span<const int64_t> lengths, std::span<const TensorArray> arrays, int32_t chunk) {
  if (chunk < 1) return invalid_argument("chunks of " + std::to_string(chunk) + " elements");
  if (auto checked = check_arrays(lengths, arrays); !checked) return checked.error();
  TensorTable out;
  out.align = kMostAlign;
  int64_t programs = 0;
  for (size_t t = 0; t < lengths.size(); ++t) {
    if (lengths[t] < 0) {
      return invalid_argument("tensor " + std::to_string(t) + " has " + std::to_string(lengths[t]) + " elements");
    }
    out.tensors.push_back(lengths[t]);
    for (size_t i = 0; i < arrays.size(); ++i) {
      const auto place = place_of(arrays[i], i, t);
      if (!place) return place.error();
      out.tensors.push_back(*place);
      while (*place % out.align != 0) out.align /= 2;
    }
    out.firsts.push_back(static_cast<int32_t>(programs));
    const int64_t mine = lengths[t] / chunk + (lengths[t] % chunk != 0);
    if (mine > std::numeric_limits<int32_t>::max() - programs) {
      return invalid_argument("more than 2^31 - 1 chunks of " + std::to_string(chunk) + " elements");
    }
    for (int64_t c = 0; c < mine; ++c) {
      out.chunks.insert(out.chunks.end(), {static_cast<int32_t>(t), static_cast<int32_t>(c)});
    }
    programs += mine;
  }
  out.programs = static_cast<int32_t>(programs);
  out.firsts.push_back(out.programs);
  return out;
}

}  // namespace kiln::dsl
