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
const Op* load_of_units(const Context& c, const DotPlan& plan, ValueId id) {
  const Op* reshape = c.schedule.definition[id];
  if (!reshape || reshape->code != OpCode::kReshape || c.slots[id] || c.schedule.use_count[id] != 1) return nullptr;
  const ValueId rows = reshape->operands[0];
  const Op* permute = c.schedule.definition[rows];
  if (!permute || permute->code != OpCode::kPermute || c.slots[rows] || c.schedule.materialise[rows]) return nullptr;
  const auto shape = dsl::concrete_shape(c.type(rows));
  const bool units = shape.size() == 3 && shape[1] == plan.form.group && shape[2] == plan.n && plan.form.group > 1;
  const Op* load = c.schedule.definition[permute->operands[0]];
  const bool turned = dsl::concrete_shape(c.type(permute->operands[0])) ==
                      std::vector<int64_t>{plan.k / plan.form.group, plan.n, plan.form.group};
  // What lies in scratch may be something else by the time that a list of turns is multiplied.
  if (!units || !turned || !load || load->code != OpCode::kLoad || c.slots[load->results[0]]) return nullptr;
  const auto& axes = std::get<std::vector<dsl::Expr>>(permute->attrs[0]);
  if (axes != std::vector<dsl::Expr>{dsl::Expr(0), dsl::Expr(2), dsl::Expr(1)}) return nullptr;
  const bool as_packed = plan.form.b == plan.form.packed || dsl::info(plan.form.packed).bits == 8;
  return as_packed && plan.k % plan.form.k_multiple == 0 && plan.n % plan.panel() == 0 ? load : nullptr;
}

bool is_number(Value* x, int64_t number) {
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(x);
  return constant && constant->getSExtValue() == number;
}

// What the flipped bits of A add to the columns of B: 128 times their sums, of either sign. Sums of a panel at a time:
// one alone would wait for itself.
void add_up_corrections(Context& c, const DotPlan& plan, const OperandB& operand) {
  Builder& b = c.b;
  auto none = [](llvm::Instruction*) {};
  auto at = [&](Value* pointer, Value* offset) { return b.CreateInBoundsGEP(b.getInt8Ty(), pointer, offset); };
  auto* units = vector_of(plan, b.getInt32Ty());
  const int64_t bytes = int64_t{plan.lanes} * plan.unit_bytes;
  std::vector<Value*> sums;
  for (int v = 0; v < plan.block.vectors; ++v) sums.push_back(entry_alloca(c, units));
  emit_loop(b, c.i64(0), c.i64(plan.panels()), c.i64(1), "corrections", none, [&](Value* panel) {
    for (Value* sum : sums) b.CreateStore(llvm::Constant::getNullValue(units), sum);
    Value* first = at(operand.pointer, b.CreateMul(panel, operand.panel));
    emit_loop(b, c.i64(0), c.i64(plan.k_units), c.i64(1), "k", none, [&](Value* k) {
      Value* row = at(first, b.CreateMul(k, operand.row));
      for (size_t v = 0; v < sums.size(); ++v) {
        Value* unit = b.CreateAlignedLoad(units, at(row, c.i64(static_cast<int64_t>(v) * bytes)), llvm::Align(1));
        Value *flipped = llvm::ConstantInt::get(units, 0x80808080), *before = b.CreateLoad(units, sums[v]);
        b.CreateStore(step_forward(c, b, plan.form, flipped, unit, before), sums[v]);
      }
    });
    Value* to = at(operand.correction, b.CreateMul(panel, c.i64(plan.panel() * 4)));
    for (size_t v = 0; v < sums.size(); ++v) {
      b.CreateAlignedStore(b.CreateLoad(units, sums[v]), at(to, c.i64(static_cast<int64_t>(v) * bytes)),
                           llvm::Align(4));
    }
  });
}

}  // namespace

bool may_lie_in_units(const Context& c, const DotPlan& plan, ValueId id) { return load_of_units(c, plan, id); }

// `reshape` is one of the region's ops.
bool is_read_in_units(Context& c, const Op& reshape) {
  const ValueId id = reshape.results[0];
  if (c.kernel.options.check_bounds || c.schedule.use_count[id] != 1) return false;
  // Up to here the schedule sees to it that the load reads what it should (schedule.cpp).
  for (const Op* at = &reshape + 1; at != c.region->ops.data() + c.region->ops.size(); ++at) {
    const Op& op = *at;
    if (op.code == OpCode::kDot && op.operands[1] == id) {
      const DotPlan plan = plan_dot(c, op);
      return plan.batch == 1 && load_of_units(c, plan, id);
    }
    if (has_effect(op) || !op.regions.empty()) return false;
  }
  return false;
}

std::optional<Nest::MemoryView> units_in_memory(Context& c, const DotPlan& plan, ValueId id) {
  const Op* load = load_of_units(c, plan, id);
  if (!load) return std::nullopt;
  Nest nest(c, dsl::concrete_shape(c.type(load->results[0])));
  auto view = nest.memory_view(load->results[0]);
  if (!view || !is_number(view->strides[1], plan.form.group) || !is_number(view->strides[2], 1)) return std::nullopt;
  return view;
}

Result<OperandB> read_units(Context& c, const DotPlan& plan, ValueId id, OperandB packed,
                            const std::optional<Nest::MemoryView>& view, llvm::function_ref<Result<void>()> pack) {
  Builder& b = c.b;
  Value* in_place = view ? view->whole : b.getFalse();
  OperandB out = packed;
  if (view) {
    out.pointer = b.CreateSelect(in_place, view->pointer, packed.pointer);
    Value* row = b.CreateMul(view->strides[0], c.i64(dsl::info(plan.form.b).bytes));
    out.row = b.CreateSelect(in_place, row, packed.row);
    out.panel = b.CreateSelect(in_place, c.i64(plan.panel() * plan.unit_bytes), packed.panel);
    out.stays = b.CreateOr(in_place, packed.stays);
  }
  // Elsewhere the tile is made and packed, as any other.
  const Op& reshape = *c.schedule.definition[id];
  auto made = unless(c, b.CreateOr(in_place, b.CreateNot(packed.is_new)), [&]() -> Result<void> {
    const auto rows = c.slots[reshape.operands[0]];
    if (auto done = lower_shape_op(c, reshape); !done) return done;
    auto done = pack();
    c.slots[id].reset();
    c.slots[reshape.operands[0]] = rows;
    return done;
  });
  if (!made) return made.error();
  if (out.correction) {
    auto done = unless(c, b.CreateNot(b.CreateAnd(in_place, packed.is_new)), [&]() -> Result<void> {
      add_up_corrections(c, plan, out);
      return {};
    });
    if (!done) return done.error();
  }
  return out;
}

}  // namespace kiln::codegen::cpu
