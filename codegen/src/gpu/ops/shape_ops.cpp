// cat, slice, reshape and gather. Where extents and bounds are powers of two they are views, as the layout algebra has
// them:
//
//   cat      of equal halves: the highest bit of the axis chooses between the operands
//   slice    of 1/2 or 1/4 that is aligned: the operand is wanted with the axis' highest bits in registers
//   reshape  the row-major number stays, in padded tiles too
//
// The others read what they need from their operands in shared memory, element by element. Padding reads what is
// inside.
#include "gpu/ops/shape_ops.h"

#include <bit>

#include "gpu/evaluate.h"
#include "gpu/layout/algebra.h"
#include "gpu/layout/coalesce.h"
#include "gpu/shared/staged_tile.h"

namespace kiln::codegen::gpu {
namespace {

// A slice of a smaller part would hold too much beside it.
constexpr int64_t kMostParts = 4;

using Extents = std::vector<int64_t>;

bool is_power_of_two(int64_t x) { return std::has_single_bit(static_cast<uint64_t>(x)); }

bool is_aligned_cat(const Extents& a, const Extents& b, size_t axis) {
  return a[axis] == b[axis] && is_power_of_two(a[axis]);
}

bool is_aligned_slice(int64_t extent, int64_t start, int64_t end) {
  const int64_t count = end - start;
  return is_power_of_two(extent) && is_power_of_two(count) && start % count == 0 && extent / count <= kMostParts;
}

// Whether numbers in padded tiles are as without padding: only the first axis that is not of extent 1 may be padded.
bool pads_first_axis_only(llvm::ArrayRef<int64_t> extents) {
  while (!extents.empty() && extents.front() == 1) extents = extents.drop_front();
  return extents.size() <= 1 || llvm::all_of(extents.drop_front(), is_power_of_two);
}

// Axes in groups that become each other, as few axes a group as can be.
bool keeps_padded_numbers(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to) {
  while (!from.empty() && !to.empty()) {
    size_t taken = 1, given = 1;
    int64_t left = from[0], right = to[0];
    while (left != right) {
      if (left < right) {
        left *= from[taken++];
      } else {
        right *= to[given++];
      }
    }
    if (!pads_first_axis_only(from.take_front(taken)) || !pads_first_axis_only(to.take_front(given))) return false;
    from = from.drop_front(taken), to = to.drop_front(given);
  }
  return true;  // what is left has extents 1
}

Extents extents_of(Context& ctx, ValueId id) { return dsl::concrete_shape(ctx.type(id)); }

dsl::Type element_of(const dsl::Type& type) {
  dsl::Type out = dsl::scalar_type(type.element);
  out.pointer = type.pointer;
  return out;
}

// Where the threads write a tile from: each element by one thread if that can be.
Layout written_layout(Context& ctx, ValueId id) {
  if (ctx.placement.home[id]) return *ctx.placement.home[id];
  AccessShape rows;
  for (int axis = ctx.type(id).rank(); axis-- > 0;) rows.order.push_back(axis);
  return coalesced(padded_shape(ctx.type(id)), rows, ctx.block);
}

Result<void> write(Context& ctx, StagedTile& tile, ValueId id, int axis = 0, int64_t start = 0) {
  const Layout layout = written_layout(ctx, id);
  auto registers = ctx.get(id, layout);
  if (!registers) return registers.error();
  tile.write(*registers, layout, extents_of(ctx, id), axis, start);
  return {};
}

// An error where it does not fit.
Result<StagedTile> make_tile(Context& ctx, const Op& op, const dsl::Type& type, const Extents& extents,
                             int64_t pad = 1) {
  int64_t bytes = memory_bytes(type);
  for (int64_t extent : extents) bytes *= extent;
  if (const int64_t most = ctx.target.lane_facts().shared_bytes; bytes > most) {
    return ctx.unsupported(op, "a tile needs " + std::to_string(bytes) + " bytes of shared memory a block; there are " +
                                   std::to_string(most));
  }
  return StagedTile(ctx, element_of(type), extents, pad);
}

// One element for each register of the layout, at places that `place` makes of the element's coordinates.
using Place = llvm::function_ref<void(size_t reg, llvm::MutableArrayRef<Value*> coordinates)>;
Registers read_all(Context& ctx, StagedTile& tile, const Layout& layout, Place place) {
  Registers out;
  for (size_t reg = 0; reg < static_cast<size_t>(layout.size(Dim::kRegister)); ++reg) {
    llvm::SmallVector<Value*, 5> at;
    for (int axis = 0; axis < layout.rank(); ++axis) at.push_back(ctx.coordinate(layout, reg, axis));
    place(reg, at);
    out.push_back(tile.read(at));
  }
  return out;
}

Value* u32(Context& ctx, int64_t x) { return ctx.ir.getInt32(static_cast<uint32_t>(x)); }

// The nearest that is inside.
Value* at_most(Context& ctx, Value* x, int64_t last) {
  return ctx.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, u32(ctx, last));
}

// Inside along every axis, whatever the layout pads.
void clamp(Context& ctx, llvm::MutableArrayRef<Value*> coordinates, const Extents& extents) {
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    if (!is_power_of_two(extents[axis])) coordinates[axis] = at_most(ctx, coordinates[axis], extents[axis] - 1);
  }
}

// An axis' index as i32, at most `last`: negative ones are large.
Value* index_inside(Context& ctx, Value* index, const dsl::Type& type, int64_t last) {
  Builder& ir = ctx.ir;
  llvm::Type* wide = index->getType()->isIntegerTy(64) ? ir.getInt64Ty() : ir.getInt32Ty();
  index = dsl::info(type.element).is_signed ? ir.CreateSExt(index, wide) : ir.CreateZExt(index, wide);
  index =
      ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, index, llvm::ConstantInt::get(wide, static_cast<uint64_t>(last)));
  return ir.CreateTrunc(index, ir.getInt32Ty());
}

Result<Registers> cat_view(Context& ctx, const Op& op, int axis, const Layout& layout) {
  const Layout half = first(layout, axis, layout.shape()[static_cast<size_t>(axis)] / 2);
  auto low = get_without_copies(ctx, op.operands[0], half), high = get_without_copies(ctx, op.operands[1], half);
  if (!low || !high) return low ? high : low;
  Registers out;
  for (size_t reg = 0; reg < low->size(); ++reg) {
    Value* is_high =
        ctx.ir.CreateICmpUGE(ctx.coordinate(layout, reg, axis), u32(ctx, half.shape()[static_cast<size_t>(axis)]));
    out.push_back(ctx.ir.CreateSelect(is_high, (*high)[reg], (*low)[reg]));
  }
  return out;
}

Result<Registers> slice_view(Context& ctx, const Op& op, int axis, const Layout& layout) {
  const int64_t parts =
      extents_of(ctx, op.operands[0])[static_cast<size_t>(axis)] / layout.shape()[static_cast<size_t>(axis)];
  const Layout whole = product(layout, identity(layout.rank(), axis, Dim::kRegister, parts));
  auto all = get_without_copies(ctx, op.operands[0], whole);
  if (!all) return all;
  const auto count = static_cast<size_t>(layout.size(Dim::kRegister));
  const auto part = static_cast<size_t>(number_attr(op, 1) / layout.shape()[static_cast<size_t>(axis)]);
  const auto begin = all->begin() + static_cast<std::ptrdiff_t>(part * count);
  return Registers(begin, begin + static_cast<std::ptrdiff_t>(count));
}

}  // namespace

bool is_view_of_shape(const dsl::Kernel& kernel, const Op& op) {
  const auto shape = [&](ValueId id) { return dsl::concrete_shape(kernel.type(id)); };
  const Extents from = shape(op.operands[0]);
  switch (op.code) {
    case OpCode::kCat:
      return is_aligned_cat(from, shape(op.operands[1]), static_cast<size_t>(int_attr(op, 0)));
    case OpCode::kSlice:
      return is_aligned_slice(from[static_cast<size_t>(int_attr(op, 0))], number_attr(op, 1), number_attr(op, 2));
    default:
      return keeps_padded_numbers(from, shape(op.results[0]));
  }
}

Result<Registers> compute_cat(Context& ctx, const Op& op, const Layout& layout) {
  const int axis = static_cast<int>(int_attr(op, 0));
  if (is_view_of_shape(ctx.kernel, op)) return cat_view(ctx, op, axis, layout);
  const int64_t middle = extents_of(ctx, op.operands[0])[static_cast<size_t>(axis)];
  const Extents extents = extents_of(ctx, op.results[0]);
  auto tile = make_tile(ctx, op, ctx.type(op.results[0]), extents);
  if (!tile) return tile.error();
  if (auto done = write(ctx, *tile, op.operands[0]); !done) return done.error();
  if (auto done = write(ctx, *tile, op.operands[1], axis, middle); !done) return done.error();
  return read_all(ctx, *tile, layout, [&](size_t, llvm::MutableArrayRef<Value*> at) { clamp(ctx, at, extents); });
}

Result<Registers> compute_slice(Context& ctx, const Op& op, const Layout& layout) {
  const int axis = static_cast<int>(int_attr(op, 0));
  if (is_view_of_shape(ctx.kernel, op)) return slice_view(ctx, op, axis, layout);
  const Extents extents = extents_of(ctx, op.results[0]);
  auto tile = make_tile(ctx, op, ctx.type(op.results[0]), extents_of(ctx, op.operands[0]));
  if (!tile) return tile.error();
  if (auto done = write(ctx, *tile, op.operands[0]); !done) return done.error();
  return read_all(ctx, *tile, layout, [&](size_t, llvm::MutableArrayRef<Value*> at) {
    clamp(ctx, at, extents);
    Value*& index = at[static_cast<size_t>(axis)];
    index = ctx.ir.CreateAdd(index, u32(ctx, number_attr(op, 1)));
  });
}

Result<Registers> compute_reshape(Context& ctx, const Op& op, const Layout& layout) {
  const ValueId from = op.operands[0];
  if (is_view_of_shape(ctx.kernel, op)) return ctx.get(from, reshape(layout, padded_shape(ctx.type(from))));
  const Extents extents = extents_of(ctx, op.results[0]);
  auto tile = make_tile(ctx, op, ctx.type(from), extents_of(ctx, from), 0);
  if (!tile) return tile.error();
  if (auto done = write(ctx, *tile, from); !done) return done.error();
  Registers out;
  for (size_t reg = 0; reg < static_cast<size_t>(layout.size(Dim::kRegister)); ++reg) {
    llvm::SmallVector<Value*, 5> at;
    for (int axis = 0; axis < layout.rank(); ++axis) at.push_back(ctx.coordinate(layout, reg, axis));
    clamp(ctx, at, extents);
    Value* number = u32(ctx, 0);
    for (size_t axis = 0; axis < extents.size(); ++axis) {
      number = ctx.ir.CreateAdd(ctx.ir.CreateMul(number, u32(ctx, extents[axis])), at[axis]);
    }
    out.push_back(tile->read_number(number));
  }
  return out;
}

Result<Registers> compute_gather(Context& ctx, const Op& op, const Layout& layout) {
  const ValueId from = op.operands[0], index = op.operands[1];
  const auto axis = static_cast<size_t>(int_attr(op, 0));
  const Extents extents = extents_of(ctx, from);
  auto indices = ctx.get(index, layout);
  if (!indices) return indices;
  auto tile = make_tile(ctx, op, ctx.type(from), extents);
  if (!tile) return tile.error();
  if (auto done = write(ctx, *tile, from); !done) return done.error();
  return read_all(ctx, *tile, layout, [&](size_t reg, llvm::MutableArrayRef<Value*> at) {
    at[axis] = u32(ctx, 0);
    clamp(ctx, at, extents);
    at[axis] = index_inside(ctx, (*indices)[reg], ctx.type(index), extents[axis] - 1);
  });
}

}  // namespace kiln::codegen::gpu
