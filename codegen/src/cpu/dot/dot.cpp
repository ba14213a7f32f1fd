// dot: acc + a·b in place in the accumulator (dot_accumulator.cpp).
//
// Operands are packed into scratch, which also converts them (dot_pack.cpp), or read where they lie; then a
// register-blocked micro-kernel (dot_kernel.cpp, dot_tiles.cpp) runs over the blocks of the accumulator. The form of
// the products follows from the element types and the target (dot_form.cpp).
//
//   A  row-major [M][K]                                    broadcast unit by unit
//   B  panels of NR columns, each [K][NR]                  read as NV vectors
//   C  the accumulator, row-major                          MR × NV vectors held in registers over the whole of K
#include "cpu/dot/dot.h"

#include "cpu/dot/dot_accumulator.h"
#include "cpu/dot/dot_column.h"
#include "cpu/dot/dot_form.h"
#include "cpu/dot/dot_iterations.h"
#include "cpu/dot/dot_kernel.h"
#include "cpu/dot/dot_pack.h"
#include "cpu/dot/dot_rows.h"
#include "cpu/dot/dot_scaled.h"
#include "cpu/dot/dot_tiles.h"
#include "cpu/dot/dot_units.h"
#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {
namespace {

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// More addresses than this do not fit into registers.
constexpr int kMostPointers = 10;

DotBlocking make_blocking(const Context& ctx, const DotForm& form, const std::vector<int64_t>& out_shape, int64_t k,
                          bool scattered_a = false) {
  DotBlocking blocking;
  blocking.form = form;
  blocking.scattered_a = scattered_a;
  const size_t rank = out_shape.size();
  blocking.batch = rank == 3 ? out_shape[0] : 1;
  blocking.m = out_shape[rank - 2];
  blocking.n = out_shape[rank - 1];
  blocking.k = k;
  blocking.k_units = round_up(k, form.k_multiple) / form.group;
  blocking.unit_bytes = dsl::info(form.sum).bytes;
  blocking.unit = form.group > 1 ? llvm::Type::getInt32Ty(ctx.module.getContext())
                                 : register_type(ctx.module.getContext(), dsl::scalar_type(form.packed));
  // Of AArch64's instructions for groups those of scalable vectors do no more in a cycle than Neon's.
  const int vector_bytes = !ctx.target.is_x86 && form.group > 1 ? 16 : ctx.target.vector_bytes;
  blocking.lanes = blocking.tiles() ? 16 : vector_bytes / blocking.unit_bytes;
  blocking.block =
      choose_blocking(ctx.target, form, blocking.lanes, blocking.m, blocking.n, scattered_a ? kMostPointers : INT_MAX);
  blocking.masks_columns = ctx.target.is_x86 && ctx.target.vector_bytes == 64 && form.step == Step::kFma;
  blocking.widen_b = form.step == Step::kFma && dsl::is_small_float(form.b) && blocking.m <= blocking.block.rows;
  return blocking;
}

struct Operands {
  OperandA a;
  OperandB b;
};

Result<void> lower_product(Context& ctx, const Op& op, const DotBlocking& blocking, ValueId acc, Value* steps,
                           const std::function<Result<Operands>(const OperandC&)>& operands) {
  auto accumulators = accumulator(ctx, blocking, acc, op.results[0]);
  if (!accumulators) return accumulators.error();
  auto packed = operands(*accumulators);
  if (!packed) return packed.error();
  run_blocks(ctx, blocking, packed->a, packed->b, *accumulators, steps);
  return {};
}

constexpr int64_t kRowsOfColumn = 4;

bool suits_lanes_along_k(const DotBlocking& blocking) {
  const bool floats =
      blocking.form.step == Step::kFma && dsl::is_float(blocking.form.sum) && blocking.form.acc == blocking.form.sum;
  return floats && blocking.lanes > 1 && blocking.k >= 2 * blocking.lanes;
}

void put_lanes_along_k(DotBlocking& blocking) {
  blocking.along_k = true;
  blocking.lanes = 1;
  blocking.block = {static_cast<int>(std::min<int64_t>(blocking.m, kRowsOfColumn)), 1};
  blocking.masks_columns = blocking.widen_b = false;
}

// A single row times a B that lies by columns: the transposed product, of a single column.
Result<void> lower_transposed(Context& ctx, const Op& op, const DotBlocking& blocking, Value* steps) {
  Builder& ir = ctx.ir;
  DotBlocking column = blocking;
  std::swap(column.m, column.n);
  put_lanes_along_k(column);
  column.widen_rows = dsl::is_small_float(blocking.form.b);
  auto accumulators = accumulator(ctx, blocking, op.operands[2], op.results[0]);
  if (!accumulators) return accumulators.error();
  auto row = pack_a(ctx, blocking, op.operands[0], steps, nullptr);
  if (!row) return row.error();
  auto columns = rows_of_columns(ctx, column, op.operands[1], steps);
  if (!columns) return columns.error();
  accumulators->from.row = accumulators->to.row = ctx.i64(dsl::info(blocking.form.acc).bytes);
  if (accumulators->rows) {
    accumulators->rows = ir.CreateMul(ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, accumulators->rows, ctx.i64(1)),
                                      ctx.i64(blocking.n));
  }
  const OperandB x{row->pointer, ctx.i64(blocking.unit_bytes), ctx.i64(0), row->batch};
  run_blocks(ctx, column, *columns, x, *accumulators, steps);
  return {};
}

// Where both operands are zero from some place on along K, the products end there: steps, or null.
Value* steps_to_zeros(Context& ctx, const DotBlocking& blocking, ValueId a, ValueId b) {
  if (blocking.form.step != Step::kFma) return nullptr;
  const int row = ctx.type(a).rank() - 2;
  Value* of_a = Nest(ctx, dsl::concrete_shape(ctx.type(a))).bound_along(a, row + 1);
  Value* of_b = Nest(ctx, dsl::concrete_shape(ctx.type(b))).bound_along(b, row);
  return of_a && of_b ? ctx.ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, of_a, of_b) : nullptr;
}

// Where the blocks of one height begin and end, by row of A.
struct RowBlocks {
  int height;
  int64_t begin, end;
};

// As few blocks as there can be, all of one height or of two that differ by one. Tile registers hold 16 rows, and
// other instructions take two: there all blocks but the last are of full height.
std::vector<RowBlocks> split_rows(const DotBlocking& blocking) {
  const int64_t m = blocking.m, most = blocking.block.rows;
  if ((blocking.tiles() || blocking.blocks()) && m > most) {
    const int64_t whole = m / most * most;
    return {{static_cast<int>(most), 0, whole}, {static_cast<int>(m - whole), whole, m}};
  }
  const int64_t blocks = (m + most - 1) / most;
  const int64_t height = (m + blocks - 1) / blocks;
  const int64_t tall = m - blocks * (height - 1);
  std::vector<RowBlocks> out = {{static_cast<int>(height), 0, tall * height}};
  if (tall < blocks) out.push_back({static_cast<int>(height) - 1, tall * height, m});
  return out;
}

}  // namespace

void run_blocks(Context& ctx, const DotBlocking& blocking, const OperandA& a, const OperandB& b_operand,
                const OperandC& accumulators, Value* steps) {
  Builder& ir = ctx.ir;
  const int acc_bytes = dsl::info(blocking.form.acc).bytes;
  auto none = [](llvm::Instruction*) {};
  auto at = [&](Value* pointer, Value* index, Value* distance) {
    return ir.CreateInBoundsGEP(ir.getInt8Ty(), pointer, ir.CreateMul(index, distance));
  };
  std::vector<RowBlocks> heights = split_rows(blocking);
  std::erase_if(heights, [](const RowBlocks& rows) { return rows.begin == rows.end; });
  const bool one_height = heights.size() == 1;
  if (blocking.tiles() && one_height) configure_tiles(ctx, heights[0].height);
  emit_loop(ir, ctx.i64(0), ctx.i64(blocking.batch), ctx.i64(1), "batch", none, [&](Value* batch) {
    Value* a_batch = at(a.pointer, batch, a.batch);
    Value* b_batch = at(b_operand.pointer, batch, b_operand.batch);
    Value *from_batch = at(accumulators.from.pointer, batch, accumulators.from.batch),
          *to_batch = at(accumulators.to.pointer, batch, accumulators.to.batch);
    Value* correction = llvm::PoisonValue::get(ir.getPtrTy());
    if (b_operand.correction) correction = at(b_operand.correction, batch, ctx.i64(b_operand.correction_batch));
    auto run_panel = [&](Value* panel, bool last) {
      Value* b_panel = at(b_batch, panel, b_operand.panel);
      Value* columns = ir.CreateMul(panel, ctx.i64(blocking.panel() * acc_bytes));
      Value *from = at(from_batch, columns, ctx.i64(1)), *to = at(to_batch, columns, ctx.i64(1));
      Value* correction_here = b_operand.correction ? at(correction, panel, ctx.i64(blocking.panel() * 4)) : correction;
      for (const RowBlocks& rows : heights) {
        if (blocking.tiles() && !one_height) configure_tiles(ctx, rows.height);
        llvm::Function* kernel = blocking.along_k   ? column_kernel(ctx, blocking, rows.height)
                                 : blocking.tiles() ? tile_kernel(ctx, blocking, rows.height)
                                                    : micro_kernel(ctx, blocking, a.layout, rows.height, last);
        Value* end = ctx.i64(rows.end);
        if (accumulators.rows) end = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, accumulators.rows);
        emit_loop(ir, ctx.i64(rows.begin), end, ctx.i64(rows.height), "block", none, [&](Value* row) {
          // The block's share of the next panel; what lies behind the last one is mostly the first one of the next
          // iteration.
          Value* ahead = ir.CreateGEP(
              ir.getInt8Ty(), b_panel,
              ir.CreateAdd(b_operand.panel, ir.CreateMul(row, ctx.i64(packed_panel_bytes(blocking) / blocking.m))));
          const bool iterations = a.layout == LayoutA::kIterations;
          Value *block = at(a_batch, row, a.block), *first = iterations ? ctx.i64(0) : row;
          ir.CreateCall(kernel, {iterations ? a.pointer : block, iterations ? ir.CreateMul(row, a.block) : a.distance,
                                 b_panel, iterations ? panel : b_operand.row, at(from, first, accumulators.from.row),
                                 accumulators.from.row, at(to, first, accumulators.to.row), accumulators.to.row,
                                 correction_here, accumulators.fresh, ahead, steps});
        });
      }
    };
    const int64_t equal =
        blocking.tiles() || blocking.n % blocking.panel() == 0 ? blocking.panels() : blocking.panels() - 1;
    emit_loop(ir, ctx.i64(0), ctx.i64(equal), ctx.i64(1), "panel", none,
              [&](Value* panel) { run_panel(panel, false); });
    if (equal < blocking.panels()) run_panel(ctx.i64(equal), true);
  });
  if (blocking.tiles()) release_tiles(ctx);
}

DotBlocking choose_blocking(Context& ctx, const Op& dot) {
  const ValueId a = dot.operands[0], b = dot.operands[1], acc = dot.operands[2];
  const bool tf32 = static_cast<dsl::Precision>(std::get<int64_t>(dot.attrs[0])) == dsl::Precision::kTf32;
  const auto shape = dsl::concrete_shape(ctx.type(dot.results[0]));
  const int64_t m = shape[shape.size() - 2], k = dsl::concrete_shape(ctx.type(a)).back();
  const auto blocking_of = [&](const DotForm& form) {
    const bool has_units = form.step != Step::kTiles && form.step != Step::kBlocks;
    const bool as_it_lies = form.a == form.packed && has_units && !form.flip_a && !form.round_tf32;
    return make_blocking(ctx, form, shape, k, as_it_lies && k % form.k_multiple == 0 && has_scattered_rows(ctx, a));
  };
  const DotForm form =
      choose_form(ctx.target, ctx.type(a).element, ctx.type(b).element, ctx.type(acc).element, tf32, m);
  DotBlocking blocking = blocking_of(form);
  if (const auto pairs = form_for_pairs(ctx.target, form, m)) {
    const DotBlocking of_pairs = blocking_of(*pairs);
    if (may_lie_in_units(ctx, of_pairs, b)) return of_pairs;
  }
  if (blocking.n == 1 && !blocking.scattered_a && suits_lanes_along_k(blocking) &&
      (blocking.m == 1 || !lies_by_columns(ctx, a))) {
    put_lanes_along_k(blocking);
  }
  // B that is read once, and was not packed by us: going over it for corrections would take as long again.
  const int registers = (blocking.block.rows + 2) * blocking.block.vectors + 1;
  blocking.corrects_itself = form.flip_a && blocking.m <= blocking.block.rows &&
                             registers <= ctx.target.vector_registers && may_lie_in_units(ctx, blocking, b);
  return blocking;
}

Result<void> lower_dot(Context& ctx, const Op& op) {
  const ValueId a = op.operands[0], b = op.operands[1], acc = op.operands[2];
  DotBlocking blocking = choose_blocking(ctx, op);
  Value* steps = steps_to_zeros(ctx, blocking, a, b);
  blocking.some_steps = steps != nullptr;
  if (!steps) steps = ctx.i64(blocking.k_units);
  if (blocking.m == 1 && blocking.n > 1 && suits_lanes_along_k(blocking) && lies_by_columns(ctx, b)) {
    return lower_transposed(ctx, op, blocking, steps);
  }
  if (const int64_t iterations = fused_iterations(ctx, blocking, op); iterations > 1)
    return lower_iterations(ctx, blocking, op, steps, iterations);
  return lower_product(ctx, op, blocking, acc, steps, [&](const OperandC& accumulators) -> Result<Operands> {
    auto packed_a = pack_a(ctx, blocking, a, steps, accumulators.rows);
    if (!packed_a) return packed_a.error();
    auto packed_b = pack_b(ctx, blocking, b, steps);
    if (!packed_b) return packed_b.error();
    return Operands{*packed_a, *packed_b};
  });
}

// Elements times scales, and their products, are exact in f64; f32 would overflow where the sum need not.
Result<void> lower_dot_scaled(Context& ctx, const Op& op) {
  const auto scales = dsl::concrete_shape(ctx.type(op.operands[1]));
  DotForm form;
  form.a = form.b = form.packed = form.sum = ElementType::kF64;
  form.acc = ElementType::kF32;
  const DotBlocking blocking = make_blocking(ctx, form, dsl::concrete_shape(ctx.type(op.results[0])), 32 * scales[1]);
  return lower_product(ctx, op, blocking, op.operands[4], ctx.i64(blocking.k_units),
                       [&](const OperandC&) -> Result<Operands> {
                         auto a = unpack_scaled_a(ctx, blocking, op.operands[0], op.operands[1]);
                         if (!a) return a.error();
                         auto b = unpack_scaled_b(ctx, blocking, op.operands[2], op.operands[3]);
                         if (!b) return b.error();
                         return Operands{*a, *b};
                       });
}

}  // namespace kiln::codegen::cpu
