// LLVM's disassembler; see disassembler.h.
#include "disassembler.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrAnalysis.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>

#include <mutex>

extern "C" {
void LLVMInitializeAMDGPUTargetInfo();
void LLVMInitializeAMDGPUTargetMC();
void LLVMInitializeAMDGPUDisassembler();
}

namespace kiln::amdgcn_emulator {

struct Disassembler::State {
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  llvm::MCTargetOptions options;
  std::unique_ptr<llvm::MCAsmInfo> assembly;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCInstrAnalysis> analysis;  // remembers s_set_vgpr_msb, for the printer
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget;
  std::unique_ptr<llvm::MCContext> context;
  std::unique_ptr<llvm::MCDisassembler> disassembler;
  std::unique_ptr<llvm::MCInstPrinter> printer;
};

Disassembler::Disassembler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Disassembler::~Disassembler() = default;
Disassembler::Disassembler(Disassembler&&) noexcept = default;

Result<Disassembler> Disassembler::create(const std::string& processor, bool wave64) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
  });
  const llvm::Triple triple("amdgcn-amd-amdhsa");
  std::string message;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target) return internal_error("amdgcn emulator: " + message);
  auto state = std::make_unique<State>();
  state->registers.reset(target->createMCRegInfo(triple));
  state->assembly.reset(target->createMCAsmInfo(*state->registers, triple, state->options));
  state->instructions.reset(target->createMCInstrInfo());
  // Disassembly of RDNA's code depends on the wave's size: masks are one register or two.
  state->subtarget.reset(target->createMCSubtargetInfo(triple, processor, wave64 ? "" : "+wavefrontsize32"));
  state->context =
      std::make_unique<llvm::MCContext>(triple, state->assembly.get(), state->registers.get(), state->subtarget.get());
  state->disassembler.reset(target->createMCDisassembler(*state->subtarget, *state->context));
  state->printer.reset(
      target->createMCInstPrinter(llvm::Triple(triple), 0, *state->assembly, *state->instructions, *state->registers));
  if (!state->disassembler || !state->printer)
    return internal_error("amdgcn emulator: LLVM has no disassembler for " + processor);
  state->analysis.reset(target->createMCInstrAnalysis(state->instructions.get()));
  state->printer->setMCInstrAnalysis(state->analysis.get());
  return Disassembler(std::move(state));
}

Disassembler::Printed Disassembler::print(std::span<const uint8_t> bytes, uint64_t address) {
  llvm::MCInst instruction;
  uint64_t size = 0;
  auto status =
      state_->disassembler->getInstruction(instruction, size, {bytes.data(), bytes.size()}, address, llvm::nulls());
  if (status == llvm::MCDisassembler::Fail || size == 0) return {};
  Printed result;
  result.bytes = static_cast<unsigned>(size);
  llvm::raw_string_ostream out(result.text);
  state_->printer->printInst(&instruction, address, "", *state_->subtarget, out);
  state_->analysis->updateState(instruction, address);
  result.text = llvm::StringRef(result.text).trim().str();
  return result;
}

}  // namespace kiln::amdgcn_emulator
