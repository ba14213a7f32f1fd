// Shows the line that a compiler's message speaks of: who compiles for others reads no files of theirs.
#pragma once

#include <string>

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// A message of one line that begins with a place in one of the kernel's files, as diagnostic() has it where the file
// can be read. Any other message stays as it is.
std::string with_source_line(const Kernel& kernel, const std::string& message);

}  // namespace kiln::dsl
