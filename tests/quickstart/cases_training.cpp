// Steps of training: optimisers over many tensors, and bags of embedding tables with the steps of their rows.
#include <algorithm>

#include "case_makers.h"
#include "kiln/dsl/tensor_table.h"

namespace kiln::quickstart {
namespace {

constexpr int32_t kChunk = 16384;
constexpr double kRate = 1e-3, kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8, kDecay = 0.01;

template <class M>
Buffer<M> filled(const std::vector<M>& values) {
  Buffer<M> out = allocate<M>(std::max<size_t>(values.size(), 1));
  std::copy(values.begin(), values.end(), out.get());
  return out;
}

// So many tensors of n elements together, the longest about thirty times the shortest, one behind another in each of
// `arrays` arrays of elements of four bytes; in the arrays places are the same.
struct Model {
  Model(int32_t count, int32_t n, size_t arrays) {
    std::vector<int64_t> lengths, ends = {0};
    for (int64_t i = 1; i <= count; ++i) {
      // In multiples of 8 elements, as long as it does not end.
      ends.push_back(i == count ? n : static_cast<int64_t>(n) * i / count / 8 * 8);
      lengths.push_back(ends[static_cast<size_t>(i)] - ends[static_cast<size_t>(i - 1)]);
    }
    for (int32_t i = 0; i + 1 < count; i += 2) {  // pairs of unlike length
      const int64_t part = lengths[static_cast<size_t>(i)] * 15 / 16 / 8 * 8;
      lengths[static_cast<size_t>(i)] -= part;
      lengths[static_cast<size_t>(i + 1)] += part;
    }
    std::vector<const void*> addresses;
    for (uintptr_t at = 64; int64_t length : lengths) {
      addresses.push_back(reinterpret_cast<const void*>(at));
      at += static_cast<uintptr_t>(length) * 4;
    }
    table = *tensor_table(lengths, std::vector<TensorArray>(arrays, TensorArray{4, addresses}), kChunk);
  }
  TensorTable table;
};

// How many steps p has taken, from the mean of gradients that are always the same.
double steps_of(float mean, float gradient) {
  return std::round(std::log1p(-double{mean} / gradient) / std::log(kBeta1));
}

Case sgd_many(int32_t tensors, int32_t n) {
  return make_case(
      kernels::sgd_many(), shape_text({tensors, n}), {{"BLOCK", 4096}, {"ALIGN", 8}}, moves(20.0 * n), [=] {
        const auto size = static_cast<size_t>(n);
        auto first = normals(size, 1), p = normals(size, 1), g = normals(size, 2), m = zeros<float>(size);
        const Model model(tensors, n, 3);
        auto check = [=] {
          const double steps = steps_of(m[0], g[0]);
          return compare(p.get(), size, [&](size_t i) {
            double value = first[i], mean = 0;
            for (double step = 0; step < steps; ++step) {
              mean = kBeta1 * mean + (1 - kBeta1) * g[i];
              value -= kRate * mean;
            }
            return value;
          });
        };
        return launch(check, p, g, m, filled(model.table.tensors), filled(model.table.chunks),
                      filled(std::vector<float>{1, 1}), model.table.programs, kChunk, kRate, kBeta1, kBeta1, 0.0);
      });
}

// As the case of adamw; `split`: weights in two halves, which must be those of float64 to f32's precision.
Case adamw_many(int32_t tensors, int32_t n, bool split) {
  const auto make = [=](auto... weights) {
    const auto size = static_cast<size_t>(n);
    auto first = normals(size, 1);
    const auto parts = std::tuple{weights...};
    auto m = zeros<float>(size), v = zeros<float>(size);
    const Model model(tensors, n, 4 + split);
    const auto finish = [=](auto g, auto now) {
      auto check = [=] {
        const double steps = steps_of(m[0], static_cast<float>(real(g[0])));
        auto p = allocate<float>(size);
        for (size_t i = 0; i < size; ++i) p[i] = now(i);
        return compare(p.get(), size, [&](size_t i) {
          double value = first[i], mean = 0, square = 0;
          const double slope = real(g[i]);
          for (double step = 0; step < steps; ++step) {
            mean = kBeta1 * mean + (1 - kBeta1) * slope;
            square = kBeta2 * square + (1 - kBeta2) * slope * slope;
            const double move = mean / (1 - kBeta1) / (std::sqrt(square / (1 - kBeta2)) + kEps);
            value = value * (1 - kRate * kDecay) - kRate * move;
          }
          return value;
        });
      };
      return std::apply(
          [&](auto... p) {
            return launch(check, p..., g, m, v, filled(model.table.tensors), filled(model.table.chunks),
                          filled(std::vector<float>{1, 1}), model.table.programs, kChunk, kRate, kBeta1, kBeta2, kEps,
                          kDecay, int32_t{1});
          },
          parts);
    };
    if constexpr (sizeof...(weights) == 2) {
      const auto [high, low] = parts;
      return finish(elements<bf16>(size, 2),
                    [=](size_t i) { return std::bit_cast<float>(uint32_t{high[i].bits} << 16 | low[i]); });
    } else {
      const auto [p] = parts;
      return finish(normals(size, 2), [=](size_t i) { return p[i]; });
    }
  };
  const dsl::ConstexprValues config = {{"BLOCK", 4096}, {"ALIGN", 8}};
  const std::string shape = shape_text({tensors, n});
  if (!split)
    return make_case(kernels::adamw_many(), shape, config, moves(28.0 * n),
                     [=] { return make(normals(static_cast<size_t>(n), 1)); });
  return make_case(kernels::adamw_split_many(), shape, config, moves(26.0 * n), [=] {
    const auto size = static_cast<size_t>(n);
    auto whole = normals(size, 1);
    auto high = allocate<bf16>(size);
    auto low = allocate<uint16_t>(size);
    for (size_t i = 0; i < size; ++i) {
      const auto bits = std::bit_cast<uint32_t>(whole[i]);
      high[i].bits = static_cast<uint16_t>(bits >> 16);
      low[i] = static_cast<uint16_t>(bits);
    }
    return make(high, low);
  });
}

Case gradient_sums(int32_t tensors, int32_t n) {
  return make_case(kernels::gradient_sums(), shape_text({tensors, n}), {{"BLOCK", 4096}, {"ALIGN", 8}}, reads(4.0 * n),
                   [=] {
                     const auto size = static_cast<size_t>(n);
                     auto g = normals(size, 1);
                     g[size / 2] = INFINITY;
                     const Model model(tensors, n, 1);
                     const auto programs = static_cast<size_t>(model.table.programs);
                     auto sums = allocate<float>(programs);
                     auto bad = allocate<int32_t>(programs);
                     auto check = [=] {
                       int64_t wrong = -1;
                       double finite = 0, expected = 0;
                       for (size_t c = 0; c < programs; ++c) {
                         wrong += bad[c];
                         const auto row = static_cast<size_t>(model.table.chunks[2 * c]) * 2;
                         const int64_t first = int64_t{model.table.chunks[2 * c + 1]} * kChunk;
                         const int64_t end = std::min(model.table.tensors[row], first + kChunk);
                         if (bad[c] != 0) continue;
                         finite += sums[c];
                         for (int64_t i = first; i < end; ++i) {
                           const double x = g[static_cast<size_t>(model.table.tensors[row + 1] + i)];
                           expected += x * x;
                         }
                       }
                       const double error = std::fabs(finite / expected - 1);
                       return Check{error, wrong == 0 && error < 1e-5};
                     };
                     return launch(check, g, filled(model.table.tensors), filled(model.table.chunks), sums, bad,
                                   model.table.programs, kChunk);
                   });
}

// Bags of as many ids each, over tables of as many rows, in one array.
struct Bags {
  Bags(int32_t tables, int32_t batch, int32_t size, int32_t entries, int32_t cols)
      : ids(ints(static_cast<size_t>(tables) * static_cast<size_t>(batch) * static_cast<size_t>(size), 0, entries, 3)),
        offsets(allocate<int32_t>(static_cast<size_t>(tables * batch + 1))) {
    for (int32_t i = 0; i <= tables * batch; ++i) offsets[static_cast<size_t>(i)] = i * size;
    std::vector<const void*> addresses;
    const int64_t extent = int64_t{entries} * cols;
    for (int32_t t = 0; t < tables; ++t) addresses.push_back(reinterpret_cast<const void*>(64 + 4 * extent * t));
    const std::vector<int64_t> lengths(static_cast<size_t>(tables), extent);
    table = *tensor_table(lengths, std::vector<TensorArray>{{4, addresses}}, INT32_MAX);
  }
  Buffer<int32_t> ids, offsets;
  TensorTable table;
};

struct BagShape {
  int32_t tables, batch, size, entries, cols;
  std::string text() const { return shape_text({tables, batch, size, entries, cols}); }
  size_t bags() const { return static_cast<size_t>(tables) * static_cast<size_t>(batch); }
  size_t width() const { return static_cast<size_t>(cols); }
  size_t elements() const { return static_cast<size_t>(tables) * static_cast<size_t>(entries) * width(); }
  double row_bytes() const { return 4.0 * cols; }
};

// The row of table t in the array of all.
size_t row_at(const BagShape& v, size_t bag, int32_t id) {
  return (bag / static_cast<size_t>(v.batch) * static_cast<size_t>(v.entries) + static_cast<size_t>(id)) * v.width();
}
size_t bag_at(const BagShape& v, size_t bag) {
  const auto batch = static_cast<size_t>(v.batch);
  return (bag % batch * static_cast<size_t>(v.tables) + bag / batch) * v.width();
}

Case embedding_bag(BagShape v) {
  const double rows = static_cast<double>(v.bags()) * (v.size + 1);
  return make_case(kernels::embedding_bag(), v.text(), {{"BLOCK", v.cols}}, moves(rows * v.row_bytes()), [=] {
    auto table = normals(v.elements(), 1), out = allocate<float>(v.bags() * v.width());
    const Bags bags(v.tables, v.batch, v.size, v.entries, v.cols);
    auto check = [=] {
      std::vector<double> expected(v.bags() * v.width());
      for (size_t bag = 0; bag < v.bags(); ++bag) {
        for (int32_t i = 0; i < v.size; ++i) {
          const int32_t id = bags.ids[bag * static_cast<size_t>(v.size) + static_cast<size_t>(i)];
          for (size_t c = 0; c < v.width(); ++c) expected[bag_at(v, bag) + c] += table[row_at(v, bag, id) + c];
        }
      }
      return compare_rows(
          out.get(), v.bags(), v.width(),
          [&](size_t r, double* row) { std::copy_n(&expected[r * v.width()], v.width(), row); }, v.size);
    };
    return launch(check, table, filled(bags.table.tensors), bags.ids, bags.offsets, zeros<float>(1), out, v.batch,
                  v.tables, v.cols, v.tables * v.cols, int32_t{-1});
  });
}

// Launched many times, with the same gradient: rows move by multiples of one step.
template <class Def, class Make>
Case row_step(const Def& def, BagShape v, double times, Make make) {
  const double rows = static_cast<double>(v.bags()) * (v.size * times + 1);
  return make_case(def, v.text(), {{"BLOCK", v.cols}}, moves(rows * v.row_bytes()), [=] {
    auto table = zeros<float>(v.elements()), dout = normals(v.bags() * v.width(), 5);
    const Bags bags(v.tables, v.batch, v.size, v.entries, v.cols);
    auto check = [=] {
      std::vector<double> once(v.elements()), size(v.elements());
      for (size_t at = 0; at < v.bags() * static_cast<size_t>(v.size); ++at) {
        const size_t bag = at / static_cast<size_t>(v.size);
        for (size_t c = 0; c < v.width(); ++c) {
          const double step = kRate * dout[bag_at(v, bag) + c];
          once[row_at(v, bag, bags.ids[at]) + c] -= step;
          size[row_at(v, bag, bags.ids[at]) + c] += std::fabs(step);
        }
      }
      const size_t first = row_at(v, 0, bags.ids[0]);
      const double launches = std::round(table[first] / once[first]);
      double most = 0;
      for (double x : size) most = std::max(most, x);
      Check out = compare_rows(
          table.get(), v.elements() / v.width(), v.width(),
          [&](size_t r, double* row) {
            for (size_t c = 0; c < v.width(); ++c) row[c] = once[r * v.width() + c] * launches;
          },
          10 * launches * most);
      out.passed = out.passed && launches >= 1;
      return out;
    };
    return make(check, table, dout, bags);
  });
}

Case embedding_sgd_atomic(BagShape v) {
  return row_step(kernels::embedding_sgd_atomic(), v, 2, [=](auto check, auto table, auto dout, const Bags& bags) {
    return launch(check, table, filled(bags.table.tensors), bags.ids, bags.offsets, zeros<float>(1), dout, v.batch,
                  v.tables, v.cols, v.tables * v.cols, int32_t{-1}, static_cast<float>(kRate));
  });
}

Case embedding_sgd(BagShape v) {
  return row_step(kernels::embedding_sgd(), v, 3, [=](auto check, auto table, auto dout, const Bags& bags) {
    const size_t n = v.bags() * static_cast<size_t>(v.size);
    std::vector<int32_t> order(n), of(n);
    std::vector<uint64_t> keys(n), sorted(n);
    for (size_t i = 0; i < n; ++i) {
      order[i] = static_cast<int32_t>(i);
      of[i] = static_cast<int32_t>(i / static_cast<size_t>(v.size));
      keys[i] = static_cast<uint64_t>(of[i] / v.batch) << 32 | static_cast<uint32_t>(bags.ids[i]);
    }
    std::ranges::stable_sort(order, {}, [&](int32_t i) { return keys[static_cast<size_t>(i)]; });
    for (size_t i = 0; i < n; ++i) sorted[i] = keys[static_cast<size_t>(order[i])];
    return launch(check, table, filled(bags.table.tensors), filled(sorted), filled(order), filled(of),
                  filled(std::vector<float>(n, 1)), dout, static_cast<int32_t>(n), v.batch, v.cols, v.tables * v.cols,
                  static_cast<float>(kRate));
  });
}

Case dlrm_interaction_backward(int32_t batch, int32_t features, int32_t width) {
  const auto f = static_cast<size_t>(features), d = static_cast<size_t>(width), count = static_cast<size_t>(batch);
  const size_t out_width = d + f * (f - 1) / 2;
  const double bytes =
      4.0 * static_cast<double>(count) * (2 * static_cast<double>(f * d) + static_cast<double>(out_width));
  return make_case(kernels::dlrm_interaction_backward(), shape_text({batch, features, width}),
                   {{"F", features}, {"D", width}}, moves(bytes), [=] {
                     auto x = normals(count * f * d, 1), dout = normals(count * out_width, 2);
                     auto dx = allocate<float>(count * f * d);
                     auto check = [=] {
                       return compare_rows(
                           dx.get(), count * f, d,
                           [&](size_t row, double* expected) {
                             const size_t b = row / f, i = row % f;
                             const float* slope = &dout[b * out_width];
                             for (size_t c = 0; c < d; ++c) expected[c] = i == 0 ? slope[c] : 0.0F;
                             for (size_t j = 0; j < f; ++j) {
                               if (j == i) continue;
                               const size_t high = std::max(i, j), low = std::min(i, j);
                               const double s = slope[d + high * (high - 1) / 2 + low];
                               for (size_t c = 0; c < d; ++c) expected[c] += s * x[(b * f + j) * d + c];
                             }
                           },
                           20);
                     };
                     return launch(check, x, dout, dx, batch);
                   });
}

}  // namespace

std::vector<Case> training_cases(Size size) {
  if (size == Size::kSmall) {
    const BagShape bags{3, 17, 5, 40, 24};
    return {sgd_many(13, 40'003),        adamw_many(7, 40'003, false),
            adamw_many(7, 10'007, true), gradient_sums(13, 40'003),
            embedding_bag(bags),         embedding_sgd(bags),
            embedding_sgd_atomic(bags),  dlrm_interaction_backward(5, 7, 16)};
  }
  if (size == Size::kInCache) {
    const BagShape bags{4, 64, 8, 512, 64};
    return {sgd_many(16, 1 << 15), adamw_many(16, 1 << 15, false), gradient_sums(16, 1 << 17), embedding_bag(bags)};
  }
  const BagShape bags{26, 2048, 10, 20'000, 64};
  return {sgd_many(200, 1 << 24),
          adamw_many(200, 1 << 24, false),
          adamw_many(10'000, 1 << 24, false),
          adamw_many(200, 1 << 24, true),
          gradient_sums(200, 1 << 24),
          embedding_bag(bags),
          embedding_sgd(bags),
          embedding_sgd_atomic(bags),
          dlrm_interaction_backward(2048, 27, 128)};
}

}  // namespace kiln::quickstart
