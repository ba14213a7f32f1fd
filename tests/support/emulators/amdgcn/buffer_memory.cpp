// Buffer loads, stores and atomics. Lanes outside of the buffer read 0 and write nothing, dword by dword; what lies
// inside the buffer but outside of the launch's memory is an error.
#include <bit>

#include "atomic_operations.h"
#include "buffer.h"
#include "scalar.h"
#include "vector_memory.h"

namespace kiln::amdgcn_emulator {
namespace {

enum class Half : uint8_t { kNone, kLow, kHigh };

struct LaneAddress {
  uint64_t offset = 0;   // into the resource, without the scalar offset
  uint64_t address = 0;  // of the first byte
  uint32_t index = 0;
  uint64_t in_record = 0;  // offset before swizzling
};

struct Access {
  BufferResource buffer;
  uint64_t scalar_offset = 0;
  const Instruction& instruction;
  unsigned vaddr;
};

Access access_of(const Wave& wave, const Instruction& instruction, unsigned vaddr) {
  // A buffer load to LDS has no data operand, and none for the address either without offen and idxen.
  return {buffer_resource(wave, instruction.operands[vaddr + 1].index),
          uniform_bits(wave, instruction.operands[vaddr + 2], Format::kBits, 32), instruction, vaddr};
}

LaneAddress lane_address(const Wave& wave, const Access& access, unsigned lane) {
  const Instruction& instruction = access.instruction;
  const BufferResource& buffer = access.buffer;
  const unsigned first = instruction.operands[access.vaddr].index;
  LaneAddress result;
  if (instruction.idxen) result.index = wave.vgpr[first][lane];
  uint32_t offset = instruction.offen ? wave.vgpr[first + (instruction.idxen ? 1 : 0)][lane] : 0;
  result.in_record = uint64_t{offset} + static_cast<uint32_t>(instruction.offset);
  uint64_t index = result.index + uint64_t{buffer.add_lane ? lane : 0};
  if (buffer.swizzled) {
    uint64_t index_high = index / buffer.index_stride, index_low = index % buffer.index_stride;
    uint64_t offset_high = result.in_record / buffer.element_bytes,
             offset_low = result.in_record % buffer.element_bytes;
    result.offset = (index_high * buffer.stride + offset_high * buffer.element_bytes) * buffer.index_stride +
                    index_low * buffer.element_bytes + offset_low;
  } else {
    result.offset = index * buffer.stride + result.in_record;
  }
  result.address = buffer.base + access.scalar_offset + result.offset;
  return result;
}

// Whether `bytes` from `at` bytes behind a lane's first one are inside.
bool in_bounds(const Wave& wave, const Access& access, const LaneAddress& lane, uint64_t at, unsigned bytes) {
  const BufferResource& buffer = access.buffer;
  uint64_t offset = lane.in_record + at;
  if (wave.processor->generation == Generation::kGfx9) {
    // Raw: the whole offset against the size in bytes. Structured: the record's number and the place in it.
    if (buffer.stride == 0) return access.scalar_offset + lane.offset + at + bytes <= buffer.records;
    return lane.index < buffer.records && offset + bytes <= buffer.stride;
  }
  switch (buffer.bounds) {
    case 0:  // structured
      return lane.index < buffer.records && (buffer.stride == 0 || offset + bytes <= buffer.stride);
    case 1:
      return lane.index < buffer.records;
    case 2:
      return buffer.records != 0;
    default:  // raw
      return offset + bytes <= buffer.records;
  }
}

// The addresses of the active lanes, if all of an access lies inside of the buffer and in one range of memory: dwords
// that are swizzled stand apart.
bool all_inside(Wave& wave, const Access& access, unsigned bytes, bool write, Addresses& addresses) {
  if (access.buffer.swizzled) return false;
  bool inside = true;
  for_each_active(wave, [&](unsigned lane) {
    const LaneAddress address = lane_address(wave, access, lane);
    addresses[lane] = address.address;
    inside = inside && in_bounds(wave, access, address, 0, bytes);
  });
  return inside && in_one_range(wave, addresses, bytes, write);
}

std::byte* find(Wave& wave, uint64_t address, size_t bytes, bool write, unsigned lane) {
  std::byte* at = wave.memory->find(address, bytes, write);
  if (!at)
    wave.fail(out_of_bounds(write ? "buffer store" : "buffer load", address, bytes) + " in lane " +
              std::to_string(lane));
  return at;
}

uint32_t extended(uint32_t value, unsigned bytes, bool sign) {
  if (!sign) return value;
  return static_cast<uint32_t>(bytes == 1 ? static_cast<int8_t>(value) : static_cast<int16_t>(value));
}

// `L`: to LDS; by the name of the instruction, or by a bit of it.
template <unsigned Bytes, bool Sign, Half H, bool L = false>
void load(Wave& wave, const Instruction& instruction) {
  const bool to_lds = instruction.to_lds || L;
  // "v1, v2, s[0:3], s4": data, address, resource, offset; to LDS without data.
  const unsigned vaddr = to_lds ? 0 : 1;
  Access access = access_of(wave, instruction, vaddr);
  if constexpr (Bytes >= 4 && !L) {
    Addresses addresses;
    if (!to_lds && all_inside(wave, access, Bytes, false, addresses)) [[likely]]
      return load_dwords<Bytes / 4>(wave, instruction.operands[0].index,
                                    [&](unsigned lane) { return reinterpret_cast<std::byte*>(addresses[lane]); });
  }
  for (uint64_t mask = wave.exec(); mask; mask &= mask - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    LaneAddress address = lane_address(wave, access, lane);
    for (unsigned dword = 0; dword < (Bytes + 3) / 4; ++dword) {
      constexpr unsigned size = Bytes < 4 ? Bytes : 4;
      uint32_t value = 0;
      if (in_bounds(wave, access, address, 4 * dword, size)) {
        const std::byte* at = find(wave, address.address + 4 * dword, size, false, lane);
        if (!at) return;
        std::memcpy(&value, at, size);
      }
      value = extended(value, Bytes, Sign);
      if (to_lds) {
        uint64_t target = uint64_t{wave.sgpr[kM0] & 0xffff} + static_cast<uint32_t>(instruction.offset) + lane * 4;
        if (target + 4 > wave.group->lds.size()) return wave.fail(out_of_bounds("LDS", target, 4));
        std::memcpy(wave.group->lds.data() + target, &value, 4);
        continue;
      }
      uint32_t& place = wave.vgpr[instruction.operands[0].index + dword][lane];
      if (H == Half::kLow) value = (place & 0xffff0000) | (value & 0xffff);
      if (H == Half::kHigh) value = (place & 0xffff) | value << 16;
      place = value;
    }
  }
}

template <unsigned Bytes, Half H>
void store(Wave& wave, const Instruction& instruction) {
  Access access = access_of(wave, instruction, 1);
  if constexpr (Bytes >= 4) {
    Addresses addresses;
    if (all_inside(wave, access, Bytes, true, addresses)) [[likely]]
      return store_dwords<Bytes / 4>(wave, instruction.operands[0].index,
                                     [&](unsigned lane) { return reinterpret_cast<std::byte*>(addresses[lane]); });
  }
  for (uint64_t mask = wave.exec(); mask; mask &= mask - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    LaneAddress address = lane_address(wave, access, lane);
    for (unsigned dword = 0; dword < (Bytes + 3) / 4; ++dword) {
      constexpr unsigned size = Bytes < 4 ? Bytes : 4;
      if (!in_bounds(wave, access, address, 4 * dword, size)) continue;
      uint32_t value = wave.vgpr[instruction.operands[0].index + dword][lane];
      if (H == Half::kHigh) value >>= 16;
      std::byte* at = find(wave, address.address + 4 * dword, size, true, lane);
      if (!at) return;
      std::memcpy(at, &value, size);
    }
  }
}

void run_atomic(Wave& wave, const Instruction& instruction) {
  const AtomicForm& form = *instruction.atomic;
  const unsigned dwords = form.bytes / 4;
  const Operand& data = instruction.operands[0];
  Access access = access_of(wave, instruction, 1);
  for (uint64_t mask = wave.exec(); mask; mask &= mask - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    LaneAddress address = lane_address(wave, access, lane);
    std::array<uint64_t, 2> values{};
    for (unsigned i = 0; i < form.operands; ++i)
      for (unsigned dword = 0; dword < dwords; ++dword)
        values[i] |= uint64_t{wave.vgpr[data.index + i * dwords + dword][lane]} << (32 * dword);
    uint64_t old = 0;
    if (in_bounds(wave, access, address, 0, form.bytes)) {
      if (!is_aligned(wave, address.address, form.bytes, lane)) return;
      std::byte* at = find(wave, address.address, form.bytes, true, lane);
      if (!at) return;
      old = form.operation(wave, at, values.data());
    }
    if (!instruction.returns) continue;
    for (unsigned dword = 0; dword < dwords; ++dword)
      wave.vgpr[data.index + dword][lane] = static_cast<uint32_t>(old >> (32 * dword));
  }
}

template <unsigned Bytes, bool Sign = false, Half H = Half::kNone>
void add(Table& table, std::initializer_list<const char*> loads, std::initializer_list<const char*> stores) {
  for (std::string name : loads) table["buffer_load_" + name] = load<Bytes, Sign, H>;
  for (std::string name : stores) table["buffer_store_" + name] = store<Bytes, H>;
}

}  // namespace

void add_buffer_memory(Table& table) {
  add<4>(table, {"dword", "b32"}, {"dword", "b32"});
  add<8>(table, {"dwordx2", "b64"}, {"dwordx2", "b64"});
  add<12>(table, {"dwordx3", "b96"}, {"dwordx3", "b96"});
  add<16>(table, {"dwordx4", "b128"}, {"dwordx4", "b128"});
  add<1>(table, {"ubyte", "u8"}, {"byte", "b8"});
  add<2>(table, {"ushort", "u16"}, {"short", "b16"});
  add<1, true>(table, {"sbyte", "i8"}, {});
  add<2, true>(table, {"sshort", "i16"}, {});
  add<1, false, Half::kLow>(table, {"ubyte_d16", "d16_u8"}, {});
  add<1, true, Half::kLow>(table, {"sbyte_d16", "d16_i8"}, {});
  add<2, false, Half::kLow>(table, {"short_d16", "d16_b16"}, {});
  add<1, false, Half::kHigh>(table, {"ubyte_d16_hi", "d16_hi_u8"}, {"byte_d16_hi", "d16_hi_b8"});
  add<1, true, Half::kHigh>(table, {"sbyte_d16_hi", "d16_hi_i8"}, {});
  add<2, false, Half::kHigh>(table, {"short_d16_hi", "d16_hi_b16"}, {"short_d16_hi", "d16_hi_b16"});
  table["buffer_load_lds_b32"] = load<4, false, Half::kNone, true>;
  table["buffer_load_lds_u8"] = load<1, false, Half::kNone, true>;
  table["buffer_load_lds_i8"] = load<1, true, Half::kNone, true>;
  table["buffer_load_lds_u16"] = load<2, false, Half::kNone, true>;
  table["buffer_load_lds_i16"] = load<2, true, Half::kNone, true>;
  for (const AtomicForm& form : atomic_forms()) table[std::string("buffer_atomic_") + form.name] = run_atomic;
}

}  // namespace kiln::amdgcn_emulator
