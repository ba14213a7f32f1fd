// Attention as one kernel: a program has a block of queries of one head and goes over blocks of keys by running maximum
// and sum ("flash", Dao and others 2022), so that scores are never in memory. q, k and v are read where their views
// say; what the graph computes as a mask is computed on the block of scores, what follows attention on its block of the
// result.
#include <cmath>

#include "array_sizes.h"
#include "kernel_writer.h"
#include "kiln/dsl/kernels/attention.h"

namespace kiln::planner {

using graph::Graph;
using graph::Node;
using lang::Value;

namespace {

constexpr int64_t kWidest = 256;  // of heads
constexpr double kLog2E = 1.44269504088896340736;

struct LaneAxis {
  size_t axis = kNoAxis;
  Expr extent = Expr(1);
  Expr place;
};

LaneAxis lane_axis(IndexSpace& space, const Expr& extent) {
  LaneAxis out{.axis = kNoAxis, .extent = extent, .place = {}};
  if (extent == Expr(1)) return out;
  out.place = space.add_axis(extent);
  out.axis = space.axis_count() - 1;
  return out;
}

struct AttentionNest {
  Nest nest;
  std::vector<LaneAxis> outer;  // batch, heads of k, heads of q that share one: a program has one place of each
  LaneAxis m, n, d, e;          // queries, keys, the width of both, that of values
  // A single query: those of the heads that share keys are a block, so that these are read once.
  bool has_heads_as_rows = false;
  StepId q = 0, k = 0, v = 0;
  std::optional<StepId> mask = {};
  std::vector<Stored> stores = {};
  ElementType element = ElementType::kF32;
  double scale = 1;
  bool causal = false;
  int64_t window = 0;
  bool sees_itself = true;  // there are at least as many keys as queries

  bool is_masked_by_place() const { return causal || window != 0; }
  bool adds_mask() const { return mask && nest.steps[*mask].element != ElementType::kI1; }
};

Error not_written(const Graph& graph, const Node& node) {
  const std::string place = graph.location_text(node.loc);
  return internal_error((place.empty() ? "" : place + ": ") + "an `attention` whose operands have no kernel");
}

// The place of a mask, which broadcasts to that of the scores.
Coords mask_place(const std::vector<Expr>& shape, const Coords& scores) {
  Coords out;
  for (size_t i = 0; i < shape.size(); ++i) {
    out.push_back(shape[i] == Expr(1) ? Expr() : scores[scores.size() - shape.size() + i]);
  }
  return out;
}

Result<AttentionNest> attention_nest(const GroupContext& context) {
  const Graph& graph = context.graph;
  const Group& group = context.group();
  const Node& node = graph.main().nodes[group.anchors[0]];
  const auto operands = graph.main().operands_of(node);
  const graph::AttrList& attrs = graph.attrs(node);
  const auto &q = context.type(operands[0]).shape, &k = context.type(operands[1]).shape;
  const auto heads = graph::exact_quotient(graph.dims, q[1], k[1]);
  const auto width = q[3].as_constant();
  if (!heads || !width) return not_written(graph, node);

  AttentionNest out{.nest = {IndexSpace(graph.dims), {}, {}}, .outer = {}, .m = {}, .n = {}, .d = {}, .e = {}};
  IndexSpace& space = out.nest.space;
  out.has_heads_as_rows = q[2] == Expr(1) && *heads != Expr(1);
  for (const Expr& extent : {q[0], k[1]}) out.outer.push_back(lane_axis(space, extent));
  if (!out.has_heads_as_rows) out.outer.push_back(lane_axis(space, *heads));
  out.m = lane_axis(space, out.has_heads_as_rows ? *heads : q[2]);
  out.n = lane_axis(space, k[2]);
  out.d = lane_axis(space, q[3]);
  out.e = lane_axis(space, context.type(operands[2]).shape[3]);
  out.element = context.type(operands[0]).element;
  out.causal = graph::flag_attr(attrs, 0);
  const int64_t window = graph::int_attr(attrs, 1);
  out.window = window <= INT32_MAX / 4 ? window : 0;  // places are i32: such a one leaves out none
  out.scale = graph::float_attr(attrs, 2);
  if (out.scale == 0) out.scale = 1 / std::sqrt(static_cast<double>(*width));
  out.sees_itself = graph::at_most(graph.dims, q[2], k[2]) == graph::Known::kYes;

  const Expr batch = out.outer[0].place, kv_head = out.outer[1].place;
  const Expr head = kv_head * *heads + (out.has_heads_as_rows ? out.m.place : out.outer[2].place);
  const Expr query = out.has_heads_as_rows ? Expr() : out.m.place;
  const Coords result{batch, head, query, out.e.place};
  NestBuilder builder(
      graph, out.nest, [&](ValueId value) { return source_of(graph, context.grouping, context.number, value); },
      [&](uint32_t) { return result; });
  const auto at_q = builder.at(operands[0], {batch, head, query, out.d.place});
  const auto at_k = builder.at(operands[1], {batch, kv_head, out.n.place, out.d.place});
  const auto at_v = builder.at(operands[2], {batch, kv_head, out.n.place, out.e.place});
  if (!at_q || !at_k || !at_v) return not_written(graph, node);
  out.q = *at_q;
  out.k = *at_k;
  out.v = *at_v;
  if (operands.size() > 3 && operands[3] != graph::kNoValue) {
    const Coords scores{batch, head, query, out.n.place};
    out.mask = builder.at(operands[3], mask_place(context.type(operands[3]).shape, scores));
    if (!out.mask) return not_written(graph, node);
  }
  for (const ValueId root : group.roots) {
    const auto coords = value_place(graph, space, context.grouping, context.number, root, result);
    const auto step = coords ? builder.at(root, *coords) : std::nullopt;
    if (!step) return not_written(graph, node);
    out.stores.push_back({root, *step, context.place(root, *coords), *coords});
  }
  return out;
}

// A tensor in memory, or a cast of one, with a stride for rows and one for columns.
struct Strided {
  ValueId tensor;
  Expr base, row, column;
};

std::optional<Strided> strided(const Nest& nest, StepId id, const LaneAxis& rows, const LaneAxis& columns) {
  const Step* step = &nest.steps[id];
  if (step->kind == Step::Kind::kCompute && step->op == TensorOp::kCast) step = &nest.steps[step->operands[0]];
  if (step->kind != Step::Kind::kLoad || !step->when.empty()) return std::nullopt;
  const auto is_looked_up = [&](const BoundAxis& bound) { return nest.space.mentions(step->offset, bound.axis); };
  if (std::any_of(nest.bound.begin(), nest.bound.end(), is_looked_up)) return std::nullopt;
  LinearPart row{Expr(), step->offset}, column{Expr(1), step->offset};
  if (rows.axis != kNoAxis) {
    const auto part = linear_in(nest.space, step->offset, rows.axis);
    if (!part) return std::nullopt;
    row = *part;
  }
  column.rest = row.rest;
  if (columns.axis != kNoAxis) {
    const auto part = linear_in(nest.space, row.rest, columns.axis);
    if (!part || nest.space.mentions(row.coefficient, columns.axis)) return std::nullopt;
    column = *part;
  }
  return Strided{step->tensor, column.rest, row.coefficient, column.coefficient};
}

// An operand by blocks of rows that have all columns.
struct Matrix {
  StepId step;
  const LaneAxis &rows, &columns;
  lang::Const width;
  std::optional<lang::Tile> tile = {};
};

class AttentionWriter {
 public:
  AttentionWriter(const GroupContext& context, const AttentionNest& nest, const Signature& signature,
                  const dsl::TracedParams& params)
      : context_(context),
        at_(nest),
        arguments_(signature.bind(params)),
        bm_(params.constant(signature.first_const)),
        bn_(params.constant(signature.first_const + 1)),
        scalars_(context.graph, nest.nest, arguments_) {}

  void write();

 private:
  Value extent(const LaneAxis& axis) { return lang::cast(scalars_.number(axis.extent), ElementType::kI32); }
  lang::Const width(const LaneAxis& axis) const;
  void bind_program();
  void bind_outer(StepEmitter& emitter) const;
  static void bind(StepEmitter& emitter, const LaneAxis& axis, const Value& start, const lang::Const& block, int expand,
                   bool is_whole = false);
  Matrix matrix(StepId step, const LaneAxis& rows, const LaneAxis& columns);
  Value load(const Matrix& matrix, const Value& start, const lang::Const& block) const;

  Value sees(const Value& start) const;
  Value is_edge(const Value& start) const;
  Value masked(const Value& products, const Value& start, bool is_whole) const;
  Value scores(const Value& query, const Matrix& keys, const Value& start, bool is_whole) const;
  void attend(const Value& scores, const Value& values, lang::Var& top, lang::Var& total, lang::Var& sum) const;
  void store(const Value& mean);

  // Scores are products until they are raised: scaled there, in one step.
  bool scales_late() const { return at_.scale > 0 && !at_.adds_mask(); }
  // So many places does a block of queries stand at.
  lang::Const span() const { return at_.has_heads_as_rows ? lang::Const(1) : bm_; }
  // Whether a row may see nothing in a block.
  bool may_be_blind() const { return at_.mask || at_.window != 0 || (at_.causal && !at_.sees_itself); }

  const GroupContext& context_;
  const AttentionNest& at_;
  const KernelArguments arguments_;
  const lang::Const bm_, bn_;
  StepEmitter scalars_;
  std::vector<Value> places_;  // of the outer axes
  Value first_;                // row of the block, i32
  Value stands_at_;            // place of k of the first query of the block, i32
  Value rows_, keys_;          // how many
};

// All of a head, in one block; matrix units have no narrower ones.
lang::Const AttentionWriter::width(const LaneAxis& axis) const {
  return std::max<int64_t>(context_.on_cpu() ? 1 : 16, block_for(axis.extent, kWidest));
}

void AttentionWriter::bind(StepEmitter& emitter, const LaneAxis& axis, const Value& start, const lang::Const& block,
                           int expand, bool is_whole) {
  if (axis.axis == kNoAxis) return;
  const Value lanes = lang::expand_dims(lang::arange(0, block), expand);
  const Value from = lang::cast(start, ElementType::kI64);
  emitter.bind(
      axis.axis,
      {.start = from, .lanes = lanes, .mask = is_whole ? Value() : lanes + from < emitter.number(axis.extent)});
}

void AttentionWriter::bind_outer(StepEmitter& emitter) const {
  for (size_t i = 0; i < places_.size(); ++i) {
    if (at_.outer[i].axis != kNoAxis) emitter.bind(at_.outer[i].axis, {.start = places_[i]});
  }
}

// A block of queries of a head. Those that see the most keys come first: what is left for the end is short.
void AttentionWriter::bind_program() {
  rows_ = extent(at_.m);
  keys_ = extent(at_.n);
  const Value blocks = lang::cdiv(rows_, bm_);
  Value programs = blocks;
  for (const LaneAxis& axis : at_.outer) {
    if (axis.axis != kNoAxis) programs = programs * extent(axis);
  }
  lang::grid(programs);
  const Value program = lang::program_id(0);
  Value rest = program / blocks;
  places_.resize(at_.outer.size());
  for (size_t i = at_.outer.size(); i-- > 0;) {
    if (at_.outer[i].axis == kNoAxis) continue;
    places_[i] = lang::cast(rest % extent(at_.outer[i]), ElementType::kI64);
    rest = rest / extent(at_.outer[i]);
  }
  bind_outer(scalars_);
  const Value block = program % blocks;
  first_ = (at_.causal ? blocks - 1 - block : block) * bm_;
  lang::assume(first_, {.low = 0});
  stands_at_ = at_.has_heads_as_rows ? keys_ - 1 : first_ + keys_ - rows_;
}

Matrix AttentionWriter::matrix(StepId step, const LaneAxis& rows, const LaneAxis& columns) {
  Matrix out{step, rows, columns, width(columns)};
  const auto view = strided(at_.nest, step, rows, columns);
  if (!view) return out;
  Value base = arguments_.tensors.at(view->tensor);
  if (view->base != Expr()) base = base + scalars_.number(view->base);
  const auto stride = [&](const Expr& expr) -> lang::Operand {
    const auto number = expr.as_constant();
    return number ? lang::Operand(*number) : lang::Operand(scalars_.number(expr));
  };
  out.tile = lang::tile(base, {extent(rows), extent(columns)}, {stride(view->row), stride(view->column)});
  return out;
}

// Rows from `start` on; beyond the ends of rows and columns 0.
Value AttentionWriter::load(const Matrix& matrix, const Value& start, const lang::Const& block) const {
  if (matrix.tile) {
    const Value value = matrix.tile->load({start, 0}, {block, matrix.width});
    const Step& step = at_.nest.steps[matrix.step];
    return step.kind == Step::Kind::kLoad ? value : lang::cast(value, step.element);
  }
  StepEmitter emitter(context_.graph, at_.nest, arguments_);
  bind_outer(emitter);
  const Value zero = lang::full({}, 0, at_.element), none = lang::full({}, 0, ElementType::kI32);
  bind(emitter, matrix.rows, start, block, 1);
  bind(emitter, matrix.columns, none, matrix.width, 0);
  Value value = emitter.value_or(matrix.step, zero);
  if (matrix.rows.axis == kNoAxis)
    value = lang::where(lang::expand_dims(lang::arange(0, block), 1) + start == 0, value, zero);
  if (matrix.columns.axis == kNoAxis)
    value = lang::where(lang::expand_dims(lang::arange(0, matrix.width), 0) == 0, value, zero);
  return lang::broadcast_to(value, {block, matrix.width});
}

// --- masks ---

Value AttentionWriter::sees(const Value& start) const {
  const Value key = lang::expand_dims(lang::arange(0, bn_) + start, 0);
  const Value own = lang::expand_dims(lang::arange(0, span()) + stands_at_, 1);
  const auto window = static_cast<int32_t>(at_.window);
  if (!at_.causal) return key > own - window;
  return at_.window == 0 ? key <= own : (key <= own) & (key > own - window);
}

// Whether a query does not see a key of the block.
Value AttentionWriter::is_edge(const Value& start) const {
  const Value ahead = start + bn_ > stands_at_ + 1;
  const Value behind = start <= stands_at_ + (span() - 1) - static_cast<int32_t>(at_.window);
  if (at_.window == 0) return ahead;
  return at_.causal ? ahead | behind : behind;
}

// As the graph says it: for one block, where it is read.
Value AttentionWriter::masked(const Value& products, const Value& start, bool is_whole) const {
  if (!at_.mask) return products;
  StepEmitter emitter(context_.graph, at_.nest, arguments_);
  bind_outer(emitter);
  bind(emitter, at_.m, first_, bm_, 1);
  bind(emitter, at_.n, start, bn_, 0, is_whole);
  const Value mask = emitter.value(*at_.mask);
  if (at_.adds_mask()) return products + lang::cast(mask, ElementType::kF32);
  return lang::where(lang::broadcast_to(mask, {bm_, bn_}), products, lang::kernels::kLowest);
}

// Of a block of keys, -inf where a query does not see one. `is_whole`: all keys of the block are there.
Value AttentionWriter::scores(const Value& query, const Matrix& keys, const Value& start, bool is_whole) const {
  Value products = lang::dot(query, lang::trans(load(keys, start, bn_)));
  if (!scales_late()) products = products * static_cast<float>(at_.scale);
  products = masked(products, start, is_whole);
  const auto shown = [&](const Value& where) {
    return lang::where(lang::broadcast_to(where, {bm_, bn_}), products, lang::kernels::kLowest);
  };
  if (!is_whole) {
    const Value inside = lang::expand_dims(lang::arange(0, bn_) + start < keys_, 0);
    return shown(at_.is_masked_by_place() ? inside & sees(start) : inside);
  }
  if (!at_.is_masked_by_place()) return products;
  return lang::if_(is_edge(start), [&] { return shown(sees(start)); }, [&] { return products; });
}

// One more block. Weights are powers of two, rounded as values are.
void AttentionWriter::attend(const Value& scores, const Value& values, lang::Var& top, lang::Var& total,
                             lang::Var& sum) const {
  const auto factor = static_cast<float>(scales_late() ? at_.scale * kLog2E : kLog2E);
  const Value next = lang::max(top, lang::reduce_max(scores, 1));
  // Of -inf alone: nothing is seen so far.
  const Value zero_at = may_be_blind() ? lang::where(next == lang::kernels::kLowest, 0.0f, next) : next;
  const Value shrink = lang::exp2((top - zero_at) * factor, lang::fast);
  const Value column = lang::expand_dims(zero_at, 1);
  const Value weights = scales_late() ? lang::exp2(lang::fma(scores, factor, column * -factor), lang::fast)
                                      : lang::exp2((scores - column) * factor, lang::fast);
  total = total * shrink + lang::sum(weights, 1);
  sum = lang::dot(lang::cast(weights, at_.element), values, sum * lang::expand_dims(shrink, 1));
  top = next;
}

void AttentionWriter::store(const Value& mean) {
  StepEmitter result(context_.graph, at_.nest, arguments_);
  bind_outer(result);
  bind(result, at_.m, first_, bm_, 1);
  bind(result, at_.e, lang::full({}, 0, ElementType::kI32), width(at_.e), 0);
  // Without an axis there is nothing to have lanes: all others of its block are to be 0.
  Value out = mean;
  if (at_.m.axis == kNoAxis) {
    out = lang::where(lang::expand_dims(lang::arange(0, bm_), 1) == 0, out, 0.0f);
    out = lang::expand_dims(lang::sum(out, 0), 0);
  }
  if (at_.e.axis == kNoAxis) out = lang::expand_dims(lang::sum(out, 1), 1);
  if (at_.m.axis == kNoAxis && at_.e.axis == kNoAxis) out = lang::sum(lang::sum(out, 1), 0);
  result.set_anchor(0, lang::cast(out, at_.element));
  for (const Stored& each : at_.stores) result.store(each.value, each.offset, each.step);
}

void AttentionWriter::write() {
  bind_program();
  const Matrix of_q = matrix(at_.q, at_.m, at_.d), of_k = matrix(at_.k, at_.n, at_.d),
               of_v = matrix(at_.v, at_.n, at_.e);
  const Value query = load(of_q, first_, bm_);
  // The keys that the block sees, and those of them that lie in whole blocks.
  Value begin = lang::full({}, 0, ElementType::kI32), end = keys_;
  if (at_.causal) end = lang::min(end, lang::max(stands_at_ + span(), 0));
  if (at_.window != 0) begin = lang::max(stands_at_ - static_cast<int32_t>(at_.window - 1), 0) / bn_ * bn_;
  const Value whole = lang::min(lang::cdiv(end, bn_), keys_ / bn_) * bn_;

  lang::Var top = lang::full({bm_}, lang::kernels::kLowest, ElementType::kF32);
  lang::Var total = lang::zeros(ElementType::kF32, {bm_});
  lang::Var sum = lang::zeros(ElementType::kF32, {bm_, width(at_.e)});
  for (const Value& start : lang::range(begin, whole, bn_).stages(3)) {
    const Value seen = scores(query, of_k, start, true);
    attend(seen, load(of_v, start, bn_), top, total, sum);
  }
  const auto attend_rest = [&] {
    for (const Value& start : lang::range(whole, end, bn_).stages(1)) {
      const Value seen = scores(query, of_k, start, false);
      attend(seen, load(of_v, start, bn_), top, total, sum);
    }
  };
  const auto count = at_.n.extent.as_constant();
  if (count) {
    lang::if_(lang::Const(*count) % bn_ != 0, attend_rest);
  } else {
    attend_rest();
  }
  // A row that sees nothing is 0.
  const Value all = total;
  store(sum * lang::expand_dims(1.0f / lang::where(all == 0.0f, 1.0f, all), 1));
}

// On CPUs larger blocks of queries are hardly faster than small ones, which leave fewer rows beyond the last query.
int64_t cpu_rows(const Expr& extent) {
  int64_t out = block_for(extent, 64);
  const int64_t count = extent.as_constant().value_or(out);
  while (out > 16 && (count + out - 1) / out * out > count + count / 16) out /= 2;
  return out;
}

// Keys in blocks of one size; all of them in one if they are few. Few rows read keys once, and want a block that is
// still in the nearest cache when its values are multiplied.
int64_t cpu_keys(const Expr& extent, int64_t rows) {
  const auto count = extent.as_constant();
  const int64_t usual = rows <= 8 ? 32 : 128, most = rows > 8 && count && *count <= 256 ? 256 : usual;
  if (!count || *count <= 8) return block_for(extent, most);
  const int64_t blocks = (*count + most - 1) / most;
  return ((*count + blocks - 1) / blocks + 7) / 8 * 8;
}

void set_defaults(dsl::Kernel& kernel, const AttentionNest& nest) {
  using namespace lang::kernels;
  const bool is_f32 = nest.element == ElementType::kF32;
  const auto fitted = [&](dsl::ConstexprValues blocks) {
    for (const auto& [name, extent] : {std::pair("BM", nest.m.extent), std::pair("BN", nest.n.extent)}) {
      if (blocks.contains(name)) blocks[name] = std::max<int64_t>(16, block_for(extent, blocks[name]));
    }
    return blocks;
  };
  const auto set = [&](const char* target, dsl::ConstexprValues of_f32, dsl::ConstexprValues narrow) {
    dsl::ConstexprValues& blocks = is_f32 ? of_f32 : narrow;
    if (!blocks.empty()) kernel.target_defaults[target] = fitted(std::move(blocks));
  };
  set("amd", amd_attention_blocks<lang::f32>(), amd_attention_blocks<lang::bf16>());
  set("amd:gfx906", plain_attention_blocks(), plain_attention_blocks());
  set("amd:gfx1100", rdna_attention_blocks<lang::f32>(), rdna_attention_blocks<lang::bf16>());
  set("amd:gfx1200", rdna_attention_blocks<lang::f32>(), rdna_attention_blocks<lang::bf16>());
  set("cuda", attention_blocks<lang::f32>(), attention_blocks<lang::bf16>());
  set("cuda:sm_90a", hopper_attention_blocks<lang::f32>(), hopper_attention_blocks<lang::bf16>());
}

}  // namespace

bool has_attention_kernel(const Graph& graph, const graph::Body& body, const Node& node) {
  if (node.op != TensorOp::kAttention) return false;
  const auto operands = body.operands_of(node);
  const graph::TensorType &q = graph.type(body, operands[0]), &k = graph.type(body, operands[1]);
  const auto fits = [](const Expr& extent) {
    const auto number = extent.as_constant();
    return number && *number >= 1 && *number <= kWidest;
  };
  const bool is_small = q.element == ElementType::kF16 || q.element == ElementType::kBF16;
  return (is_small || q.element == ElementType::kF32) && fits(q.shape[3]) &&
         fits(graph.type(body, operands[2]).shape[3]) && graph::exact_quotient(graph.dims, q.shape[1], k.shape[1]);
}

namespace {

// What a tensor is a view or a cast of.
ValueId source_behind(const graph::Body& body, ValueId value) {
  for (;;) {
    const NodeId number = body.values[value].node;
    if (number == graph::kNone) return value;
    const Node& node = body.nodes[number];
    if (!is_view(node.op) && node.op != TensorOp::kCast) return value;
    value = body.operands_of(node)[0];
  }
}

}  // namespace

bool shares_scores(const graph::Body& body, const Node& attention) {
  const auto of = body.operands_of(attention);
  const ValueId q = source_behind(body, of[0]), k = source_behind(body, of[1]);
  return std::any_of(body.nodes.begin(), body.nodes.end(), [&](const Node& node) {
    if (node.op != TensorOp::kDot) return false;
    const auto operands = body.operands_of(node);
    const ValueId a = source_behind(body, operands[0]), b = source_behind(body, operands[1]);
    return (a == q && b == k) || (a == k && b == q);
  });
}

Result<WrittenKernel> write_attention(const GroupContext& context) {
  auto nest = attention_nest(context);
  if (!nest) return nest.error();
  std::vector<StepId> wanted{nest->q, nest->k, nest->v};
  if (nest->mask) wanted.push_back(*nest->mask);
  for (const Stored& store : nest->stores) wanted.push_back(store.step);
  const int64_t rows = cpu_rows(nest->m.extent);
  const ConstParam consts[] = {{"BM", rows}, {"BN", cpu_keys(nest->n.extent, rows)}};
  Signature signature = signature_of(nest->nest, nest->stores, wanted, consts);
  auto kernel = dsl::trace_kernel(
      group_name(context.graph, context.group(), context.grouping, context.number), signature.params,
      [&](const dsl::TracedParams& params) { AttentionWriter(context, *nest, signature, params).write(); });
  if (!kernel) return kernel.error();
  kernel->options.fuse_precision = true;
  kernel->space = lang::kernels::attention_space();
  // Other blocks of keys would change the order of sums.
  std::erase_if(kernel->space, [](const dsl::SpaceAxis& axis) { return axis.name == "BN"; });
  set_defaults(*kernel, *nest);
  WrittenKernel out{{std::move(*kernel), {}}, std::move(signature.arguments)};
  out.indices = indices_of(nest->nest);
  return out;
}

}  // namespace kiln::planner
