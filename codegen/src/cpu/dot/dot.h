// What the files of dot share: the form of the products, the blocking, where the micro-kernel finds its operands.
#pragma once

#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {

// How products are summed. Packed operands consist of *units* that hold `group` neighbours along K; a step multiplies a
// unit of A with a vector of units of B and adds that to a vector of sums.
enum class Step : uint8_t {
  kFma,        // one number a unit: fma, or multiply and add of ints
  kPairs,      // two i16: pmaddwd
  kBf16Pairs,  // two bf16: vdpbf16ps
  kQuads,      // four bytes, u8 times i8: vpdpbusd
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

// A dot of known extents: what every part of its lowering reads.
struct DotPlan {
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
  bool leaves_out = false;       // products with rows of zeros, where B is finite (dot_turns.cpp)

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
  // B comes from far away again and again: while one panel is multiplied, the next one is brought into L2.
  bool panels_come_ahead() const {
    constexpr int64_t kNear = 128 * 1024;
    return !tiles() && m > 2 * block.rows && k_units * n * b_bytes() > kNear;
  }
};

// How the units of A lie, which the micro-kernel's addresses build upon.
enum class LayoutA : uint8_t {
  kRows,      // those of a row follow each other
  kColumns,   // those of a column do
  kPointers,  // as kRows, each row at an address of its own
  kTurns,     // as kPointers, for each turn of a list, null for rows of zeros, in an order of the list (dot_turns.cpp)
};

// Where the micro-kernel reads an operand; distances in bytes.
struct OperandA {
  LayoutA layout = LayoutA::kRows;
  Value* pointer = nullptr;  // kPointers: to the addresses; kTurns: to the list
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
  Value* stays = nullptr;       // i1: where the next turn of a loop does not write
  Value* correction = nullptr;  // [batch, padded N] i32 to subtract from the sums; null without flip_a
  int64_t correction_batch = 0;
  // Of a plan that leaves products out: a number (i64) that stays as long as what is packed, and whether that was
  // packed just now, or nothing is and B is read where it lies (i1).
  Value *note = nullptr, *is_new = nullptr, *in_place = nullptr;
};

struct Sums {
  Value* pointer = nullptr;
  Value* row = nullptr;
  Value* batch = nullptr;
};
struct OperandC {
  Sums from, to;           // before and after this product
  Value* fresh = nullptr;  // i1: zeros before, whatever memory holds
  Value* rows = nullptr;   // i64: of more than so many nobody sees the sums; null: all are seen
};

// dot.cpp: how the product of a dot is computed.
DotPlan plan_dot(Context& c, const Op& dot);

// dot_accumulator.cpp: where the sums begin and end, in a slot of the result or where it is stored.
Result<OperandC> accumulator(Context& c, const DotPlan& plan, ValueId acc, ValueId result);
// What loops carry from zeros on, if that is what the sums are; else null.
const DotAccumulator* sums_of_loops(const Context& c, const DotPlan& plan, ValueId acc, ValueId result);
// dot.cpp: runs the micro-kernel over the blocks of C.
void run_blocks(Context& c, const DotPlan& plan, const OperandA& a, const OperandB& b, const OperandC& sums,
                Value* steps);

// dot_form.cpp
DotForm choose_form(const CpuTarget& target, ElementType a, ElementType b, ElementType acc, bool tf32, int64_t m);
// Where rows of bf16 are too few for AMX and would be widened, though there is an instruction for pairs, which rounds
// as AMX does. For a B that lies in pairs: it is read once, and taking it apart takes longer.
std::optional<DotForm> form_for_pairs(const CpuTarget& target, DotForm form, int64_t m);
// At most `most_rows` in a block.
Blocking choose_blocking(const CpuTarget& target, const DotForm& form, int lanes, int64_t m, int64_t n, int most_rows);
llvm::Type* vector_of(const DotPlan& plan, llvm::Type* scalar);

// Where the blocks of one height begin and end, by row of A.
struct RowBlocks {
  int height;
  int64_t begin, end;
};
std::vector<RowBlocks> split_rows(const DotPlan& plan);

// dot_transpose.cpp: rows 0…end-1, K along them, into K-major panels of `width` rows, which begin `distance` bytes a
// row apart.
struct Transposition {
  ElementType from;
  Value *source = nullptr, *row = nullptr, *to = nullptr;
  int64_t distance = 0, end = 0, width = 0;
};
bool can_transpose(const DotPlan& plan);
void emit_transposed(Context& c, const DotPlan& plan, const Transposition& t);
int64_t transposed_overrun(const DotPlan& plan);  // bytes written behind the last panel, at most

// dot_keep.cpp: whether an op makes pointers of its first operand, which it moves or spreads.
bool moves_pointer(const Op& op);

// dot_pack.cpp
// In memory, with the numbers of a column one behind the other.
bool lies_by_columns(Context& c, ValueId id);
// The columns of B as the rows of a product with a single column.
Result<OperandA> rows_of_columns(Context& c, const DotPlan& plan, ValueId b, Value* steps);
// An operand's element as it stands in a unit.
Value* to_packed(Context& c, Builder& b, const DotForm& form, ElementType from, Value* x);
// `steps`: so many of the units along K are read, from the first one on. `rows`: those of A from there on do not
// matter, but for the last block that begins before; null: all do.
Result<OperandA> pack_a(Context& c, const DotPlan& plan, ValueId id, Value* steps, Value* rows);
Result<OperandB> pack_b(Context& c, const DotPlan& plan, ValueId id, Value* steps);
// Rows of A, or those listed, into rows packed_row_bytes apart.
Result<void> pack_a_rows(Context& c, const DotPlan& plan, ValueId id, Value* packed,
                         const std::optional<Nest::Listed>& listed = std::nullopt);
// Reserves scratch, and fills it with a byte.
Value* reserve(Context& c, int64_t bytes);
void fill_bytes(Context& c, Value* pointer, int value, int64_t bytes);
int64_t packed_row_bytes(const DotPlan& plan);    // of A
int64_t packed_panel_bytes(const DotPlan& plan);  // of B

// dot_units.cpp: B that lies in memory in units; null where it does not. `pack` does it where the view is not whole.
bool may_lie_in_units(const Context& c, const DotPlan& plan, ValueId id);
std::optional<Nest::MemoryView> units_in_memory(Context& c, const DotPlan& plan, ValueId id);
Result<OperandB> read_units(Context& c, const DotPlan& plan, ValueId id, OperandB packed,
                            const std::optional<Nest::MemoryView>& view, llvm::function_ref<Result<void>()> pack);

// dot_keep.cpp: a place for what is packed of `id`; `present` (i1): it holds that already.
struct Kept {
  Value* pointer;
  Value* present;
  Value* stays;  // i1: the next turn of a loop has another place
};
Kept keep(Context& c, ValueId id, int64_t bytes);

// dot_rows.cpp
bool has_scattered_rows(Context& c, ValueId id);
// `memory`: of bytes_of_rows, for rows that must be copied, and their addresses.
int64_t bytes_of_rows(const Context& c, const DotPlan& plan);
// Rows of zeros have no address then: bit `turn` of their words (i32, rounded up to whole vectors) says so.
struct RowsLeftOut {
  Value *words, *turn;
  Value* any;  // variable, i1: there are such
};
Result<OperandA> point_at_rows(Context& c, const DotPlan& plan, ValueId id, Value* steps, Value* rows,
                               const Kept& memory, const RowsLeftOut* left_out = nullptr);

// The same, copied to a fixed distance, for tiles: whole lines along K.
Result<OperandA> gather_rows(Context& c, const DotPlan& plan, ValueId id, Value* steps, Value* rows);

// dot_turns.cpp: of how many turns the products may wait for each other, 1 if they may not, and such a dot.
int64_t turns_together(const Context& c, const DotPlan& plan, const Op& dot);
Result<void> lower_turn(Context& c, DotPlan plan, const Op& dot, Value* steps, int64_t most);
// The list: numbers of each turn, of eight bytes each; then a row of zeros; then the order of the rows, i64.
constexpr int64_t kMostTurns = 9;
enum TurnField : uint8_t { kTurnRows, kTurnB, kTurnBRow, kTurnBPanel, kTurnSteps, kTurnLeavesOut, kTurnFields };
constexpr int64_t kTurnZeros = kMostTurns * kTurnFields * 8;
inline int64_t order_of_turns(const DotPlan& plan) { return kTurnZeros + (plan.k_units * plan.unit_bytes + 7) / 8 * 8; }

// dot_scaled.cpp: operands of dot_scaled as f64.
Result<OperandA> unpack_scaled_a(Context& c, const DotPlan& plan, ValueId id, ValueId scale);
Result<OperandB> unpack_scaled_b(Context& c, const DotPlan& plan, ValueId id, ValueId scale);

// dot_kernel.cpp: for one block of C,
//   void f(ptr a, i64 a_distance, ptr b, i64 b_row, ptr from, i64 from_row, ptr to, i64 to_row, ptr correction, i1
//   fresh, ptr ahead, i64 steps)
// Of kTurns: `a` is the list, `a_distance` where the block's rows stand in its order, `b_row` the number of the panel,
// `from` and `to` are those of row 0, `steps` is the number of turns.
enum KernelArgument : unsigned {
  kA,
  kADistance,
  kB,
  kBRow,
  kFrom,
  kFromRow,
  kTo,
  kToRow,
  kCorrection,
  kFresh,
  kAhead,
  kStepCount
};
llvm::Function* declare_kernel(Context& c, const std::string& name);
// For the last panel, or for any other one.
llvm::Function* micro_kernel(Context& c, const DotPlan& plan, LayoutA layout, int rows, bool last);
// Of what is read soon.
enum class Into : uint8_t { kL2 = 2, kL1 = 3 };
void prefetch(Builder& b, Value* pointer, Into into = Into::kL1);
// acc + a·b for vectors of units.
Value* step_forward(Context& c, Builder& b, const DotForm& form, Value* x, Value* y, Value* acc);
// dot_column.cpp: the same of a single column.
llvm::Function* column_kernel(Context& c, const DotPlan& plan, int rows);
// dot_tiles.cpp: the same by AMX, whose registers are configured for blocks of so many rows: as few times as can be,
// for it takes as long as a few steps.
llvm::Function* tile_kernel(Context& c, const DotPlan& plan, int rows);
void configure_tiles(Context& c, int rows);
void release_tiles(Context& c);

}  // namespace kiln::codegen::cpu
