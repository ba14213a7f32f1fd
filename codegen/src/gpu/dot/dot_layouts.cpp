#include "gpu/dot/dot_layouts.h"

#include <bit>
#include <map>

#include "gpu/analysis/dot_chain.h"
#include "gpu/dot/multiply_add.h"
#include "gpu/layout/algebra.h"
#include "gpu/layout/coalesce.h"
#include "gpu/shared/shared_panels.h"
#include "kiln/dsl/uses.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen::gpu {
namespace {

int log2_of(int64_t x) { return std::countr_zero(static_cast<uint64_t>(x)); }

// What a product is to others of its kernel (dot_chain.h).
struct Neighbours {
  std::optional<Layout> accumulator_before = {};  // of the instruction
  bool has_behind = false;
};

// How warps share the fragments of the result: batches first, then as square as the tile allows, so that operands are
// read least often; `by_rows`: rows before columns.
struct WarpGrid {
  int64_t batch = 1, m = 1, n = 1, idle = 1;
};
WarpGrid warp_grid(const DotFragments& all, int64_t rows, int64_t columns, int64_t warps, bool by_rows) {
  WarpGrid out;
  out.batch = std::min(warps, all.batch);
  warps /= out.batch;
  while (out.m * out.n < warps) {
    const bool m_left = out.m < all.m, n_left = out.n < all.n;
    if (!m_left && !n_left) break;
    if (m_left && (!n_left || by_rows || rows / out.m >= columns / out.n)) {
      out.m *= 2;
    } else {
      out.n *= 2;
    }
  }
  out.idle = warps / (out.m * out.n);
  return out;
}

// A fragment of so many rows and columns at most: what stood for more is free, and holds copies.
Layout cut(const Layout& fragment, int64_t rows, int64_t columns) {
  const std::vector<int64_t> whole = fragment.shape();
  Layout out({std::min(whole[0], rows), std::min(whole[1], columns)});
  for (Dim dim : {Dim::kRegister, Dim::kLane, Dim::kWarp}) {
    for (Bits basis : fragment.bases(dim)) {
      const std::vector<int64_t> at = fragment.coordinates(basis);
      out.add(dim, at[0] < out.shape()[0] && at[1] < out.shape()[1] ? out.element(at) : 0);
    }
  }
  return out;
}

// Each thread a block of neighbours of the result.
Layout blocks_of_result(const std::vector<int64_t>& shape, const BlockShape& block) {
  AccessShape access;
  for (size_t i = shape.size(); i-- > 0;) access.order.push_back(static_cast<int>(i));
  access.vector = 4;
  return coalesced(shape, access, block);
}

// The f32 that scaled products are made of where there are matrix instructions neither for f8 nor for f16.
MatrixInstruction scaled_multiply_adds(const ElementContext& context, const DotTypes& types, int64_t rows,
                                       int64_t columns, int64_t inner, const BlockShape& block) {
  constexpr auto kWide = ElementType::kF32;
  auto of_block = multiply_add_instruction({kWide, kWide, kWide}, rows, columns, inner, block);
  return on_wider(context, of_block ? *of_block : least_multiply_add_instruction(block), types, kWide);
}

// Multiples of shared memory that B may take. What does not fit there at once comes by parts, which threads hold until
// the product, since it is not in a loop: an operand of more parts is multiplied in a loop, a part at a time.
constexpr int64_t kMostParts = 2;

constexpr int64_t kScaledBlock = 32;  // elements along the inner axis that share a scale

// Where whole instructions cover the inner axis.
std::optional<ScaledInstruction> scaled_instruction(const DotTypes& types, int64_t inner, bool is_whole,
                                                    const TargetInfo& target) {
  auto out = is_whole ? target.scaled_instruction(types.a, types.b) : std::nullopt;
  return out && inner % out->a.shape()[1] == 0 ? out : std::nullopt;
}

// For sums of one block of the inner axis: an instruction that multiplies more at once gives way to that of f16.
std::optional<MatrixInstruction> block_instruction(const ElementContext& context, const TargetInfo& target,
                                                   const DotTypes& types) {
  const auto fits = [](const auto& x) { return x && x->a.shape()[1] <= kScaledBlock; };
  auto out = dot_instruction(context, target, types);
  if (!out || fits(out)) return out;
  constexpr auto kWide = ElementType::kF16;
  const auto wide = target.matrix_instruction(kWide, kWide, types.sum, types.precision);
  return fits(wide) ? std::optional(on_wider(context, *wide, types, kWide)) : std::nullopt;
}

// Of operands with these extents, which are powers of two. `is_whole`: the inner axis is not padded; `is_scaled`: of a
// dot_scaled.
DotLayouts layouts_of(const ElementContext& context, const DotTypes& types, const std::vector<int64_t>& a,
                      const std::vector<int64_t>& sum, bool is_whole, bool is_scaled, const Neighbours& neighbours,
                      const TargetInfo& target, const BlockShape& block) {
  const bool batched = sum.size() == 3;
  const int64_t rows = sum[sum.size() - 2], columns = sum.back(), inner = a.back();
  auto scaled = is_scaled ? scaled_instruction(types, inner, is_whole, target) : std::nullopt;
  auto instruction = scaled      ? std::optional(MatrixInstruction{scaled->a, scaled->b, scaled->accumulator, {}})
                     : is_scaled ? block_instruction(context, target, types)
                                 : dot_instruction(context, target, types);
  if (instruction && neighbours.accumulator_before)
    instruction = in_order_of(*neighbours.accumulator_before, std::move(*instruction));
  if (!instruction && is_scaled) instruction = scaled_multiply_adds(context, types, rows, columns, inner, block);
  const bool is_held = inner * columns * dsl::info(types.b).bytes <= kMostParts * target.lane_facts().shared_bytes;
  if (!instruction && !batched && is_whole && is_held) {
    instruction = multiply_add_instruction(types, rows, columns, inner, block);
  }
  if (!instruction) return {blocks_of_result(sum, block)};
  const std::vector<int64_t> tile = instruction->accumulator.shape();
  const int64_t tile_k = instruction->a.shape()[1];
  DotFragments out;
  out.batch = batched ? sum[0] : 1;
  out.m = std::max<int64_t>(rows / tile[0], 1);
  out.n = std::max<int64_t>(columns / tile[1], 1);
  out.k = std::max<int64_t>(inner / tile_k, 1);
  const bool by_rows = neighbours.accumulator_before || neighbours.has_behind;
  const WarpGrid warps = warp_grid(out, rows, columns, block.warps, by_rows);
  const DotFragments all = out;
  out.batch /= warps.batch, out.m /= warps.m, out.n /= warps.n;

  // How fragments lie in the batch and along two axes of it; an axis that is not there is kNoAxis.
  const auto arranged = [&](const Layout& fragment, int64_t x, int64_t y, int m, int n, int k) {
    const auto bits = [](int axis, int64_t count) { return axis == kNoAxis ? 0 : log2_of(count); };
    const Layout rest = from_steps({all.batch, x, y}, {{Dim::kRegister, n, bits(n, out.n)},
                                                       {Dim::kRegister, m, bits(m, out.m)},
                                                       {Dim::kRegister, k, bits(k, out.k)},
                                                       {Dim::kRegister, 0, log2_of(out.batch)},
                                                       {Dim::kWarp, n, log2_of(warps.n)},
                                                       {Dim::kWarp, m, log2_of(warps.m)},
                                                       {Dim::kWarp, 0, log2_of(warps.batch)},
                                                       {Dim::kWarp, kNoAxis, log2_of(warps.idle)}});
    const Layout layout = product(expand(fragment, 0), rest);
    return batched ? layout : slice(layout, 0);
  };
  const auto a_from = [&](int64_t k) { return arranged(cut(instruction->a, rows, k), all.m, all.k, 1, kNoAxis, 2); };
  const auto b_from = [&](int64_t k) { return arranged(cut(instruction->b, k, columns), all.k, all.n, kNoAxis, 2, 1); };
  out.a = a_from(inner), out.whole_a = a_from(tile_k);
  out.b = b_from(inner), out.whole_b = b_from(tile_k);
  out.accumulators = arranged(cut(instruction->accumulator, rows, columns), all.m, all.n, 1, 2, kNoAxis);
  out.instruction = std::move(*instruction);
  if (scaled) {
    const int64_t blocks = tile_k * (types.a == ElementType::kU8 ? 2 : 1) / kScaledBlock;
    const Layout a_scales = arranged(cut(scaled->a_scales, rows, blocks), all.m, all.k, 1, kNoAxis, 2);
    const Layout b_scales = arranged(cut(scaled->b_scales, columns, blocks), all.n, all.k, kNoAxis, 1, 2);
    out.scaled = ScaledFragments{std::move(*scaled), a_scales, b_scales};
  }
  const Layout home = without_copies_in_registers(out.accumulators).layout;
  return {home, std::move(out), std::nullopt};
}

// `inner`: the axis without padding. Groups of warps take rows of the result first, so that what a row needs stays in a
// group.
std::optional<DotLayouts> by_group(const GroupInstruction& instruction, const std::vector<int64_t>& a,
                                   const std::vector<int64_t>& sum, int64_t inner, int warps) {
  const int64_t least = instruction.least_columns;
  if (warps % instruction.warps != 0 || sum[0] < instruction.rows || sum[1] < least || a[1] < instruction.k) {
    return std::nullopt;
  }
  const int64_t count = warps / instruction.warps, m = sum[0] / instruction.rows;
  const int64_t m_groups = std::min(count, m), n_groups = std::min(count / m_groups, sum[1] / least);
  const int64_t idle = count / (m_groups * n_groups);
  DotGroup out{instruction, {}};
  out.columns = static_cast<int>(std::min<int64_t>(instruction.max_columns, sum[1] / n_groups));
  const int64_t n = sum[1] / out.columns;
  out.m = m / m_groups;
  out.n = n / n_groups;
  out.k = (inner + instruction.k - 1) / instruction.k;
  out.padded_k = a[1] / instruction.k;
  if (instruction.sums_in_tensor_memory()) out.all_columns = count * out.m * out.n * out.columns;
  const Layout accumulators = from_steps({m, n}, {{Dim::kRegister, 1, log2_of(out.n)},
                                                  {Dim::kRegister, 0, log2_of(out.m)},
                                                  {Dim::kWarp, 1, log2_of(n_groups)},
                                                  {Dim::kWarp, 0, log2_of(m_groups)},
                                                  {Dim::kWarp, kNoAxis, log2_of(idle)}});
  const Layout rows = from_steps({m, out.padded_k}, {{Dim::kRegister, 1, log2_of(out.padded_k)},
                                                     {Dim::kRegister, 0, log2_of(out.m)},
                                                     {Dim::kWarp, kNoAxis, log2_of(n_groups)},
                                                     {Dim::kWarp, 0, log2_of(m_groups)},
                                                     {Dim::kWarp, kNoAxis, log2_of(idle)}});
  out.a = product(instruction.a, rows);
  const Layout home = product(instruction.accumulator(out.columns), accumulators);
  return DotLayouts{home, std::nullopt, std::move(out)};
}

DotTypes types_of(const dsl::Kernel& kernel, const dsl::Op& dot) {
  const auto element = [&](size_t i) { return kernel.type(dot.operands[i]).element; };
  return {element(0), element(1), element(2), static_cast<dsl::Precision>(int_attr(dot, 0))};
}

Neighbours neighbours_of(const dsl::Kernel& kernel, const ElementContext& context, const dsl::Op& dot,
                         const TargetInfo& target) {
  Neighbours out;
  out.has_behind = has_dot_behind(kernel, dot);
  if (const dsl::Op* before = dot_before(kernel, dot)) {
    if (auto instruction = dot_instruction(context, target, types_of(kernel, *before))) {
      out.accumulator_before = std::move(instruction->accumulator);
    }
  }
  return out;
}

// Whether an operand's elements can lie in shared memory as a group of warps wants them.
bool fits_panels(const dsl::Type& operand) {
  return shared_panels_of(operand, 0).has_value() || shared_panels_of(operand, 1).has_value();
}

// By group, where the product's types and tiles let it be.
std::optional<DotLayouts> group_layouts(const dsl::Kernel& kernel, const dsl::Op& dot, const TargetInfo& target,
                                        const BlockShape& block) {
  if (dot.code != dsl::OpCode::kDot) return std::nullopt;
  const dsl::Type &a = kernel.type(dot.operands[0]), &b = kernel.type(dot.operands[1]);
  const dsl::Type& sum = kernel.type(dot.operands[2]);
  if (sum.rank() != 2 || !fits_panels(a) || !fits_panels(b)) return std::nullopt;
  const DotTypes types = types_of(kernel, dot);
  const auto group = target.group_instruction(types.a, types.b, types.sum, types.precision);
  if (!group) return std::nullopt;
  return by_group(*group, padded_shape(a), padded_shape(sum), dsl::concrete_shape(a).back(), block.warps);
}

// Which columns of tensor memory a kernel's products have. In program order, as long as there are some: a product that
// comes too late multiplies otherwise. One that goes on with the sums of another has the same.
class TensorColumns {
 public:
  TensorColumns(const dsl::Kernel& kernel, const TargetInfo& target, const BlockShape& block)
      : most_(TensorEngine::kColumns / block.consumer_groups), definition_(kernel.values.size()) {
    if (!target.tensor_engine()) return;
    const std::vector<uint32_t> uses = dsl::count_uses(kernel);
    dsl::for_each_op(kernel, [&](const dsl::Op& op) {
      const auto layouts = group_layouts(kernel, op, target, block);
      if (!layouts || !layouts->group->instruction.sums_in_tensor_memory()) return;
      const int64_t columns = layouts->group->all_columns;
      const dsl::Op* before = definition_[op.operands[2]];
      definition_[op.results[0]] = &op;
      const auto found = before && uses[op.operands[2]] == 1 ? first_.find(before) : first_.end();
      if (found != first_.end() && found->second.second == columns) {
        first_[&op] = found->second;
      } else if (used_ + columns <= most_) {
        first_[&op] = {used_, columns};
        used_ += columns;
      }
    });
  }

  std::optional<int64_t> first(const dsl::Op& dot) const {
    const auto found = first_.find(&dot);
    return found == first_.end() ? std::nullopt : std::optional(found->second.first);
  }
  int64_t used() const { return used_; }

 private:
  const int64_t most_;
  std::vector<const dsl::Op*> definition_;
  std::map<const dsl::Op*, std::pair<int64_t, int64_t>> first_;  // and how many
  int64_t used_ = 0;
};

}  // namespace

int64_t tensor_columns(const dsl::Kernel& kernel, const TargetInfo& target, const BlockShape& block) {
  return TensorColumns(kernel, target, block).used();
}

bool multiplies_packed(const dsl::Kernel& kernel, const TargetInfo& target) {
  bool any = false, all = true;
  dsl::for_each_op(kernel, [&](const dsl::Op& op) {
    if (op.code != dsl::OpCode::kDotScaled) return;
    const dsl::Type &a = kernel.type(op.operands[0]), &b = kernel.type(op.operands[2]);
    if (a.element != ElementType::kU8 && b.element != ElementType::kU8) return;
    any = true;
    const int64_t inner = padded_shape(a).back();
    const bool is_whole = inner == dsl::concrete_shape(a).back();
    const DotTypes types = {a.element, b.element, ElementType::kF32, dsl::Precision::kIeee};
    all &= a.element == b.element && scaled_instruction(types, inner, is_whole, target).has_value();
  });
  return any && all;
}

DotLayouts dot_layouts(const dsl::Kernel& kernel, const dsl::Op& dot, const TargetInfo& target,
                       const BlockShape& block) {
  const bool scaled = dot.code == dsl::OpCode::kDotScaled;
  const dsl::Type &a = kernel.type(dot.operands[0]), &b = kernel.type(dot.operands[scaled ? 2 : 1]);
  const dsl::Type& sum = kernel.type(dot.operands[scaled ? 4 : 2]);
  const ElementContext context{kernel, "", target.math(), true, false, target.small_floats()};
  const DotTypes types =
      scaled ? DotTypes{a.element, b.element, sum.element, dsl::Precision::kIeee} : types_of(kernel, dot);
  if (auto layouts = group_layouts(kernel, dot, target, block)) {
    if (!layouts->group->instruction.sums_in_tensor_memory()) return *layouts;
    if (const auto first = TensorColumns(kernel, target, block).first(dot)) {
      layouts->group->first_column = *first;
      return *layouts;
    }
  }
  const Neighbours neighbours = scaled ? Neighbours() : neighbours_of(kernel, context, dot, target);
  return layouts_of(context, types, padded_shape(a), padded_shape(sum),
                    padded_shape(a).back() == dsl::concrete_shape(a).back(), scaled, neighbours, target, block);
}

}  // namespace kiln::codegen::gpu
