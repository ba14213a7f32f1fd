// CPUs that do not convert f16 hold it as bits. LLVM 19 widened such values by calls of a library where it makes fneg
// and fabs of what flips and clears their sign, and so changes the bits of a NaN.
//
// before                                                  after
//   %v = load half, ptr %x                                  %v = load i16, ptr %x
//   %b = bitcast half %v to i16                             %c = and i16 %v, 32767
//   %c = and i16 %b, 32767                                  store i16 %c, ptr %y
//   %d = bitcast i16 %c to half
//   store half %d, ptr %y
#pragma once

#include <llvm/IR/Module.h>

namespace kiln::codegen::cpu {

void hold_f16_as_bits(llvm::Module& module);

}  // namespace kiln::codegen::cpu
