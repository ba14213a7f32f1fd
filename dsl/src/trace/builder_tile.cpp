// Arrays in memory that are read and written in blocks: Tile, which computes addresses and masks itself, and
// Descriptor.
#include "trace/trace.h"

namespace kiln::dsl::lang {

// --- Tile ---
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
    state_array(base_, extents_, strides);
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
  const Trace::StatedScope stated;
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

void state_array(const Value& base, const std::vector<Operand>& extents, const std::vector<Operand>& strides) {
  Trace* trace = Trace::current();
  if (!trace || !base.valid()) return;
  auto known = [&](const std::vector<Operand>& operands) {
    std::vector<std::optional<Expr>> out;
    for (const Operand& operand : operands) {
      if (operand.kind() == Operand::Kind::kInt)
        out.emplace_back(operand.expr());
      else
        out.push_back(operand.is_value() && operand.value().valid() ? trace->fact(operand.value()).launcher
                                                                    : std::nullopt);
    }
    return out;
  };
  trace->stated_arrays().state(base.id(), elements_of(known(extents), known(strides)));
}

// --- Descriptor ---
namespace {

bool is_one(const Operand& operand) {
  return operand.kind() == Operand::Kind::kInt && operand.expr().as_constant() == 1;
}

// The strides of all axes but the last of a contiguous array, in i64.
std::vector<Value> contiguous_strides(const std::vector<Value>& extents) {
  std::vector<Value> strides(extents.size() - 1);
  for (size_t i = extents.size() - 1; i > 0; --i) {
    const Value extent = cast(extents[i], i64_t);
    strides[i - 1] = i == extents.size() - 1 ? extent : strides[i] * extent;
  }
  return strides;
}

}  // namespace

Descriptor descriptor(Operand base, std::vector<Operand> extents, std::vector<Operand> strides, Shape block, Fill fill,
                      SourceLocation loc) {
  const Descriptor none({}, block);
  auto fail = [&](const std::string& message) {
    report(loc, "descriptor: " + message);
    return none;
  };
  const Trace::LocationScope scope(loc);
  std::vector<Value> operands = {materialise(base)}, sizes = materialise_all(extents);
  if (!operands[0].valid() || sizes.empty() != extents.empty()) return none;
  if (extents.empty() || extents.size() != block.size()) {
    return fail(std::to_string(extents.size()) + " extents for blocks of rank " + std::to_string(block.size()));
  }
  if (!strides.empty() && (strides.size() != extents.size() || !is_one(strides.back()))) {
    return fail("takes as many strides as extents, the last of them 1");
  }
  state_array(operands[0], extents, strides);
  std::vector<Value> steps;
  if (strides.empty()) {
    steps = contiguous_strides(sizes);
  } else {
    strides.pop_back();
    steps = materialise_all(strides);
    if (steps.size() != strides.size()) return none;
  }
  operands.insert(operands.end(), sizes.begin(), sizes.end());
  operands.insert(operands.end(), steps.begin(), steps.end());
  const Trace::StatedScope stated;
  return {emit(OpCode::kDescriptor, operands, {exprs(block), static_cast<int64_t>(fill)}, loc), block};
}

Value Descriptor::load(std::vector<Operand> offsets, SourceLocation loc) const {
  const Trace::LocationScope scope(loc);
  std::vector<Value> operands = {descriptor_};
  for (const Operand& offset : offsets) operands.push_back(materialise(offset));
  return emit(OpCode::kLoadTile, operands, {}, loc);
}

void Descriptor::write(OpCode code, const std::vector<Operand>& offsets, const Operand& value, std::vector<Attr> attrs,
                       const SourceLocation& loc) const {
  const Trace::LocationScope scope(loc);
  Trace* trace = Trace::current();
  if (!trace || !trace->usable(descriptor_, loc)) return;
  if (trace->fact(descriptor_).readonly) {
    return report(loc, info(code).name + ": the array comes from a Ptr<const T>; the kernel must not store to it");
  }
  const Value stored = as_value(value, descriptor_.element());
  std::vector<Value> operands = {descriptor_, broadcast_value(stored, exprs(block_), info(code).name, loc)};
  for (const Operand& offset : offsets) operands.push_back(materialise(offset));
  emit(code, operands, std::move(attrs), loc);
}

void Descriptor::store(std::vector<Operand> offsets, Operand value, SourceLocation loc) const {
  write(OpCode::kStoreTile, offsets, value, {}, loc);
}

void Descriptor::reduce(AtomicKind kind, std::vector<Operand> offsets, Operand value, SourceLocation loc) const {
  if (kind == AtomicKind::kXchg) return report(loc, "reduce_tile: there is no exchange; use store");
  write(OpCode::kReduceTile, offsets, value, {static_cast<int64_t>(kind)}, loc);
}

Value Descriptor::gather_rows(Operand rows, Operand column) const {
  return emit(OpCode::kGatherRows, {descriptor_, materialise(rows), materialise(column)}, {}, rows.loc());
}

}  // namespace kiln::dsl::lang
