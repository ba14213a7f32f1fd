// From the tile IR to LLVM IR for a GPU: one kernel function, in which a block of threads is a program, or some
// programs.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>

#include "gpu/block/launch_shape.h"
#include "gpu/pipeline/bulk_copy.h"
#include "gpu/placement.h"
#include "gpu/target_info.h"
#include "kiln/abi/launch_block.h"
#include "kiln/dsl/ir.h"
#include "kiln/dsl/result.h"
#include "llvm_pass.h"

namespace kiln::codegen::gpu {

inline constexpr char kEntry[] = "kiln_entry";  // the function of a kernel of one launch

// What a kernel's ops ask of its launches: fields of the launch block.
struct LaunchParams {
  bool failure = false, extents = false, print = false;
};
LaunchParams launch_params(const dsl::Kernel& kernel);
// Whether the engine of bulk_engine.h may copy: tensor maps and these parameters do not come together.
bool allows_bulk(const dsl::Kernel& kernel);

struct Lowered {
  int threads = 0;          // of a block
  int programs = 1;         // of a block, neighbours along the first axis of the grid
  bool persistent = false;  // blocks take one program after another: as many are launched as the device runs at once
  bool queued = false;      // they take them from a queue: a launch gives them a counter
  int cluster = 1;          // blocks that are launched side by side as a cluster
  // Bytes that a launch must give each block; allocated when the kernel is complete.
  int64_t shared_bytes = 0;
  abi::LaunchCounts launch;                    // what the function has behind the kernel's own parameters
  std::shared_ptr<const dsl::Kernel> kernel;   // as it was lowered
  std::vector<const dsl::Op*> checks, prints;  // its ops, which code names by number
  std::vector<TensorMap> tensor_maps;
};

// The passes on a kernel's code that is complete but for shared memory: rows of the compiler's list
// (docs/inside/passes.md).
struct SharedFacts;
std::span<const LlvmPass<SharedFacts>> shared_passes();

// `kernel` is instantiated. `processor` names the target in errors. `entry` is the function's name. In the largest
// shape up to `launch` whose code fits (shape.h).
Result<Lowered> lower(const dsl::Kernel& kernel, const TargetInfo& target, const LaunchShape& launch,
                      const std::string& processor, llvm::Module& module, const std::string& entry = kEntry,
                      const PassObserver& observer = {});

}  // namespace kiln::codegen::gpu
