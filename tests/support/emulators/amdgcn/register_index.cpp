// Registers chosen at run time: M0 added to the number of a source or of the destination. Vega and CDNA have a mode
// that shifts the vector registers of every instruction, RDNA moves of its own.
#include "register_index.h"

#include <algorithm>

#include "scalar.h"
#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

// Bits 12 and on of M0: which operands the mode of GFX9 shifts.
constexpr unsigned kWhichShift = 12;
constexpr uint32_t kWhichMask = 0xf000;
constexpr uint32_t kIndexMask = 0xff;
constexpr uint32_t kDestination = 8;

void set_index(Wave& wave, uint32_t index) { wave.sgpr[kM0] = (wave.sgpr[kM0] & ~kIndexMask) | (index & kIndexMask); }

void set_which(Wave& wave, uint32_t which) {
  wave.sgpr[kM0] = (wave.sgpr[kM0] & ~kWhichMask) | (which << kWhichShift & kWhichMask);
}

// False, and a fault, if there is no such register.
bool shift(Wave& wave, Operand& operand, uint32_t amount) {
  if (operand.kind != OperandKind::kVgpr) return true;
  const uint32_t shifted = operand.index + amount;
  if (shifted + operand.dwords > kVectorRegisters) {
    wave.fail("there is no vector register " + std::to_string(shifted));
    return false;
  }
  operand.index = static_cast<uint16_t>(shifted);
  return true;
}

enum class Shifted : uint8_t { kSource, kDestination, kBoth, kEach };

// v_movrels_b32 and its relatives: of kEach, two fields of M0 shift the two sides.
template <Shifted S>
void move_shifted(Wave& wave, const Instruction& instruction) {
  const uint32_t m0 = wave.sgpr[kM0];
  Instruction moved = instruction;
  const uint32_t source = S == Shifted::kEach ? m0 & 0x3ff : m0;
  const uint32_t destination = S == Shifted::kEach ? m0 >> 16 & 0x3ff : m0;
  if (S != Shifted::kDestination && !shift(wave, moved.operands[1], source)) return;
  if (S != Shifted::kSource && !shift(wave, moved.operands[0], destination)) return;
  begin_vector(wave, moved);
  Lanes<U32> values, result;
  const uint32_t* value = fetch<U32>(wave, moved, 1, values);
  std::copy_n(value, kMaxLanes, result.begin());
  store<U32>(wave, moved, 0, result);
}

void swap_shifted(Wave& wave, const Instruction& instruction) {
  const uint32_t m0 = wave.sgpr[kM0];
  Instruction moved = instruction;
  if (!shift(wave, moved.operands[1], m0 & 0x3ff) || !shift(wave, moved.operands[0], m0 >> 16 & 0x3ff)) return;
  begin_vector(wave, moved);
  Lanes<U32> first = wave.vgpr[moved.operands[0].index], second = wave.vgpr[moved.operands[1].index];
  store<U32>(wave, moved, 0, second);
  store<U32>(wave, moved, 1, first);
}

// Scalar registers: 64 bits by even numbers.
template <class K, bool Source>
void move_scalar(Wave& wave, const Instruction& instruction) {
  Operand from = instruction.operands[1], to = instruction.operands[0];
  Operand& shifted = Source ? from : to;
  const uint64_t index = uint64_t{shifted.index} + wave.sgpr[kM0];
  if (index + K::width / 32 > kVcc) return wave.fail("there is no scalar register " + std::to_string(index));
  shifted.index = static_cast<uint16_t>(index);
  write_scalar<K>(wave, to, static_cast<typename K::Bits>(read_scalar<K>(wave, from)));
}

}  // namespace

void execute_indexed(Wave& wave, const Instruction& instruction) {
  if (!instruction.name->mnemonic.starts_with("v_")) return instruction.execute(wave, instruction);
  const uint32_t which = wave.sgpr[kM0] >> kWhichShift & 15, index = wave.sgpr[kM0] & kIndexMask;
  Instruction shifted = instruction;
  for (unsigned source = 0; source < 3; ++source)
    if (which >> source & 1 && !shift(wave, shifted.operands[1 + source], index)) return;
  if (which & kDestination) {
    if (!shift(wave, shifted.operands[0], index)) return;
    // The sum of v_mac and the like is the destination.
    if (shifted.operand_count == 3 && instruction.operands[3].kind == OperandKind::kVgpr)
      shifted.operands[3] = shifted.operands[0];
  }
  shifted.execute(wave, shifted);
}

void add_register_index(Table& table) {
  table["s_set_gpr_idx_on"] = [](Wave& wave, const Instruction& i) {
    wave.mode |= kModeRegisterIndex;
    set_index(wave, read_scalar<U32>(wave, i.operands[0]));
    set_which(wave, i.encoding >> 8);  // the second source's field
  };
  table["s_set_gpr_idx_off"] = [](Wave& wave, const Instruction&) { wave.mode &= ~kModeRegisterIndex; };
  table["s_set_gpr_idx_idx"] = [](Wave& wave, const Instruction& i) {
    set_index(wave, read_scalar<U32>(wave, i.operands[0]));
  };
  table["s_set_gpr_idx_mode"] = [](Wave& wave, const Instruction& i) { set_which(wave, i.encoding); };
  table["s_movrels_b32"] = move_scalar<U32, true>;
  table["s_movrels_b64"] = move_scalar<U64, true>;
  table["s_movreld_b32"] = move_scalar<U32, false>;
  table["s_movreld_b64"] = move_scalar<U64, false>;
  table["v_movrels_b32"] = move_shifted<Shifted::kSource>;
  table["v_movreld_b32"] = move_shifted<Shifted::kDestination>;
  table["v_movrelsd_b32"] = move_shifted<Shifted::kBoth>;
  table["v_movrelsd_2_b32"] = move_shifted<Shifted::kEach>;
  table["v_swaprel_b32"] = swap_shifted;
}

}  // namespace kiln::amdgcn_emulator
