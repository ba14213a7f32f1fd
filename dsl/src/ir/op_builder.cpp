#include "kiln/dsl/op_builder.h"

#include "kiln/dsl/rewrite.h"

namespace kiln::dsl {

std::vector<ValueId> OpBuilder::add_all(OpCode code, std::vector<ValueId> operands, std::vector<Attr> attrs,
                                        std::vector<Region> regions) {
  attrs = with_default_attrs(code, std::move(attrs));
  std::vector<Type> types;
  for (ValueId operand : operands) types.push_back(type(operand));
  std::vector<Type> inferred = infer_types(code, types, attrs, kernel_.expr_names()).value();
  std::vector<ValueId> results;
  for (Type& result : inferred) results.push_back(fresh_value(kernel_, std::move(result)));
  out_.push_back({code, std::move(operands), results, std::move(attrs), std::move(regions), loc_});
  return results;
}

ValueId OpBuilder::add(OpCode code, std::vector<ValueId> operands, std::vector<Attr> attrs) {
  return add_all(code, std::move(operands), std::move(attrs))[0];
}

void OpBuilder::effect(OpCode code, std::vector<ValueId> operands, std::vector<Attr> attrs) {
  out_.push_back({code, std::move(operands), {}, with_default_attrs(code, std::move(attrs)), {}, loc_});
}

ValueId OpBuilder::constant(ElementType element, uint64_t bits) {
  return add(OpCode::kConstant, {}, {Literal{bits}, element});
}

ValueId OpBuilder::splat(ValueId scalar, const std::vector<Expr>& shape) {
  return shape.empty() ? scalar : add(OpCode::kSplat, {scalar}, {shape});
}

void OpBuilder::define(ValueId id, uint64_t bits) {
  const Type of = type(id);
  splat(constant(of.element, bits), of.shape);
  out_.back().results = {id};
}

}  // namespace kiln::dsl
