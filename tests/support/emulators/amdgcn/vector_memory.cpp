// Flat, global and scratch loads and stores.
//
// A lane's address is a 64-bit VGPR pair, or an SGPR pair plus a 32-bit VGPR, which has a sign on gfx1250 and may count
// elements there; flat addresses in an aperture name LDS or private memory. Private memory is interleaved by dwords
// over the lanes, so accesses go dword by dword.
#include "vector_memory.h"

#include "buffer.h"
#include "scalar.h"
#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

enum class Space : uint8_t { kFlat, kGlobal, kScratch };

// Where a value of less than a dword goes in its register.
enum class Extension : uint8_t { kNone, kLowHalf, kHighHalf };

Addresses addresses_of(const Wave& wave, const Instruction& instruction, Space space, unsigned vaddr, unsigned saddr,
                       unsigned bytes) {
  const Operand& vector = instruction.operands[vaddr];
  const Operand& scalar = instruction.operands[saddr];
  const bool has_scalar =
      saddr < instruction.operand_count && scalar.kind == OperandKind::kScalar && scalar.index != kNull;
  uint64_t base = static_cast<uint64_t>(int64_t{instruction.offset});
  if (has_scalar) base += space == Space::kScratch ? wave.sgpr[scalar.index] : wave.scalar64(scalar.index);
  Addresses addresses;
  addresses.fill(base);
  const bool is_signed = wave.processor->gfx1250 && has_scalar && space != Space::kScratch;
  const uint64_t scale = instruction.scale_offset ? bytes : 1;
  if (vector.kind == OperandKind::kVgpr)
    for (unsigned lane = 0; lane < kMaxLanes; ++lane) {
      const uint32_t offset = wave.vgpr[vector.index][lane];
      const int64_t extended = is_signed ? int64_t{static_cast<int32_t>(offset)} : int64_t{offset};
      addresses[lane] += static_cast<uint64_t>(extended) * scale;
    }
  if (vector.kind == OperandKind::kVgpr && vector.dwords == 2)
    for (unsigned lane = 0; lane < kMaxLanes; ++lane)
      addresses[lane] += uint64_t{wave.vgpr[vector.index + 1][lane]} << 32;
  return addresses;
}

// LDS and private memory by flat addresses, and what is nowhere.
bool access_aperture(Wave& wave, Space space, uint64_t address, unsigned lane, std::byte* data, size_t bytes,
                     bool write) {
  if (wave.processor->gfx1250 && space == Space::kFlat) {
    // An address in private memory says whose it is.
    constexpr unsigned kLaneShift = 52;
    if (address >> kLaneShift) lane = static_cast<unsigned>(address >> kLaneShift) % wave.lanes;
    address &= (uint64_t{1} << kLaneShift) - 1;
  }
  const uint64_t aperture = address & kApertureMask;
  const uint64_t offset = address & 0xffffffff;
  if (space == Space::kScratch || (space == Space::kFlat && aperture == kPrivateBase)) {
    if (private_access(wave, lane, offset, data, bytes, write)) return true;
    wave.fail(out_of_bounds("private memory", offset, bytes) + " in lane " + std::to_string(lane));
    return false;
  }
  if (space == Space::kFlat && aperture == kSharedBase && offset + bytes <= wave.group->lds.size()) {
    std::byte* at = wave.group->lds.data() + offset;
    std::memcpy(write ? at : data, write ? data : at, bytes);
    return true;
  }
  wave.fail(out_of_bounds(write ? "store" : "load", address, bytes) + " in lane " + std::to_string(lane));
  return false;
}

// One lane's access, wherever the address leads.
template <Space S, unsigned Bytes, bool Write>
bool access(Wave& wave, uint64_t address, unsigned lane, std::byte* data) {
  if constexpr (S != Space::kScratch)
    if (std::byte* at = wave.memory->find(address, Bytes, Write)) [[likely]] {
      std::memcpy(Write ? at : data, Write ? data : at, Bytes);
      return true;
    }
  return access_aperture(wave, S, address, lane, data, Bytes, Write);
}

template <unsigned Bytes, bool Sign>
uint32_t extended(uint32_t value) {
  if (!Sign) return value;
  return static_cast<uint32_t>(Bytes == 1 ? static_cast<int8_t>(value) : static_cast<int16_t>(value));
}

template <Space S, unsigned Bytes, Extension E, bool Sign>
void load(Wave& wave, const Instruction& instruction) {
  const Operand& destination = instruction.operands[0];
  const Addresses addresses = addresses_of(wave, instruction, S, 1, 2, Bytes);
  if constexpr (S != Space::kScratch && Bytes >= 4) {
    if (in_one_range(wave, addresses, Bytes, false)) [[likely]]
      return load_dwords<Bytes / 4>(wave, destination.index,
                                    [&](unsigned lane) { return reinterpret_cast<std::byte*>(addresses[lane]); });
  }
  for (uint64_t mask = wave.exec(); mask; mask &= mask - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    std::array<uint32_t, (Bytes + 3) / 4> data{};
    if (!access<S, Bytes, false>(wave, addresses[lane], lane, reinterpret_cast<std::byte*>(data.data()))) return;
    for (unsigned dword = 0; dword < data.size(); ++dword) {
      uint32_t value = extended<Bytes, Sign>(data[dword]);
      uint32_t& place = wave.vgpr[destination.index + dword][lane];
      if (E == Extension::kLowHalf) value = (place & 0xffff0000) | (value & 0xffff);
      if (E == Extension::kHighHalf) value = (place & 0xffff) | value << 16;
      place = value;
    }
  }
}

template <Space S, unsigned Bytes, Extension E>
void store(Wave& wave, const Instruction& instruction) {
  const Operand& source = instruction.operands[1];
  const Addresses addresses = addresses_of(wave, instruction, S, 0, 2, Bytes);
  if constexpr (S != Space::kScratch && Bytes >= 4) {
    if (in_one_range(wave, addresses, Bytes, true)) [[likely]]
      return store_dwords<Bytes / 4>(wave, source.index,
                                     [&](unsigned lane) { return reinterpret_cast<std::byte*>(addresses[lane]); });
  }
  for (uint64_t mask = wave.exec(); mask; mask &= mask - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    std::array<uint32_t, (Bytes + 3) / 4> data;
    for (unsigned dword = 0; dword < data.size(); ++dword) data[dword] = wave.vgpr[source.index + dword][lane];
    if (E == Extension::kHighHalf) data[0] >>= 16;
    if (!access<S, Bytes, true>(wave, addresses[lane], lane, reinterpret_cast<std::byte*>(data.data()))) return;
  }
}

// Of the lane-th dword behind an SGPR pair; the lane itself is the address.
Addresses addresses_by_lane(const Wave& wave, const Instruction& instruction) {
  const Operand& scalar = instruction.operands[1];
  uint64_t base = static_cast<uint64_t>(int64_t{instruction.offset});
  if (scalar.kind == OperandKind::kScalar && scalar.index != kNull) base += wave.scalar64(scalar.index);
  Addresses addresses;
  for (unsigned lane = 0; lane < kMaxLanes; ++lane) addresses[lane] = base + 4 * lane;
  return addresses;
}

template <bool Write>
void access_by_lane(Wave& wave, const Instruction& instruction) {
  const Addresses addresses = addresses_by_lane(wave, instruction);
  for (uint64_t mask = wave.exec(); mask; mask &= mask - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    auto* data = reinterpret_cast<std::byte*>(&wave.vgpr[instruction.operands[0].index][lane]);
    if (!access<Space::kGlobal, 4, Write>(wave, addresses[lane], lane, data)) return;
  }
}

// *_load_lds_*: every lane's data goes to LDS at M0 + offset + lane * 4.
template <Space S, unsigned Bytes, bool Sign>
void load_to_lds(Wave& wave, const Instruction& instruction) {
  const Addresses addresses = addresses_of(wave, instruction, S, 0, 1, Bytes);
  for (uint64_t mask = wave.exec(); mask; mask &= mask - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    uint32_t data = 0;
    if (!access<S, Bytes, false>(wave, addresses[lane], lane, reinterpret_cast<std::byte*>(&data))) return;
    data = extended<Bytes, Sign>(data);
    uint64_t target = uint64_t{wave.sgpr[kM0] & 0xffff} + static_cast<uint64_t>(int64_t{instruction.offset}) + lane * 4;
    if (target + 4 > wave.group->lds.size()) return wave.fail(out_of_bounds("LDS access", target, 4));
    std::memcpy(wave.group->lds.data() + target, &data, 4);
  }
}

template <Space S, unsigned Bytes, Extension E = Extension::kNone, bool Sign = false>
void add_move(Table& table, std::initializer_list<const char*> loads, std::initializer_list<const char*> stores) {
  const std::string prefix = S == Space::kFlat ? "flat" : S == Space::kGlobal ? "global" : "scratch";
  for (std::string name : loads) table[prefix + "_load_" + name] = load<S, Bytes, E, Sign>;
  for (std::string name : stores) table[prefix + "_store_" + name] = store<S, Bytes, E>;
}

template <Space S>
void add_space(Table& table) {
  using enum Extension;
  add_move<S, 4>(table, {"dword", "b32"}, {"dword", "b32"});
  add_move<S, 8>(table, {"dwordx2", "b64"}, {"dwordx2", "b64"});
  add_move<S, 12>(table, {"dwordx3", "b96"}, {"dwordx3", "b96"});
  add_move<S, 16>(table, {"dwordx4", "b128"}, {"dwordx4", "b128"});
  add_move<S, 1>(table, {"ubyte", "u8"}, {"byte", "b8"});
  add_move<S, 2>(table, {"ushort", "u16"}, {"short", "b16"});
  add_move<S, 1, kNone, true>(table, {"sbyte", "i8"}, {});
  add_move<S, 2, kNone, true>(table, {"sshort", "i16"}, {});
  add_move<S, 1, kLowHalf>(table, {"ubyte_d16", "d16_u8"}, {});
  add_move<S, 1, kLowHalf, true>(table, {"sbyte_d16", "d16_i8"}, {});
  add_move<S, 2, kLowHalf>(table, {"short_d16", "d16_b16"}, {});
  add_move<S, 1, kHighHalf>(table, {"ubyte_d16_hi", "d16_hi_u8"}, {"byte_d16_hi", "d16_hi_b8"});
  add_move<S, 1, kHighHalf, true>(table, {"sbyte_d16_hi", "d16_hi_i8"}, {});
  add_move<S, 2, kHighHalf>(table, {"short_d16_hi", "d16_hi_b16"}, {"short_d16_hi", "d16_hi_b16"});
}

template <Space S>
void add_loads_to_lds(Table& table, const std::string& prefix) {
  table[prefix + "_load_lds_dword"] = load_to_lds<S, 4, false>;
  table[prefix + "_load_lds_ubyte"] = load_to_lds<S, 1, false>;
  table[prefix + "_load_lds_sbyte"] = load_to_lds<S, 1, true>;
  table[prefix + "_load_lds_ushort"] = load_to_lds<S, 2, false>;
  table[prefix + "_load_lds_sshort"] = load_to_lds<S, 2, true>;
}

}  // namespace

bool in_one_range(Wave& wave, const Addresses& addresses, unsigned bytes, bool write) {
  // Without branches: inactive lanes count as a lane that is active.
  const uint64_t exec = wave.exec();
  if (exec == 0) return true;
  uint64_t low = addresses[static_cast<unsigned>(std::countr_zero(exec))], high = low;
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    const uint64_t address = bit_of(exec, lane) ? addresses[lane] : low;
    low = address < low ? address : low;
    high = address > high ? address : high;
  }
  return high <= ~uint64_t{0} - bytes && wave.memory->find(low, high - low + bytes, write) != nullptr;
}

bool private_access(Wave& wave, unsigned lane, uint64_t offset, std::byte* data, size_t bytes, bool write) {
  if (offset > wave.scratch_bytes || wave.scratch_bytes - offset < bytes) return false;
  while (bytes > 0) {
    size_t inside = offset % 4;
    size_t part = std::min(bytes, 4 - inside);
    std::byte* at = wave.scratch + (offset / 4 * wave.lanes + lane) * 4 + inside;
    std::memcpy(write ? at : data, write ? data : at, part);
    data += part;
    offset += part;
    bytes -= part;
  }
  return true;
}

Addresses memory_addresses(const Wave& wave, const Instruction& instruction, unsigned vaddr, unsigned saddr,
                           unsigned bytes) {
  return addresses_of(wave, instruction, Space::kGlobal, vaddr, saddr, bytes);
}

std::byte* atomic_memory(Wave& wave, const Instruction& instruction, uint64_t at, unsigned lane, size_t bytes) {
  const bool flat = instruction.name->mnemonic.starts_with("flat");
  std::byte* memory = nullptr;
  if (flat && (at & kApertureMask) == kSharedBase) {
    if ((at & 0xffffffff) + bytes <= wave.group->lds.size()) memory = wave.group->lds.data() + (at & 0xffffffff);
  } else if (flat && (at & kApertureMask) == kPrivateBase) {
    // What atomics touch is aligned, so one dword of one lane; wider ones are not contiguous.
    if (bytes <= 4 && (at & 0xffffffff) + bytes <= wave.scratch_bytes)
      memory = wave.scratch + ((at & 0xffffffff) / 4 * wave.lanes + lane) * 4;
  } else {
    memory = wave.memory->find(at, bytes, true);
  }
  if (!memory) wave.fail(out_of_bounds("atomic", at, bytes) + " in lane " + std::to_string(lane));
  return memory;
}

void add_vector_memory(Table& table) {
  add_space<Space::kFlat>(table);
  add_space<Space::kGlobal>(table);
  add_space<Space::kScratch>(table);
  add_loads_to_lds<Space::kGlobal>(table, "global");
  add_loads_to_lds<Space::kScratch>(table, "scratch");
  table["global_load_addtid_b32"] = access_by_lane<false>;
  table["global_store_addtid_b32"] = access_by_lane<true>;
}

}  // namespace kiln::amdgcn_emulator
