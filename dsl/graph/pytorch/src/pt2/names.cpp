#include "pt2/names.h"

#include <algorithm>
#include <set>

namespace kiln::graph::pt2 {
namespace {

constexpr int kMaxDepth = 32;

// Keys of a dict's children: its context, a list as JSON text.
std::vector<std::string> keys_of(const json& node, size_t count) {
  const auto context = node.find("context");
  if (context == node.end() || !context->is_string()) return {};
  json keys = json::parse(context->get_ref<const std::string&>(), nullptr, false);
  // Dataclasses have the names of the fields that are not None in a list of their own.
  if (keys.is_array() && keys.size() == 2 && keys[1].is_array()) keys = json(keys[1]);
  if (!keys.is_array() || keys.size() != count) return {};
  std::vector<std::string> out;
  for (const json& key : keys) {
    if (!key.is_string() || key.get_ref<const std::string&>().empty()) return {};
    out.push_back(key.get<std::string>());
  }
  return out;
}

void collect(const json& node, const std::string& prefix, int depth, std::vector<std::string>& out) {
  if (depth > kMaxDepth || !node.is_object()) return;
  const auto children = node.find("children_spec");
  const auto type = node.find("type");
  if (type == node.end() || type->is_null() || children == node.end() || !children->is_array()) {
    out.push_back(prefix);
    return;
  }
  const std::vector<std::string> keys = keys_of(node, children->size());
  for (size_t i = 0; i < children->size(); ++i) {
    const std::string part = keys.empty() ? std::to_string(i) : keys[i];
    collect((*children)[i], prefix.empty() ? part : prefix + "_" + part, depth + 1, out);
  }
}

std::string word_of(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    out += word ? c : '_';
  }
  return out.empty() || (out[0] >= '0' && out[0] <= '9') ? "y" + out : out;
}

}  // namespace

std::vector<std::string> leaf_names(const std::string& tree, size_t count) {
  std::vector<std::string> out;
  const json versioned = json::parse(tree, nullptr, false);
  if (versioned.is_array() && versioned.size() == 2) collect(versioned[1], "", 0, out);
  for (std::string& name : out) name = word_of(name);
  const std::set<std::string> different(out.begin(), out.end());
  if (out.size() != count || different.size() != count) {
    out.clear();
    for (size_t i = 0; i < count; ++i) out.push_back(count == 1 ? "y" : "y" + std::to_string(i));
  }
  return out;
}

}  // namespace kiln::graph::pt2
