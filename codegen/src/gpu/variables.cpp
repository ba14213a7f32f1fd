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

Variable make_variable(Context& c, const dsl::Type& type, const Layout& layout) {
  llvm::Type* element = register_type(c.b.getContext(), type);
  const auto registers = static_cast<size_t>(layout.size(Dim::kRegister));
  Variable out{layout, element, {}};
  llvm::IRBuilder<> entry(c.prologue_end);
  const unsigned count = per_word(element, registers);
  const std::vector<bool> padding = c.padding(layout, type);
  for (size_t i = 0; i < registers; i += count) {
    const auto first = padding.begin() + static_cast<ptrdiff_t>(i);
    const bool is_padding = std::all_of(first, first + count, [](bool x) { return x; });
    llvm::Type* place = count == 1 ? element : entry.getInt32Ty();
    out.places.push_back(is_padding ? nullptr : entry.CreateAlloca(place));
  }
  return out;
}

std::vector<Variable> make_variables(Context& c, llvm::ArrayRef<ValueId> ids) {
  std::vector<Variable> out;
  for (ValueId id : ids) out.push_back(make_variable(c, c.type(id), *c.placement.home[id]));
  return out;
}

Registers read(Context& c, const Variable& variable) {
  Builder& b = c.b;
  const unsigned count = per_word(variable.element, static_cast<size_t>(variable.layout.size(Dim::kRegister)));
  Registers out;
  for (llvm::AllocaInst* place : variable.places) {
    if (!place) {
      out.insert(out.end(), count, llvm::Constant::getNullValue(variable.element));
      continue;
    }
    Value* word = b.CreateLoad(place->getAllocatedType(), place);
    if (count > 1) word = b.CreateBitCast(word, llvm::FixedVectorType::get(variable.element, count));
    for (unsigned i = 0; i < count; ++i) out.push_back(count > 1 ? b.CreateExtractElement(word, i) : word);
  }
  return out;
}

void write(Context& c, const Variable& variable, const Registers& registers) {
  Builder& b = c.b;
  const unsigned count = per_word(variable.element, registers.size());
  for (size_t i = 0; i < variable.places.size(); ++i) {
    if (!variable.places[i]) continue;
    Value* word = registers[i];
    if (count > 1) {
      word = b.CreateBitCast(vector_from(b, llvm::ArrayRef(registers).slice(i * count, count)), b.getInt32Ty());
    }
    b.CreateStore(word, variable.places[i]);
  }
}

Result<void> assign(Context& c, llvm::ArrayRef<ValueId> values, const std::vector<Variable>& variables) {
  std::vector<Registers> registers;
  for (size_t i = 0; i < values.size(); ++i) {
    auto value = c.is_in_flight(values[i]) ? Result<Registers>(c.take_in_flight(values[i]))
                                           : c.get(values[i], variables[i].layout);
    if (!value) return value.error();
    registers.push_back(std::move(*value));
  }
  for (size_t i = 0; i < values.size(); ++i) write(c, variables[i], registers[i]);
  return {};
}

LoopRange range_of(Context& c, const Op& op) {
  return make_loop_range(c.b, c.type(op.operands[0]).element, c.scalar(op.operands[0]), c.scalar(op.operands[1]),
                         c.scalar(op.operands[2]));
}

llvm::BasicBlock* new_block(Context& c, const char* name) {
  return llvm::BasicBlock::Create(c.b.getContext(), name, c.function);
}

}  // namespace kiln::codegen::gpu
