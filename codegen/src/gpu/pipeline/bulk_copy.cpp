#include "gpu/pipeline/bulk_copy.h"

#include <algorithm>

#include "kiln/dsl/traits.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::OpCode;

constexpr int64_t kLeastTile = 4096;  // bytes that are worth the round trip
constexpr int64_t kWideStore = 16;    // bytes: a thread that stores so many at once does as well by itself
constexpr size_t kMostMaps = 8;       // of a kernel, whose parameters have 4096 bytes

// The parameter that a pointer is based on; null where that is not plain.
const dsl::Param* param_of(const dsl::Kernel& kernel, const LinearForms& forms, dsl::ValueId pointer) {
  for (const dsl::Op* op = forms.definition(pointer); op; op = forms.definition(pointer)) {
    const bool is_view = op->code == OpCode::kAddptr || op->code == OpCode::kSplat || op->code == OpCode::kBroadcast ||
                         op->code == OpCode::kExpandDims;
    if (!is_view) return nullptr;
    pointer = op->operands[0];
  }
  const auto found = std::ranges::find(kernel.params, pointer, &dsl::Param::value);
  return found == kernel.params.end() ? nullptr : &*found;
}

// Whether nothing has to wait for what the store writes: behind it there are only stores through other parameters.
bool is_final(const dsl::Kernel& kernel, const LinearForms& forms, size_t number) {
  const std::vector<dsl::Op>& ops = kernel.body.ops;
  const dsl::Param* param = param_of(kernel, forms, ops[number].operands[0]);
  if (!param || param->may_alias) return false;
  return std::all_of(ops.begin() + static_cast<ptrdiff_t>(number) + 1, ops.end(), [&](const dsl::Op& op) {
    if (!touches_memory(op)) return true;
    const dsl::Param* other = op.code == OpCode::kStore ? param_of(kernel, forms, op.operands[0]) : nullptr;
    return other && other != param && !other->may_alias;
  });
}

// Whether no other op writes through the parameter: bulk copies are in no order with ordinary stores.
bool is_only_write(const dsl::Kernel& kernel, const LinearForms& forms, const dsl::Op& store, const dsl::Param* param) {
  return !any_op(kernel, [&](const dsl::Op& op) {
    return &op != &store && dsl::info(op.code).has(dsl::kWrites) && param_of(kernel, forms, op.operands[0]) == param;
  });
}

// Whether the threads would store a large tile in small pieces.
bool is_worthwhile(const dsl::Kernel& kernel, const Placement& placement, const dsl::Op& store, const BulkTile& tile) {
  const auto& home = placement.home[store.operands[1]];
  const int64_t bytes = dsl::info(kernel.type(store.operands[1]).element).bytes;
  if (!home || bytes < 2 || tile.bytes < kLeastTile || tile.map.swizzle_bytes == 0) return false;
  return home->contiguous_per_thread(*tile.access.dims[0].axis) * bytes < kWideStore;
}

// In boxes that are small enough to be held by one group of warps each, if there are such.
BulkAccess owned_by_groups(const dsl::Kernel& kernel, const dsl::Op& store, LinearForms& forms, const Layout& layout,
                           BulkTile tile) {
  constexpr size_t kMostBoxes = 32;
  for (size_t boxes = tile.boxes.size(); boxes <= kMostBoxes; boxes *= 2) {
    auto smaller = plan_bulk_tile(kernel, store, forms, static_cast<int64_t>(boxes));
    if (!smaller) break;
    if (auto owners = owners_of_boxes(*smaller, layout); !owners.empty()) return {std::move(*smaller), 0, owners};
  }
  return {std::move(tile), 0};
}

}  // namespace

BulkAccesses plan_bulk_accesses(const dsl::Kernel& kernel, const Placement& placement,
                                const std::vector<AxisInfo>& info, const BlockShape& block, bool stores) {
  BulkAccesses out;
  const auto add = [&](const dsl::Op& op, BulkAccess access) {
    access.map = static_cast<unsigned>(out.size());
    out.emplace(&op, std::move(access));
  };
  for (const auto& [loop, pipeline] : placement.pipelines) {
    for (const StagedLoad& staged : pipeline.loads) {
      if (staged.bulk) add(*staged.load, {*staged.bulk});
    }
    for (const StagedLoad& operand : pipeline.program_operands) add(*operand.load, {*operand.bulk});
  }
  LinearForms forms(kernel, info);
  for (size_t i = 0; stores && i < kernel.body.ops.size() && out.size() < kMostMaps; ++i) {
    const dsl::Op& op = kernel.body.ops[i];
    if (op.code != OpCode::kStore || !is_final(kernel, forms, i)) continue;
    if (!is_only_write(kernel, forms, op, param_of(kernel, forms, op.operands[0]))) continue;
    auto tile = plan_bulk_tile(kernel, op, forms);
    if (!tile || !is_worthwhile(kernel, placement, op, *tile)) continue;
    const bool by_groups = block.persistent && block.warps > kStoringWarps;
    const Layout& layout = *placement.home[op.operands[1]];
    add(op, by_groups ? owned_by_groups(kernel, op, forms, layout, std::move(*tile)) : BulkAccess{std::move(*tile)});
  }
  return out;
}

}  // namespace kiln::codegen::gpu
