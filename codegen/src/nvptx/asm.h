// Inline PTX.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>

#include <string>
#include <vector>

#include "kiln/dsl/types.h"

namespace kiln::codegen::nvptx {

// Whether an instruction is one of all threads of a warp together: such a one must not move into a branch.
enum class Together : uint8_t { kNo, kWarp };

// A call of assembly with side effects. `text` numbers operands as LLVM does, results first.
llvm::CallInst* call_asm(llvm::IRBuilder<>& ir, llvm::Type* result, const std::string& text,
                         const std::string& constraints, llvm::ArrayRef<llvm::Value*> operands,
                         Together together = Together::kNo);

// So many results of one type: void, one, or the members of a struct.
llvm::Type* results_type(llvm::Type* one, size_t count);
std::vector<llvm::Value*> results_of(llvm::IRBuilder<>& ir, llvm::CallInst* call, size_t count);

// "{$first, $first+1, …}"
std::string braces(size_t first, size_t count);
// "=f,=f,…", and what ties as many operands to these results: "0,1,…".
std::string repeated(const std::string& constraint, size_t count);
std::string tied(size_t count);
// Joins with commas, leaving out what is empty.
std::string joined(llvm::ArrayRef<std::string> parts);

// Elements of less than 32 bits side by side in words, the first lowest; words as they are.
std::vector<llvm::Value*> pack_words(llvm::IRBuilder<>& ir, llvm::ArrayRef<llvm::Value*> elements, int bits);

// Whether it has products of several warps, which ptxas serialises in functions that call anything (its message C7509).
bool multiplies_in_groups(const llvm::Function& function);

// How matrix instructions call a type of 8 or 16 bits; null: not at all.
const char* matrix_type(dsl::ElementType element);

}  // namespace kiln::codegen::nvptx
