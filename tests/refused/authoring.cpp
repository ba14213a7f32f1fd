#include "kiln/dsl/kernel.h"

using namespace kiln::lang;

// refused: a Value is known when the kernel runs, not while it is traced
#if RIGHT
void body(i32 x) {
  if_(x > 0, [] {});
}
#else
void body(i32 x) {
  if (x > 0) return;
}
#endif

// refused: a Value is known when the kernel runs, not while it is traced
#if RIGHT
Value body(i32 x) { return where(x > 0, x, x + 1); }
#else
Value body(i32 x) { return x > 0 ? x : x + 1; }
#endif

// refused: range() for `for`
#if RIGHT
void body(i32 x) {
  Var sum = 0;
  for (Value i : range(x)) sum += i;
}
#else
void body(i32 x) {
  for (Value i = 0 * x; i < x; i = i + 1) {
  }
}
#endif

// refused: while_() for `while`
#if RIGHT
void body(i32 x) {
  Var left = x;
  while_([&] { return left > 0; }, [&] { left -= 1; });
}
#else
void body(i32 x) {
  Var left = x > 0;
  while (left) left = x > 1;
}
#endif

// refused: both sides of a condition on a Value are computed: write `a & b` for `a && b`
#if RIGHT
Value body(i32 x, Const B) {
  require(B > 0 && B < 9, "B is small");
  return (x > 0) & (x < B);
}
#else
Value body(i32 x, Const B) { return x > 0 && x < B; }
#endif

// refused: write `a | b` for `a || b`
#if RIGHT
Value body(Var x, i1 y) {
  const Value no = !(x < 0) | !y;
  return !no & !(x > 9);
}
#else
Value body(Var x, i1 y) { return !(x || !y); }
#endif

// refused: a Const is known when a config is chosen, not while the kernel is traced
#if RIGHT
void body(Const B) {
  if_(B > 1, [] {});
}
#else
void body(Const B) {
  if (B > 1) return;
}
#endif

// refused: a kernel's pointer parameter is a Ptr<f32>, or a Ptr<const f32> that is only read: not a float*
#if RIGHT
auto made = kernel("k", {"x"}, [](Ptr<f32> x) { store(x, 0); });
#else
auto made = kernel("k", {"x"}, [](float* x) { store(x, 0); });
#endif

// refused: a kernel's scalar parameter is an i32
#if RIGHT
auto made = kernel("k", {"n", "B"}, [](const i32& n, Const B) { grid(cdiv(n, B)); });
#else
auto made = kernel("k", {"n", "B"}, [](int n, Const B) { grid(cdiv(n, B)); });
#endif

// refused: a kernel's parameters are Const, i1 to f64, and Ptr of these
#if RIGHT
auto made = kernel("k", {"n"}, [](i64 n) { grid(n); });
#else
auto made = kernel("k", {"n"}, [](Value n) { grid(n); });
#endif

// refused: a kernel's function says the types of its parameters: no `auto` among them
#if RIGHT
auto made = kernel("k", {"n"}, [](i64 n) noexcept { grid(n); });
#else
auto made = kernel("k", {"n"}, [](auto n) { grid(n); });
#endif

// refused: a kernel's function returns nothing: it stores its results through Ptr parameters
#if RIGHT
void body(Ptr<f32> out, f32 x) { store(out, x + x); }
auto made = kernel("k", {"out", "x"}, body);
#else
auto made = kernel("k", {"x"}, [](f32 x) { return x + x; });
#endif
