// Fetching and storing of vector operands; see vector.h.
#include "vector.h"

#include "cross_lane.h"

namespace kiln::amdgcn_emulator {
namespace {

// The inline constant 1/(2π), which is printed with fewer digits than it has.
bool is_inverse_two_pi(double number) { return number > 0.1591 && number < 0.1592; }

uint32_t f32_bits(double number) {
  return is_inverse_two_pi(number) ? 0x3e22f983 : std::bit_cast<uint32_t>(static_cast<float>(number));
}
uint64_t f64_bits(double number) {
  return is_inverse_two_pi(number) ? 0x3fc45f306dc9c882 : std::bit_cast<uint64_t>(number);
}
uint32_t f16_bits(double number) {
  return is_inverse_two_pi(number) ? 0x3118 : encode_small(number, kHalf, Rounding::kNearestEven);
}

uint64_t special_value(const Wave& wave, uint16_t which) {
  switch (static_cast<Special>(which)) {
    case Special::kScc:
      return wave.scc;
    case Special::kVccz:
      return wave.vcc() == 0;
    case Special::kExecz:
      return wave.exec() == 0;
    case Special::kSharedBase:
      return kSharedBase;
    case Special::kSharedLimit:
      return kSharedBase | 0xffffffff;
    case Special::kPrivateBase:
      return kPrivateBase;
    case Special::kPrivateLimit:
      return kPrivateBase | 0xffffffff;
  }
  return 0;
}

}  // namespace

uint64_t constant_bits(const Operand& operand, Format format, unsigned width) {
  if (operand.number_is_float) {
    if (format == Format::kBf16) return f32_bits(operand.number) >> 16;
    return width == 16 ? f16_bits(operand.number) : width == 32 ? f32_bits(operand.number) : f64_bits(operand.number);
  }
  // A literal has 32 bits: those of an f64 are its upper half, others are extended as their type says.
  if (operand.literal && width == 64 && format == Format::kF64) return operand.integer << 32;
  if (operand.literal && width == 64 && format == Format::kSigned)
    return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(operand.integer)));
  return operand.integer;
}

// A scalar operand, the same in every lane, before its modifiers.
uint64_t uniform_bits(const Wave& wave, const Operand& operand, Format format, unsigned width) {
  switch (operand.kind) {
    case OperandKind::kScalar:
      return width == 64 ? wave.scalar64(operand.index) : wave.sgpr[operand.index];
    case OperandKind::kSpecial: {
      uint64_t value = special_value(wave, operand.index);
      return width == 64 ? value : value >> 32 ? value >> 32 : value;
    }
    case OperandKind::kConstant:
      return constant_bits(operand, format, width);
    default:
      return 0;
  }
}

uint64_t mask_of(const Wave& wave, const Operand& operand) {
  return uniform_bits(wave, operand, Format::kSigned, wave.lanes) & wave.all_lanes();
}

void begin_vector(Wave& wave, const Instruction& instruction, unsigned first) {
  wave.write_mask = wave.exec();
  if (instruction.has_dpp) [[unlikely]]
    permute_source(wave, instruction, first);
}

static uint32_t selected(uint32_t bits, const Operand& operand) {
  unsigned width = operand.select <= Select::kByte3 ? 8 : operand.select == Select::kDword ? 32 : 16;
  unsigned shift = operand.select <= Select::kByte3   ? 8 * static_cast<unsigned>(operand.select)
                   : operand.select == Select::kWord1 ? 16
                                                      : 0;
  uint32_t value = bits >> shift;
  if (width == 32) return value;
  uint32_t mask = (1u << width) - 1;
  value &= mask;
  if (operand.sign_extend && value >> (width - 1)) value |= ~mask;
  return value;
}

// Where a vector operand's dwords come from: DPP's permuted copy for the source that it applies to.
static const Row& row_of(const Wave& wave, const Instruction& instruction, unsigned operand, unsigned dword) {
  if (instruction.has_dpp && operand == wave.permuted_operand) return wave.permuted[dword];
  return wave.vgpr[instruction.operands[operand].index + dword];
}

template <class K>
static void read_row(Wave& wave, const Instruction& instruction, unsigned index, Lanes<K>& buffer) {
  const Operand& operand = instruction.operands[index];
  if (operand.kind != OperandKind::kVgpr) {
    auto bits = static_cast<typename K::Bits>(uniform_bits(wave, operand, K::format, K::width));
    for (unsigned lane = 0; lane < kMaxLanes; ++lane) buffer[lane] = bits;
    return;
  }
  const Row& low = row_of(wave, instruction, index, 0);
  if constexpr (K::width == 64) {
    const Row& high = row_of(wave, instruction, index, 1);
    for (unsigned lane = 0; lane < kMaxLanes; ++lane) buffer[lane] = low[lane] | uint64_t{high[lane]} << 32;
  } else {
    for (unsigned lane = 0; lane < kMaxLanes; ++lane) buffer[lane] = low[lane];
  }
}

template <class K>
const typename K::Bits* fetch(Wave& wave, const Instruction& instruction, unsigned index, Lanes<K>& buffer) {
  const Operand& operand = instruction.operands[index];
  bool high = K::width == 16 && (operand.high || (instruction.op_sel >> (index - 1) & 1));
  bool flushed = K::is_float && flushes_inputs(wave, K::width);
  if constexpr (K::width != 64) {
    bool plain = !operand.modified() && !flushed && !high && operand.kind == OperandKind::kVgpr;
    if (plain) return row_of(wave, instruction, index, 0).data();
  }
  read_row<K>(wave, instruction, index, buffer);
  if constexpr (K::width != 64) {
    if (instruction.has_sdwa)
      for (auto& bits : buffer) bits = selected(bits, operand);
    if (high)
      for (auto& bits : buffer) bits >>= 16;
  }
  constexpr auto sign = static_cast<typename K::Bits>(kSignBit<K>);
  if constexpr (K::is_float) {
    if (flushed)
      for (auto& bits : buffer) bits = flush<K>(bits);
  }
  // Raw bits have signs as well: selections (v_cndmask) take the modifiers of floating-point numbers.
  if (operand.absolute)
    for (auto& bits : buffer) bits &= static_cast<typename K::Bits>(~sign);
  if (operand.negate)
    for (auto& bits : buffer) bits ^= sign;
  return buffer.data();
}

// The dword that an SDWA instruction leaves: its result in the selected part, the rest as `unused` says.
static uint32_t merge_selected(uint32_t old, uint32_t result, const Instruction& instruction) {
  Select select = instruction.destination_select;
  if (select == Select::kDword) return result;
  unsigned width = select <= Select::kByte3 ? 8 : 16;
  unsigned shift = width == 8 ? 8 * static_cast<unsigned>(select) : select == Select::kWord1 ? 16 : 0;
  uint32_t mask = ((1u << width) - 1) << shift;
  uint32_t placed = result << shift & mask;
  if (instruction.unused == Unused::kPreserve) return (old & ~mask) | placed;
  bool negative = instruction.unused == Unused::kSext && (result >> (width - 1) & 1);
  uint32_t above = shift + width == 32 ? 0 : ~uint32_t{0} << (shift + width);
  return negative ? placed | above : placed;
}

static void write_row(Row& row, const uint32_t* result, uint64_t mask, unsigned lanes) {
  if (mask == (lanes == 64 ? ~uint64_t{0} : 0xffffffffu)) {
    std::memcpy(row.data(), result, lanes * sizeof(uint32_t));
    return;
  }
  for (; mask; mask &= mask - 1) {
    unsigned lane = static_cast<unsigned>(std::countr_zero(mask));
    row[lane] = result[lane];
  }
}

template <class K>
void store(Wave& wave, const Instruction& instruction, unsigned index, Lanes<K>& result) {
  const Operand& operand = instruction.operands[index];
  if (operand.kind != OperandKind::kVgpr)
    return wave.fail("no vector register as destination: " + instruction.name->line);
  Row& row = wave.vgpr[operand.index];
  if constexpr (K::width == 64) {
    Row low, high;
    for (unsigned lane = 0; lane < kMaxLanes; ++lane) {
      low[lane] = static_cast<uint32_t>(result[lane]);
      high[lane] = static_cast<uint32_t>(result[lane] >> 32);
    }
    write_row(row, low.data(), wave.write_mask, wave.lanes);
    write_row(wave.vgpr[operand.index + 1], high.data(), wave.write_mask, wave.lanes);
  } else {
    if (instruction.has_sdwa) {
      for (unsigned lane = 0; lane < wave.lanes; ++lane)
        result[lane] = merge_selected(row[lane], result[lane], instruction);
    } else if constexpr (K::width == 16) {
      bool high = operand.high || (instruction.op_sel >> (instruction.operand_count - 1) & 1);
      for (unsigned lane = 0; lane < wave.lanes; ++lane) {
        uint32_t half = result[lane] & 0xffff;
        if (high)
          result[lane] = (row[lane] & 0xffff) | half << 16;
        else
          result[lane] = instruction.keeps_high_half ? (row[lane] & 0xffff0000) | half : half;
      }
    }
    write_row(row, result.data(), wave.write_mask, wave.lanes);
  }
}

#define KILN_INSTANTIATE(K)                                                         \
  template const K::Bits* fetch<K>(Wave&, const Instruction&, unsigned, Lanes<K>&); \
  template void store<K>(Wave&, const Instruction&, unsigned, Lanes<K>&);
KILN_INSTANTIATE(U32)
KILN_INSTANTIATE(I32)
KILN_INSTANTIATE(U16)
KILN_INSTANTIATE(I16)
KILN_INSTANTIATE(U64)
KILN_INSTANTIATE(I64)
KILN_INSTANTIATE(F32)
KILN_INSTANTIATE(F64)
KILN_INSTANTIATE(F16)
KILN_INSTANTIATE(BF16)
#undef KILN_INSTANTIATE

namespace {

// Scaling does not go together with subnormal results, nor with IEEE mode: it is left out then.
bool scales_outputs(const Wave& wave, unsigned width) {
  const bool ieee = wave.processor->generation < Generation::kGfx12 && (wave.mode & kModeIeee);
  return flushes_outputs(wave, width) && !ieee;
}

template <class K, class To, class From>
void modify_outputs(const Wave& wave, const Instruction& instruction, unsigned width, Lanes<K>& result, To to,
                    From from) {
  constexpr double factors[] = {1, 2, 4, 0.5};
  const bool dx10 = wave.mode & kModeDx10Clamp;
  const unsigned modifier = scales_outputs(wave, width) ? instruction.output_modifier : 0;
  for (auto& bits : result) {
    auto value = to(bits);
    if (modifier) value = static_cast<decltype(value)>(value * factors[modifier]);
    if (instruction.clamp) value = std::isnan(value) ? (dx10 ? 0 : value) : value < 0 ? 0 : value > 1 ? 1 : value;
    bits = from(value);
  }
}

}  // namespace

void apply_output_modifiers(const Wave& wave, const Instruction& instruction, Lanes<F32>& result, Format format) {
  const bool half = format != Format::kF32;
  if (instruction.output_modifier || instruction.clamp) [[unlikely]] {
    if (half)
      modify_outputs<F32>(wave, instruction, 16, result, half_to_float, float_to_half);
    else
      modify_outputs<F32>(
          wave, instruction, 32, result, [](uint32_t bits) { return std::bit_cast<float>(bits); },
          [](float value) { return std::bit_cast<uint32_t>(value); });
  }
  if (flushes_outputs(wave, half ? 16 : 32)) [[unlikely]]
    for (auto& bits : result) bits = half ? flush<F16>(bits) : flush<F32>(bits);
}

void apply_output_modifiers(const Wave& wave, const Instruction& instruction, Lanes<F64>& result, Format) {
  if (instruction.output_modifier || instruction.clamp) [[unlikely]]
    modify_outputs<F64>(
        wave, instruction, 64, result, [](uint64_t bits) { return std::bit_cast<double>(bits); },
        [](double value) { return std::bit_cast<uint64_t>(value); });
  if (flushes_outputs(wave, 64)) [[unlikely]]
    for (auto& bits : result) bits = flush<F64>(bits);
}

}  // namespace kiln::amdgcn_emulator
