// Rows of A that lie in memory one by one, each with K along it, but at no fixed distance from each other: pixels of an
// image as a convolution sees them, rows that indices choose. The micro-kernel takes their addresses from a table.
//
//   for row:  table[row] = &x[f(row)]        where the mask holds at both ends of the row, and so between them
//                          &packed[row]      else: these rows are copied, with zeros where the mask does not hold
//                          null              where it holds nowhere, for who leaves such rows out (dot_turns.cpp)
#include "cpu/dot/dot_rows.h"

#include "cpu/dot/dot_keep.h"
#include "cpu/dot/dot_pack.h"
#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kRow = 0, kFirst = 1, kLast = 2;  // dimensions of the nest: rows, and the two ends of one
constexpr int64_t kPointerBytes = 8;
constexpr int64_t kLineBytes = 64;

// A vector of pointers, whatever form the address has.
Value* pointers_of(Nest& nest, const Nest::Address& address, int64_t bytes) {
  Builder& b = nest.b;
  if (address.pointer->getType()->isVectorTy()) return address.pointer;
  std::vector<llvm::Constant*> lanes;
  lanes.reserve(static_cast<size_t>(nest.width()));
  for (int i = 0; i < nest.width(); ++i) {
    lanes.push_back(b.getInt64(address.contiguous ? static_cast<uint64_t>(i * bytes) : 0));
  }
  return b.CreateGEP(b.getInt8Ty(), nest.splat(address.pointer), llvm::ConstantVector::get(lanes));
}

struct Table {
  Value *rows, *packed;
  Value* end;    // rows from here on are never read
  Value* holes;  // i32: rows that must be copied, in order
  Value* count;  // variable, i64: how many
  const RowsLeftOut* left_out;
};

// Adds the rows of a chunk that must be copied to the list; gives where they are copied to.
Value* list_holes(Nest& nest, const DotPlan& plan, const Table& table, Value* hole) {
  Builder& b = nest.b;
  Context& c = nest.c;
  const auto lanes = static_cast<unsigned>(nest.width());
  std::vector<llvm::Constant*> numbers, distances;
  for (unsigned i = 0; i < lanes; ++i) {
    numbers.push_back(b.getInt32(i));
    distances.push_back(c.i64(i * packed_row_bytes(plan)));
  }
  Value* row = nest.index(kRow);
  hole = b.CreateAnd(hole, nest.lanes_below(table.end));
  emit_if(
      b, b.CreateOrReduce(hole), "holes", [](llvm::Instruction*) {},
      [&] {
        Value* count = b.CreateLoad(b.getInt64Ty(), table.count);
        Value* rows = b.CreateAdd(nest.splat(b.CreateTrunc(row, b.getInt32Ty())), llvm::ConstantVector::get(numbers));
        b.CreateIntrinsic(llvm::Intrinsic::masked_compressstore, {rows->getType()},
                          {rows, b.CreateInBoundsGEP(b.getInt32Ty(), table.holes, count), hole});
        Value* bits = b.CreateBitCast(hole, b.getIntNTy(lanes));
        Value* more = b.CreateZExt(b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, bits), b.getInt64Ty());
        b.CreateStore(b.CreateAdd(count, more), table.count);
      });
  Value* first = b.CreateInBoundsGEP(b.getInt8Ty(), table.packed, b.CreateMul(row, c.i64(packed_row_bytes(plan))));
  return b.CreateGEP(b.getInt8Ty(), nest.splat(first), llvm::ConstantVector::get(distances));
}

// The bit of this turn in the words of a chunk of rows.
void note_left_out(Nest& nest, const RowsLeftOut& out, Value* empty) {
  Builder& b = nest.b;
  auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), static_cast<unsigned>(nest.width()));
  Value *place = b.CreateInBoundsGEP(b.getInt32Ty(), out.words, nest.index(kRow)), *none = nest.splat(b.getInt32(0));
  Value* turn = b.CreateTrunc(out.turn, b.getInt32Ty());
  Value* before = b.CreateAlignedLoad(words, place, llvm::Align(4));
  before = b.CreateSelect(b.CreateIsNull(turn), none, before);
  Value* bit = b.CreateSelect(empty, nest.splat(b.CreateShl(b.getInt32(1), turn)), none);
  b.CreateAlignedStore(b.CreateOr(before, bit), place, llvm::Align(4));
  b.CreateStore(b.CreateOr(b.CreateLoad(b.getInt1Ty(), out.any), b.CreateOrReduce(empty)), out.any);
}

Result<void> fill_chunk(Nest& nest, const DotPlan& plan, const Op& load, const Table& table) {
  Builder& b = nest.b;
  auto address = nest.address(load.operands[0], {kRow, kFirst});
  if (!address) return address.error();
  Value* pointers = pointers_of(nest, *address, dsl::info(plan.form.a).bytes);
  if (load.operands.size() > 1) {
    auto first = nest.evaluate(load.operands[1], {kRow, kFirst}), last = nest.evaluate(load.operands[1], {kRow, kLast});
    if (!first) return first.error();
    if (!last) return last.error();
    Value *hole = b.CreateNot(b.CreateAnd(nest.splat(*first), nest.splat(*last))), *empty = nullptr;
    if (table.left_out) {
      auto fails = nest.fails_between(load.operands[1], {kRow, kFirst}, {kRow, kLast});
      if (!fails) return fails.error();
      empty = *fails;
      hole = b.CreateAnd(hole, b.CreateNot(empty));
    }
    pointers = b.CreateSelect(hole, list_holes(nest, plan, table, hole), pointers);
    if (empty) {
      note_left_out(nest, *table.left_out, empty);
      pointers = b.CreateSelect(empty, llvm::Constant::getNullValue(pointers->getType()), pointers);
    }
  }
  b.CreateAlignedStore(pointers, b.CreateInBoundsGEP(b.getPtrTy(), table.rows, nest.index(kRow)),
                       llvm::Align(kPointerBytes));
  return {};
}

Result<void> fill_table(Context& c, const DotPlan& plan, ValueId id, Value* steps, Table table) {
  Builder& b = c.b;
  const Op& load = *c.schedule.definition[id];
  const int lanes = c.target.vector_bytes / 4;
  table.holes = reserve(c, (plan.m + lanes) * 4);
  table.count = entry_alloca(c, b.getInt64Ty());
  b.CreateStore(c.i64(0), table.count);
  Nest nest(c, {plan.m, plan.k, plan.k});
  nest.set_vector_dim(kRow);
  nest.set_width(lanes);
  nest.fix_dim(kFirst, c.i64(0));
  nest.fix_dim(kLast, b.CreateSub(b.CreateMul(steps, c.i64(plan.form.group)), c.i64(1)));
  Nest::Body body;
  body.chunk = [&] { return fill_chunk(nest, plan, load, table); };
  if (auto done = nest.walk(body, false); !done) return done;
  if (load.operands.size() < 2) return {};
  Value* count = b.CreateLoad(b.getInt64Ty(), table.count);
  return unless(c, b.CreateIsNull(count),
                [&] { return pack_a_rows(c, plan, id, table.packed, Nest::Listed{table.holes, count}); });
}

// What is kept serves others, who may want more rows.
Value* rows_pointed_at(Context& c, const DotPlan& plan, Value* rows, const Kept& memory) {
  Value* all = c.i64(plan.m);
  if (!rows || !llvm::isa<llvm::Constant>(memory.present)) return all;
  return c.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, all, c.b.CreateAdd(rows, c.i64(plan.block.rows)));
}

}  // namespace

bool has_scattered_rows(Context& c, ValueId id) {
  const Op* load = c.schedule.definition[id];
  const auto shape = dsl::concrete_shape(c.type(id));
  if (!load || load->code != OpCode::kLoad || c.schedule.materialise[id] || shape.size() != 2 || shape[0] < 2 ||
      shape[1] < 2)
    return false;
  const Nest nest(c, shape);
  return nest.pointers_along(load->operands[0], nest.identity(), 0) == Nest::Along::kSomehow &&
         nest.pointers_along(load->operands[0], nest.identity(), 1) == Nest::Along::kByOne &&
         (load->operands.size() < 2 || nest.is_convex_along(load->operands[1], nest.identity(), 1));
}

int64_t bytes_of_rows(const Context& c, const DotPlan& plan) {
  return plan.m * packed_row_bytes(plan) + (plan.m + c.target.vector_bytes) * kPointerBytes;
}

Result<OperandA> point_at_rows(Context& c, const DotPlan& plan, ValueId id, Value* steps, Value* rows,
                               const Kept& memory, const RowsLeftOut* left_out) {
  Builder& b = c.b;
  const auto rows_bytes = static_cast<uint64_t>(plan.m * packed_row_bytes(plan));
  Value* table = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), memory.pointer, rows_bytes);
  Value* end = rows_pointed_at(c, plan, rows, memory);
  auto done = unless(c, memory.present, [&] {
    return fill_table(c, plan, id, steps, {table, memory.pointer, end, nullptr, nullptr, left_out});
  });
  if (!done) return done.error();
  return OperandA{LayoutA::kPointers, table, c.i64(kPointerBytes), c.i64(0), c.i64(0)};
}

Result<OperandA> gather_rows(Context& c, const DotPlan& plan, ValueId id, Value* steps, Value* rows) {
  Builder& b = c.b;
  const Kept memory = keep(c, id, bytes_of_rows(c, plan));
  auto table = point_at_rows(c, plan, id, steps, rows, memory);
  if (!table) return table.error();
  auto none = [](llvm::Instruction*) {};
  auto at = [&](Value* pointer, Value* offset) { return b.CreateInBoundsGEP(b.getInt8Ty(), pointer, offset); };
  auto* line = llvm::FixedVectorType::get(b.getInt8Ty(), kLineBytes);
  const int64_t row_bytes = packed_row_bytes(plan), bytes = plan.k * plan.packed_bytes();
  auto done = unless(c, memory.present, [&]() -> Result<void> {
    emit_loop(b, c.i64(0), rows_pointed_at(c, plan, rows, memory), c.i64(1), "row", none, [&](Value* row) {
      Value* place = b.CreateInBoundsGEP(b.getPtrTy(), table->pointer, row);
      Value* from = b.CreateAlignedLoad(b.getPtrTy(), place, llvm::Align(kPointerBytes));
      Value* to = at(memory.pointer, b.CreateMul(row, c.i64(row_bytes)));
      emit_loop(b, c.i64(0), c.i64(bytes), c.i64(kLineBytes), "line", none, [&](Value* offset) {
        Value* x = b.CreateAlignedLoad(line, at(from, offset), llvm::Align(1));
        b.CreateAlignedStore(x, at(to, offset), llvm::Align(1));
      });
    });
    return {};
  });
  if (!done) return done.error();
  return OperandA{LayoutA::kRows, memory.pointer, c.i64(row_bytes), c.i64(row_bytes), c.i64(0)};
}

}  // namespace kiln::codegen::cpu
