#include "passes/fold_constants.h"

#include <cmath>

#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/op_builder.h"
#include "kiln/dsl/rewrite.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::OpBuilder;
using dsl::OpCode;

bool is_exact(dsl::MathFn fn) {
  switch (fn) {
    case dsl::MathFn::kSqrt:
    case dsl::MathFn::kFloor:
    case dsl::MathFn::kCeil:
    case dsl::MathFn::kRound:
    case dsl::MathFn::kTrunc:
    case dsl::MathFn::kCopysign:
    case dsl::MathFn::kSignbit:
    case dsl::MathFn::kIsnan:
    case dsl::MathFn::kIsinf:
      return true;
    default:
      return false;
  }
}

bool is_foldable(const dsl::Op& op) {
  if (op.code == OpCode::kInlineAsm || op.code == OpCode::kPhilox || op.code == OpCode::kAddptr) return false;
  if (op.code == OpCode::kMath) return is_exact(static_cast<dsl::MathFn>(int_attr(op, 0)));
  return op.results.size() == 1;
}

}  // namespace

std::optional<uint64_t> evaluate_scalar(const dsl::Op& op, const std::vector<dsl::Type>& types,
                                        const std::vector<uint64_t>& operands, const dsl::Type& result) {
  if (!is_foldable(op)) return std::nullopt;
  // kernel(out) { out[0] = op(constants…) }
  dsl::Kernel kernel;
  kernel.name = "fold";
  kernel.params.push_back({"out", {result.element, true, {}, false}, false, 0, false});
  kernel.values.push_back({kernel.params[0].type, ""});
  dsl::Op call = op;
  OpBuilder b(kernel, kernel.body.ops, op.loc);
  for (size_t i = 0; i < operands.size(); ++i) call.operands[i] = b.constant(types[i].element, operands[i]);
  call.results = {fresh_value(kernel, result)};
  kernel.body.ops.push_back(call);
  b.effect(OpCode::kStore, {0, call.results[0]});

  uint64_t bits = 0;
  const dsl::Argument out{&bits, 1, 0};
  if (!dsl::interpret(kernel, {&out, 1}, {1, 1, 1})) return std::nullopt;
  const bool is_nan = dsl::is_float(result.element) && std::isnan(dsl::double_from_bits(result.element, bits));
  if (is_nan) return std::nullopt;
  return bits;
}

}  // namespace kiln::codegen
