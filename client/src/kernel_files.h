// KILN_KERNEL_FILES=DIR, for profilers and debuggers, which want kernels as they know programs: code with lines of
// source, in files that can be opened. The first such run compiles its kernels anew.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "kiln/client/runtime.h"
#include "kiln/dsl/ir.h"

namespace kiln::client {

// Whether the environment asks for it; read once. A directory that cannot be, or where others may write, is said on the
// standard error, and nothing is kept.
bool keeps_kernel_files();

// The kernel with the option `debug = lines`, unless it has `debug`. The code is that of the kernel without lines.
dsl::Kernel with_lines(const dsl::Kernel& kernel);
// The same of a kernel that no author wrote, as those of graphs: its source is its text, in a file.
dsl::Kernel with_lines_of_text(const dsl::Kernel& kernel);

// Code from its file, DIR/NAME-HASH.so, which is the same one for the same bytes. Null: it cannot be, which is said.
std::shared_ptr<const Module> load_kept(const std::string& name, std::span<const std::byte> code,
                                        const std::string& entry);

}  // namespace kiln::client
