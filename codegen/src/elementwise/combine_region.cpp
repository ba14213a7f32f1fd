// Regions of scalars on registers: `custom` combines as many pairs at once as there are lanes.
#include "elementwise/combine_region.h"

#include <map>

#include "elementwise/combine.h"
#include "elementwise/ops.h"
#include "elementwise/philox.h"

namespace kiln::codegen {
namespace {

Value* spread(Builder& ir, Value* x, llvm::Type* like_this) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like_this);
  if (!vector || x->getType()->isVectorTy()) return x;
  return ir.CreateVectorSplat(vector->getNumElements(), x);
}

}  // namespace

Result<Elements> emit_region(ElementContext& ctx, Builder& ir, const dsl::Region& region,
                             llvm::ArrayRef<Value*> arguments, llvm::function_ref<Value*(ValueId)> outer) {
  std::map<ValueId, Value*> values;
  for (size_t i = 0; i < arguments.size(); ++i) values[region.args[i]] = arguments[i];
  auto read = [&](llvm::ArrayRef<ValueId> ids) {
    Elements out;
    for (ValueId id : ids) {
      auto own = values.find(id);
      out.push_back(spread(ir, own != values.end() ? own->second : outer(id), arguments[0]->getType()));
    }
    return out;
  };
  for (const Op& op : region.ops) {
    const Elements operands = read(op.operands);
    if (op.code == OpCode::kYield) return operands;
    if (op.code == OpCode::kConstant) {
      values[op.results[0]] = emit_constant(ir, op);
    } else if (op.code == OpCode::kPhilox) {
      const auto words = emit_philox(ir, philox_keys(ir, operands[0]), operands[1]);
      for (size_t i = 0; i < words.size(); ++i) values[op.results[i]] = words[i];
    } else {
      auto value = emit_elementwise(ctx, ir, op, operands);
      if (!value) return value.error();
      values[op.results[0]] = *value;
    }
  }
  return internal_error("a region without a yield");
}

}  // namespace kiln::codegen
