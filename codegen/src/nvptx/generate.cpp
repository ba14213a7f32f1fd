#include "nvptx/generate.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "emit.h"
#include "gpu/supported.h"
#include "nvptx/inline_division.h"
#include "nvptx/occupancy.h"
#include "nvptx/target_info.h"

namespace kiln::codegen::nvptx {
namespace {

Result<std::string> emit_ptx(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    return internal_error("LLVM's NVPTX target cannot emit assembly");
  }
  passes.run(module);
  return std::string(buffer.begin(), buffer.end());
}

// Again with fewer registers, where too few blocks would be at work to hide how far memory is. Two blocks instead of
// one are worth a few spilled bytes.
Result<std::optional<Assembled>> assemble_for_memory(const std::string& ptx, const std::string& processor,
                                                     bool line_tables, int threads) {
  constexpr int64_t kFewBytes = 32;
  auto first = assemble(ptx, processor, line_tables);
  if (!first || !*first) return first;
  int64_t spent = (*first)->resources.assembler_us;
  for (int blocks : worthwhile_blocks((*first)->resources, threads)) {
    auto again = assemble(with_blocks(ptx, blocks), processor, line_tables);
    if (!again || !*again) return again;
    spent += (*again)->resources.assembler_us;
    (*again)->resources.assembler_us = spent;
    if ((*again)->resources.spill_store_bytes <= (blocks == 2 ? kFewBytes : 0)) return again;
  }
  (*first)->resources.assembler_us = spent;
  return first;
}

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

}  // namespace

Result<Generated> generate(const dsl::Kernel& kernel, const CudaTarget& target, const dsl::ConstexprValues& config,
                           const std::string& emit, const std::function<void(std::string_view)>& begin) {
  if (auto fine = gpu::check_supported(kernel, target.processor); !fine) return fine.error();
  begin("lower");
  llvm::LLVMContext context;
  llvm::Module module("kiln", context);
  module.setTargetTriple(target.machine->getTargetTriple().str());
  module.setDataLayout(target.machine->createDataLayout());
  const CudaTargetInfo info(target);
  const gpu::LaunchShape launch = gpu::launch_shape(kernel, config, info.lanes());
  auto lowered = gpu::lower(kernel, info, launch, target.processor, module);
  if (!lowered) return lowered.error();
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream)) return internal_error("the compiler made invalid LLVM IR: " + message);

  begin("optimise");
  inline_divisions(module, target.capability == 80 || target.capability == 90);
  clean_up(module, *target.machine, Invariants::kHoist);
  Generated out{*lowered, {}, emit, {}};
  if (emit == "llvm") {
    out.code = to_bytes(print_module(module));
    return out;
  }
  begin("codegen");
  auto ptx = emit_ptx(module, *target.machine);
  if (!ptx) return ptx.error();
  if (emit == "cubin") {
    begin("assemble");
    const bool debug = kernel.options.debug;
    auto assembled = gpu::has_products(kernel.body)
                         ? assemble(*ptx, target.processor, debug)
                         : assemble_for_memory(*ptx, target.processor, debug, lowered->threads);
    if (!assembled) return assembled.error();
    if (*assembled) {
      out.code = std::move((*assembled)->cubin);
      out.resources = std::move((*assembled)->resources);
      return out;
    }
  }
  out.emitted = "ptx";
  out.code = to_bytes(*ptx);
  return out;
}

}  // namespace kiln::codegen::nvptx
