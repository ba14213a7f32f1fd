// Which instructions the dots of small operands use. CPUs claim instructions that are slower than the ways around them,
// so what this machine is best served by is measured, once where the answer can be kept (codegen/worker/kept_target.h);
// a named CPU gets what its features promise. The choice is part of a target's name, because artifacts are kept by it.
#pragma once

#include <llvm/MC/MCSubtargetInfo.h>

#include <string>
#include <string_view>

#include "kiln/dsl/result.h"
#include "target.h"

namespace kiln::codegen {

bool has_vnni(const llvm::MCSubtargetInfo& info);

// What a CPU of these features is taken to do best: tiles or blocks, then vpdpbusd and sdot; bf16 is widened without
// tiles.
DotUnits default_dot_units(const llvm::MCSubtargetInfo& info);

// The defaults changed by ";dot-bf16=widen|vdpbf16ps|amx" and ";dot-i8=widen|vnni|amx", on AArch64 by
// "widen|bfdot|bfmmla" and "widen|sdot|smmla". An error where the text is not that, or the CPU lacks the instruction.
Result<DotUnits> parse_dot_units(std::string_view options, const llvm::MCSubtargetInfo& info);

}  // namespace kiln::codegen
