// What the files of dot share: a dot of known extents, and where the micro-kernel finds its operands.
#pragma once

#include "cpu/dot/dot_form.h"

namespace kiln::codegen::cpu {

// A dot of known extents: what every part of its lowering reads.
struct DotBlocking {
  DotForm form;
  Blocking block;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  int64_t k_units = 1;  // steps of the micro-kernel
  int lanes = 1;        // units in a vector
  llvm::Type* unit = nullptr;
  int unit_bytes = 4;
  bool masks_columns = false;    // nothing is read or written behind column n-1, though vectors end there
  bool widen_b = false;          // B keeps its element type and is widened as it is read: each element is read once
  bool scattered_a = false;      // rows of A may lie anywhere (dot_rows.cpp)
  bool some_steps = false;       // fewer than k_units steps may do
  bool along_k = false;          // a single column, whose products take lanes along K (dot_column.cpp)
  bool widen_rows = false;       // of such a one the rows keep B's element type and are widened as they are read
  bool corrects_itself = false;  // what flip_a adds is summed up as B is multiplied, not before
  bool leaves_out = false;       // products with rows of zeros, where B is finite (dot_iterations.cpp)

  int64_t panel() const { return int64_t{block.vectors} * lanes; }
  int64_t panels() const { return (n + panel() - 1) / panel(); }
  // Vectors of the last panel that hold columns of B, and where all these vectors end.
  int last_vectors() const {
    return tiles() ? block.vectors : static_cast<int>((n - (panels() - 1) * panel() + lanes - 1) / lanes);
  }
  int64_t padded_n() const { return (panels() - 1) * panel() + int64_t{last_vectors()} * lanes; }
  int packed_bytes() const { return unit_bytes / form.group; }
  int b_bytes() const { return widen_b ? dsl::info(form.b).bytes : unit_bytes; }  // a column of a packed row of B
  bool tiles() const { return form.step == Step::kTiles; }
  bool blocks() const { return form.step == Step::kBlocks; }
  // B comes from far away again and again: while one panel is multiplied, the next one is brought into L2.
  bool panels_come_ahead() const {
    constexpr int64_t kNear = 128 * 1024;
    return !tiles() && m > 2 * block.rows && k_units * n * b_bytes() > kNear;
  }
};

// How the units of A lie, which the micro-kernel's addresses build upon.
enum class LayoutA : uint8_t {
  kRows,        // those of a row follow each other
  kColumns,     // those of a column do
  kPointers,    // as kRows, each row at an address of its own
  kIterations,  // as kPointers, for each iteration of a list, null for rows of zeros, in an order of the list
                // (dot_iterations.cpp)
};

// Where the micro-kernel reads an operand; distances in bytes.
struct OperandA {
  LayoutA layout = LayoutA::kRows;
  Value* pointer = nullptr;  // kPointers: to the addresses; kIterations: to the list
  Value* block = nullptr;    // from row to row, where blocks of rows begin
  Value* distance =
      nullptr;  // kRows: from row to row; kColumns: from column to column, null: by the height of the block
  Value* batch = nullptr;
};
struct OperandB {
  Value* pointer = nullptr;
  Value* row = nullptr;  // from one unit along K to the next
  Value* panel = nullptr;
  Value* batch = nullptr;
  Value* stays = nullptr;       // i1: where the next iteration of a loop does not write
  Value* correction = nullptr;  // [batch, padded N] i32 to subtract from the accumulators; null without flip_a
  int64_t correction_batch = 0;
  // Of a blocking that leaves products out: a number (i64) that stays as long as what is packed, and whether that was
  // packed just now, or nothing is and B is read where it lies (i1).
  Value *note = nullptr, *is_new = nullptr, *in_place = nullptr;
};

struct AccumulatorPlace {
  Value* pointer = nullptr;
  Value* row = nullptr;
  Value* batch = nullptr;
};
struct OperandC {
  AccumulatorPlace from, to;  // before and after this product
  Value* fresh = nullptr;     // i1: zeros before, whatever memory holds
  Value* rows = nullptr;      // i64: of more than so many nobody sees the accumulators; null: all are seen
};

}  // namespace kiln::codegen::cpu
