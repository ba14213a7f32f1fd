// inline_asm: assembly of the target on `pack` registers of a thread at a time. Elements of less than 32 bits go side
// by side into words of 32 bits, the first lowest, where `pack` of them fill one or more; one alone is 16 bits wide at
// least. The constraints are LLVM's: those of the results, then those of the operands, a word each.
#include "gpu/ops/inline_asm.h"

#include <llvm/IR/InlineAsm.h>

#include "kiln/dsl/verify.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kWordBits = 32, kLeastBits = 16;

// How `pack` elements lie in words.
struct Words {
  int element_bits, bits;
  int64_t count;
  llvm::Type* type;

  int64_t elements() const { return std::max(1, bits / element_bits); }  // of a word
};

Words words_of(Context& ctx, const dsl::Type& type, int64_t pack) {
  llvm::Type* element = register_type(ctx.ir.getContext(), type);
  const int bits = element->isIntegerTy(1) ? 8 : static_cast<int>(element->getPrimitiveSizeInBits());
  if (bits >= kWordBits) return {bits, bits, pack, element};
  const int whole = static_cast<int>(std::min<int64_t>(kWordBits, std::max<int64_t>(kLeastBits, bits * pack)));
  const int word = whole > kLeastBits ? kWordBits : kLeastBits;
  return {bits, word, (bits * pack + word - 1) / word, ctx.ir.getIntNTy(static_cast<unsigned>(word))};
}

Value* narrow_bits(Builder& ir, Value* x, int bits) {
  if (x->getType()->isIntegerTy(1)) return ir.CreateZExt(x, ir.getInt8Ty());
  return ir.CreateBitCast(x, ir.getIntNTy(static_cast<unsigned>(bits)));
}

// A group's registers, the last one again where there are no more.
void append_words(Context& ctx, const Words& words, const Registers& registers, size_t first, int64_t pack,
                  llvm::SmallVectorImpl<Value*>& out) {
  Builder& ir = ctx.ir;
  for (int64_t w = 0; w < words.count; ++w) {
    Value* word = nullptr;
    for (int64_t i = 0; i < words.elements() && w * words.elements() + i < pack; ++i) {
      const size_t reg = std::min(first + static_cast<size_t>(w * words.elements() + i), registers.size() - 1);
      if (words.bits == words.element_bits && words.bits >= kWordBits) {
        word = registers[reg];
        break;
      }
      Value* wide = ir.CreateZExt(narrow_bits(ir, registers[reg], words.element_bits), words.type);
      Value* part = ir.CreateShl(wide, static_cast<uint64_t>(words.element_bits * i));
      word = word ? ir.CreateOr(word, part) : part;
    }
    out.push_back(word);
  }
}

Value* element_of(Context& ctx, const Words& words, Value* word, int64_t index, const dsl::Type& type) {
  Builder& ir = ctx.ir;
  if (words.bits >= kWordBits && words.bits == words.element_bits) return word;
  Value* shifted = ir.CreateLShr(word, static_cast<uint64_t>(words.element_bits * index));
  Value* bits = ir.CreateTrunc(shifted, ir.getIntNTy(static_cast<unsigned>(words.element_bits)));
  llvm::Type* to = register_type(ir.getContext(), type);
  return to->isIntegerTy(1) ? ir.CreateIsNotNull(bits) : ir.CreateBitCast(bits, to);
}

// "" or what is wrong: LLVM ends the process where its code generator meets a constraint that it cannot meet.
std::string problem_of(const TargetInfo& target, llvm::FunctionType* type, const std::string& constraints,
                       int64_t results) {
  llvm::SmallVector<llvm::StringRef, 8> given;
  llvm::StringRef(constraints).split(given, ',');
  const auto wanted = static_cast<size_t>(results) + type->getNumParams();
  if (given.size() != wanted) {
    return "takes " + std::to_string(wanted) + " constraints (" + std::to_string(results) + " of results), not " +
           std::to_string(given.size());
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const bool is_result = i < static_cast<size_t>(results);
    llvm::StringRef letter = given[i].trim();
    if (is_result && !letter.consume_front("=")) return "the constraint of a result begins with `=`";
    if (is_result) letter.consume_front("&");
    llvm::Type* result = type->getReturnType();
    if (auto* all = llvm::dyn_cast<llvm::StructType>(result)) result = all->getElementType(0);
    llvm::Type* held =
        is_result ? result : type->getParamType(static_cast<unsigned>(i) - static_cast<unsigned>(results));
    if (!target.takes_constraint(letter, held)) {
      return "`" + given[i].str() + "` is no constraint for " + std::to_string(held->getPrimitiveSizeInBits()) +
             " bits on this target";
    }
  }
  return "";
}

}  // namespace

Result<Registers> compute_inline_asm(Context& ctx, const Op& op, const Layout& layout) {
  Builder& ir = ctx.ir;
  const auto& text = std::get<std::string>(op.attrs[0]);
  const auto& constraints = std::get<std::string>(op.attrs[1]);
  const int64_t pack = int_attr(op, 2);
  std::vector<Registers> operands;
  for (ValueId id : op.operands) {
    auto registers = ctx.get(id, layout);
    if (!registers) return registers;
    operands.push_back(std::move(*registers));
  }
  const dsl::Type& type = ctx.type(op.results[0]);
  const Words words = words_of(ctx, type, pack);
  llvm::Type* result = words.type;
  if (words.count > 1) {
    result = llvm::StructType::get(ir.getContext(),
                                   llvm::SmallVector<llvm::Type*, 8>(static_cast<size_t>(words.count), words.type));
  }
  Registers out;
  for (size_t first = 0; first < operands[0].size(); first += static_cast<size_t>(pack)) {
    llvm::SmallVector<Value*, 8> in;
    for (size_t i = 0; i < operands.size(); ++i) {
      append_words(ctx, words_of(ctx, ctx.type(op.operands[i]), pack), operands[i], first, pack, in);
    }
    llvm::SmallVector<llvm::Type*, 8> types;
    for (Value* x : in) types.push_back(x->getType());
    auto* function = llvm::FunctionType::get(result, types, false);
    if (const std::string problem = problem_of(ctx.target, function, constraints, words.count); !problem.empty()) {
      return ctx.unsupported(op, problem);
    }
    auto* packed = ir.CreateCall(llvm::InlineAsm::get(function, text, constraints, false), in);
    packed->setDoesNotAccessMemory();
    for (int64_t i = 0; i < pack && out.size() < operands[0].size(); ++i) {
      const int64_t word = i / words.elements();
      Value* part = words.count > 1 ? ir.CreateExtractValue(packed, static_cast<unsigned>(word)) : packed;
      out.push_back(element_of(ctx, words, part, i % words.elements(), type));
    }
  }
  return out;
}

}  // namespace kiln::codegen::gpu
