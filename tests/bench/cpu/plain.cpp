// Loops and algorithms of the standard library, row by row on all threads.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "peers.h"
#include "quickstart/case_makers.h"

namespace kiln::bench {
namespace {

using quickstart::Buffer;
using Shape = std::vector<int64_t>;

// work(from, to) for each row of an array of two dimensions.
std::function<void()> by_rows(const Shape& shape, std::function<void(const float*, float*, size_t)> work) {
  const auto rows = shape[0];
  const auto cols = static_cast<size_t>(shape[1]);
  auto x = quickstart::normals(static_cast<size_t>(rows) * cols, 1);
  auto y = quickstart::zeros<float>(static_cast<size_t>(rows) * cols);
  return [=] {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
      const size_t at = static_cast<size_t>(r) * cols;
      work(x.get() + at, y.get() + at, cols);
    }
  };
}

void sort_row(const float* from, float* to, size_t cols) {
  std::copy_n(from, cols, to);
  std::sort(to, to + cols);
}

// The k largest first, of equal ones the one that stands first.
void top_of_row(const float* from, float* to, size_t cols, int64_t k) {
  std::vector<int> order(cols);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + k, order.end(),
                    [&](int a, int b) { return from[a] > from[b] || (from[a] == from[b] && a < b); });
  for (int64_t i = 0; i < k; ++i) to[i] = from[order[static_cast<size_t>(i)]];
}

std::function<void()> sums_down_columns(const Shape& shape) {
  const auto rows = static_cast<size_t>(shape[0]), cols = static_cast<size_t>(shape[1]);
  auto x = quickstart::normals(rows * cols, 1), y = quickstart::zeros<float>(rows * cols);
  return [=] {
    constexpr size_t kBlock = 1024;
#pragma omp parallel for schedule(static)
    for (size_t begin = 0; begin < cols; begin += kBlock) {
      const size_t end = std::min(cols, begin + kBlock);
      std::copy(x.get() + begin, x.get() + end, y.get() + begin);
      for (size_t r = 1; r < rows; ++r) {
        const float *from = x.get() + r * cols, *above = y.get() + (r - 1) * cols;
        float* to = y.get() + r * cols;
        for (size_t c = begin; c < end; ++c) to[c] = above[c] + from[c];
      }
    }
  };
}

std::function<void()> count(const Shape& shape) {
  const auto n = static_cast<size_t>(shape[0]), bins = static_cast<size_t>(shape[1]);
  auto x = quickstart::ints(n, 0, static_cast<int32_t>(bins), 1), counts = quickstart::zeros<int32_t>(bins);
  return [=] {
#pragma omp parallel
    {
      std::vector<int32_t> own(bins);
#pragma omp for schedule(static)
      for (size_t i = 0; i < n; ++i) ++own[static_cast<size_t>(x[i])];
#pragma omp critical
      for (size_t b = 0; b < bins; ++b) counts[b] += own[b];
    }
  };
}

std::function<void()> take_rows(const Shape& shape) {
  const auto entries = static_cast<size_t>(shape[0]), tokens = static_cast<size_t>(shape[1]);
  const auto width = static_cast<size_t>(shape[2]);
  auto table = quickstart::normals(entries * width, 1), out = quickstart::zeros<float>(tokens * width);
  auto ids = quickstart::ints(tokens, 0, static_cast<int32_t>(entries), 2);
  return [=] {
#pragma omp parallel for schedule(static)
    for (size_t t = 0; t < tokens; ++t) {
      std::memcpy(out.get() + t * width, table.get() + static_cast<size_t>(ids[t]) * width, width * sizeof(float));
    }
  };
}

}  // namespace

std::vector<int64_t> numbers_in(const std::string& shape) {
  std::vector<int64_t> out;
  int64_t number = -1;
  bool in_word = false;  // of "bf16"
  for (char c : shape + " ") {
    if (c >= '0' && c <= '9') {
      if (!in_word) number = std::max<int64_t>(number, 0) * 10 + (c - '0');
      continue;
    }
    if (number >= 0) out.push_back(number);
    number = -1;
    in_word = (c >= 'a' && c <= 'z') || (in_word && c != ' ');
  }
  return out;
}

std::vector<Peer> plain_peers(const quickstart::Case& test) {
  const Shape shape = numbers_in(test.shape);
  std::function<void()> run;
  if (test.kernel == "sort_rows") {
    run = by_rows(shape, sort_row);
  } else if (test.kernel == "topk") {
    run = by_rows(shape, [k = shape[2]](const float* from, float* to, size_t n) { top_of_row(from, to, n, k); });
  } else if (test.kernel == "argmax") {
    run = by_rows(shape, [](const float* from, float* to, size_t n) {
      *to = static_cast<float>(std::max_element(from, from + n) - from);
    });
  } else if (test.kernel == "cumsum_rows") {
    run = by_rows(shape, [](const float* from, float* to, size_t n) { std::partial_sum(from, from + n, to); });
  } else if (test.kernel == "cumsum_columns") {
    run = sums_down_columns(shape);
  } else if (test.kernel == "histogram") {
    run = count(shape);
  } else if (test.kernel == "embedding") {
    run = take_rows(shape);
  } else {
    return {};
  }
  return {{"c++", run}};
}

}  // namespace kiln::bench
