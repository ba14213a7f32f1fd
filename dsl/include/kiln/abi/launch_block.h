// The parameters of a kernel as they lie in memory (docs/reference/artifact.md, "The parameters of a kernel"): the
// arguments, of CPUs and GPUs alike, and behind them what a GPU's kernel is given besides. Their order is decided here
// alone: the compiler declares a kernel's parameters by it, the client fills the block by it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::abi {

struct ParamSlot {
  uint32_t offset = 0;
  uint32_t size = 0;
};
struct ParamLayout {
  std::vector<ParamSlot> slots;  // one a parameter
  uint32_t bytes = 0;            // end of the last one
};
// In order, each at its natural alignment; i1 is a byte, pointers are 8.
ParamLayout lay_out_params(const dsl::Kernel& kernel);

// What every driver takes as parameters of one kernel.
inline constexpr uint32_t kMaxBlockBytes = 4096;

inline constexpr uint32_t kTensorMapBytes = 128, kTensorMapAlignment = 64;
inline constexpr size_t kMaxTensorRank = 5;

// What stands behind the arguments, in this order.
enum class LaunchField : uint8_t {
  kWorkspace,   // a pointer
  kTensorMaps,  // one or more, kTensorMapBytes each
  kFailure,     // a pointer to the failure record (failure_record.h)
  kExtents,     // i64, of each pointer parameter: the elements behind it
  kPrint,       // a pointer to the ring (print_ring.h), or null
  kPrograms,    // i64: how many programs there are along the first axis, where blocks have several
  kGrid,        // u32 × 3: the extents of the grid of programs, of persistent blocks
  kQueue,       // a pointer to the counter that persistent blocks share
};
inline constexpr size_t kLaunchFields = 8;

// How many of each field a kernel has; none of most.
class LaunchCounts {
 public:
  constexpr uint32_t& operator[](LaunchField field) { return counts_[static_cast<size_t>(field)]; }
  constexpr uint32_t operator[](LaunchField field) const { return counts_[static_cast<size_t>(field)]; }

 private:
  std::array<uint32_t, kLaunchFields> counts_ = {};
};

struct LaunchParam {
  LaunchField field = LaunchField::kWorkspace;
  uint32_t index = 0;  // of several of a field
  ParamSlot slot;
};

struct LaunchBlock {
  std::vector<LaunchParam> tail;  // each a parameter of the kernel, in order
  uint32_t bytes = 0;             // of all of it

  // Where the first of a field is.
  std::optional<uint32_t> offset(LaunchField field) const;
};

// `params_bytes`: end of the last argument.
LaunchBlock lay_out_launch_block(uint32_t params_bytes, const LaunchCounts& counts);

// How many pointer parameters there are: so many are kExtents.
uint32_t pointer_count(const dsl::Kernel& kernel);

// Fields of an artifact's metadata that say where a field of the block is, as far as there are any.
struct LaunchFieldName {
  LaunchField field;
  const char* name;
};
inline constexpr LaunchFieldName kLaunchFieldNames[] = {
    {LaunchField::kFailure, "failure_param"}, {LaunchField::kExtents, "extents_param"},
    {LaunchField::kPrint, "print_param"},     {LaunchField::kPrograms, "programs_param"},
    {LaunchField::kGrid, "grid_param"},       {LaunchField::kQueue, "queue_param"},
};

}  // namespace kiln::abi
