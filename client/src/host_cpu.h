// Whether this machine runs code compiled for some CPU.
#pragma once

#include "kiln/abi/metadata.h"

namespace kiln::client {

// `needs` of an artifact (docs/reference/artifact.md): the architecture, and features by LLVM's names. The error names
// the first that is missing here. Features that this library does not know of are taken to be there.
Result<void> check_host(const abi::Metadata::Needs& needs);

}  // namespace kiln::client
