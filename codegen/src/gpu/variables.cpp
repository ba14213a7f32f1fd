#include "gpu/variables.h"

#include <algorithm>

#include "gpu/shared/shared_access.h"

namespace kiln::codegen::gpu {
namespace {

// Small elements are carried in words: so many in one.
unsigned per_word(llvm::Type* element, size_t registers) {
  const auto bits = static_cast<unsigned>(element->getPrimitiveSizeInBits());
  return (bits == 8 || bits == 16) && registers % (32 / bits) == 0 ? 32 / bits : 1;
}

}  // namespace

Variable make_variable(Context& ctx, const dsl::Type& type, const Layout& layout) {
  llvm::Type* element = register_type(ctx.ir.getContext(), type);
  const auto registers = static_cast<size_t>(layout.size(Dim::kRegister));
  Variable out{layout, element, {}};
  llvm::IRBuilder<> entry(ctx.prologue_end);
  const unsigned count = per_word(element, registers);
  const std::vector<bool> padding = ctx.padding(layout, type);
  for (size_t i = 0; i < registers; i += count) {
    const auto first = padding.begin() + static_cast<ptrdiff_t>(i);
    const bool is_padding = std::all_of(first, first + count, [](bool x) { return x; });
    llvm::Type* place = count == 1 ? element : entry.getInt32Ty();
    out.places.push_back(is_padding ? nullptr : entry.CreateAlloca(place));
  }
  return out;
}

std::vector<Variable> make_variables(Context& ctx, llvm::ArrayRef<ValueId> ids) {
  std::vector<Variable> out;
  for (ValueId id : ids) out.push_back(make_variable(ctx, ctx.type(id), *ctx.placement.home[id]));
  return out;
}

Registers read(Context& ctx, const Variable& variable) {
  Builder& ir = ctx.ir;
  const unsigned count = per_word(variable.element, static_cast<size_t>(variable.layout.size(Dim::kRegister)));
  Registers out;
  for (llvm::AllocaInst* place : variable.places) {
    if (!place) {
      out.insert(out.end(), count, llvm::Constant::getNullValue(variable.element));
      continue;
    }
    Value* word = ir.CreateLoad(place->getAllocatedType(), place);
    if (count > 1) word = ir.CreateBitCast(word, llvm::FixedVectorType::get(variable.element, count));
    for (unsigned i = 0; i < count; ++i) out.push_back(count > 1 ? ir.CreateExtractElement(word, i) : word);
  }
  return out;
}

void write(Context& ctx, const Variable& variable, const Registers& registers) {
  Builder& ir = ctx.ir;
  const unsigned count = per_word(variable.element, registers.size());
  for (size_t i = 0; i < variable.places.size(); ++i) {
    if (!variable.places[i]) continue;
    Value* word = registers[i];
    if (count > 1) {
      word = ir.CreateBitCast(vector_from(ir, llvm::ArrayRef(registers).slice(i * count, count)), ir.getInt32Ty());
    }
    ir.CreateStore(word, variable.places[i]);
  }
}

Result<void> assign(Context& ctx, llvm::ArrayRef<ValueId> values, const std::vector<Variable>& variables) {
  std::vector<Registers> registers;
  for (size_t i = 0; i < values.size(); ++i) {
    auto value = ctx.is_pending(values[i]) ? Result<Registers>(ctx.take_pending(values[i]))
                                           : ctx.get(values[i], variables[i].layout);
    if (!value) return value.error();
    registers.push_back(std::move(*value));
  }
  for (size_t i = 0; i < values.size(); ++i) write(ctx, variables[i], registers[i]);
  return {};
}

LoopRange range_of(Context& ctx, const Op& op) {
  return make_loop_range(ctx.ir, ctx.type(op.operands[0]).element, ctx.scalar(op.operands[0]),
                         ctx.scalar(op.operands[1]), ctx.scalar(op.operands[2]));
}

llvm::BasicBlock* new_block(Context& ctx, const char* name) {
  return llvm::BasicBlock::Create(ctx.ir.getContext(), name, ctx.function);
}

}  // namespace kiln::codegen::gpu
