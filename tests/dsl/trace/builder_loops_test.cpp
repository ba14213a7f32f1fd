// Traced loops and the variables they carry.
#include "builder_helpers.h"

namespace kiln::dsl {
namespace {

using namespace kiln::lang;
using lang::f32;

size_t carried(const Op& loop) { return loop.operands.size() - 3; }

TEST(BuilderLoops, CarryWhatTheBodyAssigns) {
  Kernel k = traced(kernel("k", {"p", "n", "B"}, [](Ptr<f32> p, i32 n, Const B) {
    Var acc = zeros(f32_t, {B});
    for (lang::Value i : range(0, n, B).stages(3)) acc += load(p + i + arange(0, B));
    store(p + arange(0, B), acc);
  }));
  const Op* loop = find_op(k.body, OpCode::kFor);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(carried(*loop), 1u);
  EXPECT_EQ(std::get<Expr>(loop->attrs[0]), Expr(3));
  EXPECT_EQ(loop->regions[0].args.size(), 2u);
  EXPECT_EQ(loop->regions[0].ops.back().code, OpCode::kYield);
  // What is stored is the loop's result.
  EXPECT_EQ(find_op(k.body, OpCode::kStore)->operands[1], loop->results[0]);
}

TEST(BuilderLoops, DoNotCarryWhatTheBodyOnlyReads) {
  Kernel k = traced(kernel("k", {"p", "n"}, [](Ptr<f32> p, i32 n) {
    Var scale = 2.0f, acc = 0.0f;
    for (lang::Value i : range(n)) {
      for (lang::Value j : range(n)) acc += load(p + i + j) * scale;
    }
    store(p, acc * scale);
  }));
  const Op* outer = find_op(k.body, OpCode::kFor);
  const Op* inner = find_op(outer->regions[0], OpCode::kFor);
  EXPECT_EQ(carried(*outer), 1u);
  EXPECT_EQ(carried(*inner), 1u);
  EXPECT_EQ(inner->operands[3], outer->regions[0].args[1]);
}

TEST(BuilderLoops, CarryInTheOrderOfDeclaration) {
  Kernel k = traced(kernel("k", {"p", "n"}, [](Ptr<f32> p, i32 n) {
    Var a = 1.0f, b = 2;
    for ([[maybe_unused]] lang::Value i : range(n)) {
      b += 1;
      a *= 2;
    }
    store(p + b, a);
  }));
  const Op* loop = find_op(k.body, OpCode::kFor);
  ASSERT_EQ(carried(*loop), 2u);
  EXPECT_EQ(k.type(loop->results[0]).element, ElementType::kF32);
  EXPECT_EQ(k.type(loop->results[1]).element, ElementType::kI32);
}

TEST(BuilderLoops, VariablesOfTheBodyStayThere) {
  Kernel k = traced(kernel("k", {"p", "n"}, [](Ptr<f32> p, i32 n) {
    for (lang::Value i : range(n)) {
      Var local = 1;
      local += i;
      Var copy = local;
      copy *= 2;
      store(p + copy, 0);
    }
  }));
  EXPECT_EQ(carried(*find_op(k.body, OpCode::kFor)), 0u);
}

TEST(BuilderLoops, ContinueEndsTheTraceOfTheBody) {
  Kernel k = traced(kernel("k", {"p", "n"}, [](Ptr<f32> p, i32 n) {
    for (lang::Value i : range(n)) {
      store(p + i, 0);
      if (p.kReadonly == false) continue;
      store(p + i, 1);
    }
  }));
  EXPECT_EQ(count_ops(k.body, OpCode::kStore), 1);
}

TEST(BuilderLoops, PlainLoopsUnroll) {
  Kernel k = traced(kernel("k", {"p"}, [](Ptr<f32> p) {
    for (int i = 0; i < 4; ++i) store(p + i, i);
  }));
  EXPECT_EQ(count_ops(k.body, OpCode::kStore), 4);
}

// Fibonacci by two variables that swap through a third; run on the interpreter.
TEST(BuilderLoops, AssignmentsOfVariablesCompute) {
  Kernel k = traced(kernel("fib", {"out", "n"}, [](Ptr<i32> out, i32 n) {
    Var a = 0, b = 1;
    for (lang::Value i : range(0, n)) {
      store(out + i, a);
      Var next = a + b;
      a = b;
      b = next;
    }
  }));
  std::vector<int32_t> out(10, -1);
  run(k, {}, {buffer(out), number(int64_t{10})});
  EXPECT_EQ(out, (std::vector<int32_t>{0, 1, 1, 2, 3, 5, 8, 13, 21, 34}));
}

// Σ over i < n of Σ over j < i of (i·j), with an inner variable carried through the inner loop only.
TEST(BuilderLoops, NestedLoopsCompute) {
  Kernel k = traced(kernel("nested", {"out", "n"}, [](Ptr<i32> out, i32 n) {
    Var total = 0;
    for (lang::Value i : range(n)) {
      Var part = 0;
      for (lang::Value j : range(0, i)) part += i * j;
      total += part;
    }
    store(out, total);
  }));
  int32_t expected = 0;
  for (int i = 0; i < 7; ++i) {
    for (int j = 0; j < i; ++j) expected += i * j;
  }
  std::vector<int32_t> out(1);
  run(k, {}, {buffer(out), number(int64_t{7})});
  EXPECT_EQ(out[0], expected);
}

TEST(BuilderLoops, NumbersAssignedTakeTypeAndShapeOfTheVariable) {
  Kernel k = traced(kernel("k", {"p", "n"}, [](Ptr<lang::bf16> p, i32 n) {
    Var x = zeros(bf16_t, {8});
    for ([[maybe_unused]] lang::Value i : range(n)) x = 3;
    store(p + arange(0, 8), x);
  }));
  EXPECT_EQ(carried(*find_op(k.body, OpCode::kFor)), 1u);
}

TEST(BuilderLoops, OutsideOfALoopAVariableMayChangeItsType) {
  traced(kernel("k", {"n"}, [](i32 n) {
    Var x = n;
    x = cast(x, f32_t);
    EXPECT_EQ(x.read().element(), ElementType::kF32);
  }));
}

TEST(BuilderLoops, LoopsOverBothWidths) {
  Kernel k = traced(kernel("k", {"p", "n"}, [](Ptr<f32> p, i64 n) {
    for (lang::Value i : range(0, n, 2)) store(p + i, 0);
  }));
  EXPECT_EQ(k.type(find_op(k.body, OpCode::kFor)->regions[0].args[0]).element, ElementType::kI64);
}

}  // namespace
}  // namespace kiln::dsl
