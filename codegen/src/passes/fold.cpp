#include "passes/fold.h"

#include <unordered_map>

#include "kiln/dsl/op_builder.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/traits.h"
#include "passes/fold_constants.h"
#include "passes/identities.h"

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

class Folder {
 public:
  explicit Folder(dsl::Kernel& kernel) : kernel_(kernel), identities_(kernel, definition_) {}

  void run() { visit(kernel_.body); }

 private:
  void visit(dsl::Region& region) {
    std::vector<Op> kept;
    for (Op& op : region.ops) visit(op, kept);
    region.ops = std::move(kept);
  }

  void visit(Op& op, std::vector<Op>& kept) {
    replaced_.apply(op.operands);
    if (op.code == OpCode::kIf) {
      if (auto condition = identities_.literal(op.operands[0])) return splice(op, op.regions[*condition ? 0 : 1], kept);
    }
    for (dsl::Region& inner : op.regions) visit(inner);
    if (op.results.size() == 1 && is_pure(op)) {
      if (auto same = identities_.replacement(op)) {
        replaced_.set(op.results[0], *same);
        return;
      }
      if (fold_splats(op, kept)) return;
      identities_.shorten(op);
    }
    keep(std::move(op), kept);
  }

  void keep(Op op, std::vector<Op>& kept) {
    if (op.regions.empty()) {
      for (ValueId result : op.results) definition_[result] = op;
    }
    kept.push_back(std::move(op));
  }

  // The ops of the region that is taken, in place of the `if`.
  void splice(Op& op, dsl::Region& region, std::vector<Op>& kept) {
    for (Op& inner : region.ops) {
      if (inner.code != OpCode::kYield) {
        visit(inner, kept);
        continue;
      }
      for (size_t i = 0; i < op.results.size(); ++i) replaced_.set(op.results[i], replaced_[inner.operands[i]]);
    }
  }

  // The scalar that every element of the value is.
  std::optional<ValueId> scalar_of(ValueId id) const {
    if (kernel_.type(id).is_scalar()) return id;
    const auto found = definition_.find(id);
    if (found == definition_.end() || found->second.code != OpCode::kSplat) return std::nullopt;
    return found->second.operands[0];
  }

  // An elementwise op on splats is one scalar op and a splat; on constants, a constant. Ops that only move elements
  // leave a splat what it is.
  bool fold_splats(const Op& op, std::vector<Op>& kept) {
    const dsl::OpInfo& table = dsl::info(op.code);
    const bool moves = table.has(dsl::kMovesElements);
    if (op.operands.empty() || op.code == OpCode::kInlineAsm || (!table.has(dsl::kElementwise) && !moves)) return false;
    std::vector<ValueId> scalars;
    for (ValueId operand : op.operands) {
      const auto scalar = scalar_of(operand);
      if (!scalar) return false;
      scalars.push_back(*scalar);
    }
    const ValueId result = op.results[0];
    const dsl::Type type = kernel_.type(result);
    std::vector<Op> made;
    OpBuilder b(kernel_, made, op.loc);
    if (moves) {
      if (type.is_scalar()) return false;
      b.splat(scalars[0], type.shape);
      made.back().results = {result};
    } else if (auto bits = evaluated(op, scalars)) {
      b.define(result, *bits);
    } else if (type.is_scalar()) {
      return false;
    } else {
      b.splat(b.add(op.code, scalars, op.attrs), type.shape);
      made.back().results = {result};
    }
    for (Op& one : made) keep(std::move(one), kept);
    return true;
  }

  std::optional<uint64_t> evaluated(const Op& op, const std::vector<ValueId>& scalars) const {
    std::vector<dsl::Type> types;
    std::vector<uint64_t> operands;
    for (ValueId scalar : scalars) {
      const auto bits = identities_.literal(scalar);
      if (!bits) return std::nullopt;
      types.push_back(kernel_.type(scalar));
      operands.push_back(*bits);
    }
    return evaluate_scalar(op, types, operands, dsl::scalar_type(kernel_.type(op.results[0]).element));
  }

  dsl::Kernel& kernel_;
  Definitions definition_;
  dsl::ValueMap replaced_;
  Identities identities_;
};

}  // namespace

dsl::Kernel fold(dsl::Kernel kernel) {
  Folder(kernel).run();
  return kernel;
}

}  // namespace kiln::codegen
