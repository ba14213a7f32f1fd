// The canonical form: one for all graphs that compute the same by the same nodes, in whatever order they were traced.
//
// 1. Dims are numbered by their names, and types, attribute lists and kernels rewritten so.
// 2. Each body, those that it names before it, gets a *digest* for each value: of what it is computed by, up to the
//    inputs. Operands of commuting ops are sorted by digest, those of one digest by the places that they got. A
//    depth-first walk from the outputs, operands from left to right, places the nodes: what nothing needs is never
//    reached, equal nodes are placed once. What a loop, a condition or a call captures comes in the order in which that
//    walk wants it. Equal bodies are one.
// 3. Bodies, kernels, types, attribute lists and dims are numbered in the order in which the main body, then the others
//    mention them; what none mentions is dropped.
//
// Digests are of 128 bits and depend on no number of the graph. They only order things: what counts as equal is
// compared in full, so that two graphs that compute different things never have one form.
#include "kiln/dsl/canonical.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <unordered_map>

#include "binary/canonical_digest.h"
#include "binary/canonical_located.h"
#include "binary/canonical_number.h"
#include "binary/custom_code.h"
#include "binary/format.h"
#include "ir/renumber.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/request.h"
#include "kiln/dsl/walk.h"
#include "kiln/graph/binary.h"
#include "text/body_order.h"

namespace kiln::graph {
namespace {

// A kernel without what says nothing about what it computes.
dsl::Kernel nameless(const dsl::Kernel& kernel) {
  dsl::Kernel out = dsl::canonicalise(kernel);
  for (dsl::Value& value : out.values) value.name.clear();
  if (dsl::reports_lines(out)) return out;
  out.files.clear();
  dsl::for_each_op(out, [](dsl::Op& op) { op.loc = {}; });
  return out;
}

class Canonicaliser {
 public:
  Canonicaliser(const Graph& in, bool locations) : in_(in), locations_(locations) {}

  // What the graph is made of, each once; bodies[0] is main. Numbers are as they came.
  Graph run() {
    number_dims();
    for (const TensorType& type : in_.types) add_type(type);
    for (const TileKernel& kernel : in_.kernels) add_kernel(kernel);
    plain_forms_.resize(in_.attr_lists.size());
    out_.attr_lists.clear();
    intern({});
    out_.bodies.emplace_back();
    for (const BodyId id : dependency_order(in_)) describe_nodes(in_.bodies[id]);
    describe_nodes(in_.main());
    std::vector<uint32_t> inputs(in_.main().inputs.size());
    std::iota(inputs.begin(), inputs.end(), 0u);
    out_.bodies[0] = place(in_.main(), inputs, inputs.size());
    return std::move(out_);
  }

 private:
  // Step 1.
  void number_dims() {
    std::vector<uint32_t> order(in_.dims.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, {}, [this](uint32_t dim) -> const std::string& { return in_.dims[dim].name; });
    dims_.resize(order.size());
    for (uint32_t i = 0; i < order.size(); ++i) {
      dims_[order[i]] = i;
      const DimInfo& dim = in_.dims[order[i]];
      out_.dims.push_back(dim);
      Digest& digest = dim_digests_.emplace_back();
      digest.add(std::as_bytes(std::span(dim.name)));
      for (const int64_t bound : {dim.low, dim.high, dim.multiple}) digest.add(static_cast<uint64_t>(bound));
    }
  }

  Location loc(const Location& loc) const { return locations_ ? loc : Location(); }
  Expr expr(const Expr& expr) const { return expr.as_constant() ? expr : renumber(expr, dims_); }

  TensorType type(const TensorType& old) const {
    TensorType out{old.element, {}};
    for (const Expr& extent : old.shape) out.shape.push_back(expr(extent));
    return out;
  }

  void add_type(const TensorType& old) {
    TensorType now = type(old);
    std::vector<std::byte> bytes;
    dsl::CborWriter writer(bytes);
    write_type(now, writer);
    Describe(type_digests_.emplace_back(), dim_digests_)(now);
    const auto [id, fresh] = types_interned_.find(std::move(bytes));
    if (fresh) out_.types.push_back(std::move(now));
    types_.push_back(id);
  }

  void add_kernel(const TileKernel& old) {
    TileKernel now = old;
    now.kernel = nameless(old.kernel);
    now.gradient = kNone;  // what a graph computes does not depend on it
    for (TileKernel::Code& each : now.codes) each.code.file.clear();
    for (TileKernel::Argument& argument : now.arguments) argument.scalar = expr(argument.scalar);
    for (TensorType& operand : now.operands) operand = type(operand);
    for (TensorType& result : now.results) result = type(result);
    std::vector<std::byte> bytes;
    dsl::CborWriter writer(bytes);
    write_kernel_fields(now, writer);
    const size_t without_codes = bytes.size();
    if (!now.codes.empty()) write_codes(now.codes, writer);
    Digest& digest = kernel_digests_.emplace_back();
    const Describe describe(digest, dim_digests_);
    digest.add(dsl::encode_kernel(now.kernel));
    for (const TileKernel::Argument& argument : now.arguments) {
      digest.add(static_cast<uint64_t>(argument.kind));
      digest.add(argument.index);
      describe(argument.scalar);
    }
    describe(now.operands);
    describe(now.results);
    if (!now.codes.empty()) digest.add(std::span(bytes).subspan(without_codes));
    const auto [id, fresh] = kernels_interned_.find(std::move(bytes));
    now.name = "k" + std::to_string(id);
    if (fresh) out_.kernels.push_back(std::move(now));
    kernels_.push_back(id);
  }

  // How a node is written: its attributes, and which of its operands in which order.
  struct Form {
    AttrsId id = kNone;
    Digest digest;
    bool all = true;                 // operands as they are
    std::vector<uint32_t> operands;  // else
  };
  // A body as one op runs it: `fixed` inputs have their places, the others are captured, in any order.
  struct View {
    Digest digest;
    std::vector<uint32_t> wanted;  // captured inputs in the order in which the body wants them
  };

  static uint64_t form_key(const Node& node) { return uint64_t{node.attrs} << 8 | static_cast<uint64_t>(node.op); }

  static bool names_something(const AttrInfo& attr) {
    return attr.kind == AttrKind::kBody || attr.kind == AttrKind::kKernel;
  }

  // Bodies come in the order of dependency: what a body's nodes name has been described before them.
  void describe_nodes(const Body& body) {
    for (const Node& node : body.nodes) describe_node(node);
  }

  void describe_node(const Node& node) {
    const std::vector<AttrInfo>& table = info(node.op).attrs;
    const bool is_plain = std::ranges::none_of(table, names_something);
    if (is_plain ? plain_forms_[node.attrs].id != kNone : forms_.contains(form_key(node))) return;
    AttrList now = in_.attrs(node);
    Form form;
    for (size_t i = 0; i < now.size(); ++i) {
      if (table[i].kind == AttrKind::kExpr) {
        now[i] = expr(expr_attr(now, i));
      } else if (table[i].kind == AttrKind::kShape) {
        std::vector<Expr> shape;
        for (const Expr& extent : shape_attr(now, i)) shape.push_back(expr(extent));
        now[i] = std::move(shape);
      } else if (table[i].kind == AttrKind::kKernel) {
        const auto old = static_cast<size_t>(int_attr(now, i));
        form.digest.add(kernel_digests_[old]);
        now[i] = int64_t{kernels_[old]};
      }
      if (!names_something(table[i])) std::visit(Describe(form.digest, dim_digests_), now[i]);
    }
    if (info(node.op).has(kBody)) set_bodies(node, now, form);
    // A list may be numbers to one op and bodies to another: those that name something are kept apart, by op.
    form.id = intern(std::move(now), is_plain ? 0 : 1 + static_cast<uint64_t>(node.op));
    (is_plain ? plain_forms_[node.attrs] : forms_[form_key(node)]) = std::move(form);
  }

  const Form& form(const Node& node) const {
    const Form& plain = plain_forms_[node.attrs];
    if (std::ranges::none_of(info(node.op).attrs, names_something)) return plain;
    return forms_.at(form_key(node));
  }

  // Captured operands in the order in which the bodies want them: which a host compiler evaluates first is of no
  // account.
  void set_bodies(const Node& node, AttrList& now, Form& form) {
    const std::vector<AttrInfo>& table = info(node.op).attrs;
    const bool is_loop = node.op == TensorOp::kLoop, is_cond = node.op == TensorOp::kCond;
    const bool captures = is_loop || is_cond || node.op == TensorOp::kCall;
    const uint32_t first = is_cond ? 1 : 0;  // operand that is input 0 of the bodies
    std::vector<uint32_t> inputs;            // of the bodies, those with places first
    std::vector<uint32_t> places;            // of captured ones among them
    size_t fixed = 0;
    for (size_t i = 0; i < now.size(); ++i) {
      if (table[i].kind != AttrKind::kBody) continue;
      const auto id = static_cast<BodyId>(int_attr(now, i));
      fixed = in_.bodies[id].inputs.size();
      if (captures) fixed = is_loop ? static_cast<size_t>(int_attr(now, 1) + int_attr(now, 2)) : 0;
      if (inputs.empty()) {
        inputs.resize(fixed);
        std::iota(inputs.begin(), inputs.end(), 0u);
      }
      const View& body = view(id, fixed);
      form.digest.add(body.digest);
      places.resize(in_.bodies[id].inputs.size(), kNone);
      for (const uint32_t input : body.wanted) {
        if (places[input] != kNone) continue;
        places[input] = static_cast<uint32_t>(inputs.size());
        inputs.push_back(input);
      }
    }
    for (size_t i = 0; i < now.size(); ++i) {
      if (table[i].kind != AttrKind::kBody) continue;
      const auto id = static_cast<BodyId>(int_attr(now, i));
      if (inputs.size() > fixed) form.digest.add(computed(in_.bodies[id], inputs));
      now[i] = int64_t{rewritten(id, inputs, fixed)};
    }
    if (!captures) return;
    form.all = false;
    for (uint32_t i = 0; i < first; ++i) form.operands.push_back(i);
    for (const uint32_t input : inputs) form.operands.push_back(first + input);
  }

  AttrsId intern(AttrList list, uint64_t names_of = 0) {
    std::vector<std::byte> bytes = bytes_of(list);
    bytes.push_back(static_cast<std::byte>(names_of));
    const auto [id, fresh] = attrs_interned_.find(std::move(bytes));
    if (fresh) out_.attr_lists.push_back(std::move(list));
    return id;
  }

  // Step 2.
  const View& view(BodyId id, size_t fixed) {
    const auto [entry, fresh] = views_.try_emplace({id, fixed});
    if (!fresh) return entry->second;
    const Body& body = in_.bodies[id];
    View& out = entry->second;
    const std::vector<Digest> digests = value_digests(body, in_order(body, fixed));
    std::vector<ValueId> wanted;
    demand_order(body, digests, &wanted);
    std::vector<uint32_t> place(body.values.size(), 0);
    for (uint32_t i = 0; i < body.inputs.size(); ++i) place[body.inputs[i].value] = i;
    for (uint32_t i = 0; i < fixed; ++i) out.digest.add(type_digests_[body.values[body.inputs[i].value].type]);
    for (const ValueId value : wanted) {
      if (place[value] >= fixed) out.wanted.push_back(place[value]);
    }
    for (const Output& output : body.outputs) out.digest.add(digests[output.value]);
    return out;
  }

  // What a body with these inputs, in this order, gives: however it is written.
  Digest computed(const Body& body, const std::vector<uint32_t>& inputs) const {
    std::vector<uint32_t> places(body.inputs.size(), kNone);
    for (uint32_t i = 0; i < inputs.size(); ++i) places[inputs[i]] = i;
    const std::vector<Digest> digests = value_digests(body, places);
    Digest out;
    for (const Output& output : body.outputs) out.add(digests[output.value]);
    return out;
  }

  // The number of a body with these inputs, in this order.
  BodyId rewritten(BodyId id, const std::vector<uint32_t>& inputs, size_t fixed) {
    const auto [entry, fresh] = rewritten_.try_emplace({{id, fixed}, inputs}, kNone);
    if (!fresh) return entry->second;
    Body body = place(in_.bodies[id], inputs, fixed);
    const auto [number, is_new] = bodies_interned_.find(body_bytes(body));
    if (is_new) out_.bodies.push_back(std::move(body));
    return entry->second = number + 1;
  }

  static std::vector<std::byte> body_bytes(const Body& body) {
    std::vector<std::byte> bytes;
    dsl::CborWriter out(bytes);
    out.array(body.inputs.size());
    for (const Input& input : body.inputs) out.bits(body.values[input.value].type);
    for (const Node& node : body.nodes) {
      out.array(3 + node.operand_count);
      out.bits(static_cast<uint64_t>(node.op));
      out.bits(node.attrs);
      for (const ValueId operand : body.operands_of(node)) out.bits(operand);
      out.bits(node.result_count);
    }
    for (const Output& output : body.outputs) out.bits(output.value);
    return bytes;
  }

  Body place(const Body& old, const std::vector<uint32_t>& inputs, size_t fixed) {
    const std::vector<Digest> digests = value_digests(old, in_order(old, fixed));
    Body out;
    out.name = old.name;
    std::vector<ValueId> now(old.values.size(), kNoValue);
    for (const uint32_t index : inputs) {
      const Input& input = old.inputs[index];
      now[input.value] = static_cast<ValueId>(out.values.size());
      out.values.push_back({types_[old.values[input.value].type], kNone});
      out.inputs.push_back({input.name, now[input.value], input.donated_to, loc(input.loc)});
    }
    std::unordered_multimap<uint64_t, NodeId> placed;
    for (const NodeId id : demand_order(old, digests)) place_node(old, id, digests, now, placed, out);
    for (const Output& output : old.outputs) out.outputs.push_back({output.name, now[output.value]});
    return out;
  }

  // Places of inputs of which the first `fixed` have their own; captured ones differ by their types alone.
  static std::vector<uint32_t> in_order(const Body& body, size_t fixed) {
    std::vector<uint32_t> out(body.inputs.size(), static_cast<uint32_t>(fixed));
    std::iota(out.begin(), out.begin() + static_cast<ptrdiff_t>(std::min(fixed, out.size())), 0u);
    return out;
  }

  std::vector<Digest> value_digests(const Body& body, const std::vector<uint32_t>& places) const {
    std::vector<Digest> out(body.values.size());
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      out[body.inputs[i].value].add(places[i]);
      out[body.inputs[i].value].add(type_digests_[body.values[body.inputs[i].value].type]);
    }
    for (const Node& node : body.nodes) {
      Digest digest = form(node).digest;
      digest.add(static_cast<uint64_t>(node.op));
      for (const ValueId operand : operands(body, node, out)) digest.add(operand == kNoValue ? Digest() : out[operand]);
      for (uint32_t i = 0; i < node.result_count; ++i) {
        out[node.first_result + i] = digest;
        out[node.first_result + i].add(i);
      }
    }
    return out;
  }

  // In the order of the node's form; those of a commuting op with the smaller digest first.
  std::vector<ValueId> operands(const Body& body, const Node& node, const std::vector<Digest>& digests) const {
    const auto given = body.operands_of(node);
    std::vector<ValueId> out(given.begin(), given.end());
    if (info(node.op).has(kCommutes) && digests[out[1]] < digests[out[0]]) std::swap(out[0], out[1]);
    if (const Form& order = form(node); !order.all) {
      out.clear();
      for (const uint32_t index : order.operands) out.push_back(given[index]);
    }
    return out;
  }

  // Depth first with a stack of its own: chains of nodes may be longer than the thread's stack. `inputs`: those that
  // are wanted, in order.
  std::vector<NodeId> demand_order(const Body& body, const std::vector<Digest>& digests,
                                   std::vector<ValueId>* inputs = nullptr) const {
    struct Open {
      NodeId id;
      std::vector<ValueId> operands;
      size_t next = 0;
    };
    std::vector<NodeId> out;
    std::vector<bool> seen(body.values.size(), false);  // by the first result, or the input
    std::vector<Open> stack;
    const auto want = [&](ValueId value) {
      if (value == kNoValue) return;
      const NodeId node = body.values[value].node;
      const ValueId mark = node == kNone ? value : body.nodes[node].first_result;
      if (seen[mark]) return;
      seen[mark] = true;
      if (node != kNone) {
        stack.push_back({node, operands(body, body.nodes[node], digests)});
      } else if (inputs != nullptr) {
        inputs->push_back(value);
      }
    };
    for (const Output& output : body.outputs) {
      want(output.value);
      while (!stack.empty()) {
        Open& open = stack.back();
        if (open.next < open.operands.size()) {
          want(open.operands[open.next++]);
          continue;
        }
        out.push_back(open.id);
        stack.pop_back();
      }
    }
    return out;
  }

  // Adds the node, or finds its equal.
  void place_node(const Body& old, NodeId old_id, const std::vector<Digest>& digests, std::vector<ValueId>& now,
                  std::unordered_multimap<uint64_t, NodeId>& placed, Body& out) {
    const Node& node = old.nodes[old_id];
    const AttrsId attrs_id = form(node).id;
    std::vector<ValueId> operands_now = operands(old, node, digests);
    const bool is_tie = info(node.op).has(kCommutes) && digests[operands_now[0]] == digests[operands_now[1]];
    for (ValueId& operand : operands_now) operand = operand == kNoValue ? kNoValue : now[operand];
    // The walk placed the one that was written first, so that it wants them in this order again.
    if (is_tie && operands_now[1] < operands_now[0]) std::swap(operands_now[0], operands_now[1]);
    const auto give = [&](ValueId first) {
      for (uint32_t i = 0; i < node.result_count; ++i) now[node.first_result + i] = first + i;
    };
    const uint64_t key = digests[node.first_result].low;
    for (auto [it, end] = placed.equal_range(key); it != end; ++it) {
      const Node& other = out.nodes[it->second];
      if (other.op != node.op || other.attrs != attrs_id) continue;
      if (std::ranges::equal(out.operands_of(other), operands_now)) return give(other.first_result);
    }
    const auto id = static_cast<NodeId>(out.nodes.size());
    give(static_cast<ValueId>(out.values.size()));
    out.nodes.push_back({node.op, attrs_id, static_cast<uint32_t>(out.operands.size()),
                         static_cast<uint32_t>(operands_now.size()), static_cast<ValueId>(out.values.size()),
                         node.result_count, loc(node.loc)});
    out.operands.insert(out.operands.end(), operands_now.begin(), operands_now.end());
    for (uint32_t i = 0; i < node.result_count; ++i) {
      out.values.push_back({types_[old.values[node.first_result + i].type], id});
    }
    placed.emplace(key, id);
  }

  const Graph& in_;
  const bool locations_;  // are kept, of those of equal nodes the first's
  Graph out_;
  std::vector<uint32_t> dims_;  // by the old number: the new one
  std::vector<TypeId> types_;
  std::vector<Digest> dim_digests_, type_digests_, kernel_digests_;
  std::vector<uint32_t> kernels_;
  std::vector<Form> plain_forms_;  // of ops that name nothing, by attribute list
  std::unordered_map<uint64_t, Form> forms_;
  std::map<std::pair<BodyId, size_t>, View> views_;
  std::map<std::pair<std::pair<BodyId, size_t>, std::vector<uint32_t>>, BodyId> rewritten_;
  Interner types_interned_, kernels_interned_, attrs_interned_, bodies_interned_;
};

}  // namespace

Graph canonical(const Graph& graph) { return number_by_mention(Canonicaliser(graph, false).run()); }

Graph located_canonical(const Graph& graph) {
  Graph out = number_by_mention(Canonicaliser(graph, true).run());
  out.files = graph.files;
  return out;
}

std::string key(const Graph& graph) {
  const std::vector<std::byte> bytes = encode(canonical(graph));
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  RequestKey out{};
  std::ranges::copy(digest, out.begin());
  return to_hex(out);
}

}  // namespace kiln::graph
