// Accesses whose threads differ by offsets of 32 bits from an address that all of them have alike.
//
//   %p = splat(%a) + 64·%ld·%pid + %ld·i0 + i1      all: %a + 64·%ld·%pid, a thread: %ld·i0 + i1
#include "gpu/address/offset_address.h"

#include <algorithm>
#include <numeric>

#include "gpu/address/tile_coordinates.h"
#include "kiln/dsl/wide.h"

namespace kiln::codegen::gpu {
namespace {

constexpr dsl::Wide kLargestAccess = 16;  // bytes

// A scalar pointer, and an index from there.
struct LinearPointer {
  ValueId scalar;
  Linear index;
};

// Through the views of a tile of pointers. Nothing where they are not linear in its coordinates.
std::optional<LinearPointer> linear_pointer(const Context& ctx, LinearForms& forms, ValueId id) {
  std::vector<int> axis_of(static_cast<size_t>(ctx.type(id).rank()));  // of the view: axes of the whole tile
  std::iota(axis_of.begin(), axis_of.end(), 0);
  Linear index;
  index.axes.resize(axis_of.size());
  while (ctx.type(id).rank() > 0) {
    const Op* op = forms.definition(id);
    if (!op) return std::nullopt;
    if (op->code == OpCode::kAddptr) {
      const auto more = forms.of(op->operands[1]);
      if (!more) return std::nullopt;
      Linear placed{more->host, more->program, std::vector<dsl::Expr>(index.axes.size())};
      for (size_t i = 0; i < more->axes.size(); ++i) placed.axes[static_cast<size_t>(axis_of[i])] = more->axes[i];
      index = index + placed;
    } else if (op->code == OpCode::kExpandDims) {
      axis_of.erase(axis_of.begin() + int_attr(*op, 0));
    } else if (op->code != OpCode::kSplat && op->code != OpCode::kBroadcast) {
      return std::nullopt;
    }
    id = op->operands[0];
  }
  return LinearPointer{id, std::move(index)};
}

bool is_emittable(const Linear& form) {
  return is_polynomial(form) &&
         std::ranges::all_of(form.axes, [](const dsl::Expr& factor) { return is_polynomial(factor); });
}

// Whether the part of the tile's coordinates is from 0 to what the target reaches.
bool is_within_reach(const Context& ctx, const LinearForms& forms, const Linear& index,
                     const std::vector<int64_t>& shape, int64_t bytes) {
  dsl::Wide farthest = kLargestAccess;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const LinearForms::Range range = forms.range(index.axes[axis]);
    if (range.low < 0 || range.high > ctx.target.offset_reach()) return false;
    farthest += range.high * (shape[axis] - 1) * bytes;
  }
  return farthest <= ctx.target.offset_reach();
}

// Of one axis: the threads' part of the offsets, and that of each register, which is a constant where the stride is.
void add_axis(Context& ctx, const dsl::Expr& factor, int axis, const Layout& layout, int64_t bytes,
              std::vector<Address>& out) {
  if (factor.terms().empty()) return;
  Builder& ir = ctx.ir;
  Value* stride = ir.CreateTrunc(emit_form(ctx, {factor * dsl::Expr(bytes), {}, {}}), ir.getInt32Ty());
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(stride);
  Value* thread = ctx.thread_coordinate(layout, axis);
  Bits by_thread = 0;
  for (Dim dim : {Dim::kLane, Dim::kWarp}) {
    for (Bits basis : layout.bases(dim)) {
      by_thread |= static_cast<Bits>(layout.coordinates(basis)[static_cast<size_t>(axis)]);
    }
  }
  const auto add = [&](Value*& sum, Value* coordinate) {
    Value* part = ir.CreateMul(coordinate, stride);
    sum = sum ? ir.CreateAdd(sum, part) : part;
  };
  for (size_t reg = 0; reg < out.size(); ++reg) {
    const auto mine = static_cast<uint32_t>(ctx.register_coordinate(layout, reg, axis));
    if ((static_cast<Bits>(mine) & by_thread) != 0) {
      add(out[reg].by_thread, ir.CreateXor(thread, ir.getInt32(mine)));
      continue;
    }
    add(out[reg].by_thread, thread);
    if (constant) {
      out[reg].offset += mine * constant->getSExtValue();
    } else if (mine != 0) {
      add(out[reg].by_thread, ir.getInt32(mine));
    }
  }
}

}  // namespace

std::optional<std::vector<Address>> offset_addresses(Context& ctx, ValueId pointers, const Layout& layout) {
  const dsl::Type& type = ctx.type(pointers);
  if (ctx.target.offset_reach() == 0 || type.rank() == 0) return std::nullopt;
  LinearForms& forms = ctx.forms;
  const auto pointer = linear_pointer(ctx, forms, pointers);
  const int64_t bytes = dsl::info(type.element).bytes;
  if (!pointer || !is_emittable(pointer->index)) return std::nullopt;
  if (!is_within_reach(ctx, forms, pointer->index, dsl::concrete_shape(type), bytes)) return std::nullopt;
  Value* elements = emit_form(ctx, {pointer->index.host, pointer->index.program, {}});
  llvm::Type* element = memory_type(ctx.ir.getContext(), type.element, false);
  Value* base = ctx.ir.CreateGEP(element, ctx.scalar(pointer->scalar), elements);
  std::vector<Address> out(static_cast<size_t>(layout.size(Dim::kRegister)), {base, 0, ctx.ir.getInt32(0)});
  for (size_t axis = 0; axis < pointer->index.axes.size(); ++axis) {
    add_axis(ctx, pointer->index.axes[axis], static_cast<int>(axis), layout, bytes, out);
  }
  return out;
}

}  // namespace kiln::codegen::gpu
