#include "gpu/passes/defer_reductions.h"

#include <algorithm>
#include <cmath>

#include "kiln/dsl/op_builder.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/uses.h"
#include "kiln/dsl/wide.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ReduceKind;
using dsl::ValueId;
using dsl::Wide;

constexpr int64_t kMostPartials = 16;  // of a thread
constexpr size_t kFirstInit = 3, kFirstArgument = 1;

ReduceKind kind_of(const Op& reduce) { return static_cast<ReduceKind>(int_attr(reduce, 0)); }

// The op that combines as a reduction of the kind does.
bool combines(const Op& op, ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return op.code == OpCode::kAdd;
    case ReduceKind::kProd:
      return op.code == OpCode::kMul;
    case ReduceKind::kMin:
      return op.code == OpCode::kMin && int_attr(op, 0) == 0;
    case ReduceKind::kMax:
      return op.code == OpCode::kMax && int_attr(op, 0) == 0;
    case ReduceKind::kAnd:
      return op.code == OpCode::kAnd;
    case ReduceKind::kOr:
      return op.code == OpCode::kOr;
    case ReduceKind::kXor:
      return op.code == OpCode::kXor;
    default:
      return false;
  }
}

uint64_t identity_bits(ReduceKind kind, ElementType element) {
  if (dsl::is_float(element)) {
    const double number = kind == ReduceKind::kSum    ? -0.0  // a sum of negative zeros is one
                          : kind == ReduceKind::kProd ? 1.0
                          : kind == ReduceKind::kMin  ? INFINITY
                                                      : -INFINITY;
    return dsl::bits_from_double(element, number);
  }
  const Wide number = kind == ReduceKind::kProd  ? Wide{1}
                      : kind == ReduceKind::kMin ? highest(element)
                      : kind == ReduceKind::kMax ? lowest(element)
                      : kind == ReduceKind::kAnd ? Wide{-1}
                                                 : Wide{0};
  return bits_from_number(element, number);
}

// A carried value that is only combined with a reduction: where those two ops are in the loop's body.
struct Chain {
  size_t reduce, combination;
};

class Deferral {
 public:
  Deferral(dsl::Kernel& kernel, int threads) : kernel_(kernel), threads_(threads), uses_(dsl::count_uses(kernel)) {}

  void run() {
    dsl::rewrite_ops(kernel_, [this](Op& op, std::vector<Op>& kept) {
      std::vector<Op> behind;
      if (op.code == OpCode::kFor) {
        for (size_t i = 0; i < op.results.size(); ++i) {
          if (auto chain = chain_of(op, i)) defer(op, i, *chain, kept, behind);
        }
      }
      kept.push_back(std::move(op));
      std::ranges::move(behind, std::back_inserter(kept));
    });
  }

 private:
  std::optional<Chain> chain_of(const Op& loop, size_t i) const {
    const dsl::Region& body = loop.regions[0];
    const ValueId carried = body.args[kFirstArgument + i];
    const auto combination = definition(body, body.ops.back().operands[i]);
    if (!combination || uses(carried) != 1 || uses(body.ops[*combination].results[0]) != 1) return std::nullopt;
    const Op& both = body.ops[*combination];
    if (both.operands.size() != 2 || std::ranges::count(both.operands, carried) != 1) return std::nullopt;
    const auto reduce = definition(body, both.operands[both.operands[0] == carried ? 1 : 0]);
    if (!reduce || body.ops[*reduce].code != OpCode::kReduce) return std::nullopt;
    const Op& reduction = body.ops[*reduce];
    if (!combines(both, kind_of(reduction)) || uses(reduction.results[0]) != 1) return std::nullopt;
    const dsl::Type& type = kernel_.type(reduction.operands[0]);
    if (dsl::is_small_float(type.element) || dsl::element_count(type) > kMostPartials * threads_) return std::nullopt;
    return Chain{*reduce, *combination};
  }

  static std::optional<size_t> definition(const dsl::Region& region, ValueId id) {
    const auto found =
        std::ranges::find_if(region.ops, [&](const Op& op) { return op.results.size() == 1 && op.results[0] == id; });
    if (found == region.ops.end()) return std::nullopt;
    return static_cast<size_t>(found - region.ops.begin());
  }

  uint32_t uses(ValueId id) const { return uses_[id]; }

  void defer(Op& loop, size_t i, const Chain& chain, std::vector<Op>& before, std::vector<Op>& behind) {
    dsl::Region& body = loop.regions[0];
    const Op reduction = std::move(body.ops[chain.reduce]);
    const Op combination = body.ops[chain.combination];
    const dsl::Type partial = kernel_.type(reduction.operands[0]);
    const ValueId init = loop.operands[kFirstInit + i], result = loop.results[i];

    OpBuilder start(kernel_, before, loop.loc);
    const ValueId identity = start.constant(partial.element, identity_bits(kind_of(reduction), partial.element));
    loop.operands[kFirstInit + i] = start.splat(identity, partial.shape);
    body.args[kFirstArgument + i] = fresh_value(kernel_, partial);
    loop.results[i] = fresh_value(kernel_, partial);
    Op& step = body.ops[chain.combination];
    step.operands = {body.args[kFirstArgument + i], reduction.operands[0]};
    step.results = {fresh_value(kernel_, partial)};
    body.ops.back().operands[i] = step.results[0];
    body.ops.erase(body.ops.begin() + static_cast<std::ptrdiff_t>(chain.reduce));

    OpBuilder end(kernel_, behind, reduction.loc);
    const ValueId total = end.add(OpCode::kReduce, {loop.results[i]}, reduction.attrs);
    behind.push_back(combination);
    behind.back().operands = {init, total};
    behind.back().results = {result};
    uses_.resize(kernel_.values.size(), 1);  // of each new value
  }

  dsl::Kernel& kernel_;
  const int64_t threads_;
  std::vector<uint32_t> uses_;
};

}  // namespace

dsl::Kernel defer_reductions(dsl::Kernel kernel, int threads) {
  Deferral(kernel, threads).run();
  return kernel;
}

}  // namespace kiln::codegen::gpu
