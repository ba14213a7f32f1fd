// Dims, types and attribute lists by themselves.
#include <algorithm>
#include <bit>
#include <unordered_set>

#include "ir/expr_limits.h"
#include "verify/checks.h"

namespace kiln::graph {
namespace {

Error failure(const std::string& what) { return error(ErrorCode::kVerifyFailed, what); }

Result<void> verify_dims(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < graph.dims.size(); ++i) {
    const DimInfo& dim = graph.dims[i];
    if (const char* problem = dim_problem(dim))
      return failure("dim " + std::to_string(i) + " " + dim.name + " " + problem);
    if (!names.insert(dim.name).second) return failure("two dims have the name " + dim.name);
  }
  return {};
}

Result<void> verify_exprs(const Graph& graph, const AttrList& attrs, size_t number) {
  const auto fine = [&](const Expr& expr) { return expr_problem(expr, graph.dims.size()); };
  for (const Attr& attr : attrs) {
    const char* problem = nullptr;
    if (const Expr* expr = std::get_if<Expr>(&attr)) problem = fine(*expr);
    if (const auto* shape = std::get_if<std::vector<Expr>>(&attr)) {
      for (const Expr& expr : *shape) problem = problem ? problem : fine(expr);
    }
    if (problem) return failure("attribute list " + std::to_string(number) + ": an expression " + problem);
  }
  return {};
}

template <class T>
std::strong_ordering compare(const T& a, const T& b) {
  return a <=> b;
}
template <>
std::strong_ordering compare(const double& a, const double& b) {
  return std::bit_cast<uint64_t>(a) <=> std::bit_cast<uint64_t>(b);
}
template <>
std::strong_ordering compare(const Literal& a, const Literal& b) {
  return a.bits <=> b.bits;
}
template <>
std::strong_ordering compare(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) return a.index() <=> b.index();
  return std::visit([&](const auto& value) { return compare(value, std::get<std::decay_t<decltype(value)>>(b)); }, a);
}
template <>
std::strong_ordering compare(const AttrList& a, const AttrList& b) {
  return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end(), compare<Attr>);
}
template <>
std::strong_ordering compare(const TensorType& a, const TensorType& b) {
  if (a.element != b.element) return a.element <=> b.element;
  return a.shape <=> b.shape;
}

// Two that are equal, or none. By hash first: contents are compared where hashes are equal, and sorted, so that many
// of one hash cost no more than a sort.
template <class T>
std::optional<std::pair<uint32_t, uint32_t>> twice(const std::vector<T>& items) {
  std::vector<std::pair<uint64_t, uint32_t>> order;
  order.reserve(items.size());
  for (uint32_t i = 0; i < items.size(); ++i) order.emplace_back(hash(items[i]), i);
  const auto by_contents = [&](const auto& a, const auto& b) {
    if (a.first != b.first) return std::strong_order(a.first, b.first);
    return compare(items[a.second], items[b.second]);
  };
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) { return by_contents(a, b) < 0; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (by_contents(order[i - 1], order[i]) == 0) {
      return std::minmax(order[i - 1].second, order[i].second);
    }
  }
  return std::nullopt;
}

}  // namespace

Result<void> verify_tables(const Graph& graph) {
  if (graph.bodies.empty()) return failure("the graph has no main body");
  if (auto fine = verify_dims(graph); !fine) return fine;
  for (size_t i = 0; i < graph.types.size(); ++i) {
    if (const char* problem = type_problem(graph.types[i], graph.dims)) {
      return failure("type " + std::to_string(i) + " " + problem);
    }
  }
  if (graph.attr_lists.empty() || !graph.attr_lists[0].empty()) return failure("attribute list 0 is not the empty one");
  for (size_t i = 1; i < graph.attr_lists.size(); ++i) {
    if (auto fine = verify_exprs(graph, graph.attr_lists[i], i); !fine) return fine;
  }
  if (const auto types = twice(graph.types)) {
    return failure("types " + std::to_string(types->first) + " and " + std::to_string(types->second) +
                   " are equal: " + to_string(graph.types[types->first], graph.expr_names()));
  }
  if (const auto lists = twice(graph.attr_lists)) {
    return failure("attribute lists " + std::to_string(lists->first) + " and " + std::to_string(lists->second) +
                   " are equal");
  }
  return {};
}

}  // namespace kiln::graph
