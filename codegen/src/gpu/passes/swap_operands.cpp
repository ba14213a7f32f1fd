#include "gpu/passes/swap_operands.h"

#include <algorithm>

#include "gpu/dot/dot_layouts.h"
#include "gpu/layout/coalesce.h"
#include "kiln/dsl/op_builder.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/traits.h"
#include "kiln/dsl/uses.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

constexpr size_t kFirstInit = 3, kFirstArgument = 1;
constexpr int kWordBits = 32;

bool is_transpose(const Op& op) {
  return op.code == OpCode::kPermute && std::get<std::vector<dsl::Expr>>(op.attrs[0])[0].as_constant() == 1;
}

bool takes_words(const GroupInstruction& group) { return !group.any_axis_fastest && group.element_bits == kWordBits; }

// Which values are computed by threads, not loaded, nor transposes of what is loaded.
std::vector<bool> computed_values(const dsl::Kernel& kernel) {
  std::vector<bool> out(kernel.values.size());
  dsl::for_each_op(kernel, [&](const Op& op) {
    const bool is_computed = is_pure(op) && op.code != OpCode::kDot;
    for (ValueId id : op.results) out[id] = is_transpose(op) ? out[op.operands[0]] : is_computed;
  });
  return out;
}

// Whether the kernel has a product that might gain.
bool any_product(const dsl::Kernel& kernel, const TargetInfo& target, const std::vector<bool>& computed) {
  return any_op(kernel, [&](const Op& op) {
    if (op.code != OpCode::kDot) return false;
    const auto element = [&](size_t i) { return kernel.type(op.operands[i]).element; };
    const auto group =
        target.group_instruction(element(0), element(1), element(2), static_cast<dsl::Precision>(int_attr(op, 0)));
    return group && (takes_words(*group) || computed[op.operands[1]]);
  });
}

class Swap {
 public:
  Swap(dsl::Kernel& kernel, const TargetInfo& target, const BlockShape& block, std::vector<bool> computed)
      : kernel_(kernel),
        target_(target),
        block_(block),
        computed_(std::move(computed)),
        fast_(kernel.values.size()),
        uses_(dsl::count_uses(kernel)) {
    note_fast_axes();
  }

  void run() {
    dsl::rewrite_ops(kernel_, [this](Op& op, std::vector<Op>& kept) {
      std::vector<Op> behind;
      if (op.code == OpCode::kFor) {
        for (size_t i = 0; i < op.results.size(); ++i) {
          if (const auto dot = product_of(op, i)) swap(op, i, *dot, kept, behind);
        }
      }
      kept.push_back(std::move(op));
      std::ranges::move(behind, std::back_inserter(kept));
    });
  }

 private:
  // Along which axis the lines of loaded matrices run in memory, and of their transposes.
  void note_fast_axes() {
    const std::vector<AxisInfo> info = axis_info(kernel_, Wrap::kIndex);
    const std::vector<Strides> strides = strides_of(kernel_);
    dsl::for_each_op(kernel_, [&](const Op& op) {
      if (op.code == OpCode::kLoad && kernel_.type(op.results[0]).rank() == 2) {
        fast_[op.results[0]] = access_shape(kernel_, op, info, strides).order[0];
      } else if (is_transpose(op) && fast_[op.operands[0]]) {
        fast_[op.results[0]] = 1 - *fast_[op.operands[0]];
      }
    });
  }

  // Where in the loop's body the product is that alone makes a carried value, if it gains.
  std::optional<size_t> product_of(const Op& loop, size_t i) const {
    const dsl::Region& body = loop.regions[0];
    const ValueId carried = body.args[kFirstArgument + i], yielded = body.ops.back().operands[i];
    const auto found = std::ranges::find_if(
        body.ops, [&](const Op& op) { return op.code == OpCode::kDot && op.results[0] == yielded; });
    if (found == body.ops.end() || found->operands[2] != carried) return std::nullopt;
    if (uses_[carried] != 1 || uses_[yielded] != 1 || !gains(*found)) return std::nullopt;
    return static_cast<size_t>(found - body.ops.begin());
  }

  bool gains(const Op& dot) const {
    if (kernel_.type(dot.results[0]).rank() != 2) return false;
    const auto group = dot_layouts(kernel_, dot, target_, block_).group;
    const int64_t columns = dsl::concrete_shape(kernel_.type(dot.results[0]))[1];
    if (!group || columns % group->instruction.rows != 0) return false;
    const ValueId a = dot.operands[0], b = dot.operands[1];
    if (takes_words(group->instruction)) return fast_[a] == 1 && fast_[b] == 1;
    return computed_[b] && fast_[a];
  }

  ValueId transposed(std::vector<Op>& out, const dsl::Location& loc, ValueId id) {
    return OpBuilder(kernel_, out, loc).add(OpCode::kPermute, {id}, {std::vector<dsl::Expr>{1, 0}});
  }

  ValueId like_transposed(ValueId id) {
    dsl::Type type = kernel_.type(id);
    std::swap(type.shape[0], type.shape[1]);
    return fresh_value(kernel_, std::move(type));
  }

  void swap(Op& loop, size_t i, size_t number, std::vector<Op>& before, std::vector<Op>& behind) {
    dsl::Region& body = loop.regions[0];
    loop.operands[kFirstInit + i] = transposed(before, loop.loc, loop.operands[kFirstInit + i]);
    body.args[kFirstArgument + i] = like_transposed(body.args[kFirstArgument + i]);
    Op dot = std::move(body.ops[number]);
    std::vector<Op> swapped;
    const ValueId b = transposed(swapped, dot.loc, dot.operands[1]), a = transposed(swapped, dot.loc, dot.operands[0]);
    dot.operands = {b, a, body.args[kFirstArgument + i]};
    dot.results = {like_transposed(dot.results[0])};
    body.ops.back().operands[i] = dot.results[0];
    swapped.push_back(std::move(dot));
    const auto place = body.ops.erase(body.ops.begin() + static_cast<ptrdiff_t>(number));
    body.ops.insert(place, std::make_move_iterator(swapped.begin()), std::make_move_iterator(swapped.end()));

    const ValueId result = loop.results[i];
    loop.results[i] = like_transposed(result);
    transposed(behind, loop.loc, loop.results[i]);
    behind.back().results = {result};
  }

  dsl::Kernel& kernel_;
  const TargetInfo& target_;
  const BlockShape& block_;
  const std::vector<bool> computed_;      // by value
  std::vector<std::optional<int>> fast_;  // by value
  const std::vector<uint32_t> uses_;
};

}  // namespace

dsl::Kernel swap_operands(dsl::Kernel kernel, const TargetInfo& target, const BlockShape& block) {
  const std::vector<bool> computed = computed_values(kernel);
  if (any_product(kernel, target, computed)) Swap(kernel, target, block, computed).run();
  return kernel;
}

}  // namespace kiln::codegen::gpu
