// Kernels along the rows and columns of matrices: softmax and its kin, norms, sums.
#include <limits>

#include "case_makers.h"

namespace kiln::quickstart {
namespace {

constexpr float kEps = 1e-5f;

double logsumexp(const float* row, size_t width) {
  double top = row[0], total = 0;
  for (size_t i = 0; i < width; ++i) top = std::max(top, double{row[i]});
  for (size_t i = 0; i < width; ++i) total += std::exp(row[i] - top);
  return top + std::log(total);
}

struct Matrix {
  int32_t rows, cols;
  size_t height() const { return static_cast<size_t>(rows); }
  size_t width() const { return static_cast<size_t>(cols); }
  size_t size() const { return height() * width(); }
  double bytes(double arrays) const { return 4 * arrays * rows * cols; }
  std::string text() const { return shape_text({rows, cols}); }
};

// softmax, or log_softmax where `log` holds.
template <class Def>
Case softmax_of(const Def& def, Matrix a, const dsl::ConstexprValues& config, bool log) {
  return make_case(def, a.text(), config, moves(a.bytes(2)), [=] {
    auto x = normals(a.size(), 1), y = allocate<float>(a.size());
    auto check = [=] {
      return compare_rows(y.get(), a.height(), a.width(), [&](size_t r, double* expected) {
        const float* row = x.get() + r * a.width();
        const double normaliser = logsumexp(row, a.width());
        for (size_t i = 0; i < a.width(); ++i) {
          expected[i] = log ? row[i] - normaliser : std::exp(row[i] - normaliser);
        }
      });
    };
    return launch(check, x, y, a.rows, a.cols, a.cols);
  });
}

template <class Def>
Case softmax_of(const Def& def, Matrix a, int64_t block, bool log) {
  return softmax_of(def, a, dsl::ConstexprValues{{"BLOCK", block}}, log);
}
Case softmax_narrow(Matrix a) {
  return softmax_of(kernels::softmax_narrow(), a, dsl::ConstexprValues{{"ROWS", 16}, {"BLOCK", a.cols}}, false);
}

Case cross_entropy(Matrix a) {
  return make_case(kernels::cross_entropy(), a.text(), {{"BLOCK", 4096}}, reads(a.bytes(1)), [=] {
    auto x = normals(a.size(), 1), loss = allocate<float>(a.height()), lse = allocate<float>(a.height());
    auto target = ints(a.height(), 0, a.cols, 2);
    auto check = [=] {
      return compare(loss.get(), a.height(), [&](size_t r) {
        const float* row = x.get() + r * a.width();
        return logsumexp(row, a.width()) - row[target[r]];
      });
    };
    return launch(check, x, target, loss, lse, a.rows, a.cols);
  });
}

Case cross_entropy_backward(Matrix a) {
  return make_case(kernels::cross_entropy_backward(), a.text(), {{"BLOCK", 4096}}, moves(a.bytes(2)), [=] {
    auto x = normals(a.size(), 1), lse = allocate<float>(a.height()), slope = allocate<float>(a.size());
    auto target = ints(a.height(), 0, a.cols, 2);
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < a.height(); ++r) {
      lse[r] = static_cast<float>(logsumexp(x.get() + r * a.width(), a.width()));
    }
    const float scale = 1.0f / static_cast<float>(a.rows);
    auto check = [=] {
      return compare(slope.get(), a.size(), [&](size_t i) {
        const size_t r = i / a.width();
        return scale * (std::exp(double{x[i]} - lse[r]) - (static_cast<size_t>(target[r]) == i % a.width()));
      });
    };
    return launch(check, x, target, lse, slope, a.rows, a.cols, scale);
  });
}

Case cross_entropy_mean(int32_t rows) {
  return make_case(kernels::cross_entropy_mean(), shape_text({rows}), {}, reads(8.0 * rows), [=] {
    auto loss = normals(static_cast<size_t>(rows), 1), mean = allocate<float>(1);
    auto target = ints(static_cast<size_t>(rows), -1, 10, 2);
    auto check = [=] {
      double total = 0, count = 0;
      for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
        total += target[i] < 0 ? 0 : loss[i];
        count += target[i] >= 0;
      }
      return compare(mean.get(), 1, [&](size_t) { return total / count; });
    };
    return launch(check, loss, target, mean, rows, int32_t{10});
  });
}

// Of one row in float64: its mean, 1/sqrt(variance + eps) and 1/sqrt(mean of squares + eps).
struct Moments {
  double mean = 0, scale = 0, root = 0;
};
template <class Row>
Moments moments(Row row, size_t width) {
  Moments out;
  double variance = 0, squares = 0;
  for (size_t i = 0; i < width; ++i) out.mean += row(i) / static_cast<double>(width);
  for (size_t i = 0; i < width; ++i) {
    variance += (row(i) - out.mean) * (row(i) - out.mean);
    squares += row(i) * row(i);
  }
  out.scale = 1 / std::sqrt(variance / static_cast<double>(width) + kEps);
  out.root = 1 / std::sqrt(squares / static_cast<double>(width) + kEps);
  return out;
}

template <class Def>
Case layer_norm_of(const Def& def, Matrix a, const dsl::ConstexprValues& config) {
  return make_case(def, a.text(), config, moves(a.bytes(2)), [=] {
    auto x = normals(a.size(), 1), w = normals(a.width(), 2), b = normals(a.width(), 3);
    auto y = allocate<float>(a.size());
    auto check = [=] {
      return compare_rows(y.get(), a.height(), a.width(), [&](size_t r, double* expected) {
        auto row = [&](size_t i) { return double{x[r * a.width() + i]}; };
        const Moments m = moments(row, a.width());
        for (size_t i = 0; i < a.width(); ++i) expected[i] = (row(i) - m.mean) * m.scale * w[i] + b[i];
      });
    };
    return launch(check, x, w, b, y, a.rows, a.cols, a.cols, kEps);
  });
}

Case layer_norm(Matrix a) { return layer_norm_of(kernels::layer_norm(), a, {{"BLOCK", a.cols}}); }
Case layer_norm_narrow(Matrix a) {
  return layer_norm_of(kernels::layer_norm_narrow(), a, {{"ROWS", a.rows > 4096 ? 4 : 16}, {"BLOCK", a.cols}});
}
Case layer_norm_long(Matrix a, int64_t block) {
  return layer_norm_of(kernels::layer_norm_long(), a, {{"BLOCK", block}});
}

Case rms_norm(Matrix a) {
  return make_case(kernels::rms_norm(), a.text(), {{"BLOCK", a.cols}}, moves(a.bytes(2)), [=] {
    auto x = normals(a.size(), 1), w = normals(a.width(), 2), y = allocate<float>(a.size());
    auto check = [=] {
      return compare_rows(y.get(), a.height(), a.width(), [&](size_t r, double* expected) {
        auto row = [&](size_t i) { return double{x[r * a.width() + i]}; };
        const Moments m = moments(row, a.width());
        for (size_t i = 0; i < a.width(); ++i) expected[i] = row(i) * m.root * w[i];
      });
    };
    return launch(check, x, w, y, a.rows, a.cols, a.cols, kEps);
  });
}

Case residual_rms_norm(Matrix a) {
  return make_case(kernels::residual_rms_norm(), a.text(), {{"BLOCK", a.cols}}, moves(a.bytes(4)), [=] {
    auto x = normals(a.size(), 1), residual = normals(a.size(), 2), w = normals(a.width(), 3);
    auto total = allocate<float>(a.size()), y = allocate<float>(a.size());
    auto check = [=] {
      auto sum = [&](size_t i) { return double{x[i]} + double{residual[i]}; };
      const Check first = compare(total.get(), a.size(), sum);
      return both(first, compare_rows(y.get(), a.height(), a.width(), [&](size_t r, double* expected) {
                    auto row = [&](size_t i) { return sum(r * a.width() + i); };
                    const Moments m = moments(row, a.width());
                    for (size_t i = 0; i < a.width(); ++i) expected[i] = row(i) * m.root * w[i];
                  }));
    };
    return launch(check, x, residual, w, total, y, a.rows, a.cols, kEps);
  });
}

Case residual_layer_norm(Matrix a) {
  return make_case(kernels::residual_layer_norm(), a.text(), {{"BLOCK", a.cols}}, moves(a.bytes(3)), [=] {
    auto x = normals(a.size(), 1), residual = normals(a.size(), 2), w = normals(a.width(), 3),
         b = normals(a.width(), 4);
    auto y = allocate<float>(a.size());
    auto check = [=] {
      return compare_rows(y.get(), a.height(), a.width(), [&](size_t r, double* expected) {
        auto row = [&](size_t i) { return double{x[r * a.width() + i]} + double{residual[r * a.width() + i]}; };
        const Moments m = moments(row, a.width());
        for (size_t i = 0; i < a.width(); ++i) expected[i] = (row(i) - m.mean) * m.scale * w[i] + b[i];
      });
    };
    return launch(check, x, residual, w, b, y, a.rows, a.cols, kEps);
  });
}

Case layer_norm_backward(Matrix a) {
  const dsl::ConstexprValues config = {{"ROWS", 64}, {"BLOCK", a.cols}};
  return make_case(kernels::layer_norm_backward(), a.text(), config, moves(a.bytes(3)), [=] {
    auto x = normals(a.size(), 1), w = normals(a.width(), 2), dy = normals(a.size(), 3);
    const size_t groups = (a.height() + 63) / 64;
    auto dx = allocate<float>(a.size()), dw = allocate<float>(groups * a.width());
    auto db = allocate<float>(groups * a.width());
    auto check = [=] {
      return compare_rows(dx.get(), a.height(), a.width(), [&](size_t r, double* expected) {
        auto row = [&](size_t i) { return double{x[r * a.width() + i]}; };
        const Moments m = moments(row, a.width());
        auto normal = [&](size_t i) { return (row(i) - m.mean) * m.scale; };
        auto inner = [&](size_t i) { return double{dy[r * a.width() + i]} * w[i]; };
        double mean = 0, along = 0;
        for (size_t i = 0; i < a.width(); ++i) {
          mean += inner(i) / a.cols;
          along += inner(i) * normal(i) / a.cols;
        }
        for (size_t i = 0; i < a.width(); ++i) expected[i] = m.scale * (inner(i) - mean - normal(i) * along);
      });
    };
    return launch(check, x, w, dy, dx, dw, db, a.rows, a.cols, kEps);
  });
}

// The tolerance of a sum is relative to what was added, not to what is left of it: about 0.8 an element.
Case row_sum(Matrix a) {
  return make_case(kernels::row_sum(), a.text(), {{"BLOCK", 1024}}, reads(a.bytes(1)), [=] {
    auto x = normals(a.size(), 1), y = allocate<float>(a.height());
    auto check = [=] {
      return compare_rows(
          y.get(), a.height(), 1,
          [&](size_t r, double* expected) {
            *expected = 0;
            for (size_t i = 0; i < a.width(); ++i) *expected += x[r * a.width() + i];
          },
          0.8 * a.cols);
    };
    return launch(check, x, y, a.rows, a.cols, a.cols);
  });
}

std::vector<double> column_sums(const float* x, size_t height, size_t width) {
  std::vector<double> out(width);
  for (size_t i = 0; i < height * width; ++i) out[i % width] += x[i];
  return out;
}

Case column_sum(Matrix a) {
  return make_case(kernels::column_sum(), a.text(), {{"BLOCK", 1024}, {"ROWS", 4}}, reads(a.bytes(1)), [=] {
    auto x = normals(a.size(), 1), y = allocate<float>(a.width());
    auto check = [=] {
      const auto sums = column_sums(x.get(), a.height(), a.width());
      return compare_rows(
          y.get(), 1, a.width(), [&](size_t, double* expected) { std::copy(sums.begin(), sums.end(), expected); },
          0.8 * a.rows);
    };
    return launch(check, x, y, a.rows, a.cols);
  });
}

Case cumsum_rows(Matrix a) {
  return make_case(kernels::cumsum_rows(), a.text(), {{"BLOCK", 1024}}, moves(a.bytes(2)), [=] {
    auto x = normals(a.size(), 1), y = allocate<float>(a.size());
    auto check = [=] {
      return compare_rows(
          y.get(), a.height(), a.width(),
          [&](size_t r, double* expected) {
            double total = 0;
            for (size_t i = 0; i < a.width(); ++i) expected[i] = total += x[r * a.width() + i];
          },
          0.8 * a.cols);
    };
    return launch(check, x, y, a.rows, a.cols);
  });
}

// The last row has seen all others.
Case cumsum_columns(Matrix a) {
  return make_case(kernels::cumsum_columns(), a.text(), {{"BLOCK", 256}}, moves(a.bytes(2)), [=] {
    auto x = normals(a.size(), 1), y = allocate<float>(a.size());
    auto check = [=] {
      const auto last = [&](size_t height) {
        const auto sums = column_sums(x.get(), height, a.width());
        return compare_rows(
            y.get() + (height - 1) * a.width(), 1, a.width(),
            [&](size_t, double* expected) { std::copy(sums.begin(), sums.end(), expected); },
            0.8 * static_cast<double>(height));
      };
      return both(last(a.height()), last(a.height() / 2));
    };
    return launch(check, x, y, a.rows, a.cols);
  });
}

}  // namespace

std::vector<Case> row_cases(Size size) {
  if (size == Size::kSmall) {
    const Matrix a{17, 1000};
    return {softmax_of(kernels::softmax(), a, 1000, false),
            softmax_of(kernels::softmax_long(), a, 256, false),
            softmax_of(kernels::log_softmax(), a, 256, true),
            cross_entropy(a),
            cross_entropy_mean(1000),
            cross_entropy_backward(a),
            softmax_narrow({77, 100}),
            layer_norm({19, 768}),
            layer_norm_narrow({77, 100}),
            layer_norm_long(a, 256),
            layer_norm_backward({70, 768}),
            rms_norm(a),
            residual_rms_norm(a),
            residual_layer_norm(a),
            row_sum({21, 1234}),
            column_sum({21, 1234}),
            cumsum_rows({21, 1234}),
            cumsum_columns({21, 1234})};
  }
  if (size == Size::kInCache) {
    const Matrix a{128, 1024}, long_rows{8, 16384}, narrow{1024, 128};
    return {softmax_of(kernels::softmax(), a, 1024, false),
            softmax_of(kernels::softmax(), narrow, 128, false),
            softmax_of(kernels::softmax(), {128, 1000}, 1000, false),
            softmax_of(kernels::softmax_long(), long_rows, 4096, false),
            softmax_of(kernels::log_softmax(), a, 1024, true),
            cross_entropy(a),
            layer_norm(a),
            layer_norm(narrow),
            softmax_narrow(narrow),
            layer_norm_narrow(narrow),
            layer_norm_long(long_rows, 4096),
            layer_norm({170, 768}),
            layer_norm_backward({64, 768}),
            rms_norm(a),
            residual_rms_norm({64, 1024}),
            residual_layer_norm({80, 768}),
            row_sum(a),
            column_sum(a),
            cumsum_rows(a),
            cumsum_columns(a)};
  }
  // Vocabularies of Llama 2 and 3; widths of BERT-base and Llama.
  const Matrix llama2{512, 32000}, llama3{128, 128256}, wide{4096, 4096}, bert{8192, 768}, short_rows{65536, 128};
  return {softmax_of(kernels::softmax(), {4096, 1024}, 1024, false),
          softmax_of(kernels::softmax(), llama2, 32000, false),
          softmax_of(kernels::softmax_long(), llama3, 4096, false),
          softmax_of(kernels::log_softmax(), llama2, 4096, true),
          softmax_of(kernels::log_softmax(), llama3, 4096, true),
          cross_entropy(llama2),
          cross_entropy(llama3),
          cross_entropy_mean(65536),
          cross_entropy_backward(llama3),
          layer_norm(wide),
          layer_norm(bert),
          softmax_narrow(short_rows),
          layer_norm_narrow(short_rows),
          layer_norm_long(llama3, 4096),
          layer_norm_backward(bert),
          layer_norm_backward(wide),
          rms_norm(wide),
          residual_rms_norm(wide),
          residual_layer_norm(bert),
          row_sum(wide),
          column_sum(wide),
          cumsum_rows(wide),
          cumsum_columns(wide)};
}

}  // namespace kiln::quickstart
