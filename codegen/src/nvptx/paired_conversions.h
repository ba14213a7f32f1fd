// Conversions to f8 two at a time, as the instruction makes them, where four become a word: else each is made alone,
// and the bytes are put together.
//
// before                                              after
//   %a = cvt.rn.satfinite.e4m3x2.f32 0, %x              %w = { cvt.rn.satfinite.e4m3x2.f32 low, %y, %x;
//   %b = cvt.rn.satfinite.e4m3x2.f32 0, %y                     cvt.rn.satfinite.e4m3x2.f32 high, %v, %u;
//   …                                                          mov.b32 %w, {low, high}; }
//   %w = bitcast <4 x i8> (trunc %a, trunc %b, …)
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::nvptx {

void pair_conversions(llvm::Function& function);

}  // namespace kiln::codegen::nvptx
