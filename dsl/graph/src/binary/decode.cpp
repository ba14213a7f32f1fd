// CBOR to graph. The bytes may be anything: each field is checked for kind and range here, what the fields mean
// together by verify().
#include <algorithm>
#include <bit>

#include "binary/cbor_reader.h"
#include "binary/custom_code.h"
#include "binary/format.h"
#include "ir/limits.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/expr_binary.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/verify.h"

namespace kiln::graph {
namespace {

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : in_(bytes) {}

  Graph run() {
    in_.record("the graph", 8);
    if (in_.text("the tag", kMaxName) != kGraphTag) throw BadBytes{"the graph is of another version"};
    read_dims();
    read_ops();
    types(graph_.types, kMaxNodes, "the types");
    for (size_t left = in_.array("attribute lists", kMaxNodes); left > 0; --left) graph_.attr_lists.push_back(attrs());
    for (size_t left = in_.array("kernels", kMaxKernels); left > 0; --left) graph_.kernels.push_back(kernel());
    const size_t bodies = in_.array("bodies", kMaxNodes);
    if (bodies == 0) throw BadBytes{"the graph has no main body"};
    for (size_t i = 0; i < bodies; ++i) graph_.bodies.push_back(body());
    for (const TileKernel& kernel : graph_.kernels) {
      if (kernel.gradient != kNone && kernel.gradient >= bodies) throw BadBytes{"a gradient is out of range"};
    }
    const size_t files = in_.array("files", kMaxNodes);
    if (last_file_ > files) throw BadBytes{"a location's file is out of range"};
    for (size_t i = 0; i < files; ++i) graph_.files.push_back(in_.text("a file's name", kMaxName));
    if (!in_.at_end()) throw BadBytes{"there are bytes behind the graph"};
    return std::move(graph_);
  }

 private:
  void read_dims() {
    for (size_t left = in_.array("dims", kMaxDims); left > 0; --left) {
      in_.record("a dim", 4);
      DimInfo dim;
      dim.name = in_.text("a dim's name", kMaxName);
      for (int64_t* number : {&dim.low, &dim.high, &dim.multiple}) *number = in_.integer("a dim's bound");
      graph_.dims.push_back(std::move(dim));
    }
  }

  void read_ops() {
    for (size_t left = in_.array("ops", kTensorOpCount); left > 0; --left) {
      const std::string name = in_.text("an op's name", kMaxName);
      const auto op = parse_op(name);
      if (!op) throw BadBytes{"there is no op `" + name + "`"};
      ops_.push_back(*op);
    }
  }

  Expr expr(const char* what) {
    if (in_.next_is_integer()) return Expr(in_.integer(what));
    auto out = dsl::read_expr(in_.item(what), graph_.dims.size(), 0);
    if (!out) throw BadBytes{out.error().message};
    return std::move(*out);
  }

  std::vector<Expr> exprs(size_t count, const char* what) {
    std::vector<Expr> out;
    out.reserve(count);
    for (; count > 0; --count) out.push_back(expr(what));
    return out;
  }

  ElementType element() { return static_cast<ElementType>(in_.bits("an element type", dsl::kElementTypeCount - 1)); }

  TensorType type() {
    const size_t size = in_.array("a type's fields", kMaxRank + 1);
    if (size == 0) throw BadBytes{"a type lacks its element type"};
    const ElementType elements = element();
    return {elements, exprs(size - 1, "an extent")};
  }

  void types(std::vector<TensorType>& out, size_t most, const char* what) {
    for (size_t left = in_.array(what, most); left > 0; --left) out.push_back(type());
  }

  AttrList attrs() {
    AttrList out;
    for (size_t left = in_.array("attributes", kMaxListed); left > 0; --left) out.push_back(attr());
    if (out.empty()) throw BadBytes{"the empty attribute list is written"};
    return out;
  }

  Attr attr() {
    in_.record("an attribute", 2);
    switch (static_cast<AttrForm>(in_.bits("an attribute's kind", static_cast<uint64_t>(AttrForm::kString)))) {
      case AttrForm::kInt:
        return in_.integer("an attribute");
      case AttrForm::kFloat:
        return std::bit_cast<double>(in_.bits("an attribute"));
      case AttrForm::kExpr:
        return expr("an attribute");
      case AttrForm::kShape:
        return exprs(in_.array("the entries of an attribute", kMaxListed), "an entry of an attribute");
      case AttrForm::kInts: {
        std::vector<int64_t> out(in_.array("the entries of an attribute", kMaxListed));
        for (int64_t& value : out) value = in_.integer("an entry of an attribute");
        return out;
      }
      case AttrForm::kElement:
        return element();
      case AttrForm::kLiteral:
        return Literal{in_.bits("an attribute")};
      case AttrForm::kData:
        return data();
      case AttrForm::kString:
        break;
    }
    return in_.text("an attribute", kMaxText);
  }

  std::vector<uint64_t> data() {
    in_.record("a constant's elements", 2);
    const uint64_t width = in_.bits("the bytes of an element", 8);
    if (!std::has_single_bit(width)) throw BadBytes{"the bytes of an element are not 1, 2, 4 or 8"};
    const auto bytes = in_.bytes("a constant's elements");
    if (bytes.size() % width != 0) throw BadBytes{"a constant's elements are cut short"};
    std::vector<uint64_t> out(bytes.size() / width);
    uint64_t all = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      out[i / width] |= static_cast<uint64_t>(bytes[i]) << (8 * (i % width));
    }
    for (const uint64_t bits : out) all |= bits;
    if (width > 1 && all >> (4 * width) == 0) throw BadBytes{"a constant's elements take more bytes than they need"};
    return out;
  }

  TileKernel kernel() {
    const size_t fields = in_.array("a kernel's fields", 7);
    if (fields < 6) throw BadBytes{"a kernel lacks fields"};
    TileKernel out;
    out.name = in_.text("a kernel's name", kMaxName);
    auto tile = dsl::decode_kernel(in_.bytes("a kernel"));
    if (!tile) throw BadBytes{"kernel " + out.name + ": " + tile.error().message};
    out.kernel = std::move(*tile);
    for (size_t left = in_.array("arguments", kMaxListed); left > 0; --left) out.arguments.push_back(argument());
    types(out.operands, kMaxListed, "a kernel's operands");
    types(out.results, kMaxListed, "a kernel's results");
    out.gradient = static_cast<BodyId>(in_.bits("a gradient", kMaxNodes)) - 1;
    if (fields == 7) out.codes = read_codes(in_);
    if (fields == 7 && out.codes.empty()) throw BadBytes{"an empty list of codes is written"};
    return out;
  }

  TileKernel::Argument argument() {
    using Kind = TileKernel::Argument::Kind;
    in_.record("an argument", 2);
    const auto kind = static_cast<Kind>(in_.bits("an argument's kind", static_cast<uint64_t>(Kind::kScalar)));
    if (kind == Kind::kScalar) return {kind, 0, expr("an argument")};
    return {kind, in_.index("an argument", kMaxListed), {}};
  }

  // Errors name the body and the node by their numbers: names are not to be trusted yet.
  Body body() {
    Body out;
    bool among_nodes = false;
    try {
      read_body(out, among_nodes);
    } catch (const BadBytes& bad) {
      const std::string node = among_nodes ? ", node " + std::to_string(out.nodes.size()) : "";
      throw BadBytes{"body " + std::to_string(graph_.bodies.size()) + node + ": " + bad.what};
    }
    return out;
  }

  void read_body(Body& out, bool& among_nodes) {
    in_.record("a body", 7);
    out.name = in_.text("a body's name", kMaxName);
    std::vector<uint64_t> donations;
    for (size_t left = in_.array("inputs", kMaxNodes); left > 0; --left) {
      in_.record("an input", 3);
      Input input;
      input.name = in_.text("an input's name", kMaxName);
      input.value = static_cast<ValueId>(out.values.size());
      out.values.push_back({in_.index("a type", graph_.types.size()), kNone});
      input.donated_to = static_cast<uint32_t>(in_.bits("a donation", kMaxNodes)) - 1;
      out.inputs.push_back(std::move(input));
    }
    for (size_t left = in_.array("outputs", kMaxNodes); left > 0; --left) {
      in_.record("an output", 2);
      std::string name = in_.text("an output's name", kMaxName);
      out.outputs.push_back({std::move(name), static_cast<ValueId>(in_.bits("an output's value", kNone))});
    }
    const size_t nodes = in_.array("nodes", kMaxNodes);
    among_nodes = true;
    for (size_t left = nodes; left > 0; --left) node(out);
    among_nodes = false;
    check_outputs(out);
    read_names(out);
    locations(out.inputs);
    locations(out.nodes);
  }

  void node(Body& body) {
    if (++node_count_ > kMaxNodes) throw BadBytes{"the graph has too many nodes"};
    in_.record("a node", 4);
    Node out{};
    if (ops_.empty()) throw BadBytes{"there are nodes, but no ops"};
    out.op = ops_[in_.index("an op", ops_.size())];
    out.attrs = in_.index("an attribute list", graph_.attr_lists.size());
    out.first_operand = static_cast<uint32_t>(body.operands.size());
    out.operand_count = static_cast<uint32_t>(in_.array("operands", kMaxOperands));
    for (uint32_t i = 0; i < out.operand_count; ++i) {
      // Numbers are given in the order of definition, so this is also the check that a definition comes first.
      body.operands.push_back(in_.index("an operand", body.values.size() + 1) - 1);
    }
    out.first_result = static_cast<ValueId>(body.values.size());
    out.result_count = static_cast<uint32_t>(in_.array("results", kMaxOperands));
    const auto id = static_cast<NodeId>(body.nodes.size());
    for (uint32_t i = 0; i < out.result_count; ++i) {
      body.values.push_back({in_.index("a type", graph_.types.size()), id});
    }
    body.nodes.push_back(out);
  }

  static void check_outputs(const Body& body) {
    for (const Output& output : body.outputs) {
      if (output.value >= body.values.size()) throw BadBytes{"an output's value is out of range"};
    }
    for (const Input& input : body.inputs) {
      if (input.donated_to != kNone && input.donated_to >= body.outputs.size()) {
        throw BadBytes{"a donation is out of range"};
      }
    }
  }

  void read_names(Body& body) {
    const size_t count = in_.array("names");
    if (count % 2 != 0) throw BadBytes{"a value lacks its name"};
    for (size_t i = 0; i < count; i += 2) {
      const ValueId value = in_.index("a named value", body.values.size());
      if (!body.names.empty() && value <= body.names.rbegin()->first) throw BadBytes{"names are not in order"};
      body.names.emplace_hint(body.names.end(), value, in_.text("a value's name", kMaxName));
    }
  }

  template <class Items>
  void locations(Items& items) {
    const size_t count = in_.array("locations");
    if (count == 0) return;
    if (count != 3 * items.size()) throw BadBytes{"there are too many locations, or too few"};
    bool known = false;
    for (auto& item : items) {
      for (uint32_t* number : {&item.loc.file, &item.loc.line, &item.loc.column}) {
        *number = static_cast<uint32_t>(in_.bits("a location", kNone));
      }
      known = known || item.loc.file != 0;
      last_file_ = std::max(last_file_, item.loc.file);
    }
    if (!known) throw BadBytes{"locations are written, but none is known"};
  }

  CborReader in_;
  Graph graph_;
  std::vector<TensorOp> ops_;
  size_t node_count_ = 0;
  uint32_t last_file_ = 0;
};

}  // namespace

Result<Graph> decode(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxText) return invalid_argument("graph: there are too many bytes");
  try {
    Graph graph = Decoder(bytes).run();
    if (auto sound = verify(graph); !sound) return sound.error();
    // One graph, one form: terms of expressions in another order, or ops of a kernel, would make another key.
    if (!std::ranges::equal(encode(graph), bytes)) throw BadBytes{"the graph is written in an unusual form"};
    return graph;
  } catch (const BadBytes& bad) {
    return invalid_argument("graph: " + bad.what);
  }
}

}  // namespace kiln::graph
