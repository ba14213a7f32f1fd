#include "launches/scan.h"

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/wide.h"
#include "launches/combine.h"
#include "launches/stores.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::Predicate;
using dsl::ValueId;

bool is_reverse(const Op& op) { return int_attr(op, 2) != 0; }

Chunks chunks_of(const Lengths& lengths, const dsl::Kernel& kernel, const Op& op) {
  return chunks_of(lengths, lengths.scanned, kernel, op.operands, reduced_axis(op));
}

bool is_long(const Lengths& lengths, const dsl::Kernel& kernel, const Op& op) {
  if (op.code != OpCode::kScan) return false;
  const Chunks chunks = chunks_of(lengths, kernel, op);
  // One program scans the totals.
  const int64_t rows = dsl::element_count(kernel.type(op.operands[0])) / std::max<int64_t>(chunks.extent, 1);
  if (chunks.count == 0 || chunks.count * rows > lengths.scanned) return false;
  return std::ranges::all_of(op.operands,
                             [&](ValueId operand) { return can_take_part(kernel, operand, reduced_axis(op)); });
}

// A scan or reduce of other operands, along another axis, that combines as the op does.
std::vector<ValueId> same_op(dsl::Kernel& kernel, std::vector<Op>& out, const Op& op, OpCode code,
                             const std::vector<ValueId>& operands, size_t axis) {
  std::vector<dsl::Attr> attrs = op.attrs;
  attrs[1] = static_cast<int64_t>(axis);
  if (code == OpCode::kReduce) attrs.pop_back();  // `reverse`
  std::vector<dsl::Region> regions;
  for (const dsl::Region& region : op.regions) regions.push_back(clone(kernel, region));
  return OpBuilder(kernel, out, op.loc).add_all(code, operands, std::move(attrs), std::move(regions));
}

class ScanPlan {
 public:
  ScanPlan(const dsl::Kernel& kernel, const Op& op, const Chunks& chunks) : op_(op) {
    rule_.axis = reduced_axis(op);
    rule_.chunks = chunks;
    rule_.others = kernel.type(op.operands[0]).shape;
    rule_.others.erase(rule_.others.begin() + static_cast<ptrdiff_t>(rule_.axis));
    for (ValueId operand : op.operands) {
      const ElementType element = kernel.type(operand).element;
      rule_.partials.push_back(is_widened(reduce_kind(op), element) ? ElementType::kF32 : element);
    }
    rule_.chunk = [this](PartBuilder& parts) { return totals(parts); };
  }

  const SplitRule& rule() const { return rule_; }

  // Of a chunk; from the end, left is what comes later.
  std::vector<ValueId> totals(PartBuilder& parts) const {
    Op op = op_;
    if (is_reverse(op) && !op.regions.empty()) {
      std::vector<ValueId>& args = op.regions[0].args;
      std::rotate(args.begin(), args.begin() + std::ssize(args) / 2, args.end());
    }
    return same_op(parts.target(), parts.out(), op, OpCode::kReduce, operands(parts), rule_.axis);
  }

  // The second step: totals become those of a chunk and all before it, in place.
  void scan_totals(dsl::Kernel& kernel, const std::vector<ValueId>& pointers) const {
    std::vector<Op>& out = kernel.body.ops;
    OpBuilder build(kernel, out, op_.loc);
    Partials partials(build, rule_, pointers);
    std::vector<ValueId> tiles;
    for (size_t i = 0; i < pointers.size(); ++i) tiles.push_back(partials.all(i));
    const std::vector<ValueId> scanned = same_op(kernel, out, op_, OpCode::kScan, tiles, rule_.others.size());
    const std::vector<dsl::Expr> shape = kernel.type(tiles[0]).shape;
    const ValueId index = row_numbers(build, shape, 1);
    for (size_t i = 0; i < pointers.size(); ++i) {
      build.effect(OpCode::kStore, {build.add(OpCode::kAddptr, {build.splat(pointers[i], shape), index}), scanned[i]});
    }
  }

  // The last step: a part of the op's results.
  std::vector<ValueId> results(PartBuilder& parts, ValueId chunk, const std::vector<ValueId>& pointers) const {
    dsl::Kernel& kernel = parts.target();
    OpBuilder& build = parts.build();
    const std::vector<ValueId> own = same_op(kernel, parts.out(), op_, OpCode::kScan, operands(parts), rule_.axis);
    const std::vector<dsl::Expr> shape = kernel.type(own[0]).shape;
    const auto i32 = [&](int64_t x) {
      return build.constant(ElementType::kI32, bits_from_number(ElementType::kI32, x));
    };
    // The chunk before this one, or itself where there is none.
    const ValueId first = i32(is_reverse(op_) ? rule_.chunks.count - 1 : 0);
    const ValueId next = build.add(OpCode::kAdd, {chunk, i32(is_reverse(op_) ? 1 : -1)});
    const ValueId before = build.add(is_reverse(op_) ? OpCode::kMin : OpCode::kMax, {next, first});
    const ValueId has_before = build.add(OpCode::kCmp, {chunk, first}, {static_cast<int64_t>(Predicate::kNe)});
    Partials partials(build, rule_, pointers);
    std::vector<ValueId> left;
    for (size_t i = 0; i < own.size(); ++i) {
      left.push_back(spread(build, partials.at(i, build.splat(before, rule_.others)), shape));
    }
    std::vector<ValueId> out = combine(kernel, parts.out(), op_, left, own);
    for (size_t i = 0; i < own.size(); ++i) {
      out[i] = build.add(OpCode::kSelect, {build.splat(has_before, shape), out[i], own[i]});
      const ElementType element = kernel.type(op_.results[i]).element;
      if (element != kernel.type(out[i]).element) out[i] = build.add(OpCode::kCast, {out[i]}, {element});
    }
    return out;
  }

 private:
  std::vector<ValueId> operands(PartBuilder& parts) const {
    std::vector<ValueId> out;
    for (ValueId operand : op_.operands) {
      out.push_back(widen(parts.build(), reduce_kind(op_), parts.part(operand, rule_.axis)));
    }
    return out;
  }

  // A tile of the other axes repeated along the scanned one.
  ValueId spread(OpBuilder& build, ValueId tile, const std::vector<dsl::Expr>& shape) const {
    if (rule_.others.empty()) return build.splat(tile, shape);
    return build.add(OpCode::kBroadcast, {build.add(OpCode::kExpandDims, {tile}, {static_cast<int64_t>(rule_.axis)})},
                     {shape});
  }

  const Op op_;
  SplitRule rule_;
};

}  // namespace

bool split_scan(LaunchSequence& sequence, const Lengths& lengths) {
  const ptrdiff_t number = find_long_op(sequence, lengths, is_long);
  if (number < 0) return false;
  LaunchSequence cut = sequence;
  const dsl::Kernel& kernel = sequence.steps.back().kernel;
  const Op& op = kernel.body.ops[static_cast<size_t>(number)];
  const ScanPlan scan(kernel, op, chunks_of(lengths, kernel, op));
  std::vector<ValueId> pointers;
  split_op(cut, static_cast<size_t>(number), scan.rule(),
           [&](dsl::Kernel&, std::vector<Op>&, OpBuilder&, Partials& partials) { pointers = partials.pointers(); });
  LaunchStep totals{cut.steps.back().kernel, "kiln_stage_" + std::to_string(cut.steps.size() - 1)};
  const ValueId chunk = totals.kernel.params[cut.kernel_params].value;
  const KnownParts results{op.results, [&](PartBuilder& parts) { return scan.results(parts, chunk, pointers); }};
  if (!cut_stores(cut, scan.rule().axis, scan.rule().chunks, results)) return false;
  totals.kernel.body.ops.clear();
  scan.scan_totals(totals.kernel, pointers);
  totals.kernel = dsl::canonicalise(totals.kernel);
  cut.steps.insert(cut.steps.end() - 1, std::move(totals));
  sequence = std::move(cut);
  return true;
}

}  // namespace kiln::codegen
