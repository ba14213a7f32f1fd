#include "gpu/pipeline/pipeline.h"

#include <algorithm>
#include <set>

#include "gpu/dot/dot_layouts.h"
#include "gpu/layout/algebra.h"
#include "gpu/lower.h"
#include "gpu/target_info.h"
#include "kiln/dsl/traits.h"
#include "kiln/dsl/uses.h"
#include "passes/pointers.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

// Of shared memory, what a loop's stages leave to conversions inside it; of persistent blocks, also to stores that are
// under way while the next program begins (bulk_store.cpp).
constexpr int64_t kKeptFree = 8 * 1024, kKeptFreeForStores = 33 * 1024;

bool is_load(const Op* op) { return op->code == OpCode::kLoad; }

class Planner {
 public:
  Planner(const dsl::Kernel& kernel, const TargetInfo& target, const BlockShape& block,
          const std::vector<AxisInfo>& info, const std::vector<Strides>& strides)
      : kernel_(kernel),
        target_(target),
        block_(block),
        info_(info),
        strides_(strides),
        forms_(kernel, info),
        pointers_(kernel),
        def_use_(kernel) {
    if (kernel.options.check_bounds) return;  // a check comes before what it is about
    dsl::for_each_op_postorder(kernel, [this](const Op& op) {
      if (op.code == OpCode::kFor) plan(op);
    });
  }

  std::map<const Op*, Pipeline> take() { return std::move(out_); }

 private:
  void plan(const Op& loop) {
    Pipeline out;
    out.stages = static_cast<int>(std::min<int64_t>(number_attr(loop, 0), block_.most_stages));
    if (out.stages < 2) return;
    std::set<const Op*> slice;
    std::set<size_t> ahead;
    int64_t bytes = 0, copied = 0;
    for (const Op& op : loop.regions[0].ops) {
      if (!is_load(&op)) continue;
      auto staged = stage(op);
      if (!staged) continue;
      // Through registers go all copies of a loop, or none.
      if (!out.loads.empty() && staged->trip.has_value() != out.is_through_registers()) continue;
      std::set<const Op*> its_slice = slice;
      std::set<size_t> its_ahead = ahead;
      const bool found = std::ranges::all_of(
          op.operands, [&](ValueId id) { return add_to_slice(loop.regions[0], id, its_slice, its_ahead); });
      if (!found || (staged->bulk && std::ranges::any_of(its_slice, is_load))) continue;
      slice = std::move(its_slice);
      ahead = std::move(its_ahead);
      bytes += staged->panels.bytes;
      copied += copied_bytes(op.results[0], staged->panels);
      out.loads.push_back(std::move(*staged));
    }
    if (out.loads.empty()) return;
    if (block_.persistent && out.is_all_bulk() && ahead.empty()) out.program_operands = operands_before(loop);
    for (const StagedLoad& operand : out.program_operands) copied += operand.panels.bytes;
    const int64_t kept_free = block_.persistent ? kKeptFreeForStores * block_.consumer_groups : kKeptFree;
    const int64_t fitting = (target_.lane_facts().shared_bytes - kept_free - copied) / bytes;
    const int in_registers = out.is_through_registers() ? 1 : 0;
    out.stages = static_cast<int>(std::min<int64_t>(out.stages - in_registers, fitting));
    if (out.stages < 2 - in_registers) return;
    for (const Op& op : loop.regions[0].ops) {
      if (slice.contains(&op)) out.slice.push_back(&op);
    }
    out.ahead.assign(ahead.begin(), ahead.end());
    out_[&loop] = std::move(out);
  }

  // Of loads at top level.
  std::vector<StagedLoad> operands_before(const Op& loop) {
    std::vector<StagedLoad> out;
    for (const Op& op : kernel_.body.ops) {
      if (&op == &loop) return out;
      if (!is_load(&op)) continue;
      auto staged = stage(op);
      if (staged && staged->bulk && is_read_by_groups(op.results[0], staged->panels.fast)) {
        out.push_back(std::move(*staged));
      }
    }
    return {};
  }

  // Whether products of several warps alone have the value as an operand, as it lies in shared memory.
  bool is_read_by_groups(ValueId id, int fast) const {
    return std::ranges::all_of(def_use_.users(id), [&](const Op* user) {
      if (user->code == OpCode::kPermute) return is_read_by_groups(user->results[0], 1 - fast);
      if (user->code != OpCode::kDot || user->operands[2] == id) return false;
      const DotLayouts layouts = dot_layouts(kernel_, *user, target_, block_);
      if (!layouts.group || layouts.group->instruction.element_bits > 16) return false;
      const int k_axis = user->operands[0] == id ? 1 : 0;
      return layouts.group->instruction.any_axis_fastest || fast == k_axis;
    });
  }

  // Whether the value depends on nothing that cannot be computed ahead.
  bool add_to_slice(const dsl::Region& body, ValueId id, std::set<const Op*>& slice, std::set<size_t>& ahead) const {
    if (def_use_.region(id) != &body) return true;
    const Op* op = def_use_.definition(id);
    const auto add = [&](ValueId operand) { return add_to_slice(body, operand, slice, ahead); };
    if (!op) {
      const auto number = static_cast<size_t>(std::ranges::find(body.args, id) - body.args.begin());
      if (number == 0 || !ahead.insert(number - 1).second) return true;
      return add(body.ops.back().operands[number - 1]);
    }
    if (slice.contains(op)) return true;
    const bool is_lookup = op->code == OpCode::kLoad && kernel_.type(id).rank() <= 1 && is_constant(op->operands[0]);
    const bool is_computed = is_pure(*op) && op->code != OpCode::kDot;
    if ((!is_computed && !is_lookup) || !op->regions.empty()) return false;
    slice.insert(op);
    return std::ranges::all_of(op->operands, add);
  }

  // Whether a dot by matrix instructions has the value as an operand, or what is made of it.
  bool feeds_dot(ValueId id) const {
    return std::ranges::any_of(def_use_.users(id), [&](const Op* user) {
      if (user->code == OpCode::kDot) {
        if (user->operands[0] != id && user->operands[1] != id) return false;
        const DotLayouts layouts = dot_layouts(kernel_, *user, target_, block_);
        return layouts.fragments || layouts.group;
      }
      return passes_on(*user, id) && feeds_dot(user->results[0]);
    });
  }

  // Whether a product would multiply what lies beside the tile along its inner axis: there must be zeros.
  bool needs_zeros(ValueId id) const {
    return std::ranges::any_of(def_use_.users(id), [&](const Op* user) {
      if (user->code == OpCode::kPermute) return needs_zeros(user->results[0]);
      if (user->code != OpCode::kDot) return false;
      const DotLayouts layouts = dot_layouts(kernel_, *user, target_, block_);
      const int64_t inner = dsl::concrete_shape(kernel_.type(user->operands[0])).back();
      return layouts.group && inner % layouts.group->instruction.k != 0;
    });
  }

  // Whether nobody looks at what lies beside the tile along the axis of its lines: products of several warps do not
  // make the steps, nor the columns, that are padding.
  bool skips_padding(ValueId id, int fast) const {
    return std::ranges::all_of(def_use_.users(id), [&](const Op* user) {
      if (user->code == OpCode::kPermute) return skips_padding(user->results[0], 1 - fast);
      if (user->code != OpCode::kDot || user->operands[2] == id) return false;
      const DotLayouts layouts = dot_layouts(kernel_, *user, target_, block_);
      if (!layouts.group) return false;
      const bool is_a = user->operands[0] == id;
      if (fast == (is_a ? 1 : 0)) return true;
      const bool has_all_columns = layouts.group->columns * layouts.group->n == layouts.accumulator.shape()[1];
      return !is_a && has_all_columns && layouts.group->instruction.any_axis_fastest;
    });
  }

  // Whether the op's result is another view of the tile, or made of it element by element, with numbers or with what is
  // spread over the tile.
  bool passes_on(const Op& op, ValueId tile) const {
    switch (op.code) {
      case OpCode::kPermute:
      case OpCode::kCast:
      case OpCode::kMul:
      case OpCode::kBitcast:
      case OpCode::kReshape:
      case OpCode::kJoin:
      case OpCode::kExpandDims:
      case OpCode::kBroadcast:
        return true;
      default:
        return is_elementwise(op) && op.regions.empty() &&
               std::ranges::all_of(op.operands, [&](ValueId id) { return id == tile || is_spread(id); });
    }
  }

  // A number, or fewer elements than those of the tile, repeated.
  bool is_spread(ValueId id) const {
    if (kernel_.type(id).rank() == 0) return true;
    const Op* op = def_use_.definition(id);
    if (!op) return false;
    switch (op->code) {
      case OpCode::kConstant:
      case OpCode::kArange:
      case OpCode::kSplat:
      case OpCode::kBroadcast:
        return true;
      default:
        return is_elementwise(*op) && op->regions.empty() &&
               std::ranges::all_of(op->operands, [&](ValueId operand) { return is_spread(operand); });
    }
  }

  static int64_t bytes_of(const dsl::Type& type) {
    int64_t out = dsl::info(type.element).bytes;
    for (int64_t extent : padded_shape(type)) out *= extent;
    return out;
  }

  // What copies take whose lines run the other way, for products of several warps that want k to run fastest, and
  // operands that are computed from the tile.
  int64_t copied_bytes(ValueId id, const SharedPanels& panels, bool transposed = false, bool computed = false) const {
    int64_t out = 0;
    for (const Op* user : def_use_.users(id)) {
      if (user->code == OpCode::kPermute) {
        out = std::max(out, copied_bytes(user->results[0], panels, !transposed, computed));
      } else if (user->code != OpCode::kDot && passes_on(*user, id)) {
        out = std::max(out, copied_bytes(user->results[0], panels, transposed, true));
      }
      if (user->code != OpCode::kDot) continue;
      const bool is_first = user->operands[0] == id;
      if (!is_first && user->operands[1] != id) continue;
      const DotLayouts layouts = dot_layouts(kernel_, *user, target_, block_);
      if (!layouts.group) continue;
      if (computed) {
        const bool in_registers = is_first && def_use_.definition(id)->code != OpCode::kPermute;
        if (!in_registers) out = std::max(out, bytes_of(kernel_.type(id)));
        continue;
      }
      if (layouts.group->instruction.any_axis_fastest) continue;
      if (is_first && layouts.group->instruction.element_bits == 32) continue;  // read by the threads
      const int k_axis = is_first != transposed ? 1 : 0;
      if (panels.fast != k_axis) out = 2 * panels.bytes;
    }
    return out;
  }

  // Whether nothing is written there while the kernel runs.
  bool is_constant(ValueId pointer) const {
    const auto param = pointers_.parameter(pointer);
    return param && kernel_.params[*param].readonly && !kernel_.params[*param].may_alias;
  }

  // By the engine: an access that it can make.
  std::optional<StagedLoad> stage_in_bulk(const Op& load) {
    if (!target_.bulk_engine() || !allows_bulk(kernel_)) return std::nullopt;
    auto tile = plan_bulk_tile(kernel_, load, forms_);
    if (!tile || tile->map.swizzle_bytes == 0) return std::nullopt;
    const ValueId id = load.results[0];
    const int fast = *tile->access.dims[0].axis;
    if (!shared_panels_of(kernel_.type(id), fast) || needs_zeros(id)) return std::nullopt;
    SharedPanels panels{tile->memory.elements, fast, tile->map.swizzle_bytes, tile->bytes};
    if (skips_padding(id, fast)) {
      const auto axis = static_cast<size_t>(fast);
      panels.bytes = panels.bytes / panels.memory.shape()[axis] * dsl::concrete_shape(kernel_.type(id))[axis];
    }
    return StagedLoad{&load, std::move(panels), std::move(*tile), {}, 1, std::nullopt};
  }

  // The layout in which a dot wants the load's result, by itself or transposed.
  std::optional<Layout> wanted_by_dot(ValueId id) const {
    for (const Op* user : def_use_.users(id)) {
      if (user->code == OpCode::kPermute) {
        if (const auto wanted = wanted_by_dot(user->results[0])) return transpose(*wanted, {1, 0});
      }
      if (user->code != OpCode::kDot || kernel_.type(id).rank() != 2) continue;
      const DotLayouts layouts = dot_layouts(kernel_, *user, target_, block_);
      if (!layouts.fragments) continue;
      const Layout& all = user->operands[0] == id ? layouts.fragments->a : layouts.fragments->b;
      return without_copies_in_registers(all).layout;
    }
    return std::nullopt;
  }

  // Threads load vectors; where the dot wants neighbours along the other axis together, each has a few lines of them.
  std::optional<StagedLoad> stage_through_registers(const Op& load, const AccessShape& access) const {
    constexpr int64_t kMostLines = 8;
    const dsl::Type& type = kernel_.type(load.results[0]);
    const auto wanted = wanted_by_dot(load.results[0]);
    if (!wanted || access.order.size() != 2 || dsl::info(type.element).bits < 8) return std::nullopt;
    const std::vector<int64_t> shape = padded_shape(type);
    const auto fast = static_cast<size_t>(access.order[0]), slow = 1 - fast;
    const int64_t share = shape[0] * shape[1] / (block_.lanes * block_.warps);
    if (share < access.vector) return std::nullopt;
    std::vector<int64_t> per_thread(2), lanes(2), warps(2, 1);
    per_thread[fast] = std::min(access.vector, shape[fast]);
    const bool several_lines = wanted->contiguous_per_thread(access.order[0]) == 1;
    per_thread[slow] =
        several_lines ? std::clamp<int64_t>(share / per_thread[fast], 1, std::min(kMostLines, shape[slow])) : 1;
    lanes[fast] = std::min<int64_t>(block_.lanes, shape[fast] / per_thread[fast]);
    lanes[slow] = block_.lanes / lanes[fast];
    warps[slow] = block_.warps;
    const Layout copies = without_copies_in_registers(blocked(shape, per_thread, lanes, warps, access.order)).layout;
    auto trip = plan_round_trip(copies, *wanted, dsl::info(type.element).bits, target_.lane_facts());
    if (!trip) return std::nullopt;
    const SharedPanels panels{trip->memory, access.order[0], 0, trip->bytes};
    return StagedLoad{&load, panels, std::nullopt, copies, access.vector, std::move(trip)};
  }

  std::optional<StagedLoad> stage(const Op& load) {
    const dsl::Type& type = kernel_.type(load.results[0]);
    if (type.pointer) return std::nullopt;
    if (!feeds_dot(load.results[0]) || !is_constant(load.operands[0])) return std::nullopt;
    if (auto bulk = stage_in_bulk(load)) return bulk;
    if (load.operands.size() > 2) return std::nullopt;
    const AccessShape access = access_shape(kernel_, load, info_, strides_);
    if (target_.async_copy_sizes() == 0) return stage_through_registers(load, access);
    const int64_t bytes = access.vector * dsl::info(type.element).bytes;
    if ((target_.async_copy_sizes() & bytes) == 0 || access.order.size() != 2) return std::nullopt;
    const auto panels = shared_panels_of(type, access.order[0]);
    if (!panels || dsl::concrete_shape(type)[static_cast<size_t>(access.order[0])] % access.vector != 0) {
      return std::nullopt;
    }
    const Layout copies = coalesced(padded_shape(type), access, block_);
    // A thread that has too little to do copies less at once.
    if (copies.contiguous_per_thread(access.order[0]) < access.vector) return std::nullopt;
    return StagedLoad{&load, *panels, std::nullopt, copies, access.vector, std::nullopt};
  }

  const dsl::Kernel& kernel_;
  const TargetInfo& target_;
  const BlockShape block_;
  const std::vector<AxisInfo>& info_;
  const std::vector<Strides>& strides_;
  LinearForms forms_;
  Pointers pointers_;
  const dsl::DefUse def_use_;
  std::map<const Op*, Pipeline> out_;
};

}  // namespace

bool Pipeline::has_bulk() const {
  return std::ranges::any_of(loads, [](const StagedLoad& staged) { return staged.bulk.has_value(); });
}

bool Pipeline::is_all_bulk() const {
  return std::ranges::all_of(loads, [](const StagedLoad& staged) { return staged.bulk.has_value(); });
}

int Pipeline::asked_stages() const { return stages + (is_through_registers() ? 1 : 0); }

std::map<const Op*, Pipeline> plan_pipelines(const dsl::Kernel& kernel, const TargetInfo& target,
                                             const BlockShape& block, const std::vector<AxisInfo>& info,
                                             const std::vector<Strides>& strides) {
  return Planner(kernel, target, block, info, strides).take();
}

}  // namespace kiln::codegen::gpu
