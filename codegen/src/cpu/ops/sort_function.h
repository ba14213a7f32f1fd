// The functions that sort rows of records, see sort_records.h.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

// Bytes that the function needs beside its rows.
int64_t sort_counts_bytes(int key_bytes);

// void (ptr keys, ptr spare_keys, ptr indices, ptr spare_indices, ptr counts, i64 count): the records by key, equal
// ones in the order in which they stand. Keys are i64; those of up to 4 bytes are the upper half of one, indices the
// lower, and there are no indices apart. Rows may be read and written up to a vector behind their end.
llvm::Function* sort_function(Context& ctx, int key_bytes);

}  // namespace kiln::codegen::cpu
