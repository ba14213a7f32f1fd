// ldmatrix, stmatrix and cp.async (PTX ISA, "Warp-level matrix load instruction", "… store instruction", "Asynchronous
// copy").
#include "nvptx/asm.h"
#include "nvptx/target_info.h"

namespace kiln::codegen::nvptx {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

namespace {

Value* shared_number(Builder& ir, Value* pointer) { return ir.CreatePtrToInt(pointer, ir.getInt32Ty()); }

std::string matrix_form(const char* name, size_t count, bool transposed) {
  return std::string(name) + ".sync.aligned.m8n8.x" + std::to_string(count) + (transposed ? ".trans" : "") +
         ".shared.b16 ";
}

}  // namespace

std::vector<Value*> CudaTargetInfo::load_matrices(Builder& ir, Value* address, int count, bool transposed) const {
  const auto n = static_cast<size_t>(count);
  auto* call = call_asm(ir, results_type(ir.getInt32Ty(), n),
                        matrix_form("ldmatrix", n, transposed) + braces(0, n) + ", [$" + std::to_string(n) + "];",
                        repeated("=r", n) + ",r", {shared_number(ir, address)}, Together::kWarp);
  return results_of(ir, call, n);
}

void CudaTargetInfo::store_matrices(Builder& ir, Value* address, llvm::ArrayRef<Value*> words, bool transposed) const {
  llvm::SmallVector<Value*, 8> in = {shared_number(ir, address)};
  in.append(words.begin(), words.end());
  call_asm(ir, ir.getVoidTy(),
           matrix_form("stmatrix", words.size(), transposed) + "[$0], " + braces(1, words.size()) + ";",
           repeated("r", in.size()), in, Together::kWarp);
}

int CudaTargetInfo::async_copy_sizes() const { return 4 | 8 | 16; }

void CudaTargetInfo::async_copy(Builder& ir, Value* shared, const gpu::GlobalAccess& from, int bytes) const {
  const std::string size = std::to_string(bytes);
  // Only those of 16 bytes can pass by the first cache.
  std::string text = std::string("cp.async.") + (bytes == 16 ? "cg" : "ca") + ".shared.global [$0], [$1], " + size;
  llvm::SmallVector<Value*, 3> in = {shared_number(ir, shared), from.pointer};
  if (from.predicate) {
    text += ", $2";
    in.push_back(ir.CreateSelect(from.predicate, ir.getInt32(static_cast<uint32_t>(bytes)), ir.getInt32(0)));
  }
  call_asm(ir, ir.getVoidTy(), text + ";", from.predicate ? "r,l,r" : "r,l", in);
}

void CudaTargetInfo::async_commit(Builder& ir) const { call_asm(ir, ir.getVoidTy(), "cp.async.commit_group;", "", {}); }

void CudaTargetInfo::async_wait(Builder& ir, int groups) const {
  call_asm(ir, ir.getVoidTy(), "cp.async.wait_group " + std::to_string(groups) + ";", "", {});
}

}  // namespace kiln::codegen::nvptx
