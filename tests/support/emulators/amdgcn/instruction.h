// One decoded instruction: what the disassembler's text says, in a form that executes quickly.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace kiln::amdgcn_emulator {

struct Wave;
struct AtomicForm;
struct Instruction;

using Execute = void (*)(Wave&, const Instruction&);

// Where an operand lives. Scalar registers, VCC, EXEC, M0, the trap registers and `null` share one file (wave.h).
enum class OperandKind : uint8_t { kNone, kVgpr, kScalar, kConstant, kOff, kSpecial };

// Sources that are no registers.
enum class Special : uint16_t { kScc, kVccz, kExecz, kSharedBase, kSharedLimit, kPrivateBase, kPrivateLimit };

// What part of a register SDWA takes or writes.
enum class Select : uint8_t { kByte0, kByte1, kByte2, kByte3, kWord0, kWord1, kDword };
enum class Unused : uint8_t { kPad, kSext, kPreserve };

struct Operand {
  OperandKind kind = OperandKind::kNone;
  uint8_t dwords = 1;
  uint16_t index = 0;  // of the register (AccVGPRs from 256 on), or a Special
  bool negate = false;
  bool absolute = false;
  bool sign_extend = false;  // SDWA
  bool high = false;         // the upper half of a 16-bit operand, by op_sel or by name (v0.h)
  Select select = Select::kDword;
  bool number_is_float = false;  // of a constant: written as a floating-point number
  bool literal = false;          // of a constant: 32 bits that follow the instruction, of 64 that are wanted
  uint64_t integer = 0;
  double number = 0;

  bool modified() const { return negate || absolute || sign_extend || high || select != Select::kDword; }
};

// Data-parallel primitives: which lane each lane's first source comes from.
enum class DppKind : uint8_t {
  kQuadPerm,
  kRowShl,
  kRowShr,
  kRowRor,
  kWaveShl,
  kWaveShr,
  kWaveRol,
  kWaveRor,
  kRowMirror,
  kRowHalfMirror,
  kRowBcast15,
  kRowBcast31,
  kRowShare,
  kRowXmask,
  kEight
};

struct Dpp {
  DppKind kind = DppKind::kQuadPerm;
  std::array<uint8_t, 8> lanes{};  // of quad_perm and dpp8
  uint8_t amount = 0;
  uint8_t row_mask = 15;
  uint8_t bank_mask = 15;
  bool bound_control = false;   // a lane that does not exist reads 0
  bool fetch_inactive = false;  // lanes that EXEC disables may be read
};

inline constexpr unsigned kMaxOperands = 6;

// The names of an instruction, which its code object keeps.
struct InstructionText {
  std::string mnemonic;  // without the encoding's suffix
  std::string line;      // as the disassembler prints it
};

struct Instruction {
  Execute execute = nullptr;
  std::array<Operand, kMaxOperands> operands{};
  uint8_t operand_count = 0;
  uint8_t bytes = 4;
  bool clamp = false;
  uint8_t output_modifier = 0;   // 1: times 2, 2: times 4, 3: divided by 2
  bool has_dpp = false;          //
  bool has_sdwa = false;         //
  bool keeps_high_half = false;  // a 16-bit result leaves the other half of the register
  Select destination_select = Select::kDword;
  Unused unused = Unused::kPad;
  Dpp dpp{};
  uint8_t op_sel = 0;           // bit i: of source i; the destination's follows the sources
  uint8_t op_sel_hi = 0;        //
  uint8_t neg_lo = 0;           //
  uint8_t neg_hi = 0;           //
  int32_t offset = 0;           // of a memory instruction
  uint8_t offset0 = 0;          // of a DS instruction with two addresses
  uint8_t offset1 = 0;          //
  bool offen = false;           // a buffer's offset, index in a VGPR
  bool idxen = false;           //
  bool returns = false;         // an atomic that returns what was there
  bool to_lds = false;          //
  bool scale_offset = false;    // the offset in a register counts what is moved, not bytes
  uint8_t high_registers = 0;   // what s_set_vgpr_msb before it chose
  uint8_t broadcast_size = 0;   // cbsz
  uint8_t broadcast_block = 0;  // abid
  uint8_t b_permutation = 0;    // blgp
  uint8_t a_kind = 0;           // matrix_a_fmt
  uint8_t b_kind = 0;           //
  uint8_t scale_rows = 0;       // bit 0, 1: matrix_a_scale, matrix_b_scale of the upper lanes
  uint8_t truth_table = 0;      // bitop3
  uint32_t encoding = 0;        // the first dword
  uint64_t address = 0;
  const Instruction* second = nullptr;  // of a VOPD pair
  Execute first_execute = nullptr;      // what the pair's first half does
  const AtomicForm* atomic = nullptr;
  const InstructionText* name = nullptr;
};

}  // namespace kiln::amdgcn_emulator
