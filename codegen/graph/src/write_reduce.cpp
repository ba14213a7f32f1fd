// Kernels that reduce: a program has a block of what is kept, and goes over what is reduced in blocks, once for each
// reduction that needs the one before it, and once more to store what is as large as the operands. Where a whole row
// fits a block there is no loop, and each element is read once.
#include <list>

#include "array_sizes.h"
#include "combiner.h"
#include "kernel_writer.h"
#include "kiln/dsl/library.h"

namespace kiln::planner {

using lang::Value;

namespace {

// Which axis is what of the tile.
struct Layout {
  static constexpr size_t kNone = ~size_t{0};
  size_t columns = kNone, rows = kNone;  // axes of the nest with lanes
  bool reduces_columns = true;           // else rows
  int64_t column_block = 1, row_block = 1;
  std::vector<size_t> looped;    // other reduced axes, one step at a time
  std::vector<size_t> programs;  // other axes that are kept
  bool is_single = true;         // all that is reduced is in one block
  // Each lane of short rows goes on by itself, and all are combined behind the last block: a CPU combines the lanes of
  // a row one after the other.
  bool keeps_lanes = false;
  // In parts: the axis along which each program has one, and the number of its part, an axis of the nest.
  size_t cut = kNone, part = kNone;
  int64_t parts = 0;  // how many

  bool has_rows() const { return rows != kNone; }
  size_t blocked() const { return reduces_columns ? columns : rows; }  // the reduced axis with lanes
  size_t kept() const { return reduces_columns ? rows : columns; }
};

constexpr int64_t kRowInOne = 8192;  // elements of a row that are held at once
constexpr int64_t kTile = 1024;
constexpr int64_t kShortRow = 64, kFewRows = 8;

Layout layout_of(const GroupContext& context, const GroupNest& group) {
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
    out.keeps_lanes = context.on_cpu() && !out.looped.empty() && out.column_block <= kShortRow;
    if (out.keeps_lanes) out.row_block = std::min(out.row_block, kFewRows);  // others are other programs'
  } else {
    // Blocks of a few columns, that several programs have some; a line of memory is 16 floats.
    const auto columns = extent(out.columns).as_constant();
    out.column_block = block_for(columns ? Expr(std::max<int64_t>(16, *columns / 4)) : Expr(256), 256);
    out.column_block = std::min(out.column_block, block_for(extent(out.columns), 256));
    out.row_block = block_for(extent(out.rows), number && *number <= 32 ? 32 : 16);
  }
  const int64_t block = out.reduces_columns ? out.column_block : out.row_block;
  out.is_single = out.looped.empty() && (out.blocked() == Layout::kNone || (number && *number <= block));
  return out;
}

// One node's anchors: side by side, a result each.
struct Reduction {
  NodeId node;
  size_t first, count;
};

std::vector<Reduction> reductions_of(const Group& group) {
  std::vector<Reduction> out;
  for (size_t i = 0; i < group.anchors.size(); ++i) {
    if (out.empty() || out.back().node != group.anchors[i]) out.push_back({group.anchors[i], i, 0});
    ++out.back().count;
  }
  return out;
}

// In which pass each reduction is combined: behind those that its operands are computed of.
std::vector<int> levels_of(const GroupNest& group, std::span<const Reduction> reductions) {
  const Nest& nest = group.nest;
  std::vector<int> out(reductions.size()), of_anchor(group.anchors.size()), of_step(nest.steps.size());
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < nest.steps.size(); ++i) {
      const Step& step = nest.steps[i];
      int level = step.kind == Step::Kind::kAnchor ? of_anchor[step.anchor] + 1 : 0;
      for (const StepId operand : step.operands) level = std::max(level, of_step[operand]);
      for (const BoundAxis& bound : nest.bound) {
        if (nest.space.mentions(step.offset, bound.axis)) level = std::max(level, of_step[bound.step]);
      }
      of_step[i] = level;
    }
    for (size_t i = 0; i < reductions.size(); ++i) {
      const Reduction& each = reductions[i];
      int level = 0;
      for (size_t anchor = each.first; anchor < each.first + each.count; ++anchor) {
        level = std::max(level, of_step[group.anchors[anchor]]);
        if (group.inits[anchor]) level = std::max(level, of_step[*group.inits[anchor]]);
      }
      if (out[i] == level) continue;
      out[i] = level;
      std::fill_n(of_anchor.begin() + static_cast<ptrdiff_t>(each.first), each.count, level);
      more = true;
    }
  }
  return out;
}

// What each program combines of its part goes to memory.
struct Parts {
  std::vector<Stored> stores;  // a value of each anchor
};

class ReduceWriter {
 public:
  ReduceWriter(const GroupContext& context, const GroupNest& group, const Layout& layout, const Signature& signature,
               const dsl::TracedParams& params)
      : context_(context),
        group_(group),
        space_(group.nest.space),
        layout_(layout),
        arguments_(signature.bind(params)),
        reductions_(reductions_of(context.group())),
        columns_(params.constant(signature.first_const)),
        rows_(layout.has_rows() ? params.constant(signature.first_const + 1) : lang::Const(1)),
        emitter_(context.graph, group.nest, arguments_) {}

  void write();
  void write_parts(const Parts& parts);

 private:
  lang::Shape tile() const { return layout_.has_rows() ? lang::Shape{rows_, columns_} : lang::Shape{columns_}; }
  lang::Shape kept_shape() const {
    if (!layout_.has_rows()) return {};
    return layout_.reduces_columns ? lang::Shape{rows_, 1} : lang::Shape{1, columns_};
  }
  lang::Const block_of(size_t axis) const { return axis == layout_.columns ? columns_ : rows_; }
  const graph::Node& node_of(const Reduction& reduction) const { return context_.graph.main().nodes[reduction.node]; }
  ElementType element_of(size_t anchor) const;
  Combiner combiner_of(const Reduction& reduction) const;
  BodyEmitter body_of(const Reduction& reduction) {
    const auto body = static_cast<graph::BodyId>(graph::int_attr(context_.graph.attrs(node_of(reduction)), 0));
    return BodyEmitter(context_.graph, body, emitter_);
  }
  void bind_programs();
  void bind_block(size_t axis, const Value& start);

  // What is kept while a reduction goes over blocks, of the kept shape: of `reduce` the combined value; of `arg_reduce`
  // the extreme and its place; of `reduce_custom` one value a tensor.
  std::vector<Value> begin(const Reduction& reduction);
  bool keeps_lanes(const Reduction& reduction) const {
    return layout_.keeps_lanes && node_of(reduction).op == TensorOp::kReduce;
  }
  // Sums of f32 are kept in f64: thousands of blocks may come, and the error stays that of one.
  ElementType kept_type(const Reduction& reduction) const;
  // Of one block; of `reduce_custom` whether there is anything in it comes first.
  std::vector<Value> combined(const Reduction& reduction);
  std::vector<Value> merged(const Reduction& reduction, std::span<const Value> before, std::span<const Value> block);
  // Of the block, x or what stands for lanes outside.
  Value lanes_of(size_t anchor, ElementType type, const std::optional<Value>& outside);
  Value kept(const Value& reduced) const;
  std::vector<Value> combined_custom(const Reduction& reduction);
  std::vector<Value> combined_arg(const Reduction& reduction);
  void set_anchors(const Reduction& reduction, std::span<const Value> values);

  // Runs the body for each block of what is reduced.
  void for_each_block(const std::function<void()>& body, size_t loop = 0);
  std::pair<Value, Value> range_of(size_t axis, const Value& step);
  std::vector<std::vector<Value>> combine_blocks(std::span<const Reduction> reductions);
  void combine_level(int level, const std::vector<int>& levels);
  bool is_kept(const Stored& store) const;
  int tile_axis() const { return layout_.has_rows() && layout_.reduces_columns ? 1 : 0; }

  const GroupContext& context_;
  const GroupNest& group_;
  const IndexSpace& space_;
  const Layout& layout_;
  const KernelArguments arguments_;
  const std::vector<Reduction> reductions_;
  const lang::Const columns_, rows_;
  StepEmitter emitter_;
};

ElementType ReduceWriter::element_of(size_t anchor) const { return group_.nest.steps[group_.anchors[anchor]].element; }

Combiner ReduceWriter::combiner_of(const Reduction& reduction) const {
  const graph::Node& node = node_of(reduction);
  const graph::AttrList& attrs = context_.graph.attrs(node);
  auto kind = graph::enum_attr<graph::ReduceKind>(attrs, 0);
  if (node.op == TensorOp::kArgReduce) {
    const bool is_min = graph::enum_attr<graph::ArgKind>(attrs, 0) == graph::ArgKind::kMin;
    kind = is_min ? graph::ReduceKind::kMin : graph::ReduceKind::kMax;
  }
  return Combiner::of(kind, element_of(reduction.first));
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

Value ReduceWriter::kept(const Value& reduced) const {
  return layout_.has_rows() ? lang::expand_dims(reduced, tile_axis()) : reduced;
}

Value ReduceWriter::lanes_of(size_t anchor, ElementType type, const std::optional<Value>& outside) {
  Value x = lang::cast(emitter_.value(group_.anchors[anchor]), type);
  if (outside) x = lang::where(emitter_.bound_to(layout_.blocked()).mask, x, *outside);
  return lang::broadcast_to(x, tile());
}

ElementType ReduceWriter::kept_type(const Reduction& reduction) const {
  const Combiner combiner = combiner_of(reduction);
  const bool is_sum = node_of(reduction).op == TensorOp::kReduce && combiner.kind == graph::ReduceKind::kSum;
  return is_sum && combiner.type == ElementType::kF32 ? ElementType::kF64 : combiner.type;
}

std::vector<Value> ReduceWriter::begin(const Reduction& reduction) {
  std::vector<Value> out;
  if (node_of(reduction).op == TensorOp::kReduceCustom) {
    for (size_t i = 0; i < reduction.count; ++i) out.push_back(emitter_.value(*group_.inits[reduction.first + i]));
  } else {
    out.push_back(lang::cast(combiner_of(reduction).neutral(), kept_type(reduction)));
    if (node_of(reduction).op == TensorOp::kArgReduce) out.push_back(lang::full({}, 0, ElementType::kI64));
  }
  for (Value& value : out) value = lang::broadcast_to(value, keeps_lanes(reduction) ? tile() : kept_shape());
  return out;
}

// Of several equal ones the reduction of the tile takes the lowest place: lanes outside come last.
std::vector<Value> ReduceWriter::combined_arg(const Reduction& reduction) {
  using enum dsl::ReduceKind;
  const Combiner combiner = combiner_of(reduction);
  const Value x = lanes_of(reduction.first, combiner.type, combiner.neutral());
  const dsl::ReduceKind kind = combiner.kind == graph::ReduceKind::kMin ? kArgmin : kArgmax;
  Value place = lang::cast(lang::reduce(x, tile_axis(), kind), ElementType::kI64);
  const Value& start = emitter_.bound_to(layout_.blocked()).start;
  if (start.valid()) place = place + start;
  return {kept(combiner.along(x, tile_axis())), kept(place)};
}

std::vector<Value> ReduceWriter::combined_custom(const Reduction& reduction) {
  std::vector<Value> xs{lang::broadcast_to(emitter_.bound_to(layout_.blocked()).mask, tile())};
  for (size_t i = 0; i < reduction.count; ++i) {
    xs.push_back(lanes_of(reduction.first + i, element_of(reduction.first + i), std::nullopt));
  }
  const BodyEmitter body = body_of(reduction);
  std::vector<Value> out = lang::reduce(xs, tile_axis(), [&](const std::vector<Value>& a, const std::vector<Value>& b) {
    return body.combine_optional(a, b);
  });
  for (Value& value : out) value = kept(value);
  return out;
}

std::vector<Value> ReduceWriter::combined(const Reduction& reduction) {
  const TensorOp op = node_of(reduction).op;
  if (layout_.blocked() == Layout::kNone) {  // of extents of 1
    std::vector<Value> out;
    if (op == TensorOp::kReduceCustom) out.push_back(literal_value(ElementType::kI1, 1));
    for (size_t i = 0; i < reduction.count; ++i) out.push_back(emitter_.value(group_.anchors[reduction.first + i]));
    if (op == TensorOp::kArgReduce) out.push_back(lang::full({}, 0, ElementType::kI64));
    return out;
  }
  if (op == TensorOp::kReduceCustom) return combined_custom(reduction);
  if (op == TensorOp::kArgReduce) return combined_arg(reduction);
  const Combiner combiner = combiner_of(reduction);
  const Value lanes = lanes_of(reduction.first, combiner.type, combiner.neutral());
  return {keeps_lanes(reduction) ? lanes : kept(combiner.along(lanes, tile_axis()))};
}

std::vector<Value> ReduceWriter::merged(const Reduction& reduction, std::span<const Value> before,
                                        std::span<const Value> block) {
  const TensorOp op = node_of(reduction).op;
  if (op == TensorOp::kReduceCustom) {
    std::vector<Value> out = body_of(reduction).combine(before, block.subspan(1));
    for (size_t i = 0; i < out.size(); ++i) {
      const Value chosen = lang::where(block[0], out[i], before[i]);
      out[i] = layout_.has_rows() ? lang::broadcast_to(chosen, kept_shape()) : chosen;
    }
    return out;
  }
  const Combiner combiner = combiner_of(reduction);
  if (op != TensorOp::kArgReduce) {
    return {combiner.combine(before[0], lang::cast(block[0], before[0].type().element))};
  }
  Value better = combiner.kind == graph::ReduceKind::kMin ? block[0] < before[0] : block[0] > before[0];
  if (dsl::is_float(combiner.type)) better = better | (lang::isnan(block[0]) & !lang::isnan(before[0]));
  return {lang::where(better, block[0], before[0]), lang::where(better, block[1], before[1])};
}

void ReduceWriter::set_anchors(const Reduction& reduction, std::span<const Value> values) {
  const graph::Node& node = node_of(reduction);
  if (node.op == TensorOp::kArgReduce) values = values.subspan(1);
  for (size_t i = 0; i < reduction.count; ++i) {
    const ElementType element = context_.type(node.first_result + static_cast<uint32_t>(i)).element;
    const bool is_kind = node.op == TensorOp::kReduce;
    const Value value = is_kind ? combiner_of(reduction).result(values[i], element) : lang::cast(values[i], element);
    emitter_.set_anchor(static_cast<uint32_t>(reduction.first + i), value);
  }
}

// All of an axis, or this program's part: as many steps as the other parts, but for the last ones.
std::pair<Value, Value> ReduceWriter::range_of(size_t axis, const Value& step) {
  const Value extent = emitter_.number(space_.extent(axis)), zero = lang::full({}, 0, ElementType::kI64);
  if (axis != layout_.cut) return {zero, extent};
  const Value length = lang::cdiv(lang::cdiv(extent, step), lang::full({}, layout_.parts, ElementType::kI64)) * step;
  const Value first = lang::min(emitter_.bound_to(layout_.part).start * length, extent);
  return {first, lang::min(first + length, extent)};
}

void ReduceWriter::for_each_block(const std::function<void()>& body, size_t loop) {
  if (loop < layout_.looped.size()) {
    const size_t axis = layout_.looped[loop];
    const auto [first, end] = range_of(axis, lang::full({}, 1, ElementType::kI64));
    for (const Value& place : lang::range(first, end)) {
      const StepEmitter::Scope scope(emitter_);
      emitter_.bind(axis, {.start = lang::cast(place, ElementType::kI64)});
      for_each_block(body, loop + 1);
    }
    return;
  }
  const size_t axis = layout_.blocked();
  const auto [first, end] =
      range_of(axis, lang::cast(lang::full({}, block_of(axis), ElementType::kI32), ElementType::kI64));
  for (const Value& start : lang::range(first, end, block_of(axis))) {
    const StepEmitter::Scope scope(emitter_);
    bind_block(axis, lang::cast(start, ElementType::kI64));
    body();
    emitter_.bind(axis, {});
  }
}

void ReduceWriter::combine_level(int level, const std::vector<int>& levels) {
  std::vector<Reduction> here;
  for (size_t i = 0; i < levels.size(); ++i) {
    if (levels[i] == level) here.push_back(reductions_[i]);
  }
  if (layout_.is_single) {
    for (const Reduction& each : here) {
      const bool has_init = node_of(each).op == TensorOp::kReduceCustom;
      const std::vector<Value> block = combined(each);
      set_anchors(each, has_init ? merged(each, begin(each), block) : block);
    }
    return;
  }
  const std::vector<std::vector<Value>> values = combine_blocks(here);
  for (size_t i = 0; i < here.size(); ++i) set_anchors(here[i], values[i]);
}

// All blocks, one after the other.
std::vector<std::vector<Value>> ReduceWriter::combine_blocks(std::span<const Reduction> reductions) {
  std::vector<std::list<lang::Var>> states(reductions.size());
  for (size_t i = 0; i < reductions.size(); ++i) {
    for (const Value& value : begin(reductions[i])) states[i].emplace_back(value);
  }
  for_each_block([&] {
    for (size_t i = 0; i < reductions.size(); ++i) {
      const std::vector<Value> before(states[i].begin(), states[i].end());
      const std::vector<Value> after = merged(reductions[i], before, combined(reductions[i]));
      auto to = states[i].begin();
      for (const Value& value : after) *to++ = value;
    }
  });
  std::vector<std::vector<Value>> out;
  for (size_t i = 0; i < reductions.size(); ++i) {
    out.emplace_back(states[i].begin(), states[i].end());
    if (node_of(reductions[i]).op != TensorOp::kReduce) continue;
    const Combiner combiner = combiner_of(reductions[i]);
    Value& all = out.back()[0];
    all = keeps_lanes(reductions[i]) ? kept(combiner.along(all, tile_axis())) : lang::cast(all, combiner.type);
  }
  return out;
}

void ReduceWriter::write_parts(const Parts& parts) {
  bind_programs();
  const std::vector<std::vector<Value>> values = combine_blocks(reductions_);
  for (size_t i = 0; i < values.size(); ++i) {
    const Stored& store = parts.stores[i];
    const Value mask = emitter_.mask_of(store.offset);
    lang::store(emitter_.pointer(store.value, store.offset), values[i][0],
                {.mask = mask.valid() ? lang::Operand(mask) : lang::Operand()});
  }
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
  const std::vector<int> levels = levels_of(group_, reductions_);
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

namespace {

Signature signature_of(const GroupNest& group, const Layout& layout, std::span<const Stored> stores,
                       std::span<const StepId> wanted) {
  std::vector<ConstParam> consts{{"COLS", layout.column_block}};
  if (layout.has_rows()) consts.push_back({"ROWS", layout.row_block});
  return planner::signature_of(group.nest, stores, wanted, consts, group.numbers);
}

Result<WrittenKernel> traced(const GroupContext& context, const GroupNest& group, const Layout& layout,
                             Signature signature, const std::string& name,
                             const std::function<void(ReduceWriter&)>& write) {
  auto kernel = dsl::trace_kernel(name, signature.params, [&](const dsl::TracedParams& params) {
    ReduceWriter writer(context, group, layout, signature, params);
    write(writer);
  });
  if (!kernel) return kernel.error();
  kernel->options.fuse_precision = true;
  // Blocks of what is kept: others would change the order of sums.
  if (layout.kept() != Layout::kNone) {
    kernel->space = {layout.reduces_columns ? axis_around("ROWS", layout.row_block)
                                            : axis_around("COLS", layout.column_block)};
  }
  WrittenKernel out{{std::move(*kernel), {}}, std::move(signature.arguments)};
  out.indices = indices_of(group.nest);
  return out;
}

std::string name_of(const GroupContext& context) {
  return group_name(context.graph, context.group(), context.grouping, context.number);
}

}  // namespace

Result<WrittenKernel> write_reduce(const GroupContext& context, GroupNest group) {
  const Layout layout = layout_of(context, group);
  std::vector<StepId> wanted = group.anchors;
  for (const auto& init : group.inits) {
    if (init) wanted.push_back(*init);
  }
  for (const Stored& store : group.stores) wanted.push_back(store.step);
  auto out = traced(context, group, layout, signature_of(group, layout, group.stores, wanted), name_of(context),
                    [](ReduceWriter& writer) { writer.write(); });
  const bool has_line = layout.reduces_columns && layout.looped.empty() && layout.row_block == 1;
  if (out && has_line) set_long_lines(out->kernel.kernel, "COLS", group);
  return out;
}

namespace {

// Along the axis that has the most steps.
void cut_layout(Layout& layout, const IndexSpace& space) {
  layout.is_single = false;
  if (layout.reduces_columns) layout.column_block = std::min<int64_t>(layout.column_block, kTile);
  const auto steps = [&](size_t axis, int64_t block) {
    return space.extent(axis).as_constant().value_or(int64_t{1} << 20) / block;
  };
  layout.cut = layout.blocked();
  int64_t most = layout.cut == Layout::kNone
                     ? 0
                     : steps(layout.cut, layout.reduces_columns ? layout.column_block : layout.row_block);
  for (const size_t axis : layout.looped) {
    if (steps(axis, 1) <= most) continue;
    most = steps(axis, 1);
    layout.cut = axis;
  }
}

}  // namespace

Result<WrittenGroup> write_reduce_in_parts(const GroupContext& context, GroupNest group) {
  const ValueId first_part = static_cast<ValueId>(context.graph.main().values.size());
  WrittenGroup out;
  GroupNest whole = group, rest = std::move(group);

  // The parts lie one after the other, each with all results. A GPU has room for more of one result.
  const bool is_one =
      std::all_of(whole.is_reduced.begin(), whole.is_reduced.end(), [](bool reduced) { return reduced; });
  const int64_t count = is_one && !context.on_cpu() ? 512 : 64;
  const Expr part = whole.nest.space.add_axis(Expr(count));
  rest.nest.space.add_axis(Expr(count));
  std::vector<Expr> shape{Expr(count)};
  Coords place{part};
  std::vector<size_t> kept{rest.nest.space.axis_count() - 1};
  for (size_t i = 0; i < whole.axes.size(); ++i) {
    if (whole.is_reduced[i]) continue;
    shape.push_back(whole.nest.space.extent(whole.axes[i]));
    place.push_back(whole.nest.space.axis(whole.axes[i]));
    kept.push_back(whole.axes[i]);
  }
  const Expr offset = IndexSpace::ravel(place, shape);
  Parts parts;
  for (size_t i = 0; i < whole.anchors.size(); ++i) {
    const auto value = static_cast<ValueId>(first_part + i);
    const graph::Node& node = context.graph.main().nodes[context.group().anchors[i]];
    const ElementType element = Combiner::of(graph::enum_attr<graph::ReduceKind>(context.graph.attrs(node), 0),
                                             whole.nest.steps[whole.anchors[i]].element)
                                    .type;
    out.temporaries.push_back({element, shape});
    // Says what type it is stored as.
    whole.nest.steps.push_back({.kind = Step::Kind::kLiteral, .element = element});
    parts.stores.push_back({value, static_cast<StepId>(whole.nest.steps.size() - 1), offset});
    rest.nest.steps.push_back({.kind = Step::Kind::kLoad, .element = element, .tensor = value, .offset = offset});
    rest.anchors[i] = static_cast<StepId>(rest.nest.steps.size() - 1);
  }
  Layout layout = layout_of(context, whole);
  cut_layout(layout, whole.nest.space);
  layout.part = whole.nest.space.axis_count() - 1;
  layout.parts = count;
  layout.programs.insert(layout.programs.begin(), layout.part);
  auto first = traced(context, whole, layout, signature_of(whole, layout, parts.stores, whole.anchors),
                      name_of(context) + "_in_parts", [&](ReduceWriter& writer) { writer.write_parts(parts); });
  if (!first) return first.error();

  rest.axes = kept;
  rest.is_reduced.assign(kept.size(), false);
  rest.is_reduced[0] = true;
  auto last = write_reduce(context, std::move(rest));
  if (!last) return last.error();
  out.kernels.push_back(std::move(*first));
  out.kernels.push_back(std::move(*last));
  return out;
}

}  // namespace kiln::planner
