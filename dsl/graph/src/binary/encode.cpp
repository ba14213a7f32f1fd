// Graph to CBOR; see format.h for the layout.
#include <algorithm>
#include <array>
#include <bit>

#include "binary/custom_code.h"
#include "binary/format.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/expr_binary.h"
#include "kiln/graph/binary.h"

namespace kiln::graph {
namespace {

using dsl::CborWriter;

struct WriteAttr {
  CborWriter& out;

  void operator()(int64_t value) const { out.integer(value); }
  void operator()(double value) const { out.bits(std::bit_cast<uint64_t>(value)); }
  void operator()(const Expr& expr) const { dsl::write_expr(expr, out); }
  void operator()(const std::vector<Expr>& list) const {
    out.array(list.size());
    for (const Expr& expr : list) dsl::write_expr(expr, out);
  }
  void operator()(const std::vector<int64_t>& list) const {
    out.array(list.size());
    for (const int64_t value : list) out.integer(value);
  }
  void operator()(ElementType element) const { out.bits(static_cast<uint64_t>(element)); }
  void operator()(Literal literal) const { out.bits(literal.bits); }
  void operator()(const std::vector<uint64_t>& data) const {
    uint64_t all = 0;
    for (const uint64_t bits : data) all |= bits;
    size_t width = 1;
    while (width < 8 && all >> (8 * width) != 0) width *= 2;
    std::vector<std::byte> bytes;
    bytes.reserve(data.size() * width);
    for (const uint64_t bits : data) {
      for (size_t i = 0; i < width; ++i) bytes.push_back(static_cast<std::byte>(bits >> (8 * i) & 0xff));
    }
    out.array(2);
    out.bits(width);
    out.bytes(bytes);
  }
  void operator()(const std::string& text) const { out.text(text); }
};

void write_argument(const TileKernel::Argument& argument, CborWriter& out) {
  out.array(2);
  out.bits(static_cast<uint64_t>(argument.kind));
  if (argument.kind == TileKernel::Argument::Kind::kScalar)
    dsl::write_expr(argument.scalar, out);
  else
    out.bits(argument.index);
}

void write_types(const std::vector<TensorType>& types, CborWriter& out) {
  out.array(types.size());
  for (const TensorType& type : types) write_type(type, out);
}

void write_location(const Location& loc, CborWriter& out) {
  for (const uint32_t number : {loc.file, loc.line, loc.column}) out.bits(number);
}

template <class Items>
void write_locations(const Items& items, CborWriter& out) {
  const bool known = std::ranges::any_of(items, [](const auto& item) { return item.loc.file != 0; });
  out.array(known ? 3 * items.size() : 0);
  if (!known) return;
  for (const auto& item : items) write_location(item.loc, out);
}

class Encoder {
 public:
  Encoder(const Graph& graph, std::vector<std::byte>& bytes) : graph_(graph), out_(bytes) {
    op_number_.fill(kNone);
    for (const Body& body : graph.bodies) {
      for (const Node& node : body.nodes) {
        uint32_t& number = op_number_[static_cast<size_t>(node.op)];
        if (number != kNone) continue;
        number = static_cast<uint32_t>(ops_.size());
        ops_.push_back(node.op);
      }
    }
  }

  void run() {
    out_.array(8);
    out_.text(kGraphTag);
    out_.array(graph_.dims.size());
    for (const DimInfo& dim : graph_.dims) {
      out_.array(4);
      out_.text(dim.name);
      for (const int64_t number : {dim.low, dim.high, dim.multiple}) out_.integer(number);
    }
    out_.array(ops_.size());
    for (const TensorOp op : ops_) out_.text(info(op).name);
    write_types(graph_.types, out_);
    out_.array(graph_.attr_lists.size() - 1);
    for (size_t i = 1; i < graph_.attr_lists.size(); ++i) write_attrs(graph_.attr_lists[i], out_);
    out_.array(graph_.kernels.size());
    for (const TileKernel& kernel : graph_.kernels) {
      out_.array(kernel.codes.empty() ? 6 : 7);
      out_.text(kernel.name);
      write_kernel_fields(kernel, out_);
      out_.bits(uint64_t{kernel.gradient == kNone ? 0 : kernel.gradient + 1});
      if (!kernel.codes.empty()) write_codes(kernel.codes, out_);
    }
    out_.array(graph_.bodies.size());
    for (const Body& body : graph_.bodies) write_body(body);
    out_.array(graph_.files.size());
    for (const std::string& file : graph_.files) out_.text(file);
  }

 private:
  void write_body(const Body& body) {
    const std::vector<ValueId> now = definition_order(body);
    out_.array(7);
    out_.text(body.name);
    out_.array(body.inputs.size());
    for (const Input& input : body.inputs) {
      out_.array(3);
      out_.text(input.name);
      out_.bits(body.values[input.value].type);
      out_.bits(uint64_t{input.donated_to == kNone ? 0 : input.donated_to + 1});
    }
    out_.array(body.outputs.size());
    for (const Output& output : body.outputs) {
      out_.array(2);
      out_.text(output.name);
      out_.bits(now[output.value]);
    }
    out_.array(body.nodes.size());
    for (const Node& node : body.nodes) write_node(body, node, now);
    write_names(body, now);
    write_locations(body.inputs, out_);
    write_locations(body.nodes, out_);
  }

  void write_node(const Body& body, const Node& node, const std::vector<ValueId>& now) {
    out_.array(4);
    out_.bits(op_number_[static_cast<size_t>(node.op)]);
    out_.bits(node.attrs);
    out_.array(node.operand_count);
    for (const ValueId operand : body.operands_of(node)) {
      out_.bits(uint64_t{operand == kNoValue ? 0 : now[operand] + 1});
    }
    out_.array(node.result_count);
    for (uint32_t i = 0; i < node.result_count; ++i) out_.bits(body.values[node.first_result + i].type);
  }

  void write_names(const Body& body, const std::vector<ValueId>& now) {
    std::vector<std::pair<ValueId, const std::string*>> names;
    for (const auto& [value, name] : body.names) names.emplace_back(now[value], &name);
    std::ranges::sort(names);
    out_.array(2 * names.size());
    for (const auto& [value, name] : names) {
      out_.bits(value);
      out_.text(*name);
    }
  }

  const Graph& graph_;
  CborWriter out_;
  std::array<uint32_t, kTensorOpCount> op_number_;
  std::vector<TensorOp> ops_;
};

}  // namespace

void write_type(const TensorType& type, CborWriter& out) {
  out.array(1 + type.shape.size());
  out.bits(static_cast<uint64_t>(type.element));
  for (const Expr& extent : type.shape) dsl::write_expr(extent, out);
}

void write_attrs(const AttrList& attrs, CborWriter& out) {
  out.array(attrs.size());
  for (const Attr& attr : attrs) {
    out.array(2);
    out.bits(attr.index());
    std::visit(WriteAttr{out}, attr);
  }
}

void write_kernel_fields(const TileKernel& kernel, CborWriter& out) {
  out.bytes(dsl::encode_kernel(kernel.kernel));
  out.array(kernel.arguments.size());
  for (const TileKernel::Argument& argument : kernel.arguments) write_argument(argument, out);
  write_types(kernel.operands, out);
  write_types(kernel.results, out);
}

std::vector<ValueId> definition_order(const Body& body) {
  std::vector<ValueId> now(body.values.size(), kNoValue);
  ValueId next = 0;
  for (const Input& input : body.inputs) now[input.value] = next++;
  for (const Node& node : body.nodes) {
    for (uint32_t i = 0; i < node.result_count; ++i) now[node.first_result + i] = next++;
  }
  return now;
}

std::vector<std::byte> encode(const Graph& graph) {
  std::vector<std::byte> out;
  Encoder(graph, out).run();
  return out;
}

}  // namespace kiln::graph
