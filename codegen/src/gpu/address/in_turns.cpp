#include "gpu/address/in_turns.h"

#include <algorithm>
#include <bit>

#include "gpu/address/register_groups.h"
#include "gpu/dot/group_dot.h"
#include "gpu/layout/algebra.h"
#include "gpu/layout/conversion.h"
#include "gpu/dot/dot_layouts.h"
#include "gpu/ops/memory.h"
#include "gpu/shared/shared_access.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int64_t kAtOnce = 16;  // accesses of a turn: so many are under way together
constexpr int kWritePhase = 0, kReadPhase = 1;

// Whether a value can be computed in any layout from what all threads have alike.
bool is_computable(const Context& c, ValueId id) {
  if (c.type(id).rank() == 0) return true;
  const Op* op = c.definition[id];
  if (!op || c.placement.home[id]) return false;
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
      return std::ranges::all_of(op->operands, [&](ValueId operand) { return is_computable(c, operand); });
    default:
      return false;
  }
}

// An access in turns.
struct Turns {
  Layout layout;  // with the turn's bits behind those of the warp
  int bits = 0;
};

// Nothing where the access is made at once: `operands` are those that are computed for each turn, the pointers first.
std::optional<Turns> turns_of(Context& c, const Op& access, llvm::ArrayRef<ValueId> operands,
                              std::optional<ValueId> mask, const Layout& layout) {
  if (c.effort != Effort::kShort || layout.shape() != dsl::concrete_shape(c.type(operands[0]))) return std::nullopt;
  if (layout.free_mask(Dim::kRegister) != 0) return std::nullopt;
  const int64_t vector = vector_of(c, access, layout, mask);
  const int64_t turns = layout.size(Dim::kRegister) / vector / kAtOnce;
  if (turns < 2) return std::nullopt;
  if (!std::ranges::all_of(operands, [&](ValueId id) { return is_computable(c, id); })) return std::nullopt;
  Turns out{Layout(layout.shape()), std::countr_zero(static_cast<uint64_t>(turns))};
  const Columns& registers = layout.bases(Dim::kRegister);
  const auto moved = registers.end() - out.bits;
  out.layout.add(Dim::kRegister, Columns(registers.begin(), moved));
  out.layout.add(Dim::kLane, layout.bases(Dim::kLane));
  out.layout.add(Dim::kWarp, layout.bases(Dim::kWarp));
  out.layout.add(Dim::kWarp, Columns(moved, registers.end()));
  if (vector_of(c, access, out.layout, mask) != vector) return std::nullopt;
  return out;
}

// What the body makes is that of one turn.
Result<void> loop_over(Context& c, const Turns& turns, llvm::function_ref<Result<void>()> body) {
  Builder& b = c.b;
  llvm::BasicBlock* before = b.GetInsertBlock();
  const auto block = [&](const char* name) { return llvm::BasicBlock::Create(b.getContext(), name, c.function); };
  llvm::BasicBlock *head = block("turn"), *rest = block("turn.body"), *after = block("turn.end");
  b.CreateBr(head);
  b.SetInsertPoint(head);
  auto* turn = b.CreatePHI(b.getInt32Ty(), 2, "turn");
  turn->addIncoming(b.getInt32(0), before);
  Value* first = b.CreateShl(turn, static_cast<uint64_t>(std::countr_zero(static_cast<unsigned>(c.block.warps))));
  Value* warp = b.CreateOr(c.warp, first);
  llvm::Instruction* end_of_head = b.CreateBr(rest);
  b.SetInsertPoint(rest);
  Context::Turn outside = c.begin_turn(warp, end_of_head);
  Result<void> done = body();
  c.end_turn(std::move(outside));
  Value* next = b.CreateAdd(turn, b.getInt32(1));
  turn->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpULT(next, b.getInt32(1u << turns.bits)), head, after);
  b.SetInsertPoint(after);
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
bool is_in_order(const Context& c, const dsl::Region* region) {
  return std::ranges::none_of(c.placement.pipelines,
                              [&](const auto& entry) { return &entry.first->regions[0] == region; });
}

// The product that alone reads a tile, in the same region, from where put_in_shared() puts it; or null.
const Op* product_of(Context& c, const Op& load) {
  ValueId id = load.results[0];
  if (!is_in_order(c, c.region_of(id))) return nullptr;
  bool is_behind = false;
  for (const Op& op : c.region_of(id)->ops) {
    if (&op == &load) {
      is_behind = true;
    } else if (is_behind) {
      if (!is_harmless(op) || c.uses(id) != 1) return nullptr;
      const auto at = std::ranges::find(op.operands, id);
      if (at == op.operands.end()) continue;
      if (op.code == OpCode::kPermute && !c.placement.home[op.results[0]]) {
        id = op.results[0];
        continue;
      }
      if (op.code != OpCode::kDot || !dot_layouts(c.kernel, op, c.target, c.block).group) return nullptr;
      const auto number = at - op.operands.begin();
      return number == 1 || (number == 0 && !takes_a_from_registers(c, op)) ? &op : nullptr;
    }
  }
  return nullptr;
}

std::optional<Turns> turns_of_load(Context& c, const Op& load) {
  const auto& home = c.placement.home[load.results[0]];
  if (!home) return std::nullopt;
  return turns_of(c, load, load.operands, operand(load, 1), *home);
}

// A tile on its way through shared memory to the threads that store it; nothing where it takes another way.
std::optional<RoundTrip> way_to_store(Context& c, ValueId id, const Layout& layout) {
  const auto& home = c.placement.home[id];
  if (!home || home->free_mask(Dim::kRegister) != 0) return std::nullopt;
  auto plan = plan_conversion(*home, layout, traveling_bits(c.type(id)), c.target.lane_facts());
  if (!plan || !std::holds_alternative<RoundTrip>(plan->how)) return std::nullopt;
  return std::get<RoundTrip>(plan->how);
}

}  // namespace

bool is_loaded_in_turns(Context& c, const Op& load) { return turns_of_load(c, load) && product_of(c, load); }

Result<void> load_in_turns(Context& c, const Op& load, const SharedPanels& panels, const SharedBuffer& buffer) {
  const Turns turns = *turns_of_load(c, load);
  const int bits = traveling_bits(c.type(load.results[0]));
  const SharedAccess access = plan_shared_store(panels.memory, turns.layout, bits, c.target.lane_facts());
  c.order.mark(c.b, load.operands[0], *c.placement.home[load.results[0]], GlobalOrder::Use::kRead);
  // What waits for others waits once.
  buffer.touch(c.b, SharedBuffer::Access::kWrite, kWritePhase);
  return loop_over(c, turns, [&]() -> Result<void> {
    auto registers = load_registers(c, load, turns.layout, c.enabled(load.results[0]));
    if (!registers) return registers.error();
    for (Value*& x : *registers) x = to_bits(c, x, bits);
    store_shared(c, {&buffer, buffer.pointer(), kWritePhase}, access, *registers, bits);
    return {};
  });
}

Result<bool> store_in_turns(Context& c, const Op& store) {
  const Layout& layout = c.placement.wanted.at(&store);
  const ValueId id = store.operands[1];
  const std::optional<ValueId> mask = operand(store, 2);
  std::vector<ValueId> operands = {store.operands[0]};
  if (mask) operands.push_back(*mask);
  const auto turns = turns_of(c, store, operands, mask, layout);
  const auto way = turns ? way_to_store(c, id, layout) : std::nullopt;
  if (!way) return false;
  auto values = c.get(id);
  if (!values) return values.error();
  const int bits = traveling_bits(c.type(id));
  for (Value*& x : *values) x = to_bits(c, x, bits);
  const SharedBuffer buffer(c.b, way->bytes);
  store_shared(c, {&buffer, buffer.pointer(), kWritePhase}, way->store, *values, bits);
  const SharedAccess access = plan_shared_load(way->memory, turns->layout, bits, c.target.lane_facts());
  buffer.touch(c.b, SharedBuffer::Access::kRead, kReadPhase);
  c.order.mark(c.b, store.operands[0], layout, GlobalOrder::Use::kWrite);
  auto done = loop_over(c, *turns, [&] {
    Registers part = load_shared(c, {&buffer, buffer.pointer(), kReadPhase}, access, bits);
    for (Value*& x : part) x = from_bits(c, x, c.type(id));
    return store_registers(c, store, turns->layout, part);
  });
  if (!done) return done.error();
  return true;
}

}  // namespace kiln::codegen::gpu
