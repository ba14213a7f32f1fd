// Which values of the graph go to memory, once it is known what is computed in which group.
//
//   forward    what takes many steps, or is cut up and read by parts
//   backward   what several groups read, what a product reads over and over, what an op with a kernel of its own reads
//
// What is left is computed where it is read.
#include "groups.h"
#include "windows.h"

namespace kiln::planner {

using graph::Body;
using graph::Family;
using graph::Graph;
using graph::kNone;
using graph::Node;

namespace {

constexpr int64_t kManySteps = 400;  // of one kernel
constexpr int64_t kWorthKeeping = 8;

// Of the ops that have kernels of their own: those that compute what they read where they read it.
bool reads_once(TensorOp op) {
  const Family family = graph::info(op).family;
  return family == Family::kScan || family == Family::kOrder || op == TensorOp::kScatter || op == TensorOp::kIndexPut ||
         op == TensorOp::kEmbeddingBag;
}

bool reads_often(TensorOp op) { return op == TensorOp::kDot; }

class MemoryChoice {
 public:
  MemoryChoice(const Graph& graph, const GroupingOptions& options, Grouping& grouping)
      : graph_(graph),
        body_(graph.main()),
        options_(options),
        on_gpu_(options.target.starts_with("cuda") || options.target.starts_with("amd")),
        out_(grouping),
        cost_(body_.nodes.size()),
        readers_(body_.nodes.size()),
        is_apart_(body_.nodes.size()) {}

  void choose() {
    for (const graph::Output& output : body_.outputs) {
      if (node_of(output.value) != kNone) out_.in_memory[output.value] = true;
    }
    keep_what_costs_much();
    if (on_gpu_) keep_what_moves_less(graph_, cost_, kWorthKeeping, out_);
    keep_what_is_read_often();
  }

 private:
  NodeId node_of(ValueId value) const { return value == graph::kNoValue ? kNone : body_.values[value].node; }
  const graph::TensorType& type(ValueId value) const { return graph_.type(body_, value); }
  int bits_of(ValueId value) const { return dsl::info(type(value).element).bits; }
  // A view that its group stores in its own order, so that who reads it finds elements side by side.
  bool is_own_order(NodeId node) const {
    return out_.group_of[node] != kNone && out_.groups[out_.group_of[node]].form == Group::Form::kAttention;
  }

  void keep_what_costs_much();
  void keep_what_is_read_often();
  bool is_kept_for_readers(NodeId number, uint32_t taps) const;
  void keep_operands_of(NodeId number);
  void note_reader(NodeId number, ValueId operand);
  void keep_source(ValueId value);
  void keep_prologue(ValueId value);
  bool is_worth_narrowing(const Node& cast) const;
  void keep_operands_of_attention(const Node& node);

  const Graph& graph_;
  const Body& body_;
  const GroupingOptions& options_;
  const bool on_gpu_;
  Grouping& out_;
  std::vector<int64_t> cost_;  // by node: steps of an element, with what is computed for it
  // By node that is in no group: who reads it, through others that are in none: groups, or values in memory, numbered
  // behind the groups.
  std::vector<std::set<uint32_t>> readers_;
  std::map<Expr, uint32_t> readers_in_memory_;  // by their number of elements: those of as many will be one group
  std::vector<bool> is_apart_;                  // read by other loops than its own, through what only moves it
};

void MemoryChoice::keep_what_costs_much() {
  const std::vector<uint32_t> slices = slices_of_values(graph_);
  for (NodeId n = 0; n < body_.nodes.size(); ++n) {
    const Node& node = body_.nodes[n];
    cost_[n] = cost_of(node.op);
    for (const ValueId operand : body_.operands_of(node)) {
      const NodeId from = node_of(operand);
      if (from == kNone || out_.group_of[from] != kNone) continue;
      cost_[n] = std::min<int64_t>(cost_[n] + cost_[from], int64_t{1} << 40);
    }
    if (out_.group_of[n] != kNone || !is_inlineable(node.op)) continue;
    const bool is_wide = is_cat_of_many(graph_, node) && (!on_gpu_ || node.operand_count > 2 * kMostParts);
    const bool is_own = !may_fuse(options_, n) && !is_view(node.op) && graph::info(node.op).family != Family::kMake;
    const bool is_cut_up = slices[node.first_result] >= kManySlices && cost_[n] >= kWorthKeeping;
    if (cost_[n] > kManySteps || is_own || is_wide || is_cut_up || options_.kept.contains(n)) {
      out_.in_memory[node.first_result] = true;
      cost_[n] = 0;
    }
  }
}

void MemoryChoice::keep_what_is_read_often() {
  const std::vector<uint32_t> taps = taps_of_nodes(graph_, out_);
  for (NodeId n = static_cast<NodeId>(body_.nodes.size()); n-- > 0;) {
    if (is_kept_for_readers(n, taps[n])) out_.in_memory[body_.nodes[n].first_result] = true;
    keep_operands_of(n);
    for (const ValueId operand : body_.operands_of(body_.nodes[n])) {
      if (node_of(operand) != kNone) note_reader(n, operand);
    }
  }
}

bool MemoryChoice::is_kept_for_readers(NodeId number, uint32_t taps) const {
  const Node& node = body_.nodes[number];
  if (out_.group_of[number] != kNone || !may_be_kept(node)) return false;
  if (!on_gpu_ && readers_[number].size() > 1 && cost_[number] >= kWorthKeeping) return true;
  // Loops of a reduction do not know where an image ends, and may come by more than once; nor do blocks of a product,
  // and an element of a cat is computed for all of its parts.
  return graph::info(node.op).family != Family::kCat && is_apart_[number] && taps >= 2 * kManySlices;
}

void MemoryChoice::keep_operands_of(NodeId number) {
  const Node& node = body_.nodes[number];
  const uint32_t group = out_.group_of[number];
  const auto operands = body_.operands_of(node);
  if (group != kNone && out_.groups[group].form == Group::Form::kAlone && !reads_once(node.op)) {
    for (const ValueId operand : operands) {
      if (node_of(operand) != kNone) out_.in_memory[operand] = true;
    }
  }
  if (group != kNone && reads_often(node.op)) {
    for (const ValueId operand : operands) keep_prologue(operand);
  }
  if (node.op == TensorOp::kAttention) keep_operands_of_attention(node);
}

void MemoryChoice::note_reader(NodeId number, ValueId operand) {
  const Node& node = body_.nodes[number];
  const uint32_t group = out_.group_of[number];
  const ValueId value = node.first_result;
  const NodeId from = body_.values[operand].node;
  const uint32_t source = out_.group_of[from];
  const bool is_cat = graph::info(node.op).family == Family::kCat;
  const bool moves = !out_.in_memory[value] && (costs_nothing(graph_, node) || node.op == TensorOp::kPad);
  is_apart_[from] = is_apart_[from] || group != kNone || is_cat || (is_apart_[number] && moves);
  if (group != kNone) {
    readers_[from].insert(group);
    if (source != kNone && source != group) keep_source(operand);
  } else if (out_.in_memory[value]) {
    const auto id = static_cast<uint32_t>(out_.groups.size() + readers_in_memory_.size());
    readers_[from].insert(readers_in_memory_.try_emplace(graph::element_count(type(value).shape), id).first->second);
    if (source != kNone) keep_source(operand);
  } else {
    const auto& through = readers_[number];
    readers_[from].insert(through.begin(), through.end());
    const bool is_read_outside =
        std::any_of(through.begin(), through.end(), [&](uint32_t reader) { return reader != source; });
    if (source != kNone && is_read_outside) keep_source(operand);
  }
}

// What a view is of. Views of views have one source.
void MemoryChoice::keep_source(ValueId value) {
  for (;;) {
    const NodeId number = node_of(value);
    if (number == kNone) return;
    const Node& node = body_.nodes[number];
    if (!costs_nothing(graph_, node) || is_own_order(number)) break;
    value = body_.operands_of(node)[0];
  }
  out_.in_memory[value] = true;
}

// Whether a cast gives fewer bytes of what is not in memory yet: as the product wants them.
bool MemoryChoice::is_worth_narrowing(const Node& cast) const {
  const ValueId from = body_.operands_of(cast)[0];
  return node_of(from) != kNone && !out_.in_memory[from] && bits_of(cast.first_result) < bits_of(from);
}

// A product reads an operand many times over: of what is computed before it, only views and casts are read through, and
// cats of few parts.
void MemoryChoice::keep_prologue(ValueId value) {
  for (;;) {
    const NodeId number = node_of(value);
    if (number == kNone || out_.in_memory[value]) return;
    const Node& node = body_.nodes[number];
    if (is_own_order(number)) break;
    const bool goes_on = is_view(node.op) || (node.op == TensorOp::kCast && !is_worth_narrowing(node));
    if (!goes_on && graph::info(node.op).family == Family::kMake) return;
    if (!goes_on && !(is_inlineable(node.op) && graph::info(node.op).family != Family::kElementwise)) break;
    if (graph::info(node.op).family == Family::kCat && node.operand_count > kMostParts) break;
    if (options_.kept.contains(number)) break;
    value = body_.operands_of(node)[0];
  }
  out_.in_memory[value] = true;
}

// Blocks of queries read keys and values again. A mask is computed for each score.
void MemoryChoice::keep_operands_of_attention(const Node& node) {
  const auto operands = body_.operands_of(node);
  for (size_t i = 0; i < 3; ++i) keep_prologue(operands[i]);
  if (operands.size() < 4 || operands[3] == graph::kNoValue) return;
  const NodeId mask = node_of(operands[3]);
  const Expr scores = graph::element_count(type(operands[0]).shape) * type(operands[1]).shape[2];
  const Expr computed = graph::element_count(type(operands[3]).shape) * type(operands[0]).shape[3];
  if (mask != kNone && cost_[mask] >= kWorthKeeping && scores != computed) out_.in_memory[operands[3]] = true;
}

}  // namespace

int64_t cost_of(TensorOp op) {
  const graph::OpInfo& info = graph::info(op);
  if (info.has(graph::kMath) || op == TensorOp::kPhilox) return 8;
  if (op == TensorOp::kDiv || op == TensorOp::kRem) return 4;
  return is_view(op) ? 0 : 1;
}

bool costs_nothing(const Graph& graph, const Node& node) {
  if (node.op != TensorOp::kCast) return is_view(node.op);
  const Body& body = graph.main();
  const auto bits = [&](ValueId value) { return dsl::info(graph.type(body, value).element).bits; };
  return bits(node.first_result) > bits(body.operands_of(node)[0]);
}

void choose_in_memory(const Graph& graph, const GroupingOptions& options, Grouping& grouping) {
  MemoryChoice(graph, options, grouping).choose();
}

}  // namespace kiln::planner
