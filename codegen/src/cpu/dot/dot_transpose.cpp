// Columns of B that lie in memory with K along them, packed K-major. Squares of `lanes` of these rows by `lanes` units
// are transposed in registers.
//
//   source  row i, units k, k+1, …          to  unit k of rows i, i+1, …, then unit k+1 of these rows, …
//
// A square is written whole, though a panel may be narrower: what it writes behind the panel's rows is the place of the
// next unit, written after it. The last square along K ends where K ends, and overlaps the one before it.
#include "cpu/dot/dot_transpose.h"

#include "cpu/dot/dot_form.h"
#include "cpu/dot/dot_kernel.h"
#include "cpu/dot/dot_pack.h"

namespace kiln::codegen::cpu {
namespace {

using Vectors = llvm::SmallVector<Value*, 16>;

Value* shuffle(Builder& ir, Value* x, Value* y, llvm::function_ref<int(int)> index) {
  llvm::SmallVector<int, 16> mask;
  const auto lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
  for (int i = 0; i < lanes; ++i) mask.push_back(index(i));
  return ir.CreateShuffleVector(x, y, mask);
}

// Halves of the parts of x and y, part by part, interleaved by `run` elements; the parts are 128 bits of `part`
// elements, as x86 unpacks them. `high`: the second halves.
Value* unpack(Builder& ir, Value* x, Value* y, int part, int run, bool high) {
  const int lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
  return shuffle(ir, x, y, [&](int i) {
    const int in_part = i % part, pair = in_part / (2 * run), from_y = in_part / run % 2;
    return from_y * lanes + i - in_part + (high ? part / 2 : 0) + pair * run + in_part % run;
  });
}

// Rows of as many parts as there are rows, transposed part by part.
Vectors transpose_parts(Builder& ir, const Vectors& rows, int part) {
  if (rows.size() == 1) return rows;
  Vectors even, odd, out;
  for (size_t i = 0; i < rows.size(); i += 2) {
    auto every_second = [&](int first) {
      return shuffle(ir, rows[i], rows[i + 1],
                     [&](int lane) { return (2 * (lane / part) + first) * part + lane % part; });
    };
    even.push_back(every_second(0));
    odd.push_back(every_second(1));
  }
  even = transpose_parts(ir, even, part);
  odd = transpose_parts(ir, odd, part);
  for (size_t i = 0; i < even.size(); ++i) {
    out.push_back(even[i]);
    out.push_back(odd[i]);
  }
  return out;
}

// `unit_bytes` is 4 or 8.
Vectors transpose(Builder& ir, Vectors rows, int unit_bytes) {
  const auto part = static_cast<size_t>(16 / unit_bytes), count = rows.size();
  // Within parts: squares of `part` rows by `part` units.
  for (size_t first = 0; first < count; first += part) {
    const Vectors v(rows.begin() + static_cast<long>(first), rows.begin() + static_cast<long>(first + part));
    const int size = static_cast<int>(part);
    auto half = [&](Value* x, Value* y, int run, bool high) { return unpack(ir, x, y, size, run, high); };
    if (part == 2) {
      rows[first] = half(v[0], v[1], 1, false);
      rows[first + 1] = half(v[0], v[1], 1, true);
      continue;
    }
    Value *low01 = half(v[0], v[1], 1, false), *high01 = half(v[0], v[1], 1, true);
    Value *low23 = half(v[2], v[3], 1, false), *high23 = half(v[2], v[3], 1, true);
    rows[first] = half(low01, low23, 2, false);
    rows[first + 1] = half(low01, low23, 2, true);
    rows[first + 2] = half(high01, high23, 2, false);
    rows[first + 3] = half(high01, high23, 2, true);
  }
  Vectors out(count);
  for (size_t unit = 0; unit < part; ++unit) {
    Vectors parts;
    for (size_t i = unit; i < count; i += part) parts.push_back(rows[i]);
    parts = transpose_parts(ir, parts, static_cast<int>(part));
    for (size_t i = 0; i < parts.size(); ++i) out[i * part + unit] = parts[i];
  }
  return out;
}

// A vector of units from memory.
Value* load_units(Context& ctx, Builder& ir, const DotBlocking& blocking, ElementType from, Value* pointer) {
  auto* type = llvm::FixedVectorType::get(register_type(ir.getContext(), dsl::scalar_type(from)),
                                          static_cast<unsigned>(blocking.lanes * blocking.form.group));
  Value* x =
      to_packed(ctx, ir, blocking.form, from, ir.CreateAlignedLoad(type, pointer, llvm::Align(dsl::info(from).bytes)));
  return ir.CreateBitCast(x, vector_of(blocking, blocking.unit));
}

// void f(ptr from, i64 row, i64 rows, ptr to, i64 step): a square; rows from `rows` on repeat the one before them.
llvm::Function* square_function(Context& ctx, const DotBlocking& blocking, ElementType from) {
  std::string name = "kiln.dot.transpose";
  for (ElementType type : {from, blocking.form.packed}) name += "." + std::string(dsl::info(type).name);
  name += "." + std::to_string(blocking.lanes) + (blocking.form.round_tf32 ? ".tf32" : "");
  if (auto* existing = ctx.module.getFunction(name)) return existing;
  Builder ir(ctx.module.getContext());
  auto* type = llvm::FunctionType::get(
      ir.getVoidTy(), {ir.getPtrTy(), ir.getInt64Ty(), ir.getInt64Ty(), ir.getPtrTy(), ir.getInt64Ty()}, false);
  auto* fn = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, ctx.module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  fn->addFnAttr(llvm::Attribute::NoUnwind);
  ir.SetInsertPoint(llvm::BasicBlock::Create(ir.getContext(), "entry", fn));
  Value *pointer = fn->getArg(0), *to = fn->getArg(3);
  auto behind = [&](Value* at, Value* distance) { return ir.CreateInBoundsGEP(ir.getInt8Ty(), at, distance); };
  Vectors rows;
  // The processor does not see the next rows coming.
  Value* ahead = ir.CreateMul(fn->getArg(1), ctx.i64(blocking.lanes));
  for (int i = 0; i < blocking.lanes; ++i) {
    if (i > 0) {
      Value* exists = ir.CreateICmpSGT(fn->getArg(2), ctx.i64(i));
      pointer = behind(pointer, ir.CreateSelect(exists, fn->getArg(1), ctx.i64(0)));
    }
    rows.push_back(load_units(ctx, ir, blocking, from, pointer));
    prefetch(ir, behind(pointer, ahead));
  }
  for (Value* units : transpose(ir, rows, blocking.unit_bytes)) {
    ir.CreateAlignedStore(units, to, llvm::Align(static_cast<uint64_t>(blocking.unit_bytes)));
    to = behind(to, fn->getArg(4));
  }
  ir.CreateRetVoid();
  return fn;
}

}  // namespace

bool can_transpose(const DotBlocking& blocking) {
  return blocking.lanes * blocking.unit_bytes >= 16 && blocking.k % blocking.form.group == 0 &&
         blocking.k == blocking.k_units * blocking.form.group && blocking.k_units >= blocking.lanes;
}

int64_t transposed_overrun(const DotBlocking& blocking) { return int64_t{blocking.lanes} * blocking.unit_bytes; }

void emit_transposed(Context& ctx, const DotBlocking& blocking, const Transposition& t) {
  Builder& ir = ctx.ir;
  auto none = [](llvm::Instruction*) {};
  auto at = [&](Value* pointer, Value* index, Value* distance) {
    return ir.CreateInBoundsGEP(ir.getInt8Ty(), pointer, ir.CreateMul(index, distance));
  };
  llvm::Function* square = square_function(ctx, blocking, t.from);
  Value* step = ctx.i64(t.width * blocking.unit_bytes);
  emit_loop(ir, ctx.i64(0), ctx.i64(t.end), ctx.i64(t.width), "panel", none, [&](Value* first) {
    Value* panel = at(t.to, first, ctx.i64(t.distance));
    // From the last rows to the first: what is written behind them belongs to the next unit's first rows.
    for (int64_t part = (t.width - 1) / blocking.lanes * blocking.lanes; part >= 0; part -= blocking.lanes) {
      Value *row = ir.CreateAdd(first, ctx.i64(part)), *rows = ir.CreateSub(ctx.i64(t.end), row);
      Value* column = ir.CreateInBoundsGEP(ir.getInt8Ty(), panel, ctx.i64(part * blocking.unit_bytes));
      Value* any = part == 0
                       ? ctx.i64(blocking.k_units)
                       : ir.CreateSelect(ir.CreateICmpSGT(rows, ctx.i64(0)), ctx.i64(blocking.k_units), ctx.i64(0));
      emit_loop(ir, ctx.i64(0), any, ctx.i64(blocking.lanes), "square", none, [&](Value* k) {
        Value* unit = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, k, ctx.i64(blocking.k_units - blocking.lanes));
        Value* source = at(at(t.source, row, t.row), unit, ctx.i64(blocking.form.group * dsl::info(t.from).bytes));
        ir.CreateCall(square, {source, t.row, rows, at(column, unit, step), step});
      });
    }
  });
}

}  // namespace kiln::codegen::cpu
