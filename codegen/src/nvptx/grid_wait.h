// Programmatic dependent launch: a kernel that may begin before what the stream ran earlier is done waits for it by
// itself (PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol").
//
// before                                      after
//   entry:                                      entry:
//     %i = tid …                                  %i = tid …
//     asm "mbarrier.init …"                       asm "mbarrier.init …"
//     call @llvm.nvvm.barrier0()                  call @llvm.nvvm.barrier0()
//     asm "cp.async.bulk.tensor …"                asm "griddepcontrol.wait;"
//                                                 asm "griddepcontrol.launch_dependents;"
//                                                 asm "cp.async.bulk.tensor …"
//
// All threads wait, before the first that may touch global memory, and before control flow divides. What comes next in
// the stream may be placed on multiprocessors from then on, as far as there is room beside this kernel's blocks.
//
// What `ld.global.nc` reads must not change while its kernel lasts, and a kernel that begins early lasts while others
// write. (On an H200 such loads saw what had been at the address before.) A module with one begins as the stream orders
// and has no wait; it lets others begin all the same.
#pragma once

#include <llvm/IR/Module.h>

namespace kiln::codegen::nvptx {

bool may_begin_early(const llvm::Module& module);
void wait_for_earlier_grids(llvm::Function& kernel);

}  // namespace kiln::codegen::nvptx
