// The special values that IEEE 754-2019 (9.2) and C's Annex F give, signs of zero included.
#include <cmath>

#include "numbers.h"
#include "reference/cast.h"
#include "reference/inputs.h"
#include "reference/tolerance.h"

namespace kiln::oracle {
namespace {

constexpr double kInf = INFINITY;
constexpr double kNan = NAN;

struct Unary {
  const char* function;
  double x, want;
};
constexpr Unary kUnary[] = {
    {"exp", 0, 1},         {"exp", -0.0, 1},         {"exp", kInf, kInf},    {"exp", -kInf, 0},
    {"exp2", 0, 1},        {"exp2", kInf, kInf},     {"exp2", -kInf, 0},     {"exp2", 10, 1024},
    {"exp2", -3, 0.125},   {"expm1", 0, 0},          {"expm1", -0.0, -0.0},  {"expm1", kInf, kInf},
    {"expm1", -kInf, -1},  {"log", 0, -kInf},        {"log", -0.0, -kInf},   {"log", 1, 0},
    {"log", -1, kNan},     {"log", -kInf, kNan},     {"log", kInf, kInf},    {"log2", 0, -kInf},
    {"log2", -0.0, -kInf}, {"log2", 1, 0},           {"log2", -1, kNan},     {"log2", kInf, kInf},
    {"log2", 8, 3},        {"log10", 0, -kInf},      {"log10", -0.0, -kInf}, {"log10", 1, 0},
    {"log10", -1, kNan},   {"log10", kInf, kInf},    {"log1p", 0, 0},        {"log1p", -0.0, -0.0},
    {"log1p", -1, -kInf},  {"log1p", -2, kNan},      {"log1p", kInf, kInf},  {"sin", 0, 0},
    {"sin", -0.0, -0.0},   {"sin", kInf, kNan},      {"sin", -kInf, kNan},   {"cos", 0, 1},
    {"cos", -0.0, 1},      {"cos", kInf, kNan},      {"tan", 0, 0},          {"tan", -0.0, -0.0},
    {"tan", kInf, kNan},   {"asin", 0, 0},           {"asin", -0.0, -0.0},   {"asin", 2, kNan},
    {"asin", -2, kNan},    {"acos", 1, 0},           {"acos", 2, kNan},      {"acos", -2, kNan},
    {"atan", 0, 0},        {"atan", -0.0, -0.0},     {"sinh", 0, 0},         {"sinh", -0.0, -0.0},
    {"sinh", kInf, kInf},  {"sinh", -kInf, -kInf},   {"cosh", 0, 1},         {"cosh", -0.0, 1},
    {"cosh", kInf, kInf},  {"cosh", -kInf, kInf},    {"tanh", 0, 0},         {"tanh", -0.0, -0.0},
    {"tanh", kInf, 1},     {"tanh", -kInf, -1},      {"erf", 0, 0},          {"erf", -0.0, -0.0},
    {"erf", kInf, 1},      {"erf", -kInf, -1},       {"erfc", 0, 1},         {"erfc", kInf, 0},
    {"erfc", -kInf, 2},    {"sqrt", 0, 0},           {"sqrt", -0.0, -0.0},   {"sqrt", kInf, kInf},
    {"sqrt", -1, kNan},    {"sqrt", -kInf, kNan},    {"rsqrt", 0, kInf},     {"rsqrt", -0.0, -kInf},
    {"rsqrt", kInf, 0},    {"rsqrt", -1, kNan},      {"rsqrt", 4, 0.5},      {"floor", -0.0, -0.0},
    {"floor", 0.5, 0},     {"floor", -0.5, -1},      {"floor", kInf, kInf},  {"ceil", -0.5, -0.0},
    {"ceil", 0.5, 1},      {"ceil", -kInf, -kInf},   {"round", 0.5, 0},      {"round", 1.5, 2},
    {"round", 2.5, 2},     {"round", -0.5, -0.0},    {"round", -2.5, -2},    {"round", -1.5, -2},
    {"round", kInf, kInf}, {"trunc", -0.9375, -0.0}, {"trunc", 1.75, 1},     {"trunc", -kInf, -kInf}};

struct Binary2 {
  const char* function;
  double x, y, want;
};
constexpr Binary2 kBinary[] = {{"pow", kNan, 0, 1},
                               {"pow", kNan, -0.0, 1},
                               {"pow", kInf, 0, 1},
                               {"pow", 0, 0, 1},
                               {"pow", 1, kNan, 1},
                               {"pow", 1, kInf, 1},
                               {"pow", 1, -kInf, 1},
                               {"pow", kNan, 1, kNan},
                               {"pow", 2, kNan, kNan},
                               {"pow", -1, kInf, 1},
                               {"pow", -1, -kInf, 1},
                               {"pow", 0, -1, kInf},
                               {"pow", -0.0, -1, -kInf},
                               {"pow", -0.0, -3, -kInf},
                               {"pow", -0.0, -2, kInf},
                               {"pow", -0.0, -0.5, kInf},
                               {"pow", 0, -kInf, kInf},
                               {"pow", -0.0, -kInf, kInf},
                               {"pow", 0, 3, 0},
                               {"pow", -0.0, 3, -0.0},
                               {"pow", -0.0, 2, 0},
                               {"pow", -0.0, 0.5, 0},
                               {"pow", -2, 0.5, kNan},
                               {"pow", -2, 3, -8},
                               {"pow", -2, 2, 4},
                               {"pow", 0.5, -kInf, kInf},
                               {"pow", 2, -kInf, 0},
                               {"pow", 0.5, kInf, 0},
                               {"pow", 2, kInf, kInf},
                               {"pow", -kInf, -3, -0.0},
                               {"pow", -kInf, -2, 0},
                               {"pow", -kInf, 3, -kInf},
                               {"pow", -kInf, 2, kInf},
                               {"pow", -kInf, 0.5, kInf},
                               {"pow", kInf, -1, 0},
                               {"pow", kInf, 1, kInf},
                               {"pow", -0.5, kInf, 0},
                               {"pow", -2, -kInf, 0},
                               {"hypot", kInf, kNan, kInf},
                               {"hypot", kNan, -kInf, kInf},
                               {"hypot", kNan, 1, kNan},
                               {"hypot", 1, kNan, kNan},
                               {"hypot", -0.0, -0.0, 0},
                               {"hypot", -kInf, 1, kInf},
                               {"hypot", 3, -4, 5},
                               {"hypot", 0, -2, 2},
                               {"atan2", 0, 1, 0},
                               {"atan2", -0.0, 1, -0.0},
                               {"atan2", 0, 0, 0},
                               {"atan2", -0.0, 0, -0.0},
                               {"atan2", 1, kInf, 0},
                               {"atan2", -1, kInf, -0.0},
                               {"atan2", kNan, 1, kNan},
                               {"atan2", 1, kNan, kNan},
                               {"copysign", 3, -0.0, -3},
                               {"copysign", -3, 0, 3},
                               {"copysign", kInf, -1, -kInf},
                               {"copysign", 0, -1, -0.0}};

// These give multiples of π/4, of which a type has its nearest value.
struct Angle {
  double y, x;
  int quarters;
};
constexpr Angle kAngles[] = {{0, -1, 4},         {-0.0, -1, -4}, {0, -0.0, 4},    {-0.0, -0.0, -4},  {1, 0, 2},
                             {-1, 0, -2},        {1, -0.0, 2},   {-1, -0.0, -2},  {1, -kInf, 4},     {-1, -kInf, -4},
                             {kInf, 1, 2},       {-kInf, 1, -2}, {kInf, kInf, 1}, {-kInf, kInf, -1}, {kInf, -kInf, 3},
                             {-kInf, -kInf, -3}, {1, 1, 1},      {-1, -1, -3}};

constexpr Type kWithInfinity[] = {Type::kF32, Type::kF64, Type::kF16, Type::kBF16};

Bits of(const std::string& function, Type type, const std::vector<double>& operands) {
  std::vector<Column> columns;
  for (const double operand : operands) columns.push_back({reference::element_of(type, operand)});
  const std::string op = operands.size() == 1 ? "math %x0 {fn = " : "math %x0, %x1 {fn = ";
  return run_elementwise(op + function + "}", std::vector<Type>(operands.size(), type), columns, type).at(0);
}

TEST(NumbersSpecial, FunctionsOfOneOperand) {
  for (const Type type : kWithInfinity) {
    for (const Unary& row : kUnary) {
      const Bits got = of(row.function, type, {row.x}), want = reference::element_of(type, row.want);
      EXPECT_TRUE(reference::same(type, got, want))
          << row.function << "(" << row.x << ") " << type_name(type) << " " << got;
    }
  }
}

TEST(NumbersSpecial, FunctionsOfTwoOperands) {
  for (const Type type : kWithInfinity) {
    for (const Binary2& row : kBinary) {
      const Bits got = of(row.function, type, {row.x, row.y}), want = reference::element_of(type, row.want);
      EXPECT_TRUE(reference::same(type, got, want))
          << row.function << "(" << row.x << ", " << row.y << ") " << type_name(type) << " " << got;
    }
    for (const Angle& row : kAngles) {
      const long double want = row.quarters * 0.78539816339744830961566L;
      EXPECT_LE(reference::ulp_error(type, of("atan2", type, {row.y, row.x}), want), 4) << row.y << ", " << row.x;
    }
  }
}

TEST(NumbersSpecial, ANanOperandGivesNan) {
  for (const Type type : reference::kFloatTypes) {
    for (const char* function :
         {"exp",  "exp2", "expm1", "log",  "log2", "log10", "log1p", "sin",   "cos",   "tan",  "asin",  "acos",
          "atan", "sinh", "cosh",  "tanh", "erf",  "erfc",  "sqrt",  "rsqrt", "floor", "ceil", "round", "trunc"}) {
      EXPECT_TRUE(reference::is_nan(type, of(function, type, {kNan}))) << function << " " << type_name(type);
    }
    for (const char* function : {"pow", "hypot", "atan2"}) {
      EXPECT_TRUE(reference::is_nan(type, of(function, type, {kNan, 2}))) << function << " " << type_name(type);
      EXPECT_TRUE(reference::is_nan(type, of(function, type, {2, kNan}))) << function << " " << type_name(type);
    }
  }
}

// f32's own infinity, rounded to f8 as its casts are: to the largest finite value.
TEST(NumbersSpecial, InfiniteResultsOfF8Saturate) {
  EXPECT_EQ(of("log", Type::kF8E4M3, {0}), 0xfeu);
  EXPECT_EQ(of("rsqrt", Type::kF8E5M2, {0}), 0x7bu);
  EXPECT_EQ(of("exp", Type::kF8E4M3, {448}), 0x7eu);
}

// Below 2^-14 of f16, and below 2^-126 of f32, these are x to the last bit but the smallest.
TEST(NumbersSpecial, SubnormalsAreKeptByFunctionsThatAreXNearZero) {
  for (const Type type : {Type::kF32, Type::kF64, Type::kBF16, Type::kF16}) {
    for (const char* function : {"sin", "tan", "asin", "atan", "sinh", "tanh", "expm1", "log1p"}) {
      for (const Bits bits : {Bits{1}, Bits{5}}) {
        const Column got = run_elementwise(std::string("math %x0 {fn = ") + function + "}", {type}, {{bits}}, type);
        EXPECT_EQ(got.at(0), bits) << function << " " << type_name(type);
      }
    }
  }
}

}  // namespace
}  // namespace kiln::oracle
