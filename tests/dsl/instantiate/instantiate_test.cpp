// Constants in, facts in, contraction: the IR before and after, and each error.
#include "kiln/dsl/instantiate.h"

#include <cstdlib>

#include "kiln/dsl/canonical.h"
#include "random/random_kernel.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

// The instantiated kernel's ops as text, without the header.
std::string body_of(const Result<Kernel>& kernel) {
  if (!kernel) return kernel.error().message;
  EXPECT_TRUE(verify(*kernel).ok()) << verify(*kernel).error().message;
  const std::string text = print(*kernel);
  return text.substr(text.find("\n\n") + 2);
}

TEST(Instantiate, ConstantsGoIn) {
  const Kernel kernel = parsed(
      "kernel k(%p: ptr<f32>, %n: i32) { constexpr B constexpr N = 2 grid [div(n + B - 1, B), N]\n"
      "require {cond = le(B, 64), message = \"B is too large\"}\n"
      "%c = constant {value = B*N, type = f32} %t = splat %c {shape = [B + N]}\n"
      "%s = reduce %t {kind = sum, axis = 0} %d = constant {value = -B, type = i32}\n"
      "%r = for %k = %d to %n step %n carry (%a = %s) {num_stages = N} { %e = add %a, %a yield %e }\n"
      "store %p, %r }");
  auto concrete = instantiate(kernel, {{"B", 32}}, {});
  EXPECT_EQ(body_of(concrete),
            "  %d = constant {value = -32, type = i32} : i32\n"
            "  %c = constant {value = 64.0, type = f32} : f32\n"
            "  %t = splat %c {shape = [34]} : tile<[34], f32>\n"
            "  %s = reduce %t {kind = sum, axis = 0} : f32\n"
            "  %r = for %k = %d to %n step %n carry (%a = %s) {num_stages = 2} : f32 {\n"
            "    %e = add %a, %a : f32\n"
            "    yield %e\n"
            "  }\n"
            "  store %p, %r\n"
            "}\n");
  EXPECT_NE(print(*concrete).find("grid [div(n + 31, 32), 2, 1]"), std::string::npos) << print(*concrete);
  EXPECT_EQ(concrete->constexprs.size(), 2u);
  for (const Op& op : concrete->body.ops) {
    EXPECT_TRUE(op.code != OpCode::kConstant || std::holds_alternative<Literal>(op.attrs[0]));
  }
}

TEST(Instantiate, FactsBecomeConstantsAndAssumes) {
  const Kernel kernel = parsed(
      "kernel k(%p: ptr<f32>, %n: i32, %m: i32, %x: f32) { grid [n + m, m]\n"
      "%a = mul %n, %m %q = addptr %p, %a store %q, %x }");
  auto concrete = instantiate(kernel, {}, {ParamFact::kAlign16, ParamFact::kMultiple16, ParamFact::kOne});
  EXPECT_EQ(body_of(concrete),
            "  assume %p {multiple_of = 16}\n"
            "  assume %n {multiple_of = 16}\n"
            "  %0 = constant {value = 1, type = i32} : i32\n"
            "  %a = mul %n, %0 : i32\n"
            "  %q = addptr %p, %a : ptr<f32>\n"
            "  store %q, %x\n"
            "}\n");
  EXPECT_NE(print(*concrete).find("grid [n + 1, 1, 1]"), std::string::npos) << print(*concrete);
  EXPECT_EQ(concrete->params.size(), 4u);
}

TEST(Instantiate, FactsThatDoNotFitAreErrors) {
  const Kernel kernel = parsed("kernel k(%p: ptr<f32>, %n: i32, %x: f32) { store %p, %x }");
  using enum ParamFact;
  EXPECT_EQ(first_line(instantiate(kernel, {}, {kOne})), "fact one: parameter `p` is not an int");
  EXPECT_EQ(first_line(instantiate(kernel, {}, {kMultiple16})), "fact x16: parameter `p` is not an int");
  EXPECT_EQ(first_line(instantiate(kernel, {}, {kNone, kAlign16})), "fact align16: parameter `n` is not a pointer");
  EXPECT_EQ(first_line(instantiate(kernel, {}, {kNone, kNone, kOne})), "fact one: parameter `x` is not an int");
  EXPECT_EQ(first_line(instantiate(kernel, {}, Facts(4))), "kernel `k` has 3 parameters, but there are 4 facts");
}

std::string config_error(const std::string& ops, const ConstexprValues& values, ErrorCode code) {
  const Kernel kernel =
      parsed("kernel k(%p: ptr<f32>, %x: f32) { constexpr B constexpr N = 2\n" + ops + "\nstore %p, %x }");
  auto result = instantiate(kernel, values, {});
  EXPECT_TRUE(result.ok() || result.error().code == code);
  return first_line(result);
}

TEST(Instantiate, ErrorsNameConfigAndLine) {
  constexpr auto kInput = ErrorCode::kInvalidArgument, kRule = ErrorCode::kVerifyFailed;
  EXPECT_EQ(config_error("", {}, kInput), "kernel `k`: constexpr `B` has no value and no default");
  EXPECT_EQ(config_error("", {{"B", 1}, {"M", 2}}, kInput), "kernel `k` has no constexpr `M`; it has B, N");
  EXPECT_EQ(
      config_error("require {cond = eq(rem(B, 16), 0), message = \"B must be a multiple of 16\"}", {{"B", 17}}, kInput),
      "k.kiln:2:1: error: require: B must be a multiple of 16 (config B=17, N=2)");
  EXPECT_EQ(config_error("require {cond = eq(rem(B, 16), 0), message = \"\"}", {{"B", 32}}, kInput), "");
  EXPECT_EQ(config_error("%t = splat %x {shape = [B]}", {{"B", 0}}, kRule),
            "k.kiln:2:1: error: splat: an extent of 0 is below 1 (operands: f32) (config B=0, N=2)");
  EXPECT_EQ(config_error("%t = arange {start = B, end = N}", {{"B", 5}}, kRule),
            "k.kiln:2:1: error: arange: an extent of -3 is below 1 (config B=5, N=2)");
  EXPECT_EQ(config_error("%t = constant {value = B*100, type = i8}", {{"B", 5}}, kRule),
            "k.kiln:2:1: error: constant: 500 is not a value of i8 (config B=5, N=2)");
  EXPECT_EQ(config_error("%t = constant {value = B*B*B, type = i64}", {{"B", 1 << 30}}, kInput),
            "k.kiln:2:1: error: constant: integer expression overflows (config B=1073741824, N=2)");
  EXPECT_EQ(config_error("%t = splat %x {shape = [B, B]}", {{"B", 1 << 20}}, kRule),
            "k.kiln:2:1: error: splat: tile<[1048576, 1048576], f32> has too many elements (config B=1048576, N=2)");
  EXPECT_EQ(config_error("%i = constant {value = 1, type = i32} for %k = %i to %i step %i {num_stages = B} { yield }",
                         {{"B", 0}}, kRule),
            "k.kiln:2:39: error: for: num_stages must be 1 or more (operands: i32, i32, i32) (config B=0, N=2)");
  EXPECT_EQ(config_error("%i = constant {value = 1, type = i32} assume %i {multiple_of = B}", {{"B", 0}}, kRule),
            "k.kiln:2:39: error: assume: multiple_of must be 1 or more (operands: i32) (config B=0, N=2)");
}

TEST(Instantiate, UnsoundKernelsAreRefused) {
  Kernel kernel = parsed("kernel k(%p: ptr<f32>, %x: f32) {\nstore %p, %x }");
  kernel.body.ops[0].operands[1] = 99;
  EXPECT_EQ(instantiate(kernel, {}, {}).error().code, ErrorCode::kVerifyFailed);
}

TEST(Instantiate, RandomKernelsInstantiateAndStayCanonical) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    auto concrete = instantiate(RandomKernel(seed).make(), {{"S", 3}}, {});
    ASSERT_TRUE(concrete.ok()) << concrete.error().message;
    ASSERT_TRUE(verify(*concrete).ok()) << verify(*concrete).error().message;
    EXPECT_EQ(print(canonicalise(*concrete)), print(*concrete));
    EXPECT_EQ(print(*instantiate(*concrete, {{"S", 3}}, {})), print(*concrete));
  }
}

// Frozen like the golden kernels, and rewritten the same way; a change here is a change of what every backend is given.
TEST(Instantiate, GoldenConfig) {
  Facts facts(6, ParamFact::kNone);
  facts[0] = ParamFact::kAlign16;
  facts[5] = ParamFact::kMultiple16;
  auto concrete = instantiate(golden("matmul"), {{"BM", 32}, {"BK", 16}}, facts);
  ASSERT_TRUE(concrete.ok()) << concrete.error().message;
  const auto path = source_path("tests/golden/instantiated/matmul.kiln");
  if (std::getenv("KILN_UPDATE_GOLDEN")) {
    std::ofstream(path, std::ios::binary) << print(*concrete);
  } else {
    EXPECT_EQ(print(*concrete), read_file(path));
  }
}

TEST(CompleteConstexprs, FillsInDefaults) {
  const Kernel kernel = parsed("kernel k(%p: ptr<f32>, %x: f32) { constexpr B constexpr N = 2\nstore %p, %x }");
  EXPECT_EQ(*complete_constexprs(kernel, {{"B", 4}}), (ConstexprValues{{"B", 4}, {"N", 2}}));
  EXPECT_EQ(*complete_constexprs(kernel, {{"B", 4}, {"N", 7}}), (ConstexprValues{{"B", 4}, {"N", 7}}));
  const Kernel none = parsed("kernel k(%p: ptr<f32>, %x: f32) { store %p, %x }");
  EXPECT_EQ(first_line(complete_constexprs(none, {{"B", 4}})), "kernel `k` has no constexpr `B`; it has none");
}

TEST(EvaluateGrid, ChecksItsLimits) {
  const Expr n = Expr::param_ref(0);
  auto grid = [&](int64_t x, int64_t y, int64_t z) { return evaluate_grid({n, Expr(y), Expr(z)}, {{}, {x}}); };
  EXPECT_EQ(*grid(0x7fffffff, 65535, 1), (std::array<uint32_t, 3>{0x7fffffff, 65535, 1}));
  EXPECT_EQ(*grid(0, 1, 1), (std::array<uint32_t, 3>{0, 1, 1}));
  EXPECT_EQ(first_line(grid(int64_t{1} << 31, 1, 1)), "grid axis 0 is 2147483648; it must be 0 to 2147483647");
  EXPECT_EQ(first_line(grid(1, 65536, 1)), "grid axis 1 is 65536; it must be 0 to 65535");
  EXPECT_EQ(first_line(grid(0, 1, -1)), "grid axis 2 is -1; it must be 0 to 65535");
  EXPECT_EQ(first_line(evaluate_grid({n, Expr(1), Expr(1)}, {})), "grid axis 0: parameter #0 has no value");
}

TEST(EvaluateGrid, NamesTheExpressionAndItsNegativeArguments) {
  const Kernel kernel =
      parsed("kernel k(%p: ptr<f32>, %n: i32, %m: i32, %x: f32) { grid [div(n + 63, 64), m, 1] store %p, %x }");
  auto grid = [&](int64_t n, int64_t m) {
    return evaluate_grid(kernel.grid, {{}, {std::nullopt, n, m, std::nullopt}}, &kernel);
  };
  EXPECT_EQ(*grid(0, 0), (std::array<uint32_t, 3>{0, 0, 1}));
  EXPECT_EQ(first_line(grid(-200, 1)),
            "grid axis 0 is -2: `div(n + 63, 64)` with n = -200; it must be 0 to 2147483647");
  // Rounded up it is nothing; no size is negative all the same.
  EXPECT_EQ(first_line(grid(-5, 1)), "grid axis 0 is 0: `div(n + 63, 64)` with n = -5; no size is negative");
  EXPECT_EQ(first_line(grid(0, -1)), "grid axis 1 is -1: `m` with m = -1; it must be 0 to 65535");
}

// The ops after contraction, as text on one line.
std::string contracted(const std::string& ops, const std::string& element = "f32", const std::string& option = "") {
  const Kernel kernel = parsed("kernel k(%p: ptr<" + element + ">, %a: " + element + ", %b: " + element +
                               ", %c: " + element + ", %n: i32) { " + option + "\n" + ops + " }");
  std::istringstream lines(body_of(instantiate(kernel, {}, {})));
  std::string out;
  for (std::string line; std::getline(lines, line) && line != "}";) {
    line = line.substr(line.find_first_not_of(' '));
    out += (out.empty() ? "" : "; ") + line.substr(0, line.find(" : "));
  }
  return out;
}

TEST(Contract, SingleUseProductsAreFused) {
  EXPECT_EQ(contracted("%m = mul %a, %b %s = add %m, %c store %p, %s"), "%s = fma %a, %b, %c; store %p, %s");
  EXPECT_EQ(contracted("%m = mul %a, %b %s = add %c, %m store %p, %s"), "%s = fma %a, %b, %c; store %p, %s");
  EXPECT_EQ(contracted("%m = mul %a, %b %s = add %c, %m store %p, %s", "f64"), "%s = fma %a, %b, %c; store %p, %s");
}

TEST(Contract, TheLeftProductComesFirst) {
  EXPECT_EQ(contracted("%r = mul %b, %c %l = mul %a, %a %s = add %l, %r store %p, %s"),
            "%r = mul %b, %c; %s = fma %a, %a, %r; store %p, %s");
}

TEST(Contract, SumsOfSumsFuseOneByOne) {
  EXPECT_EQ(contracted("%l = mul %a, %b %r = mul %b, %c %s = add %l, %c %t = add %s, %r store %p, %t"),
            "%s = fma %a, %b, %c; %t = fma %b, %c, %s; store %p, %t");
}

TEST(Contract, OtherProductsStay) {
  const std::string both = "%m = mul %a, %b %s = add %m, %c store %p, %s";
  EXPECT_EQ(contracted(both, "f16"), "%m = mul %a, %b; %s = add %m, %c; store %p, %s");
  EXPECT_EQ(contracted(both, "i32"), "%m = mul %a, %b; %s = add %m, %c; store %p, %s");
  EXPECT_EQ(contracted(both, "f32", "option contract = false"), "%m = mul %a, %b; %s = add %m, %c; store %p, %s");
  EXPECT_EQ(contracted("%m = mul %a, %b %s = add %m, %m store %p, %s"),
            "%m = mul %a, %b; %s = add %m, %m; store %p, %s");
  EXPECT_EQ(contracted("%m = mul %a, %b %s = add %m, %c %t = add %s, %m store %p, %t"),
            "%m = mul %a, %b; %s = add %m, %c; %t = add %s, %m; store %p, %t");
  EXPECT_EQ(contracted("%m = mul %a, %b %s = sub %m, %c store %p, %s"),
            "%m = mul %a, %b; %s = sub %m, %c; store %p, %s");
}

TEST(Contract, DeadUsesDoNotCount) {
  EXPECT_EQ(contracted("%m = mul %a, %b %dead = sub %m, %c %s = add %m, %c store %p, %s"),
            "%s = fma %a, %b, %c; store %p, %s");
}

TEST(Contract, AProductOutsideTheLoopStaysThere) {
  EXPECT_EQ(
      contracted(
          "%m = mul %a, %b %r = for %k = %n to %n step %n carry (%x = %c) { %s = add %x, %m yield %s } store %p, %r"),
      "%m = mul %a, %b; %r = for %k = %n to %n step %n carry (%x = %c); %s = add %x, %m; yield %s; }; store %p, %r");
  EXPECT_EQ(
      contracted(
          "%r = for %k = %n to %n step %n carry (%x = %c) { %m = mul %a, %b %s = add %x, %m yield %s } store %p, %r"),
      "%r = for %k = %n to %n step %n carry (%x = %c); %s = fma %a, %b, %x; yield %s; }; store %p, %r");
}

// Sums of floats in memory have the order of the programs; of ints, and the extremes, no order shows.
TEST(Deterministic, SumsOfFloatsInMemoryAreRefusedByLine) {
  const auto atomic = [](const std::string& type, const std::string& op, bool is_on = true) {
    const Kernel kernel = parsed("kernel k(%p: ptr<" + type + ">, %x: " + type +
                                 ") {\n  grid [1, 1, 1]\n  option deterministic = " + (is_on ? "true" : "false") +
                                 "\n  %one = constant {value = 1, type = i32}\n  " + op + "\n}");
    auto concrete = instantiate(kernel, {}, {});
    return concrete ? std::string() : concrete.error().message;
  };
  const std::string add = "%o = atomic_rmw %p, %x {kind = add}",
                    because = ": the option `deterministic` fixes the order";
  const std::string tile =
      "%d = descriptor %p, %one {block = [1]}\n  %t = splat %x {shape = [1]}\n  reduce_tile %d, %t, %one ";
  for (const std::string type : {"f16", "bf16", "f32", "f64"}) {
    EXPECT_NE(atomic(type, add).find("k.kiln:5:3: error: atomic_rmw" + because), std::string::npos)
        << atomic(type, add);
    EXPECT_EQ(atomic(type, add, false), "");
    EXPECT_EQ(atomic(type, "%o = atomic_rmw %p, %x {kind = max}"), "");
    EXPECT_NE(atomic(type, tile + "{kind = add}").find("k.kiln:7:3: error: reduce_tile" + because), std::string::npos)
        << atomic(type, tile + "{kind = add}");
    EXPECT_EQ(atomic(type, tile + "{kind = min}"), "");
  }
  for (const std::string type : {"i32", "u64"}) {
    EXPECT_EQ(atomic(type, add), "");
    EXPECT_EQ(atomic(type, tile + "{kind = add}"), "");
  }
  // In a branch that the config leaves out there is nothing to refuse.
  const Kernel branch = parsed(
      "kernel k(%p: ptr<f32>, %x: f32) { constexpr B grid [1, 1, 1] option deterministic = true\n"
      "%b = constant {value = B, type = i1} if %b { %o = atomic_rmw %p, %x {kind = add} yield } "
      "else { store %p, %x yield } }");
  EXPECT_TRUE(instantiate(branch, {{"B", 0}}, {}).ok());
  EXPECT_FALSE(instantiate(branch, {{"B", 1}}, {}).ok());
}

}  // namespace
}  // namespace kiln::dsl::testing
