#include "passes/simplify_masks.h"

#include "kiln/dsl/op_builder.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/traits.h"
#include "kiln/dsl/wide.h"
#include "passes/axis_info.h"

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

// The operand that is the mask of an access, if it may have one.
std::optional<size_t> mask_place(OpCode code) {
  switch (code) {
    case OpCode::kLoad:
      return 1;
    case OpCode::kStore:
    case OpCode::kAtomicRmw:
      return 2;
    case OpCode::kAtomicCas:
      return 3;
    default:
      return std::nullopt;
  }
}

class Simplification {
 public:
  explicit Simplification(dsl::Kernel& kernel) : kernel_(kernel), info_(axis_info(kernel, Wrap::kExact)) {}

  void run() {
    dsl::rewrite_ops(kernel_, [this](Op& op, std::vector<Op>& kept) { rewrite(op, kept); });
  }

 private:
  void rewrite(Op& op, std::vector<Op>& kept) {
    replaced_.apply(op.operands);
    if (decided(op)) {
      const ValueId id = op.results[0];
      OpBuilder(kernel_, kept, op.loc).define(id, bits_from_number(kernel_.type(id).element, info_[id].low));
    } else if (!one_operand(op) && !mask_vanishes(op, kept)) {
      kept.push_back(std::move(op));
    }
  }

  // An int op whose elements are all one number.
  bool decided(const Op& op) const {
    if (op.results.size() != 1 || !is_pure(op)) return false;
    const dsl::Type& type = kernel_.type(op.results[0]);
    if (!type.is_value() || !dsl::is_int(type.element) || !known(op.results[0])) return false;
    return op.code != OpCode::kConstant && op.code != OpCode::kSplat && op.code != OpCode::kBroadcast;
  }

  // min and max of which one operand is never more than the other.
  bool one_operand(const Op& op) {
    if ((op.code != OpCode::kMin && op.code != OpCode::kMax) || dsl::is_float(kernel_.type(op.results[0]).element)) {
      return false;
    }
    for (size_t i = 0; i < 2; ++i) {
      const ValueId less = op.operands[i], greater = op.operands[1 - i];
      if (!is_old(less) || !is_old(greater) || info_[less].high > info_[greater].low) continue;
      replaced_.set(op.results[0], op.code == OpCode::kMin ? less : greater);
      return true;
    }
    return false;
  }

  // True where the op is replaced whole. An all-true mask is taken off the op, and `other` with it.
  bool mask_vanishes(Op& op, std::vector<Op>& kept) {
    const std::optional<size_t> place = mask_place(op.code);
    if (!place || op.operands.size() <= *place || !known(op.operands[*place])) return false;
    if (info_[op.operands[*place]].low != 0) {
      op.operands.resize(*place);
      return false;
    }
    if (op.code == OpCode::kLoad && op.operands.size() > 2) {
      replaced_.set(op.results[0], op.operands[2]);
    } else if (!op.results.empty()) {
      OpBuilder(kernel_, kept, op.loc).define(op.results[0], 0);
    }
    return true;
  }

  // Not made by this pass: the analysis has seen it.
  bool is_old(ValueId id) const { return id < info_.size(); }
  bool known(ValueId id) const { return is_old(id) && info_[id].is_known(); }

  dsl::Kernel& kernel_;
  std::vector<AxisInfo> info_;
  dsl::ValueMap replaced_;
};

}  // namespace

dsl::Kernel simplify_masks(dsl::Kernel kernel) {
  Simplification(kernel).run();
  return kernel;
}

}  // namespace kiln::codegen
