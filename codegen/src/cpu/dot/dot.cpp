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
#include "cpu/dot/dot_kernel.h"
#include "cpu/dot/dot_pack.h"
#include "cpu/dot/dot_rows.h"
#include "cpu/dot/dot_scaled.h"
#include "cpu/dot/dot_tiles.h"
#include "cpu/dot/dot_turns.h"
#include "cpu/dot/dot_units.h"
#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {
namespace {

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// More addresses than this do not fit into registers.
constexpr int kMostPointers = 10;

DotPlan make_plan(const Context& c, const DotForm& form, const std::vector<int64_t>& out_shape, int64_t k,
                  bool scattered_a = false) {
  DotPlan plan;
  plan.form = form;
  plan.scattered_a = scattered_a;
  const size_t rank = out_shape.size();
  plan.batch = rank == 3 ? out_shape[0] : 1;
  plan.m = out_shape[rank - 2];
  plan.n = out_shape[rank - 1];
  plan.k = k;
  plan.k_units = round_up(k, form.k_multiple) / form.group;
  plan.unit_bytes = dsl::info(form.sum).bytes;
  plan.unit = form.group > 1 ? llvm::Type::getInt32Ty(c.module.getContext())
                             : register_type(c.module.getContext(), dsl::scalar_type(form.packed));
  plan.lanes = plan.tiles() ? 16 : c.target.vector_bytes / plan.unit_bytes;
  plan.block = choose_blocking(c.target, form, plan.lanes, plan.m, plan.n, scattered_a ? kMostPointers : INT_MAX);
  plan.masks_columns = c.target.is_x86 && c.target.vector_bytes == 64 && form.step == Step::kFma;
  plan.widen_b = form.step == Step::kFma && dsl::is_small_float(form.b) && plan.m <= plan.block.rows;
  return plan;
}

struct Operands {
  OperandA a;
  OperandB b;
};

Result<void> lower_product(Context& c, const Op& op, const DotPlan& plan, ValueId acc, Value* steps,
                           const std::function<Result<Operands>(const OperandC&)>& operands) {
  auto sums = accumulator(c, plan, acc, op.results[0]);
  if (!sums) return sums.error();
  auto packed = operands(*sums);
  if (!packed) return packed.error();
  run_blocks(c, plan, packed->a, packed->b, *sums, steps);
  return {};
}

constexpr int64_t kRowsOfColumn = 4;

bool suits_lanes_along_k(const DotPlan& plan) {
  const bool floats = plan.form.step == Step::kFma && dsl::is_float(plan.form.sum) && plan.form.acc == plan.form.sum;
  return floats && plan.lanes > 1 && plan.k >= 2 * plan.lanes;
}

void put_lanes_along_k(DotPlan& plan) {
  plan.along_k = true;
  plan.lanes = 1;
  plan.block = {static_cast<int>(std::min<int64_t>(plan.m, kRowsOfColumn)), 1};
  plan.masks_columns = plan.widen_b = false;
}

// A single row times a B that lies by columns: the transposed product, of a single column.
Result<void> lower_turned(Context& c, const Op& op, const DotPlan& plan, Value* steps) {
  Builder& b = c.b;
  DotPlan column = plan;
  std::swap(column.m, column.n);
  put_lanes_along_k(column);
  column.widen_rows = dsl::is_small_float(plan.form.b);
  auto sums = accumulator(c, plan, op.operands[2], op.results[0]);
  if (!sums) return sums.error();
  auto row = pack_a(c, plan, op.operands[0], steps, nullptr);
  if (!row) return row.error();
  auto columns = rows_of_columns(c, column, op.operands[1], steps);
  if (!columns) return columns.error();
  sums->from.row = sums->to.row = c.i64(dsl::info(plan.form.acc).bytes);
  if (sums->rows) {
    sums->rows = b.CreateMul(b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, sums->rows, c.i64(1)), c.i64(plan.n));
  }
  const OperandB x{row->pointer, c.i64(plan.unit_bytes), c.i64(0), row->batch};
  run_blocks(c, column, *columns, x, *sums, steps);
  return {};
}

// Where both operands are zero from some place on along K, the products end there: steps, or null.
Value* steps_to_zeros(Context& c, const DotPlan& plan, ValueId a, ValueId b) {
  if (plan.form.step != Step::kFma) return nullptr;
  const int row = c.type(a).rank() - 2;
  Value* of_a = Nest(c, dsl::concrete_shape(c.type(a))).bound_along(a, row + 1);
  Value* of_b = Nest(c, dsl::concrete_shape(c.type(b))).bound_along(b, row);
  return of_a && of_b ? c.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, of_a, of_b) : nullptr;
}

// Where the blocks of one height begin and end, by row of A.
struct RowBlocks {
  int height;
  int64_t begin, end;
};

// As few blocks as there can be, all of one height or of two that differ by one. Tile registers hold 16 rows: a block
// of tiles may leave the last ones out, so there all blocks but the last are of full height.
std::vector<RowBlocks> split_rows(const DotPlan& plan) {
  const int64_t m = plan.m, most = plan.block.rows;
  if (plan.tiles() && m > most) {
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

void run_blocks(Context& c, const DotPlan& plan, const OperandA& a, const OperandB& b_operand, const OperandC& sums,
                Value* steps) {
  Builder& b = c.b;
  const int acc_bytes = dsl::info(plan.form.acc).bytes;
  auto none = [](llvm::Instruction*) {};
  auto at = [&](Value* pointer, Value* index, Value* distance) {
    return b.CreateInBoundsGEP(b.getInt8Ty(), pointer, b.CreateMul(index, distance));
  };
  std::vector<RowBlocks> heights = split_rows(plan);
  std::erase_if(heights, [](const RowBlocks& rows) { return rows.begin == rows.end; });
  const bool one_height = heights.size() == 1;
  if (plan.tiles() && one_height) configure_tiles(c, heights[0].height);
  emit_loop(b, c.i64(0), c.i64(plan.batch), c.i64(1), "batch", none, [&](Value* batch) {
    Value* a_batch = at(a.pointer, batch, a.batch);
    Value* b_batch = at(b_operand.pointer, batch, b_operand.batch);
    Value *from_batch = at(sums.from.pointer, batch, sums.from.batch),
          *to_batch = at(sums.to.pointer, batch, sums.to.batch);
    Value* correction = llvm::PoisonValue::get(b.getPtrTy());
    if (b_operand.correction) correction = at(b_operand.correction, batch, c.i64(b_operand.correction_batch));
    auto run_panel = [&](Value* panel, bool last) {
      Value* b_panel = at(b_batch, panel, b_operand.panel);
      Value* columns = b.CreateMul(panel, c.i64(plan.panel() * acc_bytes));
      Value *from = at(from_batch, columns, c.i64(1)), *to = at(to_batch, columns, c.i64(1));
      Value* correction_here = b_operand.correction ? at(correction, panel, c.i64(plan.panel() * 4)) : correction;
      for (const RowBlocks& rows : heights) {
        if (plan.tiles() && !one_height) configure_tiles(c, rows.height);
        llvm::Function* kernel = plan.along_k   ? column_kernel(c, plan, rows.height)
                                 : plan.tiles() ? tile_kernel(c, plan, rows.height)
                                                : micro_kernel(c, plan, a.layout, rows.height, last);
        Value* end = c.i64(rows.end);
        if (sums.rows) end = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, sums.rows);
        emit_loop(b, c.i64(rows.begin), end, c.i64(rows.height), "block", none, [&](Value* row) {
          // The block's share of the next panel; what lies behind the last one is mostly the first one of the next
          // turn.
          Value* ahead =
              b.CreateGEP(b.getInt8Ty(), b_panel,
                          b.CreateAdd(b_operand.panel, b.CreateMul(row, c.i64(packed_panel_bytes(plan) / plan.m))));
          const bool turns = a.layout == LayoutA::kTurns;
          Value *block = at(a_batch, row, a.block), *first = turns ? c.i64(0) : row;
          b.CreateCall(kernel, {turns ? a.pointer : block, turns ? b.CreateMul(row, a.block) : a.distance, b_panel,
                                turns ? panel : b_operand.row, at(from, first, sums.from.row), sums.from.row,
                                at(to, first, sums.to.row), sums.to.row, correction_here, sums.fresh, ahead, steps});
        });
      }
    };
    const int64_t equal = plan.tiles() || plan.n % plan.panel() == 0 ? plan.panels() : plan.panels() - 1;
    emit_loop(b, c.i64(0), c.i64(equal), c.i64(1), "panel", none, [&](Value* panel) { run_panel(panel, false); });
    if (equal < plan.panels()) run_panel(c.i64(equal), true);
  });
  if (plan.tiles()) release_tiles(c);
}

DotPlan plan_dot(Context& c, const Op& dot) {
  const ValueId a = dot.operands[0], b = dot.operands[1], acc = dot.operands[2];
  const bool tf32 = static_cast<dsl::Precision>(std::get<int64_t>(dot.attrs[0])) == dsl::Precision::kTf32;
  const auto shape = dsl::concrete_shape(c.type(dot.results[0]));
  const int64_t m = shape[shape.size() - 2], k = dsl::concrete_shape(c.type(a)).back();
  const auto plan_of = [&](const DotForm& form) {
    const bool has_units = form.step != Step::kTiles;
    const bool as_it_lies = form.a == form.packed && has_units && !form.flip_a && !form.round_tf32;
    return make_plan(c, form, shape, k, as_it_lies && k % form.k_multiple == 0 && has_scattered_rows(c, a));
  };
  const DotForm form = choose_form(c.target, c.type(a).element, c.type(b).element, c.type(acc).element, tf32, m);
  DotPlan plan = plan_of(form);
  if (const auto pairs = form_for_pairs(c.target, form, m)) {
    const DotPlan of_pairs = plan_of(*pairs);
    if (may_lie_in_units(c, of_pairs, b)) return of_pairs;
  }
  if (plan.n == 1 && !plan.scattered_a && suits_lanes_along_k(plan) && (plan.m == 1 || !lies_by_columns(c, a))) {
    put_lanes_along_k(plan);
  }
  // B that is read once, and was not packed by us: going over it for corrections would take as long again.
  const int registers = (plan.block.rows + 2) * plan.block.vectors + 1;
  plan.corrects_itself = form.flip_a && plan.m <= plan.block.rows && registers <= c.target.vector_registers &&
                         may_lie_in_units(c, plan, b);
  return plan;
}

Result<void> lower_dot(Context& c, const Op& op) {
  const ValueId a = op.operands[0], b = op.operands[1], acc = op.operands[2];
  DotPlan plan = plan_dot(c, op);
  Value* steps = steps_to_zeros(c, plan, a, b);
  plan.some_steps = steps != nullptr;
  if (!steps) steps = c.i64(plan.k_units);
  if (plan.m == 1 && plan.n > 1 && suits_lanes_along_k(plan) && lies_by_columns(c, b)) {
    return lower_turned(c, op, plan, steps);
  }
  if (const int64_t turns = turns_together(c, plan, op); turns > 1) return lower_turn(c, plan, op, steps, turns);
  return lower_product(c, op, plan, acc, steps, [&](const OperandC& sums) -> Result<Operands> {
    auto packed_a = pack_a(c, plan, a, steps, sums.rows);
    if (!packed_a) return packed_a.error();
    auto packed_b = pack_b(c, plan, b, steps);
    if (!packed_b) return packed_b.error();
    return Operands{*packed_a, *packed_b};
  });
}

// Elements times scales, and their products, are exact in f64; f32 would overflow where the sum need not.
Result<void> lower_dot_scaled(Context& c, const Op& op) {
  const auto scales = dsl::concrete_shape(c.type(op.operands[1]));
  DotForm form;
  form.a = form.b = form.packed = form.sum = ElementType::kF64;
  form.acc = ElementType::kF32;
  const DotPlan plan = make_plan(c, form, dsl::concrete_shape(c.type(op.results[0])), 32 * scales[1]);
  return lower_product(c, op, plan, op.operands[4], c.i64(plan.k_units), [&](const OperandC&) -> Result<Operands> {
    auto a = unpack_scaled_a(c, plan, op.operands[0], op.operands[1]);
    if (!a) return a.error();
    auto b = unpack_scaled_b(c, plan, op.operands[2], op.operands[3]);
    if (!b) return b.error();
    return Operands{*a, *b};
  });
}

}  // namespace kiln::codegen::cpu
