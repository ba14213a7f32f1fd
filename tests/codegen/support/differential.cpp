#include "differential.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "amd_device.h"
#include "compile_once.h"
#include "cuda_device.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "sampled.h"

namespace kiln::test {

using dsl::ElementType;

std::vector<std::string> cpu_targets() {
  std::vector<std::string> out = {""};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v2")) out.push_back("cpu:x86-64-v2");
  if (__builtin_cpu_supports("x86-64-v3")) out.push_back("cpu:x86-64-v3");
  if (__builtin_cpu_supports("x86-64-v4")) out.push_back("cpu:x86-64-v4");
  return out;
}

std::vector<std::string> all_targets() {
  if (on_cuda()) return {""};
  std::vector<std::string> out;
  if (wants_targets("cpu")) out = cpu_targets();
  if (wants_targets("gpu")) out.push_back("gpu");
#ifdef KILN_AMDGCN
  if (wants_targets("amd")) out.push_back("amd");
#endif
  return out;
}

// The first case of a test has all targets; where tests have a parameter, that of one in three.
bool has_all_targets() {
  const std::string test = name_of_test();
  const bool has_parameter = test.find('/') != std::string::npos;
  return is_first_call() && (runs_all_cases() || !has_parameter || first_part(test, 3) == 0);
}

std::vector<std::string> some_targets() {
  if (has_all_targets() || on_cuda() || !wants_targets("cpu")) return all_targets();
  std::vector<std::string> out = sampled(cpu_targets(), 1);
  const bool has_emulated = is_sampled(2);
  for (const std::string& target : all_targets()) {
    if (target == "amd" || (target == "gpu" && has_emulated)) out.push_back(target);
  }
  return out;
}

bool has_fma(const std::string& target) { return target != "cpu:x86-64-v2" && __builtin_cpu_supports("fma"); }

namespace {

uint64_t element_at(ElementType type, const std::vector<std::byte>& buffer, size_t index) {
  uint64_t bits = 0;
  const auto bytes = static_cast<size_t>(dsl::info(type).bytes);
  std::memcpy(&bits, buffer.data() + index * bytes, bytes);
  return bits;
}

bool matches(ElementType type, uint64_t a, uint64_t b, const Match& match) {
  if (a == b) return true;
  if (!dsl::is_float(type)) return false;
  const double x = dsl::double_from_bits(type, a), y = dsl::double_from_bits(type, b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (x == 0 && y == 0) return match.any_zero;
  if (std::isinf(x) || std::isinf(y)) return x == y;
  return std::fabs(x - y) <= match.atol + match.rtol * std::fabs(y);
}

uint64_t random_float(ElementType type, std::mt19937_64& random) {
  const double tiny = type == ElementType::kF64    ? 4.9e-324
                      : type == ElementType::kF16  ? 6e-8
                      : type == ElementType::kBF16 ? 9.2e-41
                                                   : 1.4e-45;
  const double huge = type == ElementType::kF64 ? 1.797e308 : type == ElementType::kF16 ? 65504 : 3.38e38;
  const double specials[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, tiny, -tiny, tiny * 1000, -tiny * 300, huge,   -huge,
                             1.0, -1.0, 0.5,      2.5,       3.5, 1e9,  -3e9,  127.5,       65519.9,     -129.0, 3e5};
  return dsl::bits_from_double(type, specials[random() % std::size(specials)]);
}

}  // namespace

size_t count_differences(ElementType type, const std::vector<std::byte>& actual, const std::vector<std::byte>& expected,
                         const Match& match, std::string& explanation, size_t first_byte, size_t last_byte) {
  const auto bytes = static_cast<size_t>(dsl::info(type).bytes);
  size_t wrong = 0;
  for (size_t i = first_byte / bytes; i < std::min(expected.size(), last_byte) / bytes; ++i) {
    const uint64_t a = element_at(type, actual, i), e = element_at(type, expected, i);
    if (matches(type, a, e, match)) continue;
    if (++wrong > 3) continue;
    char line[160];
    std::snprintf(line, sizeof line, "  element %zu: %.9g (%llx) instead of %.9g (%llx)\n", i,
                  dsl::double_from_bits(type, a), static_cast<unsigned long long>(a), dsl::double_from_bits(type, e),
                  static_cast<unsigned long long>(e));
    explanation += line;
  }
  if (wrong > 3) explanation += "  and " + std::to_string(wrong - 3) + " more\n";
  return wrong;
}

TestArgument random_buffer(ElementType type, size_t count, uint32_t seed, bool specials) {
  std::mt19937_64 random(seed * 7919u + static_cast<uint32_t>(type));
  std::normal_distribution<double> normal;
  const auto bytes = static_cast<size_t>(dsl::info(type).bytes);
  TestArgument out;
  out.is_buffer = true;
  out.buffer.resize(count * bytes);
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = random();
    if (type == ElementType::kI1) {
      bits &= 1;
    } else if (dsl::is_float(type)) {
      bits = specials && random() % 4 == 0 ? random_float(type, random) : dsl::bits_from_double(type, normal(random));
    } else if (specials && random() % 4 == 0) {
      const uint64_t top = uint64_t{1} << (dsl::info(type).bits - 1);
      const uint64_t values[] = {0, 1, ~uint64_t{0}, top, top - 1, 2, 7, top + 1, 63};
      bits = values[random() % std::size(values)];
    }
    std::memcpy(out.buffer.data() + i * bytes, &bits, bytes);
  }
  return out;
}

TestArgument int_scalar(int64_t value) { return scalar_bits(static_cast<uint64_t>(value)); }

dsl::Kernel parse_kernel(const std::string& text) {
  auto kernel = dsl::parse(text, "test.kiln");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message << "\n" << text;
  if (!kernel) return {};
  auto valid = dsl::verify(*kernel);
  EXPECT_TRUE(valid.ok()) << valid.error().message << "\n" << text;
  return std::move(*kernel);
}

void expect_same(const std::string& text, const Trial& run) {
  const dsl::Kernel kernel = parse_kernel(text);
  if (!testing::Test::HasFailure() || !kernel.params.empty()) expect_same(kernel, text, run);
}

void expect_same(const dsl::Kernel& kernel, const std::string& text, const Trial& run) {
  for (bool contract : {true, false}) {
    std::vector<TestArgument> expected;
    for (const std::string& target : run.targets) {
      if (has_fma(target) != contract) continue;
      if (target == "amd" && !is_chosen_for_amd(kernel)) continue;
      if (expected.empty()) {
        expected = run.arguments;
        auto interpreted = run_interpreted(kernel, {}, {}, expected, contract);
        ASSERT_TRUE(interpreted.ok()) << interpreted.error().message << "\n" << text;
      }
      auto artifact = compile_once(kernel, {}, {}, target);
      if (is_refused(artifact)) continue;
      ASSERT_TRUE(artifact.ok()) << target << ": " << artifact.error().message << "\n" << text;
      std::vector<TestArgument> actual = run.arguments;
      auto ran = run_compiled(kernel, *artifact, actual);
      ASSERT_TRUE(ran.ok()) << target << ": " << ran.error().message << "\n" << text;
      std::string explanation;
      size_t wrong = 0;
      for (size_t i = 0; i < actual.size(); ++i) {
        if (!actual[i].is_buffer) continue;
        std::string here;
        const size_t count =
            count_differences(kernel.params[i].type.element, actual[i].buffer, expected[i].buffer, run.match, here);
        if (count) explanation += "buffer " + kernel.params[i].name + ":\n" + here;
        wrong += count;
      }
      EXPECT_EQ(wrong, 0u) << "target " << (target.empty() ? "native" : target) << "\n" << explanation << text;
    }
  }
}

void expect_same_failure(const std::string& text, const std::vector<TestArgument>& arguments, const std::string& part,
                         FailureMatch match) {
  const dsl::Kernel kernel = parse_kernel(text);
  auto reference = arguments;
  auto interpreted = run_interpreted(kernel, {}, {}, reference);
  ASSERT_FALSE(interpreted.ok()) << text;
  for (const std::string& target : all_targets()) {
    auto artifact = compile(kernel, {}, {}, target);
    if (is_refused(artifact)) continue;
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    auto actual = arguments;
    auto launched = run_launched(kernel, *artifact, actual, {.threads = 1});
    ASSERT_FALSE(launched.ok()) << target << text;
    EXPECT_NE(launched.error().message.find(part), std::string::npos) << launched.error().message;
    EXPECT_EQ(launched.error().code, interpreted.error().code);
    if (match == FailureMatch::kCode) continue;
    EXPECT_EQ(launched.error().message, interpreted.error().message) << target;
    if (match == FailureMatch::kWords) continue;
    if (target == "gpu" || target == "amd" || on_cuda()) continue;  // of the op that fails nothing is done
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_EQ(actual[i].buffer, reference[i].buffer) << target << " " << i;
  }
}

std::string TextKernel::list(const Shape& shape) {
  std::string out;
  for (int64_t extent : shape) out += (out.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + out + "]";
}

TextKernel& TextKernel::line(const std::string& text) {
  body_ += "  " + text + "\n";
  return *this;
}

std::string TextKernel::op(const std::string& expression) {
  std::string name = "%t";
  name += std::to_string(next_++);
  line(name + " = " + expression);
  return name;
}

std::string TextKernel::constant(const std::string& value, const std::string& type) {
  return op("constant {value = " + value + ", type = " + type + "}");
}

std::string TextKernel::fill(const std::string& value, const std::string& type, const Shape& shape) {
  return splat(constant(value, type), shape);
}

std::string TextKernel::splat(const std::string& scalar, const Shape& shape) {
  return op("splat " + scalar + " {shape = " + list(shape) + "}");
}

std::string TextKernel::along(const Shape& shape, size_t axis) {
  std::string out = op("arange {start = 0, end = " + std::to_string(shape[axis]) + "}");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != axis) out = op("expand_dims " + out + " {axis = " + std::to_string(i) + "}");
  }
  return shape.size() == 1 ? out : op("broadcast " + out + " {shape = " + list(shape) + "}");
}

std::string TextKernel::index(const Shape& shape, Shape strides) {
  if (strides.empty()) {
    strides.assign(shape.size(), 1);
    for (size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
  }
  std::string sum;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    std::string part = along(shape, axis);
    if (strides[axis] != 1) part = op("mul " + part + ", " + fill(std::to_string(strides[axis]), "i32", shape));
    sum = sum.empty() ? part : op("add " + sum + ", " + part);
  }
  return sum;
}

std::string TextKernel::pointers(const std::string& param, const Shape& shape, int64_t offset, Shape strides) {
  std::string base = param;
  if (offset != 0) base = op("addptr " + param + ", " + constant(std::to_string(offset), "i32"));
  return op("addptr " + splat(base, shape) + ", " + index(shape, strides));
}

std::string TextKernel::mask(const Shape& shape, const std::vector<std::string>& bounds) {
  std::string out;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (bounds[axis].empty()) continue;
    const std::string part = op("cmp " + along(shape, axis) + ", " + splat(bounds[axis], shape) + " {pred = lt}");
    out = out.empty() ? part : op("and " + out + ", " + part);
  }
  return out;
}

}  // namespace kiln::test
