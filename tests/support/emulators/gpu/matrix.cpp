#include "matrix.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <optional>

#include "gpu/layout/fragments.h"

namespace kiln::test {
namespace {

namespace gpu = codegen::gpu;
using dsl::ElementType;
using gpu::Dim;
using gpu::Layout;

std::optional<MatrixForm> form_of(int lanes, ElementType a, ElementType b, ElementType sum, dsl::Precision precision) {
  const int bits = dsl::info(a).bits;
  const bool is_float = dsl::is_float(a);
  const bool is_tf32 = a == ElementType::kF32 && precision == dsl::Precision::kTf32;
  if (dsl::info(b).bits != bits || dsl::is_float(b) != is_float) return std::nullopt;
  if (is_float ? sum != (bits == 64 ? ElementType::kF64 : ElementType::kF32) : bits != 8 || sum != ElementType::kI32) {
    return std::nullopt;
  }
  MatrixForm out{lanes, a, b, sum, is_tf32, {}, {}, {}};
  if (lanes == 64) {
    const int k = bits == 64 || bits == 32 ? 4 : 256 / bits;
    out.a_layout = gpu::mfma_a(16, k);
    out.b_layout = gpu::mfma_b(16, k);
    out.sum_layout = bits == 64 ? gpu::mfma_f64_accumulator() : gpu::mfma_accumulator(16);
    return out;
  }
  if (bits == 32 && !is_tf32) return std::nullopt;
  out.a_layout = bits == 64 ? gpu::mma_f64_a() : gpu::mma_a(bits);
  out.b_layout = bits == 64 ? gpu::mma_f64_b() : gpu::mma_b(bits);
  out.sum_layout = bits == 64 ? gpu::mma_f64_accumulator() : gpu::mma_accumulator();
  return out;
}

}  // namespace

double round_tf32(double x) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

const MatrixForm* find_matrix_form(int lanes, ElementType a, ElementType b, ElementType sum, dsl::Precision precision) {
  static std::deque<MatrixForm> forms;
  const std::optional<MatrixForm> wanted = form_of(lanes, a, b, sum, precision);
  if (!wanted) return nullptr;
  for (const MatrixForm& form : forms) {
    if (form.lanes == lanes && form.a == a && form.b == b && form.is_tf32 == wanted->is_tf32) return &form;
  }
  return &forms.emplace_back(*wanted);
}

const MatrixForm* find_scaled_form(ElementType a, ElementType b) {
  static std::deque<MatrixForm> forms;
  for (const MatrixForm& form : forms) {
    if (form.a == a && form.b == b) return &form;
  }
  MatrixForm out{32, a, b, ElementType::kF32, false, gpu::mma_a(8), gpu::mma_b(8), gpu::mma_accumulator()};
  out.is_scaled = true;
  const bool is_packed = a == ElementType::kU8;
  out.a_scales = is_packed ? gpu::mma_a_scale_pairs() : gpu::mma_a_scales();
  out.b_scales = is_packed ? gpu::mma_b_scale_pairs() : gpu::mma_b_scales();
  return &forms.emplace_back(std::move(out));
}

MatrixProduct::MatrixProduct(const MatrixForm& form)
    : form_(form),
      a_(size_t{1} << form.a_layout.element_bits()),
      b_(size_t{1} << form.b_layout.element_bits()),
      sum_(size_t{1} << form.sum_layout.element_bits()),
      a_scale_(form.is_scaled ? size_t{1} << form.a_scales.element_bits() : 0),
      b_scale_(form.is_scaled ? size_t{1} << form.b_scales.element_bits() : 0) {}

void MatrixProduct::read(int lane, const std::byte* registers) {
  const auto read = [&](const Layout& layout, ElementType element, std::vector<uint64_t>& matrix) {
    for (gpu::Bits reg = 0; reg < static_cast<gpu::Bits>(layout.size(Dim::kRegister)); ++reg) {
      uint64_t bits = 0;
      std::memcpy(&bits, registers, static_cast<size_t>(dsl::info(element).bytes));
      matrix[layout.at({.reg = reg, .lane = static_cast<gpu::Bits>(lane)})] = bits;
      registers += 8;
    }
  };
  read(form_.a_layout, form_.a, a_);
  read(form_.b_layout, form_.b, b_);
  read(form_.sum_layout, form_.sum, sum_);
  if (!form_.is_scaled) return;
  const auto read_scale = [&](const Layout& layout, std::vector<uint64_t>& scales) {
    const auto bits = static_cast<gpu::Bits>(lane);
    for (gpu::Bits reg = 0; reg < static_cast<gpu::Bits>(layout.size(Dim::kRegister)); ++reg) {
      if ((bits & layout.free_mask(Dim::kLane)) == 0) {
        scales[layout.at({.reg = reg, .lane = bits})] = std::to_integer<uint64_t>(registers[0]);
      }
      registers += 8;
    }
  };
  read_scale(form_.a_scales, a_scale_);
  read_scale(form_.b_scales, b_scale_);
}

void MatrixProduct::multiply() {
  const auto rows = static_cast<size_t>(form_.sum_layout.shape()[0]);
  const auto columns = static_cast<size_t>(form_.sum_layout.shape()[1]);
  const bool is_packed = form_.is_scaled && form_.a == ElementType::kU8;
  const auto inner = static_cast<size_t>(form_.a_layout.shape()[1]) * (is_packed ? 2 : 1);
  const auto numbers = [&](ElementType element, const std::vector<uint64_t>& matrix) {
    std::vector<double> out;
    for (uint64_t bits : matrix) {
      const double x = dsl::double_from_bits(element, bits);
      out.push_back(form_.is_tf32 ? round_tf32(x) : x);
    }
    return out;
  };
  // Two e2m1 of each byte along the inner axis, the first in the low half.
  const auto nibbles = [&](const std::vector<uint64_t>& bytes, size_t neighbours) {
    constexpr double kE2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    std::vector<double> out(2 * bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (size_t half : {size_t{0}, size_t{1}}) {
        const uint64_t code = bytes[i] >> (4 * half) & 15;
        const size_t place = (2 * (i / neighbours) + half) * neighbours + i % neighbours;
        out[place] = code & 8 ? -kE2m1[code & 7] : kE2m1[code & 7];
      }
    }
    return out;
  };
  const std::vector<double> a = is_packed ? nibbles(a_, 1) : numbers(form_.a, a_);
  const std::vector<double> b = is_packed ? nibbles(b_, columns) : numbers(form_.b, b_);
  constexpr size_t kBlock = 32;
  const auto scale = [&](const std::vector<uint64_t>& scales, size_t line, size_t k) {
    if (!form_.is_scaled) return 1.0;
    const auto bits = static_cast<int>(scales[line * (inner / kBlock) + k / kBlock]);
    return bits == 0xff ? std::nan("") : std::ldexp(1.0, bits - 127);
  };
  for (size_t m = 0; m < rows; ++m) {
    for (size_t n = 0; n < columns; ++n) {
      uint64_t& bits = sum_[m * columns + n];
      // Exact in double but for f64 and for sums of f32, which are rounded once.
      double sum = dsl::double_from_bits(form_.sum, bits);
      for (size_t k = 0; k < inner; ++k) {
        const double factor = scale(a_scale_, m, k) * scale(b_scale_, n, k);
        sum = std::fma(factor * a[m * inner + k], b[k * columns + n], sum);
      }
      bits = dsl::is_float(form_.sum) ? dsl::bits_from_double(form_.sum, sum)
                                      : dsl::bits_from_int(form_.sum, static_cast<int64_t>(sum));
    }
  }
}

void MatrixProduct::write(int lane, std::byte* sums) const {
  const Layout& layout = form_.sum_layout;
  for (gpu::Bits reg = 0; reg < static_cast<gpu::Bits>(layout.size(Dim::kRegister)); ++reg) {
    std::memcpy(sums + 8 * reg, &sum_[layout.at({.reg = reg, .lane = static_cast<gpu::Bits>(lane)})], 8);
  }
}

}  // namespace kiln::test
