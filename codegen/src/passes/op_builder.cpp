#include "passes/op_builder.h"

namespace kiln::codegen {

using dsl::ElementType;
using dsl::ValueId;

std::vector<dsl::Expr> shape_of(const std::vector<int64_t>& extents) { return {extents.begin(), extents.end()}; }

Wide number_from_bits(ElementType element, uint64_t bits) {
  const dsl::ElementTypeInfo& type = dsl::info(element);
  const int shift = 64 - type.bits;
  return type.is_signed ? Wide{static_cast<int64_t>(bits << shift) >> shift} : Wide{bits};
}

uint64_t bits_from_number(ElementType element, Wide number) {
  const int bits = dsl::info(element).bits;
  return static_cast<uint64_t>(number) & (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
}

Wide lowest(ElementType element) {
  const dsl::ElementTypeInfo& type = dsl::info(element);
  return type.is_signed ? -(Wide{1} << (type.bits - 1)) : Wide{0};
}

Wide highest(ElementType element) {
  const dsl::ElementTypeInfo& type = dsl::info(element);
  return (Wide{1} << (type.is_signed ? type.bits - 1 : type.bits)) - 1;
}

ValueId OpBuilder::add(dsl::OpCode code, std::vector<ValueId> operands, std::vector<dsl::Attr> attrs) {
  attrs = dsl::with_default_attrs(code, std::move(attrs));
  std::vector<dsl::Type> types;
  for (ValueId operand : operands) types.push_back(kernel_.type(operand));
  std::vector<dsl::Type> results = dsl::infer_types(code, types, attrs, kernel_.expr_names()).value();
  const auto id = static_cast<ValueId>(kernel_.values.size());
  kernel_.values.push_back({std::move(results[0]), ""});
  out_.push_back({code, std::move(operands), {id}, std::move(attrs), {}, loc_});
  return id;
}

void OpBuilder::effect(dsl::OpCode code, std::vector<ValueId> operands, std::vector<dsl::Attr> attrs) {
  out_.push_back({code, std::move(operands), {}, dsl::with_default_attrs(code, std::move(attrs)), {}, loc_});
}

ValueId OpBuilder::constant(ElementType element, uint64_t bits) {
  return add(dsl::OpCode::kConstant, {}, {dsl::Literal{bits}, element});
}

ValueId OpBuilder::splat(ValueId scalar, const std::vector<dsl::Expr>& shape) {
  return shape.empty() ? scalar : add(dsl::OpCode::kSplat, {scalar}, {shape});
}

void OpBuilder::define(ValueId id, uint64_t bits) {
  const dsl::Type type = kernel_.type(id);
  splat(constant(type.element, bits), type.shape);
  out_.back().results = {id};
}

}  // namespace kiln::codegen
