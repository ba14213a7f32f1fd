// How a dot of given types is computed on a target, and by which blocks.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

// How products are summed. Packed operands consist of *units* that hold `group` neighbours along K; a step multiplies a
// unit of A with a vector of units of B and adds that to a vector of sums.
enum class Step : uint8_t {
  kFma,        // one number a unit: fma, or multiply and add of ints
  kPairs,      // two i16: pmaddwd
  kBf16Pairs,  // two bf16: vdpbf16ps, bfdot
  kQuads,      // four bytes, u8 times i8: vpdpbusd; of any signs: sdot, udot, usdot
  kBlocks,     // as kBf16Pairs or kQuads, two units of two rows times those of two columns: bfmmla, smmla and its like
  kTiles,      // as kBf16Pairs or kQuads, 16 rows times 16 columns at once: AMX
};

struct DotForm {
  Step step = Step::kFma;
  ElementType a, b;    // of the operands
  ElementType packed;  // of the packed ones: f32, f64, i32, i16, bf16, i8 (of either sign)
  ElementType sum;     // f32, f64 or i32
  ElementType acc;     // of the accumulator in memory
  int group = 1;
  int k_multiple = 1;       // packed rows are filled up with zeros to so many elements
  bool flip_a = false;      // A ^ 0x80 to suit vpdpbusd; what that adds is taken off again (see `correction`)
  bool b_unsigned = false;  // vpdpbusd's unsigned operand is B
  bool round_tf32 = false;
};

struct Blocking {
  int rows;     // MR, the most
  int vectors;  // NV
};

struct DotBlocking;

DotForm choose_form(const CpuTarget& target, ElementType a, ElementType b, ElementType acc, bool tf32, int64_t m);
// Where rows of bf16 are too few for AMX and would be widened, though there is an instruction for pairs, which rounds
// as AMX does. For a B that lies in pairs: it is read once, and taking it apart takes longer.
std::optional<DotForm> form_for_pairs(const CpuTarget& target, DotForm form, int64_t m);
// At most `most_rows` in a block.
Blocking choose_blocking(const CpuTarget& target, const DotForm& form, int lanes, int64_t m, int64_t n, int most_rows);
llvm::Type* vector_of(const DotBlocking& blocking, llvm::Type* scalar);

}  // namespace kiln::codegen::cpu
