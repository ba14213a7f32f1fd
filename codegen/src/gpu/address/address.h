// Where the pointers of a tile point, register by register.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

struct Address {
  Value* base = nullptr;
  int64_t offset = 0;  // bytes
  Value* by_thread =
      nullptr;  // bytes behind a base that all threads have alike, i32; null: the base is the thread's own
};
Result<std::vector<Address>> addresses(Context& ctx, ValueId pointers, const Layout& layout);

}  // namespace kiln::codegen::gpu
