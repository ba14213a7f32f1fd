// Evaluator: what is known before anything is computed: shapes, when values are dropped, how much memory it takes.
#include <algorithm>
#include <limits>

#include "evaluate/array_loops.h"

namespace kiln::graph::evaluator {
namespace {

constexpr int64_t kTooMany = int64_t{1} << 62;

int64_t saturating_add(int64_t a, int64_t b) { return std::min(a + b, kTooMany); }  // of numbers up to kTooMany
int64_t saturating_multiply(int64_t a, int64_t b) {
  int64_t out;
  return __builtin_mul_overflow(a, b, &out) ? kTooMany : std::min(out, kTooMany);
}

// Whether values of a body share the memory of the node's first operand, or have none.
bool is_view(TensorOp op) {
  switch (op) {
    case TensorOp::kPermute:
    case TensorOp::kBroadcast:
    case TensorOp::kSlice:
    case TensorOp::kReverse:
    case TensorOp::kStopGradient:
      return true;
    default:
      return false;
  }
}
// One element stands for all.
bool is_splat(TensorOp op) { return op == TensorOp::kFull || op == TensorOp::kExtent; }
// Ops that read their operands where they lie; the others unpack elements first.
bool is_direct(const Node& node) {
  const Family family = info(node.op).family;
  return is_view(node.op) || is_splat(node.op) || family == Family::kControl || family == Family::kView ||
         family == Family::kCat ||
         (family == Family::kElementwise && !info(node.op).has(kMath) && node.op != TensorOp::kCast);
}

class Planner {
 public:
  explicit Planner(Machine& machine) : machine_(machine), graph_(machine.graph) {
    machine.bodies.resize(graph_.bodies.size());
    peaks_.assign(graph_.bodies.size(), kUnplanned);
  }

  Result<void> find_shapes();
  // Most bytes of values that are there at once while the body runs, without its inputs.
  Result<int64_t> peak(BodyId id, int depth);
  std::string largest_text() const { return largest_text_; }

 private:
  static constexpr int64_t kUnplanned = -1;

  void find_releases(BodyId id);
  bool is_lanewise(const Body& body) const;
  int64_t bytes(const Body& body, ValueId value) const;
  int64_t scratch(const Body& body, const Node& node) const;
  Result<int64_t> inner(const Node& node, int depth);
  int64_t copied(const Body& body, std::span<const ValueId> owner) const;
  Result<void> check_shape(const Body& body, const Node* node, ValueId value) const;

  Machine& machine_;
  const Graph& graph_;
  std::vector<int64_t> peaks_;      // by body
  std::vector<std::string> wrong_;  // by type: why it has no shape
  int64_t largest_ = 0;
  std::string largest_text_;  // the node that most bytes are there for
};

Result<void> Planner::find_shapes() {
  for (const TensorType& type : graph_.types) {
    Extents shape;
    std::string wrong;
    for (const Expr& expr : type.shape) {
      auto extent = machine_.number(expr);
      if (!extent) {
        wrong = extent.error().message;
      } else if (*extent < 0) {
        wrong = "the extent " + dsl::to_string(expr, graph_.expr_names()) + " is " + std::to_string(*extent);
      }
      shape.push_back(extent ? *extent : 0);
    }
    machine_.shapes.push_back(std::move(shape));
    wrong_.push_back(std::move(wrong));
  }
  return {};
}

Result<void> Planner::check_shape(const Body& body, const Node* node, ValueId value) const {
  const std::string& wrong = wrong_[body.values[value].type];
  if (wrong.empty()) return {};
  const std::string place = node == nullptr ? "" : graph_.location_text(node->loc);
  return invalid_argument((place.empty() ? "" : place + ": ") + (node == nullptr ? "input" : info(node->op).name) +
                          " of type " + to_string(graph_.type(body, value), graph_.expr_names()) + ": " + wrong);
}

void Planner::find_releases(BodyId id) {
  const Body& body = graph_.bodies[id];
  BodyPlan& plan = machine_.bodies[id];
  // The node behind which nothing needs a value; outputs are kept.
  std::vector<uint32_t> last(body.values.size(), kNone);
  std::vector<bool> kept(body.values.size());
  for (const Output& output : body.outputs) kept[output.value] = true;
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    const Node& node = body.nodes[n];
    for (uint32_t i = 0; i < node.result_count; ++i) last[node.first_result + i] = n;
    for (const ValueId operand : body.operands_of(node)) {
      if (operand != kNoValue) last[operand] = n;
    }
  }
  std::vector<uint32_t> count(body.nodes.size() + 1);
  for (ValueId value = 0; value < last.size(); ++value) {
    if (last[value] != kNone && !kept[value]) ++count[last[value] + 1];
  }
  for (size_t n = 1; n < count.size(); ++n) count[n] += count[n - 1];
  plan.released_begin = count;
  plan.released.resize(count.back());
  for (ValueId value = 0; value < last.size(); ++value) {
    if (last[value] != kNone && !kept[value]) plan.released[count[last[value]]++] = value;
  }
  plan.lanewise = is_lanewise(body);
}

// Scalars in, one element at a time, scalars out: many may be computed side by side.
bool Planner::is_lanewise(const Body& body) const {
  return std::all_of(body.nodes.begin(), body.nodes.end(), [&](const Node& node) {
    const Family family = info(node.op).family;
    const bool pure = family == Family::kElementwise || (family == Family::kMake && node.op != TensorOp::kPhilox);
    return pure && graph_.type(body, node.first_result).shape.empty();
  });
}

int64_t Planner::bytes(const Body& body, ValueId value) const {
  const uint32_t type = body.values[value].type;
  int64_t out = dsl::info(machine_.computed(graph_.types[type].element)).bytes;
  const Extents& shape = machine_.shapes[type];
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const int64_t extent : shape) out = saturating_multiply(out, extent);
  return out;
}

// What an op unpacks its operands and results to while it runs.
int64_t Planner::scratch(const Body& body, const Node& node) const {
  if (is_direct(node)) return 0;
  int64_t out = 0;
  auto add = [&](ValueId value) {
    const int64_t element = dsl::info(machine_.computed(graph_.type(body, value).element)).bytes;
    out = saturating_add(out, saturating_multiply(bytes(body, value) / element, 16));
  };
  for (const ValueId operand : body.operands_of(node)) {
    if (operand != kNoValue) add(operand);
  }
  for (uint32_t i = 0; i < node.result_count; ++i) add(node.first_result + i);
  return out;
}

// The most that a body of the node needs.
Result<int64_t> Planner::inner(const Node& node, int depth) {
  int64_t out = 0;
  const std::vector<AttrInfo>& attrs = info(node.op).attrs;
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (attrs[i].kind != AttrKind::kBody) continue;
    auto here = peak(static_cast<BodyId>(int_attr(graph_.attrs(node), i)), depth + 1);
    if (!here) return here;
    out = std::max(out, *here);
  }
  return out;
}

// Inputs of the main body in another form, and its outputs that are a part of something else.
int64_t Planner::copied(const Body& body, std::span<const ValueId> owner) const {
  int64_t out = 0;
  if (&body != &graph_.main()) return out;
  for (const Input& input : body.inputs) {
    const ElementType element = graph_.type(body, input.value).element;
    if (machine_.computed(element) != element || element == ElementType::kI1) {
      out = saturating_add(out, bytes(body, input.value));
    }
  }
  for (const Output& output : body.outputs) {
    const NodeId node = body.values[output.value].node;
    const bool is_own = node != kNone && owner[output.value] == output.value && !is_splat(body.nodes[node].op);
    if (!is_own) out = saturating_add(out, bytes(body, output.value));
  }
  return out;
}

Result<int64_t> Planner::peak(BodyId id, int depth) {
  if (depth > kMaxDepth) {
    return invalid_argument("body `" + graph_.bodies[id].name + "`: bodies inside bodies, deeper than " +
                            std::to_string(kMaxDepth));
  }
  if (peaks_[id] != kUnplanned) return peaks_[id];
  find_releases(id);
  const Body& body = graph_.bodies[id];
  const BodyPlan& plan = machine_.bodies[id];
  for (const Input& input : body.inputs) {
    if (auto sound = check_shape(body, nullptr, input.value); !sound) return sound.error();
  }
  // Views keep what they look at: uses are counted of the value that has the memory.
  std::vector<ValueId> owner(body.values.size());
  for (ValueId value = 0; value < owner.size(); ++value) owner[value] = value;
  std::vector<uint32_t> users(body.values.size());
  int64_t live = 0, most = 0;
  for (size_t n = 0; n < body.nodes.size(); ++n) {
    const Node& node = body.nodes[n];
    for (uint32_t i = 0; i < node.result_count; ++i) {
      const ValueId result = node.first_result + i;
      if (auto sound = check_shape(body, &node, result); !sound) return sound.error();
      if (is_view(node.op)) owner[result] = owner[body.operands_of(node)[0]];
      ++users[owner[result]];
      if (owner[result] == result && !is_splat(node.op)) live = saturating_add(live, bytes(body, result));
    }
    auto bodies = inner(node, depth);
    if (!bodies) return bodies;
    const int64_t here = saturating_add(live, saturating_add(*bodies, scratch(body, node)));
    if (here > most) most = here;
    if (here > largest_) {
      largest_ = here;
      const std::string place = graph_.location_text(node.loc);
      largest_text_ = (place.empty() ? "" : place + ": ") + info(node.op).name + " : " +
                      to_string(graph_.type(body, node.first_result), graph_.expr_names());
    }
    for (uint32_t i = plan.released_begin[n]; i < plan.released_begin[n + 1]; ++i) {
      const ValueId value = owner[plan.released[i]];
      const NodeId maker = body.values[value].node;
      if (maker == kNone || --users[value] > 0 || is_splat(body.nodes[maker].op)) continue;
      live -= std::min(live, bytes(body, value));
    }
  }
  return peaks_[id] = saturating_add(most, copied(body, owner));
}

}  // namespace

Result<void> plan(Machine& machine) {
  Planner planner(machine);
  if (auto done = planner.find_shapes(); !done) return done;
  auto peak = planner.peak(0, 0);
  if (!peak) return peak.error();
  if (*peak > machine.options.memory_limit) {
    return error(ErrorCode::kResourceExhausted, "graph `" + machine.graph.main().name + "` needs " +
                                                    (*peak >= kTooMany ? "more than 2^62" : std::to_string(*peak)) +
                                                    " bytes to be evaluated, the limit is " +
                                                    std::to_string(machine.options.memory_limit) + "; most at " +
                                                    planner.largest_text());
  }
  return {};
}

}  // namespace kiln::graph::evaluator
