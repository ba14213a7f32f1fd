// Data that moves between lanes: DPP, v_readlane and its relatives, v_permlane.
#include "cross_lane.h"

#include <algorithm>

#include "scalar.h"
#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

// The lane that `lane` reads, or -1 where there is none.
int source_lane(const Dpp& dpp, unsigned lane, unsigned lanes) {
  unsigned row = lane & ~15u;
  unsigned in_row = lane & 15;
  auto within = [&](int target) { return target < 0 || target > 15 ? -1 : static_cast<int>(row) + target; };
  int position = static_cast<int>(in_row);
  int amount = dpp.amount;
  int count = static_cast<int>(lanes);
  switch (dpp.kind) {
    case DppKind::kQuadPerm:
      return static_cast<int>((lane & ~3u) + dpp.lanes[lane & 3]);
    case DppKind::kEight:
      return static_cast<int>((lane & ~7u) + dpp.lanes[lane & 7]);
    case DppKind::kRowShl:
      return within(position + amount);
    case DppKind::kRowShr:
      return within(position - amount);
    case DppKind::kRowRor:
      return within((position - amount) & 15);
    case DppKind::kWaveShl:
      return lane + 1 < lanes ? static_cast<int>(lane) + 1 : -1;
    case DppKind::kWaveShr:
      return static_cast<int>(lane) - 1;
    case DppKind::kWaveRol:
      return (static_cast<int>(lane) + 1) % count;
    case DppKind::kWaveRor:
      return (static_cast<int>(lane) + count - 1) % count;
    case DppKind::kRowMirror:
      return within(15 - position);
    case DppKind::kRowHalfMirror:
      return within((position & 8) + 7 - (position & 7));
    case DppKind::kRowBcast15:  // the last lane of each row to the next row
      return lane < 16 ? -1 : static_cast<int>(row) - 1;
    case DppKind::kRowBcast31:  // lane 31 to the rows behind it
      return lane < 32 ? -1 : 31;
    case DppKind::kRowShare:
      return within(amount);
    case DppKind::kRowXmask:
      return within(position ^ amount);
  }
  return -1;
}

}  // namespace

void permute_source(Wave& wave, const Instruction& instruction, unsigned operand) {
  const Dpp& dpp = instruction.dpp;
  const uint64_t exec = wave.exec();
  wave.permuted_operand = operand;
  unsigned dwords = std::min<unsigned>(instruction.operands[operand].dwords, 2);
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    int source = source_lane(dpp, lane, wave.lanes);
    bool enabled = dpp.row_mask >> (lane / 16) & 1 && dpp.bank_mask >> (lane / 4 % 4) & 1;
    bool valid = source >= 0 && (dpp.fetch_inactive || bit_of(exec, static_cast<unsigned>(source)));
    // dpp8 never goes out of a row: a disabled source lane reads 0.
    bool zero = dpp.bound_control || dpp.kind == DppKind::kEight;
    if (!enabled || (!valid && !zero)) wave.write_mask &= ~(uint64_t{1} << lane);
    for (unsigned dword = 0; dword < dwords; ++dword)
      wave.permuted[dword][lane] =
          valid ? wave.vgpr[instruction.operands[operand].index + dword][static_cast<unsigned>(source)] : 0;
  }
}

namespace {

unsigned lane_operand(const Wave& wave, const Operand& operand) {
  return static_cast<unsigned>(uniform_bits(wave, operand, Format::kBits, 32)) & (wave.lanes - 1);
}

uint32_t lane_value(const Wave& wave, const Operand& operand, unsigned lane) {
  if (operand.kind == OperandKind::kVgpr) return wave.vgpr[operand.index][lane];
  return static_cast<uint32_t>(uniform_bits(wave, operand, Format::kBits, 32));
}

void read_first_lane(Wave& wave, const Instruction& i) {
  uint64_t exec = wave.exec();
  unsigned lane = exec ? static_cast<unsigned>(std::countr_zero(exec)) : 0;
  write_scalar<U32>(wave, i.operands[0], lane_value(wave, i.operands[1], lane));
}

void read_lane(Wave& wave, const Instruction& i) {
  write_scalar<U32>(wave, i.operands[0], lane_value(wave, i.operands[1], lane_operand(wave, i.operands[2])));
}

void write_lane(Wave& wave, const Instruction& i) {
  auto value = static_cast<uint32_t>(uniform_bits(wave, i.operands[1], Format::kBits, 32));
  wave.vgpr[i.operands[0].index][lane_operand(wave, i.operands[2])] = value;
}

// v_permlane16, v_permlanex16: each lane of a row of 16 takes the lane that a nibble of two scalars (or, of the _var
// forms, its own VGPR) names, of its own row or of the other row of the same 32 lanes.
void permute_rows(Wave& wave, const Instruction& i, bool other_row, bool variable) {
  const bool fetch_inactive = i.op_sel & 1;
  const bool bound_control = i.op_sel & 2;
  const uint64_t exec = wave.exec();
  Row source = wave.vgpr[i.operands[1].index];
  Row& destination = wave.vgpr[i.operands[0].index];
  uint64_t selectors = uniform_bits(wave, i.operands[2], Format::kBits, 32);
  if (!variable) selectors |= uniform_bits(wave, i.operands[3], Format::kBits, 32) << 32;
  Row selected = variable ? wave.vgpr[i.operands[2].index] : Row{};
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    if (!bit_of(exec, lane)) continue;
    unsigned nibble = variable ? selected[lane] & 15 : static_cast<unsigned>(selectors >> (4 * (lane % 16))) & 15;
    unsigned from = ((lane & ~15u) ^ (other_row ? 16 : 0)) + nibble;
    bool valid = fetch_inactive || bit_of(exec, from);
    if (valid)
      destination[lane] = source[from];
    else if (bound_control)
      destination[lane] = 0;
  }
}

// v_permlane64: swaps the halves of a wave of 64; a wave of 32 keeps its values.
void swap_halves(Wave& wave, const Instruction& i) {
  Row source = wave.vgpr[i.operands[1].index];
  for (uint64_t mask = wave.exec(); mask; mask &= mask - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    wave.vgpr[i.operands[0].index][lane] = source[wave.lanes == 64 ? lane ^ 32 : lane];
  }
}

void swap_registers(Wave& wave, const Instruction& i) {
  for (uint64_t mask = wave.exec(); mask; mask &= mask - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    std::swap(wave.vgpr[i.operands[0].index][lane], wave.vgpr[i.operands[1].index][lane]);
  }
}

void swap_register_halves(Wave& wave, const Instruction& i) {
  const unsigned left = i.operands[0].high ? 16 : 0;
  const unsigned right = i.operands[1].high ? 16 : 0;
  for (uint64_t mask = wave.exec(); mask; mask &= mask - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    uint32_t& x = wave.vgpr[i.operands[0].index][lane];
    const uint32_t of_x = x >> left & 0xffff;
    const uint32_t of_y = wave.vgpr[i.operands[1].index][lane] >> right & 0xffff;
    x = (x & ~(0xffffU << left)) | of_y << left;
    uint32_t& y = wave.vgpr[i.operands[1].index][lane];
    y = (y & ~(0xffffU << right)) | of_x << right;
  }
}

}  // namespace

void execute_pair(Wave& wave, const Instruction& instruction) {
  const unsigned first = instruction.operands[0].index, count = instruction.operands[0].dwords;
  std::array<Row, 2> before, result;
  std::copy_n(&wave.vgpr[first], count, before.begin());
  instruction.first_execute(wave, instruction);
  std::copy_n(&wave.vgpr[first], count, result.begin());
  std::copy_n(before.begin(), count, &wave.vgpr[first]);
  instruction.second->execute(wave, *instruction.second);
  std::copy_n(result.begin(), count, &wave.vgpr[first]);
}

void add_cross_lane(Table& table) {
  table["v_readfirstlane_b32"] = read_first_lane;
  table["v_readlane_b32"] = read_lane;
  table["v_writelane_b32"] = write_lane;
  table["v_permlane16_b32"] = [](Wave& w, const Instruction& i) { permute_rows(w, i, false, false); };
  table["v_permlanex16_b32"] = [](Wave& w, const Instruction& i) { permute_rows(w, i, true, false); };
  table["v_permlane16_var_b32"] = [](Wave& w, const Instruction& i) { permute_rows(w, i, false, true); };
  table["v_permlanex16_var_b32"] = [](Wave& w, const Instruction& i) { permute_rows(w, i, true, true); };
  table["v_permlane64_b32"] = swap_halves;
  table["v_swap_b32"] = swap_registers;
  table["v_swap_b16"] = swap_register_halves;
}

}  // namespace kiln::amdgcn_emulator
