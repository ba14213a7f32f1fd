// What a code object says of its kernel, by the note that the HSA loader reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "amdgcn/target.h"
#include "kiln/abi/metadata.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::amdgcn {

struct Resources {
  int registers = 0;              // vector registers of a lane, with accumulators where they are the same
  int accumulator_registers = 0;  // of them, or beside them
  int scalar_registers = 0;       // of a wave
  int64_t lds_bytes = 0;          // of a workgroup
  int64_t scratch_bytes = 0;      // of a lane
  int vector_spills = 0, scalar_spills = 0;
  bool operator==(const Resources&) const = default;
};

// Of the code object's only kernel; of several, the steps of a sequence, the most.
Result<Resources> read_resources(std::span<const std::byte> code_object);

// One of the arguments that a kernel's caller gives.
struct NotedArgument {
  int64_t offset = 0, bytes = 0;
};
// Those of the kernel of this name. Error: there is none.
Result<std::vector<NotedArgument>> read_arguments(std::span<const std::byte> code_object, std::string_view kernel);

// Waves of such a kernel, of `threads` to a workgroup, that a SIMD holds at once.
int waves_per_simd(const Resources& resources, const Processor& processor, int threads);

// Adds what a kernel takes to what is known of its launches, `threads` among it.
void describe(const Resources& resources, const Processor& processor, abi::Device& device);

}  // namespace kiln::codegen::amdgcn
