// The driver: nodes in order, each by the rules of its op, until nothing changes; then what nothing uses goes.
#include "kiln/graph/simplify.h"

#include <array>

#include "ir/prune.h"
#include "ir/rewrite.h"
#include "simplify/rules.h"

namespace kiln::graph {
namespace {

// Each pass only ever makes values equal that were not; a chain that needs more of them stays as it is.
constexpr int kMaxPasses = 8;

struct Table {
  std::vector<RuleRow> rows;
  std::vector<SimplifyRule> texts;
  std::array<std::vector<const RuleRow*>, kTensorOpCount> by_op;

  Table() {
    for (auto* part : {&fold_rules, &view_rules, &arithmetic_rules, &choice_rules, &reduce_rules, &real_rules}) {
      for (RuleRow& row : part()) rows.push_back(std::move(row));
    }
    for (const RuleRow& row : rows) {
      texts.push_back(row.text);
      for (const TensorOp op : row.ops) by_op[static_cast<size_t>(op)].push_back(&row);
    }
  }
};

const Table& table() {
  // Never destroyed: other threads may simplify while exit() destroys statics.
  static const Table& instance = *new Table();
  return instance;
}

ValueId apply_rules(const Site& site, Algebra algebra) {
  for (const RuleRow* row : table().by_op[static_cast<size_t>(site.op)]) {
    if (row->text.algebra == Algebra::kReal && algebra != Algebra::kReal) continue;
    const ValueId out = row->rule(site);
    if (out != kNoValue) return out;
  }
  return kNoValue;
}

size_t size_of(const Graph& graph) {
  size_t out = 0;
  for (const Body& body : graph.bodies) out += body.nodes.size();
  return out;
}

}  // namespace

std::span<const SimplifyRule> simplify_rules() { return table().texts; }

const Node* Simplifier::node(ValueId value) const {
  const Body& body = builder_.body();
  const NodeId id = body.values[value].node;
  return id == kNone ? nullptr : &body.nodes[id];
}

const Node* Simplifier::node(ValueId value, TensorOp op) const {
  const Node* out = node(value);
  return out != nullptr && out->op == op ? out : nullptr;
}

std::optional<uint64_t> Simplifier::splat(ValueId value) const {
  const Node* full = node(value, TensorOp::kFull);
  if (full == nullptr) return std::nullopt;
  return std::get<Literal>(attrs(*full)[2]).bits;
}

std::optional<double> Simplifier::float_splat(ValueId value) const {
  const ElementType element = type(value).element;
  const auto bits = splat(value);
  if (!bits || !dsl::is_float(element)) return std::nullopt;
  return dsl::double_from_bits(element, *bits);
}

bool Simplifier::is_number(ValueId value, double number) const {
  const auto bits = splat(value);
  return bits && *bits == dsl::bits_from_double(type(value).element, number);
}

ValueId Simplifier::make(TensorOp op, std::initializer_list<ValueId> operands, AttrList attrs) {
  return make(op, std::span<const ValueId>(operands.begin(), operands.size()), std::move(attrs));
}

ValueId Simplifier::make(TensorOp op, std::span<const ValueId> operands, AttrList attrs) {
  auto added = builder_.add_one(op, operands, attrs, loc_);
  if (!added) return kNoValue;
  if (depth_ >= kMaxDepth) return *added;
  ++depth_;
  const AttrList all = with_default_attrs(op, std::move(attrs));
  const TensorType result = type(*added);
  const ValueId better = apply_rules({*this, op, operands, all, result}, algebra_);
  --depth_;
  return better == kNoValue ? *added : better;
}

ValueId Simplifier::full(const TensorType& type, uint64_t bits) {
  auto out = builder_.add_one(TensorOp::kFull, {}, {type.element, type.shape, Literal{bits}}, loc_);
  return out ? *out : kNoValue;
}

ValueId Simplifier::full_number(const TensorType& type, double number) {
  return full(type, dsl::bits_from_double(type.element, number));
}

Graph simplify(const Graph& graph, const SimplifyOptions& options) {
  Graph out = graph;
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    auto next = rewrite(out,
                        [&](GraphBuilder& builder, const Body&, const Node& node, std::span<const ValueId> operands,
                            const AttrList& attrs) -> Result<std::optional<std::vector<ValueId>>> {
                          if (node.result_count != 1 || table().by_op[static_cast<size_t>(node.op)].empty()) {
                            return std::optional<std::vector<ValueId>>();
                          }
                          Simplifier simplifier(builder, options.algebra, node.loc);
                          const ValueId value = simplifier.make(node.op, operands, attrs);
                          if (value == kNoValue) return std::optional<std::vector<ValueId>>();
                          return std::optional(std::vector<ValueId>{value});
                        });
    if (!next) return out;  // a graph that does not verify stays as it is
    Graph live = prune(std::move(*next));
    const bool settled = size_of(live) == size_of(out) && pass > 0;
    out = std::move(live);
    if (settled) break;
  }
  return out;
}

}  // namespace kiln::graph
