// Operands of dot, packed into scratch. Single numbers a unit go there straight from their producers; where a unit
// holds neighbours along K, rows of B are interleaved from memory. What already lies as the micro-kernel wants it is
// not packed at all: whether that is so may turn out at run time only (masks, strides), hence the selects.
#include "cpu/dot/dot_pack.h"

#include "cpu/dot/dot_form.h"
#include "cpu/dot/dot_keep.h"
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
Value* round_to_tf32(Builder& b, Value* x) {
  Value* bits = b.CreateBitCast(x, like(x, b.getInt32Ty()));
  Value* odd = b.CreateAnd(b.CreateLShr(bits, int_constant(bits, 13)), int_constant(bits, 1));
  Value* rounded = b.CreateAnd(b.CreateAdd(bits, b.CreateAdd(odd, int_constant(bits, 0xfff))),
                               int_constant(bits, ~uint64_t{0x1fff} & 0xffffffff));
  Value* exponent = b.CreateAnd(bits, int_constant(bits, 0x7f800000));
  Value* special = b.CreateICmpEQ(exponent, int_constant(bits, 0x7f800000));
  return b.CreateBitCast(b.CreateSelect(special, bits, rounded), x->getType());
}

bool is_one(Value* x) {
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(x);
  return constant && constant->isOne();
}

// The operand in memory, with unit stride along this axis; null where it is not.
std::optional<Nest::MemoryView> in_memory(Context& c, ValueId id, int along, const Nest::Extents& read = {}) {
  Nest nest(c, dsl::concrete_shape(c.type(id)));
  auto view = nest.memory_view(id, read);
  const auto axis = static_cast<size_t>(along);
  if (!view || (dsl::concrete_shape(c.type(id))[axis] > 1 && !is_one(view->strides[axis]))) return std::nullopt;
  return view;
}
std::optional<Nest::MemoryView> rows_in_memory(Context& c, ValueId id, const Nest::Extents& read = {}) {
  return in_memory(c, id, c.type(id).rank() - 1, read);
}

// The operand lies in scratch that the next turn of a loop may write.
bool in_slot(const Context& c, ValueId id) {
  for (const Op* op = c.schedule.definition[id]; !c.slots[id] && op && op->code == OpCode::kPermute;
       op = c.schedule.definition[id]) {
    id = op->operands[0];
  }
  return c.slots[id] || !c.schedule.definition[id] || c.schedule.definition[id]->code != OpCode::kLoad;
}

// Index of the batch in a nest over a whole operand.
Value* batch_index(Context& c, const Nest& nest) { return nest.rank() == 3 ? nest.index(0) : c.i64(0); }

Value* offset_by(Context& c, Value* pointer, std::initializer_list<std::pair<Value*, int64_t>> terms) {
  Value* total = c.i64(0);
  for (const auto& [index, distance] : terms) total = c.b.CreateAdd(total, c.b.CreateMul(index, c.i64(distance)));
  return c.b.CreateInBoundsGEP(c.b.getInt8Ty(), pointer, total);
}

}  // namespace

Value* to_packed(Context& c, Builder& b, const DotForm& form, ElementType from, Value* x) {
  if (form.round_tf32) return round_to_tf32(b, x);
  if (from == form.packed || dsl::info(form.packed).bits == 8) return x;
  if (form.packed == ElementType::kBF16) {
    Value* bits = b.CreateBitCast(to_f32(c, b, from, x), like(x, b.getInt32Ty()));
    return b.CreateTrunc(b.CreateLShr(bits, int_constant(bits, 16)), like(x, b.getInt16Ty()));
  }
  if (dsl::is_small_float(from)) return to_f32(c, b, from, x);
  llvm::Type* type = like(x, b.getIntNTy(static_cast<unsigned>(dsl::info(form.packed).bits)));
  return dsl::info(from).is_signed ? b.CreateSExt(x, type) : b.CreateZExt(x, type);
}

Value* reserve(Context& c, int64_t bytes) {
  Slot slot;
  slot.offset = c.scratch_bytes;
  c.scratch_bytes += static_cast<uint64_t>(round_up(bytes, 64) + 64);
  return slot_address(c, slot);
}

void fill_bytes(Context& c, Value* pointer, int value, int64_t bytes) {
  auto* vector = llvm::FixedVectorType::get(c.b.getInt8Ty(), static_cast<unsigned>(c.target.vector_bytes));
  emit_loop(
      c.b, c.i64(0), c.i64(round_up(bytes, c.target.vector_bytes)), c.i64(c.target.vector_bytes), "fill",
      [](llvm::Instruction*) {},
      [&](Value* at) {
        c.b.CreateAlignedStore(llvm::ConstantInt::get(vector, static_cast<uint64_t>(value)),
                               c.b.CreateInBoundsGEP(c.b.getInt8Ty(), pointer, at), llvm::Align(1));
      });
}

// Rows and panels a page apart would meet in the same sets of the cache.
int64_t packed_row_bytes(const DotPlan& plan) {
  const int64_t bytes = round_up(plan.k_units * plan.form.group, kPackWidth) * plan.packed_bytes();
  return bytes % (kPage / 4) == 0 ? bytes + 64 : bytes;
}
int64_t packed_panel_bytes(const DotPlan& plan) {
  const int64_t row = plan.panel() * plan.b_bytes(), bytes = plan.k_units * row;
  return bytes % kPage == 0 ? bytes + row : bytes;
}

// Row-major, by way of a nest: whatever produces A, and where it ends before the tile does.
Result<void> pack_a_rows(Context& c, const DotPlan& plan, ValueId id, Value* packed,
                         const std::optional<Nest::Listed>& listed) {
  const DotForm& form = plan.form;
  const int row = c.type(id).rank() - 2, bytes = plan.packed_bytes();
  const int64_t row_bytes = packed_row_bytes(plan);
  const bool padded = plan.k % form.k_multiple != 0;
  auto store = [&](Nest& nest, Value* lanes) {
    Builder& b = c.b;
    Value* value = to_packed(c, b, form, form.a, nest.splat(lanes));
    if (form.flip_a) value = b.CreateXor(value, int_constant(value, 0x80));
    if (padded) {
      Value* inside = nest.lanes_below(c.i64(plan.k));
      value = b.CreateSelect(inside, value, llvm::Constant::getNullValue(value->getType()));
    }
    Value* where = offset_by(
        c, packed,
        {{batch_index(c, nest), plan.m * row_bytes}, {nest.index(row), row_bytes}, {nest.index(row + 1), bytes}});
    b.CreateAlignedStore(value, where, llvm::Align(static_cast<uint64_t>(bytes)));
  };
  return pack(c, id, row + 1, kPackWidth, store, listed);
}

namespace {

// Where an operand lies in memory, in bytes; rows are what is transposed to become columns of panels.
struct Source {
  Value *pointer, *row, *batch;
};

Source source_of(Context& c, const Nest::MemoryView& view, int row, int row_axis, int bytes) {
  auto distance = [&](int axis) -> Value* {
    return axis < 0 ? c.i64(0) : c.b.CreateMul(view.strides[static_cast<size_t>(axis)], c.i64(bytes));
  };
  return {view.pointer, distance(row), distance(row_axis - 1)};
}

}  // namespace

namespace {

// K-major already: read where it lies if it needs no conversion, else and at edges copied as it lies.
Result<OperandA> pack_a_columns(Context& c, const DotPlan& plan, ValueId id, const Nest::MemoryView& view,
                                bool as_packed) {
  Builder& b = c.b;
  const int row = c.type(id).rank() - 2, bytes = dsl::info(plan.form.a).bytes;
  const int64_t unit = plan.unit_bytes, column_bytes = round_up(plan.m, kPackWidth) * unit;
  const auto [packed, present, stays] = keep(c, id, plan.batch * plan.k * column_bytes);
  OperandA out{LayoutA::kColumns, packed, c.i64(unit), c.i64(column_bytes), c.i64(plan.k * column_bytes)};
  Value* in_place = b.getFalse();
  if (as_packed) {
    const Source source = source_of(c, view, row + 1, row, bytes);
    in_place = view.whole;
    out.pointer = b.CreateSelect(in_place, source.pointer, packed);
    out.distance = b.CreateSelect(in_place, source.row, out.distance);
    out.batch = b.CreateSelect(in_place, source.batch, out.batch);
  }
  auto done = unless(c, b.CreateOr(in_place, present), [&, packed = packed] {
    return pack(c, id, row, kPackWidth, [&](Nest& nest, Value* lanes) {
      Value* value = to_packed(c, b, plan.form, plan.form.a, nest.splat(lanes));
      Value* where = offset_by(c, packed,
                               {{batch_index(c, nest), plan.k * column_bytes},
                                {nest.index(row + 1), column_bytes},
                                {nest.index(row), unit}});
      b.CreateAlignedStore(value, where, llvm::Align(static_cast<uint64_t>(unit)));
    });
  });
  if (!done) return done.error();
  return out;
}

}  // namespace

bool lies_by_columns(Context& c, ValueId id) { return in_memory(c, id, c.type(id).rank() - 2).has_value(); }

Result<OperandA> rows_of_columns(Context& c, const DotPlan& plan, ValueId id, Value* steps) {
  Builder& b = c.b;
  const int row = c.type(id).rank() - 2, bytes = plan.widen_rows ? dsl::info(plan.form.b).bytes : plan.unit_bytes;
  const int64_t row_bytes = round_up(plan.k, kPackWidth) * bytes;
  const auto [packed, present, stays] = keep(c, id, plan.batch * plan.m * row_bytes);
  OperandA out{LayoutA::kRows, packed, c.i64(row_bytes), c.i64(row_bytes), c.i64(plan.m * row_bytes)};
  Value* in_place = b.getFalse();
  Nest::Extents read;
  if (plan.some_steps) read.emplace_back(row, steps);
  const auto view = in_memory(c, id, row, read);
  if (view && (plan.widen_rows || (plan.form.b == plan.form.packed && !plan.form.round_tf32))) {
    const Source source = source_of(c, *view, row + 1, row, bytes);
    in_place = view->whole;
    out.pointer = b.CreateSelect(in_place, source.pointer, packed);
    out.block = out.distance = b.CreateSelect(in_place, source.row, out.block);
    out.batch = b.CreateSelect(in_place, source.batch, out.batch);
  }
  auto done = unless(c, b.CreateOr(in_place, present), [&, packed = packed] {
    return pack(c, id, row, kPackWidth, [&](Nest& nest, Value* lanes) {
      Value* value = nest.splat(lanes);
      if (!plan.widen_rows) value = to_packed(c, b, plan.form, plan.form.b, value);
      Value* where = offset_by(
          c, packed,
          {{batch_index(c, nest), plan.m * row_bytes}, {nest.index(row + 1), row_bytes}, {nest.index(row), bytes}});
      b.CreateAlignedStore(value, where, llvm::Align(static_cast<uint64_t>(bytes)));
    });
  });
  if (!done) return done.error();
  return out;
}

namespace {
Result<OperandA> pack_a_pairs(Context& c, const DotPlan& plan, ValueId id, const Nest::MemoryView& view);
}

Result<OperandA> pack_a(Context& c, const DotPlan& plan, ValueId id, Value* steps, Value* rows) {
  Builder& b = c.b;
  const DotForm& form = plan.form;
  const int row = c.type(id).rank() - 2, bits = dsl::info(form.a).bits;
  const bool as_packed = bits == dsl::info(form.packed).bits && !form.round_tf32 && !form.flip_a;
  if (plan.scattered_a && !c.slots[id]) {
    return point_at_rows(c, plan, id, steps, rows, keep(c, id, bytes_of_rows(c, plan)));
  }
  if (plan.tiles() && as_packed && plan.k % form.k_multiple == 0 && !c.slots[id] && has_scattered_rows(c, id)) {
    return gather_rows(c, plan, id, steps, rows);
  }
  Nest::Extents read;
  if (plan.some_steps) read.emplace_back(row + 1, steps);
  if (form.step == Step::kFma && !plan.along_k && plan.k > 1 && plan.m > 1) {
    if (const auto view = in_memory(c, id, row, read)) return pack_a_columns(c, plan, id, *view, as_packed);
  }
  if (form.step == Step::kBf16Pairs && as_packed && plan.k % 2 == 0 && plan.m > 1) {
    if (const auto view = in_memory(c, id, row)) return pack_a_pairs(c, plan, id, *view);
  }
  const int64_t row_bytes = packed_row_bytes(plan);
  const auto [packed, present, stays] = keep(c, id, plan.batch * plan.m * row_bytes);
  OperandA out{LayoutA::kRows, packed, c.i64(row_bytes), c.i64(row_bytes), c.i64(plan.m * row_bytes)};
  Value* in_place = b.getFalse();
  const auto view = rows_in_memory(c, id, read);
  if (view && as_packed && plan.k % form.k_multiple == 0) {
    const Source source = source_of(c, *view, row, row, dsl::info(form.a).bytes);
    // Rows that meet in the same sets of the cache are better copied; a step of tiles takes a line of 32 of them.
    const int64_t apart = plan.tiles() ? kPage / 4 : kPage;
    Value* spread = b.CreateICmpNE(b.CreateAnd(source.row, c.i64(apart - 1)), c.i64(0));
    in_place = b.CreateAnd(view->whole, plan.block.rows <= 8 || plan.m == 1 ? b.getTrue() : spread);
    out.pointer = b.CreateSelect(in_place, source.pointer, packed);
    out.block = out.distance = b.CreateSelect(in_place, source.row, out.block);
    out.batch = b.CreateSelect(in_place, source.batch, out.batch);
  }
  auto done =
      unless(c, b.CreateOr(in_place, present), [&, packed = packed] { return pack_a_rows(c, plan, id, packed); });
  if (!done) return done.error();
  return out;
}

namespace {

// Columns n…n+lanes-1 of row k lie at panel(n) + k·NR + n mod NR.
Value* panel_place(Context& c, const DotPlan& plan, Value* batch, Value* k, Value* n) {
  return c.b.CreateAdd(
      c.b.CreateAdd(c.b.CreateMul(batch, c.i64(plan.panels() * packed_panel_bytes(plan))),
                    c.b.CreateMul(c.b.CreateUDiv(n, c.i64(plan.panel())), c.i64(packed_panel_bytes(plan)))),
      c.b.CreateMul(c.b.CreateAdd(c.b.CreateMul(k, c.i64(plan.panel())), c.b.CreateURem(n, c.i64(plan.panel()))),
                    c.i64(plan.b_bytes())));
}

// Rows a little ahead of the one that is being copied: the processor follows a row, but does not see the next one
// coming.
void prefetch_rows(Context& c, const Nest& nest, const Nest::MemoryView& view, int bytes) {
  constexpr int64_t kRowsAhead = 4;
  Builder& b = c.b;
  const int rank = nest.rank();
  Value* place = nest.index(rank - 1);
  for (int axis = 0; axis + 1 < rank; ++axis) {
    Value* index = axis == rank - 2 ? b.CreateAdd(nest.index(axis), c.i64(kRowsAhead)) : nest.index(axis);
    place = b.CreateAdd(place, b.CreateMul(index, view.strides[static_cast<size_t>(axis)]));
  }
  Value* pointer = offset_by(c, view.pointer, {{place, bytes}});
  for (int64_t at = 0; at < int64_t{nest.width()} * bytes; at += kLine)
    prefetch(b, offset_by(c, pointer, {{c.i64(at), 1}}));
}

// One number a unit, straight from the producer. `view`: where it lies, if it lies in memory.
Result<void> pack_rows(Context& c, const DotPlan& plan, ValueId id, const std::optional<Nest::MemoryView>& view,
                       Value* packed) {
  const int row = c.type(id).rank() - 2;
  // Chunks divide a panel, and are a power of two.
  const int64_t parts = plan.block.vectors & -plan.block.vectors;
  const int width = static_cast<int>(std::min<int64_t>(kPackWidth, parts * plan.lanes));
  const llvm::Align align(static_cast<uint64_t>(plan.b_bytes()));
  return pack(c, id, row + 1, width, [&](Nest& nest, Value* lanes) {
    Value* value = nest.splat(lanes);
    if (view) prefetch_rows(c, nest, *view, dsl::info(plan.form.b).bytes);
    if (!plan.widen_b) value = to_packed(c, c.b, plan.form, plan.form.b, value);
    Value* place = panel_place(c, plan, batch_index(c, nest), nest.index(row), nest.index(row + 1));
    c.b.CreateAlignedStore(value, c.b.CreateInBoundsGEP(c.b.getInt8Ty(), packed, place), align);
  });
}

// `group` rows from memory become one row of units. `rows` of them exist; the others count as zero.
struct Interleave {
  Context& c;
  const DotPlan& plan;
  Value *source, *row_bytes, *packed, *correction;

  // A chunk of columns of one row of units. `active`: the columns that exist; null for all.
  void chunk(Value* batch, Value* unit_row, Value* n, int rows, Value* active) const {
    Builder& b = c.b;
    const DotForm& form = plan.form;
    const int bytes = dsl::info(form.b).bytes, bits = 32 / form.group;
    auto* vector = vector_of(plan, register_type(b.getContext(), dsl::scalar_type(form.b)));
    Value* first = b.CreateInBoundsGEP(
        b.getInt8Ty(), source,
        b.CreateAdd(b.CreateMul(b.CreateMul(unit_row, c.i64(form.group)), row_bytes), b.CreateMul(n, c.i64(bytes))));
    const llvm::Align align(static_cast<uint64_t>(bytes));
    Value* unit = llvm::Constant::getNullValue(vector_of(plan, b.getInt32Ty()));
    for (int i = 0; i < rows; ++i) {
      Value* pointer = b.CreateInBoundsGEP(b.getInt8Ty(), first, b.CreateMul(row_bytes, c.i64(i)));
      Value* x = active ? b.CreateMaskedLoad(vector, pointer, align, active, llvm::Constant::getNullValue(vector))
                        : static_cast<Value*>(b.CreateAlignedLoad(vector, pointer, align));
      Value* wide = b.CreateZExt(to_packed(c, b, form, form.b, x), vector_of(plan, b.getInt32Ty()));
      if (i > 0) wide = b.CreateShl(wide, int_constant(wide, static_cast<uint64_t>(i) * static_cast<uint64_t>(bits)));
      unit = b.CreateOr(unit, wide);
    }
    Value* place = panel_place(c, plan, batch, unit_row, n);
    b.CreateAlignedStore(unit, b.CreateInBoundsGEP(b.getInt8Ty(), packed, place), llvm::Align(4));
    if (!correction) return;
    // What the flipped bits of A add: ±128 times the sum of the column.
    Value* total = b.CreateInBoundsGEP(b.getInt32Ty(), correction,
                                       b.CreateAdd(b.CreateMul(batch, c.i64(plan.panels() * plan.panel())), n));
    Value* before = b.CreateAlignedLoad(unit->getType(), total, llvm::Align(4));
    b.CreateAlignedStore(step_forward(c, b, form, int_constant(unit, 0x80808080), unit, before), total, llvm::Align(4));
  }

  void row(Value* batch, Value* unit_row, int rows) const {
    const int64_t whole = plan.n / plan.lanes * plan.lanes;
    emit_loop(
        c.b, c.i64(0), c.i64(whole), c.i64(plan.lanes), "column", [](llvm::Instruction*) {},
        [&](Value* n) { chunk(batch, unit_row, n, rows, nullptr); });
    if (whole == plan.n) return;
    std::vector<llvm::Constant*> exists;
    for (int64_t i = 0; i < plan.lanes; ++i) exists.push_back(c.b.getInt1(whole + i < plan.n));
    chunk(batch, unit_row, c.i64(whole), rows, llvm::ConstantVector::get(exists));
  }

  void run(Value* batch) const {
    auto none = [](llvm::Instruction*) {};
    const int group = plan.form.group;
    const int64_t whole = plan.k / group;
    emit_loop(c.b, c.i64(0), c.i64(whole), c.i64(1), "units", none, [&](Value* k) { row(batch, k, group); });
    if (plan.k % group != 0) row(batch, c.i64(whole), static_cast<int>(plan.k % group));
    emit_loop(c.b, c.i64((plan.k + group - 1) / group), c.i64(plan.k_units), c.i64(1), "zeros", none,
              [&](Value* k) { row(batch, k, 0); });
  }
};

// Columns of A that lie one number behind the other: as B is packed, in a single panel, so that the pairs of a column
// follow each other. At the edges number by number: the second of a pair joins the first.
Result<OperandA> pack_a_pairs(Context& c, const DotPlan& plan, ValueId id, const Nest::MemoryView& view) {
  Builder& b = c.b;
  const int row = c.type(id).rank() - 2;
  DotPlan columns = plan;
  columns.form.b = plan.form.a;
  columns.n = plan.m;
  columns.block.vectors = static_cast<int>(round_up(plan.m, kPackWidth) / plan.lanes);
  const int64_t column_bytes = columns.panel() * plan.unit_bytes, batch_bytes = packed_panel_bytes(columns);
  const auto [packed, present, stays] = keep(c, id, plan.batch * batch_bytes);
  const Source source = source_of(c, view, row + 1, row, 2);
  auto from_memory = [&, packed = packed]() -> Result<void> {
    emit_loop(
        b, c.i64(0), c.i64(plan.batch), c.i64(1), "batch", [](llvm::Instruction*) {},
        [&](Value* batch) {
          Value* here = b.CreateInBoundsGEP(b.getInt8Ty(), source.pointer, b.CreateMul(batch, source.batch));
          Interleave{c, columns, here, source.row, packed, nullptr}.run(batch);
        });
    return {};
  };
  auto one_by_one = [&, packed = packed] {
    return pack(c, id, row, kPackWidth, [&](Nest& nest, Value* lanes) {
      Value* value = nest.splat(lanes);
      value = b.CreateZExt(value, like(value, b.getInt32Ty()));
      Value* k = nest.index(row + 1);
      Value* where = offset_by(c, packed,
                               {{batch_index(c, nest), batch_bytes},
                                {b.CreateLShr(k, 1), column_bytes},
                                {nest.index(row), plan.unit_bytes}});
      Value* first = b.CreateAlignedLoad(value->getType(), where, llvm::Align(4));
      Value* second = b.CreateOr(first, b.CreateShl(value, int_constant(value, 16)));
      Value* is_second = b.CreateTrunc(k, b.getInt1Ty());
      b.CreateAlignedStore(b.CreateSelect(is_second, second, value), where, llvm::Align(4));
    });
  };
  auto done = unless(c, present, [&]() -> Result<void> {
    if (auto whole = unless(c, b.CreateNot(view.whole), from_memory); !whole) return whole;
    return unless(c, view.whole, one_by_one);
  });
  if (!done) return done.error();
  return OperandA{LayoutA::kColumns, packed, c.i64(plan.unit_bytes), c.i64(column_bytes), c.i64(batch_bytes)};
}

// Several numbers a unit: from memory, where the operand is put first if it does not lie there.
Result<void> pack_units(Context& c, const DotPlan& plan, ValueId id, Value* packed, Value* correction) {
  Builder& b = c.b;
  const int row = c.type(id).rank() - 2, bytes = dsl::info(plan.form.b).bytes;
  const auto view = rows_in_memory(c, id);
  Value* whole = view ? view->whole : b.getFalse();
  auto distance = [&](int axis) {
    return axis < 0 ? static_cast<Value*>(c.i64(0))
                    : b.CreateMul(view->strides[static_cast<size_t>(axis)], c.i64(bytes));
  };
  Value *source = view ? view->pointer : nullptr, *row_bytes = view ? distance(row) : nullptr,
        *batch_bytes = view ? distance(row - 1) : nullptr;
  auto* known = llvm::dyn_cast<llvm::ConstantInt>(whole);
  if (!known || !known->isOne()) {
    const Slot slot = allocate_slot(c, c.type(id));
    auto done = unless(c, whole, [&] { return materialise(c, id, slot); });
    if (!done) return done;
    auto choose = [&](Value* in_place, Value* copied) {
      return in_place ? b.CreateSelect(whole, in_place, copied) : copied;
    };
    source = choose(source, slot_address(c, slot));
    row_bytes = choose(row_bytes, c.i64(slot.strides[static_cast<size_t>(row)] * bytes));
    batch_bytes = choose(batch_bytes, c.i64(row > 0 ? slot.strides[0] * bytes : 0));
  }
  emit_loop(
      b, c.i64(0), c.i64(plan.batch), c.i64(1), "batch", [](llvm::Instruction*) {},
      [&](Value* batch) {
        Value* here = b.CreateInBoundsGEP(b.getInt8Ty(), source, b.CreateMul(batch, batch_bytes));
        Interleave{c, plan, here, row_bytes, packed, correction}.run(batch);
      });
  return {};
}

// K runs along the columns of B in memory.
Result<void> pack_columns(Context& c, const DotPlan& plan, ValueId id, const Nest::MemoryView& view, Value* packed) {
  Builder& b = c.b;
  const int row = c.type(id).rank() - 2;
  auto done = unless(c, view.whole, [&] {
    return plan.form.group > 1 ? pack_units(c, plan, id, packed, nullptr)
                               : pack_rows(c, plan, id, std::nullopt, packed);
  });
  if (!done) return done;
  const Source source = source_of(c, view, row + 1, row, dsl::info(plan.form.b).bytes);
  return unless(c, b.CreateNot(view.whole), [&]() -> Result<void> {
    emit_loop(
        b, c.i64(0), c.i64(plan.batch), c.i64(1), "batch", [](llvm::Instruction*) {},
        [&](Value* batch) {
          Transposition t{plan.form.b, nullptr, source.row, nullptr};
          t.source = b.CreateInBoundsGEP(b.getInt8Ty(), source.pointer, b.CreateMul(batch, source.batch));
          t.to = offset_by(c, packed, {{batch, plan.panels() * packed_panel_bytes(plan)}});
          t.distance = packed_panel_bytes(plan) / plan.panel();
          t.end = plan.n;
          t.width = plan.panel();
          emit_transposed(c, plan, t);
        });
    return {};
  });
}

// Where B is better read where it lies than packed, rows `stride` bytes apart: if they follow each other as those of a
// panel do, or if few blocks read them and they do not fight for the sets of the first cache.
Value* is_better_in_place(Context& c, const DotPlan& plan, Value* pointer, Value* stride) {
  Builder& b = c.b;
  const int64_t row = plan.panel() * plan.b_bytes();
  if (plan.m <= plan.block.rows) return b.getTrue();  // read once
  Value* is_panel = plan.n == plan.panel() ? b.CreateICmpEQ(stride, c.i64(row)) : b.getFalse();
  if (plan.m > kInPlaceRows) return is_panel;
  Value* near = b.CreateICmpULT(stride, c.i64(kPage));
  if (plan.m > kUnalignedRows) {
    Value* bits = b.CreateOr(stride, b.CreatePtrToInt(pointer, b.getInt64Ty()));
    near = b.CreateAnd(near, b.CreateICmpEQ(b.CreateAnd(bits, c.i64(kLine - 1)), c.i64(0)));
  }
  if (row <= kLine && plan.m > kFewBlocks * plan.block.rows) {
    // Their lines begin in one of 4096 / `step` sets.
    Value* step = b.CreateAnd(stride, b.CreateNeg(stride));
    step = b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, step, c.i64(kLine));
    Value* lines = b.CreateMul(step, c.i64(plan.k_units));
    near = b.CreateAnd(near, b.CreateICmpULE(lines, c.i64(kPage * kWays)));
  }
  return b.CreateOr(is_panel, near);
}

}  // namespace

Result<OperandB> pack_b(Context& c, const DotPlan& plan, ValueId id, Value* steps) {
  Builder& b = c.b;
  const DotForm& form = plan.form;
  const int row = c.type(id).rank() - 2, bytes = plan.b_bytes();
  const int64_t panel_bytes = packed_panel_bytes(plan), batch_bytes = plan.panels() * panel_bytes;
  const int64_t packed_bytes = round_up(plan.batch * batch_bytes + transposed_overrun(plan), 64);
  const int64_t correction_batch = form.flip_a ? plan.panels() * plan.panel() * 4 : 0;
  const int64_t note_at = packed_bytes + round_up(plan.batch * correction_batch, 64);
  const auto kept = keep(c, id, note_at + (plan.leaves_out ? 8 : 0));
  Value *packed = kept.pointer, *present = kept.present;
  OperandB out{
      packed,          c.i64(plan.panel() * bytes), c.i64(panel_bytes), c.i64(batch_bytes), kept.stays, nullptr,
      correction_batch};
  if (plan.leaves_out) out.note = offset_by(c, packed, {{c.i64(note_at), 1}});
  out.is_new = b.CreateNot(present);
  out.in_place = b.getFalse();
  auto finish = [&](Value* skip, llvm::function_ref<Result<void>()> fill) -> Result<OperandB> {
    if (auto done = unless(c, skip, fill); !done) return done.error();
    return out;
  };
  if (!plan.widen_b && !form.flip_a && can_transpose(plan)) {
    if (const auto columns = in_memory(c, id, row); columns && plan.n >= plan.lanes) {
      return finish(present, [&] { return pack_columns(c, plan, id, *columns, packed); });
    }
  }
  if (form.group > 1) {
    const bool has_correction = form.flip_a && !plan.corrects_itself;
    if (has_correction) out.correction = offset_by(c, packed, {{c.i64(packed_bytes), 1}});
    auto fill = [&] {
      if (has_correction) fill_bytes(c, out.correction, 0, plan.batch * correction_batch);
      return pack_units(c, plan, id, packed, out.correction);
    };
    if (!c.slots[id] && c.schedule.definition[id]->code == OpCode::kReshape)
      return read_units(c, plan, id, out, units_in_memory(c, plan, id), fill);
    return finish(present, fill);
  }

  Value* in_place = b.getFalse();
  const bool as_packed = plan.widen_b || (form.packed == form.b && !form.round_tf32);
  Nest::Extents read;
  if (plan.some_steps) read.emplace_back(row, steps);
  const auto view = rows_in_memory(c, id, read);
  if (view && as_packed && (plan.n % plan.panel() == 0 || plan.masks_columns)) {
    Value* stride = b.CreateMul(view->strides[static_cast<size_t>(row)], c.i64(bytes));
    Value* better =
        plan.along_k ? b.CreateICmpEQ(stride, c.i64(bytes)) : is_better_in_place(c, plan, view->pointer, stride);
    in_place = out.in_place = b.CreateAnd(view->whole, better);
    out.pointer = b.CreateSelect(in_place, view->pointer, packed);
    out.row = b.CreateSelect(in_place, stride, out.row);
    if (!in_slot(c, id)) out.stays = b.CreateOr(in_place, out.stays);
    out.panel = b.CreateSelect(in_place, c.i64(plan.panel() * bytes), out.panel);
    if (row > 0) out.batch = b.CreateSelect(in_place, b.CreateMul(view->strides[0], c.i64(bytes)), out.batch);
  }
  return finish(b.CreateOr(in_place, present), [&] { return pack_rows(c, plan, id, view, packed); });
}

}  // namespace kiln::codegen::cpu
