// The state of a wave and of its workgroup.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "instruction.h"
#include "memory.h"

namespace kiln::amdgcn_emulator {

inline constexpr unsigned kMaxLanes = 64;
inline constexpr unsigned kVectorRegisters = 1024;  // on gfx9 256 and on are AccVGPRs

// Places in the scalar file.
inline constexpr unsigned kVcc = 106;
inline constexpr unsigned kTrap = 108;  // ttmp0
inline constexpr unsigned kM0 = 124;
inline constexpr unsigned kExec = 126;
inline constexpr unsigned kNull = 128;  // reads 0; writes are lost
inline constexpr unsigned kFlatScratch = 144;
inline constexpr unsigned kXnackMask = 146;
inline constexpr unsigned kScalarRegisters = 148;

// Bits of MODE.
inline constexpr uint32_t kModeRegisterIndex = 0x8000000;  // of GFX9: M0 shifts vector registers
inline constexpr uint32_t kModeRound32 = 0x3;
inline constexpr uint32_t kModeRound64 = 0xc;  // and of 16 bits
inline constexpr uint32_t kModeDenormIn32 = 0x10;
inline constexpr uint32_t kModeDenormOut32 = 0x20;
inline constexpr uint32_t kModeDenormIn64 = 0x40;  // and of 16 bits
inline constexpr uint32_t kModeDenormOut64 = 0x80;
inline constexpr uint32_t kModeDx10Clamp = 0x100;
inline constexpr uint32_t kModeIeee = 0x200;
inline constexpr uint32_t kModeOverflow16 = 0x800000;  // FP16_OVFL: 16- and 8-bit results saturate

enum class Generation : uint8_t { kGfx9, kGfx10, kGfx11, kGfx12 };

// What differs between processors.
struct Processor {
  std::string name;
  Generation generation = Generation::kGfx9;
  bool gfx90a = false;             // and gfx94x: accumulators in the same file, packed f32
  bool gfx940 = false;             // and gfx950: architected flat scratch
  bool fnuz = false;               // f8 that are not OCP's
  bool packed_work_items = false;  // the three work-item ids in v0
  bool gfx1250 = false;            // 1024 registers, large buffers, signed offsets
};

using Row = std::array<uint32_t, kMaxLanes>;

enum class WaveState : uint8_t { kRunning, kAtBarrier, kEnded };

struct Workgroup {
  std::array<uint32_t, 3> id{};
  std::vector<std::byte> lds;
};

struct LoadedCode;

struct Wave {
  alignas(64) std::array<Row, kVectorRegisters> vgpr{};
  // What DPP made of the first source of the instruction under way.
  alignas(64) std::array<Row, 2> permuted{};
  unsigned permuted_operand = 0;
  alignas(16) std::array<uint32_t, kScalarRegisters> sgpr{};
  unsigned lanes = 64;
  bool scc = false;
  WaveState state = WaveState::kRunning;
  uint32_t mode = 0;
  uint64_t write_mask = 0;  // lanes that the vector instruction under way writes
  unsigned index = 0;       // in the workgroup
  const Instruction* instruction = nullptr;
  const Instruction* next = nullptr;
  const LoadedCode* code = nullptr;
  const Processor* processor = nullptr;
  Workgroup* group = nullptr;
  Memory* memory = nullptr;
  std::byte* scratch = nullptr;  // dwords of the lanes interleaved: dword d of lane l is at (d * lanes + l) * 4
  uint32_t scratch_bytes = 0;    // of one lane
  uint64_t instructions = 0;
  std::string fault;  // not empty: the wave cannot go on

  uint64_t scalar64(unsigned index) const { return sgpr[index] | uint64_t{sgpr[index + 1]} << 32; }
  void set_scalar64(unsigned index, uint64_t value) {
    sgpr[index] = static_cast<uint32_t>(value);
    sgpr[index + 1] = static_cast<uint32_t>(value >> 32);
  }
  uint64_t all_lanes() const { return lanes == 64 ? ~uint64_t{0} : 0xffffffffu; }
  uint64_t mask_at(unsigned index) const { return lanes == 64 ? scalar64(index) : sgpr[index]; }
  void set_mask_at(unsigned index, uint64_t mask) {
    if (index == kNull) return;
    if (lanes == 64)
      set_scalar64(index, mask);
    else
      sgpr[index] = static_cast<uint32_t>(mask);
  }
  uint64_t exec() const { return mask_at(kExec); }
  uint64_t vcc() const { return mask_at(kVcc); }

  void fail(std::string why) {
    if (fault.empty()) fault = std::move(why);
  }
  // Continues at an address of the code object.
  void jump(uint64_t address);
};

inline bool bit_of(uint64_t mask, unsigned lane) { return mask >> lane & 1; }

}  // namespace kiln::amdgcn_emulator
