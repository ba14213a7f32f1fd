#include "cbor_mutator.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

namespace kiln::fuzz {
namespace {

using Json = nlohmann::json;
using Random = std::minstd_rand;

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
  else if (node.is_boolean())
    node = !node.get<bool>();
  else if (node.is_string() && random() % 2)
    node = node.get<std::string>() + "_";
  else
    node = other;
  const std::vector<uint8_t> out = Json::to_cbor(record);
  const auto* data = reinterpret_cast<const std::byte*>(out.data());
  return {data, data + out.size()};
}

}  // namespace kiln::fuzz
