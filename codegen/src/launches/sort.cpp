#include "launches/sort.h"

#include <algorithm>
#include <limits>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/wide.h"
#include "launches/sort_boundary.h"
#include "launches/split.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::Predicate;
using dsl::ReduceKind;
using dsl::ValueId;

bool is_descending(const Op& op) { return int_attr(op, 1) != 0; }

bool is_long(const Lengths& lengths, const dsl::Kernel& kernel, const Op& op) {
  if (op.code != OpCode::kSort) return false;
  const dsl::Type& type = kernel.type(op.operands[0]);
  if (type.rank() != 1 || type.element == ElementType::kI1) return false;
  const Chunks runs = chunks_of(lengths, lengths.sorted, kernel, op.operands, 0);
  if (runs.count == 0 || runs.count > lengths.most_runs) return false;
  return std::all_of(op.operands.begin(), op.operands.end(),
                     [&](ValueId operand) { return can_take_part(kernel, operand, 0); });
}

// A sort of other tiles, of their own extent.
std::vector<ValueId> sort(OpBuilder& build, const Op& op, const std::vector<ValueId>& tiles) {
  return build.add_all(op.code, tiles, op.attrs);
}

// What sorts behind every key that there is, or beside those that are equal to it.
uint64_t last_key(ElementType element, bool descending) {
  if (!dsl::is_float(element)) return bits_from_number(element, descending ? lowest(element) : highest(element));
  if (!descending) return dsl::bits_from_double(element, std::numeric_limits<double>::quiet_NaN());
  // e4m3 has no infinity: the conversion saturates.
  return dsl::bits_from_double(element, -std::numeric_limits<double>::infinity());
}

// The second step: one chunk of the result.
class MergeStep {
 public:
  MergeStep(dsl::Kernel& kernel, std::vector<Op>& out, const Op& op, const SortedRuns& runs, ValueId chunk)
      : kernel_(kernel),
        out_(out),
        op_(op),
        runs_(runs),
        length_(runs.chunks.length),
        chunk_(chunk),
        b_(kernel, out, op.loc) {}

  void append(const std::vector<ValueId>& from, const std::vector<ValueId>& to) {
    const ValueId begin = b_.add(OpCode::kMul, {chunk_, i32(length_)});
    const ValueId end = b_.add(OpCode::kMin, {b_.add(OpCode::kAdd, {begin, i32(length_)}), i32(runs_.chunks.extent)});
    const auto [first, behind] = bounds(begin, end);
    const ValueId t = b_.add(OpCode::kArange, {}, {dsl::Expr(0), dsl::Expr(length_)});
    const ValueId inside =
        b_.add(OpCode::kCmp, {t, splat(b_.add(OpCode::kSub, {end, begin}))}, {static_cast<int64_t>(Predicate::kLt)});
    const ValueId source = source_of(t, first, b_.add(OpCode::kSub, {behind, first}));
    std::vector<ValueId> tiles;
    for (size_t i = 0; i < from.size(); ++i) {
      const ElementType element = b_.type(from[i]).element;
      const ValueId other = b_.constant(element, i == 0 ? last_key(element, is_descending(op_)) : 0);
      tiles.push_back(b_.add(OpCode::kLoad, {address(from[i], source), inside, splat(other)}));
    }
    const std::vector<ValueId> sorted = sort(b_, op_, tiles);
    const ValueId place = b_.add(OpCode::kAdd, {splat(begin), t});
    for (size_t i = 0; i < to.size(); ++i) b_.effect(OpCode::kStore, {address(to[i], place), sorted[i], inside});
  }

 private:
  ValueId i32(int64_t x) { return b_.constant(ElementType::kI32, static_cast<uint64_t>(x) & 0xffffffff); }
  ValueId splat(ValueId x) { return b_.splat(x, {dsl::Expr(length_)}); }
  ValueId address(ValueId base, ValueId index) { return b_.add(OpCode::kAddptr, {splat(base), index}); }

  // By run: how many elements come before the chunk, and before its end.
  std::pair<ValueId, ValueId> bounds(ValueId begin, ValueId end) {
    const std::vector<dsl::Expr> two = {dsl::Expr(2)};
    const ValueId number = b_.add(OpCode::kArange, {}, {dsl::Expr(0), dsl::Expr(2)});
    const ValueId is_begin =
        b_.add(OpCode::kCmp, {number, b_.splat(i32(0), two)}, {static_cast<int64_t>(Predicate::kEq)});
    const ValueId places = b_.add(OpCode::kSelect, {is_begin, b_.splat(begin, two), b_.splat(end, two)});
    const ValueId counts = elements_before(kernel_, out_, op_.loc, runs_, places);
    const auto row = [&](int64_t i) {
      const ValueId only = b_.add(OpCode::kSlice, {counts}, {int64_t{0}, dsl::Expr(i), dsl::Expr(i + 1)});
      return b_.add(OpCode::kReduce, {only}, {static_cast<int64_t>(ReduceKind::kSum), int64_t{0}});
    };
    const ValueId first = row(0);
    return {first, row(1)};
  }

  // Where in the runs the elements of the chunk come from: piece after piece, `lengths` of each run from `first` on.
  ValueId source_of(ValueId t, ValueId first, ValueId lengths) {
    const auto scanned = [&](ValueId x) {
      return b_.add(OpCode::kScan, {x}, {static_cast<int64_t>(ReduceKind::kSum), int64_t{0}, int64_t{0}});
    };
    const ValueId ends = scanned(lengths);
    // The run of an element: how many pieces end at or before it. Behind the last piece the last run, which is masked.
    const ValueId passed = scanned(b_.add(OpCode::kHistogram, {ends}, {dsl::Expr(length_)}));
    const ValueId run = b_.add(OpCode::kMin, {passed, splat(i32(runs_.chunks.count - 1))});
    // Element t of the chunk is element t - (start of its piece) + first of its run.
    const ValueId starts = b_.add(OpCode::kSub, {ends, lengths});
    const ValueId shift = b_.add(OpCode::kAdd, {b_.add(OpCode::kSub, {first, starts}), run_starts(b_, runs_)});
    return b_.add(OpCode::kAdd, {t, b_.add(OpCode::kGather, {shift, run}, {int64_t{0}})});
  }

  dsl::Kernel& kernel_;
  std::vector<Op>& out_;
  const Op& op_;
  const SortedRuns& runs_;
  const int64_t length_;
  ValueId chunk_;
  OpBuilder b_;
};

}  // namespace

bool split_sort(LaunchSequence& sequence, const Lengths& lengths) {
  const ptrdiff_t number = find_long_op(sequence, lengths, is_long);
  if (number < 0) return false;
  const dsl::Kernel& kernel = sequence.steps.back().kernel;
  const Op op = kernel.body.ops[static_cast<size_t>(number)];
  SplitRule rule;
  rule.chunks = chunks_of(lengths, lengths.sorted, kernel, op.operands, 0);
  rule.per_chunk = rule.chunks.length;
  const dsl::Expr extent(rule.chunks.extent);
  for (ValueId operand : op.operands) rule.partials.push_back(kernel.type(operand).element);
  // Runs and result have places of their own, one behind the other in the list.
  rule.partials.insert(rule.partials.end(), rule.partials.begin(), rule.partials.end());
  rule.chunk = [&](PartBuilder& parts) {
    std::vector<ValueId> tiles;
    for (ValueId operand : op.operands) tiles.push_back(parts.part(operand, 0));
    return sort(parts.build(), op, tiles);
  };
  std::vector<ValueId> pointers;
  split_op(sequence, static_cast<size_t>(number), rule,
           [&](dsl::Kernel&, std::vector<Op>& out, OpBuilder& build, Partials& partials) {
             pointers = partials.pointers();
             const ValueId index = build.add(OpCode::kArange, {}, {dsl::Expr(0), extent});
             for (size_t i = 0; i < op.operands.size(); ++i) {
               const ValueId base = build.splat(pointers[op.operands.size() + i], {extent});
               build.add(OpCode::kLoad, {build.add(OpCode::kAddptr, {base, index})});
               out.back().results = {op.results[i]};
             }
           });
  LaunchStep merge{sequence.steps.back().kernel, "kiln_stage_" + std::to_string(sequence.steps.size() - 1),
                   rule.chunks.count};
  merge.kernel.body.ops.clear();
  const auto half = pointers.begin() + static_cast<ptrdiff_t>(op.operands.size());
  const SortedRuns runs{rule.chunks, pointers[0], is_descending(op)};
  MergeStep(merge.kernel, merge.kernel.body.ops, op, runs, merge.kernel.params[sequence.kernel_params].value)
      .append({pointers.begin(), half}, {half, pointers.end()});
  merge.kernel = dsl::canonicalise(merge.kernel);
  sequence.steps.insert(sequence.steps.end() - 1, std::move(merge));
  return true;
}

}  // namespace kiln::codegen
