// Turns of a loop with few steps along K each: loading and storing the sums would cost as much as the products. Their
// operands wait in a list, and the micro-kernel holds its sums over all turns of it.
//
//   for r:  acc += A(r)·B(r)        →        for r:  list += {rows of A(r), B(r)}
//                                                    if list is full or r is the last:  acc += Σ A(r)·B(r);  list = {}
//
// Rows of A stay where they are in memory, or in the turn's own scratch; B stays where it is kept (dot_keep.cpp). Where
// it does not, a turn does not wait.
#include "cpu/dot.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int64_t kMostTurns = 8;
constexpr int64_t kNearBytes = 160 * 1024;  // of the panels of B that a block of rows goes through: they come from L2

}  // namespace

int64_t turns_together(const Context& c, const DotPlan& plan, const Op& dot) {
  const auto* sums = sums_of_loops(c, plan, dot.operands[2], dot.results[0]);
  if (!plan.scattered_a || c.slots[dot.operands[0]] || !sums || !sums->ends) return 1;
  return std::clamp<int64_t>(kNearBytes / packed_panel_bytes(plan), 1, kMostTurns);
}

Result<void> lower_turn(Context& c, const DotPlan& plan, const Op& dot, Value* steps, int64_t most) {
  Builder& b = c.b;
  const DotAccumulator& loops = *sums_of_loops(c, plan, dot.operands[2], dot.results[0]);
  Value* waiting = entry_alloca(c, b.getInt64Ty());
  Builder(c.function->getEntryBlock().getTerminator()).CreateStore(c.i64(0), waiting);
  Value* turn = b.CreateLoad(b.getInt64Ty(), waiting);
  const int64_t rows_bytes = (bytes_of_rows(c, plan) + 63) / 64 * 64;
  Value *list = reserve(c, most * kTurnFields * 8), *memory = reserve(c, most * rows_bytes);
  memory = b.CreateInBoundsGEP(b.getInt8Ty(), memory, b.CreateMul(turn, c.i64(rows_bytes)));
  auto rows = point_at_rows(c, plan, dot.operands[0], steps, loops.rows, {memory, b.getFalse(), b.getTrue()});
  if (!rows) return rows.error();
  auto packed = pack_b(c, plan, dot.operands[1], steps);
  if (!packed) return packed.error();

  Value* fields = b.CreateInBoundsGEP(b.getInt64Ty(), list, b.CreateMul(turn, c.i64(kTurnFields)));
  auto note = [&](TurnField field, Value* value) {
    b.CreateAlignedStore(value, b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), fields, field), llvm::Align(8));
  };
  note(kTurnRows, rows->pointer);
  note(kTurnB, packed->pointer);
  note(kTurnBRow, packed->row);
  note(kTurnBPanel, packed->panel);
  note(kTurnSteps, steps);
  Value* count = b.CreateAdd(turn, c.i64(1));
  b.CreateStore(count, waiting);
  Value* more = b.CreateAnd(b.CreateICmpSLT(count, c.i64(most)), b.CreateNot(loops.last));
  return unless(c, b.CreateAnd(more, packed->stays), [&]() -> Result<void> {
    auto sums = accumulator(c, plan, dot.operands[2], dot.results[0]);
    if (!sums) return sums.error();
    OperandB none;
    none.pointer = list;
    none.row = none.panel = none.batch = c.i64(0);
    run_blocks(c, plan, {LayoutA::kTurns, list, rows->block, c.i64(0), c.i64(0)}, none, *sums, count);
    b.CreateStore(c.i64(0), waiting);
    return {};
  });
}

}  // namespace kiln::codegen::cpu
