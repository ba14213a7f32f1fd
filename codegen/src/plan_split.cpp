#include "plan_split.h"

#include <algorithm>

#include "kiln/dsl/canonical.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

constexpr int64_t kFewPrograms = 8;
constexpr int64_t kAlignment = 64;  // bytes, of each partial result's place in the workspace

bool has_few_programs(const dsl::Kernel& kernel) {
  int64_t count = 1;
  for (const dsl::Expr& extent : kernel.grid) {
    const auto known = extent.as_constant();
    if (!known || *known < 1 || *known > kFewPrograms) return false;
    count *= *known;
  }
  return count <= kFewPrograms;
}

ValueId add_param(dsl::Kernel& kernel, std::string name, dsl::Type type) {
  while (kernel.find_param(name)) name += "_";
  const auto value = static_cast<ValueId>(kernel.values.size());
  kernel.values.push_back({type, ""});
  kernel.params.push_back({name, std::move(type), false, value, false});
  return value;
}

// Gives the last stage a pointer to a place in the workspace for each kind of partial result.
std::vector<ValueId> add_partials(Plan& plan, const SplitRule& rule, int64_t chunks) {
  std::vector<ValueId> out;
  for (ElementType element : rule.partials) {
    out.push_back(add_room(plan, element, element_product(rule.others) * chunks * rule.each()));
  }
  return out;
}

// Stores the results of a chunk: element (row, j) of it at (row · chunks + chunk) · each + j.
void store_results(OpBuilder& build, const SplitRule& rule, int64_t chunks, ValueId chunk,
                   const std::vector<ValueId>& pointers, const std::vector<ValueId>& results) {
  std::vector<dsl::Expr> shape = rule.others;
  ValueId index = row_numbers(build, rule.others, chunks * rule.each());
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

struct ChunkStage {
  const dsl::Kernel& source;
  const Op& op;
  const SplitRule& rule;
  int64_t extent;  // of the axis
  int64_t chunks;
  ValueId chunk;  // the parameter
  const std::vector<ValueId>& pointers;

  void append(dsl::Kernel& kernel, std::vector<Op>& out, const Part& part) const {
    PartBuilder parts(source, kernel, out, op.loc, part);
    const std::vector<ValueId> results = rule.chunk(parts);
    store_results(parts.build(), rule, chunks, chunk, pointers, results);
  }

  dsl::Region branch(dsl::Kernel& kernel, bool last) const {
    dsl::Region out;
    if (last) {
      append(kernel, out.ops, {(chunks - 1) * kChunk, dsl::kNoValue, extent - (chunks - 1) * kChunk});
    } else {
      append(kernel, out.ops, {0, offset(kernel, out.ops), kChunk});
    }
    OpBuilder(kernel, out.ops, op.loc).effect(OpCode::kYield, {});
    return out;
  }

  ValueId offset(dsl::Kernel& kernel, std::vector<Op>& out) const {
    OpBuilder build(kernel, out, op.loc);
    return build.add(OpCode::kMul, {chunk, build.constant(ElementType::kI32, kChunk)});
  }

  // The kernel without its effects, which this stage's stores replace; what they alone needed is dropped.
  dsl::Kernel make() const {
    dsl::Kernel kernel = source;
    std::vector<Op>& body = kernel.body.ops;
    std::erase_if(body, [](const Op& each) { return has_trait(each, dsl::kEffect) || has_trait(each, dsl::kWrites); });
    if (extent % kChunk == 0) {
      append(kernel, body, {0, offset(kernel, body), kChunk});
      return dsl::canonicalise(kernel);
    }
    OpBuilder build(kernel, body, op.loc);
    const ValueId last = build.constant(ElementType::kI32, static_cast<uint64_t>(chunks - 1));
    const ValueId whole = build.add(OpCode::kCmp, {chunk, last}, {static_cast<int64_t>(dsl::Predicate::kLt)});
    std::vector<dsl::Region> branches;
    branches.push_back(branch(kernel, false));
    branches.push_back(branch(kernel, true));
    body.push_back({OpCode::kIf, {whole}, {}, {}, std::move(branches), op.loc});
    return dsl::canonicalise(kernel);
  }
};

}  // namespace

bool has_trait(const Op& op, dsl::Trait trait) {
  if (dsl::info(op.code).has(trait)) return true;
  return std::any_of(op.regions.begin(), op.regions.end(), [&](const dsl::Region& region) {
    return std::any_of(region.ops.begin(), region.ops.end(), [&](const Op& inner) { return has_trait(inner, trait); });
  });
}

int64_t element_product(const std::vector<dsl::Expr>& shape) {
  int64_t out = 1;
  for (const dsl::Expr& extent : shape) out *= *extent.as_constant();
  return out;
}

ValueId add_room(Plan& plan, ElementType element, int64_t elements) {
  dsl::Kernel& kernel = plan.stages.back().kernel;
  if (kernel.params.size() == plan.kernel_params) add_param(kernel, "chunk", dsl::scalar_type(ElementType::kI32));
  const std::string name = "partial" + std::to_string(plan.workspace_offsets.size());
  plan.workspace_offsets.push_back(plan.workspace_bytes);
  const int64_t bytes = elements * dsl::info(element).bytes;
  plan.workspace_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return add_param(kernel, name, {element, true, {}});
}

ptrdiff_t find_long_op(const Plan& plan, const std::function<bool(const dsl::Kernel&, const Op&)>& fits) {
  const dsl::Kernel& kernel = plan.stages.back().kernel;
  if (!has_few_programs(kernel)) return -1;
  const std::vector<Op>& ops = kernel.body.ops;
  for (size_t i = 0; i < ops.size() && !has_trait(ops[i], dsl::kWrites); ++i) {
    if (fits(kernel, ops[i])) return static_cast<ptrdiff_t>(i);
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

void split_op(Plan& plan, size_t number, const SplitRule& rule, const Rest& rest) {
  Stage& last = plan.stages.back();
  const Op op = last.kernel.body.ops[number];
  const int64_t extent = *last.kernel.type(op.operands[0]).shape[rule.axis].as_constant();
  const int64_t chunks = (extent + kChunk - 1) / kChunk;
  const std::vector<ValueId> pointers = add_partials(plan, rule, chunks);
  const ValueId chunk = last.kernel.params[plan.kernel_params].value;
  const ChunkStage stage{last.kernel, op, rule, extent, chunks, chunk, pointers};
  Stage before{stage.make(), "kiln_stage_" + std::to_string(plan.stages.size() - 1), chunks};

  std::vector<Op> ops;
  for (size_t i = 0; i < last.kernel.body.ops.size(); ++i) {
    if (i != number) {
      ops.push_back(std::move(last.kernel.body.ops[i]));
      continue;
    }
    OpBuilder build(last.kernel, ops, op.loc);
    Partials partials(build, rule, chunks, pointers);
    rest(last.kernel, ops, build, partials);
  }
  last.kernel.body.ops = std::move(ops);
  plan.stages.insert(plan.stages.end() - 1, std::move(before));
}

}  // namespace kiln::codegen
