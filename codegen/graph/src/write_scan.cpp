// Kernels of scans: a program has some lines, and goes along them in blocks with what the last block came to. Lines run
// at once; one line is walked by one program.
#include <list>

#include "combiner.h"
#include "kiln/dsl/library.h"
#include "lines.h"

namespace kiln::planner {

using graph::Node;
using lang::Value;

namespace {

constexpr int64_t kLineInOne = 4096;  // elements that are scanned at once, where the extent is known
constexpr int64_t kBlock = 1024;
constexpr int64_t kPlacesOfMany = 64;

struct Scan {
  const Node& node;
  bool reverse = false, exclusive = false;
  std::vector<StepId> operands;
  std::vector<StepId> neutrals;  // steps of what an exclusive scan begins with
  std::vector<Expr> places;      // of each result, inclusive
};

class ScanWriter : LineWriter {
 public:
  ScanWriter(const GroupContext& context, const GroupNest& group, const Scan& scan, const LineLayout& layout,
             const Signature& signature, const dsl::TracedParams& params)
      : LineWriter(context, group, layout, signature, params), scan_(scan) {}

  void write();

 private:
  bool is_custom() const { return scan_.node.op == TensorOp::kScanCustom; }
  Combiner combiner() const;
  BodyEmitter body() {
    return BodyEmitter(context_.graph, static_cast<graph::BodyId>(graph::int_attr(attrs(), 0)), emitter_);
  }
  const graph::AttrList& attrs() const { return context_.graph.attrs(scan_.node); }
  // What is carried before the first block, and of each block: of a body an i1 in front says whether there is anything.
  std::vector<Value> begin();
  std::vector<Value> scanned();
  std::vector<Value> behind(std::span<const Value> carry, std::span<const Value> block);
  void store_block(std::span<const Value> values, const Value& start);
  void store_first();
  ElementType element_of(size_t i) const { return group_.nest.steps[scan_.operands[i]].element; }

  const Scan& scan_;
};

Combiner ScanWriter::combiner() const {
  return Combiner::of(graph::enum_attr<graph::ReduceKind>(attrs(), 0), element_of(0));
}

std::vector<Value> ScanWriter::begin() {
  std::vector<Value> out;
  if (is_custom()) {
    out.push_back(literal_value(ElementType::kI1, 0));
    for (size_t i = 0; i < scan_.operands.size(); ++i) out.push_back(literal_value(element_of(i), 0));
  } else {
    out.push_back(combiner().neutral());
  }
  for (Value& value : out) value = lang::broadcast_to(value, shape(1));
  return out;
}

std::vector<Value> ScanWriter::scanned() {
  if (!is_custom()) {
    const Combiner kind = combiner();
    const Value x = lang::cast(emitter_.value(scan_.operands[0]), kind.type);
    return {kind.scan(on_tile(lang::where(along_mask(), x, kind.neutral())), axis(), scan_.reverse)};
  }
  std::vector<Value> xs{on_tile(along_mask())};
  for (const StepId operand : scan_.operands) xs.push_back(on_tile(emitter_.value(operand)));
  const BodyEmitter combine = body();
  return lang::scan(
      xs, axis(),
      [&](const std::vector<Value>& a, const std::vector<Value>& b) { return combine.combine_optional(a, b); },
      {.reverse = scan_.reverse});
}

std::vector<Value> ScanWriter::behind(std::span<const Value> carry, std::span<const Value> block) {
  std::vector<Value> out =
      is_custom() ? body().combine_optional(carry, block) : std::vector<Value>{combiner().combine(carry[0], block[0])};
  for (Value& value : out) value = on_tile(value);
  return out;
}

// An exclusive scan has each value one place further.
void ScanWriter::store_block(std::span<const Value> values, const Value& start) {
  if (is_custom()) values = values.subspan(1);
  if (scan_.exclusive) {
    const Value place = along_lanes() + start;
    const Value one = lang::full({}, 1, ElementType::kI64);
    const Value inside = scan_.reverse ? (place >= one) & (place < along_extent()) : place + one < along_extent();
    emitter_.bind(layout_.along, {.start = start, .lanes = along_lanes(), .mask = inside});
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const Value value = is_custom() ? values[i] : combiner().result(values[i], element_of(i));
    emitter_.set_anchor(static_cast<uint32_t>(i), value);
    const Stored& store = group_.stores[i];
    emitter_.store(store.value, store.offset, store.step);
  }
}

// What an exclusive scan has at its first place.
void ScanWriter::store_first() {
  const Value extent = along_extent(), zero = lang::full({}, 0, ElementType::kI64);
  lang::if_(extent > zero, [&] {
    const StepEmitter::Scope scope(emitter_);
    if (layout_.along != LineLayout::kNone) {
      const Value last = extent - lang::full({}, 1, ElementType::kI64);
      emitter_.bind(layout_.along, {.start = scan_.reverse ? last : zero});
    }
    emitter_.set_anchor(1, combiner().result(combiner().neutral(), element_of(0)));
    emitter_.store(group_.stores[0].value, scan_.places[0], scan_.neutrals[0]);
  });
}

void ScanWriter::write() {
  bind_programs();
  if (scan_.exclusive) store_first();
  if (layout_.along == LineLayout::kNone) {
    if (scan_.exclusive) return;
    for (size_t i = 0; i < scan_.operands.size(); ++i) {
      emitter_.store(group_.stores[i].value, group_.stores[i].offset, scan_.operands[i]);
    }
    return;
  }
  const auto known = space_.extent(layout_.along).as_constant();
  if (known && *known <= layout_.along_block) {
    const Value start = lang::full({}, 0, ElementType::kI64);
    bind_along(start);
    store_block(scanned(), start);
    return;
  }
  std::list<lang::Var> carry;
  for (const Value& value : begin()) carry.emplace_back(value);
  const Value blocks = lang::cdiv(along_extent(), along_);
  for (const Value& block : lang::range(0, blocks)) {
    const StepEmitter::Scope scope(emitter_);
    const Value number = lang::cast(block, ElementType::kI64);
    const Value place = scan_.reverse ? blocks - 1 - number : number;
    const Value start = place * lang::cast(lang::full({}, along_, ElementType::kI32), ElementType::kI64);
    bind_along(start);
    const std::vector<Value> values = behind(std::vector<Value>(carry.begin(), carry.end()), scanned());
    store_block(values, start);
    const lang::Const end = scan_.reverse ? lang::Const(0) : along_ - 1;
    auto to = carry.begin();
    for (const Value& value : values) *to++ = lang::slice(value, axis(), end, end + 1);
    emitter_.bind(layout_.along, {});
  }
}

}  // namespace

Result<WrittenGroup> write_scan(const GroupContext& context) {
  const graph::Graph& graph = context.graph;
  const NodeId number = context.group().anchors[0];
  const Node& node = graph.main().nodes[number];
  const graph::AttrList& attrs = graph.attrs(node);
  const int64_t axis = graph::int_attr(attrs, 1);
  const auto along = static_cast<size_t>(axis);
  const std::vector<Expr>& shape = context.type(node.first_result).shape;
  const bool is_custom = node.op == TensorOp::kScanCustom;

  GroupNest group = empty_nest(graph, shape, {&axis, 1});
  Scan scan{.node = node, .operands = {}, .neutrals = {}, .places = {}};
  scan.reverse = graph::flag_attr(attrs, 2);
  scan.exclusive = !is_custom && graph::flag_attr(attrs, 3);
  if (is_custom) {
    const auto body = static_cast<graph::BodyId>(graph::int_attr(attrs, 0));
    if (!is_scalar_body(graph, body)) return no_kernel(graph, number);
    group.numbers = body_numbers(graph, body);
  }
  NestBuilder builder(
      graph, group.nest, [&](ValueId value) { return source_of(graph, context.grouping, context.number, value); },
      [](uint32_t) { return Coords(); });
  Coords stored = group.domain;
  if (scan.exclusive) stored[along] = stored[along] + (scan.reverse ? Expr(-1) : Expr(1));
  const auto operands = graph.main().operands_of(node);
  for (uint32_t i = 0; i < node.result_count; ++i) {
    const auto step = builder.at(operands[i], group.domain);
    if (!step) return no_kernel(graph, number);
    scan.operands.push_back(*step);
    const ElementType element = context.type(node.first_result + i).element;
    group.nest.steps.push_back({.kind = Step::Kind::kAnchor, .element = element, .anchor = i});
    group.stores.push_back(
        {node.first_result + i, static_cast<StepId>(group.nest.steps.size() - 1), IndexSpace::ravel(stored, shape)});
    scan.places.push_back(IndexSpace::ravel(group.domain, shape));
  }
  if (scan.exclusive) {
    group.nest.steps.push_back(
        {.kind = Step::Kind::kAnchor, .element = group.nest.steps[scan.operands[0]].element, .anchor = 1});
    scan.neutrals.push_back(static_cast<StepId>(group.nest.steps.size() - 1));
  }

  // Many lines side by side have room for few places.
  const bool is_last = group.axes.empty() || group.is_reduced.back();
  const auto known = shape[along].as_constant();
  const bool in_one = known && *known <= kLineInOne;
  const LineLayout layout = line_layout(group, !is_last ? kPlacesOfMany : in_one ? kLineInOne : kBlock);
  std::vector<StepId> wanted = scan.operands;
  const Signature signature = signature_of(group.nest, group.stores, wanted, line_consts(layout), group.numbers);
  auto kernel = dsl::trace_kernel(
      group_name(graph, context.group(), context.grouping, context.number), signature.params,
      [&](const dsl::TracedParams& params) { ScanWriter(context, group, scan, layout, signature, params).write(); });
  if (!kernel) return kernel.error();
  kernel->options.fuse_precision = true;
  if (is_last && layout.across_block == 1) set_long_lines(*kernel, "ALONG", group);
  WrittenGroup out;
  out.kernels.push_back({{std::move(*kernel), {}}, signature.arguments});
  return out;
}

}  // namespace kiln::planner
