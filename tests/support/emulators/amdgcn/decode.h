// Decodes the text of a code object, each instruction once: LLVM prints it, and what it prints names the operation, its
// operands and its modifiers.
#pragma once

#include <string>

#include "code_object.h"
#include "kiln/dsl/result.h"

namespace kiln::amdgcn_emulator {

// What is known of a processor by its name.
Processor processor_of(const std::string& name);

// Reads one line of the disassembler: "v_add_f32_e64 v0, -v1, |v2| clamp".
Instruction decode_line(LoadedCode& code, const std::string& line);
// Whether the emulator executes it; what it does not is a fault that names the instruction.
bool is_known(const Instruction& instruction);

Result<void> decode_text(LoadedCode& code, uint64_t bytes, bool wave64);

}  // namespace kiln::amdgcn_emulator
