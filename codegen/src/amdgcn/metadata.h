// What a code object says of its kernel, by the note that the HSA loader reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "amdgcn/target.h"
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

// Waves of such a kernel, of `threads` to a workgroup, that a SIMD holds at once.
int waves_per_simd(const Resources& resources, const Processor& processor, int threads);

}  // namespace kiln::codegen::amdgcn
