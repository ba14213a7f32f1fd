// Kernels of kernels/order.h and kernels/embedding.h: what moves, sorts and counts. Most results are exact.
#include <algorithm>
#include <numeric>

#include "check.h"

namespace kiln::test {
namespace {

// Positions of a row's elements in descending order, the lowest first of equal ones; NaN is greatest.
std::vector<int32_t> descending(const double* x, size_t count) {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](int32_t i) { return std::isnan(x[i]) ? std::numeric_limits<double>::infinity() : x[i]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    if (std::isnan(x[a]) != std::isnan(x[b])) return std::isnan(x[a]);
    return key(a) > key(b);
  });
  return order;
}

template <class T, class Run>
void check_orders(size_t rows, size_t cols, size_t k, int64_t block, Run run) {
  auto x = normals_of<T>(rows * cols, 1);
  if (rows > 2 && cols > 9) {
    x[cols + 3] = normals_of<T>(1, 1, 0, std::nan(""))[0];
    x[2 * cols + 5] = x[2 * cols + 9] = normals_of<T>(1, 1, 0, 50)[0];
    for (size_t c = 0; c + 2 < cols; ++c) x[c] = normals_of<T>(1, 1, 0, -INFINITY)[0];  // equal to the padding
  }
  const auto in = reals(x);
  std::vector<double> sorted, top;
  std::vector<int32_t> at;
  for (size_t r = 0; r < rows; ++r) {
    const double* row = &in[r * cols];
    const auto order = descending(row, cols);
    for (size_t i = 0; i < cols; ++i) sorted.push_back(row[order[cols - 1 - i]]);
    for (size_t i = 0; i < k; ++i) {
      at.push_back(order[i]);
      top.push_back(row[order[i]]);
    }
  }
  const TestArgument height = int_of(static_cast<int64_t>(rows)), width = int_of(static_cast<int64_t>(cols));
  run(kernels::sort_rows<T>().ir(), dsl::ConstexprValues{{"BLOCK", block}},
      Arguments{buffer(x), empty<Memory<T>>(rows * cols), height, width},
      [&](const Arguments& out) { expect_close(reals<T>(out[1]), sorted, 0); });
  run(kernels::topk<T>().ir(), dsl::ConstexprValues{{"BLOCK", block}, {"K", static_cast<int64_t>(k)}},
      Arguments{buffer(x), empty<Memory<T>>(rows * k), empty<int32_t>(rows * k), height, width},
      [&](const Arguments& out) {
        expect_close(reals<T>(out[1]), top, 0);
        expect_equal(out[2], at);
      });
}

TEST(OrderKernels, SortAndTopk) {
  for_floats([]<class T>() {
    check_orders<T>(3, 13, 4, 16, check_both);
    check_orders<T>(3, 64, 8, 64, check_both);
    check_orders<T>(4, 100, 1, 128, check_both);
    check_orders<T>(1, 5, 5, 7, check_both);
  });
}

TEST(OrderKernels, SortAndTopkOnRealShapes) {
  check_orders<lang::f32>(4, 1000, 5, 1024, check_compiled);
  check_orders<lang::f32>(2, 32000, 50, 32000, check_compiled);
  if (full()) check_orders<lang::f32>(64, 128256, 64, 128256, check_compiled);
}

template <class Run>
void check_histogram(size_t n, int32_t bins, int64_t block, Run run) {
  const auto x = ints(n, -2, bins + 2, 1);
  std::vector<int32_t> counts(static_cast<size_t>(bins), 3), expected = counts;
  for (int32_t v : x) {
    if (v >= 0 && v < bins) ++expected[static_cast<size_t>(v)];
  }
  run(kernels::histogram().ir(), dsl::ConstexprValues{{"BLOCK", block}, {"BINS", bins}},
      Arguments{buffer(x), buffer(counts), int_of(static_cast<int64_t>(n))},
      [&](const Arguments& out) { expect_equal(out[1], expected); });
}

TEST(OrderKernels, Histogram) {
  check_histogram(1000, 10, 64, check_both);
  check_histogram(1, 1, 16, check_both);
  check_histogram(333, 100, 512, check_both);
  check_histogram(1 << 20, 256, 65536, check_compiled);
}

template <class T, class Run>
void check_transpose(size_t rows, size_t cols, int64_t br, int64_t bc, Run run) {
  const auto x = normals_of<T>(rows * cols, 1);
  const auto in = reals(x);
  std::vector<double> expected(in.size());
  for (size_t i = 0; i < in.size(); ++i) expected[i % cols * rows + i / cols] = in[i];
  run(kernels::transpose<T>().ir(), dsl::ConstexprValues{{"BR", br}, {"BC", bc}},
      Arguments{buffer(x), empty<Memory<T>>(in.size()), int_of(static_cast<int64_t>(rows)),
                int_of(static_cast<int64_t>(cols))},
      [&](const Arguments& out) { expect_close(reals<T>(out[1]), expected, 0); });
}

TEST(OrderKernels, Transpose) {
  for_floats([]<class T>() {
    check_transpose<T>(5, 13, 4, 8, check_both);
    check_transpose<T>(33, 17, 16, 16, check_both);
    check_transpose<T>(1, 1, 16, 16, check_both);
  });
  check_transpose<lang::f32>(1000, 2000, 64, 64, check_compiled);
  check_transpose<lang::bf16>(512, 512, 64, 64, check_compiled);
}

template <class T, class Run>
void check_embedding(size_t entries, size_t tokens, size_t cols, int64_t block, Run run) {
  const auto table = normals_of<T>(entries * cols, 1);
  const auto ids = ints(tokens, 0, static_cast<int32_t>(entries), 2);
  const auto in = reals(table);
  std::vector<double> expected;
  for (int32_t id : ids) {
    for (size_t c = 0; c < cols; ++c) expected.push_back(in[static_cast<size_t>(id) * cols + c]);
  }
  run(kernels::embedding<T>().ir(), dsl::ConstexprValues{{"BLOCK", block}},
      Arguments{buffer(table), buffer(ids), empty<Memory<T>>(tokens * cols), int_of(static_cast<int64_t>(tokens)),
                int_of(static_cast<int64_t>(cols))},
      [&](const Arguments& out) { expect_close(reals<T>(out[2]), expected, 0); });
}

template <class Run>
void check_embedding_backward(size_t entries, size_t tokens, size_t cols, int64_t block, Run run) {
  const auto slope = normals(tokens * cols, 1), table = normals(entries * cols, 3);
  const auto ids = ints(tokens, 0, static_cast<int32_t>(entries), 2);
  std::vector<double> expected = reals(table), size(expected.size(), 1);
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t c = 0; c < cols; ++c) {
      const size_t at = static_cast<size_t>(ids[t]) * cols + c;
      expected[at] += slope[t * cols + c];
      size[at] += std::fabs(slope[t * cols + c]);
    }
  }
  const Arguments arguments = {buffer(slope), buffer(ids), buffer(table), int_of(static_cast<int64_t>(tokens)),
                               int_of(static_cast<int64_t>(cols))};
  const Checker check = [&](const Arguments& out) { expect_close<lang::f32>(out[2], expected, size); };
  run(kernels::embedding_backward().ir(), dsl::ConstexprValues{{"BLOCK", block}}, arguments, check);
  run(kernels::embedding_backward_ordered().ir(), dsl::ConstexprValues{{"BLOCK", block}}, arguments, check);
}

TEST(EmbeddingKernels, Forward) {
  for_floats([]<class T>() {
    check_embedding<T>(7, 20, 13, 16, check_both);
    check_embedding<T>(3, 5, 100, 32, check_both);
  });
  check_embedding<lang::f32>(1000, 128, 4096, 1024, check_compiled);
}

TEST(EmbeddingKernels, BackwardAddsUpWhatOneRowGets) {
  check_embedding_backward(7, 20, 13, 16, check_both);
  check_embedding_backward(1, 9, 100, 32, check_both);
  check_embedding_backward(100, 500, 768, 256, check_compiled);
}

}  // namespace
}  // namespace kiln::test
