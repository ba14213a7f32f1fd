#include "cbor_mutator.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

namespace kiln::fuzz {
namespace {

using Json = nlohmann::json;
using Random = std::minstd_rand;

using Bytes = std::vector<std::byte>;

constexpr size_t kMaxDepth = 200;  // nodes are collected and written by recursion

void collect(Json& node, size_t depth, std::vector<Json*>& out) {
  out.push_back(&node);
  if (!node.is_array() || depth > kMaxDepth) return;
  for (Json& entry : node) collect(entry, depth + 1, out);
}

Json other_number(const Json& old, Random& random) {
  static constexpr int64_t kNotable[] = {0, 1, 2, -1, 16, 255, 4096, 65536, INT32_MAX, INT64_MAX, INT64_MIN};
  const int64_t now = old.is_number_integer() ? old.get<int64_t>() : 0;
  switch (random() % 4) {
    case 0:
      return static_cast<uint64_t>(random() % 20);
    case 1:
      return now == INT64_MAX ? now : now + 1;
    case 2:
      return now == INT64_MIN ? now : now - 1;
    default:
      break;
  }
  const int64_t notable = kNotable[random() % std::size(kNotable)];
  if (notable < 0) return notable;
  return static_cast<uint64_t>(notable);  // the reader tells numbers that can be negative from those that cannot
}

void mutate_array(Json& node, const Json& other, Random& random) {
  const size_t at = node.empty() ? 0 : random() % node.size();
  switch (random() % 4) {
    case 0:
      if (!node.empty()) node.erase(at);
      break;
    case 1:
      if (!node.empty()) node.insert(node.begin() + static_cast<ptrdiff_t>(at), Json(node[at]));
      break;
    case 2:
      node.insert(node.begin() + static_cast<ptrdiff_t>(at), other);
      break;
    default:
      if (!node.empty()) std::swap(node[at], node[random() % node.size()]);
  }
}

std::span<const std::byte> bytes_of(const std::vector<uint8_t>& bytes) { return std::as_bytes(std::span(bytes)); }

// A graph in a request for its plan, or a kernel in a plan.
Json mutate_bytes(const Json::binary_t& old, uint32_t seed) {
  const auto before = bytes_of(old);
  Bytes after = mutate_record(before, seed);
  if (std::ranges::equal(after, before)) after = mutate_sections(before, seed);
  const auto* data = reinterpret_cast<const uint8_t*>(after.data());
  return Json::binary(std::vector<uint8_t>(data, data + after.size()));
}

}  // namespace

Sections split_sections(std::span<const std::byte> bytes) {
  if (bytes.size() < 4) return {bytes, {}};
  size_t size = 0;
  for (size_t i = 0; i < 4; ++i) size |= static_cast<size_t>(bytes[i]) << (8 * i);
  const auto rest = bytes.subspan(4);
  size = std::min(size, rest.size());
  return {rest.first(size), rest.subspan(size)};
}

std::vector<std::byte> mutate_record(std::span<const std::byte> bytes, uint32_t seed) {
  Json record;
  try {
    const auto* begin = reinterpret_cast<const uint8_t*>(bytes.data());
    record = Json::from_cbor(begin, begin + bytes.size());
  } catch (const Json::exception&) {  // thrown for a list that is too long even where exceptions are declined
    return {bytes.begin(), bytes.end()};
  }
  Random random(seed);
  std::vector<Json*> nodes;
  collect(record, 0, nodes);
  Json& node = *nodes[random() % nodes.size()];
  const Json other = *nodes[random() % nodes.size()];
  if (random() % 8 == 0)
    node = other;
  else if (node.is_array())
    mutate_array(node, other, random);
  else if (node.is_number())
    node = other_number(node, random);
  else if (node.is_binary())
    node = mutate_bytes(node.get_binary(), static_cast<uint32_t>(random()));
  else if (node.is_boolean())
    node = !node.get<bool>();
  else if (node.is_string() && random() % 2)
    node = node.get<std::string>() + "_";
  else
    node = other;
  const std::vector<uint8_t> out = Json::to_cbor(record);
  return {bytes_of(out).begin(), bytes_of(out).end()};
}

Bytes mutate_sections(std::span<const std::byte> bytes, uint32_t seed) {
  const Sections sections = split_sections(bytes);
  const bool is_first = seed % 4 != 0;
  const Bytes changed = mutate_record(is_first ? sections.canonical : sections.debug, seed);
  const auto first = is_first ? std::span<const std::byte>(changed) : sections.canonical;
  const auto second = is_first ? sections.debug : std::span<const std::byte>(changed);
  Bytes out;
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>(first.size() >> shift & 0xff));
  out.insert(out.end(), first.begin(), first.end());
  out.insert(out.end(), second.begin(), second.end());
  return out;
}

}  // namespace kiln::fuzz
