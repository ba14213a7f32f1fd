// LDS: loads, stores, atomics, and the exchanges between lanes that use its crossbar.
#include <algorithm>
#include <bit>

#include "atomic_operations.h"
#include "buffer.h"
#include "semantics.h"
#include "vector_memory.h"

namespace kiln::amdgcn_emulator {
namespace {

std::byte* find(Wave& wave, uint64_t address, size_t bytes, unsigned lane) {
  std::vector<std::byte>& lds = wave.group->lds;
  if (address + bytes <= lds.size()) return lds.data() + address;
  wave.fail(out_of_bounds("LDS access", address, bytes) + " in lane " + std::to_string(lane));
  return nullptr;
}

// Addresses have 32 bits: an offset may lead a negative base back into LDS.
uint32_t address_of(const Wave& wave, const Operand& operand, unsigned lane, uint32_t offset) {
  return wave.vgpr[operand.index][lane] + offset;
}

// Whether `bytes` at every active lane's address lie inside: then no lane needs a look of its own.
bool all_inside(const Wave& wave, const Row& addresses, uint32_t offset, unsigned bytes) {
  uint32_t highest = 0;
  for_each_active(wave, [&](unsigned lane) { highest = std::max(highest, addresses[lane] + offset); });
  return uint64_t{highest} + bytes <= wave.group->lds.size();
}

template <class F>
void for_each_lane(const Wave& wave, F operation) {
  for (uint64_t mask = wave.exec(); mask && wave.fault.empty(); mask &= mask - 1)
    operation(static_cast<unsigned>(std::countr_zero(mask)));
}

enum class Half : uint8_t { kNone, kLow, kHigh };

// One lane's dwords at an address, from or to consecutive registers.
void read(Wave& wave, uint64_t address, unsigned bytes, unsigned first, unsigned lane) {
  const std::byte* at = find(wave, address, bytes, lane);
  if (!at) return;
  for (unsigned dword = 0; dword < bytes / 4; ++dword) std::memcpy(&wave.vgpr[first + dword][lane], at + 4 * dword, 4);
}

void write(Wave& wave, uint64_t address, unsigned bytes, unsigned first, unsigned lane) {
  std::byte* at = find(wave, address, bytes, lane);
  if (!at) return;
  for (unsigned dword = 0; dword < bytes / 4; ++dword) std::memcpy(at + 4 * dword, &wave.vgpr[first + dword][lane], 4);
}

template <unsigned Bytes>
void load(Wave& wave, const Instruction& i) {
  const Row addresses = wave.vgpr[i.operands[1].index];
  const auto offset = static_cast<uint32_t>(i.offset);
  if (all_inside(wave, addresses, offset, Bytes)) [[likely]]
    return load_dwords<Bytes / 4>(wave, i.operands[0].index,
                                  [&](unsigned lane) { return wave.group->lds.data() + (addresses[lane] + offset); });
  for_each_lane(wave, [&](unsigned lane) {
    read(wave, address_of(wave, i.operands[1], lane, static_cast<uint32_t>(i.offset)), Bytes, i.operands[0].index,
         lane);
  });
}

template <unsigned Bytes>
void store(Wave& wave, const Instruction& i) {
  const Row& addresses = wave.vgpr[i.operands[0].index];
  const auto offset = static_cast<uint32_t>(i.offset);
  if (all_inside(wave, addresses, offset, Bytes)) [[likely]]
    return store_dwords<Bytes / 4>(wave, i.operands[1].index,
                                   [&](unsigned lane) { return wave.group->lds.data() + (addresses[lane] + offset); });
  for_each_lane(wave, [&](unsigned lane) {
    write(wave, address_of(wave, i.operands[0], lane, static_cast<uint32_t>(i.offset)), Bytes, i.operands[1].index,
          lane);
  });
}

template <class V, Half H>
void load_small(Wave& wave, const Instruction& i) {
  for_each_lane(wave, [&](unsigned lane) {
    const std::byte* at =
        find(wave, address_of(wave, i.operands[1], lane, static_cast<uint32_t>(i.offset)), sizeof(V), lane);
    if (!at) return;
    V value;
    std::memcpy(&value, at, sizeof value);
    auto wide = static_cast<uint32_t>(int32_t{value});
    uint32_t& place = wave.vgpr[i.operands[0].index][lane];
    place = H == Half::kNone  ? wide
            : H == Half::kLow ? (place & 0xffff0000) | (wide & 0xffff)
                              : (place & 0xffff) | wide << 16;
  });
}

template <unsigned Bytes, Half H>
void store_small(Wave& wave, const Instruction& i) {
  for_each_lane(wave, [&](unsigned lane) {
    std::byte* at = find(wave, address_of(wave, i.operands[0], lane, static_cast<uint32_t>(i.offset)), Bytes, lane);
    if (!at) return;
    uint32_t value = wave.vgpr[i.operands[1].index][lane] >> (H == Half::kHigh ? 16 : 0);
    std::memcpy(at, &value, Bytes);
  });
}

// Two places, whose offsets count elements (or 64 of them).
template <unsigned Bytes, unsigned Scale>
void load_two(Wave& wave, const Instruction& i) {
  for_each_lane(wave, [&](unsigned lane) {
    uint32_t base = address_of(wave, i.operands[1], lane, 0);
    const unsigned first = i.operands[0].index;
    read(wave, base + i.offset0 * Bytes * Scale, Bytes, first, lane);
    read(wave, base + i.offset1 * Bytes * Scale, Bytes, first + Bytes / 4, lane);
  });
}

template <unsigned Bytes, unsigned Scale>
void store_two(Wave& wave, const Instruction& i) {
  for_each_lane(wave, [&](unsigned lane) {
    uint32_t base = address_of(wave, i.operands[0], lane, 0);
    write(wave, base + i.offset0 * Bytes * Scale, Bytes, i.operands[1].index, lane);
    write(wave, base + i.offset1 * Bytes * Scale, Bytes, i.operands[2].index, lane);
  });
}

// The lane itself is the address.
void load_by_lane(Wave& wave, const Instruction& i) {
  for_each_lane(wave, [&](unsigned lane) {
    uint64_t address = uint64_t{wave.sgpr[kM0] & 0xffff} + static_cast<uint32_t>(i.offset) + 4 * lane;
    read(wave, address, 4, i.operands[0].index, lane);
  });
}

void store_by_lane(Wave& wave, const Instruction& i) {
  for_each_lane(wave, [&](unsigned lane) {
    uint64_t address = uint64_t{wave.sgpr[kM0] & 0xffff} + static_cast<uint32_t>(i.offset) + 4 * lane;
    write(wave, address, 4, i.operands[0].index, lane);
  });
}

void add_moves(Table& table) {
  auto both = [&](const char* old_name, const char* new_name, Execute execute) {
    table[old_name] = table[new_name] = execute;
  };
  both("ds_read_b32", "ds_load_b32", load<4>);
  both("ds_read_b64", "ds_load_b64", load<8>);
  both("ds_read_b96", "ds_load_b96", load<12>);
  both("ds_read_b128", "ds_load_b128", load<16>);
  both("ds_write_b32", "ds_store_b32", store<4>);
  both("ds_write_b64", "ds_store_b64", store<8>);
  both("ds_write_b96", "ds_store_b96", store<12>);
  both("ds_write_b128", "ds_store_b128", store<16>);
  both("ds_read_u8", "ds_load_u8", load_small<uint8_t, Half::kNone>);
  both("ds_read_i8", "ds_load_i8", load_small<int8_t, Half::kNone>);
  both("ds_read_u16", "ds_load_u16", load_small<uint16_t, Half::kNone>);
  both("ds_read_i16", "ds_load_i16", load_small<int16_t, Half::kNone>);
  both("ds_read_u8_d16", "ds_load_u8_d16", load_small<uint8_t, Half::kLow>);
  both("ds_read_i8_d16", "ds_load_i8_d16", load_small<int8_t, Half::kLow>);
  both("ds_read_u16_d16", "ds_load_u16_d16", load_small<uint16_t, Half::kLow>);
  both("ds_read_u8_d16_hi", "ds_load_u8_d16_hi", load_small<uint8_t, Half::kHigh>);
  both("ds_read_i8_d16_hi", "ds_load_i8_d16_hi", load_small<int8_t, Half::kHigh>);
  both("ds_read_u16_d16_hi", "ds_load_u16_d16_hi", load_small<uint16_t, Half::kHigh>);
  both("ds_write_b8", "ds_store_b8", store_small<1, Half::kNone>);
  both("ds_write_b16", "ds_store_b16", store_small<2, Half::kNone>);
  both("ds_write_b8_d16_hi", "ds_store_b8_d16_hi", store_small<1, Half::kHigh>);
  both("ds_write_b16_d16_hi", "ds_store_b16_d16_hi", store_small<2, Half::kHigh>);
  both("ds_read2_b32", "ds_load_2addr_b32", load_two<4, 1>);
  both("ds_read2_b64", "ds_load_2addr_b64", load_two<8, 1>);
  both("ds_read2st64_b32", "ds_load_2addr_stride64_b32", load_two<4, 64>);
  both("ds_read2st64_b64", "ds_load_2addr_stride64_b64", load_two<8, 64>);
  both("ds_write2_b32", "ds_store_2addr_b32", store_two<4, 1>);
  both("ds_write2_b64", "ds_store_2addr_b64", store_two<8, 1>);
  both("ds_write2st64_b32", "ds_store_2addr_stride64_b32", store_two<4, 64>);
  both("ds_write2st64_b64", "ds_store_2addr_stride64_b64", store_two<8, 64>);
  both("ds_read_addtid_b32", "ds_load_addtid_b32", load_by_lane);
  both("ds_write_addtid_b32", "ds_store_addtid_b32", store_by_lane);
}

// Atomics: "ds_add_u32 address, data" or "ds_add_rtn_u32 D, address, data". Compare-and-swap names the compared value
// first (ds_cmpst) or the new one (ds_cmpstore, gfx11).
template <bool Returns, bool ComparedFirst>
void run_atomic(Wave& wave, const Instruction& i) {
  const AtomicForm& form = *i.atomic;
  const unsigned dwords = form.bytes / 4;
  const unsigned address = Returns ? 1 : 0;
  for_each_lane(wave, [&](unsigned lane) {
    const uint32_t place = address_of(wave, i.operands[address], lane, static_cast<uint32_t>(i.offset));
    std::byte* at = is_aligned(wave, place, form.bytes, lane) ? find(wave, place, form.bytes, lane) : nullptr;
    if (!at) return;
    std::array<uint64_t, 2> values{};
    for (unsigned operand = 0; operand < form.operands; ++operand)
      for (unsigned dword = 0; dword < dwords; ++dword)
        values[operand] |= uint64_t{wave.vgpr[i.operands[address + 1 + operand].index + dword][lane]} << (32 * dword);
    if (ComparedFirst) std::swap(values[0], values[1]);
    uint64_t old = form.operation(wave, at, values.data());
    if (Returns)
      for (unsigned dword = 0; dword < dwords; ++dword)
        wave.vgpr[i.operands[0].index + dword][lane] = static_cast<uint32_t>(old >> (32 * dword));
  });
}

// DS atomics by the name of the memory's form: "add_u32" → ds_add_u32, ds_add_rtn_u32.
void add_atomic(Table& table, const std::string& name) {
  size_t type = name.rfind('_');
  if (type == std::string::npos || name.ends_with("_x2")) return;
  auto add = [&](const std::string& stem, bool compared_first) {
    const std::string suffix = name.substr(type);
    table["ds_" + stem + suffix] = compared_first ? run_atomic<false, true> : run_atomic<false, false>;
    table["ds_" + stem + "_rtn" + suffix] = compared_first ? run_atomic<true, true> : run_atomic<true, false>;
  };
  const std::string stem = name.substr(0, type);
  if (stem == "swap") {
    add("wrxchg", false);
    add("storexchg", false);
  } else if (stem == "cmpswap") {
    add("cmpst", true);
    add("cmpstore", false);
  } else {
    add(stem, false);
  }
}

// Two places, each of which takes an operand and leaves what it held.
template <unsigned Bytes, unsigned Scale>
void exchange_two(Wave& wave, const Instruction& i) {
  for_each_lane(wave, [&](unsigned lane) {
    const uint32_t base = address_of(wave, i.operands[1], lane, 0);
    const std::array<uint32_t, 2> places = {base + i.offset0 * Bytes * Scale, base + i.offset1 * Bytes * Scale};
    std::array<std::array<uint32_t, Bytes / 4>, 2> data;
    for (unsigned which : {0u, 1u})
      for (unsigned dword = 0; dword < Bytes / 4; ++dword)
        data[which][dword] = wave.vgpr[i.operands[2 + which].index + dword][lane];
    for (unsigned which : {0u, 1u}) {
      if (!is_aligned(wave, places[which], Bytes, lane)) return;
      read(wave, places[which], Bytes, i.operands[0].index + which * Bytes / 4, lane);
      if (std::byte* at = find(wave, places[which], Bytes, lane)) std::memcpy(at, data[which].data(), Bytes);
    }
  });
}

// A counter that the active lanes raise or lower together; each gets what it held before.
template <bool Raises>
void count_together(Wave& wave, const Instruction& i) {
  const uint64_t address = uint64_t{wave.sgpr[kM0] & 0xffff} + static_cast<uint32_t>(i.offset);
  std::byte* at = is_aligned(wave, address, 4, 0) ? find(wave, address, 4, 0) : nullptr;
  if (!at) return;
  const auto lanes = static_cast<uint32_t>(std::popcount(wave.exec()));
  uint32_t old;
  std::memcpy(&old, at, sizeof old);
  const uint32_t value = Raises ? old + lanes : old - lanes;
  std::memcpy(at, &value, sizeof value);
  for_each_lane(wave, [&](unsigned lane) { wave.vgpr[i.operands[0].index][lane] = old; });
}

void add_exchanges(Table& table) {
  table["ds_wrxchg2_rtn_b32"] = table["ds_storexchg_2addr_rtn_b32"] = exchange_two<4, 1>;
  table["ds_wrxchg2_rtn_b64"] = table["ds_storexchg_2addr_rtn_b64"] = exchange_two<8, 1>;
  table["ds_wrxchg2st64_rtn_b32"] = table["ds_storexchg_2addr_stride64_rtn_b32"] = exchange_two<4, 64>;
  table["ds_wrxchg2st64_rtn_b64"] = table["ds_storexchg_2addr_stride64_rtn_b64"] = exchange_two<8, 64>;
  table["ds_append"] = count_together<true>;
  table["ds_consume"] = count_together<false>;
}

// Exchanges: each lane's source lane (or -1: zero), of the active ones.
template <class F>
void gather(Wave& wave, const Instruction& i, const Operand& data, bool fetch_inactive, F source_of) {
  const Row values = wave.vgpr[data.index];
  const uint64_t exec = wave.exec();
  std::array<uint32_t, kMaxLanes> result{};
  for_each_lane(wave, [&](unsigned lane) {
    unsigned source = source_of(lane) & (wave.lanes - 1);
    result[lane] = fetch_inactive || bit_of(exec, source) ? values[source] : 0;
  });
  for_each_lane(wave, [&](unsigned lane) { wave.vgpr[i.operands[0].index][lane] = result[lane]; });
}

template <bool FetchInactive>
void permute_backward(Wave& wave, const Instruction& i) {
  const Row addresses = wave.vgpr[i.operands[1].index];
  gather(wave, i, i.operands[2], FetchInactive,
         [&](unsigned lane) { return (addresses[lane] + static_cast<uint32_t>(i.offset)) / 4; });
}

// Each lane sends; of several senders the last lane wins, and a lane that nobody sends to gets 0.
void permute_forward(Wave& wave, const Instruction& i) {
  std::array<uint32_t, kMaxLanes> result{};
  for_each_lane(wave, [&](unsigned lane) {
    uint32_t target = (wave.vgpr[i.operands[1].index][lane] + static_cast<uint32_t>(i.offset)) / 4 & (wave.lanes - 1);
    result[target] = wave.vgpr[i.operands[2].index][lane];
  });
  for_each_lane(wave, [&](unsigned lane) { wave.vgpr[i.operands[0].index][lane] = result[lane]; });
}

unsigned swizzled_lane(uint32_t pattern, unsigned lane) {
  unsigned in_group = lane & 31;
  unsigned group = lane & ~31u;
  if (pattern >= 0xc000) {  // rotation; the bits of the mask stay
    unsigned mask = pattern & 31, amount = pattern >> 5 & 31;
    unsigned rotated = pattern >> 10 & 1 ? in_group - amount : in_group + amount;
    return group | (in_group & mask) | (rotated & ~mask & 31);
  }
  if (pattern & 0x8000) return (lane & ~3u) + (pattern >> (2 * (lane & 3)) & 3);
  return group | (((in_group & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
}

void swizzle(Wave& wave, const Instruction& i) {
  uint32_t pattern = i.encoding & 0xffff;
  if (pattern >= 0xe000) return wave.fail("the emulator lacks the FFT mode of ds_swizzle");
  gather(wave, i, i.operands[1], false, [&](unsigned lane) { return swizzled_lane(pattern, lane); });
}

}  // namespace

void add_lds(Table& table) {
  add_moves(table);
  for (const AtomicForm& form : atomic_forms()) add_atomic(table, form.name);
  add_exchanges(table);
  table["ds_bpermute_b32"] = permute_backward<false>;
  table["ds_bpermute_fi_b32"] = permute_backward<true>;
  table["ds_permute_b32"] = permute_forward;
  table["ds_swizzle_b32"] = swizzle;
}

}  // namespace kiln::amdgcn_emulator
