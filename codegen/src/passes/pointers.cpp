#include "passes/pointers.h"

#include "kiln/dsl/walk.h"

namespace kiln::codegen {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

Pointers::Pointers(const dsl::Kernel& kernel) : kernel_(kernel), def_use_(kernel), sources_(kernel.values.size()) {
  dsl::for_each_op(kernel, [this](const Op& op) { note_sources(op); });
  find_parameters();
}

void Pointers::note_sources(const Op& op) {
  switch (op.code) {
    case OpCode::kSelect:
      sources_[op.results[0]] = {op.operands[1], op.operands[2]};
      return;
    case OpCode::kCat:
      sources_[op.results[0]] = {op.operands[0], op.operands[1]};
      return;
    case OpCode::kAddptr:
    case OpCode::kSplat:
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
    case OpCode::kReshape:
    case OpCode::kSlice:
      sources_[op.results[0]] = {op.operands[0]};
      return;
    case OpCode::kIf:
      for (size_t i = 0; i < op.results.size(); ++i) {
        for (const dsl::Region& side : op.regions) sources_[op.results[i]].push_back(side.ops.back().operands[i]);
      }
      return;
    case OpCode::kFor:
    case OpCode::kWhile: {
      const size_t first_init = op.code == OpCode::kFor ? 3 : 0, first_arg = op.code == OpCode::kFor ? 1 : 0;
      for (size_t i = 0; i < op.results.size(); ++i) {
        const std::vector<ValueId> both = {op.operands[first_init + i], op.regions.back().ops.back().operands[i]};
        sources_[op.results[i]] = both;
        for (const dsl::Region& inner : op.regions) sources_[inner.args[first_arg + i]] = both;
      }
      return;
    }
    default:
      return;
  }
}

namespace {
constexpr int32_t kNobody = -2;   // not reached yet
constexpr int32_t kSeveral = -1;  // several parameters, or what is no parameter
}  // namespace

// From the parameters on to all that is derived from them, around loops too: what is derived from two is of several.
void Pointers::find_parameters() {
  parameter_.assign(sources_.size(), kNobody);
  std::vector<std::vector<ValueId>> derived(sources_.size());
  std::vector<ValueId> todo;
  const auto join = [&](ValueId id, int32_t with) {
    if (parameter_[id] == with || parameter_[id] == kSeveral) return;
    parameter_[id] = parameter_[id] == kNobody ? with : kSeveral;
    todo.push_back(id);
  };
  for (size_t i = 0; i < kernel_.params.size(); ++i) join(kernel_.params[i].value, static_cast<int32_t>(i));
  for (ValueId id = 0; id < sources_.size(); ++id) {
    if (sources_[id].empty() && parameter_[id] == kNobody) join(id, kSeveral);
    for (ValueId source : sources_[id]) derived[source].push_back(id);
  }
  while (!todo.empty()) {
    const ValueId id = todo.back();
    todo.pop_back();
    for (ValueId each : derived[id]) join(each, parameter_[id]);
  }
}

std::optional<size_t> Pointers::parameter(ValueId pointer) const {
  const int32_t found = parameter_[pointer];
  return found < 0 ? std::nullopt : std::optional(static_cast<size_t>(found));
}

// The axes along which neither the address nor an offset stays the same: lanes have addresses of their own. With a
// stack of its own: index arithmetic may be longer than the thread's.
const std::vector<bool>& Pointers::distinct_axes(ValueId root) {
  std::vector<ValueId> todo = {root};
  while (!todo.empty()) {
    const ValueId id = todo.back();
    const size_t before = todo.size();
    const Op* op = def_use_.definition(id);
    if (op && op->regions.empty() && kernel_.type(id).rank() > 0 && !distinct_.contains(id)) {
      for (ValueId operand : op->operands) {
        if (!distinct_.contains(operand)) todo.push_back(operand);
      }
    }
    if (todo.size() != before) continue;
    todo.pop_back();
    if (!distinct_.contains(id)) distinct_[id] = distinct_axes_new(id);
  }
  return distinct_.at(root);
}

std::vector<bool> Pointers::distinct_axes_new(ValueId id) {
  const auto rank = static_cast<size_t>(kernel_.type(id).rank());
  std::vector<bool> out(rank, false);
  const Op* op = def_use_.definition(id);
  if (rank == 0 || !op) return out;
  const auto from = [&](size_t i) { return distinct_.at(op->operands[i]); };
  switch (op->code) {
    case OpCode::kArange:
      return {true};
    case OpCode::kCast:
      return from(0);
    case OpCode::kBroadcast:
      out = from(0);
      // Copies of a single element are at one address.
      for (size_t i = 0; i < rank; ++i)
        out[i] = out[i] && kernel_.type(op->operands[0]).shape[i] == kernel_.type(id).shape[i];
      return out;
    case OpCode::kExpandDims:
      out = from(0);
      out.insert(out.begin() + std::get<int64_t>(op->attrs[0]), false);
      return out;
    case OpCode::kPermute: {
      const std::vector<bool> source = from(0);
      const auto& order = std::get<std::vector<dsl::Expr>>(op->attrs[0]);
      for (size_t i = 0; i < rank; ++i) out[i] = source[static_cast<size_t>(*order[i].as_constant())];
      return out;
    }
    case OpCode::kAddptr:
    case OpCode::kAdd:
    case OpCode::kMul: {
      const std::vector<bool> x = from(0), y = from(1);
      for (size_t i = 0; i < rank; ++i) {
        if (x[i] && y[i]) return std::vector<bool>(rank, false);  // i + i·s or i·i: not looked into
        out[i] = x[i] || y[i];
      }
      return out;
    }
    default:
      return out;
  }
}

bool Pointers::distinct(ValueId pointer) {
  const std::vector<bool>& axes = distinct_axes(pointer);
  const auto shape = dsl::concrete_shape(kernel_.type(pointer));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i] && shape[i] > 1) return false;
  }
  return true;
}

}  // namespace kiln::codegen
