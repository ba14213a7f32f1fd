#include "gpu/context.h"

#include <algorithm>
#include <numeric>

#include "elementwise/calls.h"
#include "gpu/analysis/constant_loads.h"
#include "gpu/analysis/plain_divisions.h"
#include "gpu/dot/tensor_memory.h"
#include "gpu/evaluate.h"
#include "gpu/layout/coalesce.h"
#include "gpu/lower.h"
#include "gpu/shared/convert.h"
#include "gpu/shared/shared_tile.h"

namespace kiln::codegen::gpu {
namespace {

// A long op on so many registers of a thread counts as one of those that are too many to be inline (calls.h).
constexpr int64_t kRegistersTogether = 8;

// A product of several warps would wait for its end beside calls (docs/inside/gpu/products.md).
bool calls_long_ops_of(const ShapedKernel& shaped) {
  const dsl::Kernel& kernel = *shaped.kernel;
  return !has_products(kernel.body) && has_many_long_ops(kernel, kRegistersTogether * shaped.block.threads());
}

BulkAccesses bulk_accesses_of(const ShapedKernel& shaped, const TargetInfo& target) {
  const dsl::Kernel& kernel = *shaped.kernel;
  if (!target.bulk_engine() || !allows_bulk(kernel) || shaped.block.programs > 1) return {};
  return plan_bulk_accesses(kernel, shaped.placement, shaped.info, shaped.block, shaped.launch.bulk_stores);
}

}  // namespace

Decisions::Decisions(const ShapedKernel& shaped, const TargetInfo& of)
    : target(of),
      placement(shaped.placement),
      block(shaped.block),
      effort(shaped.launch.effort),
      definition(dsl::definitions(*shaped.kernel)),
      info(shaped.info),
      bulk(bulk_accesses_of(shaped, of)),
      constant_loads(gpu::constant_loads(*shaped.kernel, shaped.block.threads(), !bulk.empty())),
      plain_divisions(gpu::plain_divisions(*shaped.kernel)) {}

Context::Context(const ShapedKernel& shaped, const TargetInfo& t, llvm::Module& m, const std::string& name)
    : ElementContext{*shaped.kernel, name, t.math(), true, false, t.small_floats(), calls_long_ops_of(shaped)},
      Decisions(shaped, t),
      Entry{m},
      Emission{LinearForms(kernel, info), GlobalOrder(kernel)},
      def_use_(kernel) {
  scopes_.push_back({&kernel.body, nullptr, nullptr, {}, {}, {}});
}

Scope& Context::scope_of(ValueId id) {
  for (Scope& scope : scopes_) {
    if (scope.region == region_of(id)) return scope;
  }
  return scopes_.back();
}

size_t Context::number_of(const Layout& layout) {
  for (size_t i = 0; i < layouts_.size(); ++i) {
    if (layouts_[i] == layout) return i;
  }
  layouts_.push_back(layout);
  return layouts_.size() - 1;
}

void Context::define(ValueId id, const Layout& layout, Registers registers) {
  scope_of(id).computed[{id, number_of(layout)}] = std::move(registers);
}

Value* Context::scalar(ValueId id) {
  const Scope& scope = scope_of(id);
  return scope.computed.at({id, number_of(*placement.home[id])})[0];
}

void Context::stand_where_defined(ValueId id) {
  if (llvm::Instruction* before = scope_of(id).before) ir.SetInsertPoint(before);
}

const SharedTile* Context::shared(ValueId id, std::optional<int> fast) {
  const auto [first, last] = scope_of(id).shared.equal_range(id);
  const auto found =
      std::find_if(first, last, [&](const auto& entry) { return !fast || entry.second.panels.fast == *fast; });
  return found == last ? nullptr : &found->second;
}

void Context::define_shared(ValueId id, SharedTile tile) {
  auto& tiles = scope_of(id).shared;
  std::erase_if(tiles, [&](const auto& it) { return it.first == id && it.second.panels.fast == tile.panels.fast; });
  tiles.emplace(id, std::move(tile));
}

bool Context::is_pending(ValueId id) const {
  return std::ranges::find(pending_, id, &PendingProduct::id) != pending_.end();
}

int Context::pending_groups(std::optional<ValueId> id) const {
  auto at = pending_.begin();
  if (id) at = std::next(std::ranges::find(pending_, *id, &PendingProduct::id));
  return std::accumulate(at, pending_.end(), 0, [](int sum, const PendingProduct& one) { return sum + one.groups; });
}

Registers Context::take_pending(ValueId id) {
  std::erase_if(pending_, [&](const PendingProduct& one) { return one.id == id; });
  return scope_of(id).computed.at({id, number_of(*placement.home[id])});
}

// Groups end in order: those that began after this one may still be under way.
void Context::wait_for(ValueId id) {
  const int later = pending_groups(id);
  Registers registers = take_pending(id);
  define(id, wait_for_products(later, id, std::move(registers)));
}

// Padding is no register that a product writes.
Registers Context::wait_for_products(int groups, ValueId id, Registers accumulators) {
  if (tensor_memory) return tensor_memory->load(groups, id, std::move(accumulators));
  Registers written;
  for (Value* x : accumulators) {
    if (!llvm::isa<llvm::Constant>(x)) written.push_back(x);
  }
  const Registers ended = target.group_wait(ir, groups, written);
  auto next = ended.begin();
  for (Value*& x : accumulators) {
    if (!llvm::isa<llvm::Constant>(x)) x = *next++;
  }
  return accumulators;
}

void Context::wait_for_groups(int groups) {
  tensor_memory ? tensor_memory->wait(groups) : static_cast<void>(target.group_wait(ir, groups, {}));
}

void Context::wait_for_all() {
  while (!pending_.empty()) wait_for(pending_.back().id);
}

Result<Registers> Context::get(ValueId id, const Layout& layout) {
  if (is_pending(id)) wait_for(id);
  Scope& scope = scope_of(id);
  const std::pair<ValueId, size_t> key = {id, number_of(layout)};
  if (auto found = scope.computed.find(key); found != scope.computed.end()) return found->second;
  const llvm::IRBuilderBase::InsertPointGuard guard(ir);
  if (scope.before) ir.SetInsertPoint(scope.before);
  auto home = placement.home[id];
  const auto produce = [&]() -> Result<Registers> {
    if (home) {
      auto converted = convert(*this, scope.computed.at({id, number_of(*home)}), type(id), *home, layout);
      return converted || !definition[id] ? converted : unsupported(*definition[id], converted.error().message);
    }
    if (const SharedTile* tile = shared(id)) return read_shared_tile(*this, *tile, type(id), layout);
    return compute(*this, id, layout);
  };
  auto registers = produce();
  if (registers) scope_of(id).computed[key] = *registers;
  return registers;
}

Result<std::function<Registers()>> Context::get_later(ValueId id, const Layout& layout) {
  const Op* op = definition[id];
  if (!placement.home[id] && op && op->code == OpCode::kPermute) {
    return get_later(op->operands[0], before_permute(*op, layout));
  }
  Scope& scope = scope_of(id);
  const std::pair<ValueId, size_t> key = {id, number_of(layout)};
  if (auto found = scope.begun.find(key); found != scope.begun.end()) return found->second;
  const bool is_converted = placement.home[id] && !scope.computed.contains(key);
  auto registers = get(id, is_converted ? *placement.home[id] : layout);
  if (!registers) return registers.error();
  if (!is_converted) return std::function<Registers()>([out = std::move(*registers)] { return out; });
  const llvm::IRBuilderBase::InsertPointGuard guard(ir);
  if (scope.before) ir.SetInsertPoint(scope.before);
  auto begun = start_conversion(*this, *registers, type(id), *placement.home[id], layout);
  if (!begun) return op ? unsupported(*op, begun.error().message) : begun.error();
  scope.begun[key] = *begun;
  return begun;
}

void Context::enter(const dsl::Region& region, llvm::Instruction* guard, Value* enabled) {
  if (!scopes_.back().before) scopes_.back().before = guard;
  scopes_.push_back({&region, nullptr, enabled, {}, {}, {}});
}

void Context::leave() {
  scopes_.pop_back();
  scopes_.back().before = nullptr;
}

Context::Iteration Context::begin_iteration(Value* number, llvm::Instruction* head) {
  Iteration outside{warp, prologue_end, scopes_, thread_coordinates_, early_loads};
  early_loads = nullptr;
  warp = number;
  prologue_end = head;
  for (Scope& scope : scopes_) scope.before = nullptr;
  return outside;
}

void Context::end_iteration(Iteration outside) {
  warp = outside.warp;
  prologue_end = outside.prologue_end;
  early_loads = outside.early_loads;
  scopes_ = std::move(outside.scopes);
  thread_coordinates_ = std::move(outside.thread_coordinates);
}

int64_t Context::register_coordinate(const Layout& layout, size_t reg, int axis) const {
  return layout.coordinates(layout.at({.reg = reg}))[static_cast<size_t>(axis)];
}

// The xor of what the bits of lane and warp stand for. Neighbouring bits that stand for neighbouring bits of the
// coordinate go together.
Value* Context::thread_coordinate(const Layout& layout, int axis) {
  Value*& out = thread_coordinates_[{number_of(layout), axis}];
  if (out) return out;
  const llvm::IRBuilderBase::InsertPointGuard guard(ir);
  ir.SetInsertPoint(prologue_end);
  out = ir.getInt32(0);
  Bits taken = 0;
  const auto add = [&](Value* part, Bits bits) {
    out = (taken & bits) == 0 ? ir.CreateOr(out, part) : ir.CreateXor(out, part);
    taken |= bits;
  };
  for (Dim dim : {Dim::kLane, Dim::kWarp}) {
    Value* index = dim == Dim::kLane ? lane : warp;
    const int count = layout.bits(dim);
    const auto part_of = [&](int bit) {
      return static_cast<uint32_t>(
          layout.coordinates(layout.bases(dim)[static_cast<size_t>(bit)])[static_cast<size_t>(axis)]);
    };
    for (int bit = 0; bit < count;) {
      const uint32_t first = part_of(bit);
      int run = 1;
      const bool single = first != 0 && (first & (first - 1)) == 0;
      while (single && bit + run < count && part_of(bit + run) == first << run) ++run;
      if (first != 0) {
        Value* field = ir.CreateAnd(ir.CreateLShr(index, bit), ir.getInt32((1u << run) - 1));
        add(single ? ir.CreateShl(field, __builtin_ctz(first)) : ir.CreateMul(field, ir.getInt32(first)),
            single ? Bits(((1u << run) - 1)) << __builtin_ctz(first) : Bits(first));
      }
      bit += run;
    }
  }
  return out;
}

Value* Context::coordinate(const Layout& layout, size_t reg, int axis) {
  Value* thread = thread_coordinate(layout, axis);
  const int64_t mine = register_coordinate(layout, reg, axis);
  return mine == 0 ? thread : ir.CreateXor(thread, ir.getInt32(static_cast<uint32_t>(mine)));
}

Value* Context::in_tile(const Layout& layout, size_t reg, const dsl::Type& type) {
  return in_tile(layout, reg, dsl::concrete_shape(type));
}

Value* Context::in_tile(const Layout& layout, size_t reg, const std::vector<int64_t>& extents) {
  const std::vector<int64_t> padded = layout.shape();
  Value* out = nullptr;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] == padded[axis]) continue;
    Value* inside = ir.CreateICmpULT(coordinate(layout, reg, static_cast<int>(axis)),
                                     ir.getInt32(static_cast<uint32_t>(extents[axis])));
    out = out ? ir.CreateAnd(out, inside) : inside;
  }
  return out;
}

std::vector<bool> Context::padding(const Layout& layout, const dsl::Type& type) const {
  constexpr int64_t kTogether = 16;  // rows or columns: every instruction can end with so many
  const std::vector<int64_t> extents = dsl::concrete_shape(type);
  std::vector<bool> out(static_cast<size_t>(layout.size(Dim::kRegister)));
  if (extents == layout.shape()) return out;
  Bits by_thread = 0;
  for (Dim dim : {Dim::kLane, Dim::kWarp}) {
    for (Bits basis : layout.bases(dim)) by_thread |= basis;
  }
  for (size_t reg = 0; reg < out.size(); ++reg) {
    const std::vector<int64_t> least = layout.coordinates(layout.at({.reg = reg}) & ~by_thread);
    for (size_t axis = 0; axis < extents.size(); ++axis) {
      if (least[axis] / kTogether * kTogether >= extents[axis]) out[reg] = true;
    }
  }
  return out;
}

Value* Context::element_number(const Layout& layout, size_t reg, const dsl::Type& type) {
  const std::vector<int64_t> extents_of = dsl::concrete_shape(type);
  Value* out = ir.getInt32(0);
  for (size_t axis = 0; axis < extents_of.size(); ++axis) {
    Value* rows = ir.CreateMul(out, ir.getInt32(static_cast<uint32_t>(extents_of[axis])));
    out = ir.CreateAdd(rows, coordinate(layout, reg, static_cast<int>(axis)));
  }
  return out;
}

Layout Context::layout_at_hand(ValueId id) const {
  if (placement.home[id]) return *placement.home[id];
  AccessShape rows;
  for (int axis = type(id).rank(); axis-- > 0;) rows.order.push_back(axis);
  return coalesced(padded_shape(type(id)), rows, block);
}

}  // namespace kiln::codegen::gpu
