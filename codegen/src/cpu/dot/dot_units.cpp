// B that was packed ahead in units, which the micro-kernel then reads where it lies.
//
//   %units = load  …                         [K/group, N, group], the units of a row side by side
//   %rows  = permute %units {0, 2, 1}        [K/group, group, N]
//   %b     = reshape %rows                   [K, N]
//   dot %a, %b, %acc                         reads %units, and %b is never made
#include "cpu/dot/dot_units.h"

#include "cpu/dot/dot.h"
#include "cpu/dot/dot_form.h"
#include "cpu/dot/dot_kernel.h"
#include "cpu/nest/materialise.h"
#include "cpu/ops/shape_ops.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

// The load behind such a B; null for any other.
const Op* load_of_units(const Context& ctx, const DotBlocking& blocking, ValueId id) {
  const Op* reshape = ctx.schedule.definition[id];
  if (!reshape || reshape->code != OpCode::kReshape || ctx.slots[id] || ctx.schedule.use_count[id] != 1) return nullptr;
  const ValueId rows = reshape->operands[0];
  const Op* permute = ctx.schedule.definition[rows];
  if (!permute || permute->code != OpCode::kPermute || ctx.slots[rows] || ctx.schedule.materialise[rows])
    return nullptr;
  const auto shape = dsl::concrete_shape(ctx.type(rows));
  const bool units =
      shape.size() == 3 && shape[1] == blocking.form.group && shape[2] == blocking.n && blocking.form.group > 1;
  const Op* load = ctx.schedule.definition[permute->operands[0]];
  const bool transposed = dsl::concrete_shape(ctx.type(permute->operands[0])) ==
                          std::vector<int64_t>{blocking.k / blocking.form.group, blocking.n, blocking.form.group};
  // What lies in scratch may be something else by the time that a list of iterations is multiplied.
  if (!units || !transposed || !load || load->code != OpCode::kLoad || ctx.slots[load->results[0]]) return nullptr;
  const auto& axes = std::get<std::vector<dsl::Expr>>(permute->attrs[0]);
  if (axes != std::vector<dsl::Expr>{dsl::Expr(0), dsl::Expr(2), dsl::Expr(1)}) return nullptr;
  const bool as_packed = blocking.form.b == blocking.form.packed || dsl::info(blocking.form.packed).bits == 8;
  return as_packed && blocking.k % blocking.form.k_multiple == 0 && blocking.n % blocking.panel() == 0 ? load : nullptr;
}

bool is_number(Value* x, int64_t number) {
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(x);
  return constant && constant->getSExtValue() == number;
}

// What the flipped bits of A add to the columns of B: 128 times their sums, of either sign. Sums of a panel at a time:
// one alone would wait for itself.
void add_up_corrections(Context& ctx, const DotBlocking& blocking, const OperandB& operand) {
  Builder& ir = ctx.ir;
  auto none = [](llvm::Instruction*) {};
  auto at = [&](Value* pointer, Value* offset) { return ir.CreateInBoundsGEP(ir.getInt8Ty(), pointer, offset); };
  auto* units = vector_of(blocking, ir.getInt32Ty());
  const int64_t bytes = int64_t{blocking.lanes} * blocking.unit_bytes;
  std::vector<Value*> accumulators;
  for (int v = 0; v < blocking.block.vectors; ++v) accumulators.push_back(entry_alloca(ctx, units));
  emit_loop(ir, ctx.i64(0), ctx.i64(blocking.panels()), ctx.i64(1), "corrections", none, [&](Value* panel) {
    for (Value* sum : accumulators) ir.CreateStore(llvm::Constant::getNullValue(units), sum);
    Value* first = at(operand.pointer, ir.CreateMul(panel, operand.panel));
    emit_loop(ir, ctx.i64(0), ctx.i64(blocking.k_units), ctx.i64(1), "k", none, [&](Value* k) {
      Value* row = at(first, ir.CreateMul(k, operand.row));
      for (size_t v = 0; v < accumulators.size(); ++v) {
        Value* unit = ir.CreateAlignedLoad(units, at(row, ctx.i64(static_cast<int64_t>(v) * bytes)), llvm::Align(1));
        Value *flipped = llvm::ConstantInt::get(units, 0x80808080), *before = ir.CreateLoad(units, accumulators[v]);
        ir.CreateStore(step_forward(ctx, ir, blocking.form, flipped, unit, before), accumulators[v]);
      }
    });
    Value* to = at(operand.correction, ir.CreateMul(panel, ctx.i64(blocking.panel() * 4)));
    for (size_t v = 0; v < accumulators.size(); ++v) {
      ir.CreateAlignedStore(ir.CreateLoad(units, accumulators[v]), at(to, ctx.i64(static_cast<int64_t>(v) * bytes)),
                            llvm::Align(4));
    }
  });
}

}  // namespace

bool may_lie_in_units(const Context& ctx, const DotBlocking& blocking, ValueId id) {
  return load_of_units(ctx, blocking, id);
}

// `reshape` is one of the region's ops.
bool is_read_in_units(Context& ctx, const Op& reshape) {
  const ValueId id = reshape.results[0];
  if (ctx.kernel.options.check_bounds || ctx.schedule.use_count[id] != 1) return false;
  // Up to here the schedule sees to it that the load reads what it should (schedule.cpp).
  for (const Op* at = &reshape + 1; at != ctx.region->ops.data() + ctx.region->ops.size(); ++at) {
    const Op& op = *at;
    if (op.code == OpCode::kDot && op.operands[1] == id) {
      const DotBlocking blocking = choose_blocking(ctx, op);
      return blocking.batch == 1 && load_of_units(ctx, blocking, id);
    }
    if (has_effect(op) || !op.regions.empty()) return false;
  }
  return false;
}

std::optional<Nest::MemoryView> units_in_memory(Context& ctx, const DotBlocking& blocking, ValueId id) {
  const Op* load = load_of_units(ctx, blocking, id);
  if (!load) return std::nullopt;
  Nest nest(ctx, dsl::concrete_shape(ctx.type(load->results[0])));
  auto view = nest.memory_view(load->results[0]);
  if (!view || !is_number(view->strides[1], blocking.form.group) || !is_number(view->strides[2], 1))
    return std::nullopt;
  return view;
}

Result<OperandB> read_units(Context& ctx, const DotBlocking& blocking, ValueId id, OperandB packed,
                            const std::optional<Nest::MemoryView>& view, llvm::function_ref<Result<void>()> pack) {
  Builder& ir = ctx.ir;
  Value* in_place = view ? view->whole : ir.getFalse();
  OperandB out = packed;
  if (view) {
    out.pointer = ir.CreateSelect(in_place, view->pointer, packed.pointer);
    Value* row = ir.CreateMul(view->strides[0], ctx.i64(dsl::info(blocking.form.b).bytes));
    out.row = ir.CreateSelect(in_place, row, packed.row);
    out.panel = ir.CreateSelect(in_place, ctx.i64(blocking.panel() * blocking.unit_bytes), packed.panel);
    out.stays = ir.CreateOr(in_place, packed.stays);
  }
  // Elsewhere the tile is made and packed, as any other.
  const Op& reshape = *ctx.schedule.definition[id];
  auto made = unless(ctx, ir.CreateOr(in_place, ir.CreateNot(packed.is_new)), [&]() -> Result<void> {
    const auto rows = ctx.slots[reshape.operands[0]];
    if (auto done = lower_shape_op(ctx, reshape); !done) return done;
    auto done = pack();
    ctx.slots[id].reset();
    ctx.slots[reshape.operands[0]] = rows;
    return done;
  });
  if (!made) return made.error();
  if (out.correction) {
    auto done = unless(ctx, ir.CreateNot(ir.CreateAnd(in_place, packed.is_new)), [&]() -> Result<void> {
      add_up_corrections(ctx, blocking, out);
      return {};
    });
    if (!done) return done.error();
  }
  return out;
}

}  // namespace kiln::codegen::cpu
