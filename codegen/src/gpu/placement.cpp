// One walk in program order. Loads and stores bring layouts of their own (coalesce.h); what is computed from a tile
// that has a home takes over its layout; carried tiles take that of what they begin with or what the loop yields, which
// is why loops are walked until nothing changes.
#include "gpu/placement.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "gpu/analysis/row_operands.h"
#include "gpu/analysis/scanned_loads.h"
#include "gpu/dot/dot_layouts.h"
#include "gpu/layout/algebra.h"
#include "gpu/layout/coalesce.h"
#include "gpu/ops/select.h"
#include "gpu/ops/shape_ops.h"
#include "gpu/ops/sort_network.h"
#include "kiln/dsl/traits.h"
#include "kiln/dsl/uses.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

constexpr int kMaxRounds = 4;
// Ops without a home that one value is computed by in a row: with one on the way, recursion over operands stays
// shallow.
constexpr int kDeepest = 256;
// A store takes its value where it is if neighbouring lanes fill at least so many bytes: what memory moves at once.
constexpr int64_t kSectorBytes = 32;

class Placer {
 public:
  Placer(const dsl::Kernel& kernel, const TargetInfo& target, const BlockShape& block,
         const std::vector<AxisInfo>& info)
      : kernel_(kernel),
        target_(target),
        block_(block),
        info_(info),
        strides_(strides_of(kernel)),
        scanned_(scanned_loads(kernel)),
        ordered_(selected_tiles(kernel, block, target.lane_facts().shared_bytes)),
        def_use_(kernel),
        free_(kernel.values.size()),
        depth_(kernel.values.size()) {
    out_.home.resize(kernel.values.size());
    out_.pipelines = plan_pipelines(kernel, target, block, info, strides_);
    for (const auto& [loop, pipeline] : out_.pipelines) {
      for (const StagedLoad& staged : pipeline.loads) out_.staged.insert(staged.load);
      for (const StagedLoad& factor : pipeline.program_operands) out_.staged.insert(factor.load);
      for (const Op* op : pipeline.slice) {
        if (op->code == OpCode::kLoad && kernel.type(op->results[0]).rank() > 0) out_.address_operands.insert(op);
      }
      for (const Op* op : row_operands(kernel, *loop)) {
        if (!out_.staged.contains(op)) out_.address_operands.insert(op);
      }
    }
    dsl::for_each_op_postorder(kernel, [this](const Op& op) {
      note_reduced(op);
      agree_on_vectors(op);
    });
    wanted_by_dot_.resize(kernel.values.size());
    note_wanted_by_dot();
    for (const dsl::Param& param : kernel.params) out_.home[param.value] = replicated({}, block);
    visit(kernel.body);
  }

  Placement take() { return std::move(out_); }

 private:
  const dsl::Type& type(ValueId id) const { return kernel_.type(id); }
  std::vector<int64_t> shape(ValueId id) const { return padded_shape(type(id)); }

  // Along which axis tiles of a shape are reduced; none where it is now one, now another.
  void note_reduced(const Op& op) {
    if (op.code != OpCode::kReduce) return;
    const int axis = axis_of(op, 1);
    const auto [found, is_new] = reduced_.try_emplace(shape(op.operands[0]), axis);
    if (!is_new && found->second != axis) found->second = std::nullopt;
  }

  std::optional<int> reduced_axis(const std::vector<int64_t>& tile) const {
    const auto found = reduced_.find(tile);
    return found == reduced_.end() ? std::nullopt : found->second;
  }

  static bool accesses_by_pointers(OpCode code) {
    return code == OpCode::kLoad || code == OpCode::kStore || dsl::info(code).family == dsl::OpFamily::kAtomic;
  }

  // Accesses of one shape and order use vectors of one length, so that a tile that is read by one and written by
  // another stays where it is.
  void agree_on_vectors(const Op& op) {
    if (!accesses_by_pointers(op.code)) return;
    const AccessShape access = access_shape(kernel_, op, info_, strides_);
    Vector& agreed = vectors_[{shape(op.operands[0]), access.order}];
    if (access.vector > agreed.elements) agreed = {access.vector, access.bytes};
  }

  Layout access_layout(const Op& op) const {
    AccessShape access = access_shape(kernel_, op, info_, strides_);
    const std::vector<int64_t> tile = shape(op.operands[0]);
    if (auto found = vectors_.find({tile, access.order}); found != vectors_.end()) {
      access.vector = found->second.elements;
      access.bytes = found->second.bytes;
    }
    if (auto found = scanned_.find(&op); found != scanned_.end()) access.scanned = found->second;
    if (op.code == OpCode::kLoad) access.ordered = ordered_axis(op.results[0]);
    access.reduced = reduced_axis(tile);
    if (op.code == OpCode::kLoad && tile.size() == 1 && !access.ordered && !access.scanned) {
      if (const auto row = row_of_reduced(tile[0])) return *row;
    }
    return coalesced(tile, access, block_);
  }

  // As the threads hold the rows of a tile that is reduced: what is loaded for all of its rows is at hand with them.
  std::optional<Layout> row_of_reduced(int64_t columns) const {
    for (const auto& [tile, axis] : reduced_) {
      if (tile.size() != 2 || axis != 1 || tile[1] != columns) continue;
      return without_copies_in_registers(slice(default_layout(tile), 0)).layout;
    }
    return std::nullopt;
  }

  Layout default_layout(const std::vector<int64_t>& tile) const {
    return coalesced(tile, default_access(tile), block_);
  }

  AccessShape default_access(const std::vector<int64_t>& tile) const {
    AccessShape access;
    for (size_t i = tile.size(); i-- > 0;) access.order.push_back(static_cast<int>(i));
    for (const auto& [key, vector] : vectors_) {
      if (key.first == tile) access = {key.second, vector.elements, vector.bytes};
    }
    access.reduced = reduced_axis(tile);
    return access;
  }

  std::optional<int> ordered_axis(ValueId id) const {
    const auto found = ordered_.find(id);
    return found == ordered_.end() ? std::nullopt : std::optional(found->second);
  }

  // The layout in which a row of it is loaded, if nobody accesses all of it.
  Layout ordered_layout(const std::vector<int64_t>& tile, int axis) const {
    AccessShape access = default_access(tile);
    access.ordered = axis;
    if (access.order.front() == axis) {
      access.vector = std::max(access.vector, default_access({tile[static_cast<size_t>(axis)]}).vector);
    }
    return coalesced(tile, access, block_);
  }

  // The layout in which a value is at hand: its home, or what views make of one.
  std::optional<Layout> natural(ValueId id) const {
    if (out_.home[id]) return out_.home[id];
    const Op* op = def_use_.definition(id);
    if (!op) return std::nullopt;
    const auto operand = [&] { return natural(op->operands[0]); };
    switch (op->code) {
      case OpCode::kPermute: {
        std::vector<int> order;
        for (const dsl::Expr& axis : std::get<std::vector<dsl::Expr>>(op->attrs[0])) {
          order.push_back(static_cast<int>(axis.as_constant().value()));
        }
        auto layout = operand();
        if (layout) layout = transpose(*layout, order);
        return layout;
      }
      case OpCode::kExpandDims: {
        auto layout = operand();
        if (layout) layout = expand(*layout, static_cast<int>(int_attr(*op, 0)));
        return layout;
      }
      case OpCode::kReshape: {
        auto layout = operand();
        if (!layout || layout->element_bits() != Layout(shape(id)).element_bits()) return std::nullopt;
        return reshape(*layout, shape(id));
      }
      case OpCode::kCat: {
        auto layout = operand();
        if (layout) layout = product(*layout, identity(layout->rank(), axis_of(*op, 0), Dim::kRegister, 2));
        return layout;
      }
      case OpCode::kSlice: {
        const int axis = axis_of(*op, 0);
        auto layout = operand();
        if (!layout) return layout;
        const Layout sliced = first(*layout, axis, shape(id)[static_cast<size_t>(axis)]);
        // Threads that hold other parts of the axis would be idle.
        if (sliced.free_mask(Dim::kLane) != layout->free_mask(Dim::kLane) ||
            sliced.free_mask(Dim::kWarp) != layout->free_mask(Dim::kWarp)) {
          return std::nullopt;
        }
        return without_copies_in_registers(sliced).layout;
      }
      default:
        return std::nullopt;
    }
  }

  // Of several tiles of one shape the layout of the first that has a home, else of the first view.
  std::optional<Layout> common_layout(const std::vector<ValueId>& operands) const {
    for (ValueId id : operands) {
      if (type(id).rank() > 0 && out_.home[id]) return out_.home[id];
    }
    for (ValueId id : operands) {
      if (auto layout = natural(id)) return layout;
    }
    return std::nullopt;
  }

  Layout layout_or_default(ValueId id) const {
    auto layout = natural(id);
    return layout ? *layout : default_layout(shape(id));
  }

  // No home below: cheap to compute again wherever it is wanted.
  bool is_free(const Op& op) const {
    return std::ranges::all_of(op.operands, [&](ValueId id) { return type(id).rank() == 0 || free_[id]; });
  }

  bool is_view(const Op& op) const {
    switch (family_of(op)) {
      case dsl::OpFamily::kMake:
      case dsl::OpFamily::kView:
      case dsl::OpFamily::kPair:
        return true;
      case dsl::OpFamily::kMovement:
        return op.code != OpCode::kGather && is_view_of_shape(kernel_, op);
      default:
        return false;
    }
  }

  // Quotients of ints are mostly indices.
  static bool is_cheap(const Op& op, const dsl::Kernel& kernel) {
    if (!dsl::info(op.code).has(dsl::kExpensive)) return true;
    const bool divides = op.code == OpCode::kDiv || op.code == OpCode::kRem;
    return divides && dsl::is_int(kernel.type(op.results[0]).element);
  }

  void visit(const dsl::Region& region) {
    for (const Op& op : region.ops) visit(op);
  }

  void visit(const Op& op) {
    switch (op.code) {
      case OpCode::kLoad:
        if (out_.staged.contains(&op)) return;
        if (out_.address_operands.contains(&op)) {
          free_[op.results[0]] = true;
          return;
        }
        out_.wanted[&op] = access_layout(op);
        set_home(op.results[0], out_.wanted[&op]);
        return;
      case OpCode::kStore:
        return visit_store(op);
      case OpCode::kAtomicRmw:
      case OpCode::kAtomicCas:
        return visit_atomic(op);
      case OpCode::kReduce:
        return visit_reduce(op);
      case OpCode::kScan:
        return visit_scan(op);
      case OpCode::kSort:
        return visit_sort(op);
      case OpCode::kTopk:
        return visit_topk(op);
      case OpCode::kHistogram:
        out_.wanted[&op] = counted_layout(op.operands[0]);
        break;
      case OpCode::kDot:
      case OpCode::kDotScaled:
        return set_home(op.results[0], dot_layouts(kernel_, op, target_, block_).accumulator);
      case OpCode::kFor:
        return visit_loop(op, 3, 1);
      case OpCode::kWhile:
        return visit_loop(op, 0, 0);
      case OpCode::kIf:
        return visit_if(op);
      default:
        break;
    }
    for (const dsl::Region& inner : op.regions) visit(inner);
    for (ValueId id : op.results) visit_result(op, id);
  }

  void set_home(ValueId id, const Layout& layout) {
    if (out_.home[id] == layout) return;
    out_.home[id] = layout;
    ++changes_;
  }

  void visit_result(const Op& op, ValueId id) {
    if (type(id).rank() == 0) return set_home(id, replicated({}, block_));
    depth_[id] = 1;
    for (ValueId operand : op.operands) depth_[id] = std::max(depth_[id], out_.home[operand] ? 1 : depth_[operand] + 1);
    const bool elementwise = is_elementwise(op);
    const bool is_cheap_now = elementwise && is_cheap(op, kernel_) && (type(id).pointer || depth_[id] < kDeepest);
    const bool is_free_now = !out_.home[id] && is_free(op) && (is_view(op) || is_cheap_now);
    if (free_[id] != is_free_now) ++changes_;
    free_[id] = is_free_now;
    if (is_view(op) || free_[id]) return;
    auto layout = elementwise ? common_layout(op.operands) : std::nullopt;
    if (!layout && elementwise) layout = wanted_by_dot_[id];
    if (const auto axis = ordered_axis(id); !layout && axis) layout = ordered_layout(shape(id), *axis);
    set_home(id, layout ? *layout : default_layout(shape(id)));
  }

  // The layout in which a product by matrix instructions wants an operand that is computed from the value: from shared
  // memory (pipeline.h) it comes in whatever layout is asked for. From the last op to the first, so that users are
  // known.
  void note_wanted_by_dot() {
    std::vector<const Op*> ops;
    dsl::for_each_op(kernel_, [&](const Op& op) { ops.push_back(&op); });
    for (const Op* op : std::views::reverse(ops)) {
      for (ValueId id : op->results) wanted_by_dot_[id] = wanted_by_users(id);
    }
  }

  std::optional<Layout> wanted_by_users(ValueId id) const {
    for (const Op* user : def_use_.users(id)) {
      if (auto layout = wanted_by_user(id, *user)) return layout;
    }
    return std::nullopt;
  }

  std::optional<Layout> wanted_by_user(ValueId id, const Op& user) const {
    if (user.code == OpCode::kDot) return wanted_operand(user, id);
    const bool elementwise = is_elementwise(user);
    if (user.results.size() != 1 || (!elementwise && !is_view(user))) return std::nullopt;
    const ValueId result = user.results[0];
    const std::optional<Layout>& wanted = wanted_by_dot_[result];
    if (!wanted || (elementwise && shape(result) != shape(id))) return std::nullopt;
    if (elementwise) return wanted;
    if (user.code == OpCode::kPermute && type(id).rank() == 2) return transpose(*wanted, {1, 0});
    const bool is_as_large = wanted->element_bits() == Layout(shape(id)).element_bits();
    if (user.code == OpCode::kReshape && is_as_large) return reshape(*wanted, shape(id));
    if (user.code == OpCode::kJoin) return without_copies_in_registers(slice(*wanted, wanted->rank() - 1)).layout;
    return std::nullopt;
  }

  // A second operand of several warps' products comes from shared memory.
  std::optional<Layout> wanted_operand(const Op& dot, ValueId id) const {
    const bool is_first = dot.operands[0] == id;
    if (!is_first && dot.operands[1] != id) return std::nullopt;
    const DotLayouts layouts = dot_layouts(kernel_, dot, target_, block_);
    if (layouts.group && is_first && layouts.group->instruction.a_from_registers) return layouts.group->a;
    if (!layouts.fragments) return std::nullopt;
    return without_copies_in_registers(is_first ? layouts.fragments->a : layouts.fragments->b).layout;
  }

  void visit_store(const Op& op) {
    const Layout access = access_layout(op);
    const auto value = natural(op.operands[1]);
    if (is_transposed_sum(op.operands[1])) set_home(op.operands[1], *value);
    out_.wanted[&op] = value && stores_well(*value, access, type(op.operands[1])) ? *value : access;
  }

  // What a loop has summed up in the other order (swap_operands.h): it is at hand in registers.
  bool is_transposed_sum(ValueId id) const {
    const Op* op = def_use_.definition(id);
    if (!op || op->code != OpCode::kPermute || !out_.home[op->operands[0]]) return false;
    const Op* sum = def_use_.definition(op->operands[0]);
    return sum && sum->code == OpCode::kFor;
  }

  // As a store, but each element is in one register of a thread: it takes effect once.
  void visit_atomic(const Op& op) {
    visit_store(op);
    Layout& layout = out_.wanted[&op];
    layout = without_copies_in_registers(layout).layout;
    set_home(op.results[0], layout);
  }

  // The lanes fill whole sectors, or as much as the access's own layout would.
  static bool stores_well(const Layout& value, const Layout& access, const dsl::Type& stored) {
    if (value.rank() == 0 || value == access) return true;
    const int fast = fastest_axis(access);
    const int64_t bytes = dsl::info(stored.element).bytes;
    return run_length(value, fast) * bytes >= std::min(kSectorBytes, run_length(access, fast) * bytes);
  }

  // So many neighbours along the axis are in one thread and the lanes behind it.
  static int64_t run_length(const Layout& layout, int axis) {
    int64_t out = layout.contiguous_per_thread(axis);
    for (Bits lane : layout.bases(Dim::kLane)) {
      if (lane != static_cast<Bits>(out) << layout.axis_offset(axis)) break;
      out *= 2;
    }
    return out;
  }

  // The axis that lanes walk first.
  static int fastest_axis(const Layout& layout) {
    const auto& lanes = layout.bases(Dim::kLane);
    for (int axis = 0; axis < layout.rank(); ++axis) {
      for (Bits lane : lanes) {
        if (lane == 0) continue;
        if ((lane >> layout.axis_offset(axis) & ((Bits{1} << layout.axis_bits(axis)) - 1)) != 0) return axis;
        break;
      }
    }
    return layout.rank() - 1;
  }

  void visit_reduce(const Op& op) {
    for (const dsl::Region& inner : op.regions) visit(inner);
    const auto layout = common_layout(op.operands);
    const Layout wanted = layout ? *layout : default_layout(shape(op.operands[0]));
    out_.wanted[&op] = wanted;
    const Layout result = without_copies_in_registers(slice(wanted, axis_of(op, 1))).layout;
    for (ValueId id : op.results) set_home(id, result);
  }

  static int axis_of(const Op& op, size_t attr) { return static_cast<int>(int_attr(op, attr)); }

  void visit_scan(const Op& op) {
    for (const dsl::Region& inner : op.regions) visit(inner);
    const auto layout = common_layout(op.operands);
    out_.wanted[&op] = layout ? *layout : default_layout(shape(op.operands[0]));
    for (ValueId id : op.results) set_home(id, out_.wanted[&op]);
  }

  void visit_sort(const Op& op) {
    const int axis = axis_of(op, op.code == OpCode::kSort ? 0 : 1);
    out_.wanted[&op] = sort_layout(shape(op.operands[0]), axis, block_);
    const int64_t extent = shape(op.results[0])[static_cast<size_t>(axis)];
    const Layout result = without_copies_in_registers(first(out_.wanted[&op], axis, extent)).layout;
    for (ValueId id : op.results) set_home(id, result);
  }

  void visit_topk(const Op& op) {
    const auto few = candidates_of(kernel_, op, block_, target_.lane_facts().shared_bytes);
    if (!few) return visit_sort(op);
    const int axis = axis_of(op, 1);
    const auto layout = natural(op.operands[0]);
    const bool is_at_hand = layout && can_select(*layout, axis);
    out_.wanted[&op] = is_at_hand ? *layout : ordered_layout(shape(op.operands[0]), axis);
    out_.selected[&op] = *few;
    const Layout list = sort_layout(candidates_shape(kernel_, op, *few), axis, block_);
    const int64_t extent = shape(op.results[0])[static_cast<size_t>(axis)];
    const Layout result = without_copies_in_registers(first(list, axis, extent)).layout;
    for (ValueId id : op.results) set_home(id, result);
  }

  // Elements that are in several registers or threads would be counted as often.
  Layout counted_layout(ValueId id) const {
    auto layout = natural(id);
    return layout && layout->injective() ? *layout : default_layout(shape(id));
  }

  // What a loop carries keeps the layout that it once has: a loop inside another is walked until nothing changes where
  // the outer one first comes to it, and once in each later walk, so that nests take no longer the deeper they are.
  void visit_loop(const Op& op, size_t first_init, size_t first_arg) {
    const bool is_settled = !walked_.insert(&op).second;
    for (int round = is_settled ? 1 : 0; round < kMaxRounds; ++round) {
      const size_t before = changes_;
      for (const dsl::Region& inner : op.regions) {
        for (size_t i = 0; i < inner.args.size(); ++i) {
          if (type(inner.args[i]).rank() == 0) set_home(inner.args[i], replicated({}, block_));
        }
      }
      for (size_t i = 0; i < op.results.size(); ++i) {
        auto layout = carried_layout(op, op.operands[first_init + i], i, round);
        if (round > 1 && !layout) layout = default_layout(shape(op.results[i]));
        if (!layout) continue;
        set_home(op.results[i], *layout);
        for (const dsl::Region& inner : op.regions) set_home(inner.args[i + first_arg], *layout);
      }
      for (const dsl::Region& inner : op.regions) visit(inner);
      if (round > 0 && (is_settled || before == changes_) && all_at_home(op)) return;
    }
  }

  // A product's layout comes before that of what the loop begins with: it is converted once.
  std::optional<Layout> carried_layout(const Op& op, ValueId init, size_t i, int round) const {
    const ValueId yielded = op.regions.back().ops.back().operands[i];
    const Op* producer = round > 0 ? def_use_.definition(yielded) : nullptr;
    if (producer && producer->code == OpCode::kDot) return out_.home[yielded];
    auto layout = common_layout({op.results[i], init});
    if (round > 0 && !layout) layout = natural(yielded);
    return layout;
  }

  bool all_at_home(const Op& op) const {
    return std::ranges::all_of(op.results, [&](ValueId id) { return out_.home[id].has_value(); });
  }

  void visit_if(const Op& op) {
    for (const dsl::Region& inner : op.regions) visit(inner);
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (type(op.results[i]).rank() == 0) {
        set_home(op.results[i], replicated({}, block_));
      } else {
        set_home(op.results[i], layout_or_default(op.regions[0].ops.back().operands[i]));
      }
    }
  }

  const dsl::Kernel& kernel_;
  const TargetInfo& target_;
  const BlockShape block_;
  const std::vector<AxisInfo>& info_;
  std::vector<Strides> strides_;
  std::map<const Op*, int> scanned_;  // loads, by axis
  std::map<ValueId, int> ordered_;    // tiles that topk selects from, by axis
  const dsl::DefUse def_use_;
  std::vector<bool> free_;                            // by value
  std::vector<int> depth_;                            // by value: ops without a home that lead to it
  std::vector<std::optional<Layout>> wanted_by_dot_;  // by value
  size_t changes_ = 0;                                // of homes
  std::set<const Op*> walked_;                        // loops
  struct Vector {
    int64_t elements = 0, bytes = 1;  // of an element
  };
  std::map<std::pair<std::vector<int64_t>, std::vector<int>>, Vector> vectors_;
  std::map<std::vector<int64_t>, std::optional<int>> reduced_;  // by shape
  Placement out_;
};

}  // namespace

Placement place(const dsl::Kernel& kernel, const TargetInfo& target, const BlockShape& block,
                const std::vector<AxisInfo>& info) {
  return Placer(kernel, target, block, info).take();
}

}  // namespace kiln::codegen::gpu
