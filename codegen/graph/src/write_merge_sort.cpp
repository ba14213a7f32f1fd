// Sorts of lines of any extent: blocks are sorted in tiles, then sorted runs are merged two by two, each pass from one
// pair of temporaries into the other. In a pass the place of each element is its place in its run and the number of
// those of the other run that come before it, found by bisection: all elements at once, stable, and the same whoever
// computes it. There are as many passes as the greatest extent needs; those that a size does not need have no programs.
#include <limits>

#include "kiln/dsl/library.h"
#include "order.h"

namespace kiln::planner {

using dsl::AtomKind;
using graph::Node;
using lang::Value;

namespace {

constexpr int64_t kMergedAtOnce = 1024;

Value as_i64(const lang::Const& number) {
  return lang::cast(lang::full({}, number, ElementType::kI32), ElementType::kI64);
}

}  // namespace

Value is_less(const Value& a, const Value& b, ElementType element) {
  if (!dsl::is_float(element)) return a < b;
  return (a < b) | (lang::isnan(b) & !lang::isnan(a));
}

ElementType key_type(ElementType element) {
  return dsl::is_float(element) && dsl::info(element).bits == 8 ? ElementType::kF32 : element;
}

Value element_of_key(const Value& key, ElementType element) {
  return lang::cast(key, element, {.saturate = key.element() == element});
}

Value last_key(ElementType key, bool descending) {
  if (descending) return literal_value(key, dsl::lowest_bits(key));
  if (dsl::is_float(key)) return lang::full({}, std::numeric_limits<double>::quiet_NaN(), key);
  return literal_value(key, dsl::highest_bits(key));
}

namespace {

class MergeSort {
 public:
  MergeSort(const GroupContext& context, SortedAxis along)
      : context_(context),
        node_(context.graph.main().nodes[context.group().anchors[0]]),
        x_(context.graph.main().operands_of(node_)[0]),
        along_(along),
        shape_(context.type(x_).shape),
        element_(context.type(x_).element),
        extent_(shape_[along.axis]),
        run_(most_in_tile(context, extent_)) {
    for (size_t i = 0; i < shape_.size(); ++i) {
      if (i != along_.axis) lines_ = lines_ * shape_[i];
    }
  }

  Result<WrittenGroup> write();

 private:
  // Of a pass: keys and indices, of lines one behind the other.
  ValueId keys(size_t pass) const { return first_temporary() + 2 * (pass % 2); }
  ValueId indices(size_t pass) const { return keys(pass) + 1; }
  ValueId first_temporary() const { return static_cast<ValueId>(context_.graph.main().values.size()); }
  // Where the place of a line lies in the temporaries.
  Expr offset(const Coords& coords, const Expr& place) const;
  std::string name(const char* what) const;
  Result<WrittenKernel> sort_runs() const;
  Result<WrittenKernel> merge(size_t pass, int64_t width) const;
  Result<WrittenKernel> give(std::span<const int64_t> widths) const;

  const GroupContext& context_;
  const Node& node_;
  const ValueId x_;
  const SortedAxis along_;
  const std::vector<Expr>& shape_;
  const ElementType element_;
  const Expr extent_;
  const int64_t run_;  // places that are sorted in a tile
  Expr lines_ = Expr(1);
};

Expr MergeSort::offset(const Coords& coords, const Expr& place) const {
  return line_of(coords, shape_, along_.axis) * extent_ + place;
}

std::string MergeSort::name(const char* what) const { return std::string(graph::info(node_.op).name) + "_" + what; }

Result<WrittenKernel> MergeSort::sort_runs() const {
  const graph::Graph& graph = context_.graph;
  GroupNest group = empty_nest(graph, shape_, {});
  NestBuilder builder(
      graph, group.nest, [&](ValueId value) { return source_of(graph, context_.grouping, context_.number, value); },
      [](uint32_t) { return Coords(); });
  const auto x = builder.at(x_, group.domain);
  if (!x) return no_kernel(graph, context_.group().anchors[0]);
  // Where keys go, and what goes there.
  const Expr place = offset(group.domain, group.domain[along_.axis]);
  group.nest.steps.push_back({.kind = Step::Kind::kAnchor, .element = element_, .anchor = 0});
  group.nest.steps.push_back({.kind = Step::Kind::kAnchor, .element = ElementType::kI64, .anchor = 1});
  const auto last = static_cast<StepId>(group.nest.steps.size() - 1);
  group.stores = {{keys(0), last - 1, place}, {indices(0), last, place}};
  const StepId wanted[] = {*x};
  const ConstParam consts[] = {{"RUN", run_}};
  const Signature signature = signature_of(group.nest, group.stores, wanted, consts);
  auto kernel = dsl::trace_kernel(name("runs"), signature.params, [&](const dsl::TracedParams& params) {
    const KernelArguments arguments = signature.bind(params);
    StepEmitter emitter(graph, group.nest, arguments);
    const lang::Const run = params.constant(signature.first_const);
    const IndexSpace& space = group.nest.space;
    // The number of the sorted axis: those of extent 1 have none.
    size_t along = 0;
    for (size_t axis = 0; axis < space.axis_count(); ++axis) {
      if (group.domain[along_.axis] == space.axis(axis)) along = axis;
    }
    ProgramAxes programs;
    for (size_t axis = 0; axis < space.axis_count(); ++axis) {
      const Value extent = emitter.number(space.extent(axis));
      programs.add(axis == along ? lang::cdiv(extent, run) : extent);
    }
    const std::vector<Value> places = programs.places();
    for (size_t axis = 0; axis < places.size(); ++axis) {
      if (axis != along) emitter.bind(axis, {.start = places[axis]});
    }
    const Value start = places[along] * as_i64(run), lanes = lang::arange(0, run);
    const Value mask = lanes + start < emitter.number(space.extent(along));
    emitter.bind(along, {.start = start, .lanes = lanes, .mask = mask});
    const ElementType key = key_type(element_);
    const Value unsorted = lang::where(mask, lang::cast(emitter.value(*x), key), last_key(key, along_.descending));
    const auto [sorted, from] =
        lang::sort(lang::broadcast_to(unsorted, {run}), lanes, 0, {.descending = along_.descending});
    emitter.set_anchor(0, element_of_key(sorted, element_));
    emitter.set_anchor(1, lang::cast(from, ElementType::kI64) + start);
    for (const Stored& store : group.stores) emitter.store(store.value, store.offset, store.step);
  });
  if (!kernel) return kernel.error();
  kernel->options.fuse_precision = true;
  set_sort_warps(*kernel, run_);
  return WrittenKernel{{std::move(*kernel), {}}, signature.arguments};
}

// The parameters of a pass, in order.
enum PassParam : size_t { kKeys, kIndices, kToKeys, kToIndices, kLines, kBlocks, kExtent, kWidth, kSteps, kAtOnce };

void merge_block(const dsl::TracedParams& params, ElementType element, bool descending) {
  const lang::Const at_once = params.constant(kAtOnce);
  const Value extent = params.value(kExtent), width = params.value(kWidth);
  ProgramAxes programs;
  programs.add(params.value(kLines));
  programs.add(params.value(kBlocks));
  const std::vector<Value> program = programs.places();
  const Value line = program[0] * extent;
  const Value place = program[1] * as_i64(at_once) + lang::cast(lang::arange(0, at_once), ElementType::kI64);
  const Value mask = place < extent;
  const ElementType type = key_type(element);
  const auto key_at = [&](const Value& at, const Value& on) {
    return lang::cast(lang::load(params.value(kKeys) + line + at, {.mask = on}), type);
  };
  const Value stored = lang::load(params.value(kKeys) + line + place, {.mask = mask});
  const Value key = lang::cast(stored, type);
  const Value run = place / width, is_left = run % 2 == 0;
  const Value begin = run * width;
  const Value other = lang::min(lang::where(is_left, begin + width, begin - width), extent);
  // low … high: how many of the other run come before. Of equal ones those of the left run do.
  lang::Var low = other, high = lang::min(other + width, extent);
  for ([[maybe_unused]] const Value& step : lang::range(0, params.value(kSteps))) {
    const Value from = low, to = high;
    const Value middle = (from + to) / 2;
    const Value goes_on = mask & (from < to);
    const Value there = key_at(middle, goes_on);
    const Value is_before = descending ? is_less(key, there, type) : is_less(there, key, type);
    const Value is_behind = descending ? is_less(there, key, type) : is_less(key, there, type);
    const Value counts = lang::where(is_left, is_before, !is_behind);
    low = lang::where(goes_on & counts, middle + 1, from);
    high = lang::where(goes_on & !counts, middle, to);
  }
  const Value to = lang::min(begin, other) + (place - begin) + (Value(low) - other);
  lang::store(params.value(kToKeys) + line + to, stored, {.mask = mask});
  const Value index = lang::load(params.value(kIndices) + line + place, {.mask = mask});
  lang::store(params.value(kToIndices) + line + to, index, {.mask = mask});
}

Result<WrittenKernel> MergeSort::merge(size_t pass, int64_t width) const {
  const dsl::Type key{element_, true, {}}, index{ElementType::kI64, true, {}}, number{ElementType::kI64, false, {}};
  const dsl::NamedParam params[] = {{.name = "keys", .type = key, .readonly = true},
                                    {.name = "indices", .type = index, .readonly = true},
                                    {.name = "to_keys", .type = key},
                                    {.name = "to_indices", .type = index},
                                    {.name = "lines", .type = number},
                                    {.name = "blocks", .type = number},
                                    {.name = "extent", .type = number},
                                    {.name = "width", .type = number},
                                    {.name = "steps", .type = number},
                                    {.name = "BLOCK=" + std::to_string(kMergedAtOnce), .is_const = true}};
  auto kernel = dsl::trace_kernel(name("merge"), params, [&](const dsl::TracedParams& traced) {
    merge_block(traced, element_, along_.descending);
  });
  if (!kernel) return kernel.error();
  const Expr blocks = Expr::apply(AtomKind::kDiv, extent_ + (kMergedAtOnce - 1), Expr(kMergedAtOnce)) *
                      Expr::apply(AtomKind::kLt, Expr(width), extent_);
  int64_t steps = 1;
  while (int64_t{1} << steps <= width) ++steps;
  WrittenKernel out{{std::move(*kernel), {}}, {}};
  for (const ValueId tensor : {keys(pass), indices(pass), keys(pass + 1), indices(pass + 1)}) {
    out.arguments.push_back({.tensor = tensor});
  }
  for (const Expr& scalar : {lines_, blocks, extent_, Expr(width), Expr(steps)}) {
    out.arguments.push_back({.is_tensor = false, .scalar = scalar});
  }
  return out;
}

// From where the last pass that had programs left them.
Result<WrittenKernel> MergeSort::give(std::span<const int64_t> widths) const {
  const std::vector<Expr>& shape = context_.type(node_.first_result).shape;
  GroupNest group = empty_nest(context_.graph, shape, {});
  Expr passes;
  for (const int64_t width : widths) passes = passes + Expr::apply(AtomKind::kLt, Expr(width), extent_);
  const Expr parity = Expr::apply(AtomKind::kRem, passes, Expr(2));
  const Expr from = offset(group.domain, group.domain[along_.axis]);
  const Predicate even{{AtomKind::kEq, parity, Expr()}}, odd{{AtomKind::kEq, parity, Expr(1)}};
  std::vector<Step>& steps = group.nest.steps;
  for (uint32_t i = 0; i < 2; ++i) {
    const ElementType element = i == 0 ? element_ : ElementType::kI64;
    steps.push_back(
        {.kind = Step::Kind::kLoad, .element = element, .tensor = keys(0) + i, .offset = from, .when = even});
    steps.push_back(
        {.kind = Step::Kind::kLoad, .element = element, .tensor = keys(1) + i, .offset = from, .when = odd});
    const auto last = static_cast<StepId>(steps.size() - 1);
    steps.push_back({.kind = Step::Kind::kChoose, .element = element, .when = even, .operands = {last - 1, last}});
    group.stores.push_back({node_.first_result + i, last + 1, IndexSpace::ravel(group.domain, shape)});
  }
  merge_axes(group);
  return write_map(context_, std::move(group), name("results"));
}

Result<WrittenGroup> MergeSort::write() {
  WrittenGroup out;
  const graph::TensorType keys{element_, {lines_, extent_}}, indices{ElementType::kI64, {lines_, extent_}};
  out.temporaries = {keys, indices, keys, indices};
  const auto add = [&](Result<WrittenKernel> kernel) -> Result<void> {
    if (!kernel) return kernel.error();
    out.kernels.push_back(std::move(*kernel));
    return {};
  };
  if (auto done = add(sort_runs()); !done) return done.error();
  const int64_t most = graph::interval(context_.graph.dims, extent_).high;
  std::vector<int64_t> widths;
  for (int64_t width = run_; width < most; width *= 2) {
    if (auto done = add(merge(widths.size(), width)); !done) return done.error();
    widths.push_back(width);
    if (width > most / 2) break;
  }
  if (auto done = add(give(widths)); !done) return done.error();
  return out;
}

}  // namespace

Result<WrittenGroup> write_merge_sort(const GroupContext& context, SortedAxis along) {
  return MergeSort(context, along).write();
}

}  // namespace kiln::planner
