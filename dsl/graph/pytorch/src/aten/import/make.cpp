// Functions that make tensors of none, and random numbers.
#include <cmath>

#include "aten/import/functions.h"

namespace kiln::graph::aten {
namespace {

Results zeros_of(Arguments& a) { return {full(a.shape("size"), 0, a.element("dtype", f32))}; }
Results ones_of(Arguments& a) { return {full(a.shape("size"), 1, a.element("dtype", f32))}; }

Tensor filled(Shape shape, const Term& value, ElementType type) {
  return full(std::move(shape), as(value, type), type);
}

Results filled_with(Arguments& a) {
  const Term value = a.term("fill_value");
  if (!a.ok()) return {};
  return {filled(a.shape("size"), value, a.element("dtype", common(value)))};
}

Results zeros_like_self(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {full(x.shape(), 0, a.element("dtype", x.element()))};
}
Results ones_like_self(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {full(x.shape(), 1, a.element("dtype", x.element()))};
}
Results full_like_self(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Term value = a.term("fill_value");
  if (!a.ok()) return {};
  return {filled(x.shape(), value, a.element("dtype", x.element()))};
}

// new_zeros and its like: of self's type.
Results new_zeros_of(Arguments& a) {
  return {full(a.shape("size"), 0, a.element("dtype", a.tensor("self").element()))};
}
Results new_ones_of(Arguments& a) { return {full(a.shape("size"), 1, a.element("dtype", a.tensor("self").element()))}; }
Results new_full_of(Arguments& a) {
  const Term value = a.term("fill_value");
  if (!a.ok()) return {};
  return {filled(a.shape("size"), value, a.element("dtype", a.tensor("self").element()))};
}

Results fill_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Term value = a.term("value");
  if (!a.ok()) return {};
  return {is_tensor(value) ? broadcast_to(as(std::get<Tensor>(value), x.element()), x.shape())
                           : filled(x.shape(), value, x.element())};
}

Results scalar_of(Arguments& a) {
  const Term value = a.term("s");
  if (!a.ok()) return {};
  if (is_tensor(value)) return {as(std::get<Tensor>(value), a.element("dtype", f32))};
  return {filled({}, value, a.element("dtype", f32))};
}

// --- ranges ---

std::optional<double> number_of(const Term& term) {
  if (const auto* whole = std::get_if<int64_t>(&term)) return as_double(*whole);
  if (const auto* real = std::get_if<double>(&term)) return *real;
  return std::nullopt;
}

Dim dim_of(const Term& term) {
  if (const auto* whole = std::get_if<int64_t>(&term)) return *whole;
  if (const auto* dim = std::get_if<Dim>(&term)) return *dim;
  return 0;
}

// start, start + step, … below end. Of ints in i64, of fractions in f64.
Results range_of(Arguments& a) {
  const Term start = a.term("start", Term(int64_t{0})), end = a.term("end"), step = a.term("step", Term(int64_t{1}));
  if (!a.ok()) return {};
  if (is_tensor(start) || is_tensor(end) || is_tensor(step)) a.fail("a bound of the range is a tensor");
  const bool fractions = is_real(start) || is_real(end) || is_real(step);
  const ElementType type = a.element("dtype", fractions ? f32 : i64);
  const auto by = number_of(step);
  if (!by || *by == 0) a.fail("`step` must be a known number that is not 0");
  if (!a.ok()) return {};
  const auto from = number_of(start), to = number_of(end);
  if (fractions) {
    if (!from || !to) a.fail("fractions and a bound that is known when the graph runs");
    if (!a.ok()) return {};
    // Of ints what the bounds are as such.
    const auto whole = [&](double number) { return dsl::is_float(type) ? number : std::trunc(number); };
    const double count = std::ceil((whole(*to) - whole(*from)) / whole(*by));
    if (!(count >= 0 && count < 0x1p40)) a.fail("a range of " + std::to_string(count) + " elements");
    if (!a.ok()) return {};
    const Tensor line = iota(f64, {static_cast<int64_t>(count)}, 0);
    return {as(line * whole(*by) + whole(*from), type)};
  }
  const auto whole = static_cast<int64_t>(*by);
  const Dim first = dim_of(start), length = dim_of(end) - first;
  const Dim count = whole == 1 ? length : whole > 0 ? cdiv(length, whole) : cdiv(Dim(0) - length, -whole);
  Tensor line = iota(i64, {count}, 0);
  if (whole != 1) line = line * whole;
  if (!same(first, 0)) line = line + first;
  return {as(line, type)};
}

Results spaced(Arguments& a) {
  const double start = a.real("start"), end = a.real("end");
  const Dim steps = a.dim("steps");
  const ElementType type = a.element("dtype", f32);
  const auto count = known(steps);
  if (!count) a.fail("`steps` must be known");
  if (!a.ok()) return {};
  if (*count <= 1) return {full({steps}, as(Term(start), type), type)};
  // From the nearer end, as PyTorch does it.
  const double step = (end - start) / as_double(*count - 1);
  const ElementType in = type == f64 ? f64 : dsl::is_float(type) ? f32 : f64;
  const Tensor at = iota(in, {steps}, 0);
  return {as(where(at < as_double(*count / 2), start + step * at, end - step * (as_double(*count - 1) - at)), type)};
}

Results identity(Arguments& a) {
  const Dim rows = a.dim("n"), columns = a.dim("m", rows);
  const Shape shape = {rows, columns};
  return {as(iota(i64, shape, 0) == iota(i64, shape, 1), a.element("dtype", f32))};
}

Results triangle_places(Arguments& a) {
  const auto rows = known(a.dim("row")), columns = known(a.dim("col"));
  const int64_t offset = a.integer("offset", 0);
  const bool upper = a.base() == "triu_indices";
  if (!rows || !columns) a.fail("the numbers of rows and columns must be known");
  constexpr int64_t kMost = 4096;
  if (a.ok() && (*rows < 0 || *columns < 0 || *rows > kMost || *columns > kMost))
    a.fail("more rows or columns than 4096");
  if (!a.ok()) return {};
  std::vector<double> at[2];
  for (int64_t row = 0; row < *rows; ++row) {
    for (int64_t column = 0; column < *columns; ++column) {
      if (upper ? column - row < offset : column - row > offset) continue;
      at[0].push_back(as_double(row));
      at[1].push_back(as_double(column));
    }
  }
  const auto count = static_cast<int64_t>(at[0].size());
  at[0].insert(at[0].end(), at[1].begin(), at[1].end());
  return {constant(a.element("dtype", i64), {2, count}, at[0])};
}

Results one_hot_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Dim classes = a.dim("num_classes", Dim(-1));
  if (same(classes, -1)) a.fail("the number of classes must be given");
  return {one_hot(x, classes, i64)};
}

// --- random numbers ---

Tensor uniform_of(Arguments& a, const Shape& shape) {
  const Random random = a.draw(product(shape));
  return a.ok() ? uniform(random.seed, random.offset, shape) : Tensor();
}
Tensor normal_of(Arguments& a, const Shape& shape) {
  const Random random = a.draw(product(shape) * 2);
  return a.ok() ? normal(random.seed, random.offset, shape) : Tensor();
}

Results rand_of(Arguments& a) {
  const bool like_self = a.has("self");
  const Shape shape = like_self ? a.tensor("self").shape() : a.shape("size");
  const ElementType type = a.element("dtype", like_self ? a.tensor("self").element() : f32);
  return {as(uniform_of(a, shape), type)};
}
Results randn_of(Arguments& a) {
  const bool like_self = a.has("self");
  const Shape shape = like_self ? a.tensor("self").shape() : a.shape("size");
  const ElementType type = a.element("dtype", like_self ? a.tensor("self").element() : f32);
  return {as(normal_of(a, shape), type)};
}

// low … high - 1, by 32 bits of a word: a range above 2^24 is not even.
Results randint_of(Arguments& a) {
  const bool like_self = a.has("self");
  const Shape shape = like_self ? a.tensor("self").shape() : a.shape("size");
  const ElementType type = a.element("dtype", like_self ? a.tensor("self").element() : i64);
  const int64_t low = a.integer("low", 0), high = a.integer("high");
  if (high <= low) a.fail("no number is between `low` and `high`");
  const Random random = a.draw(product(shape));
  if (!a.ok()) return {};
  const Tensor word = cast(philox(random.seed, random.offset, shape), u64);
  return {as(cast(word % static_cast<uint64_t>(high - low), i64) + low, type)};
}

Results permutation(Arguments& a) {
  const Dim n = a.dim("n");
  const Random random = a.draw(n);
  if (!a.ok()) return {};
  return {as(sort(philox(random.seed, random.offset, {n}), 0).second, a.element("dtype", i64))};
}

// True with probability p: a number, or a tensor that says it for each element.
Results bernoulli_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  const bool in_place = a.base() == "bernoulli_";
  const Term p = a.has("p") ? a.term("p") : in_place ? Term(0.5) : Term(x);
  const Tensor word = uniform_of(a, x.shape());
  if (!a.ok()) return {};
  return {as(word < as(p, f32), x.element())};
}

Results uniform_in_place(Arguments& a) {
  const Tensor x = a.tensor("self");
  const double from = a.real("from", 0), to = a.real("to", 1);
  return {as(uniform_of(a, x.shape()) * (to - from) + from, x.element())};
}
Results normal_in_place(Arguments& a) {
  const Tensor x = a.tensor("self");
  const double mean = a.real("mean", 0), deviation = a.real("std", 1);
  return {as(normal_of(a, x.shape()) * deviation + mean, x.element())};
}

Results exponential_in_place(Arguments& a) {
  const Tensor x = a.tensor("self");
  const double rate = a.real("lambd", 1);
  return {as(-log1p(-uniform_of(a, x.shape())) / rate, x.element())};
}

constexpr Function kMakeFunctions[] = {
    {"arange", range_of},
    {"arange.start", range_of},
    {"arange.start_step", range_of},
    {"empty.memory_format", zeros_of},
    {"empty_like", zeros_like_self},
    {"empty_permuted", zeros_of},
    {"empty_strided", zeros_of},
    {"eye", identity},
    {"eye.m", identity},
    {"fill.Scalar", fill_of},
    {"fill.Tensor", fill_of},
    {"full", filled_with},
    {"full_like", full_like_self},
    {"linspace", spaced},
    {"new_empty", new_zeros_of},
    {"new_empty_strided", new_zeros_of},
    {"new_full", new_full_of},
    {"new_ones", new_ones_of},
    {"new_zeros", new_zeros_of},
    {"one_hot", one_hot_of},
    {"ones", ones_of},
    {"ones_like", ones_like_self},
    {"scalar_tensor", scalar_of},
    {"tril_indices", triangle_places},
    {"triu_indices", triangle_places},
    {"zero", zeros_like_self},
    {"zeros", zeros_of},
    {"zeros_like", zeros_like_self},
    // random numbers
    {"bernoulli", bernoulli_of, Sharing::kNothing, kDraws},
    {"bernoulli.p", bernoulli_of, Sharing::kNothing, kDraws},
    {"bernoulli_.float", bernoulli_of, Sharing::kNothing, kDraws},
    {"normal_", normal_in_place, Sharing::kNothing, kDraws},
    {"rand", rand_of, Sharing::kNothing, kDraws},
    {"rand_like", rand_of, Sharing::kNothing, kDraws},
    {"randint", randint_of, Sharing::kNothing, kDraws},
    {"randint.low", randint_of, Sharing::kNothing, kDraws},
    {"randint_like", randint_of, Sharing::kNothing, kDraws},
    {"randint_like.low_dtype", randint_of, Sharing::kNothing, kDraws},
    {"randn", randn_of, Sharing::kNothing, kDraws},
    {"randn_like", randn_of, Sharing::kNothing, kDraws},
    {"randperm", permutation, Sharing::kNothing, kDraws},
    {"uniform_", uniform_in_place, Sharing::kNothing, kDraws},
    {"exponential_", exponential_in_place, Sharing::kNothing, kDraws},
};

}  // namespace

std::span<const Function> make_functions() { return kMakeFunctions; }

}  // namespace kiln::graph::aten
