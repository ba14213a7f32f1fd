#include "traced_kernels.h"

#include "kiln/dsl/kernels.h"

namespace kiln::compilers {
namespace {

using namespace dsl::lang;

Value add3(const Value& a, const Value& b, const Value& c) { return a + b * c; }

// Pure ops in the arguments of nested calls.
auto nested_calls() {
  return kernel("nested_calls", {"x", "y", "n", "a", "BLOCK=256"},
                [](Ptr<const f32> x, Ptr<f32> y, i32 n, f32 a, Const BLOCK) {
                  grid(cdiv(n, BLOCK));
                  const Value lane = program_id(0) * BLOCK + arange(0, BLOCK);
                  const Value v = load(x + lane, {.mask = lane < n});
                  const Value w = add3(max(v * a, v + 1), min(sin(v) - cos(v), exp(v) / (v * v + 1)),
                                       add3(v - a, where(v > 0, v * 2, v * -2), abs(v) + sqrt(abs(v) + a)));
                  store(y + lane, fma(w + v, w - v, w * v), {.mask = lane < n});
                });
}

// Loads in arguments: of different and of the same memory, with masks and offsets computed on the way.
auto loads_in_arguments() {
  return kernel("loads_in_arguments", {"x", "y", "z", "n", "BLOCK=128"},
                [](Ptr<const f32> x, Ptr<f32> y, Ptr<f32> z, i32 n, Const BLOCK) {
                  const Value lane = arange(0, BLOCK);
                  auto at = [&](const Value& base, int by) {
                    return load(base + (lane + by), {.mask = lane + by < n, .other = by});
                  };
                  store(y + lane, add3(at(x, 1), at(z, 2), at(x, 3)) + at(y, 4) * (at(z, 5) - at(x, 6)));
                  // The loads below read what the store above wrote, those above do not.
                  store(z + lane, add3(at(y, 1) + at(z, 1), at(x, 2), max(at(y, 3), at(z, 3))));
                });
}

// Loads, stores and facts in one body; loads that only a later store needs, and loads that nothing needs.
auto loads_between_stores() {
  return kernel("loads_between_stores", {"x", "y", "n", "BLOCK=64"}, [](Ptr<f32> x, Ptr<f32> y, i32 n, Const BLOCK) {
    require(BLOCK % 16 == 0, "BLOCK must be a multiple of 16");
    const Value lane = arange(0, BLOCK);
    const Value early = add3(load(x + lane), load(y + lane), load(x + lane + 1));
    assume_multiple(n, 16);
    store(x + lane, load(y + (lane + n)) - load(x + (lane + n)));
    const Value late = max(load(x + lane) * load(y + lane), load(y + lane + 2) + load(x + lane + 2));
    (void)(load(x + n) + load(y + n));
    assume_multiple(x, 16);
    store(y + lane, add3(early, late, early - late));
  });
}

// Variables of one loop, first touched in the operands of one expression.
auto carried_in_one_expression() {
  return kernel("carried_in_one_expression", {"x", "y", "n"}, [](Ptr<const f32> x, Ptr<f32> y, i32 n) {
    Var a = load(x), b = load(x + 1), c = 0.0f, d = 1.0f, step = 1;
    for (Value k : range(0, n)) {
      const Value next = add3(a * b, c - d, load(x + k + step)) + add3(d, c, b - a);
      a = next + b;
      d = c * next;
      b = max(c, b) - min(d, next);
      c = c + 1;
    }
    store(y, add3(d, c, add3(b, a, c)));
  });
}

// A function with variables of its own, called several times in the arguments of one call.
Value norm(const Value& x, const Value& n, float start) {
  Var total = start, top = start * 2;
  for (Value k : range(0, n)) {
    const Value v = load(x + k);
    total = total + v * top;
    top = max(top, v - total);
  }
  return total / top;
}

auto loops_in_arguments() {
  return kernel("loops_in_arguments", {"x", "y", "out", "n"},
                [](Ptr<const f32> x, Ptr<const f32> y, Ptr<f32> out, i32 n) {
                  store(out, add3(norm(x, n, 0), norm(y, n, 1), norm(x + n, n + 1, 2)));
                });
}

// Variables of an outer and an inner loop, touched first in the inner one.
auto nested_loops() {
  return kernel("nested_loops", {"x", "out", "n", "m"}, [](Ptr<const f32> x, Ptr<f32> out, i32 n, i32 m) {
    Var rows = 0.0f, all = 1.0f, last = 2.0f, unused = 3.0f;
    for (Value i : range(0, n)) {
      Var row = 0.0f, peak = -1.0f;
      for (Value j : range(i, m, 2)) {
        const Value v = load(x + (i * m + j));
        row = add3(row, all, v) + add3(last, peak, rows);
        peak = max(peak * last, all - v);
        all = min(last, all) + rows;
      }
      last = add3(row, peak, unused);
      rows = rows + last * (row - all);
    }
    store(out, add3(last, all, rows), {.mask = n > m});
  });
}

// Variables as parameters by value: their copies are made in the order in which arguments are evaluated.
Value drift(Var a, Var b, Var c, const Value& n) {
  for (Value k : range(0, n)) {
    const Value old = a - c;
    a = a + b * cast(k, f32_t);
    b = max(b, c);
    c = old + c * 2;
  }
  return add3(a, b, c);
}

auto variables_by_value() {
  return kernel("variables_by_value", {"x", "out", "n"}, [](Ptr<const f32> x, Ptr<f32> out, i32 n) {
    Var a = load(x), b = load(x + 1);
    store(out, drift(a, b, 1.0f, n) + drift(b, load(x + 2), a, n + 1));
    store(out + 1, drift(0.5f, a, a, n));
  });
}

// The same where the loop has stores, and so stands whether or not its results are wanted; one variable is not.
void sweep(Var a, Var b, Var c, const Value& out, const Value& n) {
  for (Value k : range(0, n)) {
    store(out + k, a * b);
    for (Value j : range(0, k)) a = a + b * cast(j, f32_t);
    b = b - a;
    c = c + b;
  }
  store(out + n, b);
}

auto variables_by_value_with_stores() {
  return kernel("variables_by_value_with_stores", {"x", "out", "n"}, [](Ptr<const f32> x, Ptr<f32> out, i32 n) {
    sweep(load(x), load(x + 1), load(x + 2), out, n);
    sweep(0.0f, 1.0f, 2.0f, out + n, n);
  });
}

// Variables that differ in nothing but what is done with their results.
Value twins(Var a, Var b, const Value& n) {
  for (Value k : range(0, n)) {
    a = a * cast(k, f32_t);
    b = b * cast(k, f32_t);
  }
  return a - b / 3;
}

auto variables_alike() {
  return kernel("variables_alike", {"out", "n"},
                [](Ptr<f32> out, i32 n) { store(out, twins(1.0f, 1.0f, n) * twins(1.0f, 2.0f, n)); });
}

// A product with tiles of three arrays whose offsets are computed in the call.
auto tiles_in_arguments() {
  return kernel("tiles_in_arguments", {"A", "B", "C", "M", "N", "K", "BM=16", "BN=32", "BK=64"},
                [](Ptr<const f32> A, Ptr<const f32> B, Ptr<f32> C, i32 M, i32 N, i32 K, Const BM, Const BN, Const BK) {
                  grid(cdiv(M, BM), cdiv(N, BN));
                  Var acc = zeros(f32_t, {BM, BN}), scale = zeros(f32_t, {BN});
                  for (Value k : range(0, K, BK)) {
                    acc = dot(tile(A, {M, K}).load({program_id(0) * BM, k}, {BM, BK}),
                              tile(B, {K, N}).load({k, program_id(1) * BN}, {BK, BN}), acc + expand_dims(scale, 0));
                    scale = scale + sum(tile(B, {K, N}).load({k, program_id(1) * BN}, {BK, BN}), 0);
                  }
                  tile(C, {M, N}).store({program_id(0) * BM, program_id(1) * BN}, acc * expand_dims(scale, 0));
                });
}

// Variables handed over by value to a branch and a loop: they are made in the order in which arguments are evaluated.
Value choose(Var a, Var b, const Value& which) {
  if_(which, [&] { a = a * b; }, [&] { b = b - a; });
  return a + b;
}
Value halve(Var n, Var steps) {
  while_([&] { return n > 1; },
         [&] {
           n = n / 2;
           steps = steps + n;
         });
  return n + steps;
}

auto branches_and_loops_by_value() {
  return kernel("branches_and_loops_by_value", {"x", "y", "n"}, [](Ptr<const f32> x, Ptr<f32> y, i32 n) {
    const Value v = load(x), w = load(x + 1);
    const Value chosen = choose(v + 1, w * 2, n > 3) - choose(sin(v), cos(w), n < 5);
    store(y, chosen + cast(halve(n + 1, n * 2) - halve(n, n), f32_t));
    const Value given = if_(n == 7, [&] { return add3(v, w, v * w); }, [&] { return add3(w, v - 1, w / v); });
    store(y + 1, given);
  });
}

// Scans, sorts, regions and atomics; atomics whose results are used stay in the order of their statements.
auto algebra_in_arguments() {
  return kernel("algebra_in_arguments", {"x", "y", "c", "BLOCK=64"},
                [](Ptr<const f32> x, Ptr<f32> y, Ptr<i32> c, Const BLOCK) {
                  const Value lane = arange(0, BLOCK), v = load(x + lane);
                  const Value first = atomic_add(c, 1);
                  const Value second = atomic_max(c + 1, first);
                  auto top = [](Value l, Value r) { return where(l > r, l * 1, r + 0); };
                  store(y + lane, add3(cumsum(v * 2, 0), sort(v - 1, 0), splat(reduce(v + 3, 0, top), {BLOCK})) *
                                      cast(first + second, f32_t));
                  auto [values, at] = topk(v, 4, 0);
                  store(y + arange(0, 4), add3(values, cast(at, f32_t), gather(v, at, 0)));
                });
}

template <class Def>
TracedKernel traced(const Def& def) {
  return {def.ir() ? def.ir()->name : "a kernel that does not trace", def.ir()};
}

}  // namespace

std::vector<TracedKernel> traced_kernels() {
  std::vector<TracedKernel> out;
  for (const dsl::LibraryKernel& item : dsl::library_kernels()) out.push_back({std::string(item.name), *item.ir});
  out.push_back(traced(nested_calls()));
  out.push_back(traced(loads_in_arguments()));
  out.push_back(traced(loads_between_stores()));
  out.push_back(traced(carried_in_one_expression()));
  out.push_back(traced(loops_in_arguments()));
  out.push_back(traced(nested_loops()));
  out.push_back(traced(variables_by_value()));
  out.push_back(traced(variables_by_value_with_stores()));
  out.push_back(traced(variables_alike()));
  out.push_back(traced(tiles_in_arguments()));
  out.push_back(traced(branches_and_loops_by_value()));
  out.push_back(traced(algebra_in_arguments()));
  return out;
}

}  // namespace kiln::compilers
