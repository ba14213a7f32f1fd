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

Value* shuffle(Builder& b, Value* x, Value* y, llvm::function_ref<int(int)> index) {
  llvm::SmallVector<int, 16> mask;
  const auto lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
  for (int i = 0; i < lanes; ++i) mask.push_back(index(i));
  return b.CreateShuffleVector(x, y, mask);
}

// Halves of the parts of x and y, part by part, interleaved by `run` elements; the parts are 128 bits of `part`
// elements, as x86 unpacks them. `high`: the second halves.
Value* unpack(Builder& b, Value* x, Value* y, int part, int run, bool high) {
  const int lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
  return shuffle(b, x, y, [&](int i) {
    const int in_part = i % part, pair = in_part / (2 * run), from_y = in_part / run % 2;
    return from_y * lanes + i - in_part + (high ? part / 2 : 0) + pair * run + in_part % run;
  });
}

// Rows of as many parts as there are rows, transposed part by part.
Vectors transpose_parts(Builder& b, const Vectors& rows, int part) {
  if (rows.size() == 1) return rows;
  Vectors even, odd, out;
  for (size_t i = 0; i < rows.size(); i += 2) {
    auto every_second = [&](int first) {
      return shuffle(b, rows[i], rows[i + 1],
                     [&](int lane) { return (2 * (lane / part) + first) * part + lane % part; });
    };
    even.push_back(every_second(0));
    odd.push_back(every_second(1));
  }
  even = transpose_parts(b, even, part);
  odd = transpose_parts(b, odd, part);
  for (size_t i = 0; i < even.size(); ++i) {
    out.push_back(even[i]);
    out.push_back(odd[i]);
  }
  return out;
}

// `unit_bytes` is 4 or 8.
Vectors transpose(Builder& b, Vectors rows, int unit_bytes) {
  const auto part = static_cast<size_t>(16 / unit_bytes), count = rows.size();
  // Within parts: squares of `part` rows by `part` units.
  for (size_t first = 0; first < count; first += part) {
    const Vectors v(rows.begin() + static_cast<long>(first), rows.begin() + static_cast<long>(first + part));
    const int size = static_cast<int>(part);
    auto half = [&](Value* x, Value* y, int run, bool high) { return unpack(b, x, y, size, run, high); };
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
    parts = transpose_parts(b, parts, static_cast<int>(part));
    for (size_t i = 0; i < parts.size(); ++i) out[i * part + unit] = parts[i];
  }
  return out;
}

// A vector of units from memory.
Value* load_units(Context& c, Builder& b, const DotPlan& plan, ElementType from, Value* pointer) {
  auto* type = llvm::FixedVectorType::get(register_type(b.getContext(), dsl::scalar_type(from)),
                                          static_cast<unsigned>(plan.lanes * plan.form.group));
  Value* x = to_packed(c, b, plan.form, from, b.CreateAlignedLoad(type, pointer, llvm::Align(dsl::info(from).bytes)));
  return b.CreateBitCast(x, vector_of(plan, plan.unit));
}

// void f(ptr from, i64 row, i64 rows, ptr to, i64 step): a square; rows from `rows` on repeat the one before them.
llvm::Function* square_function(Context& c, const DotPlan& plan, ElementType from) {
  std::string name = "kiln.dot.transpose";
  for (ElementType type : {from, plan.form.packed}) name += "." + std::string(dsl::info(type).name);
  name += "." + std::to_string(plan.lanes) + (plan.form.round_tf32 ? ".tf32" : "");
  if (auto* existing = c.module.getFunction(name)) return existing;
  Builder b(c.module.getContext());
  auto* type = llvm::FunctionType::get(
      b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty(), b.getPtrTy(), b.getInt64Ty()}, false);
  auto* fn = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, c.module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  fn->addFnAttr(llvm::Attribute::NoUnwind);
  b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", fn));
  Value *pointer = fn->getArg(0), *to = fn->getArg(3);
  auto behind = [&](Value* at, Value* distance) { return b.CreateInBoundsGEP(b.getInt8Ty(), at, distance); };
  Vectors rows;
  // The processor does not see the next rows coming.
  Value* ahead = b.CreateMul(fn->getArg(1), c.i64(plan.lanes));
  for (int i = 0; i < plan.lanes; ++i) {
    if (i > 0) {
      Value* exists = b.CreateICmpSGT(fn->getArg(2), c.i64(i));
      pointer = behind(pointer, b.CreateSelect(exists, fn->getArg(1), c.i64(0)));
    }
    rows.push_back(load_units(c, b, plan, from, pointer));
    prefetch(b, behind(pointer, ahead));
  }
  for (Value* units : transpose(b, rows, plan.unit_bytes)) {
    b.CreateAlignedStore(units, to, llvm::Align(static_cast<uint64_t>(plan.unit_bytes)));
    to = behind(to, fn->getArg(4));
  }
  b.CreateRetVoid();
  return fn;
}

}  // namespace

bool can_transpose(const DotPlan& plan) {
  return plan.lanes * plan.unit_bytes >= 16 && plan.k % plan.form.group == 0 &&
         plan.k == plan.k_units * plan.form.group && plan.k_units >= plan.lanes;
}

int64_t transposed_overrun(const DotPlan& plan) { return int64_t{plan.lanes} * plan.unit_bytes; }

void emit_transposed(Context& c, const DotPlan& plan, const Transposition& t) {
  Builder& b = c.b;
  auto none = [](llvm::Instruction*) {};
  auto at = [&](Value* pointer, Value* index, Value* distance) {
    return b.CreateInBoundsGEP(b.getInt8Ty(), pointer, b.CreateMul(index, distance));
  };
  llvm::Function* square = square_function(c, plan, t.from);
  Value* step = c.i64(t.width * plan.unit_bytes);
  emit_loop(b, c.i64(0), c.i64(t.end), c.i64(t.width), "panel", none, [&](Value* first) {
    Value* panel = at(t.to, first, c.i64(t.distance));
    // From the last rows to the first: what is written behind them belongs to the next unit's first rows.
    for (int64_t part = (t.width - 1) / plan.lanes * plan.lanes; part >= 0; part -= plan.lanes) {
      Value *row = b.CreateAdd(first, c.i64(part)), *rows = b.CreateSub(c.i64(t.end), row);
      Value* column = b.CreateInBoundsGEP(b.getInt8Ty(), panel, c.i64(part * plan.unit_bytes));
      Value* any = part == 0 ? c.i64(plan.k_units)
                             : b.CreateSelect(b.CreateICmpSGT(rows, c.i64(0)), c.i64(plan.k_units), c.i64(0));
      emit_loop(b, c.i64(0), any, c.i64(plan.lanes), "square", none, [&](Value* k) {
        Value* unit = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, k, c.i64(plan.k_units - plan.lanes));
        Value* source = at(at(t.source, row, t.row), unit, c.i64(plan.form.group * dsl::info(t.from).bytes));
        b.CreateCall(square, {source, t.row, rows, at(column, unit, step), step});
      });
    }
  });
}

}  // namespace kiln::codegen::cpu
