// Programmatic dependent launch: a kernel that may begin before what the stream ran earlier is done waits for it by
// itself (PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol").
//
// before                                      after
//   entry:                                      entry:
//     %i = tid …                                  %i = tid …
//     asm "mbarrier.init …"                       asm "mbarrier.init …"
//     call @llvm.nvvm.barrier0()                  call @llvm.nvvm.barrier0()
//     asm "ld.global …"                           asm "griddepcontrol.wait;"
//                                                 asm "griddepcontrol.launch_dependents;"
//                                                 asm "ld.global …"
//
// All threads wait, before the first that may touch global memory, and before control flow divides. What comes next in
// the stream may be placed on multiprocessors from then on, as far as there is room beside this kernel's blocks.
//
// Two kinds of modules are launched in order all the same:
// - What `ld.global.nc` reads must not change while its kernel lasts, and a kernel that begins early lasts while others
//   write.
// - On an H200 products by the copy engine (`cp.async.bulk`) that began early, and copied what the launch before had
//   just written, saw old values now and then. No fence helps, neither between the proxies nor of the tensor map.
#pragma once

#include <llvm/IR/Module.h>

namespace kiln::codegen::nvptx {

// Whether the launches of a module may begin while what their stream ran before still runs.
bool may_begin_early(const llvm::Module& module);
void wait_for_earlier_grids(llvm::Function& kernel);

}  // namespace kiln::codegen::nvptx
