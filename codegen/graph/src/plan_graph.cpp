// From a request to a plan: primitives, groups, a kernel each, buffers, the arena.
#include "kiln/planner/plan_graph.h"

#include "array_sizes.h"
#include "dot_nest.h"
#include "kiln/dsl/binary.h"
#include "kiln/graph/decompose.h"
#include "kiln/graph/recognise.h"
#include "kiln/graph/simplify.h"
#include "kiln/graph/spell_out.h"
#include "kiln/graph/verify.h"
#include "memory_order.h"
#include "memory_plan.h"
#include "planner.h"

namespace kiln::planner {

Expr bytes_of(const graph::TensorType& type) {
  return graph::element_count(type.shape) * Expr(std::max<int64_t>(1, dsl::info(type.element).bits / 8));
}

namespace {

// " with axes 0, 2, 3, 1": from the slowest to the fastest.
std::string axes_text(const AxisOrder& order) {
  std::string out;
  for (const size_t axis : order) out += (out.empty() ? " with axes " : ", ") + std::to_string(axis);
  return out;
}

}  // namespace

void Planner::describe() {
  plan_.name = body_.name;
  plan_.target = request_.target;
  plan_.dims = graph_.dims;
  for (const graph::Input& input : body_.inputs) {
    plan_.inputs.push_back({input.name, graph_.type(body_, input.value)});
    buffers_[input.value] = add_buffer({.home = PlannedBuffer::Home::kInput,
                                        .index = static_cast<uint32_t>(plan_.inputs.size() - 1),
                                        .bytes = bytes_of(plan_.inputs.back().type)});
  }
  for (const graph::Output& output : body_.outputs) {
    plan_.outputs.push_back({output.name, graph_.type(body_, output.value)});
    plan_.in_place.push_back(kNone);
  }
}

uint32_t Planner::add_buffer(PlannedBuffer buffer) {
  plan_.buffers.push_back(std::move(buffer));
  return static_cast<uint32_t>(plan_.buffers.size() - 1);
}

uint32_t Planner::constant_of(const graph::Node& node) {
  const graph::AttrList& attrs = graph_.attrs(node);
  const auto& data = std::get<std::vector<uint64_t>>(attrs[2]);
  const auto bytes = static_cast<size_t>(std::max(1, dsl::info(graph::element_attr(attrs, 0)).bits / 8));
  std::vector<std::byte> memory(data.size() * bytes);
  for (size_t i = 0; i < data.size(); ++i) {
    for (size_t j = 0; j < bytes; ++j) memory[i * bytes + j] = static_cast<std::byte>(data[i] >> (8 * j));
  }
  plan_.constants.push_back(std::move(memory));
  return add_buffer({.home = PlannedBuffer::Home::kConstant,
                     .index = static_cast<uint32_t>(plan_.constants.size() - 1),
                     .bytes = Expr(static_cast<int64_t>(data.size() * bytes))});
}

// A constant of one element is computed where it is read, or written where it must be in memory.
bool Planner::lies_in_plan(const graph::Node& node) const {
  return node.op == TensorOp::kConstant && std::get<std::vector<uint64_t>>(graph_.attrs(node)[2]).size() != 1;
}

// The first output of a value is its home; else it lies in the arena.
uint32_t Planner::buffer_of(ValueId value) {
  if (const auto known = buffers_.find(value); known != buffers_.end()) return known->second;
  const graph::Node& node = body_.nodes[body_.values[value].node];
  uint32_t buffer = kNone;
  for (size_t i = 0; i < body_.outputs.size() && buffer == kNone; ++i) {
    if (body_.outputs[i].value == value && !lies_in_plan(node)) {
      buffer = add_buffer({.home = PlannedBuffer::Home::kOutput,
                           .index = static_cast<uint32_t>(i),
                           .bytes = bytes_of(graph_.type(body_, value))});
    }
  }
  if (buffer == kNone && lies_in_plan(node)) buffer = constant_of(node);
  if (buffer == kNone)
    buffer = add_buffer({.home = PlannedBuffer::Home::kArena, .bytes = bytes_of(graph_.type(body_, value))});
  buffers_[value] = buffer;
  return buffer;
}

uint32_t Planner::kernel_of(graph::PlannedKernel kernel) {
  std::vector<std::byte> form = dsl::encode_kernel(kernel.kernel);
  if (kernel.code) std::ranges::copy(graph::code_bytes(*kernel.code), std::back_inserter(form));
  const auto [known, is_new] = kernels_.try_emplace(std::move(form), static_cast<uint32_t>(plan_.kernels.size()));
  if (is_new) plan_.kernels.push_back(std::move(kernel));
  return known->second;
}

void Planner::add_launch(const WrittenKernel& written, std::string name, graph::Location loc,
                         const std::map<ValueId, uint32_t>& buffers, std::vector<NodeId> ops) {
  graph::PlannedLaunch launch;
  launch.ops = std::move(ops);
  launch.name = std::move(name);
  launch.place = graph_.location_text(loc);
  for (const KernelArgument& argument : written.arguments) {
    if (!argument.is_tensor) {
      launch.arguments.push_back({.kind = PlannedArgument::Kind::kScalar,
                                  .scalar = argument.scalar.value_or(Expr::constexpr_ref(argument.dim))});
      continue;
    }
    const auto other = buffers.find(argument.tensor);
    const uint32_t buffer = other != buffers.end() ? other->second : buffer_of(argument.tensor);
    launch.arguments.push_back({.kind = PlannedArgument::Kind::kBuffer, .buffer = buffer});
    launch.moved = launch.moved + plan_.buffers[buffer].bytes;
  }
  const auto bytes = [&](ValueId tensor) {
    const auto other = buffers.find(tensor);
    return plan_.buffers[other != buffers.end() ? other->second : buffer_of(tensor)].bytes;
  };
  graph::PlannedKernel kernel = written.kernel;
  if (!kernel.code) state_arrays(written, bytes, kernel.kernel);
  launch.kernel = kernel_of(std::move(kernel));
  for (const auto& [read, written_to] : written.in_place) {
    in_place_.insert({static_cast<uint32_t>(plan_.launches.size()), read, written_to});
  }
  plan_.launches.push_back(std::move(launch));
}

// Whether nothing that a group gives has an element, whatever the sizes.
bool Planner::is_empty(const Group& group) const {
  return std::all_of(group.roots.begin(), group.roots.end(),
                     [&](ValueId root) { return graph::element_count(graph_.type(body_, root).shape) == Expr(); });
}

// What went wrong, at the line of the group's first op: of a kernel that was traced here the lines are the planner's.
Error Planner::placed(Error failure, const Group& group) const {
  const NodeId first = group.anchors.empty() ? body_.values[group.roots[0]].node : group.anchors[0];
  const std::string place = graph_.location_text(body_.nodes[first].loc);
  if (place.empty() || failure.message.starts_with(place)) return failure;
  failure.message = place + ": " + graph::info(body_.nodes[first].op).name + ": " + failure.message;
  return failure;
}

// What the group reads in another order than the caller gives it.
Result<void> Planner::add_copies(uint32_t group) {
  for (const auto& [reader, number] : grouping_.read_from) {
    const ValueId copy = kFirstCopy + number;
    if (reader.first != group || buffers_.contains(copy)) continue;
    auto written = write_reordered({graph_, grouping_, group, request_.target}, copy);
    if (!written) return written.error();
    const graph::TensorType& type = graph_.type(body_, reader.second);
    buffers_[copy] = add_buffer({.home = PlannedBuffer::Home::kArena, .bytes = bytes_of(type)});
    plan_.log.push_back(std::to_string(plan_.launches.size()) + ": reorder gives " +
                        to_string(type, graph_.expr_names()) + axes_text(grouping_.copies[number].order));
    add_launch(*written, "reorder", {}, {});
  }
  return {};
}

Result<void> Planner::add_group(uint32_t number) {
  const Group& group = grouping_.groups[number];
  if (is_empty(group)) return {};
  if (!group.anchors.empty() && body_.nodes[group.anchors[0]].op == TensorOp::kLoop) return add_loop(number);
  auto written = write_group({graph_, grouping_, number, request_.target});
  if (!written) return placed(written.error(), group);
  if (auto added = add_copies(number); !added) return added;
  std::map<ValueId, uint32_t> temporaries;
  for (const graph::TensorType& type : written->temporaries) {
    temporaries[static_cast<ValueId>(body_.values.size() + temporaries.size())] =
        add_buffer({.home = PlannedBuffer::Home::kArena, .bytes = bytes_of(type)});
  }
  const NodeId first = group.anchors.empty() ? body_.values[group.roots[0]].node : group.anchors[0];
  for (const WrittenKernel& kernel : written->kernels) {
    const bool is_last = &kernel == &written->kernels.back();
    const auto& code = kernel.kernel.code;
    std::string line = std::to_string(plan_.launches.size()) + ": " + kernel.kernel.kernel.name +
                       (code ? ", of the graph's " + std::string(dsl::name_of(code->form)) + "," : "") +
                       (is_last ? " gives" : ", before the next");
    for (const ValueId root : group.roots) {
      if (!is_last) continue;
      line += " " + to_string(graph_.type(body_, root), graph_.expr_names());
      if (const auto order = grouping_.orders.find(root); order != grouping_.orders.end()) {
        line += axes_text(order->second);
      }
    }
    plan_.log.push_back(std::move(line));
    add_launch(kernel, kernel.kernel.kernel.name, body_.nodes[first].loc, temporaries, ops_of(number));
  }
  return {};
}

// An output that has its value from an input, a constant or another output: a kernel that copies.
Result<void> Planner::add_copy(ValueId from, uint32_t output) {
  Grouping copy;
  copy.group_of.assign(body_.nodes.size(), kNone);
  copy.in_memory.assign(body_.values.size(), true);
  Group group;
  group.domain = graph_.type(body_, from).shape;
  copy.groups.push_back(std::move(group));
  GroupContext context{graph_, copy, 0, request_.target};
  // The copy has a number of its own: the parameter it is stored through.
  const auto to = static_cast<ValueId>(body_.values.size() - 1) + 1 + output;
  const graph::TensorType& type = graph_.type(body_, from);
  auto written = write_copy(context, from, type, to, type.element);
  if (!written) return written.error();
  const uint32_t buffer = add_buffer({.home = PlannedBuffer::Home::kOutput, .index = output, .bytes = bytes_of(type)});
  plan_.log.push_back(std::to_string(plan_.launches.size()) + ": copy to output `" + body_.outputs[output].name + "`");
  add_launch(*written, "copy", {}, {{to, buffer}});
  return {};
}

// A result may lie where an input is that is donated to it: where nothing reads the input behind the launch that writes
// the result, and that launch only where it writes.
void Planner::find_in_place() {
  for (uint32_t i = 0; i < body_.inputs.size(); ++i) {
    const uint32_t output = body_.inputs[i].donated_to;
    if (output == kNone) continue;
    const ValueId read = body_.inputs[i].value, written = body_.outputs[output].value;
    uint32_t last_read = kNone, writer = kNone;
    for (uint32_t l = 0; l < plan_.launches.size(); ++l) {
      for (const PlannedArgument& argument : plan_.launches[l].arguments) {
        if (argument.kind != PlannedArgument::Kind::kBuffer) continue;
        const PlannedBuffer& buffer = plan_.buffers[argument.buffer];
        if (buffer.home == PlannedBuffer::Home::kInput && buffer.index == i) last_read = span_of(l).second;
        if (buffer.home == PlannedBuffer::Home::kOutput && buffer.index == output && writer == kNone) writer = l;
      }
    }
    if (writer == kNone) continue;
    const bool is_free = last_read == kNone || last_read < writer;
    const bool is_here = last_read == writer && in_place_.contains({writer, read, written});
    if (is_free || is_here) plan_.in_place[output] = i;
  }
}

// The launches that a launch may run among: those of the outermost loop around it.
std::pair<uint32_t, uint32_t> Planner::span_of(uint32_t launch) const {
  for (const graph::PlannedLoop& loop : plan_.loops) {
    if (loop.first <= launch && launch < loop.first + loop.count) return {loop.first, loop.first + loop.count - 1};
  }
  return {launch, launch};
}

// Offsets in the arena, by who writes first and reads last.
void Planner::lay_out() {
  std::vector<Lifetime> lifetimes;
  std::vector<uint32_t> in_arena, number(plan_.buffers.size(), kNone);
  for (uint32_t i = 0; i < plan_.launches.size(); ++i) {
    for (const PlannedArgument& argument : plan_.launches[i].arguments) {
      if (argument.kind != PlannedArgument::Kind::kBuffer) continue;
      const PlannedBuffer& buffer = plan_.buffers[argument.buffer];
      if (buffer.home != PlannedBuffer::Home::kArena) continue;
      if (number[argument.buffer] == kNone) {
        number[argument.buffer] = static_cast<uint32_t>(lifetimes.size());
        lifetimes.push_back({buffer.bytes, span_of(i).first, i});
        in_arena.push_back(argument.buffer);
      }
      lifetimes[number[argument.buffer]].last = span_of(i).second;
    }
  }
  const ArenaPlan arena = plan_arena(graph_.dims, lifetimes);
  for (size_t i = 0; i < in_arena.size(); ++i) plan_.buffers[in_arena[i]].offset = arena.offsets[i];
  plan_.arena_bytes = arena.bytes;
}

// What a group's kernels compute: its nodes, and those that are computed where it reads them.
std::vector<NodeId> Planner::ops_of(uint32_t group) const {
  std::set<NodeId> out;
  std::vector<ValueId> open = grouping_.groups[group].roots;
  for (const NodeId anchor : grouping_.groups[group].anchors) open.push_back(body_.nodes[anchor].first_result);
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (value == graph::kNoValue || source_of(graph_, grouping_, group, value).way == Way::kLoad) continue;
    const NodeId node = body_.values[value].node;
    if (!out.insert(node).second) continue;
    for (const ValueId operand : body_.operands_of(body_.nodes[node])) open.push_back(operand);
  }
  return {out.begin(), out.end()};
}

// The nodes of a group that are there beside the first.
std::vector<NodeId> Planner::guests(uint32_t group) const {
  std::vector<NodeId> out;
  for (NodeId n = 0; n < body_.nodes.size(); ++n) {
    if (grouping_.group_of[n] == group && !apart_.contains(n)) out.push_back(n);
  }
  if (!out.empty()) out.erase(out.begin());
  return out;
}

Result<void> Planner::add_groups() {
  for (failed_ = 0; failed_ < grouping_.groups.size(); ++failed_) {
    if (auto added = add_group(failed_); !added) return added.error();
  }
  for (uint32_t i = 0; i < body_.outputs.size(); ++i) {
    const ValueId value = body_.outputs[i].value;
    const uint32_t home = buffer_of(value);
    const PlannedBuffer& buffer = plan_.buffers[home];
    if (buffer.home == PlannedBuffer::Home::kOutput && buffer.index == i) continue;
    if (graph::element_count(plan_.outputs[i].type.shape) == Expr()) continue;
    if (auto added = add_copy(value, i); !added) return added.error();
  }
  return {};
}

// Where a group turns out to have no kernel, its ops go apart, and all begins anew: that is slower, and right.
Result<Plan> Planner::plan() {
  std::vector<std::string> refusals;
  if (!apart_.empty()) {
    refusals.push_back("not fused, " + std::to_string(apart_.size()) + " ops: a kernel of them could not be compiled");
  }
  for (;;) {
    plan_ = {};
    buffers_.clear();
    kernels_.clear();
    in_place_.clear();
    describe();
    GroupingOptions options{.target = request_.target, .fuse = request_.options.fuse, .apart = apart_};
    grouping_ = group_nodes(graph_, options);
    for (uint32_t group = 0; group < grouping_.groups.size(); ++group) {
      if (grouping_.groups[group].form != Group::Form::kDot) continue;
      for (const NodeId pad : masked_pads({graph_, grouping_, group, request_.target})) options.kept.insert(pad);
    }
    if (!options.kept.empty()) grouping_ = group_nodes(graph_, options);
    choose_orders(graph_, request_.target, grouping_);
    plan_.log = refusals;
    const auto added = add_groups();
    if (added) break;
    const std::vector<NodeId> others = failed_ < grouping_.groups.size() ? guests(failed_) : std::vector<NodeId>();
    if (others.empty()) return added.error();
    apart_.insert(others.begin(), others.end());
    refusals.push_back("not fused, " + std::to_string(others.size()) + " ops: " + added.error().message);
  }
  lay_out();
  find_in_place();
  return std::move(plan_);
}

namespace {

// What tiles multiply: floats of one type, but f64, and bytes.
bool has_product(const Graph& graph, const graph::Body& body, const graph::Node& node) {
  const auto operands = body.operands_of(node);
  const ElementType a = graph.type(body, operands[0]).element, b = graph.type(body, operands[1]).element;
  const ElementType to = graph::element_attr(graph.attrs(node), 4);
  if (a != b || a == ElementType::kF64) return false;
  if (dsl::is_float(a)) return true;
  return (a == ElementType::kI8 || a == ElementType::kU8) && to != ElementType::kI64 && to != ElementType::kU64;
}

// Composites that have kernels of their own in any case.
bool has_kernel(const Graph&, const graph::Body&, const graph::Node& node) {
  return node.op == TensorOp::kEmbeddingBag;
}

constexpr int kMostRounds = 8;

// Many products of matrices so small that blocks would be padding: a few terms for each element instead.
bool is_tiny(const Graph& graph, const graph::Body& body, const graph::Node& node) {
  constexpr int64_t kLeastBatch = 64, kMostTerms = 16, kMostElements = 1024;
  const graph::AttrList& attrs = graph.attrs(node);
  const auto &batch = graph::ints_attr(attrs, 0), &contract = graph::ints_attr(attrs, 2);
  const std::vector<Expr>&a = graph.type(body, body.operands_of(node)[0]).shape,
        &all = graph.type(body, node.first_result).shape;
  if (contract.size() != 1) return false;
  const auto terms = a[static_cast<size_t>(contract[0])].as_constant();
  int64_t count = 1, elements = 1;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto extent = all[i].as_constant();
    if (!extent) return false;
    (i < batch.size() ? count : elements) *= *extent;
  }
  return terms && *terms <= kMostTerms && count >= kLeastBatch && elements <= kMostElements;
}

bool is_too_rich(const Graph& graph, const graph::Body& body, const graph::Node& node) {
  if (node.op != TensorOp::kDot) return graph::can_spell_out(node.op);
  return !has_product(graph, body, node) || is_tiny(graph, body, node);
}

bool has_too_rich(const Graph& graph) {
  const graph::Body& body = graph.main();
  return std::any_of(body.nodes.begin(), body.nodes.end(),
                     [&](const graph::Node& node) { return is_too_rich(graph, body, node); });
}

}  // namespace

namespace {

// The ops that have kernels: primitives, and composites that `keep` wants.
Result<Graph> ops_with_kernels(const Graph& graph, const graph::KeepComposite& keep) {
  auto out = graph::decompose(graph, [&](const Graph& whole, const graph::Body& body, const graph::Node& node) {
    return has_kernel(whole, body, node) || (keep && keep(whole, body, node));
  });
  // What is spelled out may be made of what is: bodies of conditions, products of convolutions.
  for (int round = 0; out && round < kMostRounds && has_too_rich(*out); ++round) {
    out = graph::spell_out(*out, is_too_rich);
  }
  if (!out) return out.error();
  return graph::simplify(*out);
}

// As one op stays what has a kernel, and whose scores nobody else wants: they would be computed twice.
Result<Graph> ops_with_attention(const Graph& graph) {
  auto out = ops_with_kernels(graph, has_attention_kernel);
  if (!out) return out;
  return ops_with_kernels(*out, [](const Graph& whole, const graph::Body& body, const graph::Node& node) {
    return has_attention_kernel(whole, body, node) && !shares_scores(body, node);
  });
}

int64_t count_attentions(const Graph& graph) {
  int64_t out = 0;
  for (const graph::Body& body : graph.bodies) {
    out += std::count_if(body.nodes.begin(), body.nodes.end(),
                         [](const graph::Node& node) { return node.op == TensorOp::kAttention; });
  }
  return out;
}

// Also where it comes as products, scale and softmax.
Result<Graph> ops_with_found_attention(const Graph& graph) {
  auto given = ops_with_attention(graph);
  if (!given) return given;
  const auto found = graph::recognise(graph);
  if (!found || !found->found.contains(TensorOp::kAttention)) return given;
  auto out = ops_with_attention(found->graph);
  return out && count_attentions(*out) > count_attentions(*given) ? out : given;
}

// Attention goes apart as the primitives that it is made of.
bool is_apart(const Graph& graph, const graph::PlanOptions& options) {
  const std::vector<graph::Node>& nodes = graph.main().nodes;
  return std::any_of(options.apart.begin(), options.apart.end(),
                     [&](uint32_t node) { return node < nodes.size() && nodes[node].op == TensorOp::kAttention; });
}

}  // namespace

Result<Plan> plan_graph(const graph::PlanRequest& request) {
  if (auto sound = graph::verify(request.graph); !sound) return sound.error();
  if (request.options.fuse) {
    const auto simple = ops_with_found_attention(request.graph);
    if (!simple) return simple.error();
    if (!is_apart(*simple, request.options)) {
      auto plan = Planner(*simple, request).plan();
      if (plan || count_attentions(*simple) == 0) return plan;
    }
  }
  const auto simple = ops_with_kernels(request.graph, {});
  if (!simple) return simple.error();
  return Planner(*simple, request).plan();
}

}  // namespace kiln::planner
