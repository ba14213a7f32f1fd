// Kernels that reduce: a program has a block of what is kept, and goes over what is reduced in blocks, once for each
// reduction that needs the one before it, and once more to store what is as large as the operands. Where a whole row
// fits a block there is no loop, and each element is read once.
#include <list>

#include "kernel_writer.h"
#include "kiln/dsl/library.h"

namespace kiln::planner {

using lang::Value;

namespace {

struct Combiner {
  graph::ReduceKind kind;
  ElementType type;  // that it accumulates in

  Value neutral() const;
  Value combine(const Value& a, const Value& b) const;
  Value along(const Value& x, int axis) const;
};

Value Combiner::neutral() const {
  const bool is_float = dsl::is_float(type);
  const double infinity = std::numeric_limits<double>::infinity();
  const int bits = dsl::info(type).bits;
  const bool is_signed = dsl::info(type).is_signed;
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  switch (kind) {
    case graph::ReduceKind::kProd:
      return is_float ? lang::full({}, 1.0, type) : literal_value(type, 1);
    case graph::ReduceKind::kMin:
      return is_float ? lang::full({}, infinity, type) : literal_value(type, is_signed ? all >> 1 : all);
    case graph::ReduceKind::kMax:
      return is_float ? lang::full({}, -infinity, type) : literal_value(type, is_signed ? (all >> 1) + 1 : 0);
    case graph::ReduceKind::kAnd:
      return literal_value(type, all);
    default:
      return is_float ? lang::full({}, 0.0, type) : literal_value(type, 0);
  }
}

Value Combiner::combine(const Value& a, const Value& b) const {
  switch (kind) {
    case graph::ReduceKind::kSum:
      return a + b;
    case graph::ReduceKind::kProd:
      return a * b;
    case graph::ReduceKind::kMin:
      return lang::min(a, b);
    case graph::ReduceKind::kMax:
      return lang::max(a, b);
    case graph::ReduceKind::kAnd:
      return a & b;
    case graph::ReduceKind::kOr:
      return a | b;
    default:
      return a ^ b;
  }
}

Value Combiner::along(const Value& x, int axis) const {
  using enum dsl::ReduceKind;
  static constexpr dsl::ReduceKind kKinds[] = {kSum, kProd, kMin, kMax, kAnd, kOr, kXor};
  return lang::cast(lang::reduce(x, axis, kKinds[static_cast<size_t>(kind)]), type);
}

// Which axis is what of the tile.
struct Layout {
  static constexpr size_t kNone = ~size_t{0};
  size_t columns = kNone, rows = kNone;  // axes of the nest with lanes
  bool reduces_columns = true;           // else rows
  int64_t column_block = 1, row_block = 1;
  std::vector<size_t> looped;    // other reduced axes, one step at a time
  std::vector<size_t> programs;  // other axes that are kept
  bool is_single = true;         // all that is reduced is in one block

  bool has_rows() const { return rows != kNone; }
  size_t blocked() const { return reduces_columns ? columns : rows; }  // the reduced axis with lanes
  size_t kept() const { return reduces_columns ? rows : columns; }
};

constexpr int64_t kRowInOne = 8192;  // elements of a row that are held at once
constexpr int64_t kTile = 1024;

Layout layout_of(const GroupNest& group) {
  Layout out;
  const IndexSpace& space = group.nest.space;
  std::vector<size_t> reduced, kept;
  for (size_t i = 0; i < group.axes.size(); ++i) (group.is_reduced[i] ? reduced : kept).push_back(group.axes[i]);
  out.reduces_columns = group.axes.empty() || group.is_reduced.back() || reduced.empty();
  std::vector<size_t>&first = out.reduces_columns ? reduced : kept, &second = out.reduces_columns ? kept : reduced;
  if (!first.empty()) {
    out.columns = first.back();
    first.pop_back();
  }
  if (!second.empty() && (out.columns != Layout::kNone)) {
    out.rows = second.back();
    second.pop_back();
  }
  out.looped = reduced;
  out.programs = kept;
  const auto extent = [&](size_t axis) { return axis == Layout::kNone ? Expr(1) : space.extent(axis); };
  const auto number = extent(out.blocked()).as_constant();
  if (out.reduces_columns) {
    out.column_block = block_for(extent(out.columns), number && *number <= kRowInOne ? kRowInOne : kTile);
    out.row_block = block_for(extent(out.rows), std::max<int64_t>(1, kTile / out.column_block));
  } else {
    out.column_block = block_for(extent(out.columns), 256);
    out.row_block = block_for(extent(out.rows), number && *number <= 32 ? 32 : 16);
  }
  const int64_t block = out.reduces_columns ? out.column_block : out.row_block;
  out.is_single = out.looped.empty() && (out.blocked() == Layout::kNone || (number && *number <= block));
  return out;
}

// In which pass each anchor is combined: behind those that its operand is computed of.
std::vector<int> levels_of(const Nest& nest, std::span<const StepId> anchors) {
  std::vector<int> out(anchors.size());
  std::vector<int> of_step(nest.steps.size());
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < nest.steps.size(); ++i) {
      const Step& step = nest.steps[i];
      int level = step.kind == Step::Kind::kAnchor ? out[step.anchor] + 1 : 0;
      for (const StepId operand : step.operands) level = std::max(level, of_step[operand]);
      for (const BoundAxis& bound : nest.bound) {
        if (nest.space.mentions(step.offset, bound.axis)) level = std::max(level, of_step[bound.step]);
      }
      of_step[i] = level;
    }
    for (size_t i = 0; i < anchors.size(); ++i) {
      if (out[i] == of_step[anchors[i]]) continue;
      out[i] = of_step[anchors[i]];
      more = true;
    }
  }
  return out;
}

class ReduceWriter {
 public:
  ReduceWriter(const GroupContext& context, const GroupNest& group, const Layout& layout, const Signature& signature,
               const dsl::TracedParams& params)
      : context_(context),
        group_(group),
        space_(group.nest.space),
        layout_(layout),
        arguments_(signature.bind(params)),
        columns_(params.constant(signature.first_const)),
        rows_(layout.has_rows() ? params.constant(signature.first_const + 1) : lang::Const(1)),
        emitter_(context.graph, group.nest, arguments_) {}

  void write();

 private:
  lang::Shape tile() const { return layout_.has_rows() ? lang::Shape{rows_, columns_} : lang::Shape{columns_}; }
  lang::Shape kept_shape() const {
    if (!layout_.has_rows()) return {};
    return layout_.reduces_columns ? lang::Shape{rows_, 1} : lang::Shape{1, columns_};
  }
  lang::Const block_of(size_t axis) const { return axis == layout_.columns ? columns_ : rows_; }
  Combiner combiner_of(size_t anchor) const;
  void bind_programs();
  void bind_block(size_t axis, const Value& start);
  Value combined(size_t anchor);
  void set_anchor(size_t anchor, const Value& value);
  // Runs the body for each block of what is reduced.
  void for_each_block(const std::function<void()>& body, size_t loop = 0);
  void combine_level(int level, const std::vector<int>& levels);
  bool is_kept(const Stored& store) const;

  const GroupContext& context_;
  const GroupNest& group_;
  const IndexSpace& space_;
  const Layout& layout_;
  const KernelArguments arguments_;
  const lang::Const columns_, rows_;
  StepEmitter emitter_;
};

Combiner ReduceWriter::combiner_of(size_t anchor) const {
  const graph::Node& node = context_.graph.main().nodes[context_.group().anchors[anchor]];
  const ElementType element = context_.type(node.first_result).element;
  return {graph::enum_attr<graph::ReduceKind>(context_.graph.attrs(node), 0),
          dsl::is_small_float(element) ? ElementType::kF32 : element};
}

void ReduceWriter::bind_block(size_t axis, const Value& start) {
  Value lanes = lang::arange(0, block_of(axis));
  if (layout_.has_rows()) lanes = lang::expand_dims(lanes, axis == layout_.rows ? 1 : 0);
  const Value place = start.valid() ? lanes + start : lang::cast(lanes, ElementType::kI64);
  emitter_.bind(axis, {.start = start, .lanes = lanes, .mask = place < emitter_.number(space_.extent(axis))});
}

void ReduceWriter::bind_programs() {
  ProgramAxes programs;
  for (const size_t axis : layout_.programs) programs.add(emitter_.number(space_.extent(axis)));
  const bool has_kept = layout_.kept() != Layout::kNone;
  if (has_kept) programs.add(lang::cdiv(emitter_.number(space_.extent(layout_.kept())), block_of(layout_.kept())));
  const std::vector<Value> places = programs.places();
  for (size_t i = 0; i < layout_.programs.size(); ++i) emitter_.bind(layout_.programs[i], {.start = places[i]});
  if (has_kept) {
    const lang::Const block = block_of(layout_.kept());
    bind_block(layout_.kept(), places.back() * lang::cast(lang::full({}, block, ElementType::kI32), ElementType::kI64));
  }
}

Value ReduceWriter::combined(size_t anchor) {
  const Combiner combiner = combiner_of(anchor);
  if (layout_.blocked() == Layout::kNone) {  // of extents of 1
    const Value x = lang::cast(emitter_.value(group_.anchors[anchor]), combiner.type);
    return x;
  }
  const StepId step = group_.anchors[anchor];
  const Value neutral = lang::cast(combiner.neutral(), combiner.type);
  const Value x = lang::cast(emitter_.value(step), combiner.type);
  const Value mask = emitter_.bound_to(layout_.blocked()).mask;
  const Value masked = lang::broadcast_to(lang::where(mask, x, neutral), tile());
  const int axis = layout_.has_rows() && layout_.reduces_columns ? 1 : 0;
  const Value out = combiner.along(masked, axis);
  return layout_.has_rows() ? lang::expand_dims(out, axis) : out;
}

void ReduceWriter::set_anchor(size_t anchor, const Value& value) {
  const graph::Node& node = context_.graph.main().nodes[context_.group().anchors[anchor]];
  emitter_.set_anchor(static_cast<uint32_t>(anchor), lang::cast(value, context_.type(node.first_result).element));
}

void ReduceWriter::for_each_block(const std::function<void()>& body, size_t loop) {
  if (loop < layout_.looped.size()) {
    const size_t axis = layout_.looped[loop];
    for (const Value& place : lang::range(0, emitter_.number(space_.extent(axis)))) {
      const StepEmitter::Scope scope(emitter_);
      emitter_.bind(axis, {.start = lang::cast(place, ElementType::kI64)});
      for_each_block(body, loop + 1);
    }
    return;
  }
  const size_t axis = layout_.blocked();
  for (const Value& start : lang::range(0, emitter_.number(space_.extent(axis)), block_of(axis))) {
    const StepEmitter::Scope scope(emitter_);
    bind_block(axis, lang::cast(start, ElementType::kI64));
    body();
    emitter_.bind(axis, {});
  }
}

void ReduceWriter::combine_level(int level, const std::vector<int>& levels) {
  std::vector<size_t> here;
  for (size_t i = 0; i < levels.size(); ++i) {
    if (levels[i] == level) here.push_back(i);
  }
  if (layout_.is_single) {
    for (const size_t anchor : here) set_anchor(anchor, combined(anchor));
    return;
  }
  std::list<lang::Var> sums;
  for (const size_t anchor : here) {
    const Combiner combiner = combiner_of(anchor);
    sums.emplace_back(lang::broadcast_to(lang::cast(combiner.neutral(), combiner.type), kept_shape()));
  }
  for_each_block([&] {
    auto sum = sums.begin();
    for (const size_t anchor : here) {
      *sum = combiner_of(anchor).combine(*sum, combined(anchor));
      ++sum;
    }
  });
  auto sum = sums.begin();
  for (const size_t anchor : here) set_anchor(anchor, *sum++);
}

bool ReduceWriter::is_kept(const Stored& store) const {
  for (size_t i = 0; i < group_.axes.size(); ++i) {
    if (group_.is_reduced[i] && space_.mentions(store.offset, group_.axes[i])) return false;
  }
  return true;
}

void ReduceWriter::write() {
  bind_programs();
  if (layout_.is_single && layout_.blocked() != Layout::kNone) bind_block(layout_.blocked(), {});
  const std::vector<int> levels = levels_of(group_.nest, group_.anchors);
  const int last = levels.empty() ? -1 : *std::max_element(levels.begin(), levels.end());
  for (int level = 0; level <= last; ++level) combine_level(level, levels);
  bool has_others = false;
  for (const Stored& store : group_.stores) {
    if (layout_.is_single || is_kept(store)) {
      emitter_.store(store.value, store.offset, store.step);
    } else {
      has_others = true;
    }
  }
  if (!has_others) return;
  for_each_block([&] {
    for (const Stored& store : group_.stores) {
      if (!is_kept(store)) emitter_.store(store.value, store.offset, store.step);
    }
  });
}

}  // namespace

Result<WrittenKernel> write_reduce(const GroupContext& context, GroupNest group) {
  const Layout layout = layout_of(group);
  std::vector<StepId> wanted = group.anchors;
  for (const Stored& store : group.stores) wanted.push_back(store.step);
  std::vector<ConstParam> consts{{"COLS", layout.column_block}};
  if (layout.has_rows()) consts.push_back({"ROWS", layout.row_block});
  Signature signature = signature_of(group.nest, group.stores, wanted, consts);
  auto kernel = dsl::trace_kernel(
      group_name(context.graph, context.group(), context.grouping, context.number), signature.params,
      [&](const dsl::TracedParams& params) { ReduceWriter(context, group, layout, signature, params).write(); });
  if (!kernel) return kernel.error();
  kernel->options.fuse_precision = true;
  return WrittenKernel{{std::move(*kernel), {}}, std::move(signature.arguments)};
}

}  // namespace kiln::planner
