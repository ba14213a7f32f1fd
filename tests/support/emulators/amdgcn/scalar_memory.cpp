// Scalar memory: loads, those of buffers and with sub-dword results; the stores and atomics that GFX9 has.
#include "atomic_operations.h"
#include "buffer.h"
#include "scalar.h"

namespace kiln::amdgcn_emulator {
namespace {

// The offset: an immediate, a register, or a register and `offset:`.
uint64_t scalar_offset(const Wave& wave, const Instruction& instruction, unsigned bytes) {
  const Operand& operand = instruction.operands[2];
  uint64_t offset = static_cast<uint64_t>(int64_t{instruction.offset});
  if (operand.kind == OperandKind::kConstant) return offset + operand.integer;
  return offset + uniform_bits(wave, operand, Format::kBits, 32) * (instruction.scale_offset ? bytes : 1);
}

void write_loaded(Wave& wave, const Operand& destination, unsigned dword, uint32_t value) {
  if (destination.index + dword < kScalarRegisters && destination.index != kNull)
    wave.sgpr[destination.index + dword] = value;
}

// Dwords are aligned: the address's low two bits are ignored.
uint64_t address_of(const Wave& wave, const Instruction& instruction, unsigned bytes) {
  const uint64_t address = wave.scalar64(instruction.operands[1].index) + scalar_offset(wave, instruction, bytes);
  return bytes >= 4 ? address & ~uint64_t{3} : address;
}

void load(Wave& wave, const Instruction& instruction, unsigned bytes, bool sign) {
  const uint64_t address = address_of(wave, instruction, bytes);
  const std::byte* at = wave.memory->find(address, bytes, false);
  if (!at) return wave.fail(out_of_bounds("scalar load", address, bytes));
  for (unsigned dword = 0; dword < (bytes + 3) / 4; ++dword) {
    uint32_t value = 0;
    std::memcpy(&value, at + 4 * dword, std::min(bytes, 4u));
    if (sign) value = static_cast<uint32_t>(bytes == 1 ? static_cast<int8_t>(value) : static_cast<int16_t>(value));
    write_loaded(wave, instruction.operands[0], dword, value);
  }
}

// What lies outside the buffer reads 0.
void buffer_load(Wave& wave, const Instruction& instruction, unsigned bytes, bool sign) {
  BufferResource buffer = buffer_resource(wave, instruction.operands[1].index);
  uint64_t offset = scalar_offset(wave, instruction, bytes);
  if (bytes >= 4) offset &= ~uint64_t{3};
  uint64_t limit = buffer.stride ? uint64_t{buffer.stride} * buffer.records : buffer.records;
  for (unsigned dword = 0; dword < (bytes + 3) / 4; ++dword) {
    uint64_t at = offset + 4 * uint64_t{dword};
    unsigned size = std::min(bytes, 4u);
    uint32_t value = 0;
    if (at + size <= limit) {
      const std::byte* source = wave.memory->find(buffer.base + at, size, false);
      if (!source) return wave.fail(out_of_bounds("scalar buffer load", buffer.base + at, size));
      std::memcpy(&value, source, size);
    }
    if (sign) value = static_cast<uint32_t>(bytes == 1 ? static_cast<int8_t>(value) : static_cast<int16_t>(value));
    write_loaded(wave, instruction.operands[0], dword, value);
  }
}

// Where `bytes` of an atomic or a store lie: null without a fault if they are outside of a buffer.
template <bool Buffer>
std::byte* writable(Wave& wave, const Instruction& instruction, unsigned bytes) {
  uint64_t address = 0;
  if constexpr (Buffer) {
    const BufferResource buffer = buffer_resource(wave, instruction.operands[1].index);
    const uint64_t offset = scalar_offset(wave, instruction, bytes) & ~uint64_t{3};
    const uint64_t limit = buffer.stride ? uint64_t{buffer.stride} * buffer.records : buffer.records;
    if (offset + bytes > limit) return nullptr;
    address = buffer.base + offset;
  } else {
    address = address_of(wave, instruction, bytes);
  }
  std::byte* at = wave.memory->find(address, bytes, true);
  if (!at) wave.fail(out_of_bounds("scalar store", address, bytes));
  return at;
}

template <bool Buffer, unsigned Bytes>
void store(Wave& wave, const Instruction& instruction) {
  for (unsigned dword = 0; dword < Bytes / 4; ++dword) {
    Instruction part = instruction;
    part.offset += static_cast<int32_t>(4 * dword);
    std::byte* at = writable<Buffer>(wave, part, 4);
    if (at) std::memcpy(at, &wave.sgpr[instruction.operands[0].index + dword], 4);
  }
}

template <bool Buffer>
void run_atomic(Wave& wave, const Instruction& instruction) {
  const AtomicForm& form = *instruction.atomic;
  const unsigned data = instruction.operands[0].index, dwords = form.bytes / 4;
  std::byte* at = writable<Buffer>(wave, instruction, form.bytes);
  if (!wave.fault.empty() || (at && !is_aligned(wave, reinterpret_cast<uint64_t>(at), form.bytes, 0))) return;
  std::array<uint64_t, 2> values{};
  for (unsigned i = 0; i < form.operands * dwords; ++i)
    values[i / dwords] |= uint64_t{wave.sgpr[data + i]} << (32 * (i % dwords));
  const uint64_t old = at ? form.operation(wave, at, values.data()) : 0;
  if (!instruction.returns) return;
  for (unsigned dword = 0; dword < dwords; ++dword)
    wave.sgpr[data + dword] = static_cast<uint32_t>(old >> (32 * dword));
}

template <unsigned Bytes>
void add_stores(Table& table, const std::string& name) {
  table["s_store_" + name] = store<false, Bytes>;
  table["s_buffer_store_" + name] = store<true, Bytes>;
}

template <unsigned Bytes, bool Sign = false>
void add(Table& table, std::initializer_list<const char*> names) {
  for (std::string name : names) {
    table["s_load_" + name] = [](Wave& w, const Instruction& i) { load(w, i, Bytes, Sign); };
    table["s_buffer_load_" + name] = [](Wave& w, const Instruction& i) { buffer_load(w, i, Bytes, Sign); };
  }
}

}  // namespace

void add_scalar_memory(Table& table) {
  add<4>(table, {"dword", "b32"});
  add<8>(table, {"dwordx2", "b64"});
  add<12>(table, {"dwordx3", "b96"});
  add<16>(table, {"dwordx4", "b128"});
  add<32>(table, {"dwordx8", "b256"});
  add<64>(table, {"dwordx16", "b512"});
  add<1>(table, {"u8"});
  add<2>(table, {"u16"});
  add<1, true>(table, {"i8"});
  add<2, true>(table, {"i16"});
  add_stores<4>(table, "dword");
  add_stores<8>(table, "dwordx2");
  add_stores<16>(table, "dwordx4");
  for (const AtomicForm& form : atomic_forms()) {
    table[std::string("s_atomic_") + form.name] = run_atomic<false>;
    table[std::string("s_buffer_atomic_") + form.name] = run_atomic<true>;
  }
}

}  // namespace kiln::amdgcn_emulator
