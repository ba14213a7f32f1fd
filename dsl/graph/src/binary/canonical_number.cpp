#include "binary/canonical_number.h"

#include <algorithm>

#include "binary/canonical_digest.h"
#include "ir/renumber.h"
#include "text/body_order.h"

namespace kiln::graph {
namespace {

class Numbering {
 public:
  explicit Numbering(Graph graph) : in_(std::move(graph)), used_(in_.dims.size(), false) {
    types_.assign(in_.types.size(), kNone);
    attrs_.assign(in_.attr_lists.size(), kNone);
    kernels_.assign(in_.kernels.size(), kNone);
    bodies_.assign(in_.bodies.size(), kNone);
  }

  Graph run() {
    order_bodies();
    out_.attr_lists.clear();
    intern({});
    for (size_t i = 0; i < order_.size(); ++i) number_body(in_.bodies[order_[i]], i);
    number_dims();
    return std::move(out_);
  }

 private:
  // Main, then the bodies that it needs, each behind those that it names.
  void order_bodies() {
    order_ = {0};
    bodies_[0] = 0;
    std::vector<std::pair<BodyId, std::vector<BodyId>>> stack;
    const auto open = [&](BodyId id) {
      std::vector<BodyId> needs;
      for (const Node& node : in_.bodies[id].nodes) {
        for (const BodyId need : bodies_of(in_, node)) needs.push_back(need);
      }
      std::ranges::reverse(needs);  // taken from the end
      stack.emplace_back(id, std::move(needs));
    };
    std::vector<bool> seen(in_.bodies.size(), false);
    seen[0] = true;
    for (open(0); !stack.empty();) {
      auto& [id, needs] = stack.back();
      if (needs.empty()) {
        if (id != 0) {
          bodies_[id] = static_cast<BodyId>(order_.size());
          order_.push_back(id);
        }
        stack.pop_back();
        continue;
      }
      const BodyId need = needs.back();
      needs.pop_back();
      if (seen[need]) continue;
      seen[need] = true;
      open(need);
    }
  }

  void number_body(Body& body, size_t place) {
    if (place > 0) {  // main keeps its names
      body.name = "b" + std::to_string(place);
      for (size_t i = 0; i < body.inputs.size(); ++i) body.inputs[i].name = "x" + std::to_string(i);
      for (size_t i = 0; i < body.outputs.size(); ++i) body.outputs[i].name = "y" + std::to_string(i);
    }
    for (Value& value : body.values) value.type = type(value.type);
    for (Node& node : body.nodes) node.attrs = attrs(node);
    out_.bodies.push_back(std::move(body));
  }

  TypeId type(TypeId old) {
    if (types_[old] != kNone) return types_[old];
    types_[old] = static_cast<TypeId>(out_.types.size());
    out_.types.push_back(in_.types[old]);
    mark(out_.types.back().shape);
    return types_[old];
  }

  AttrsId attrs(const Node& node) {
    if (attrs_[node.attrs] != kNone) return attrs_[node.attrs];
    AttrList list = in_.attr_lists[node.attrs];
    const std::vector<AttrInfo>& table = info(node.op).attrs;
    for (size_t i = 0; i < list.size(); ++i) {
      if (const Expr* expr = std::get_if<Expr>(&list[i])) mark(*expr);
      if (const auto* shape = std::get_if<std::vector<Expr>>(&list[i])) mark(*shape);
      if (table[i].kind == AttrKind::kBody) list[i] = int64_t{bodies_[static_cast<size_t>(int_attr(list, i))]};
      if (table[i].kind == AttrKind::kKernel) list[i] = int64_t{kernel(static_cast<size_t>(int_attr(list, i)))};
    }
    return attrs_[node.attrs] = intern(std::move(list));
  }

  AttrsId intern(AttrList list) {
    const auto [id, fresh] = attrs_interned_.find(bytes_of(list));
    if (fresh) out_.attr_lists.push_back(std::move(list));
    return id;
  }

  uint32_t kernel(size_t old) {
    if (kernels_[old] != kNone) return kernels_[old];
    kernels_[old] = static_cast<uint32_t>(out_.kernels.size());
    TileKernel& now = out_.kernels.emplace_back(std::move(in_.kernels[old]));
    now.name = "k" + std::to_string(kernels_[old]);
    for (const TileKernel::Argument& argument : now.arguments) mark(argument.scalar);
    for (const TensorType& operand : now.operands) mark(operand.shape);
    for (const TensorType& result : now.results) mark(result.shape);
    return kernels_[old];
  }

  void mark(const Expr& expr) {
    for (const dsl::Term& term : expr.terms()) {
      for (const dsl::Atom& atom : term.atoms) {
        if (!atom.args) {
          used_[atom.index] = true;
        } else {
          mark(atom.args->first);
          mark(atom.args->second);
        }
      }
    }
  }

  void mark(const std::vector<Expr>& exprs) {
    for (const Expr& expr : exprs) mark(expr);
  }

  // Those that are mentioned, in the order of before: expressions keep their order of terms.
  void number_dims() {
    std::vector<uint32_t> now(in_.dims.size(), 0);
    for (size_t i = 0; i < in_.dims.size(); ++i) {
      if (!used_[i]) continue;
      now[i] = static_cast<uint32_t>(out_.dims.size());
      out_.dims.push_back(in_.dims[i]);
    }
    if (out_.dims.size() == in_.dims.size()) return;
    const auto change = [&](Expr& expr) { expr = renumber(expr, now); };
    for (TensorType& type : out_.types) std::ranges::for_each(type.shape, change);
    for (AttrList& list : out_.attr_lists) {
      for (Attr& attr : list) {
        if (Expr* expr = std::get_if<Expr>(&attr)) change(*expr);
        if (auto* shape = std::get_if<std::vector<Expr>>(&attr)) std::ranges::for_each(*shape, change);
      }
    }
    for (TileKernel& kernel : out_.kernels) {
      for (TileKernel::Argument& argument : kernel.arguments) change(argument.scalar);
      for (TensorType& operand : kernel.operands) std::ranges::for_each(operand.shape, change);
      for (TensorType& result : kernel.results) std::ranges::for_each(result.shape, change);
    }
  }

  Graph in_, out_;
  std::vector<BodyId> order_;  // by the new number: the old one
  std::vector<TypeId> types_;  // by the old number: the new one
  std::vector<AttrsId> attrs_;
  std::vector<uint32_t> kernels_;
  std::vector<BodyId> bodies_;
  std::vector<bool> used_;
  Interner attrs_interned_;
};

}  // namespace

Graph number_by_mention(Graph graph) { return Numbering(std::move(graph)).run(); }

}  // namespace kiln::graph
