#include "launches/split.h"

#include <algorithm>
#include <bit>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/rewrite.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

constexpr int64_t kAlignment = 64;    // bytes, of each partial result's place in the workspace
constexpr int64_t kLeastChunk = 256;  // elements along an axis

// For a kernel of so many programs; nothing where they keep the target busy by themselves. `is_split`: it is a
// sequence.
std::optional<Lengths> lengths_for(const dsl::Kernel& kernel, Lengths lengths, bool is_split) {
  int64_t count = 1;
  bool is_known = true;
  for (const dsl::Expr& extent : kernel.grid) {
    const auto known = extent.as_constant();
    is_known &= known.has_value();
    if (known && (*known < 1 || *known > lengths.programs)) return std::nullopt;
    count *= known.value_or(1);
  }
  if (count > lengths.programs || (!is_known && lengths.of_unknown_grids == 0)) return std::nullopt;
  if (is_known || is_split) return lengths;
  for (int64_t* least : {&lengths.reduced, &lengths.scanned, &lengths.selected, &lengths.sorted}) {
    *least *= lengths.of_unknown_grids;
  }
  return lengths;
}

ValueId add_param(dsl::Kernel& kernel, std::string name, dsl::Type type) {
  while (kernel.find_param(name)) name += "_";
  const ValueId value = fresh_value(kernel, type);
  kernel.params.push_back({name, std::move(type), false, value, false});
  return value;
}

// Gives the last step a pointer to a place in the workspace for each kind of partial result.
std::vector<ValueId> add_partials(LaunchSequence& sequence, const SplitRule& rule) {
  std::vector<ValueId> out;
  for (ElementType element : rule.partials) {
    out.push_back(add_room(sequence, element, element_product(rule.others) * rule.chunks.count * rule.each()));
  }
  return out;
}

// Stores the results of a chunk: element (row, j) of it at (row · chunks + chunk) · each + j.
void store_results(OpBuilder& build, const SplitRule& rule, ValueId chunk, const std::vector<ValueId>& pointers,
                   const std::vector<ValueId>& results) {
  std::vector<dsl::Expr> shape = rule.others;
  ValueId index = row_numbers(build, rule.others, rule.chunks.count * rule.each());
  const ValueId per_chunk = build.constant(ElementType::kI32, static_cast<uint64_t>(rule.each()));
  ValueId first = build.add(OpCode::kMul, {chunk, per_chunk});
  index = build.add(OpCode::kAdd, {index, build.splat(first, shape)});
  if (rule.per_chunk > 0) {
    shape.push_back(build.type(results[0]).shape.back());
    index = build.add(OpCode::kAdd, {spread_last(build, index, shape), along_last(build, shape)});
  }
  for (size_t i = 0; i < results.size(); ++i) {
    build.effect(OpCode::kStore, {build.add(OpCode::kAddptr, {build.splat(pointers[i], shape), index}), results[i]});
  }
}

// The kernel without its effects, which this step's stores replace; what they alone needed is dropped.
dsl::Kernel make_chunks(const dsl::Kernel& source, const Op& op, const SplitRule& rule, ValueId chunk,
                        const std::vector<ValueId>& pointers) {
  dsl::Kernel kernel = source;
  std::erase_if(kernel.body.ops, [](const Op& each) { return has_effect(each); });
  append_chunk(kernel, op.loc, rule.chunks, chunk, [&](std::vector<Op>& out, const Part& part) {
    PartBuilder parts(source, kernel, out, op.loc, part);
    const std::vector<ValueId> results = rule.chunk(parts);
    store_results(parts.build(), rule, chunk, pointers, results);
  });
  return dsl::canonicalise(kernel);
}

}  // namespace

int64_t element_product(const std::vector<dsl::Expr>& shape) {
  int64_t out = 1;
  for (const dsl::Expr& extent : shape) out *= *extent.as_constant();
  return out;
}

Chunks chunks_of(const Lengths& lengths, int64_t least, const dsl::Kernel& kernel, const std::vector<ValueId>& tiles,
                 size_t axis) {
  const std::vector<dsl::Expr>& shape = kernel.type(tiles[0]).shape;
  const int64_t extent = *shape[axis].as_constant();
  int64_t each = 1;  // elements for each one along the axis
  if (lengths.of_whole_tile) {
    for (ValueId tile : tiles) each = std::max<int64_t>(each, dsl::info(kernel.type(tile).element).bytes / 4);
    each *= element_product(shape) / extent;
  }
  const int64_t length = lengths.chunk / static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(each)));
  if (extent * each < least || length < kLeastChunk) return {};
  return {extent, length, (extent + length - 1) / length};
}

void append_chunk(dsl::Kernel& kernel, const dsl::Location& loc, const Chunks& chunks, ValueId number,
                  const std::function<void(std::vector<Op>& out, const Part& part)>& append) {
  const auto append_any = [&](std::vector<Op>& out) {
    OpBuilder build(kernel, out, loc);
    const ValueId length = build.constant(ElementType::kI32, static_cast<uint64_t>(chunks.length));
    append(out, {0, build.add(OpCode::kMul, {number, length}), chunks.length});
  };
  std::vector<Op>& body = kernel.body.ops;
  if (chunks.last() == chunks.length) return append_any(body);
  OpBuilder build(kernel, body, loc);
  const ValueId last = build.constant(ElementType::kI32, static_cast<uint64_t>(chunks.count - 1));
  const ValueId is_whole = build.add(OpCode::kCmp, {number, last}, {static_cast<int64_t>(dsl::Predicate::kLt)});
  std::vector<dsl::Region> branches(2);
  append_any(branches[0].ops);
  append(branches[1].ops, {chunks.extent - chunks.last(), dsl::kNoValue, chunks.last()});
  for (dsl::Region& branch : branches) OpBuilder(kernel, branch.ops, loc).effect(OpCode::kYield, {});
  body.push_back({OpCode::kIf, {is_whole}, {}, {}, std::move(branches), loc});
}

ValueId add_room(LaunchSequence& sequence, ElementType element, int64_t elements) {
  dsl::Kernel& kernel = sequence.steps.back().kernel;
  if (kernel.params.size() == sequence.kernel_params) add_param(kernel, "chunk", dsl::scalar_type(ElementType::kI32));
  const std::string name = "partial" + std::to_string(sequence.workspace_offsets.size());
  sequence.workspace_offsets.push_back(sequence.workspace_bytes);
  const int64_t bytes = elements * dsl::info(element).bytes;
  sequence.workspace_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return add_param(kernel, name, {element, true, {}});
}

ptrdiff_t find_long_op(const LaunchSequence& sequence, const Lengths& lengths,
                       const std::function<bool(const Lengths&, const dsl::Kernel&, const Op&)>& fits) {
  const dsl::Kernel& kernel = sequence.steps.back().kernel;
  if (sequence.steps.back().chunks > 1) return -1;
  const auto fitting = lengths_for(kernel, lengths, sequence.steps.size() > 1);
  if (!fitting) return -1;
  const std::vector<Op>& ops = kernel.body.ops;
  for (size_t i = 0; i < ops.size() && !may_write(ops[i]); ++i) {
    if (fits(*fitting, kernel, ops[i])) return static_cast<ptrdiff_t>(i);
  }
  return -1;
}

ValueId Partials::load(size_t kind, ValueId index) {
  // A scalar index is one of rank 0.
  const ValueId pointers = build_.splat(pointers_[kind], std::vector(build_.type(index).shape));
  return build_.add(OpCode::kLoad, {build_.add(OpCode::kAddptr, {pointers, index})});
}

ValueId Partials::all(size_t kind) {
  std::vector<dsl::Expr> shape = rule_.others;
  shape.emplace_back(row());
  return load(kind, row_numbers(build_, shape, 1));
}

ValueId Partials::at(size_t kind, ValueId numbers) {
  ValueId rows = row_numbers(build_, rule_.others, row());
  if (rule_.per_chunk > 0) rows = spread_last(build_, rows, std::vector(build_.type(numbers).shape));
  return load(kind, build_.add(OpCode::kAdd, {rows, numbers}));
}

void split_op(LaunchSequence& sequence, size_t number, const SplitRule& rule, const Rest& rest) {
  LaunchStep& last = sequence.steps.back();
  const Op op = last.kernel.body.ops[number];
  const std::vector<ValueId> pointers = add_partials(sequence, rule);
  const ValueId chunk = last.kernel.params[sequence.kernel_params].value;
  LaunchStep before{make_chunks(last.kernel, op, rule, chunk, pointers),
                    "kiln_stage_" + std::to_string(sequence.steps.size() - 1), rule.chunks.count};

  std::vector<Op> ops;
  for (size_t i = 0; i < last.kernel.body.ops.size(); ++i) {
    if (i != number) {
      ops.push_back(std::move(last.kernel.body.ops[i]));
      continue;
    }
    OpBuilder build(last.kernel, ops, op.loc);
    Partials partials(build, rule, pointers);
    rest(last.kernel, ops, build, partials);
  }
  last.kernel.body.ops = std::move(ops);
  sequence.steps.insert(sequence.steps.end() - 1, std::move(before));
}

}  // namespace kiln::codegen
