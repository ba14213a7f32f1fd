// Loads and stores, through pointers and through tiles of an array, and what launchers and instantiation must know:
// the grid and the facts.
#include "trace.h"

namespace kiln::dsl::lang {
namespace {

// A mask, or a load's `other`, for lanes of the given shape; numbers take `type`.
Value lane_operand(const Operand& operand, ElementType type, const std::vector<Expr>& shape, const std::string& what,
                   const std::source_location& loc) {
  const Value value = operand.is_value() ? operand.value() : constant(operand, type, loc);
  return broadcast_value(value, shape, what, loc);
}

}  // namespace

Value load(Operand pointer, LoadOptions options) {
  const std::source_location loc = pointer.loc();
  Trace* trace = Trace::current();
  if (!trace) return {};
  if (!pointer.is_value()) {
    report(loc, "load: the first operand must be a pointer");
    return {};
  }
  if (!trace->usable(pointer.value(), loc)) return {};
  const Type type = pointer.value().type();
  std::vector<Value> operands = {pointer.value()};
  if (options.mask.present()) operands.push_back(lane_operand(options.mask, i1_t, type.shape, "load", loc));
  if (options.other.present()) {
    if (!options.mask.present()) {
      report(loc, "load: `other` without a mask has no effect; give both");
      return {};
    }
    operands.push_back(lane_operand(options.other, type.element, type.shape, "load", loc));
  }
  return emit(OpCode::kLoad, operands, {}, loc);
}

void store(Operand pointer, Operand value, StoreOptions options) {
  const std::source_location loc = pointer.loc();
  Trace* trace = Trace::current();
  if (!trace) return;
  if (!pointer.is_value()) return report(loc, "store: the first operand must be a pointer");
  if (!trace->usable(pointer.value(), loc)) return;
  if (trace->fact(pointer.value()).readonly) {
    return report(loc, "store: the pointer comes from a Ptr<const T>; the kernel must not store through it");
  }
  const Type type = pointer.value().type();
  std::vector<Value> operands = {pointer.value(), lane_operand(value, type.element, type.shape, "store", loc)};
  if (options.mask.present()) operands.push_back(lane_operand(options.mask, i1_t, type.shape, "store", loc));
  emit(OpCode::kStore, operands, {}, loc);
}

// --- tiles ---
// Element (i, j) of a block lies at base + offset·strides + i·stride0 + j·stride1. The part that all lanes share is
// added to the pointer as a scalar, so that what is left is linear in the lane numbers, without overflow to argue
// about.

Tile::Tile(Operand base, std::vector<Operand> extents, std::vector<Operand> strides, SourceLocation loc)
    : base_(materialise(base)), extents_(std::move(extents)) {
  const Trace::LocationScope scope(loc);
  const size_t rank = extents_.size();
  if (rank < 1 || rank > 3) {
    report(loc, "tile: takes 1 to 3 extents, not " + std::to_string(rank));
  } else if (!strides.empty() && strides.size() != rank) {
    report(loc, "tile: " + std::to_string(strides.size()) + " strides for " + std::to_string(rank) + " extents");
  } else if (base_.valid() && (!base_.type().pointer || !base_.type().is_scalar())) {
    report(loc, "tile: the base must be a scalar pointer, not " + type_text(base_.type()));
  } else if (base_.valid()) {
    set_strides(strides);
  }
}

void Tile::set_strides(const std::vector<Operand>& strides) {
  const size_t rank = extents_.size();
  strides_.resize(rank);
  if (strides.empty()) {
    for (size_t i = rank - 1; i > 0; --i) {
      const Value extent = cast(extents_[i], i64_t);
      strides_[i - 1] = i == rank - 1 ? extent : strides_[i] * extent;
    }
  } else {
    for (size_t i = 0; i < rank; ++i) {
      const bool is_one = strides[i].kind() == Operand::Kind::kInt && strides[i].expr().as_constant() == 1;
      if (!(is_one && i == rank - 1)) strides_[i] = cast(strides[i], i64_t);
    }
  }
  valid_ = true;
  for (size_t i = 0; i + 1 < rank; ++i) valid_ = valid_ && strides_[i].valid();
}

Tile::Lanes Tile::lanes(const std::vector<Operand>& offsets, const Shape& block, SourceLocation loc) const {
  if (!valid_) return {};
  const size_t rank = extents_.size();
  if (offsets.size() != rank || block.size() != rank) {
    report(loc, "tile: an array of rank " + std::to_string(rank) + " takes as many offsets and block extents, not " +
                    std::to_string(offsets.size()) + " and " + std::to_string(block.size()));
    return {};
  }
  const Trace::LocationScope scope(loc);
  Value pointer = base_, offset, mask;  // pointer: a scalar; offset, mask: of the block's shape
  for (size_t i = 0; i < rank; ++i) {
    // The lane numbers of this axis, with an axis of extent 1 for each other one.
    auto spread = [&](Value lane) {
      for (size_t axis = 0; axis < rank; ++axis) {
        if (axis != i) lane = expand_dims(lane, static_cast<int>(axis));
      }
      return broadcast_to(lane, block);
    };
    const bool at_zero = offsets[i].kind() == Operand::Kind::kInt && offsets[i].expr().as_constant() == 0;
    const Value lane = arange(0, block[i]);
    const Value inside = spread((at_zero ? lane : lane + offsets[i]) < extents_[i]);
    mask = i == 0 ? inside : mask & inside;

    const bool is_unit = !strides_[i].valid();
    const Value wide = cast(lane, i64_t);
    const Value distance = spread(is_unit ? wide : wide * strides_[i]);
    offset = i == 0 ? distance : offset + distance;
    if (at_zero) continue;
    const Value first = is_unit ? cast(offsets[i], i64_t) : cast(offsets[i], i64_t) * strides_[i];
    pointer = pointer + first;
  }
  return {pointer + offset, mask};
}

Value Tile::load(std::vector<Operand> offsets, Shape block, TileOptions options, SourceLocation loc) const {
  const Lanes at = lanes(offsets, block, loc);
  if (!at.pointer.valid() || !at.mask.valid()) return {};
  return lang::load(Operand(at.pointer, loc), {.mask = at.mask, .other = options.other});
}

void Tile::store(std::vector<Operand> offsets, Operand value, SourceLocation loc) const {
  const Value stored = materialise(value);
  if (!stored.valid()) return;
  Shape block;
  for (const Expr& extent : stored.type().shape) block.push_back(Const(extent));
  const Lanes at = lanes(offsets, block, loc);
  if (at.pointer.valid() && at.mask.valid()) lang::store(Operand(at.pointer, loc), stored, {.mask = at.mask});
}

Tile tile(Operand base, std::vector<Operand> extents, std::vector<Operand> strides, SourceLocation loc) {
  return Tile(std::move(base), std::move(extents), std::move(strides), loc);
}

// --- grid and facts ---
void grid(Operand x, Operand y, Operand z, SourceLocation loc) {
  Trace* trace = Trace::current();
  if (!trace) return;
  if (trace->has_grid()) return trace->report(loc, "grid: the kernel has a grid already");
  const Operand* axes[] = {&x, &y, &z};
  std::array<Expr, 3> extents = {Expr(1), Expr(1), Expr(1)};
  for (size_t i = 0; i < 3; ++i) {
    const Operand& axis = *axes[i];
    if (!axis.present()) continue;
    std::optional<Expr> extent;
    if (axis.is_value()) {
      if (!trace->usable(axis.value(), loc)) return;
      extent = trace->fact(axis.value()).launcher;
    } else if (axis.kind() == Operand::Kind::kInt) {
      extent = axis.expr();
    }
    const std::string name(1, "xyz"[i]);
    if (!extent) {
      return trace->report(loc,
                           "grid: " + name +
                               " must be an integer expression over scalar parameters and Consts "
                               "(+ - * / % min max cdiv cast): the launcher computes it without running the kernel");
    }
    if (extent->as_constant().value_or(1) < 1) {
      return trace->report(loc, "grid: " + name + " is " + expr_text(*extent) + "; an extent is 1 or more");
    }
    extents[i] = *extent;
  }
  trace->set_grid(extents);
}

void assume_multiple(Operand x, Const n) { emit(OpCode::kAssume, {materialise(x)}, {n.expr()}, x.loc()); }

void require(Const condition, std::string_view message, SourceLocation loc) {
  emit(OpCode::kRequire, {}, {condition.expr(), std::string(message)}, loc);
}

}  // namespace kiln::dsl::lang
