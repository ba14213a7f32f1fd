#include "amdgcn/wide_constants.h"

#include <llvm/CodeGen/MachineFunction.h>
#include <llvm/CodeGen/MachineInstr.h>
#include <llvm/CodeGen/TargetInstrInfo.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>

#include <optional>

namespace kiln::codegen::amdgcn {
namespace {

// The target's own header has the numbers, and is not installed.
std::optional<unsigned> opcode_of(const llvm::TargetInstrInfo& instructions, llvm::StringRef name) {
  for (unsigned opcode = 0; opcode < instructions.getNumOpcodes(); ++opcode) {
    if (instructions.getName(opcode) == name) return opcode;
  }
  return std::nullopt;
}

// Whether a literal of 32 bits, extended by zeros or signs alike, is the whole number.
bool fits_in_literal(int64_t number) { return number >= 0 && number <= INT32_MAX; }

class WideConstants : public llvm::MachineFunctionPass {
 public:
  WideConstants() : MachineFunctionPass(kId) {}

  llvm::StringRef getPassName() const override { return "constants of 64 bits in two instructions"; }
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override {
    usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(usage);
  }

  bool runOnMachineFunction(llvm::MachineFunction& function) override {
    const llvm::TargetInstrInfo& instructions = *function.getSubtarget().getInstrInfo();
    if (!move_) {
      move_ = opcode_of(instructions, "S_MOV_B64");
      wide_move_ = opcode_of(instructions, "S_MOV_B64_IMM_PSEUDO");
    }
    bool changed = false;
    for (llvm::MachineBasicBlock& block : function) {
      for (llvm::MachineInstr& instruction : block) {
        if (instruction.getOpcode() != *move_ || !instruction.getOperand(1).isImm()) continue;
        if (fits_in_literal(instruction.getOperand(1).getImm())) continue;
        instruction.setDesc(instructions.get(*wide_move_));
        changed = true;
      }
    }
    return changed;
  }

 private:
  static char kId;

  std::optional<unsigned> move_, wide_move_;
};

char WideConstants::kId = 0;

}  // namespace

llvm::MachineFunctionPass* make_wide_constants_pass() { return new WideConstants; }

}  // namespace kiln::codegen::amdgcn
