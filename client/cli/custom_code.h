// `kiln run --code`: a kernel's code that somebody else wrote (docs/use/custom-kernels.md).
#pragma once

#include <string>

#include "commands.h"
#include "kiln/client/client.h"

namespace kiln::cli {

// The function of flags.code for a kernel without ops, which declares it. By the file's name: LLVM IR (.ll), PTX
// (.ptx), assembly of AMD's GPUs (.s), or a shared object (.so), which the daemon has no part in.
Result<client::UntypedFunction> get_code(client::Client& client, const dsl::Kernel& declared, const RunFlags& flags);

}  // namespace kiln::cli
