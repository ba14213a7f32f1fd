// Kernels of kernels/embedding_bag.h: bags over many tables, steps on the rows that their ids name, and the gradient of
// DLRM's interaction.
#include <algorithm>
#include <numeric>

#include "check.h"
#include "kiln/dsl/tensor_table.h"

namespace kiln::test {
namespace {

constexpr int64_t kBatch = 5, kCount = 3, kCols = 13, kStride = kCount * kCols + 4;
constexpr int32_t kPadding = 2;
constexpr std::array<int64_t, kCount> kEntries = {7, 40, 3};

// Bags of 0 to 9 ids; some are all padding.
struct Bags {
  std::vector<int32_t> ids, offsets = {0};
  std::vector<float> weights;
  std::vector<int32_t> bags;  // by id

  Bags() {
    for (int64_t bag = 0; bag < kCount * kBatch; ++bag) {
      const auto size = static_cast<size_t>(bag * 7 % 10);
      for (int32_t id : ints(size, 0, static_cast<int32_t>(kEntries[static_cast<size_t>(bag / kBatch)]), 1)) {
        ids.push_back(bag % 4 == 3 ? kPadding : id);
        bags.push_back(static_cast<int32_t>(bag));
      }
      offsets.push_back(static_cast<int32_t>(ids.size()));
    }
    weights = normals(ids.size(), 2);
  }
  int64_t table(size_t i) const { return bags[i] / kBatch; }
  // How many times id i counts: `mode` of embedding_bag, 0 or 1.
  double factor(size_t i, int mode, bool weighted) const {
    if (ids[i] == kPadding) return 0;
    const auto bag = static_cast<size_t>(bags[i]);
    const auto first = ids.begin() + offsets[bag], end = ids.begin() + offsets[bag + 1];
    const auto members = (end - first) - std::count(first, end, kPadding);
    return weighted ? double{weights[i]} : mode == 1 ? 1.0 / static_cast<double>(members) : 1;
  }
};

// Where tables begin in one array, `cols` elements a row, and the array's table; the last table lies in front.
struct Tables {
  explicit Tables(std::vector<int64_t> widths) {
    std::vector<int64_t> lengths;
    for (int64_t entries : kEntries) lengths.push_back(entries * kCols);
    std::vector<std::vector<const void*>> addresses(widths.size());
    std::vector<TensorArray> arrays;
    for (size_t a = 0; a < widths.size(); ++a) {
      first.push_back({0, (kEntries[0] + kEntries[2]) * widths[a] + 9, kEntries[0] * widths[a] + 5});
      for (int64_t at : first[a]) addresses[a].push_back(reinterpret_cast<const void*>(at * 4));
      arrays.push_back({4, addresses[a]});
      extents.push_back(static_cast<size_t>(first[a][1] + kEntries[1] * widths[a]));
    }
    table = *tensor_table(lengths, arrays, INT32_MAX);
  }
  std::vector<std::array<int64_t, kCount>> first;
  std::vector<size_t> extents;
  TensorTable table;
};

template <class T>
void check_bags(int mode, bool weighted, int64_t rows, int64_t block) {
  const Bags bags;
  const Tables tables({kCols});
  const auto weights = normals_of<T>(tables.extents[0], 1);
  const auto in = reals(weights);
  std::vector<double> expected(kBatch * kStride), magnitude(expected.size());
  std::vector<size_t> place;
  for (int64_t s = 0; s < kBatch; ++s) {
    for (int64_t c = 0; c < kCount * kCols; ++c) {
      const int64_t t = c / kCols, bag = t * kBatch + s;
      double total = mode == 2 ? -INFINITY : 0, size = 0;
      for (int32_t i = bags.offsets[static_cast<size_t>(bag)]; i < bags.offsets[static_cast<size_t>(bag + 1)]; ++i) {
        const auto at = static_cast<size_t>(i);
        if (bags.ids[at] == kPadding) continue;
        const double v =
            in[static_cast<size_t>(tables.first[0][static_cast<size_t>(t)] + bags.ids[at] * kCols + c % kCols)];
        total = mode == 2 ? std::max(total, v) : total + v * bags.factor(at, mode, weighted);
        size += std::fabs(v);
      }
      place.push_back(static_cast<size_t>(s * kStride + c));
      expected[place.back()] = total == -INFINITY ? 0 : total;
      magnitude[place.back()] = size;
    }
  }
  const Arguments arguments = {buffer(weights),      buffer(tables.table.tensors),
                               buffer(bags.ids),     buffer(bags.offsets),
                               buffer(bags.weights), buffer(normals_of<T>(expected.size(), 5)),
                               int_of(kBatch),       int_of(kCount),
                               int_of(kCols),        int_of(kStride),
                               int_of(kPadding)};
  const auto before = reals<T>(arguments[5]);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (static_cast<int64_t>(i) % kStride >= kCount * kCols) expected[i] = before[i];
  }
  check_both(kernels::embedding_bag<T>().ir(),
             {{"MODE", mode}, {"WEIGHTED", weighted}, {"ROWS", rows}, {"BLOCK", block}}, arguments,
             [&](const Arguments& out) { expect_close<T>(out[5], expected, magnitude); });
}

TEST(EmbeddingBags, OfManyTables) {
  check_bags<lang::f32>(0, false, 1, 8);
  check_bags<lang::f32>(0, true, 4, 16);
  check_bags<lang::f32>(1, false, 4, 16);
  check_bags<lang::f32>(2, false, 4, 16);
  check_bags<lang::f32>(2, false, 1, 4);
  check_bags<lang::bf16>(0, true, 4, 16);
  check_bags<lang::f16>(1, false, 1, 16);
}

struct Ordered {
  std::vector<uint64_t> keys, sorted;
  std::vector<int32_t> order;
  std::vector<float> factors;
};

Ordered ordered(const Bags& bags, int mode, bool weighted) {
  Ordered out;
  for (size_t i = 0; i < bags.ids.size(); ++i) {
    const bool counts = bags.ids[i] != kPadding;
    const auto row = static_cast<uint64_t>(bags.ids[i]);
    out.keys.push_back(counts ? static_cast<uint64_t>(bags.table(i)) << 32 | row : ~uint64_t{0});
    out.factors.push_back(static_cast<float>(bags.factor(i, mode, weighted)));
  }
  out.order.resize(out.keys.size());
  std::iota(out.order.begin(), out.order.end(), 0);
  std::ranges::stable_sort(out.order, {}, [&](int32_t i) { return out.keys[static_cast<size_t>(i)]; });
  for (int32_t i : out.order) out.sorted.push_back(out.keys[static_cast<size_t>(i)]);
  return out;
}

TEST(EmbeddingBags, IdsAreOrderedByTableAndRow) {
  const Bags bags;
  const size_t n = bags.ids.size();
  for (const auto& [mode, weighted] : {std::pair{0, false}, {0, true}, {1, false}}) {
    const Ordered expected = ordered(bags, mode, weighted);
    check_both(kernels::embedding_keys().ir(), {{"MODE", mode}, {"WEIGHTED", weighted}, {"BLOCK", 4}},
               {buffer(bags.ids), buffer(bags.offsets), buffer(bags.weights), empty<uint64_t>(n), empty<int32_t>(n),
                empty<float>(n), int_of(kBatch), int_of(kCount), int_of(kPadding)},
               [&](const Arguments& out) {
                 expect_equal(out[3], expected.keys);
                 expect_equal(out[4], bags.bags);
                 // Of padding a factor may be anything.
                 auto factors = reals<lang::f32>(out[5]);
                 for (size_t i = 0; i < n; ++i) factors[i] *= bags.ids[i] != kPadding;
                 expect_close(factors, reals(expected.factors), 1e-6);
               });
    if (mode != 0 || weighted) continue;
    check_both(kernels::embedding_order().ir(), {{"BLOCK", 128}},
               {buffer(expected.keys), empty<uint64_t>(n), empty<int32_t>(n), int_of(static_cast<int64_t>(n))},
               [&](const Arguments& out) {
                 expect_equal(out[1], expected.sorted);
                 expect_equal(out[2], expected.order);
               });
  }
}

constexpr float kRate = 0.25F, kEps = 1e-5F;

// The gradients of all rows, at the places of a table's array.
std::vector<double> gradients(const Bags& bags, const Tables& tables, const std::vector<double>& dout, int mode,
                              bool weighted) {
  std::vector<double> out(tables.extents[0]);
  for (size_t i = 0; i < bags.ids.size(); ++i) {
    const int64_t sample = bags.bags[i] % kBatch, t = bags.table(i);
    for (int64_t c = 0; c < kCols && bags.ids[i] != kPadding; ++c) {
      const auto to = static_cast<size_t>(tables.first[0][static_cast<size_t>(t)] + bags.ids[i] * kCols + c);
      out[to] += bags.factor(i, mode, weighted) * dout[static_cast<size_t>(sample * kStride + t * kCols + c)];
    }
  }
  return out;
}

template <class T>
void check_steps(int mode, bool weighted) {
  const Bags bags;
  const Ordered order = ordered(bags, mode, weighted);
  const auto dout = normals_of<T>(kBatch * kStride, 6);
  const Tables one({kCols}), two({kCols, kCols}), rowwise({kCols, 1});
  const auto table = normals_of<T>(one.extents[0], 7);
  auto state = normals(two.extents[1], 8);
  for (float& x : state) x = std::fabs(x);
  const auto g = gradients(bags, one, reals(dout), mode, weighted);
  const auto w = reals(table), s = reals(state);
  const auto n = int_of(static_cast<int64_t>(bags.ids.size()));
  const auto run = [&](const Result<dsl::Kernel>& ir, const Tables& tables, bool has_state, const Checker& check) {
    SCOPED_TRACE(ir->name);
    Arguments arguments = {buffer(table)};
    if (has_state) arguments.push_back(buffer(state));
    for (const TestArgument& more :
         {buffer(tables.table.tensors), buffer(order.sorted), buffer(order.order), buffer(bags.bags),
          buffer(order.factors), buffer(dout), n, int_of(kBatch), int_of(kCols), int_of(kStride), float_of(kRate)}) {
      arguments.push_back(more);
    }
    if (has_state) arguments.push_back(float_of(kEps));
    check_both(ir, {{"BLOCK", 16}}, arguments, check);
  };
  std::vector<double> sgd = w, adagrad = w, squares = s, by_row = w, kept = s;
  for (size_t i = 0; i < w.size(); ++i) {
    sgd[i] -= kRate * g[i];
    squares[i] += g[i] * g[i];
    adagrad[i] -= kRate * g[i] / (std::sqrt(squares[i]) + kEps);
  }
  for (size_t t = 0; t < kCount; ++t) {
    for (int64_t r = 0; r < kEntries[t]; ++r) {
      const auto row = static_cast<size_t>(rowwise.first[0][t] + r * kCols),
                 at = static_cast<size_t>(rowwise.first[1][t] + r);
      double square = 0;
      for (size_t c = 0; c < kCols; ++c) square += g[row + c] * g[row + c] / kCols;
      kept[at] += square;
      for (size_t c = 0; c < kCols; ++c) by_row[row + c] -= kRate * g[row + c] / (std::sqrt(kept[at]) + kEps);
    }
  }
  const double rtol = std::max(rtol_v<T>, 1e-5);
  const std::vector<double> size(w.size(), 2);
  run(kernels::embedding_sgd<T>().ir(), one, false,
      [&](const Arguments& out) { expect_close(reals<T>(out[0]), sgd, rtol, size); });
  run(kernels::embedding_adagrad<T>().ir(), two, true, [&](const Arguments& out) {
    expect_close(reals<T>(out[0]), adagrad, rtol, size);
    expect_close(reals<lang::f32>(out[1]), squares, 1e-5);
  });
  run(kernels::embedding_rowwise_adagrad<T>().ir(), rowwise, true, [&](const Arguments& out) {
    expect_close(reals<T>(out[0]), by_row, rtol, size);
    expect_close(reals<lang::f32>(out[1]), kept, 1e-5);
  });
  if (mode != 0 || !std::is_same_v<T, lang::f32>) return;
  check_both(
      kernels::embedding_sgd_atomic<T>().ir(), {{"WEIGHTED", weighted}, {"BLOCK", 16}},
      {buffer(table), buffer(one.table.tensors), buffer(bags.ids), buffer(bags.offsets), buffer(bags.weights),
       buffer(dout), int_of(kBatch), int_of(kCount), int_of(kCols), int_of(kStride), int_of(kPadding), float_of(kRate)},
      [&](const Arguments& out) { expect_close(reals<T>(out[0]), sgd, 1e-5, size); });
}

TEST(EmbeddingBags, StepTheRowsThatIdsName) {
  check_steps<lang::f32>(0, false);
  check_steps<lang::f32>(0, true);
  check_steps<lang::f32>(1, false);
  check_steps<lang::bf16>(0, true);
}

template <class T>
void check_interaction_backward(size_t batch, size_t f, size_t d) {
  const size_t width = d + f * (f - 1) / 2;
  const auto features = normals_of<T>(batch * f * d, 1), dout = normals_of<T>(batch * width, 2);
  const auto x = reals(features), g = reals(dout);
  std::vector<double> expected(x.size());
  for (size_t b = 0; b < batch; ++b) {
    double* to = &expected[b * f * d];
    const double *from = &x[b * f * d], *slope = &g[b * width];
    for (size_t c = 0; c < d; ++c) to[c] += slope[c];
    for (size_t i = 0, pair = d; i < f; ++i) {
      for (size_t j = 0; j < i; ++j, ++pair) {
        for (size_t c = 0; c < d; ++c) {
          to[i * d + c] += slope[pair] * from[j * d + c];
          to[j * d + c] += slope[pair] * from[i * d + c];
        }
      }
    }
  }
  check_both(kernels::dlrm_interaction_backward<T>().ir(),
             {{"F", static_cast<int64_t>(f)}, {"D", static_cast<int64_t>(d)}},
             {buffer(features), buffer(dout), empty<Memory<T>>(x.size()), int_of(static_cast<int64_t>(batch))},
             [&](const Arguments& out) { expect_product<T>(out[2], expected, f); });
}

TEST(Interaction, Gradient) {
  for_floats([]<class T>() { check_interaction_backward<T>(3, 5, 12); });
  check_interaction_backward<lang::f32>(2, 3, 7);
  check_interaction_backward<lang::bf16>(2, 27, 32);
}

}  // namespace
}  // namespace kiln::test
