// Libraries of others: a GPU's driver, NVIDIA's assembler.
#pragma once

#include <string>

#include "kiln/dsl/result.h"

namespace kiln::wire {

// As dlopen() of a path, or of a name that the dynamic linker would look for, but only of a file that nobody else can
// change (kiln/wire/trusted.h), since opening a library executes it. Of a name's files those that are not so are passed
// over; a library that this process has already is taken. It stays open for good.
Result<void*> open_trusted_library(const std::string& library);

}  // namespace kiln::wire
