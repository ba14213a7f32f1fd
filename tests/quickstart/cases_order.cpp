// Kernels that move, sort, select and count.
#include <algorithm>
#include <numeric>

#include "case_makers.h"

namespace kiln::quickstart {
namespace {

// For results that are right or wrong: how many are wrong stands for the error.
Check exact(size_t wrong) { return {static_cast<double>(wrong), wrong == 0}; }

Case argmax(int32_t rows, int32_t cols) {
  return make_case(kernels::argmax(), shape_text({rows, cols}), {{"BLOCK", cols}}, reads(4.0 * rows * cols), [=] {
    const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(cols);
    auto x = normals(height * width, 1);
    auto at = allocate<int32_t>(height);
    auto check = [=] {
      size_t wrong = 0;
      for (size_t r = 0; r < height; ++r) {
        const float* row = x.get() + r * width;
        wrong += std::max_element(row, row + width) - row != at[r];
      }
      return exact(wrong);
    };
    return launch(check, x, at, rows, cols, cols);
  });
}

Case sort_rows(int32_t rows, int32_t cols) {
  return make_case(kernels::sort_rows(), shape_text({rows, cols}), {{"BLOCK", cols}}, moves(8.0 * rows * cols), [=] {
    const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(cols);
    auto x = normals(height * width, 1), y = allocate<float>(height * width);
    auto check = [=] {
      size_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong)
      for (size_t r = 0; r < height; ++r) {
        std::vector<float> row(x.get() + r * width, x.get() + (r + 1) * width);
        std::sort(row.begin(), row.end());
        wrong += !std::equal(row.begin(), row.end(), y.get() + r * width);
      }
      return exact(wrong);
    };
    return launch(check, x, y, rows, cols);
  });
}

Case topk(int32_t rows, int32_t cols, int32_t k) {
  const dsl::ConstexprValues config = {{"K", k}, {"BLOCK", cols}};
  return make_case(kernels::topk(), shape_text({rows, cols, k}), config, reads(4.0 * rows * cols), [=] {
    const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(cols), count = static_cast<size_t>(k);
    auto x = normals(height * width, 1), values = allocate<float>(height * count);
    auto index = allocate<int32_t>(height * count);
    auto check = [=] {
      size_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong)
      for (size_t r = 0; r < height; ++r) {
        const float* row = x.get() + r * width;
        std::vector<int32_t> order(width);
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + k, order.end(),
                          [&](int32_t a, int32_t b) { return row[a] > row[b] || (row[a] == row[b] && a < b); });
        for (size_t i = 0; i < count; ++i) {
          wrong += index[r * count + i] != order[i] || values[r * count + i] != row[order[i]];
        }
      }
      return exact(wrong);
    };
    return launch(check, x, values, index, rows, cols);
  });
}

// Launched many times: the counts are multiples of one launch's.
Case histogram(int32_t n, int32_t bins) {
  const dsl::ConstexprValues config = {{"BINS", bins}, {"BLOCK", 65536}};
  return make_case(kernels::histogram(), shape_text({n, bins}), config, reads(4.0 * n), [=] {
    const auto size = static_cast<size_t>(n);
    auto x = ints(size, -1, bins + 1, 1), counts = zeros<int32_t>(static_cast<size_t>(bins));
    auto check = [=] {
      std::vector<int64_t> expected(static_cast<size_t>(bins));
      for (size_t i = 0; i < size; ++i) {
        if (x[i] >= 0 && x[i] < bins) ++expected[static_cast<size_t>(x[i])];
      }
      const int64_t launches = counts[0] / std::max<int64_t>(expected[0], 1);
      size_t wrong = launches < 1;
      for (size_t i = 0; i < expected.size(); ++i) wrong += counts[i] != expected[i] * launches;
      return exact(wrong);
    };
    return launch(check, x, counts, n);
  });
}

Case transpose(int32_t rows, int32_t cols) {
  const dsl::ConstexprValues config = {{"BR", 64}, {"BC", 64}};
  return make_case(kernels::transpose(), shape_text({rows, cols}), config, moves(8.0 * rows * cols), [=] {
    const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(cols);
    auto x = normals(height * width, 1), y = allocate<float>(height * width);
    auto check = [=] {
      return compare(y.get(), height * width, [&](size_t i) { return x[i % height * width + i / height]; });
    };
    return launch(check, x, y, rows, cols);
  });
}

Case embedding(int32_t entries, int32_t tokens, int32_t cols) {
  return make_case(kernels::embedding(), shape_text({entries, tokens, cols}), {}, moves(8.0 * tokens * cols), [=] {
    const auto width = static_cast<size_t>(cols), count = static_cast<size_t>(tokens) * width;
    auto table = normals(static_cast<size_t>(entries) * width, 1), out = allocate<float>(count);
    auto ids = ints(static_cast<size_t>(tokens), 0, entries, 2);
    auto check = [=] {
      return compare(out.get(), count,
                     [&](size_t i) { return table[static_cast<size_t>(ids[i / width]) * width + i % width]; });
    };
    return launch(check, table, ids, out, tokens, cols);
  });
}

// Launched many times: each adds the same, so the sums are those of one launch times their number.
template <class Def>
Case embedding_backward(const Def& def, int32_t entries, int32_t tokens, int32_t cols) {
  return make_case(def, shape_text({entries, tokens, cols}), {}, moves(12.0 * tokens * cols), [=] {
    const auto width = static_cast<size_t>(cols), places = static_cast<size_t>(entries) * width;
    auto slope = normals(static_cast<size_t>(tokens) * width, 1), table = zeros<float>(places);
    auto ids = ints(static_cast<size_t>(tokens), 0, entries, 2);
    auto check = [=] {
      std::vector<double> once(places);
      for (size_t t = 0; t < static_cast<size_t>(tokens); ++t) {
        double* row = &once[static_cast<size_t>(ids[t]) * width];
        for (size_t c = 0; c < width; ++c) row[c] += slope[t * width + c];
      }
      const size_t first = static_cast<size_t>(ids[0]) * width;
      const double launches = std::round(table[first] / once[first]);
      Check out = compare_rows(
          table.get(), static_cast<size_t>(entries), width,
          [&](size_t r, double* expected) {
            for (size_t c = 0; c < width; ++c) expected[c] = once[r * width + c] * launches;
          },
          10 * launches);  // what a sum may have been on its way
      out.passed = out.passed && launches >= 1;
      return out;
    };
    return launch(check, slope, ids, table, tokens, cols);
  });
}

// As many rows a class as asked for, of that class, none twice, and the counts.
Case class_balanced_sampler(int32_t n, int32_t k, int32_t batch) {
  const int32_t cols = 16;
  const dsl::ConstexprValues config = {{"K", k}, {"BLOCK", 16384}, {"BC", cols}};
  return make_case(kernels::class_balanced_sampler(), shape_text({batch, n, k}), config, reads(4.0 * n * batch), [=] {
    const auto size = static_cast<size_t>(n), draws = static_cast<size_t>(batch) * 2, per = static_cast<size_t>(k);
    auto labels = ints(size, 0, 11, 1);
    for (size_t i = 0; i < size; ++i) labels[i] = labels[i] == 10;
    auto features = normals(size * cols, 2), rows = allocate<float>(draws * per * cols);
    auto index = allocate<int32_t>(draws * per), counts = allocate<int32_t>(draws);
    auto check = [=] {
      const auto ones = std::count(labels.get(), labels.get() + n, 1);
      size_t wrong = 0;
      for (size_t d = 0; d < draws; ++d) {
        const int32_t label = d % 2;
        wrong += counts[d] != (label ? ones : n - ones);
        std::vector<int32_t> drawn(index.get() + d * per, index.get() + (d + 1) * per);
        for (size_t i = 0; i < per; ++i) {
          const bool member = drawn[i] >= 0 && drawn[i] < n && labels[drawn[i]] == label;
          wrong += !member;
          const float* row = rows.get() + (d * per + i) * cols;
          wrong += member && !std::equal(row, row + cols, features.get() + static_cast<size_t>(drawn[i]) * cols);
        }
        std::sort(drawn.begin(), drawn.end());
        wrong += std::adjacent_find(drawn.begin(), drawn.end()) != drawn.end();
      }
      return exact(wrong);
    };
    return launch(check, labels, features, index, rows, counts, batch, n, cols, int64_t{7});
  });
}

}  // namespace

std::vector<Case> order_cases(Size size) {
  if (size == Size::kSmall) {
    return {argmax(7, 1000),
            sort_rows(7, 300),
            topk(7, 1000, 5),
            histogram(100'003, 100),
            transpose(100, 300),
            embedding(100, 30, 500),
            embedding_backward(kernels::embedding_backward(), 100, 30, 500),
            embedding_backward(kernels::embedding_backward_ordered(), 100, 30, 500),
            class_balanced_sampler(10'007, 16, 3)};
  }
  if (size == Size::kInCache) {
    return {argmax(128, 1024),       sort_rows(128, 1024), topk(8, 16384, 50),
            histogram(1 << 17, 256), transpose(256, 512),  embedding(256, 128, 512)};
  }
  return {argmax(128, 128256),
          sort_rows(4096, 1024),
          topk(128, 32000, 50),
          histogram(1 << 24, 256),
          transpose(4096, 4096),
          embedding(32000, 4096, 4096),
          embedding_backward(kernels::embedding_backward(), 32000, 4096, 1024),
          embedding_backward(kernels::embedding_backward_ordered(), 32000, 4096, 1024),
          class_balanced_sampler(10'000, 64, 32),
          class_balanced_sampler(1'000'000, 64, 32)};
}

}  // namespace kiln::quickstart
