// IR to CBOR records; see binary_format.h for the layout.
#include "binary_format.h"

namespace kiln::dsl {
namespace {

Json encode_expr(const Expr& expr) {
  if (auto constant = expr.as_constant()) return *constant;
  Json out = Json::array();
  for (const Term& term : expr.terms()) {
    Json encoded = {term.coefficient};
    for (const Atom& atom : term.atoms) {
      const auto kind = static_cast<int64_t>(atom.kind);
      if (atom.args) {
        encoded.push_back(Json::array({kind, encode_expr(atom.args->first), encode_expr(atom.args->second)}));
      } else {
        encoded.push_back(Json::array({kind, atom.index}));
      }
    }
    out.push_back(std::move(encoded));
  }
  return out;
}

struct EncodeAttr {
  Json operator()(int64_t value) const { return value; }
  Json operator()(const Expr& expr) const { return encode_expr(expr); }
  Json operator()(const std::vector<Expr>& list) const {
    Json out = Json::array();
    for (const Expr& expr : list) out.push_back(encode_expr(expr));
    return out;
  }
  Json operator()(ElementType element) const { return Json::array({0, static_cast<int64_t>(element)}); }
  Json operator()(Literal literal) const { return Json::array({1, literal.bits}); }
  Json operator()(const std::string& text) const { return text; }
};

Json encode_ops(const std::vector<Op>& ops) {
  Json out = Json::array();
  for (const Op& op : ops) {
    Json attrs = Json::array();
    for (const Attr& attr : op.attrs) attrs.push_back(std::visit(EncodeAttr{}, attr));
    Json encoded = Json::array({static_cast<int64_t>(op.code), op.operands, std::move(attrs), op.results.size()});
    for (const Region& region : op.regions)
      encoded.push_back(Json::array({region.args.size(), encode_ops(region.ops)}));
    out.push_back(std::move(encoded));
  }
  return out;
}

void append_locations(const std::vector<Op>& ops, Json& out) {
  for (const Op& op : ops) {
    for (uint32_t number : {op.loc.file, op.loc.line, op.loc.column}) out.push_back(number);
    for (const Region& region : op.regions) append_locations(region.ops, out);
  }
}

}  // namespace

Json encode_canonical(const Kernel& kernel) {
  Json params = Json::array();
  for (const Param& param : kernel.params) {
    params.push_back(
        Json::array({static_cast<int64_t>(param.type.element), param.type.pointer, param.readonly, param.may_alias}));
  }
  Json grid = Json::array(), options = Json::array();
  for (const KernelOption& option : kernel_options()) {
    const std::string_view value = option.value(kernel.options);
    options.push_back(value == option.word ? Json(value) : Json(value == "true"));
  }
  for (const Expr& extent : kernel.grid) grid.push_back(encode_expr(extent));
  return Json::array({kCanonicalTag, kernel.name, std::move(params), kernel.constexprs.size(), std::move(grid),
                      std::move(options), encode_ops(kernel.body.ops)});
}

Json encode_lines(const Kernel& kernel) {
  Json files = Json::array(), locations = Json::array();
  for (const std::string& file : kernel.files) files.push_back(file);
  append_locations(kernel.body.ops, locations);
  return Json::array({std::move(files), std::move(locations)});
}

Json encode_debug(const Kernel& kernel) {
  Json params = Json::array(), constexprs = Json::array(), space = Json::array();
  for (const Param& param : kernel.params) params.push_back(param.name);
  for (const Constexpr& item : kernel.constexprs) {
    constexprs.push_back(Json::array({item.name, item.default_value ? Json(*item.default_value) : Json()}));
  }
  for (const SpaceAxis& axis : kernel.space) space.push_back(Json::array({axis.name, axis.values}));
  Json defaults = Json::array();
  for (const auto& [target, values] : kernel.target_defaults) {
    Json items = Json::array();
    for (const auto& [name, value] : values) items.push_back(Json::array({name, value}));
    defaults.push_back(Json::array({target, std::move(items)}));
  }
  Json constraints = Json::array(), arrays = Json::array();
  for (const Expr& constraint : kernel.constraints) constraints.push_back(encode_expr(constraint));
  for (const ArrayInfo& array : kernel.arrays) {
    Json range = Json::array();
    if (array.range) range = Json::array({encode_expr(array.range->first), encode_expr(array.range->second)});
    arrays.push_back(Json::array({array.param, encode_expr(array.elements), std::move(range)}));
  }
  Json names = Json::array(), lines = encode_lines(kernel);
  for (const Value& value : kernel.values) names.push_back(value.name);
  return Json::array({kDebugTag, std::move(params), std::move(constexprs), std::move(space), std::move(lines[0]),
                      std::move(names), std::move(lines[1]), std::move(defaults), std::move(constraints),
                      std::move(arrays)});
}

}  // namespace kiln::dsl
