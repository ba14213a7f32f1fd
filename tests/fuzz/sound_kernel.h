// What holds for every kernel that the verifier accepts, wherever it came from.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::fuzz {

// Ends the process where one of these does not hold:
//   print → parse → print gives the same text, and the same canonical bytes;
//   canonicalise keeps the kernel sound, and a second time changes nothing;
//   encode → decode → encode gives the same bytes;
//   instantiating with the defaults gives a sound kernel or an error of the input;
//   a request survives its encoding, with the same key.
void check_sound_kernel(const dsl::Kernel& kernel);

}  // namespace kiln::fuzz
