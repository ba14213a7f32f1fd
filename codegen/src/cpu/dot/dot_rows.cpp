// Rows of A that lie in memory one by one, each with K along it, but at no fixed distance from each other: pixels of an
// image as a convolution sees them, rows that indices choose. The micro-kernel takes their addresses from a table.
//
//   for row:  table[row] = &x[f(row)]        where the mask holds at both ends of the row, and so between them
//                          &packed[row]      else: these rows are copied, with zeros where the mask does not hold
//                          null              where it holds nowhere, for who leaves such rows out (dot_iterations.cpp)
#include "cpu/dot/dot_rows.h"

#include "cpu/dot/dot_cache.h"
#include "cpu/dot/dot_pack.h"
#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kRow = 0, kFirst = 1, kLast = 2;  // dimensions of the nest: rows, and the two ends of one
constexpr int64_t kPointerBytes = 8;
constexpr int64_t kLineBytes = 64;

// A vector of pointers, whatever form the address has.
Value* pointers_of(Nest& nest, const Nest::Address& address, int64_t bytes) {
  Builder& ir = nest.ir;
  if (address.pointer->getType()->isVectorTy()) return address.pointer;
  std::vector<llvm::Constant*> lanes;
  lanes.reserve(static_cast<size_t>(nest.width()));
  for (int i = 0; i < nest.width(); ++i) {
    lanes.push_back(ir.getInt64(address.contiguous ? static_cast<uint64_t>(i * bytes) : 0));
  }
  return ir.CreateGEP(ir.getInt8Ty(), nest.splat(address.pointer), llvm::ConstantVector::get(lanes));
}

struct Table {
  Value *rows, *packed;
  Value* end;    // rows from here on are never read
  Value* holes;  // i32: rows that must be copied, in order
  Value* count;  // variable, i64: how many
  const RowsLeftOut* left_out;
};

// Adds the rows of a chunk that must be copied to the list; gives where they are copied to.
Value* list_holes(Nest& nest, const DotBlocking& blocking, const Table& table, Value* hole) {
  Builder& ir = nest.ir;
  Context& ctx = nest.ctx;
  const auto lanes = static_cast<unsigned>(nest.width());
  std::vector<llvm::Constant*> numbers, distances;
  for (unsigned i = 0; i < lanes; ++i) {
    numbers.push_back(ir.getInt32(i));
    distances.push_back(ctx.i64(i * packed_row_bytes(blocking)));
  }
  Value* row = nest.index(kRow);
  hole = ir.CreateAnd(hole, nest.lanes_below(table.end));
  emit_if(
      ir, ir.CreateOrReduce(hole), "holes", [](llvm::Instruction*) {},
      [&] {
        Value* count = ir.CreateLoad(ir.getInt64Ty(), table.count);
        Value* rows =
            ir.CreateAdd(nest.splat(ir.CreateTrunc(row, ir.getInt32Ty())), llvm::ConstantVector::get(numbers));
        ir.CreateIntrinsic(llvm::Intrinsic::masked_compressstore, {rows->getType()},
                           {rows, ir.CreateInBoundsGEP(ir.getInt32Ty(), table.holes, count), hole});
        Value* bits = ir.CreateBitCast(hole, ir.getIntNTy(lanes));
        Value* more = ir.CreateZExt(ir.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, bits), ir.getInt64Ty());
        ir.CreateStore(ir.CreateAdd(count, more), table.count);
      });
  Value* first =
      ir.CreateInBoundsGEP(ir.getInt8Ty(), table.packed, ir.CreateMul(row, ctx.i64(packed_row_bytes(blocking))));
  return ir.CreateGEP(ir.getInt8Ty(), nest.splat(first), llvm::ConstantVector::get(distances));
}

// The bit of this iteration in the words of a chunk of rows.
void note_left_out(Nest& nest, const RowsLeftOut& out, Value* empty) {
  Builder& ir = nest.ir;
  auto* words = llvm::FixedVectorType::get(ir.getInt32Ty(), static_cast<unsigned>(nest.width()));
  Value *place = ir.CreateInBoundsGEP(ir.getInt32Ty(), out.words, nest.index(kRow)), *none = nest.splat(ir.getInt32(0));
  Value* iteration = ir.CreateTrunc(out.iteration, ir.getInt32Ty());
  Value* before = ir.CreateAlignedLoad(words, place, llvm::Align(4));
  before = ir.CreateSelect(ir.CreateIsNull(iteration), none, before);
  Value* bit = ir.CreateSelect(empty, nest.splat(ir.CreateShl(ir.getInt32(1), iteration)), none);
  ir.CreateAlignedStore(ir.CreateOr(before, bit), place, llvm::Align(4));
  ir.CreateStore(ir.CreateOr(ir.CreateLoad(ir.getInt1Ty(), out.any), ir.CreateOrReduce(empty)), out.any);
}

Result<void> fill_chunk(Nest& nest, const DotBlocking& blocking, const Op& load, const Table& table) {
  Builder& ir = nest.ir;
  auto address = nest.address(load.operands[0], {kRow, kFirst});
  if (!address) return address.error();
  Value* pointers = pointers_of(nest, *address, dsl::info(blocking.form.a).bytes);
  if (load.operands.size() > 1) {
    auto first = nest.evaluate(load.operands[1], {kRow, kFirst}), last = nest.evaluate(load.operands[1], {kRow, kLast});
    if (!first) return first.error();
    if (!last) return last.error();
    Value *hole = ir.CreateNot(ir.CreateAnd(nest.splat(*first), nest.splat(*last))), *empty = nullptr;
    if (table.left_out) {
      auto fails = nest.fails_between(load.operands[1], {kRow, kFirst}, {kRow, kLast});
      if (!fails) return fails.error();
      empty = *fails;
      hole = ir.CreateAnd(hole, ir.CreateNot(empty));
    }
    pointers = ir.CreateSelect(hole, list_holes(nest, blocking, table, hole), pointers);
    if (empty) {
      note_left_out(nest, *table.left_out, empty);
      pointers = ir.CreateSelect(empty, llvm::Constant::getNullValue(pointers->getType()), pointers);
    }
  }
  ir.CreateAlignedStore(pointers, ir.CreateInBoundsGEP(ir.getPtrTy(), table.rows, nest.index(kRow)),
                        llvm::Align(kPointerBytes));
  return {};
}

Result<void> fill_table(Context& ctx, const DotBlocking& blocking, ValueId id, Value* steps, Table table) {
  Builder& ir = ctx.ir;
  const Op& load = *ctx.schedule.definition[id];
  const int lanes = ctx.target.vector_bytes / 4;
  table.holes = reserve(ctx, (blocking.m + lanes) * 4);
  table.count = entry_alloca(ctx, ir.getInt64Ty());
  ir.CreateStore(ctx.i64(0), table.count);
  Nest nest(ctx, {blocking.m, blocking.k, blocking.k});
  nest.set_vector_dim(kRow);
  nest.set_width(lanes);
  nest.fix_dim(kFirst, ctx.i64(0));
  nest.fix_dim(kLast, ir.CreateSub(ir.CreateMul(steps, ctx.i64(blocking.form.group)), ctx.i64(1)));
  Nest::Body body;
  body.chunk = [&] { return fill_chunk(nest, blocking, load, table); };
  if (auto done = nest.walk(body, false); !done) return done;
  if (load.operands.size() < 2) return {};
  Value* count = ir.CreateLoad(ir.getInt64Ty(), table.count);
  return unless(ctx, ir.CreateIsNull(count),
                [&] { return pack_a_rows(ctx, blocking, id, table.packed, Nest::Listed{table.holes, count}); });
}

// What is kept serves others, who may want more rows.
Value* rows_pointed_at(Context& ctx, const DotBlocking& blocking, Value* rows, const CachedOperand& memory) {
  Value* all = ctx.i64(blocking.m);
  if (!rows || !llvm::isa<llvm::Constant>(memory.present)) return all;
  return ctx.ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, all, ctx.ir.CreateAdd(rows, ctx.i64(blocking.block.rows)));
}

}  // namespace

bool has_scattered_rows(Context& ctx, ValueId id) {
  const Op* load = ctx.schedule.definition[id];
  const auto shape = dsl::concrete_shape(ctx.type(id));
  if (!load || load->code != OpCode::kLoad || ctx.schedule.materialise[id] || shape.size() != 2 || shape[0] < 2 ||
      shape[1] < 2)
    return false;
  const Nest nest(ctx, shape);
  return nest.pointers_along(load->operands[0], nest.identity(), 0) == Nest::Along::kSomehow &&
         nest.pointers_along(load->operands[0], nest.identity(), 1) == Nest::Along::kByOne &&
         (load->operands.size() < 2 || nest.is_convex_along(load->operands[1], nest.identity(), 1));
}

int64_t bytes_of_rows(const Context& ctx, const DotBlocking& blocking) {
  return blocking.m * packed_row_bytes(blocking) + (blocking.m + ctx.target.vector_bytes) * kPointerBytes;
}

Result<OperandA> point_at_rows(Context& ctx, const DotBlocking& blocking, ValueId id, Value* steps, Value* rows,
                               const CachedOperand& memory, const RowsLeftOut* left_out) {
  Builder& ir = ctx.ir;
  const auto rows_bytes = static_cast<uint64_t>(blocking.m * packed_row_bytes(blocking));
  Value* table = ir.CreateConstInBoundsGEP1_64(ir.getInt8Ty(), memory.pointer, rows_bytes);
  Value* end = rows_pointed_at(ctx, blocking, rows, memory);
  auto done = unless(ctx, memory.present, [&] {
    return fill_table(ctx, blocking, id, steps, {table, memory.pointer, end, nullptr, nullptr, left_out});
  });
  if (!done) return done.error();
  return OperandA{LayoutA::kPointers, table, ctx.i64(kPointerBytes), ctx.i64(0), ctx.i64(0)};
}

Result<OperandA> gather_rows(Context& ctx, const DotBlocking& blocking, ValueId id, Value* steps, Value* rows) {
  Builder& ir = ctx.ir;
  const CachedOperand memory = cache_operand(ctx, id, bytes_of_rows(ctx, blocking));
  auto table = point_at_rows(ctx, blocking, id, steps, rows, memory);
  if (!table) return table.error();
  auto none = [](llvm::Instruction*) {};
  auto at = [&](Value* pointer, Value* offset) { return ir.CreateInBoundsGEP(ir.getInt8Ty(), pointer, offset); };
  auto* line = llvm::FixedVectorType::get(ir.getInt8Ty(), kLineBytes);
  const int64_t row_bytes = packed_row_bytes(blocking), bytes = blocking.k * blocking.packed_bytes();
  auto done = unless(ctx, memory.present, [&]() -> Result<void> {
    emit_loop(ir, ctx.i64(0), rows_pointed_at(ctx, blocking, rows, memory), ctx.i64(1), "row", none, [&](Value* row) {
      Value* place = ir.CreateInBoundsGEP(ir.getPtrTy(), table->pointer, row);
      Value* from = ir.CreateAlignedLoad(ir.getPtrTy(), place, llvm::Align(kPointerBytes));
      Value* to = at(memory.pointer, ir.CreateMul(row, ctx.i64(row_bytes)));
      emit_loop(ir, ctx.i64(0), ctx.i64(bytes), ctx.i64(kLineBytes), "line", none, [&](Value* offset) {
        Value* x = ir.CreateAlignedLoad(line, at(from, offset), llvm::Align(1));
        ir.CreateAlignedStore(x, at(to, offset), llvm::Align(1));
      });
    });
    return {};
  });
  if (!done) return done.error();
  return OperandA{LayoutA::kRows, memory.pointer, ctx.i64(row_bytes), ctx.i64(row_bytes), ctx.i64(0)};
}

}  // namespace kiln::codegen::cpu
