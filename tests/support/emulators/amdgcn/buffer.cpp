// Buffer resources; see buffer.h.
#include "buffer.h"

namespace kiln::amdgcn_emulator {

BufferResource buffer_resource(const Wave& wave, unsigned first) {
  const uint32_t* word = &wave.sgpr[first];
  BufferResource buffer;
  buffer.base = word[0] | uint64_t{word[1] & 0xffff} << 32;
  buffer.stride = word[1] >> 16 & 0x3fff;
  buffer.records = word[2];
  if (wave.processor->generation == Generation::kGfx9) {
    buffer.swizzled = word[1] >> 31;
    buffer.element_bytes = 2u << (word[3] >> 19 & 3);
    buffer.add_lane = word[3] >> 23 & 1;
  } else {
    buffer.swizzled = word[1] >> 30 & 3;
    buffer.element_bytes = wave.processor->generation >= Generation::kGfx11 && word[1] >> 30 == 2 ? 8 : 4;
    if (wave.processor->generation >= Generation::kGfx11 && word[1] >> 30 == 3) buffer.element_bytes = 16;
    buffer.add_lane = word[3] >> 23 & 1;
    buffer.bounds = word[3] >> 28 & 3;
  }
  buffer.index_stride = 8u << (word[3] >> 21 & 3);
  return buffer;
}

}  // namespace kiln::amdgcn_emulator
