// Buffer resources (V#) and the addresses that buffer instructions make of them.
#pragma once

#include <optional>

#include "wave.h"

namespace kiln::amdgcn_emulator {

struct BufferResource {
  uint64_t base = 0;
  uint32_t stride = 0;
  uint64_t records = 0;
  bool swizzled = false;
  bool add_lane = false;  // the lane is part of the index
  uint32_t element_bytes = 4;
  uint32_t index_stride = 64;
  uint32_t bounds = 0;  // RDNA's OOB_SELECT
};

BufferResource buffer_resource(const Wave& wave, unsigned first_register);

std::string out_of_bounds(const char* what, uint64_t address, size_t bytes);

}  // namespace kiln::amdgcn_emulator
