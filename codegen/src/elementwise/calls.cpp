#include "elementwise/calls.h"

#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>

#include "elementwise/ops.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen {
namespace {

// Kernels of fewer long ops have them inline: a call saves and restores what registers hold.
constexpr int kMostInline = 128;

// Whether its code is tens of instructions.
bool is_long_op(const Op& op, ElementType element) {
  switch (op.code) {
    case OpCode::kRem:
      return true;
    case OpCode::kDiv:
      return !dsl::is_float(element);
    case OpCode::kMath:
      break;
    default:
      return false;
  }
  switch (static_cast<dsl::MathFn>(std::get<int64_t>(op.attrs[0]))) {
    case dsl::MathFn::kSqrt:
    case dsl::MathFn::kCopysign:
    case dsl::MathFn::kSignbit:
    case dsl::MathFn::kFloor:
    case dsl::MathFn::kCeil:
    case dsl::MathFn::kRound:
    case dsl::MathFn::kTrunc:
    case dsl::MathFn::kIsnan:
    case dsl::MathFn::kIsinf:
      return false;
    default:
      return true;
  }
}

int64_t count_long(const dsl::Kernel& kernel, int64_t together) {
  int64_t count = 0;
  dsl::for_each_op(kernel, [&](const Op& op) {
    if (op.operands.empty() || !is_long_op(op, kernel.type(op.operands[0]).element)) return;
    const dsl::Type& type = kernel.type(op.operands[0]);
    count += type.is_scalar() ? 1 : std::max<int64_t>(1, dsl::element_count(type) / together);
  });
  return count;
}

// By what its code depends on.
std::string function_name(const ElementContext& ctx, const Op& op, llvm::ArrayRef<Value*> operands) {
  std::string name = "kiln." + dsl::info(op.code).name;
  for (const dsl::Attr& attr : op.attrs) {
    if (const auto* number = std::get_if<int64_t>(&attr)) name += "." + std::to_string(*number);
  }
  name += "." + std::string(dsl::info(ctx.type(op.operands[0]).element).name) + ".";
  llvm::raw_string_ostream stream(name);
  for (const Value* operand : operands) operand->getType()->print(stream);
  return name;
}

Result<llvm::Function*> function_for(ElementContext& ctx, Builder& outer, const Op& op,
                                     llvm::ArrayRef<Value*> operands) {
  llvm::Module& module = *outer.GetInsertBlock()->getModule();
  const std::string name = function_name(ctx, op, operands);
  if (llvm::Function* known = module.getFunction(name)) return known;
  llvm::SmallVector<llvm::Type*, 4> types;
  for (const Value* operand : operands) types.push_back(operand->getType());
  const dsl::Type& result = ctx.type(op.results[0]);
  llvm::Type* returned = like(operands[0], register_type(module.getContext(), dsl::scalar_type(result.element)));
  auto* function = llvm::Function::Create(llvm::FunctionType::get(returned, types, false),
                                          llvm::Function::InternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  Builder ir(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  llvm::SmallVector<Value*, 4> arguments;
  for (llvm::Argument& argument : function->args()) arguments.push_back(&argument);
  auto value = emit_elementwise(ctx, ir, op, arguments);
  if (!value) {
    function->eraseFromParent();
    return value.error();
  }
  ir.CreateRet(*value);
  return function;
}

}  // namespace

bool has_many_long_ops(const dsl::Kernel& kernel, int64_t together) {
  return count_long(kernel, together) > kMostInline;
}

Result<Value*> emit_op(ElementContext& ctx, Builder& ir, const Op& op, llvm::ArrayRef<Value*> operands) {
  const bool by_call = ctx.calls_long_ops && is_long_op(op, ctx.type(op.operands[0]).element);
  if (!by_call) return emit_elementwise(ctx, ir, op, operands);
  auto function = function_for(ctx, ir, op, operands);
  if (!function) return function.error();
  return static_cast<Value*>(ir.CreateCall(*function, operands));
}

}  // namespace kiln::codegen
