#include "functions.h"

#include "compile_once.h"

namespace kiln::test {

using dsl::MathFn;

const std::vector<MathFunction>& math_functions() {
  static const std::vector<MathFunction> all = {
      {"exp", MathFn::kExp, 2, 4},           {"exp2", MathFn::kExp2, 2, 4},       {"expm1", MathFn::kExpm1, 2, 4},
      {"log", MathFn::kLog, 2, 4},           {"log2", MathFn::kLog2, 2, 4},       {"log10", MathFn::kLog10, 2, 4},
      {"log1p", MathFn::kLog1p, 2, 4},       {"sin", MathFn::kSin, 2, 4, true},   {"cos", MathFn::kCos, 2, 4},
      {"tan", MathFn::kTan, 4, 8, true},     {"asin", MathFn::kAsin, 4, 4, true}, {"acos", MathFn::kAcos, 4, 4},
      {"atan", MathFn::kAtan, 4, 4, true},   {"atan2", MathFn::kAtan2, 4, 4},     {"sinh", MathFn::kSinh, 4, 4, true},
      {"cosh", MathFn::kCosh, 4, 4},         {"tanh", MathFn::kTanh, 4, 4, true}, {"erf", MathFn::kErf, 2, 4, true},
      {"erfc", MathFn::kErfc, 4, 8},         {"sqrt", MathFn::kSqrt, 0, 0},       {"rsqrt", MathFn::kRsqrt, 1, 4},
      {"pow", MathFn::kPow, 4, 8},           {"hypot", MathFn::kHypot, 4, 8},     {"copysign", MathFn::kCopysign, 0, 0},
      {"floor", MathFn::kFloor, 0, 0},       {"ceil", MathFn::kCeil, 0, 0},       {"round", MathFn::kRound, 0, 0, true},
      {"trunc", MathFn::kTrunc, 0, 0, true},
  };
  return all;
}

namespace {

template <class Predicate>
std::vector<MathFunction> functions_that(Predicate predicate) {
  std::vector<MathFunction> out;
  for (const MathFunction& function : math_functions()) {
    if (predicate(function)) out.push_back(function);
  }
  return out;
}

}  // namespace

std::vector<MathFunction> odd_math_functions() {
  return functions_that([](const MathFunction& function) { return function.odd; });
}

std::vector<MathFunction> math_functions_of_one_operand() {
  return functions_that([](const MathFunction& function) { return dsl::math_arity(function.fn) == 1; });
}

double math_reference(MathFn fn, double x, double y) {
  switch (fn) {
    case MathFn::kExp:
      return std::exp(x);
    case MathFn::kExp2:
      return std::exp2(x);
    case MathFn::kExpm1:
      return std::expm1(x);
    case MathFn::kLog:
      return std::log(x);
    case MathFn::kLog2:
      return std::log2(x);
    case MathFn::kLog10:
      return std::log10(x);
    case MathFn::kLog1p:
      return std::log1p(x);
    case MathFn::kSin:
      return std::sin(x);
    case MathFn::kCos:
      return std::cos(x);
    case MathFn::kTan:
      return std::tan(x);
    case MathFn::kAsin:
      return std::asin(x);
    case MathFn::kAcos:
      return std::acos(x);
    case MathFn::kAtan:
      return std::atan(x);
    case MathFn::kAtan2:
      return std::atan2(x, y);
    case MathFn::kSinh:
      return std::sinh(x);
    case MathFn::kCosh:
      return std::cosh(x);
    case MathFn::kTanh:
      return std::tanh(x);
    case MathFn::kErf:
      return std::erf(x);
    case MathFn::kErfc:
      return std::erfc(x);
    case MathFn::kSqrt:
      return std::sqrt(x);
    case MathFn::kRsqrt:
      return 1 / std::sqrt(x);
    case MathFn::kPow:
      return std::pow(x, y);
    case MathFn::kHypot:
      return std::hypot(x, y);
    case MathFn::kCopysign:
      return std::copysign(x, y);
    case MathFn::kSignbit:
      return std::signbit(x);
    case MathFn::kFloor:
      return std::floor(x);
    case MathFn::kCeil:
      return std::ceil(x);
    case MathFn::kRound:
      return std::nearbyint(x);
    case MathFn::kTrunc:
      return std::trunc(x);
    case MathFn::kIsnan:
      return std::isnan(x);
    case MathFn::kIsinf:
      return std::isinf(x);
  }
  return NAN;
}

namespace {

std::string kernel_text(const MathFunction& function, const std::string& type, bool fast) {
  TextKernel kernel("%x: ptr<" + type + "> readonly, %y: ptr<" + type + "> readonly, %z: ptr<" + type + ">, %n: i32");
  kernel.grid = "div(n, " + std::to_string(kMathBlock) + ")";
  kernel.line("%base = mul " + kernel.op("program_id {axis = 0}") + ", " +
              kernel.constant(std::to_string(kMathBlock), "i32"));
  kernel.line("%px = addptr %x, %base").line("%py = addptr %y, %base").line("%pz = addptr %z, %base");
  std::string operands = kernel.op("load " + kernel.pointers("%px", {kMathBlock}));
  if (dsl::math_arity(function.fn) == 2) operands += ", " + kernel.op("load " + kernel.pointers("%py", {kMathBlock}));
  const std::string result = kernel.op("math " + operands + " {fn = " + function.name + (fast ? ", fast = 1}" : "}"));
  kernel.line("store " + kernel.pointers("%pz", {kMathBlock}) + ", " + result);
  return kernel.text();
}

}  // namespace

template <class T>
MathKernel<T>::MathKernel(const MathFunction& function, const std::string& type, const std::string& target, bool fast)
    : kernel_(parse_kernel(kernel_text(function, type, fast))) {
  auto artifact = compile_once(kernel_, {}, {}, target);
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  compiled_ = artifact.ok();
  if (compiled_) artifact_ = std::move(*artifact);
}

template <class T>
std::vector<T> MathKernel<T>::operator()(const std::vector<T>& x, const std::vector<T>& y) const {
  if (!compiled_) return std::vector<T>(x.size());
  std::vector<TestArgument> arguments = {buffer(x), buffer(y), buffer(std::vector<T>(x.size())),
                                         int_scalar(static_cast<int64_t>(x.size()))};
  auto ran = run_compiled(kernel_, artifact_, arguments);
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  return values_of<T>(arguments[2]);
}

template class MathKernel<float>;
template class MathKernel<double>;
template class MathKernel<uint16_t>;

}  // namespace kiln::test
