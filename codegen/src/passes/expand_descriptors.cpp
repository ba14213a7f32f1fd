#include "passes/expand_descriptors.h"

#include <limits>
#include <unordered_map>

#include "kiln/dsl/op_builder.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/traits.h"
#include "passes/axis_info.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Expr;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

constexpr ElementType kIndexType = ElementType::kI64;

class Expansion {
 public:
  explicit Expansion(dsl::Kernel& kernel) : kernel_(kernel), info_(axis_info(kernel, Wrap::kIndex)) {}

  void run() {
    dsl::rewrite_ops(kernel_, [this](Op& op, std::vector<Op>& kept) { rewrite(op, kept); });
  }

 private:
  void rewrite(Op& op, std::vector<Op>& kept) {
    if (family_of(op) != dsl::OpFamily::kDescribed) {
      kept.push_back(std::move(op));
    } else if (op.code == OpCode::kDescriptor) {
      descriptors_.emplace(op.results[0], op);
    } else {
      expand(op, kept);
    }
  }

  void expand(const Op& op, std::vector<Op>& out) {
    OpBuilder b(kernel_, out, op.loc);
    const Op& descriptor = descriptors_.at(op.operands[0]);
    const std::vector<Expr>& described = kernel_.type(op.operands[0]).shape;
    const bool gathers = op.code == OpCode::kGatherRows, reads = gathers || op.code == OpCode::kLoadTile;
    const std::vector<Expr> block = reads ? kernel_.type(op.results[0]).shape : described;
    const size_t rank = block.size(), first = reads ? 1 : 2;
    ValueId mask = dsl::kNoValue, distance = dsl::kNoValue;
    for (size_t axis = 0; axis < rank; ++axis) {
      const ValueId offset = op.operands[first + axis];
      const ValueId at = gathers && axis == 0 ? as_index(b, offset) : coordinates(b, offset, block[axis]);
      const ValueId inside = bounds(b, at, descriptor.operands[1 + axis], info_[offset].low >= 0);
      mask = and_all(b, mask, spread(b, inside, axis, block));
      ValueId step = at;
      if (axis + 1 < rank) {
        const ValueId stride = as_index(b, descriptor.operands[1 + rank + axis]);
        step = b.add(OpCode::kMul, {at, b.splat(stride, {block[axis]})});
      }
      step = spread(b, step, axis, block);
      distance = distance == dsl::kNoValue ? step : b.add(OpCode::kAdd, {distance, step});
    }
    const ValueId pointer = b.add(OpCode::kAddptr, {b.splat(descriptor.operands[0], block), distance});
    access(op, descriptor, pointer, mask, b, out);
  }

  // The op on pointers in place of the op on blocks; a result keeps its number.
  void access(const Op& op, const Op& descriptor, ValueId pointer, ValueId mask, OpBuilder& b, std::vector<Op>& out) {
    switch (op.code) {
      case OpCode::kStoreTile:
        return b.effect(OpCode::kStore, {pointer, op.operands[1], mask});
      case OpCode::kReduceTile: {
        const auto relaxed = static_cast<int64_t>(dsl::MemoryOrder::kRelaxed);
        b.add(OpCode::kAtomicRmw, {pointer, op.operands[1], mask}, {op.attrs[0], relaxed});
        return;
      }
      default:
        break;
    }
    std::vector<ValueId> operands = {pointer, mask};
    const dsl::Type type = kernel_.type(op.results[0]);
    if (static_cast<dsl::Fill>(int_attr(descriptor, 1)) == dsl::Fill::kNan) {
      const uint64_t nan = dsl::bits_from_double(type.element, std::numeric_limits<double>::quiet_NaN());
      operands.push_back(b.splat(b.constant(type.element, nan), type.shape));
    }
    b.add(OpCode::kLoad, std::move(operands));
    out.back().results = op.results;
  }

  // As i64; what u64 has above it becomes its end.
  ValueId as_index(OpBuilder& b, ValueId id) {
    const dsl::Type type = kernel_.type(id);
    if (type.element == kIndexType) return id;
    if (type.element == ElementType::kU64) {
      const ValueId end = b.constant(ElementType::kU64, static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
      id = b.add(OpCode::kMin, {id, b.splat(end, type.shape)});
    }
    return b.add(OpCode::kCast, {id}, {kIndexType});
  }

  // offset, offset+1, …
  ValueId coordinates(OpBuilder& b, ValueId offset, const Expr& extent) {
    const ValueId lanes = b.add(OpCode::kCast, {b.add(OpCode::kArange, {}, {Expr(0), extent})}, {kIndexType});
    return b.add(OpCode::kAdd, {b.splat(as_index(b, offset), {extent}), lanes});
  }

  // 0 ≤ at < extent. A sum that wraps around is negative, and so outside as it should be.
  ValueId bounds(OpBuilder& b, ValueId at, ValueId extent, bool natural) {
    const std::vector<Expr> shape = kernel_.type(at).shape;
    auto compare = [&](ValueId with, dsl::Predicate predicate) {
      return b.add(OpCode::kCmp, {at, b.splat(with, shape)}, {static_cast<int64_t>(predicate)});
    };
    const ValueId below = compare(as_index(b, extent), dsl::Predicate::kLt);
    if (natural) return below;
    return b.add(OpCode::kAnd, {compare(b.constant(kIndexType, 0), dsl::Predicate::kGe), below});
  }

  // A row along one axis of a tile, as the whole tile.
  ValueId spread(OpBuilder& b, ValueId row, size_t axis, const std::vector<Expr>& shape) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i != axis) row = b.add(OpCode::kExpandDims, {row}, {static_cast<int64_t>(i)});
    }
    return kernel_.type(row).shape == shape ? row : b.add(OpCode::kBroadcast, {row}, {shape});
  }

  ValueId and_all(OpBuilder& b, ValueId mask, ValueId more) {
    return mask == dsl::kNoValue ? more : b.add(OpCode::kAnd, {mask, more});
  }

  dsl::Kernel& kernel_;
  std::vector<AxisInfo> info_;
  std::unordered_map<ValueId, Op> descriptors_;
};

}  // namespace

dsl::Kernel expand_descriptors(dsl::Kernel kernel) {
  Expansion(kernel).run();
  return kernel;
}

}  // namespace kiln::codegen
