#include "growth/families.h"

#include <cstring>

#include "kiln/dsl/kernel.h"

namespace kiln::growth {
namespace {

using namespace kiln::lang;
using lang::f32;

// A body that is given the first tile of x, where tiles of x and y lie, and how often to repeat itself.
struct Places {
  Value x_pointer, y_pointer;
  Value x, y;  // tiles of pointers to the first kBlock elements
  Value n;
};

template <class T, class Body>
Result<dsl::Kernel> traced(Body body) {
  return kernel("grown", {"x", "y", "n"},
                [&](Ptr<const T> x, Ptr<T> y, i32 n) {
                  const Value lanes = arange(0, kBlock);
                  body(Places{x, y, x + lanes, y + lanes, Value(n)});
                })
      .ir();
}

// y = step(… step(x)), `step` given the value so far, x and its number.
template <class T, class Step>
Result<dsl::Kernel> chain(int count, Step step) {
  return traced<T>([&](const Places& at) {
    const Value x = load(at.x);
    Value v = x;
    for (int i = 0; i < count; ++i) v = step(v, x, i);
    store(at.y, v);
  });
}

float factor(int i) { return 1.0f + static_cast<float>(i) / 1024.0f; }

Result<dsl::Kernel> adds_f32(int count) {
  return chain<f32>(count, [](const Value& v, const Value& x, int) { return v + x; });
}
Result<dsl::Kernel> adds_i32(int count) {
  return chain<i32>(count, [](const Value& v, const Value& x, int) { return v + x; });
}
Result<dsl::Kernel> mixed_i32(int count) {
  return chain<i32>(count, [](const Value& v, const Value& x, int i) { return i % 2 == 0 ? v * x : v ^ (x + i); });
}
Result<dsl::Kernel> scalars(int count) {
  return traced<f32>([&](const Places& at) {
    Value s = cast(at.n, f32_t);
    for (int i = 0; i < count; ++i) s = s * factor(i);
    store(at.y, load(at.x) + s);
  });
}
// What a launcher could compute too, and the trace keeps as an expression while that is small.
Result<dsl::Kernel> scalar_ints(int count) {
  return traced<f32>([&](const Places& at) {
    Value s = at.n;
    for (int i = 0; i < count; ++i) s = i % 3 == 0 ? s * (s + 1) : i % 3 == 1 ? s / (at.n + i) : min(s, at.n + i);
    store(at.y, load(at.x) + cast(s, f32_t));
  });
}
// Each value has two uses: a walk that forgets where it was takes 2^count steps.
Result<dsl::Kernel> diamonds(int count) {
  return chain<f32>(count, [](const Value& v, const Value&, int) { return v * v; });
}
Result<dsl::Kernel> tanhs(int count) {
  return chain<f32>(count, [](const Value& v, const Value&, int) { return tanh(v); });
}
Result<dsl::Kernel> sines(int count) {
  return chain<f32>(count, [](const Value& v, const Value& x, int i) { return v + sin(x * factor(i)); });
}
Result<dsl::Kernel> divisions(int count) {
  return chain<i32>(count, [](const Value& v, const Value& x, int i) { return v / (x + i); });
}
Result<dsl::Kernel> reductions(int count) {
  return chain<f32>(count, [](const Value& v, const Value&, int) { return v - sum(v, 0) * (1.0f / kBlock); });
}
// Of values of their own, none of which waits for another.
Result<dsl::Kernel> sums(int count) {
  return traced<f32>([&](const Places& at) {
    const Value x = load(at.x);
    Value total = x;
    for (int i = 0; i < count; ++i) total = total + sum(x * factor(i % 512) + i, 0);
    store(at.y, total);
  });
}
// Of rows, each in a place of its own, of which one element is stored.
Result<dsl::Kernel> row_sums(int count) {
  return traced<f32>([&](const Places& at) {
    const Value rows = arange(0, 8), columns = arange(0, kBlock / 8);
    const Value lanes = expand_dims(rows, 1) * (kBlock / 8) + expand_dims(columns, 0);
    const Value x = at.x_pointer + lanes;
    for (int i = 0; i < count; ++i) store(at.y_pointer + i * kBlock + rows, sum(load(x + i * kBlock), 1));
  });
}
Result<dsl::Kernel> scans(int count) {
  return chain<f32>(count, [](const Value& v, const Value& x, int) { return scan(v, 0, ReduceKind::kMax) - x; });
}
Result<dsl::Kernel> sorts(int count) {
  return chain<f32>(count, [](const Value& v, const Value& x, int) { return sort(v, 0) - x; });
}
Result<dsl::Kernel> dots(int count) {
  return traced<f32>([&](const Places& at) {
    const Value x = reshape(load(at.x), {8, kBlock / 8});
    Value v = x;
    for (int i = 0; i < count; ++i) v = dot(v, x) * (1.0f / 28);
    store(at.y, reshape(v, {kBlock}));
  });
}
Result<dsl::Kernel> joins(int count) {
  return chain<f32>(count, [](const Value& v, const Value& x, int) {
    auto [a, b] = split(join(v, x));
    return a - b;
  });
}
Result<dsl::Kernel> reshapes(int count) {
  return chain<f32>(count, [](const Value& v, const Value& x, int) {
    return reshape(trans(reshape(v, {8, kBlock / 8})), {kBlock}) + x;
  });
}
Result<dsl::Kernel> stores(int count) {
  return traced<f32>([&](const Places& at) {
    const Value x = load(at.x);
    for (int i = 0; i < count; ++i) store(at.y + i * kBlock, x * factor(i));
  });
}
Result<dsl::Kernel> masked_stores(int count) {
  return traced<f32>([&](const Places& at) {
    const Value lanes = arange(0, kBlock);
    for (int i = 0; i < count; ++i) {
      const Value mask = lanes + i * kBlock < at.n * 1000;
      const Value x = load(at.x + i * kBlock, {.mask = mask, .other = 0.0f});
      store(at.y + i * kBlock, x * factor(i), {.mask = mask});
    }
  });
}
Result<dsl::Kernel> atomics(int count) {
  return traced<f32>([&](const Places& at) {
    const Value x = load(at.x);
    for (int i = 0; i < count; ++i) atomic_add(at.y + i * kBlock, x + i);
  });
}
// No two of them in one walk: each reads what the one before it wrote.
Result<dsl::Kernel> updates(int count) {
  return traced<f32>([&](const Places& at) {
    for (int i = 0; i < count; ++i) store(at.y, load(at.y) * factor(i));
  });
}
Result<dsl::Kernel> loads(int count) {
  return traced<f32>([&](const Places& at) {
    Value v = load(at.x);
    for (int i = 1; i <= count; ++i) v = v + load(at.x + i * kBlock);
    store(at.y, v);
  });
}
Result<dsl::Kernel> masked_loads(int count) {
  return traced<f32>([&](const Places& at) {
    Value v = load(at.x);
    for (int i = 1; i <= count; ++i) {
      const Value mask = arange(0, kBlock) + i * kBlock < at.n * 1000;
      v = v + load(at.x + i * kBlock, {.mask = mask, .other = 0.0f});
    }
    store(at.y, v);
  });
}
// Each mask has the one before it twice.
Result<dsl::Kernel> shared_masks(int count) {
  return traced<f32>([&](const Places& at) {
    const Value lanes = arange(0, kBlock);
    Value mask = lanes < at.n * 1000;
    for (int i = 0; i < count; ++i)
      mask = (mask & (lanes < at.n * (1000 + i))) & (mask & (lanes * 2 < at.n * (3000 + i)));
    store(at.y, load(at.x, {.mask = mask, .other = 0.0f}) * 2.0f, {.mask = mask});
  });
}
// The same of the rows of a product.
Result<dsl::Kernel> masked_products(int count) {
  return traced<f32>([&](const Places& at) {
    const Value rows = arange(0, 8), columns = arange(0, 8);
    const Value lanes = expand_dims(rows, 1) * 8 + expand_dims(columns, 0);
    Value mask = expand_dims(rows < at.n * 1000, 1) & expand_dims(columns < at.n * 1000, 0);
    for (int i = 0; i < count; ++i)
      mask = (mask & (lanes < at.n * (1000 + i))) & (mask & (lanes * 2 < at.n * (3000 + i)));
    const Value a = load(at.x_pointer + lanes, {.mask = mask, .other = 0.0f});
    store(at.y_pointer + lanes, dot(a, a));
  });
}
// An unrolled filter of rows of 16, at the borders of an image.
Result<dsl::Kernel> taps(int count) {
  return traced<f32>([&](const Places& at) {
    const Value pixel = arange(0, kBlock), row = pixel / 8, column = pixel % 8;
    Value sum = splat(0.0f, {kBlock});
    for (int i = 0; i < count; ++i) {
      const Value y = row + (i / 16 - 2), x = column + (i % 16 - 8);
      const Value mask = (y >= 0) & (y < at.n * 1000) & (x >= 0) & (x < 8);
      sum = sum + load(at.x_pointer + (y * 8 + x), {.mask = mask, .other = 0.0f}) * load(at.x_pointer + i);
    }
    store(at.y, sum);
  });
}
Result<dsl::Kernel> randoms(int count) {
  return traced<f32>([&](const Places& at) {
    Value v = cast(load(at.x), u32_t);
    for (int i = 0; i < count; ++i) v = v ^ philox(i, v)[0];
    store(at.y, cast(v % 1000, f32_t));
  });
}
Result<dsl::Kernel> gathers(int count) {
  return traced<f32>([&](const Places& at) {
    const Value x = load(at.x), lanes = arange(0, kBlock);
    Value v = x;
    for (int i = 0; i < count; ++i) v = gather(v, lanes ^ (i % kBlock), 0) - x;
    store(at.y, v);
  });
}
Result<dsl::Kernel> cats(int count) {
  return chain<f32>(count, [](const Value& v, const Value& x, int i) {
    return slice(i % 2 == 0 ? cat(v, x, 0) : cat(x, v, 0), 0, kBlock / 2, kBlock / 2 + kBlock) - x;
  });
}
Result<dsl::Kernel> loops(int count) {
  return traced<f32>([&](const Places& at) {
    Var v = load(at.x);
    for (int i = 0; i < count; ++i) {
      for ([[maybe_unused]] Value turn : range(at.n)) v = v * factor(i);
    }
    store(at.y, v);
  });
}
Result<dsl::Kernel> branches(int count) {
  return traced<f32>([&](const Places& at) {
    Var v = load(at.x);
    for (int i = 0; i < count; ++i) {
      if_(at.n > i, [&] { v = v * factor(i); });
    }
    store(at.y, v);
  });
}

// So many values for one loop to carry.
std::vector<Var> multiples_of(const Value& x, int count) {
  std::vector<Var> out;
  out.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) out.emplace_back(x * factor(i));
  return out;
}

// One loop that carries them all.
Result<dsl::Kernel> carried(int count) {
  return traced<f32>([&](const Places& at) {
    const Value x = load(at.x);
    std::vector<Var> all = multiples_of(x, count);
    for ([[maybe_unused]] Value turn : range(at.n)) {
      for (size_t i = 0; i < all.size(); ++i) all[i] = all[i] * factor(static_cast<int>(i));
    }
    Value sum = x;
    for (const Var& each : all) sum = sum + each;
    store(at.y, sum);
  });
}

// Each takes the place of its neighbour, so that none goes in place.
Result<dsl::Kernel> rotated(int count) {
  return traced<f32>([&](const Places& at) {
    std::vector<Var> all = multiples_of(load(at.x), count);
    for ([[maybe_unused]] Value turn : range(at.n)) {
      std::vector<Value> before(all.begin(), all.end());
      for (size_t i = 0; i < all.size(); ++i) all[i] = before[(i + 1) % all.size()] + 1.0f;
    }
    for (int i = 0; i < count; ++i) store(at.y + i * kBlock, all[static_cast<size_t>(i)]);
  });
}

// Sums of products that one loop carries, of which each is stored.
Result<dsl::Kernel> carried_products(int count) {
  return traced<f32>([&](const Places& at) {
    const Value rows = arange(0, 8), columns = arange(0, 8);
    const Value lanes = expand_dims(rows, 1) * 8 + expand_dims(columns, 0);
    const Value x = load(at.x_pointer + lanes);
    std::vector<Var> all;
    all.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) all.emplace_back(splat(0.0f, {8, 8}));
    for ([[maybe_unused]] Value turn : range(at.n)) {
      for (size_t i = 0; i < all.size(); ++i) all[i] = dot(x * factor(static_cast<int>(i)), x, all[i]);
    }
    for (int i = 0; i < count; ++i) store(at.y_pointer + i * kBlock + lanes, all[static_cast<size_t>(i)]);
  });
}
// A loop with a product behind the other.
Result<dsl::Kernel> product_loops(int count) {
  return traced<f32>([&](const Places& at) {
    const Value rows = arange(0, 8), columns = arange(0, 8);
    const Value lanes = expand_dims(rows, 1) * 8 + expand_dims(columns, 0);
    const Value x = load(at.x_pointer + lanes);
    for (int i = 0; i < count; ++i) {
      Var sum = splat(0.0f, {8, 8});
      for ([[maybe_unused]] Value turn : range(at.n)) sum = dot(x * factor(i), x, sum);
      store(at.y_pointer + i * kBlock + lanes, sum);
    }
  });
}

void nest_for(Var& v, const Value& n, int depth) {
  if (depth == 0) {
    v = v + 1.0f;
    return;
  }
  for ([[maybe_unused]] Value turn : range(n)) {
    v = v * factor(depth);
    nest_for(v, n, depth - 1);
  }
}
Result<dsl::Kernel> nested_for(int depth) {
  return traced<f32>([&](const Places& at) {
    Var v = load(at.x);
    nest_for(v, at.n, depth);
    store(at.y, v);
  });
}

void nest_while(Var& v, const Value& n, int depth) {
  if (depth == 0) {
    v = v + 1.0f;
    return;
  }
  Var turn = 0;
  while_([&] { return turn < n; },
         [&] {
           v = v * factor(depth);
           nest_while(v, n, depth - 1);
           turn += 1;
         });
}
Result<dsl::Kernel> nested_while(int depth) {
  return traced<f32>([&](const Places& at) {
    Var v = load(at.x);
    nest_while(v, at.n, depth);
    store(at.y, v);
  });
}

void nest_if(Var& v, const Value& n, int depth) {
  if (depth == 0) {
    v = v + 1.0f;
    return;
  }
  if_(
      n > depth,
      [&] {
        v = v * factor(depth);
        nest_if(v, n, depth - 1);
      },
      [&] { v = v + factor(depth); });
}
Result<dsl::Kernel> nested_if(int depth) {
  return traced<f32>([&](const Places& at) {
    Var v = load(at.x);
    nest_if(v, at.n, depth);
    store(at.y, v);
  });
}

constexpr int kMostNested = 64;  // docs/reference/kiln-text.md

constexpr Family kFamilies[] = {
    {"adds_f32", adds_f32},
    {.name = "adds_i32", .kernel = adds_i32, .is_int = true},
    {.name = "mixed_i32", .kernel = mixed_i32, .is_int = true},
    {"scalars", scalars},
    {"scalar_ints", scalar_ints},
    {"diamonds", diamonds},
    {.name = "divisions", .kernel = divisions, .is_int = true},
    {.name = "tanhs", .kernel = tanhs, .is_exact = false},
    {.name = "sines", .kernel = sines, .is_exact = false},
    {"reductions", reductions},
    {"sums", sums},
    {.name = "row_sums", .kernel = row_sums, .elements_each = kBlock},
    {.name = "scans", .kernel = scans, .tested = 400},
    {.name = "sorts", .kernel = sorts, .tested = 200},
    {.name = "dots", .kernel = dots, .tested = 400, .is_exact = false},
    {.name = "joins", .kernel = joins, .tested = 4000},  // deeper than a stack, if it recurred over all
    {"reshapes", reshapes},
    {.name = "stores", .kernel = stores, .elements_each = kBlock},
    {.name = "masked_stores", .kernel = masked_stores, .elements_each = kBlock, .tested = 400},
    {.name = "atomics", .kernel = atomics, .elements_each = kBlock},
    {"updates", updates},
    {.name = "loads", .kernel = loads, .elements_each = kBlock},
    {.name = "masked_loads", .kernel = masked_loads, .elements_each = kBlock},
    {.name = "shared_masks", .kernel = shared_masks, .tested = 400},
    {"masked_products", masked_products},
    {.name = "taps", .kernel = taps, .elements_each = 8, .tested = 200, .is_exact = false},
    {.name = "randoms", .kernel = randoms, .tested = 200},
    {.name = "gathers", .kernel = gathers, .tested = 200},
    {"cats", cats},
    {"loops", loops},
    {"branches", branches},
    {"carried", carried},
    {.name = "rotated", .kernel = rotated, .elements_each = kBlock},
    {.name = "carried_products", .kernel = carried_products, .elements_each = kBlock, .tested = 100, .is_exact = false},
    {.name = "product_loops", .kernel = product_loops, .elements_each = kBlock, .tested = 100, .is_exact = false},
    {.name = "nested_for", .kernel = nested_for, .most = kMostNested},
    {.name = "nested_while", .kernel = nested_while, .most = kMostNested},
    {.name = "nested_if", .kernel = nested_if, .most = kMostNested},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(const char* name) {
  for (const Family& family : kFamilies) {
    if (std::strcmp(family.name, name) == 0) return &family;
  }
  return nullptr;
}

}  // namespace kiln::growth
