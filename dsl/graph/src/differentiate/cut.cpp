// The joint graph of vjp() cut in two. What depends on a g_ input is the backward part. Of all else each value is
// either kept by the forward part or computed again from what is: a least cut through the values, weighed by bytes
// (Chen and others 2016; the min-cut of PyTorch's AOTAutograd).
#include <algorithm>
#include <cmath>
#include <set>

#include "differentiate/max_flow.h"
#include "ir/prune.h"
#include "kiln/graph/builder.h"
#include "kiln/graph/differentiate.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// What may be computed again: little at first; more where the budget asks for it; last all that is allowed at all.
enum class Effort : uint8_t { kElementwise, kReductions, kAll };

bool never_again(const OpInfo& op) {
  if (op.has(kRandom)) return true;
  switch (op.family) {
    case Family::kContract:
    case Family::kConv:
    case Family::kControl:
    case Family::kKernel:
    case Family::kOrder:
      return true;
    default:
      return op.op == kScanCustom || op.op == kReduceCustom;
  }
}

bool computed_again(const OpInfo& op, Effort effort) {
  if (never_again(op)) return false;
  switch (op.family) {
    case Family::kMake:
    case Family::kElementwise:
    case Family::kView:
      return true;
    case Family::kReduce:
    case Family::kNorm:
    case Family::kCat:
      return effort >= Effort::kReductions;
    default:
      return effort == Effort::kAll;
  }
}

// The geometric middle of the range, at most 1024, divisible as declared.
int64_t usual_size(const DimInfo& dim) {
  const double high = std::min(static_cast<double>(dim.high), 1e12);
  const auto middle = static_cast<int64_t>(std::sqrt(static_cast<double>(std::max<int64_t>(dim.low, 1)) * high));
  int64_t size = std::clamp(std::min<int64_t>(middle, 1024), dim.low, dim.high);
  size = size / dim.multiple * dim.multiple;
  return size < dim.low ? size + dim.multiple : size;
}

class Cutter {
 public:
  Cutter(const Graph& joint, size_t outputs, size_t inputs, const CutOptions& options)
      : joint_(joint), main_(joint.main()), outputs_(outputs), inputs_(inputs), options_(options) {}

  Result<Cut> run() {
    if (auto sized = size_values(); !sized) return sized.error();
    classify();
    if (options_.memory_budget < 0) {
      solve(Effort::kElementwise, 0);
      return build();
    }
    for (const Effort effort : {Effort::kElementwise, Effort::kReductions, Effort::kAll}) {
      for (const int64_t dearer : {1, 16, 256}) {
        solve(effort, dearer);
        if (kept_bytes() <= options_.memory_budget) return build();
      }
    }
    return invalid_argument("cut_vjp: a budget of " + std::to_string(options_.memory_budget) + " bytes; " +
                            std::to_string(kept_bytes()) + " must be kept: " + kept_text());
  }

 private:
  Result<void> size_values();
  void classify();
  void solve(Effort effort, int64_t dearer);
  int64_t weight(ValueId value, int64_t dearer) const;
  int64_t work(const Node& node) const;
  int64_t kept_bytes() const;
  std::string kept_text() const;
  Result<Cut> build();
  Result<Graph> forward(const std::vector<std::string>& names);
  Result<Graph> backward(const std::vector<std::string>& names, Cut& cut);
  std::vector<std::string> kept_names() const;
  bool is_input(ValueId value) const { return main_.values[value].node == kNone; }
  std::string place(ValueId value) const {
    const NodeId node = main_.values[value].node;
    if (node != kNone) return joint_.location_text(main_.nodes[node].loc);
    for (const Input& input : main_.inputs) {
      if (input.value == value) return joint_.location_text(input.loc);
    }
    return {};
  }

  const Graph& joint_;
  const Body& main_;
  size_t outputs_, inputs_;  // of the graph, in front; gradients and weights follow
  const CutOptions& options_;
  std::vector<int64_t> bytes_;  // by value
  std::vector<bool> back_;      // by value: depends on a g_ input
  std::vector<bool> needed_;    // by value: the backward part reads it
  std::vector<bool> front_;     // by value: the outputs need it
  std::vector<bool> held_;      // by value: an input or output, there whether kept or not
  std::vector<ValueId> kept_;
};

Result<void> Cutter::size_values() {
  dsl::Bindings sizes;
  for (const DimInfo& dim : joint_.dims) {
    const auto given = options_.sizes.find(dim.name);
    sizes.constexprs.push_back(given == options_.sizes.end() ? usual_size(dim) : given->second);
  }
  for (const auto& [name, size] : options_.sizes) {
    if (!joint_.find_dim(name)) return invalid_argument("cut_vjp: there is no dim " + name);
    if (size < 0) return invalid_argument("cut_vjp: a size of " + std::to_string(size) + " for " + name);
  }
  std::vector<int64_t> by_type;
  for (const TensorType& type : joint_.types) {
    double bytes = std::max(1.0, static_cast<double>(dsl::info(type.element).bits) / 8);
    for (const Expr& extent : type.shape) {
      auto known = extent.evaluate(sizes);
      if (!known) return known.error();
      bytes *= static_cast<double>(*known);
    }
    by_type.push_back(static_cast<int64_t>(std::min(bytes, 0x1p56)));
  }
  for (const Value& value : main_.values) bytes_.push_back(by_type[value.type]);
  return {};
}

void Cutter::classify() {
  back_.assign(main_.values.size(), false);
  needed_.assign(main_.values.size(), false);
  held_.assign(main_.values.size(), false);
  for (size_t i = 0; i < main_.inputs.size(); ++i) {
    back_[main_.inputs[i].value] = i >= inputs_;
    held_[main_.inputs[i].value] = i < inputs_;
  }
  for (const Node& node : main_.nodes) {
    bool back = false;
    for (const ValueId operand : main_.operands_of(node)) back = back || (operand != kNoValue && back_[operand]);
    for (uint32_t i = 0; i < node.result_count; ++i) back_[node.first_result + i] = back;
    if (!back) continue;
    for (const ValueId operand : main_.operands_of(node)) {
      if (operand != kNoValue && !back_[operand]) needed_[operand] = true;
    }
  }
  for (size_t i = 0; i < main_.outputs.size(); ++i) {
    const ValueId value = main_.outputs[i].value;
    if (i < outputs_) held_[value] = true;
    if (i >= outputs_ && !back_[value]) needed_[value] = true;
  }
  Body forward = main_;
  forward.outputs.resize(outputs_);
  front_ = live_values(forward);
}

// Weights are in sixteenths of a byte that is moved.
constexpr int64_t kUnit = 16;
constexpr int64_t kMostBytes = int64_t{1} << 36;  // that count: sums of weights stay far below an overflow

// Of keeping a value. Traffic (0): it is written and read, what is there anyway only read. Else memory, so many times
// as dear as traffic.
int64_t Cutter::weight(ValueId value, int64_t dearer) const {
  // A little more than nothing: of two cuts of equal bytes that of fewer values.
  const int64_t bytes = std::min(bytes_[value], kMostBytes);
  if (dearer == 0) return bytes * (held_[value] ? 1 : 2) * kUnit + 1;
  return (held_[value] ? bytes : bytes * (2 + dearer)) * kUnit + 1;
}

// Of computing a node again: a sum costs as much as an eighth of a byte moved for each element, a function a byte.
// Nothing where the forward part does not compute it.
int64_t Cutter::work(const Node& node) const {
  const OpInfo& op = info(node.op);
  if (op.family == Family::kView || op.family == Family::kMake || !front_[node.first_result]) return 0;
  int64_t most = bytes_[node.first_result];
  for (const ValueId operand : main_.operands_of(node)) {
    if (operand != kNoValue) most = std::max(most, bytes_[operand]);
  }
  const int64_t elements = std::min(most, kMostBytes) / 4;
  return elements * (op.has(kMath) || op.has(kComposite) ? kUnit : kUnit / 8);
}

void Cutter::solve(Effort effort, int64_t dearer) {
  const auto count = static_cast<uint32_t>(main_.values.size());
  const uint32_t source = 2 * count, sink = source + 1;
  MaxFlow flow(size_t{2} * count + 2);
  const auto in = [](ValueId value) { return 2 * value; };
  const auto out = [](ValueId value) { return 2 * value + 1; };
  for (ValueId value = 0; value < count; ++value) {
    if (back_[value]) continue;
    flow.add_edge(in(value), out(value), weight(value, dearer));
    if (needed_[value]) flow.add_edge(out(value), sink, MaxFlow::kInfinite);
    if (is_input(value)) flow.add_edge(source, in(value), MaxFlow::kInfinite);
  }
  for (const Node& node : main_.nodes) {
    if (back_[node.first_result]) continue;
    const bool again = computed_again(info(node.op), effort);
    for (uint32_t i = 0; i < node.result_count; ++i) {
      const uint32_t result = in(node.first_result + i);
      if (const int64_t cost = again ? work(node) : MaxFlow::kInfinite; cost > 0) flow.add_edge(source, result, cost);
      for (const ValueId operand : main_.operands_of(node)) {
        if (operand != kNoValue) flow.add_edge(out(operand), result, MaxFlow::kInfinite);
      }
    }
  }
  flow.run(source, sink);
  const std::vector<bool> side = flow.source_side(source);
  kept_.clear();
  for (ValueId value = 0; value < count; ++value) {
    if (!back_[value] && side[in(value)] && !side[out(value)]) kept_.push_back(value);
  }
}

int64_t Cutter::kept_bytes() const {
  int64_t sum = 0;
  for (const ValueId value : kept_) sum += held_[value] ? 0 : bytes_[value];
  return sum;
}

std::string Cutter::kept_text() const {
  std::string out;
  const std::vector<std::string> names = kept_names();
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (held_[kept_[i]]) continue;
    const NodeId node = main_.values[kept_[i]].node;
    out += (out.empty() ? "" : ", ") + info(main_.nodes[node].op).name;
    if (const std::string at = place(kept_[i]); !at.empty()) out += " at " + at;
  }
  return out;
}

std::vector<std::string> Cutter::kept_names() const {
  std::set<std::string> taken;
  for (size_t i = 0; i < outputs_; ++i) taken.insert(main_.outputs[i].name);
  for (size_t i = inputs_; i < main_.inputs.size(); ++i) taken.insert(main_.inputs[i].name);
  std::vector<std::string> out;
  for (const ValueId value : kept_) {
    std::string name = "kept" + std::to_string(out.size());
    if (const auto named = main_.names.find(value); named != main_.names.end()) name = named->second;
    for (const Input& input : main_.inputs) {
      if (input.value == value) name = input.name;
    }
    std::string unique = name;
    for (int i = 2; !taken.insert(unique).second; ++i) unique = name + "_" + std::to_string(i);
    out.push_back(std::move(unique));
  }
  return out;
}

Result<Graph> Cutter::forward(const std::vector<std::string>& names) {
  Graph graph = joint_;
  Body& main = graph.bodies[0];
  main.outputs.resize(outputs_);
  for (size_t i = 0; i < kept_.size(); ++i) main.outputs.push_back({names[i], kept_[i]});
  // The weights are no inputs of it; nothing of the forward part uses them.
  std::vector<bool> keep(main.inputs.size(), true);
  std::fill(keep.begin() + static_cast<ptrdiff_t>(inputs_), keep.end(), false);
  prune_body(main, keep);
  return prune(std::move(graph));
}

Result<Graph> Cutter::backward(const std::vector<std::string>& names, Cut& cut) {
  // What is computed again: from what is needed back to what is kept.
  std::vector<bool> again = needed_, kept(main_.values.size(), false), forward(main_.values.size(), false);
  for (const ValueId value : kept_) kept[value] = true;
  for (size_t i = 0; i < outputs_; ++i) forward[main_.outputs[i].value] = true;
  for (const ValueId value : kept_) forward[value] = true;
  const auto any = [](const Node& node, const std::vector<bool>& flags) {
    for (uint32_t k = 0; k < node.result_count; ++k) {
      if (flags[node.first_result + k]) return true;
    }
    return false;
  };
  for (size_t i = main_.nodes.size(); i-- > 0;) {
    const Node& node = main_.nodes[i];
    if (any(node, forward)) {
      for (const ValueId operand : main_.operands_of(node)) {
        if (operand != kNoValue) forward[operand] = true;
      }
    }
    bool wanted = false;
    for (uint32_t k = 0; k < node.result_count; ++k) {
      const ValueId result = node.first_result + k;
      wanted = wanted || (again[result] && !kept[result]);
    }
    if (!wanted) continue;
    for (const ValueId operand : main_.operands_of(node)) {
      if (operand != kNoValue && !back_[operand]) again[operand] = true;
    }
  }
  GraphBuilder builder = GraphBuilder::rewrite(joint_);
  std::vector<ValueId> here(main_.values.size(), kNoValue), operands;
  for (size_t i = 0; i < kept_.size(); ++i) {
    auto value = builder.add_input(names[i], joint_.type(main_, kept_[i]));
    if (!value) return value.error();
    here[kept_[i]] = *value;
  }
  for (size_t i = inputs_; i < main_.inputs.size(); ++i) {
    const Input& input = main_.inputs[i];
    auto value = builder.add_input(input.name, joint_.type(main_, input.value), input.loc);
    if (!value) return value.error();
    here[input.value] = *value;
  }
  for (const Node& node : main_.nodes) {
    bool missing = back_[node.first_result];
    for (uint32_t k = 0; k < node.result_count; ++k) {
      missing = missing || (again[node.first_result + k] && !kept[node.first_result + k]);
    }
    if (!missing) continue;
    const Family family = info(node.op).family;
    if (!back_[node.first_result] && any(node, forward) && family != Family::kView && family != Family::kMake) {
      const std::string where = joint_.location_text(node.loc);
      cut.recomputed.push_back(info(node.op).name + (where.empty() ? "" : " at " + where));
    }
    operands.clear();
    for (const ValueId operand : main_.operands_of(node)) {
      operands.push_back(operand == kNoValue ? kNoValue : here[operand]);
    }
    auto results = builder.add(node.op, operands, joint_.attrs(node), node.loc);
    if (!results) return results.error();
    for (uint32_t k = 0; k < node.result_count; ++k) {
      if (!kept[node.first_result + k]) here[node.first_result + k] = results->first + k;
    }
  }
  for (size_t i = outputs_; i < main_.outputs.size(); ++i) {
    if (auto added = builder.add_output(main_.outputs[i].name, here[main_.outputs[i].value]); !added) {
      return added.error();
    }
  }
  return prune(builder.take());
}

Result<Cut> Cutter::build() {
  Cut cut;
  const std::vector<std::string> names = kept_names();
  auto front = forward(names);
  if (!front) return front.error();
  auto back = backward(names, cut);
  if (!back) return back.error();
  cut.forward = std::move(*front);
  cut.backward = std::move(*back);
  for (size_t i = 0; i < kept_.size(); ++i) {
    cut.saved.push_back({names[i], joint_.type(main_, kept_[i]), bytes_[kept_[i]], place(kept_[i])});
  }
  cut.saved_bytes = kept_bytes();
  return cut;
}

}  // namespace

std::string Cut::report() const {
  std::string out = "saved, " + std::to_string(saved_bytes) + " bytes beside inputs and outputs:\n";
  const dsl::ExprNames names = forward.expr_names();
  for (const Saved& each : saved) {
    out += "  " + each.name + "  " + to_string(each.type, names) + "  " + std::to_string(each.bytes) + " bytes";
    if (!each.location.empty()) out += "  " + each.location;
    out += '\n';
  }
  out += "computed again, " + std::to_string(recomputed.size()) + " nodes:\n";
  for (const std::string& each : recomputed) out += "  " + each + '\n';
  return out;
}

Result<Cut> cut_vjp(const Graph& graph, const std::vector<std::string>& inputs, const CutOptions& options) {
  auto joint = vjp(graph, inputs);
  if (!joint) return joint.error();
  return Cutter(*joint, graph.main().outputs.size(), graph.main().inputs.size(), options).run();
}

}  // namespace kiln::graph
