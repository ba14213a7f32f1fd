// Operands of dot, packed into scratch. Single numbers a unit go there straight from their producers; where a unit
// holds neighbours along K, rows of B are interleaved from memory. What already lies as the micro-kernel wants it is
// not packed at all: whether that is so may turn out at run time only (masks, strides), hence the selects.
#include "cpu/dot/dot_pack.h"

#include "cpu/dot/dot_cache.h"
#include "cpu/dot/dot_form.h"
#include "cpu/dot/dot_kernel.h"
#include "cpu/dot/dot_rows.h"
#include "cpu/dot/dot_transpose.h"
#include "cpu/dot/dot_units.h"
#include "cpu/nest/materialise.h"
#include "elementwise/conversions.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int64_t kPage = 4096, kLine = 64;
constexpr int64_t kInPlaceRows = 512;    // more rows of A are worth a packed B,
constexpr int64_t kUnalignedRows = 128;  // and so many where vectors lie across lines of the cache,
constexpr int64_t kFewBlocks = 8;        // and more than so many blocks where lines fight for sets
constexpr int64_t kWays = 4;             // lines of B in a set: half of those there are
constexpr int kPackWidth = 64;           // lanes of a chunk at most: rows of slots are padded to it

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// f32 with a mantissa of 10 bits, to nearest even; infinities and NaN stay.
Value* round_to_tf32(Builder& ir, Value* x) {
  Value* bits = ir.CreateBitCast(x, like(x, ir.getInt32Ty()));
  Value* odd = ir.CreateAnd(ir.CreateLShr(bits, int_constant(bits, 13)), int_constant(bits, 1));
  Value* rounded = ir.CreateAnd(ir.CreateAdd(bits, ir.CreateAdd(odd, int_constant(bits, 0xfff))),
                                int_constant(bits, ~uint64_t{0x1fff} & 0xffffffff));
  Value* exponent = ir.CreateAnd(bits, int_constant(bits, 0x7f800000));
  Value* special = ir.CreateICmpEQ(exponent, int_constant(bits, 0x7f800000));
  return ir.CreateBitCast(ir.CreateSelect(special, bits, rounded), x->getType());
}

bool is_one(Value* x) {
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(x);
  return constant && constant->isOne();
}

// The operand in memory, with unit stride along this axis; null where it is not.
std::optional<Nest::MemoryView> in_memory(Context& ctx, ValueId id, int along, const Nest::Extents& read = {}) {
  Nest nest(ctx, dsl::concrete_shape(ctx.type(id)));
  auto view = nest.memory_view(id, read);
  const auto axis = static_cast<size_t>(along);
  if (!view || (dsl::concrete_shape(ctx.type(id))[axis] > 1 && !is_one(view->strides[axis]))) return std::nullopt;
  return view;
}
std::optional<Nest::MemoryView> rows_in_memory(Context& ctx, ValueId id, const Nest::Extents& read = {}) {
  return in_memory(ctx, id, ctx.type(id).rank() - 1, read);
}

// The operand lies in scratch that the next iteration of a loop may write.
bool in_slot(const Context& ctx, ValueId id) {
  for (const Op* op = ctx.schedule.definition[id]; !ctx.slots[id] && op && op->code == OpCode::kPermute;
       op = ctx.schedule.definition[id]) {
    id = op->operands[0];
  }
  return ctx.slots[id] || !ctx.schedule.definition[id] || ctx.schedule.definition[id]->code != OpCode::kLoad;
}

// Index of the batch in a nest over a whole operand.
Value* batch_index(Context& ctx, const Nest& nest) { return nest.rank() == 3 ? nest.index(0) : ctx.i64(0); }

Value* offset_by(Context& ctx, Value* pointer, std::initializer_list<std::pair<Value*, int64_t>> terms) {
  Value* total = ctx.i64(0);
  for (const auto& [index, distance] : terms)
    total = ctx.ir.CreateAdd(total, ctx.ir.CreateMul(index, ctx.i64(distance)));
  return ctx.ir.CreateInBoundsGEP(ctx.ir.getInt8Ty(), pointer, total);
}

}  // namespace

Value* to_packed(Context& ctx, Builder& ir, const DotForm& form, ElementType from, Value* x) {
  if (form.round_tf32) return round_to_tf32(ir, x);
  if (form.packed == ElementType::kF16) return ir.CreateBitCast(x, like(x, ir.getInt16Ty()));
  if (from == form.packed || dsl::info(form.packed).bits == 8) return x;
  if (form.packed == ElementType::kBF16) {
    Value* bits = ir.CreateBitCast(to_f32(ctx, ir, from, x), like(x, ir.getInt32Ty()));
    return ir.CreateTrunc(ir.CreateLShr(bits, int_constant(bits, 16)), like(x, ir.getInt16Ty()));
  }
  if (dsl::is_small_float(from)) return to_f32(ctx, ir, from, x);
  llvm::Type* type = like(x, ir.getIntNTy(static_cast<unsigned>(dsl::info(form.packed).bits)));
  return dsl::info(from).is_signed ? ir.CreateSExt(x, type) : ir.CreateZExt(x, type);
}

Value* reserve(Context& ctx, int64_t bytes) {
  ScratchSlot slot;
  slot.offset = ctx.scratch_bytes;
  ctx.scratch_bytes += static_cast<uint64_t>(round_up(bytes, 64) + 64);
  return scratch_slot_address(ctx, slot);
}

void fill_bytes(Context& ctx, Value* pointer, int value, int64_t bytes) {
  auto* vector = llvm::FixedVectorType::get(ctx.ir.getInt8Ty(), static_cast<unsigned>(ctx.target.vector_bytes));
  emit_loop(
      ctx.ir, ctx.i64(0), ctx.i64(round_up(bytes, ctx.target.vector_bytes)), ctx.i64(ctx.target.vector_bytes), "fill",
      [](llvm::Instruction*) {},
      [&](Value* at) {
        ctx.ir.CreateAlignedStore(llvm::ConstantInt::get(vector, static_cast<uint64_t>(value)),
                                  ctx.ir.CreateInBoundsGEP(ctx.ir.getInt8Ty(), pointer, at), llvm::Align(1));
      });
}

// Rows and panels a page apart would meet in the same sets of the cache.
int64_t packed_row_bytes(const DotBlocking& blocking) {
  const int64_t bytes = round_up(blocking.k_units * blocking.form.group, kPackWidth) * blocking.packed_bytes();
  return bytes % (kPage / 4) == 0 ? bytes + 64 : bytes;
}
int64_t packed_panel_bytes(const DotBlocking& blocking) {
  const int64_t row = blocking.panel() * blocking.b_bytes(), bytes = blocking.k_units * row;
  return bytes % kPage == 0 ? bytes + row : bytes;
}

// Row-major, by way of a nest: whatever produces A, and where it ends before the tile does.
Result<void> pack_a_rows(Context& ctx, const DotBlocking& blocking, ValueId id, Value* packed,
                         const std::optional<Nest::Listed>& listed) {
  const DotForm& form = blocking.form;
  const int row = ctx.type(id).rank() - 2, bytes = blocking.packed_bytes();
  const int64_t row_bytes = packed_row_bytes(blocking);
  const bool padded = blocking.k % form.k_multiple != 0;
  auto store = [&](Nest& nest, Value* lanes) {
    Builder& ir = ctx.ir;
    Value* value = to_packed(ctx, ir, form, form.a, nest.splat(lanes));
    if (form.flip_a) value = ir.CreateXor(value, int_constant(value, 0x80));
    if (padded) {
      Value* inside = nest.lanes_below(ctx.i64(blocking.k));
      value = ir.CreateSelect(inside, value, llvm::Constant::getNullValue(value->getType()));
    }
    Value* where = offset_by(
        ctx, packed,
        {{batch_index(ctx, nest), blocking.m * row_bytes}, {nest.index(row), row_bytes}, {nest.index(row + 1), bytes}});
    ir.CreateAlignedStore(value, where, llvm::Align(static_cast<uint64_t>(bytes)));
  };
  return pack(ctx, id, row + 1, kPackWidth, store, listed);
}

namespace {

// Where an operand lies in memory, in bytes; rows are what is transposed to become columns of panels.
struct Source {
  Value *pointer, *row, *batch;
};

Source source_of(Context& ctx, const Nest::MemoryView& view, int row, int row_axis, int bytes) {
  auto distance = [&](int axis) -> Value* {
    return axis < 0 ? ctx.i64(0) : ctx.ir.CreateMul(view.strides[static_cast<size_t>(axis)], ctx.i64(bytes));
  };
  return {view.pointer, distance(row), distance(row_axis - 1)};
}

}  // namespace

namespace {

// K-major already: read where it lies if it needs no conversion, else and at edges copied as it lies.
Result<OperandA> pack_a_columns(Context& ctx, const DotBlocking& blocking, ValueId id, const Nest::MemoryView& view,
                                bool as_packed) {
  Builder& ir = ctx.ir;
  const int row = ctx.type(id).rank() - 2, bytes = dsl::info(blocking.form.a).bytes;
  const int64_t unit = blocking.unit_bytes, column_bytes = round_up(blocking.m, kPackWidth) * unit;
  const auto [packed, present, stays] = cache_operand(ctx, id, blocking.batch * blocking.k * column_bytes);
  OperandA out{LayoutA::kColumns, packed, ctx.i64(unit), ctx.i64(column_bytes), ctx.i64(blocking.k * column_bytes)};
  Value* in_place = ir.getFalse();
  if (as_packed) {
    const Source source = source_of(ctx, view, row + 1, row, bytes);
    in_place = view.whole;
    out.pointer = ir.CreateSelect(in_place, source.pointer, packed);
    out.distance = ir.CreateSelect(in_place, source.row, out.distance);
    out.batch = ir.CreateSelect(in_place, source.batch, out.batch);
  }
  auto done = unless(ctx, ir.CreateOr(in_place, present), [&, packed = packed] {
    return pack(ctx, id, row, kPackWidth, [&](Nest& nest, Value* lanes) {
      Value* value = to_packed(ctx, ir, blocking.form, blocking.form.a, nest.splat(lanes));
      Value* where = offset_by(ctx, packed,
                               {{batch_index(ctx, nest), blocking.k * column_bytes},
                                {nest.index(row + 1), column_bytes},
                                {nest.index(row), unit}});
      ir.CreateAlignedStore(value, where, llvm::Align(static_cast<uint64_t>(unit)));
    });
  });
  if (!done) return done.error();
  return out;
}

}  // namespace

bool lies_by_columns(Context& ctx, ValueId id) { return in_memory(ctx, id, ctx.type(id).rank() - 2).has_value(); }

Result<OperandA> rows_of_columns(Context& ctx, const DotBlocking& blocking, ValueId id, Value* steps) {
  Builder& ir = ctx.ir;
  const int row = ctx.type(id).rank() - 2,
            bytes = blocking.widen_rows ? dsl::info(blocking.form.b).bytes : blocking.unit_bytes;
  const int64_t row_bytes = round_up(blocking.k, kPackWidth) * bytes;
  const auto [packed, present, stays] = cache_operand(ctx, id, blocking.batch * blocking.m * row_bytes);
  OperandA out{LayoutA::kRows, packed, ctx.i64(row_bytes), ctx.i64(row_bytes), ctx.i64(blocking.m * row_bytes)};
  Value* in_place = ir.getFalse();
  Nest::Extents read;
  if (blocking.some_steps) read.emplace_back(row, steps);
  const auto view = in_memory(ctx, id, row, read);
  if (view && (blocking.widen_rows || (blocking.form.b == blocking.form.packed && !blocking.form.round_tf32))) {
    const Source source = source_of(ctx, *view, row + 1, row, bytes);
    in_place = view->whole;
    out.pointer = ir.CreateSelect(in_place, source.pointer, packed);
    out.block = out.distance = ir.CreateSelect(in_place, source.row, out.block);
    out.batch = ir.CreateSelect(in_place, source.batch, out.batch);
  }
  auto done = unless(ctx, ir.CreateOr(in_place, present), [&, packed = packed] {
    return pack(ctx, id, row, kPackWidth, [&](Nest& nest, Value* lanes) {
      Value* value = nest.splat(lanes);
      if (!blocking.widen_rows) value = to_packed(ctx, ir, blocking.form, blocking.form.b, value);
      Value* where = offset_by(ctx, packed,
                               {{batch_index(ctx, nest), blocking.m * row_bytes},
                                {nest.index(row + 1), row_bytes},
                                {nest.index(row), bytes}});
      ir.CreateAlignedStore(value, where, llvm::Align(static_cast<uint64_t>(bytes)));
    });
  });
  if (!done) return done.error();
  return out;
}

namespace {
Result<OperandA> pack_a_pairs(Context& ctx, const DotBlocking& blocking, ValueId id, const Nest::MemoryView& view);
}

Result<OperandA> pack_a(Context& ctx, const DotBlocking& blocking, ValueId id, Value* steps, Value* rows) {
  Builder& ir = ctx.ir;
  const DotForm& form = blocking.form;
  const int row = ctx.type(id).rank() - 2, bits = dsl::info(form.a).bits;
  const bool as_packed = bits == dsl::info(form.packed).bits && !form.round_tf32 && !form.flip_a;
  if (blocking.scattered_a && !ctx.slots[id]) {
    return point_at_rows(ctx, blocking, id, steps, rows, cache_operand(ctx, id, bytes_of_rows(ctx, blocking)));
  }
  if (blocking.tiles() && as_packed && blocking.k % form.k_multiple == 0 && !ctx.slots[id] &&
      has_scattered_rows(ctx, id)) {
    return gather_rows(ctx, blocking, id, steps, rows);
  }
  Nest::Extents read;
  if (blocking.some_steps) read.emplace_back(row + 1, steps);
  if (form.step == Step::kFma && !blocking.along_k && blocking.k > 1 && blocking.m > 1) {
    if (const auto view = in_memory(ctx, id, row, read)) return pack_a_columns(ctx, blocking, id, *view, as_packed);
  }
  if (form.step == Step::kBf16Pairs && as_packed && blocking.k % 2 == 0 && blocking.m > 1) {
    if (const auto view = in_memory(ctx, id, row)) return pack_a_pairs(ctx, blocking, id, *view);
  }
  const int64_t row_bytes = packed_row_bytes(blocking);
  const auto [packed, present, stays] = cache_operand(ctx, id, blocking.batch * blocking.m * row_bytes);
  OperandA out{LayoutA::kRows, packed, ctx.i64(row_bytes), ctx.i64(row_bytes), ctx.i64(blocking.m * row_bytes)};
  Value* in_place = ir.getFalse();
  const auto view = rows_in_memory(ctx, id, read);
  if (view && as_packed && blocking.k % form.k_multiple == 0) {
    const Source source = source_of(ctx, *view, row, row, dsl::info(form.a).bytes);
    // Rows that meet in the same sets of the cache are better copied; a step of tiles takes a line of 32 of them.
    const int64_t apart = blocking.tiles() ? kPage / 4 : kPage;
    Value* spread = ir.CreateICmpNE(ir.CreateAnd(source.row, ctx.i64(apart - 1)), ctx.i64(0));
    in_place = ir.CreateAnd(view->whole, blocking.block.rows <= 8 || blocking.m == 1 ? ir.getTrue() : spread);
    out.pointer = ir.CreateSelect(in_place, source.pointer, packed);
    out.block = out.distance = ir.CreateSelect(in_place, source.row, out.block);
    out.batch = ir.CreateSelect(in_place, source.batch, out.batch);
  }
  auto done = unless(ctx, ir.CreateOr(in_place, present),
                     [&, packed = packed] { return pack_a_rows(ctx, blocking, id, packed); });
  if (!done) return done.error();
  return out;
}

namespace {

// Columns n…n+lanes-1 of row k lie at panel(n) + k·NR + n mod NR.
Value* panel_place(Context& ctx, const DotBlocking& blocking, Value* batch, Value* k, Value* n) {
  return ctx.ir.CreateAdd(
      ctx.ir.CreateAdd(
          ctx.ir.CreateMul(batch, ctx.i64(blocking.panels() * packed_panel_bytes(blocking))),
          ctx.ir.CreateMul(ctx.ir.CreateUDiv(n, ctx.i64(blocking.panel())), ctx.i64(packed_panel_bytes(blocking)))),
      ctx.ir.CreateMul(ctx.ir.CreateAdd(ctx.ir.CreateMul(k, ctx.i64(blocking.panel())),
                                        ctx.ir.CreateURem(n, ctx.i64(blocking.panel()))),
                       ctx.i64(blocking.b_bytes())));
}

// Rows a little ahead of the one that is being copied: the processor follows a row, but does not see the next one
// coming.
void prefetch_rows(Context& ctx, const Nest& nest, const Nest::MemoryView& view, int bytes) {
  constexpr int64_t kRowsAhead = 4;
  Builder& ir = ctx.ir;
  const int rank = nest.rank();
  Value* place = nest.index(rank - 1);
  for (int axis = 0; axis + 1 < rank; ++axis) {
    Value* index = axis == rank - 2 ? ir.CreateAdd(nest.index(axis), ctx.i64(kRowsAhead)) : nest.index(axis);
    place = ir.CreateAdd(place, ir.CreateMul(index, view.strides[static_cast<size_t>(axis)]));
  }
  Value* pointer = offset_by(ctx, view.pointer, {{place, bytes}});
  for (int64_t at = 0; at < int64_t{nest.width()} * bytes; at += kLine)
    prefetch(ir, offset_by(ctx, pointer, {{ctx.i64(at), 1}}));
}

// One number a unit, straight from the producer. `view`: where it lies, if it lies in memory.
Result<void> pack_rows(Context& ctx, const DotBlocking& blocking, ValueId id,
                       const std::optional<Nest::MemoryView>& view, Value* packed) {
  const int row = ctx.type(id).rank() - 2;
  // Chunks divide a panel, and are a power of two.
  const int64_t parts = blocking.block.vectors & -blocking.block.vectors;
  const int width = static_cast<int>(std::min<int64_t>(kPackWidth, parts * blocking.lanes));
  const llvm::Align align(static_cast<uint64_t>(blocking.b_bytes()));
  return pack(ctx, id, row + 1, width, [&](Nest& nest, Value* lanes) {
    Value* value = nest.splat(lanes);
    if (view) prefetch_rows(ctx, nest, *view, dsl::info(blocking.form.b).bytes);
    if (!blocking.widen_b) value = to_packed(ctx, ctx.ir, blocking.form, blocking.form.b, value);
    Value* place = panel_place(ctx, blocking, batch_index(ctx, nest), nest.index(row), nest.index(row + 1));
    ctx.ir.CreateAlignedStore(value, ctx.ir.CreateInBoundsGEP(ctx.ir.getInt8Ty(), packed, place), align);
  });
}

// `group` rows from memory become one row of units. `rows` of them exist; the others count as zero.
struct Interleave {
  Context& ctx;
  const DotBlocking& blocking;
  Value *source, *row_bytes, *packed, *correction;

  // A chunk of columns of one row of units. `active`: the columns that exist; null for all.
  void chunk(Value* batch, Value* unit_row, Value* n, int rows, Value* active) const {
    Builder& ir = ctx.ir;
    const DotForm& form = blocking.form;
    const int bytes = dsl::info(form.b).bytes, bits = 32 / form.group;
    auto* vector = vector_of(blocking, register_type(ir.getContext(), dsl::scalar_type(form.b)));
    Value* first =
        ir.CreateInBoundsGEP(ir.getInt8Ty(), source,
                             ir.CreateAdd(ir.CreateMul(ir.CreateMul(unit_row, ctx.i64(form.group)), row_bytes),
                                          ir.CreateMul(n, ctx.i64(bytes))));
    const llvm::Align align(static_cast<uint64_t>(bytes));
    Value* unit = llvm::Constant::getNullValue(vector_of(blocking, ir.getInt32Ty()));
    for (int i = 0; i < rows; ++i) {
      Value* pointer = ir.CreateInBoundsGEP(ir.getInt8Ty(), first, ir.CreateMul(row_bytes, ctx.i64(i)));
      Value* x = active ? ir.CreateMaskedLoad(vector, pointer, align, active, llvm::Constant::getNullValue(vector))
                        : static_cast<Value*>(ir.CreateAlignedLoad(vector, pointer, align));
      Value* wide = ir.CreateZExt(to_packed(ctx, ir, form, form.b, x), vector_of(blocking, ir.getInt32Ty()));
      if (i > 0) wide = ir.CreateShl(wide, int_constant(wide, static_cast<uint64_t>(i) * static_cast<uint64_t>(bits)));
      unit = ir.CreateOr(unit, wide);
    }
    Value* place = panel_place(ctx, blocking, batch, unit_row, n);
    ir.CreateAlignedStore(unit, ir.CreateInBoundsGEP(ir.getInt8Ty(), packed, place), llvm::Align(4));
    if (!correction) return;
    // What the flipped bits of A add: ±128 times the sum of the column.
    Value* total =
        ir.CreateInBoundsGEP(ir.getInt32Ty(), correction,
                             ir.CreateAdd(ir.CreateMul(batch, ctx.i64(blocking.panels() * blocking.panel())), n));
    Value* before = ir.CreateAlignedLoad(unit->getType(), total, llvm::Align(4));
    ir.CreateAlignedStore(step_forward(ctx, ir, form, int_constant(unit, 0x80808080), unit, before), total,
                          llvm::Align(4));
  }

  void row(Value* batch, Value* unit_row, int rows) const {
    const int64_t whole = blocking.n / blocking.lanes * blocking.lanes;
    emit_loop(
        ctx.ir, ctx.i64(0), ctx.i64(whole), ctx.i64(blocking.lanes), "column", [](llvm::Instruction*) {},
        [&](Value* n) { chunk(batch, unit_row, n, rows, nullptr); });
    if (whole == blocking.n) return;
    std::vector<llvm::Constant*> exists;
    for (int64_t i = 0; i < blocking.lanes; ++i) exists.push_back(ctx.ir.getInt1(whole + i < blocking.n));
    chunk(batch, unit_row, ctx.i64(whole), rows, llvm::ConstantVector::get(exists));
  }

  void run(Value* batch) const {
    auto none = [](llvm::Instruction*) {};
    const int group = blocking.form.group;
    const int64_t whole = blocking.k / group;
    emit_loop(ctx.ir, ctx.i64(0), ctx.i64(whole), ctx.i64(1), "units", none, [&](Value* k) { row(batch, k, group); });
    if (blocking.k % group != 0) row(batch, ctx.i64(whole), static_cast<int>(blocking.k % group));
    emit_loop(ctx.ir, ctx.i64((blocking.k + group - 1) / group), ctx.i64(blocking.k_units), ctx.i64(1), "zeros", none,
              [&](Value* k) { row(batch, k, 0); });
  }
};

// Columns of A that lie one number behind the other: as B is packed, in a single panel, so that the pairs of a column
// follow each other. At the edges number by number: the second of a pair joins the first.
Result<OperandA> pack_a_pairs(Context& ctx, const DotBlocking& blocking, ValueId id, const Nest::MemoryView& view) {
  Builder& ir = ctx.ir;
  const int row = ctx.type(id).rank() - 2;
  DotBlocking columns = blocking;
  columns.form.b = blocking.form.a;
  columns.n = blocking.m;
  columns.block.vectors = static_cast<int>(round_up(blocking.m, kPackWidth) / blocking.lanes);
  const int64_t column_bytes = columns.panel() * blocking.unit_bytes, batch_bytes = packed_panel_bytes(columns);
  const auto [packed, present, stays] = cache_operand(ctx, id, blocking.batch * batch_bytes);
  const Source source = source_of(ctx, view, row + 1, row, 2);
  auto from_memory = [&, packed = packed]() -> Result<void> {
    emit_loop(
        ir, ctx.i64(0), ctx.i64(blocking.batch), ctx.i64(1), "batch", [](llvm::Instruction*) {},
        [&](Value* batch) {
          Value* here = ir.CreateInBoundsGEP(ir.getInt8Ty(), source.pointer, ir.CreateMul(batch, source.batch));
          Interleave{ctx, columns, here, source.row, packed, nullptr}.run(batch);
        });
    return {};
  };
  auto one_by_one = [&, packed = packed] {
    return pack(ctx, id, row, kPackWidth, [&](Nest& nest, Value* lanes) {
      Value* value = nest.splat(lanes);
      value = ir.CreateZExt(value, like(value, ir.getInt32Ty()));
      Value* k = nest.index(row + 1);
      Value* where = offset_by(ctx, packed,
                               {{batch_index(ctx, nest), batch_bytes},
                                {ir.CreateLShr(k, 1), column_bytes},
                                {nest.index(row), blocking.unit_bytes}});
      Value* first = ir.CreateAlignedLoad(value->getType(), where, llvm::Align(4));
      Value* second = ir.CreateOr(first, ir.CreateShl(value, int_constant(value, 16)));
      Value* is_second = ir.CreateTrunc(k, ir.getInt1Ty());
      ir.CreateAlignedStore(ir.CreateSelect(is_second, second, value), where, llvm::Align(4));
    });
  };
  auto done = unless(ctx, present, [&]() -> Result<void> {
    if (auto whole = unless(ctx, ir.CreateNot(view.whole), from_memory); !whole) return whole;
    return unless(ctx, view.whole, one_by_one);
  });
  if (!done) return done.error();
  return OperandA{LayoutA::kColumns, packed, ctx.i64(blocking.unit_bytes), ctx.i64(column_bytes), ctx.i64(batch_bytes)};
}

// Several numbers a unit: from memory, where the operand is put first if it does not lie there.
Result<void> pack_units(Context& ctx, const DotBlocking& blocking, ValueId id, Value* packed, Value* correction) {
  Builder& ir = ctx.ir;
  const int row = ctx.type(id).rank() - 2, bytes = dsl::info(blocking.form.b).bytes;
  const auto view = rows_in_memory(ctx, id);
  Value* whole = view ? view->whole : ir.getFalse();
  auto distance = [&](int axis) {
    return axis < 0 ? static_cast<Value*>(ctx.i64(0))
                    : ir.CreateMul(view->strides[static_cast<size_t>(axis)], ctx.i64(bytes));
  };
  Value *source = view ? view->pointer : nullptr, *row_bytes = view ? distance(row) : nullptr,
        *batch_bytes = view ? distance(row - 1) : nullptr;
  auto* known = llvm::dyn_cast<llvm::ConstantInt>(whole);
  if (!known || !known->isOne()) {
    const ScratchSlot slot = allocate_scratch_slot(ctx, ctx.type(id));
    auto done = unless(ctx, whole, [&] { return materialise(ctx, id, slot); });
    if (!done) return done;
    auto choose = [&](Value* in_place, Value* copied) {
      return in_place ? ir.CreateSelect(whole, in_place, copied) : copied;
    };
    source = choose(source, scratch_slot_address(ctx, slot));
    row_bytes = choose(row_bytes, ctx.i64(slot.strides[static_cast<size_t>(row)] * bytes));
    batch_bytes = choose(batch_bytes, ctx.i64(row > 0 ? slot.strides[0] * bytes : 0));
  }
  emit_loop(
      ir, ctx.i64(0), ctx.i64(blocking.batch), ctx.i64(1), "batch", [](llvm::Instruction*) {},
      [&](Value* batch) {
        Value* here = ir.CreateInBoundsGEP(ir.getInt8Ty(), source, ir.CreateMul(batch, batch_bytes));
        Interleave{ctx, blocking, here, row_bytes, packed, correction}.run(batch);
      });
  return {};
}

// K runs along the columns of B in memory.
Result<void> pack_columns(Context& ctx, const DotBlocking& blocking, ValueId id, const Nest::MemoryView& view,
                          Value* packed) {
  Builder& ir = ctx.ir;
  const int row = ctx.type(id).rank() - 2;
  auto done = unless(ctx, view.whole, [&] {
    return blocking.form.group > 1 ? pack_units(ctx, blocking, id, packed, nullptr)
                                   : pack_rows(ctx, blocking, id, std::nullopt, packed);
  });
  if (!done) return done;
  const Source source = source_of(ctx, view, row + 1, row, dsl::info(blocking.form.b).bytes);
  return unless(ctx, ir.CreateNot(view.whole), [&]() -> Result<void> {
    emit_loop(
        ir, ctx.i64(0), ctx.i64(blocking.batch), ctx.i64(1), "batch", [](llvm::Instruction*) {},
        [&](Value* batch) {
          Transposition t{blocking.form.b, nullptr, source.row, nullptr};
          t.source = ir.CreateInBoundsGEP(ir.getInt8Ty(), source.pointer, ir.CreateMul(batch, source.batch));
          t.to = offset_by(ctx, packed, {{batch, blocking.panels() * packed_panel_bytes(blocking)}});
          t.distance = packed_panel_bytes(blocking) / blocking.panel();
          t.end = blocking.n;
          t.width = blocking.panel();
          emit_transposed(ctx, blocking, t);
        });
    return {};
  });
}

// Where B is better read where it lies than packed, rows `stride` bytes apart: if they follow each other as those of a
// panel do, or if few blocks read them and they do not fight for the sets of the first cache.
Value* is_better_in_place(Context& ctx, const DotBlocking& blocking, Value* pointer, Value* stride) {
  Builder& ir = ctx.ir;
  const int64_t row = blocking.panel() * blocking.b_bytes();
  if (blocking.m <= blocking.block.rows) return ir.getTrue();  // read once
  Value* is_panel = blocking.n == blocking.panel() ? ir.CreateICmpEQ(stride, ctx.i64(row)) : ir.getFalse();
  if (blocking.m > kInPlaceRows) return is_panel;
  Value* near = ir.CreateICmpULT(stride, ctx.i64(kPage));
  if (blocking.m > kUnalignedRows) {
    Value* bits = ir.CreateOr(stride, ir.CreatePtrToInt(pointer, ir.getInt64Ty()));
    near = ir.CreateAnd(near, ir.CreateICmpEQ(ir.CreateAnd(bits, ctx.i64(kLine - 1)), ctx.i64(0)));
  }
  if (row <= kLine && blocking.m > kFewBlocks * blocking.block.rows) {
    // Their lines begin in one of 4096 / `step` sets.
    Value* step = ir.CreateAnd(stride, ir.CreateNeg(stride));
    step = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umax, step, ctx.i64(kLine));
    Value* lines = ir.CreateMul(step, ctx.i64(blocking.k_units));
    near = ir.CreateAnd(near, ir.CreateICmpULE(lines, ctx.i64(kPage * kWays)));
  }
  return ir.CreateOr(is_panel, near);
}

}  // namespace

Result<OperandB> pack_b(Context& ctx, const DotBlocking& blocking, ValueId id, Value* steps) {
  Builder& ir = ctx.ir;
  const DotForm& form = blocking.form;
  const int row = ctx.type(id).rank() - 2, bytes = blocking.b_bytes();
  const int64_t panel_bytes = packed_panel_bytes(blocking), batch_bytes = blocking.panels() * panel_bytes;
  const int64_t packed_bytes = round_up(blocking.batch * batch_bytes + transposed_overrun(blocking), 64);
  const int64_t correction_batch = form.flip_a ? blocking.panels() * blocking.panel() * 4 : 0;
  const int64_t note_at = packed_bytes + round_up(blocking.batch * correction_batch, 64);
  const auto kept = cache_operand(ctx, id, note_at + (blocking.leaves_out ? 8 : 0));
  Value *packed = kept.pointer, *present = kept.present;
  OperandB out{packed,
               ctx.i64(blocking.panel() * bytes),
               ctx.i64(panel_bytes),
               ctx.i64(batch_bytes),
               kept.stays,
               nullptr,
               correction_batch};
  if (blocking.leaves_out) out.note = offset_by(ctx, packed, {{ctx.i64(note_at), 1}});
  out.is_new = ir.CreateNot(present);
  out.in_place = ir.getFalse();
  auto finish = [&](Value* skip, llvm::function_ref<Result<void>()> fill) -> Result<OperandB> {
    if (auto done = unless(ctx, skip, fill); !done) return done.error();
    return out;
  };
  if (!blocking.widen_b && !form.flip_a && can_transpose(blocking)) {
    if (const auto columns = in_memory(ctx, id, row); columns && blocking.n >= blocking.lanes) {
      return finish(present, [&] { return pack_columns(ctx, blocking, id, *columns, packed); });
    }
  }
  if (form.group > 1) {
    const bool has_correction = form.flip_a && !blocking.corrects_itself;
    if (has_correction) out.correction = offset_by(ctx, packed, {{ctx.i64(packed_bytes), 1}});
    auto fill = [&] {
      if (has_correction) fill_bytes(ctx, out.correction, 0, blocking.batch * correction_batch);
      return pack_units(ctx, blocking, id, packed, out.correction);
    };
    if (!ctx.slots[id] && ctx.schedule.definition[id]->code == OpCode::kReshape)
      return read_units(ctx, blocking, id, out, units_in_memory(ctx, blocking, id), fill);
    return finish(present, fill);
  }

  Value* in_place = ir.getFalse();
  const bool as_packed = blocking.widen_b || (form.packed == form.b && !form.round_tf32);
  Nest::Extents read;
  if (blocking.some_steps) read.emplace_back(row, steps);
  const auto view = rows_in_memory(ctx, id, read);
  const bool is_filled_up = blocking.k % form.k_multiple != 0;
  if (view && as_packed && !is_filled_up && (blocking.n % blocking.panel() == 0 || blocking.masks_columns)) {
    Value* stride = ir.CreateMul(view->strides[static_cast<size_t>(row)], ctx.i64(bytes));
    Value* better = blocking.along_k ? ir.CreateICmpEQ(stride, ctx.i64(bytes))
                                     : is_better_in_place(ctx, blocking, view->pointer, stride);
    in_place = out.in_place = ir.CreateAnd(view->whole, better);
    out.pointer = ir.CreateSelect(in_place, view->pointer, packed);
    out.row = ir.CreateSelect(in_place, stride, out.row);
    if (!in_slot(ctx, id)) out.stays = ir.CreateOr(in_place, out.stays);
    out.panel = ir.CreateSelect(in_place, ctx.i64(blocking.panel() * bytes), out.panel);
    if (row > 0) out.batch = ir.CreateSelect(in_place, ir.CreateMul(view->strides[0], ctx.i64(bytes)), out.batch);
  }
  return finish(ir.CreateOr(in_place, present), [&] {
    if (is_filled_up) fill_bytes(ctx, packed, 0, blocking.batch * batch_bytes);
    return pack_rows(ctx, blocking, id, view, packed);
  });
}

}  // namespace kiln::codegen::cpu
