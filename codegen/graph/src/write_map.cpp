// Kernels that compute each element by itself: a program has a block of the innermost axis, or of the two innermost
// ones where that is short.
#include "array_sizes.h"
#include "kernel_writer.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/library.h"

namespace kiln::planner {

using lang::Value;

namespace {

// What a program has of the two innermost axes; rows of 0: a single one.
struct MapBlocks {
  int64_t columns = 1, rows = 0;
  bool transposes = false;  // loads go along the rows
};

MapBlocks blocks_of(const GroupContext& context, const GroupNest& group, std::span<const StepId> wanted) {
  constexpr int64_t kLanes = 1024, kSquare = 64, kLeast = 8, kWindowColumns = 256, kWindowRows = 16;
  const IndexSpace& space = group.nest.space;
  const size_t rank = group.axes.size();
  if (rank == 0) return {};
  const Expr columns = space.extent(group.axes[rank - 1]);
  MapBlocks out{.columns = block_for(columns, kLanes)};
  if (rank == 1) return out;
  const Expr rows = space.extent(group.axes[rank - 2]);
  const size_t row_axis = group.axes[rank - 2];
  const bool is_square = block_for(columns, kLeast) == kLeast && block_for(rows, kLeast) == kLeast;
  bool has_edges = false;
  const std::vector<bool> live = live_steps(group.nest, wanted);
  for (size_t i = 0; i < live.size() && context.on_cpu(); ++i) {
    const Step& step = group.nest.steps[i];
    if (!live[i] || step.kind != Step::Kind::kLoad) continue;
    out.transposes =
        out.transposes || (is_square && lies_along_rows(space, step.offset, row_axis, group.axes[rank - 1]));
    has_edges = has_edges || std::any_of(step.when.begin(), step.when.end(), [&](const Condition& condition) {
                  return space.mentions(condition.a, row_axis) || space.mentions(condition.b, row_axis);
                });
  }
  if (out.transposes) return {block_for(columns, kSquare), block_for(rows, kSquare), true};
  if (has_edges) {  // whole vectors of rows know where the edges are (docs/inside/cpu/nests.md)
    out.columns = std::min(out.columns, kWindowColumns);
    out.rows = std::max(kWindowRows, block_for(rows, kLanes / out.columns));
    return out;
  }
  if (out.columns < kLanes / 2) out.rows = block_for(rows, kLanes / out.columns);
  return out;
}

}  // namespace

Result<WrittenKernel> write_map(const GroupContext& context, GroupNest group, std::string name) {
  const IndexSpace& space = group.nest.space;
  const size_t rank = group.axes.size();
  std::vector<StepId> wanted;
  for (const Stored& store : group.stores) wanted.push_back(store.step);
  const MapBlocks blocks = blocks_of(context, group, wanted);
  const bool has_rows = blocks.rows > 0;
  const bool is_in_parts = group.stores.size() > 1 && group.stores[0].value == group.stores[1].value;
  std::vector<ConstParam> consts;
  if (rank > 0) consts.push_back({"COLS", blocks.columns});
  if (has_rows) consts.push_back({"ROWS", blocks.rows});
  Signature signature = signature_of(group.nest, group.stores, wanted, consts);

  if (name.empty()) name = group_name(context.graph, context.group(), context.grouping, context.number);
  auto kernel = dsl::trace_kernel(name, signature.params, [&](const dsl::TracedParams& params) {
    const KernelArguments arguments = signature.bind(params);
    StepEmitter emitter(context.graph, group.nest, arguments);
    if (blocks.transposes) emitter.transpose_loads(group.axes[rank - 2], group.axes[rank - 1]);
    ProgramAxes programs;
    for (size_t i = 0; i < rank; ++i) {
      const Value extent = emitter.number(space.extent(group.axes[i]));
      const bool is_columns = i + 1 == rank, is_rows = has_rows && i + 2 == rank;
      programs.add(is_columns ? lang::cdiv(extent, params.constant(signature.first_const))
                   : is_rows  ? lang::cdiv(extent, params.constant(signature.first_const + 1))
                              : extent);
    }
    const std::vector<Value> places = programs.places();
    for (size_t i = 0; i < rank; ++i) {
      const size_t axis = group.axes[i];
      const bool is_columns = i + 1 == rank, is_rows = has_rows && i + 2 == rank;
      if (!is_columns && !is_rows) {
        emitter.bind(axis, {.start = places[i]});
        continue;
      }
      const lang::Const block = params.constant(signature.first_const + (is_rows ? 1 : 0));
      const Value start = places[i] * lang::cast(lang::full({}, block, ElementType::kI32), ElementType::kI64);
      Value lanes = lang::arange(0, block);
      if (has_rows) lanes = lang::expand_dims(lanes, is_rows ? 1 : 0);
      const Value mask = lanes + start < emitter.number(space.extent(axis));
      emitter.bind(axis, {.start = start, .lanes = lanes, .mask = mask});
    }
    // All is read before anything is written, which may lie in the same place; of one result in parts nothing does.
    if (!is_in_parts || !context.on_cpu()) {
      for (const Stored& store : group.stores) emitter.value(store.step);
    }
    for (const Stored& store : group.stores) emitter.store(store.value, store.offset, store.step);
  });
  if (!kernel) return kernel.error();
  kernel->options.fuse_precision = true;
  for (const ConstParam& block : consts) kernel->space.push_back(axis_around(block.name, block.value));
  kernel->space.push_back({std::string(dsl::kNumWarps), {1, 2, 4, 8}});
  WrittenKernel out{{std::move(*kernel), {}}, std::move(signature.arguments)};
  out.indices = indices_of(group.nest);
  if (!is_in_parts) out.in_place = in_place_pairs(group, wanted);
  return out;
}

namespace {

// f8e5m2 has infinities, which a cast to it makes numbers. As bits: what is computed in f8 may be rounded once more.
StepId keep_infinities(Nest& nest, StepId wide, StepId cast) {
  std::vector<Step>& steps = nest.steps;
  const auto compute = [&](ElementType element, TensorOp op, std::vector<StepId> operands) {
    steps.push_back({.kind = Step::Kind::kCompute, .element = element, .op = op, .operands = std::move(operands)});
    return static_cast<StepId>(steps.size() - 1);
  };
  const auto literal = [&](uint64_t bits) {
    steps.push_back({.kind = Step::Kind::kLiteral, .element = ElementType::kU8, .bits = bits});
    return static_cast<StepId>(steps.size() - 1);
  };
  const StepId is_infinite = compute(ElementType::kI1, TensorOp::kIsinf, {wide});
  const StepId is_negative = compute(ElementType::kI1, TensorOp::kSignbit, {wide});
  const StepId below = literal(0xfc), above = literal(0x7c);
  const StepId infinity = compute(ElementType::kU8, TensorOp::kSelect, {is_negative, below, above});
  const StepId bits = compute(ElementType::kU8, TensorOp::kBitcast, {cast});
  const StepId kept = compute(ElementType::kU8, TensorOp::kSelect, {is_infinite, infinity, bits});
  return compute(ElementType::kF8E5M2, TensorOp::kBitcast, {kept});
}

}  // namespace

Result<WrittenKernel> write_copy(const GroupContext& context, ValueId from, const graph::TensorType& type, ValueId to,
                                 ElementType element) {
  GroupNest group = empty_nest(context.graph, type.shape, {});
  const Expr place = IndexSpace::ravel(group.domain, type.shape);
  StepId step = 0;
  const bool is_computed = from < context.graph.main().values.size() && !context.group().anchors.empty();
  if (is_computed) {
    NestBuilder builder(
        context.graph, group.nest,
        [&](ValueId value) { return source_of(context.graph, context.grouping, context.number, value); },
        [](uint32_t) { return Coords(); });
    const auto read = builder.at(from, group.domain);
    if (!read) return no_kernel(context.graph, context.group().anchors[0]);
    step = *read;
  } else {
    group.nest.steps.push_back({.kind = Step::Kind::kLoad, .element = type.element, .tensor = from, .offset = place});
  }
  if (element != type.element) {
    group.nest.steps.push_back(
        {.kind = Step::Kind::kCompute, .element = element, .op = TensorOp::kCast, .operands = {step}});
    const StepId wide = step;
    step = static_cast<StepId>(group.nest.steps.size() - 1);
    if (element == ElementType::kF8E5M2) step = keep_infinities(group.nest, wide, step);
  }
  group.stores.push_back({to, step, place});
  merge_axes(group);
  return write_map(context, std::move(group), "copy");
}

namespace {

// As the copy lies: its innermost axis is the nest's.
GroupNest as_copy_lies(const GroupContext& context, const ReorderedCopy& wanted, ValueId copy) {
  const graph::TensorType& type = context.type(wanted.of);
  GroupNest group = empty_nest(context.graph, type.shape, {});
  group.nest.steps.push_back({.kind = Step::Kind::kLoad,
                              .element = type.element,
                              .tensor = wanted.of,
                              .offset = IndexSpace::ravel(group.domain, type.shape)});
  group.stores.push_back({copy, 0, place_of(wanted.order, group.domain, type.shape)});
  std::vector<size_t> axes;
  for (const size_t axis : wanted.order) {
    for (const size_t each : group.axes) {
      if (group.domain[axis] == group.nest.space.axis(each)) axes.push_back(each);
    }
  }
  group.axes = std::move(axes);
  return group;
}

// The axes behind the one that will be innermost are a line of the source. With that line as one axis of a square block
// reads go along it, writes along the other axis, and each line of a cache is touched by one program: filters
// [out, in, 3, 3] that become [3, 3, in, out] are read by nines otherwise.
GroupNest as_lines(const GroupContext& context, const ReorderedCopy& wanted, ValueId copy) {
  const graph::TensorType& type = context.type(wanted.of);
  const size_t inner = wanted.order.back();
  const auto axis = static_cast<ptrdiff_t>(inner);
  std::vector<Expr> domain(type.shape.begin(), type.shape.begin() + axis);
  const std::vector<Expr> line(type.shape.begin() + axis + 1, type.shape.end());
  Expr length(1);
  for (const Expr& extent : line) length = length * extent;
  domain.push_back(length);
  domain.push_back(type.shape[inner]);
  GroupNest group = empty_nest(context.graph, domain, {});
  Coords coords(group.domain.begin(), group.domain.begin() + axis);
  coords.push_back(group.domain[inner + 1]);
  const Coords along = group.nest.space.unravel(group.domain[inner], line);
  coords.insert(coords.end(), along.begin(), along.end());
  const Expr place = IndexSpace::ravel(std::span(coords).first(inner + 1), std::span(type.shape).first(inner + 1));
  group.nest.steps.push_back({.kind = Step::Kind::kLoad,
                              .element = type.element,
                              .tensor = wanted.of,
                              .offset = place * length + group.domain[inner]});
  group.stores.push_back({copy, 0, place_of(wanted.order, coords, type.shape)});
  return group;
}

}  // namespace

Result<WrittenKernel> write_reordered(const GroupContext& context, ValueId copy) {
  const ReorderedCopy& wanted = context.grouping.copies[copy - kFirstCopy];
  const bool has_lines = wanted.order.back() + 1 < wanted.order.size();
  GroupNest group =
      context.on_cpu() && has_lines ? as_lines(context, wanted, copy) : as_copy_lies(context, wanted, copy);
  merge_axes(group);
  return write_map(context, std::move(group), "reorder");
}

Result<WrittenKernel> write_zeros(const GroupContext& context, ValueId to, const graph::TensorType& type) {
  GroupNest group = empty_nest(context.graph, type.shape, {});
  group.nest.steps.push_back({.kind = Step::Kind::kLiteral, .element = type.element});
  group.stores.push_back({to, 0, IndexSpace::ravel(group.domain, type.shape)});
  merge_axes(group);
  return write_map(context, std::move(group), "zeros");
}

}  // namespace kiln::planner
