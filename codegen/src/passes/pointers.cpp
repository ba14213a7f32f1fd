#include "passes/pointers.h"

namespace kiln::codegen {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

Pointers::Pointers(const dsl::Kernel& kernel)
    : kernel_(kernel),
      definition_(kernel.values.size()),
      region_(kernel.values.size(), &kernel.body),
      sources_(kernel.values.size()) {
  visit(kernel.body);
}

void Pointers::visit(const dsl::Region& region) {
  for (ValueId arg : region.args) region_[arg] = &region;
  for (const Op& op : region.ops) {
    for (ValueId id : op.results) definition_[id] = &op, region_[id] = &region;
    for (const dsl::Region& inner : op.regions) visit(inner);
    note_sources(op);
  }
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

std::optional<size_t> Pointers::parameter(ValueId pointer) const {
  std::vector<bool> seen(kernel_.values.size());
  std::optional<size_t> found;
  return find_parameters(pointer, seen, found) ? found : std::nullopt;
}

// False where there is a source that is no parameter, or another one.
bool Pointers::find_parameters(ValueId id, std::vector<bool>& seen, std::optional<size_t>& found) const {
  if (seen[id]) return true;
  seen[id] = true;
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    if (kernel_.params[i].value != id) continue;
    const bool same = !found || *found == i;
    found = i;
    return same;
  }
  for (ValueId source : sources_[id]) {
    if (!find_parameters(source, seen, found)) return false;
  }
  return !sources_[id].empty();
}

// The axes along which neither the address nor an offset stays the same: lanes have addresses of their own.
std::vector<bool> Pointers::distinct_axes(ValueId id) {
  if (auto known = distinct_.find(id); known != distinct_.end()) return known->second;
  return distinct_[id] = distinct_axes_new(id);
}

std::vector<bool> Pointers::distinct_axes_new(ValueId id) {
  const auto rank = static_cast<size_t>(kernel_.type(id).rank());
  std::vector<bool> out(rank, false);
  const Op* op = definition_[id];
  if (rank == 0 || !op) return out;
  const auto from = [&](size_t i) { return distinct_axes(op->operands[i]); };
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
      const auto source = from(0);
      const auto& order = std::get<std::vector<dsl::Expr>>(op->attrs[0]);
      for (size_t i = 0; i < rank; ++i) out[i] = source[static_cast<size_t>(*order[i].as_constant())];
      return out;
    }
    case OpCode::kAddptr:
    case OpCode::kAdd:
    case OpCode::kMul: {
      const auto x = from(0), y = from(1);
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
  const auto axes = distinct_axes(pointer);
  const auto shape = dsl::concrete_shape(kernel_.type(pointer));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i] && shape[i] > 1) return false;
  }
  return true;
}

}  // namespace kiln::codegen
