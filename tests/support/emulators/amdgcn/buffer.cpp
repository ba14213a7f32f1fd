// Buffer resources; see buffer.h.
#include "buffer.h"

namespace kiln::amdgcn_emulator {

// Of gfx1250: 57 bits of the address, 45 of the number of records, 14 of the stride from bit 108 on.
static BufferResource large_resource(const uint32_t* word) {
  const uint64_t low = word[0] | uint64_t{word[1]} << 32, high = word[2] | uint64_t{word[3]} << 32;
  BufferResource buffer;
  buffer.base = low & ((uint64_t{1} << 57) - 1);
  buffer.records = (low >> 57 | high << 7) & ((uint64_t{1} << 45) - 1);
  buffer.stride = word[3] >> 12 & 0x3fff;
  buffer.bounds = word[3] >> 28 & 3;
  return buffer;
}

BufferResource buffer_resource(const Wave& wave, unsigned first) {
  const uint32_t* word = &wave.sgpr[first];
  BufferResource buffer;
  if (wave.processor->gfx1250) return large_resource(word);
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
