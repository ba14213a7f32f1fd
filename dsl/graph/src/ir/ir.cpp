#include "kiln/graph/ir.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "kiln/dsl/config.h"

namespace kiln::graph {
namespace {

// A step of FNV-1a over words, with the high half brought down: keys here differ in few bits.
uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 32);
}

uint64_t hash_expr(const Expr& expr);

uint64_t hash_atom(const dsl::Atom& atom) {
  uint64_t out = mix(static_cast<uint64_t>(atom.kind), atom.index);
  if (atom.args) out = mix(mix(out, hash_expr(atom.args->first)), hash_expr(atom.args->second));
  return out;
}

uint64_t hash_expr(const Expr& expr) {
  if (auto constant = expr.as_constant()) return mix(1, static_cast<uint64_t>(*constant));
  uint64_t out = 2;
  for (const dsl::Term& term : expr.terms()) {
    out = mix(out, static_cast<uint64_t>(term.coefficient));
    for (const dsl::Atom& atom : term.atoms) out = mix(out, hash_atom(atom));
  }
  return out;
}

struct AttrHash {
  uint64_t operator()(int64_t value) const { return static_cast<uint64_t>(value); }
  uint64_t operator()(double value) const { return std::bit_cast<uint64_t>(value); }
  uint64_t operator()(const Expr& value) const { return hash_expr(value); }
  uint64_t operator()(ElementType value) const { return static_cast<uint64_t>(value); }
  uint64_t operator()(Literal value) const { return value.bits; }
  uint64_t operator()(const std::string& value) const { return std::hash<std::string>()(value); }
  template <class T>
  uint64_t operator()(const std::vector<T>& values) const {
    uint64_t out = values.size();
    for (const T& value : values) out = mix(out, (*this)(value));
    return out;
  }
  uint64_t operator()(uint64_t value) const { return value; }
};

bool same(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) return false;
  if (const double* value = std::get_if<double>(&a)) {
    return std::bit_cast<uint64_t>(*value) == std::bit_cast<uint64_t>(std::get<double>(b));
  }
  return a == b;
}

}  // namespace

const dsl::CustomCode* TileKernel::code_for(std::string_view target) const {
  const auto fits = [&](const Code& each) { return dsl::defaults_apply(each.target, target); };
  const auto found = std::ranges::find_if(codes, fits);
  return found == codes.end() ? nullptr : &found->code;
}

std::string TileKernel::no_ops() const {
  if (codes.empty() || !dsl::only_declares(kernel)) return "";
  std::string out = "has code for ";
  for (const Code& each : codes) out += (&each == codes.data() ? "" : " and ") + each.target;
  return out + ", and no ops";
}

dsl::ExprNames Graph::expr_names() const {
  return {[this](uint32_t index) { return index < dims.size() ? dims[index].name : "?" + std::to_string(index); },
          [](uint32_t index) { return "?" + std::to_string(index); }};
}

std::string Graph::location_text(const Location& loc) const {
  if (loc.file == 0 || loc.file > files.size()) return {};
  return files[loc.file - 1] + ":" + std::to_string(loc.line) + ":" + std::to_string(loc.column);
}

std::optional<uint32_t> Graph::find_dim(std::string_view name) const {
  for (uint32_t i = 0; i < dims.size(); ++i) {
    if (dims[i].name == name) return i;
  }
  return std::nullopt;
}

bool same(const AttrList& a, const AttrList& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const Attr& x, const Attr& y) { return same(x, y); });
}

uint64_t hash(const AttrList& attrs) {
  uint64_t out = attrs.size();
  for (const Attr& attr : attrs) out = mix(mix(out, attr.index()), std::visit(AttrHash(), attr));
  return out;
}

uint64_t hash(const TensorType& type) {
  uint64_t out = static_cast<uint64_t>(type.element);
  for (const Expr& extent : type.shape) out = mix(out, hash_expr(extent));
  return mix(out, type.shape.size());
}

std::string to_string(const TensorType& type, const dsl::ExprNames& names) {
  std::string out(dsl::info(type.element).name);
  out += '[';
  for (size_t i = 0; i < type.shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += dsl::to_string(type.shape[i], names);
  }
  return out + ']';
}

std::optional<Attr> default_attr(const AttrInfo& attr) {
  if (!attr.default_text) return std::nullopt;
  if (attr.kind == AttrKind::kFloat) return Attr(std::strtod(attr.default_text->c_str(), nullptr));
  const int64_t number = std::strtoll(attr.default_text->c_str(), nullptr, 10);
  if (attr.kind == AttrKind::kExpr) return Attr(Expr(number));
  return Attr(number);
}

AttrList with_default_attrs(TensorOp op, AttrList attrs) {
  const std::vector<AttrInfo>& table = info(op).attrs;
  while (attrs.size() < table.size()) {
    auto value = default_attr(table[attrs.size()]);
    if (!value) break;
    attrs.push_back(std::move(*value));
  }
  return attrs;
}

}  // namespace kiln::graph
