// Kernels of kernels/reductions.h.
#include "check.h"

namespace kiln::test {
namespace {

struct Shape2 {
  size_t rows, cols;
  int64_t block;
};

template <class T, class Run>
void check_columns(const Shape2& shape, int64_t rows_at_once, Run run) {
  const auto x = normals_of<T>(shape.rows * shape.cols, 1);
  std::vector<double> down = reals(x), size(down.size());
  for (size_t i = 0; i < down.size(); ++i) {
    size[i] = std::fabs(down[i]) + (i < shape.cols ? 0 : size[i - shape.cols]);
    down[i] += i < shape.cols ? 0 : down[i - shape.cols];
  }
  const std::vector<double> sums(down.end() - static_cast<long>(shape.cols), down.end());
  const std::vector<double> sizes(size.end() - static_cast<long>(shape.cols), size.end());
  const TestArgument height = int_of(static_cast<int64_t>(shape.rows)),
                     width = int_of(static_cast<int64_t>(shape.cols));
  const dsl::ConstexprValues config = {{"ROWS", rows_at_once}, {"BLOCK", shape.block}};
  run(kernels::column_sum<T>().ir(), config, Arguments{buffer(x), empty<Memory<T>>(shape.cols), height, width},
      [&](const Arguments& out) { expect_close<T>(out[1], sums, sizes); });
  run(kernels::cumsum_columns<T>().ir(), config, Arguments{buffer(x), empty<Memory<T>>(down.size()), height, width},
      [&](const Arguments& out) { expect_close<T>(out[1], down, size); });
}

template <class T, class Run>
void check_sums(const Shape2& shape, Run run) {
  const auto [rows, cols, block] = shape;
  const size_t count = rows * cols;
  const auto x = normals_of<T>(count, 1);
  const auto in = reals(x);
  std::vector<double> along(count), along_size(count);
  for (size_t i = 0; i < count; ++i) {
    const bool first = i % cols == 0;
    along[i] = in[i] + (first ? 0 : along[i - 1]);
    along_size[i] = std::fabs(in[i]) + (first ? 0 : along_size[i - 1]);
  }
  std::vector<double> row_sums, row_sizes;
  for (size_t r = 0; r < rows; ++r) {
    row_sums.push_back(along[r * cols + cols - 1]);
    row_sizes.push_back(along_size[r * cols + cols - 1]);
  }
  const TestArgument height = int_of(static_cast<int64_t>(rows)), width = int_of(static_cast<int64_t>(cols));
  const dsl::ConstexprValues config = {{"BLOCK", block}};
  run(kernels::row_sum<T>().ir(), config, Arguments{buffer(x), empty<Memory<T>>(rows), height, width, width},
      [&](const Arguments& out) { expect_close<T>(out[1], row_sums, row_sizes); });
  run(kernels::cumsum_rows<T>().ir(), config, Arguments{buffer(x), empty<Memory<T>>(count), height, width},
      [&](const Arguments& out) { expect_close<T>(out[1], along, along_size); });
  check_columns<T>(shape, 1, run);
}

TEST(ReductionKernels, SumsAndRunningSums) {
  for_floats([]<class T>() {
    for (const Shape2& shape : {Shape2{5, 13, 16}, {3, 100, 32}, {40, 3, 16}, {1, 1, 16}}) {
      check_sums<T>(shape, check_both);
    }
  });
}

TEST(ReductionKernels, ColumnsSeveralRowsAtATime) {
  for (const int64_t rows : {2, 16}) {
    check_columns<lang::f32>({37, 13, 16}, rows, check_both);
    check_columns<lang::bf16>({16, 40, 32}, rows, check_both);
  }
}

TEST(ReductionKernels, RealShapes) {
  check_sums<lang::f32>({64, 4096, 1024}, check_compiled);
  check_sums<lang::bf16>({100, 1000, 256}, check_compiled);
  if (!full()) return;
  check_sums<lang::f32>({4096, 4096, 1024}, check_compiled);
  check_sums<lang::f32>({16, 1 << 20, 4096}, check_compiled);
}

TEST(ReductionKernels, ArgmaxGivesTheLowestIndexAndNaNFirst) {
  for_floats([]<class T>() {
    const size_t rows = 4, cols = 37, stride = 40;
    auto x = normals_of<T>(rows * stride, 1);
    x[stride + 20] = x[stride + 9] = normals_of<T>(1, 1, 0, 50)[0];  // equal ones
    x[2 * stride + 5] = normals_of<T>(1, 1, 0, std::nan(""))[0];     // a NaN
    for (size_t c = 0; c < cols; ++c) x[3 * stride + c] = normals_of<T>(1, 1, 0, -INFINITY)[0];
    std::vector<int32_t> expected(rows, 0);
    const auto in = reals(x);
    for (size_t c = 1; c < cols; ++c) {
      if (in[c] > in[static_cast<size_t>(expected[0])]) expected[0] = static_cast<int32_t>(c);
    }
    expected[1] = 9, expected[2] = 5;
    check_both(kernels::argmax<T>().ir(), {{"BLOCK", 64}},
               {buffer(x), empty<int32_t>(rows), int_of(rows), int_of(cols), int_of(stride)},
               [&](const Arguments& out) { expect_equal(out[1], expected); });
  });
}

TEST(ReductionKernels, ArgmaxOnRealShapes) {
  for (size_t cols : {32000, 128256}) {
    const size_t rows = 3;
    const auto x = normals(rows * cols, 1);
    std::vector<int32_t> expected;
    for (size_t r = 0; r < rows; ++r) {
      const auto begin = x.begin() + static_cast<long>(r * cols);
      expected.push_back(static_cast<int32_t>(std::max_element(begin, begin + static_cast<long>(cols)) - begin));
    }
    const auto width = static_cast<int64_t>(cols);
    check_compiled(kernels::argmax().ir(), {{"BLOCK", width}},
                   {buffer(x), empty<int32_t>(rows), int_of(rows), int_of(width), int_of(width)},
                   [&](const Arguments& out) { expect_equal(out[1], expected); });
  }
}

}  // namespace
}  // namespace kiln::test
