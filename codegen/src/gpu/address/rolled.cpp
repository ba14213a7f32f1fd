#include "gpu/address/rolled.h"

#include <algorithm>
#include <bit>

#include "gpu/address/register_groups.h"
#include "gpu/dot/dot_layouts.h"
#include "gpu/dot/group_dot.h"
#include "gpu/layout/algebra.h"
#include "gpu/layout/conversion.h"
#include "gpu/ops/memory.h"
#include "gpu/shared/shared_access.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int64_t kAtOnce = 16;  // accesses of an iteration: so many are under way together
constexpr int kWritePhase = 0, kReadPhase = 1;

// Whether a value can be computed in any layout from what all threads have alike.
bool is_computable(const Context& ctx, ValueId id) {
  if (ctx.type(id).rank() == 0) return true;
  const Op* op = ctx.definition[id];
  if (!op || ctx.placement.home[id]) return false;
  switch (op->code) {
    case OpCode::kArange:
    case OpCode::kSplat:
      return true;
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kAddptr:
    case OpCode::kAdd:
    case OpCode::kSub:
    case OpCode::kMul:
    case OpCode::kCast:
    case OpCode::kCmp:
    case OpCode::kAnd:
    case OpCode::kOr:
      return std::ranges::all_of(op->operands, [&](ValueId operand) { return is_computable(ctx, operand); });
    default:
      return false;
  }
}

// An access in a rolled loop.
struct RolledAccess {
  Layout layout;  // with the iteration's bits behind those of the warp
  int bits = 0;
};

// Nothing where the access is made at once: `operands` are those that are computed for each iteration, the pointers
// first.
std::optional<RolledAccess> rolled_of(Context& ctx, const Op& access, llvm::ArrayRef<ValueId> operands,
                                      std::optional<ValueId> mask, const Layout& layout) {
  if (ctx.effort != Effort::kShort || layout.shape() != dsl::concrete_shape(ctx.type(operands[0]))) return std::nullopt;
  if (layout.free_mask(Dim::kRegister) != 0) return std::nullopt;
  const int64_t vector = vector_of(ctx, access, layout, mask);
  const int64_t iterations = layout.size(Dim::kRegister) / vector / kAtOnce;
  if (iterations < 2) return std::nullopt;
  if (!std::ranges::all_of(operands, [&](ValueId id) { return is_computable(ctx, id); })) return std::nullopt;
  RolledAccess out{Layout(layout.shape()), std::countr_zero(static_cast<uint64_t>(iterations))};
  const Columns& registers = layout.bases(Dim::kRegister);
  const auto moved = registers.end() - out.bits;
  out.layout.add(Dim::kRegister, Columns(registers.begin(), moved));
  out.layout.add(Dim::kLane, layout.bases(Dim::kLane));
  out.layout.add(Dim::kWarp, layout.bases(Dim::kWarp));
  out.layout.add(Dim::kWarp, Columns(moved, registers.end()));
  if (vector_of(ctx, access, out.layout, mask) != vector) return std::nullopt;
  return out;
}

// What the body makes is that of one iteration.
Result<void> loop_over(Context& ctx, const RolledAccess& rolled, llvm::function_ref<Result<void>()> body) {
  Builder& ir = ctx.ir;
  llvm::BasicBlock* before = ir.GetInsertBlock();
  const auto block = [&](const char* name) { return llvm::BasicBlock::Create(ir.getContext(), name, ctx.function); };
  llvm::BasicBlock *head = block("turn"), *rest = block("turn.body"), *after = block("turn.end");
  ir.CreateBr(head);
  ir.SetInsertPoint(head);
  auto* iteration = ir.CreatePHI(ir.getInt32Ty(), 2, "turn");
  iteration->addIncoming(ir.getInt32(0), before);
  Value* first =
      ir.CreateShl(iteration, static_cast<uint64_t>(std::countr_zero(static_cast<unsigned>(ctx.block.warps))));
  Value* warp = ir.CreateOr(ctx.warp, first);
  llvm::Instruction* end_of_head = ir.CreateBr(rest);
  ir.SetInsertPoint(rest);
  Context::Iteration outside = ctx.begin_iteration(warp, end_of_head);
  Result<void> done = body();
  ctx.end_iteration(std::move(outside));
  Value* next = ir.CreateAdd(iteration, ir.getInt32(1));
  iteration->addIncoming(next, ir.GetInsertBlock());
  ir.CreateCondBr(ir.CreateICmpULT(next, ir.getInt32(1u << rolled.bits)), head, after);
  ir.SetInsertPoint(after);
  return done;
}

// Ops between a load and its product: other threads' writes must not come between.
bool is_harmless(const Op& op) {
  switch (op.code) {
    case OpCode::kStore:
    case OpCode::kAtomicRmw:
    case OpCode::kAtomicCas:
    case OpCode::kPrint:
      return false;
    default:
      return op.regions.empty();
  }
}

// Loops that copy ahead may have another order of ops.
bool is_in_order(const Context& ctx, const dsl::Region* region) {
  return std::ranges::none_of(ctx.placement.pipelines,
                              [&](const auto& entry) { return &entry.first->regions[0] == region; });
}

// The product that alone reads a tile, in the same region, from where materialise_in_shared() puts it; or null.
const Op* product_of(Context& ctx, const Op& load) {
  ValueId id = load.results[0];
  if (!is_in_order(ctx, ctx.region_of(id))) return nullptr;
  bool is_behind = false;
  for (const Op& op : ctx.region_of(id)->ops) {
    if (&op == &load) {
      is_behind = true;
    } else if (is_behind) {
      if (!is_harmless(op) || ctx.uses(id) != 1) return nullptr;
      const auto at = std::ranges::find(op.operands, id);
      if (at == op.operands.end()) continue;
      if (op.code == OpCode::kPermute && !ctx.placement.home[op.results[0]]) {
        id = op.results[0];
        continue;
      }
      if (op.code != OpCode::kDot || !dot_layouts(ctx.kernel, op, ctx.target, ctx.block).group) return nullptr;
      const auto number = at - op.operands.begin();
      return number == 1 || (number == 0 && !takes_a_from_registers(ctx, op)) ? &op : nullptr;
    }
  }
  return nullptr;
}

std::optional<RolledAccess> rolled_load(Context& ctx, const Op& load) {
  const auto& home = ctx.placement.home[load.results[0]];
  if (!home) return std::nullopt;
  return rolled_of(ctx, load, load.operands, operand(load, 1), *home);
}

// A tile on its way through shared memory to the threads that store it; nothing where it takes another way.
std::optional<RoundTrip> way_to_store(Context& ctx, ValueId id, const Layout& layout) {
  const auto& home = ctx.placement.home[id];
  if (!home || home->free_mask(Dim::kRegister) != 0) return std::nullopt;
  auto plan = plan_conversion(*home, layout, traveling_bits(ctx.type(id)), ctx.target.lane_facts());
  if (!plan || !std::holds_alternative<RoundTrip>(plan->how)) return std::nullopt;
  return std::get<RoundTrip>(plan->how);
}

}  // namespace

bool is_loaded_rolled(Context& ctx, const Op& load) { return rolled_load(ctx, load) && product_of(ctx, load); }

Result<void> load_rolled(Context& ctx, const Op& load, const SharedPanels& panels, const SharedBuffer& buffer) {
  const RolledAccess rolled = *rolled_load(ctx, load);
  const int bits = traveling_bits(ctx.type(load.results[0]));
  const SharedAccess access = plan_shared_store(panels.memory, rolled.layout, bits, ctx.target.lane_facts());
  ctx.order.mark(ctx.ir, load.operands[0], *ctx.placement.home[load.results[0]], GlobalOrder::Use::kRead);
  // What waits for others waits once.
  buffer.touch(ctx.ir, SharedBuffer::Access::kWrite, kWritePhase);
  return loop_over(ctx, rolled, [&]() -> Result<void> {
    auto registers = load_registers(ctx, load, rolled.layout, ctx.enabled(load.results[0]));
    if (!registers) return registers.error();
    for (Value*& x : *registers) x = to_bits(ctx, x, bits);
    store_shared(ctx, {&buffer, buffer.pointer(), kWritePhase}, access, *registers, bits);
    return {};
  });
}

Result<bool> store_rolled(Context& ctx, const Op& store) {
  const Layout& layout = ctx.placement.wanted.at(&store);
  const ValueId id = store.operands[1];
  const std::optional<ValueId> mask = operand(store, 2);
  std::vector<ValueId> operands = {store.operands[0]};
  if (mask) operands.push_back(*mask);
  const auto rolled = rolled_of(ctx, store, operands, mask, layout);
  const auto way = rolled ? way_to_store(ctx, id, layout) : std::nullopt;
  if (!way) return false;
  auto values = ctx.get(id);
  if (!values) return values.error();
  const int bits = traveling_bits(ctx.type(id));
  for (Value*& x : *values) x = to_bits(ctx, x, bits);
  const SharedBuffer buffer(ctx.ir, way->bytes);
  store_shared(ctx, {&buffer, buffer.pointer(), kWritePhase}, way->store, *values, bits);
  const SharedAccess access = plan_shared_load(way->memory, rolled->layout, bits, ctx.target.lane_facts());
  buffer.touch(ctx.ir, SharedBuffer::Access::kRead, kReadPhase);
  ctx.order.mark(ctx.ir, store.operands[0], layout, GlobalOrder::Use::kWrite);
  auto done = loop_over(ctx, *rolled, [&] {
    Registers part = load_shared(ctx, {&buffer, buffer.pointer(), kReadPhase}, access, bits);
    for (Value*& x : part) x = from_bits(ctx, x, ctx.type(id));
    return store_registers(ctx, store, rolled->layout, part);
  });
  if (!done) return done.error();
  return true;
}

}  // namespace kiln::codegen::gpu
