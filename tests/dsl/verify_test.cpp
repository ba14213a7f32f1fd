// Each diagnostic: its text and its place.
#include "kiln/dsl/verify.h"

#include <unistd.h>

#include <functional>

#include "kiln/dsl/canonical.h"
#include "random_kernel.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

struct Rule {
  const char* ops;    // the third line of the kernel
  const char* error;  // behind "k.kiln:3:", from the column on
};

// Type rules of infer_types, as the parser reports them.
TEST(TypeRules, EachErrorNamesOpAndTypes) {
  const Rule rules[] = {
      {"%a = add %p, %p", "6: error: add: takes no pointers (operands: ptr<f32>, ptr<f32>)"},
      {"%a = add %t, %f",
       "6: error: add: operands have different shapes; broadcast one of them (operands: tile<[B], f32>, f32)"},
      {"%a = add %f, %h",
       "6: error: add: operands have different element types; cast one of them (operands: f32, f16)"},
      {"%a = add %b, %b", "6: error: add: takes no i1; cast to an int first (operands: i1, i1)"},
      {"%a = add %f", "6: error: add: takes 2 operands, not 1"},
      {"%a = fma %i, %i, %i", "6: error: fma: takes floats only (operands: i32, i32, i32)"},
      {"%a = math %i {fn = exp}", "6: error: math: takes floats only (operands: i32)"},
      {"%a = and %f, %f", "6: error: and: takes ints or i1 only (operands: f32, f32)"},
      {"%a = or %f, %f", "6: error: or: takes ints or i1 only (operands: f32, f32)"},
      {"%a = xor %f, %f", "6: error: xor: takes ints or i1 only (operands: f32, f32)"},
      {"%a = shl %b, %b", "6: error: shl: takes ints only (operands: i1, i1)"},
      {"%a = shr %f, %f", "6: error: shr: takes ints only (operands: f32, f32)"},
      {"%a = cmp %f, %h {pred = lt}",
       "6: error: cmp: operands have different element types; cast one of them (operands: f32, f16)"},
      {"%a = cmp %p, %p {pred = eq}", "6: error: cmp: takes no pointers (operands: ptr<f32>, ptr<f32>)"},
      {"%a = select %i, %f, %f", "6: error: select: the condition must be i1 (operands: i32, f32, f32)"},
      {"%a = select %b, %t, %t",
       "6: error: select: operands have different shapes; broadcast one of them (operands: i1, tile<[B], f32>, "
       "tile<[B], f32>)"},
      {"%a = select %b, %f, %h",
       "6: error: select: operands have different element types; cast one of them (operands: i1, f32, f16)"},
      {"%a = cast %p {to = i64}", "6: error: cast: takes no pointers (operands: ptr<f32>)"},
      {"%a = bitcast %f {to = f16}", "6: error: bitcast: bitcast to f16 changes the width (operands: f32)"},
      {"%a = program_id {axis = 3}", "6: error: program_id: axis 3 is not 0, 1 or 2"},
      {"%a = num_programs {axis = -1}", "6: error: num_programs: axis -1 is not 0, 1 or 2"},
      {"%a = arange {start = 4, end = 4}", "6: error: arange: an extent of 0 is below 1"},
      {"%a = arange {start = 0, end = 4294967296}", "6: error: arange: an extent of 4294967296 is too large"},
      {"%a = splat %f {shape = [1, 1, 1, 1, 1, 1]}", "6: error: splat: rank 6 is above 5 (operands: f32)"},
      {"%a = splat %t {shape = [4]}",
       "6: error: splat: takes a scalar; use broadcast for a tile (operands: tile<[B], f32>)"},
      {"%a = broadcast %t {shape = [1, B]}",
       "6: error: broadcast: keeps the rank; use expand_dims first (operands: tile<[B], f32>)"},
      {"%a = broadcast %t {shape = [2*B]}",
       "6: error: broadcast: axis 0 of extent B cannot become 2*B (operands: tile<[B], f32>)"},
      {"%a = expand_dims %t {axis = 2}", "6: error: expand_dims: axis 2 is outside 0…rank (operands: tile<[B], f32>)"},
      {"%a = permute %t {order = [1]}",
       "6: error: permute: order is not a permutation of the axes (operands: tile<[B], f32>)"},
      {"%a = permute %t {order = []}",
       "6: error: permute: order is not a permutation of the axes (operands: tile<[B], f32>)"},
      {"%a = load %f", "6: error: load: the first operand must be a pointer (operands: f32)"},
      {"%a = load %p, %f", "6: error: load: the mask must be i1 (operands: ptr<f32>, f32)"},
      {"%a = load %p, %b, %h",
       "6: error: load: `other` must have the pointer's element type f32 (operands: ptr<f32>, i1, f16)"},
      {"%a = addptr %p, %f", "6: error: addptr: the offset must be an int (operands: ptr<f32>, f32)"},
      {"%a = addptr %p, %b", "6: error: addptr: the offset must be an int (operands: ptr<f32>, i1)"},
      {"%r = arange {start = 0, end = B} %a = addptr %p, %r",
       "39: error: addptr: pointer and offset have different shapes; broadcast one of them (operands: ptr<f32>, "
       "tile<[B], i32>)"},
      {"store %f, %f", "1: error: store: the first operand must be a pointer (operands: f32, f32)"},
      {"store %p, %t",
       "1: error: store: operands have different shapes; broadcast one of them (operands: ptr<f32>, tile<[B], f32>)"},
      {"store %p, %h",
       "1: error: store: the stored value must have the pointer's element type f32 (operands: ptr<f32>, f16)"},
      {"store %p, %f, %i", "1: error: store: the mask must be i1 (operands: ptr<f32>, f32, i32)"},
      {"%a = dot %t, %t, %t",
       "6: error: dot: takes tiles of rank 2 (operands: tile<[B], f32>, tile<[B], f32>, tile<[B], f32>)"},
      {"%a = dot %w, %v, %w",
       "6: error: dot: a and b have different element types; cast one of them (operands: tile<[B, 8], f32>, tile<[8, "
       "B], "
       "f16>, tile<[B, 8], f32>)"},
      {"%a = dot %w, %w, %w",
       "6: error: dot: the inner extents 8 and B differ (operands: tile<[B, 8], f32>, tile<[B, 8], f32>, tile<[B, 8], "
       "f32>)"},
      {"%u = permute %w {order = [1, 0]} %a = dot %w, %u, %w",
       "39: error: dot: the accumulator must be tile<[B, B], f32> (operands: tile<[B, 8], f32>, tile<[8, B], f32>, "
       "tile<[B, "
       "8], f32>)"},
      {"%c = cast %w {to = i32} %a = dot %c, %c, %c",
       "30: error: dot: int operands must be i8 or u8 (operands: tile<[B, 8], i32>, tile<[B, 8], i32>, tile<[B, 8], "
       "i32>)"},
      {"%a = reduce %t {kind = sum, axis = 1}",
       "6: error: reduce: axis 1 is outside the rank (operands: tile<[B], f32>)"},
      {"%a = reduce %f {kind = sum, axis = 0}", "6: error: reduce: axis 0 is outside the rank (operands: f32)"},
      {"%c = cast %t {to = i1} %a = reduce %c {kind = max, axis = 0}",
       "29: error: reduce: takes no i1; cast to an int first (operands: tile<[B], i1>)"},
      {"for %k = %f to %f step %f { yield }",
       "1: error: for: start, end and step must be scalar ints (operands: f32, f32, f32)"},
      {"for %k = %i to %l step %i { yield }",
       "1: error: for: operands have different element types; cast one of them (operands: i32, i64, i32)"},
      {"assume %f {multiple_of = 2}", "1: error: assume: takes a scalar int or a scalar pointer (operands: f32)"},
      {"assume %i {multiple_of = 0}", "1: error: assume: multiple_of must be 1 or more (operands: i32)"},
  };
  for (const Rule& rule : rules) {
    const std::string text =
        "kernel k(%p: ptr<f32>, %f: f32, %h: f16, %i: i32, %l: i64, %b: i1) { constexpr B = 16\n"
        "%t = splat %f {shape = [B]} %w = splat %f {shape = [B, 8]} %v = splat %h {shape = [8, B]}\n" +
        std::string(rule.ops) + " }";
    EXPECT_EQ(first_line(parse(text, "k.kiln")), "k.kiln:3:" + std::string(rule.error)) << rule.ops;
  }
}

// Breaks a sound kernel in one place and expects one complaint.
template <class Break>
void expect_error(const std::string& text, Break change, const std::string& error) {
  Kernel kernel = parsed(text);
  change(kernel);
  auto result = verify(kernel);
  ASSERT_FALSE(result.ok()) << error;
  EXPECT_EQ(result.error().message, error);
  EXPECT_EQ(result.error().code, ErrorCode::kVerifyFailed);
}

constexpr const char* kSimple =
    "kernel k(%p: ptr<f32>, %x: f32, %n: i32) { constexpr B = 16\n"
    "%a = add %x, %x\n"
    "%t = splat %a {shape = [B]}\n"
    "store %p, %a\n"
    "}";

constexpr const char* kLoop =
    "kernel k(%p: ptr<f32>, %x: f32, %n: i32) {\n"
    "%r = for %k = %n to %n step %n carry (%c = %x) {\n"
    "%d = add %c, %c\n"
    "yield %d }\n"
    "store %p, %r\n"
    "}";

TEST(Verify, Structure) {
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops[0].code = static_cast<OpCode>(200); },
      "k.kiln:2:1: error: an op has an unknown code");
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops[0].operands = {1}; }, "k.kiln:2:1: error: add: takes 2 operands, not 1");
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops[0].attrs = {Attr(int64_t{1})}; },
      "k.kiln:2:1: error: add: takes 0 attributes, not 1");
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops[1].attrs = {Attr(int64_t{1})}; },
      "k.kiln:3:1: error: splat: attribute `shape` has the wrong kind or value");
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops[0].operands[1] = 999; },
      "k.kiln:2:1: error: add: an operand is no value of the kernel");
  expect_error(
      kSimple, [](Kernel& k) { std::swap(k.body.ops[0], k.body.ops[1]); },
      "k.kiln:3:1: error: splat: `%a` is used before it is defined");
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops[1].results = k.body.ops[0].results; },
      "k.kiln:3:1: error: splat: `%a` is defined twice");
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops[1].results = {77}; },
      "k.kiln:3:1: error: splat: a result is no value of the kernel");
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops[0].regions.emplace_back(); }, "k.kiln:2:1: error: add: has 1 regions, not 0");
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops.push_back({OpCode::kYield, {}, {}, {}, {}, {1, 5, 1}}); },
      "k.kiln:5:1: error: yield: only ends a region, and the kernel's body has none");
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops[1].attrs[0] = std::vector<Expr>{Expr::param_ref(2)}; },
      "k.kiln:3:1: error: splat: an attribute mentions a parameter; only constexprs are known at instantiation");
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops[1].attrs[0] = std::vector<Expr>{Expr::constexpr_ref(9)}; },
      "k.kiln:3:1: error: splat: an attribute mentions an unknown constexpr");
}

TEST(Verify, Regions) {
  expect_error(kLoop, [](Kernel& k) { k.body.ops[0].regions.clear(); }, "k.kiln:2:1: error: for: has 0 regions, not 1");
  expect_error(
      kLoop, [](Kernel& k) { k.body.ops[0].regions[0].ops.pop_back(); },
      "k.kiln:3:1: error: a region must end with yield");
  expect_error(
      kLoop,
      [](Kernel& k) {
        auto& ops = k.body.ops[0].regions[0].ops;
        std::swap(ops[0], ops[1]);
      },
      "k.kiln:4:1: error: yield: `%d` is used before it is defined\n"
      "k.kiln:4:1: error: yield: must be the last op of its region\nk.kiln:3:1: error: a region must end with yield");
  expect_error(
      kLoop, [](Kernel& k) { k.body.ops[0].regions[0].args.pop_back(); },
      "k.kiln:2:1: error: for: the region has 1 arguments, not 2\n"
      "k.kiln:3:1: error: add: `%c` is used before it is defined\n"
      "k.kiln:3:1: error: add: `%c` is used before it is defined");
  expect_error(
      kLoop, [](Kernel& k) { k.body.ops[1].operands[1] = k.body.ops[0].regions[0].ops[0].results[0]; },
      "k.kiln:5:1: error: store: `%d` is defined in a region that does not enclose this use");
  expect_error(
      kLoop, [](Kernel& k) { k.body.ops[0].regions[0].ops[1].operands.clear(); },
      "k.kiln:4:1: error: yield: gives 0 values, but the loop carries 1");
  expect_error(
      kLoop, [](Kernel& k) { k.body.ops[0].regions[0].ops[1].operands[0] = k.body.ops[0].regions[0].args[0]; },
      "k.kiln:4:1: error: yield: carried value 0 is i32, but the loop starts it as f32; carried types do not change");
  expect_error(
      kLoop, [](Kernel& k) { k.values[k.body.ops[0].regions[0].args[0]].type = scalar_type(ElementType::kI64); },
      "k.kiln:2:1: error: for: the index is i64, but the start is i32");
}

TEST(Verify, Types) {
  expect_error(
      kSimple, [](Kernel& k) { k.values[k.body.ops[1].results[0]].type.shape[0] = Expr(3); },
      "k.kiln:3:1: error: splat: gives tile<[B], f32>, but the result is tile<[3], f32>");
  expect_error(
      kSimple, [](Kernel& k) { k.body.ops[1].results.clear(); }, "k.kiln:3:1: error: splat: has 0 results, not 1");
  expect_error(
      "kernel k(%p: ptr<f32>) {\n%c = constant {value = 1.0, type = f32}\nstore %p, %c }",
      [](Kernel& k) { k.body.ops[0].attrs[0] = Literal{uint64_t{1} << 40}; },
      "k.kiln:2:1: error: constant: the literal has bits beyond its type");
  expect_error(
      kSimple, [](Kernel& k) { k.values[0].type.element = static_cast<ElementType>(99); },
      "kernel `k`: error: parameter `p` and its value have different types\n"
      "kernel `k`: error: a value has an unknown element type");
}

TEST(Verify, StoresThroughReadOnlyPointers) {
  auto error_of = [](const std::string& body) {
    auto kernel =
        parse("kernel k(%p: ptr<f32> readonly, %q: ptr<f32>, %b: i1, %i: i32, %f: f32) {\n" + body + "\n}", "k.kiln");
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    return first_line(verify(*kernel));
  };
  const std::string wrong = "error: store: writes through the read-only parameter `p`";
  EXPECT_EQ(error_of("store %p, %f"), "k.kiln:2:1: " + wrong);
  EXPECT_EQ(error_of("%a = addptr %p, %i store %a, %f"), "k.kiln:2:20: " + wrong);
  EXPECT_EQ(
      error_of("%a = splat %p {shape = [1]} %v = splat %f {shape = [2]} %c = broadcast %a {shape = [2]} store %c, %v"),
      "k.kiln:2:89: " + wrong);
  EXPECT_EQ(error_of("%s = select %b, %q, %p\nstore %s, %f"), "k.kiln:3:1: " + wrong);
  // The read-only pointer arrives by the second iteration only.
  EXPECT_EQ(error_of("%r, %t = for %k = %i to %i step %i carry (%x = %q, %y = %p) {\nstore %x, %f yield %y, %x }"),
            "k.kiln:3:1: " + wrong);
  EXPECT_EQ(error_of("%r = for %k = %i to %i step %i carry (%x = %p) { yield %x }\nstore %r, %f"),
            "k.kiln:3:1: " + wrong);
  EXPECT_EQ(error_of("%v = load %p store %q, %v"), "");
}

TEST(Verify, Header) {
  expect_error(
      kSimple, [](Kernel& k) { k.name = "no name"; },
      "kernel `no name`: error: a kernel's name is letters, digits, `_` and `.`");
  expect_error(kSimple, [](Kernel& k) { k.params[1].name = "p"; }, "kernel `k`: error: the name `p` is used twice");
  expect_error(kSimple, [](Kernel& k) { k.constexprs[0].name = "x"; }, "kernel `k`: error: the name `x` is used twice");
  expect_error(
      kSimple, [](Kernel& k) { k.constexprs[0].name = ""; }, "kernel `k`: error: a constexpr `` has no usable name");
  expect_error(kSimple, [](Kernel& k) { k.values[3].name = "x"; }, "kernel `k`: error: two values are named `%x`");
  expect_error(
      kSimple, [](Kernel& k) { k.space = {{"B", {}}}; }, "kernel `k`: error: the space axis `B` has no values");
  expect_error(
      kSimple, [](Kernel& k) { k.space = {{"B", {1}}, {"B", {2}}}; }, "kernel `k`: error: the space has two axes `B`");
  expect_error(
      kSimple, [](Kernel& k) { k.params[1].readonly = true; },
      "kernel `k`: error: parameter `x` is `readonly` but not a pointer");
  expect_error(kSimple, [](Kernel& k) { k.params[2].value = 1000; }, "kernel `k`: error: parameter `n` has no value");
  expect_error(
      kSimple, [](Kernel& k) { k.grid[1] = Expr::param_ref(1); },
      "kernel `k`: error: grid axis 1 mentions the parameter `x`, which is not an int");
  expect_error(
      kSimple, [](Kernel& k) { k.grid[1] = Expr::param_ref(0); },
      "kernel `k`: error: grid axis 1 mentions the parameter `p`, which is not an int");
  expect_error(
      kSimple, [](Kernel& k) { k.grid[0] = Expr::param_ref(3); },
      "kernel `k`: error: grid axis 0 mentions an unknown parameter");
  expect_error(kSimple, [](Kernel& k) { k.grid[2] = Expr(0); }, "kernel `k`: error: grid axis 2 is 0");
}

TEST(Verify, ManyErrorsAreListedThenCounted) {
  std::string body;
  for (int i = 0; i < 30; ++i) body += "store %p, %f\n";
  auto result = verify(*parse("kernel k(%p: ptr<f32> readonly, %f: f32) {\n" + body + "}", "k.kiln"));
  ASSERT_FALSE(result.ok());
  const std::string& message = result.error().message;
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 20);
  EXPECT_TRUE(message.ends_with("\n… and 10 more errors")) << message;
}

TEST(Verify, DiagnosticsShowTheSourceLine) {
  const auto path = std::filesystem::temp_directory_path() / ("kiln-verify-" + std::to_string(::getpid()) + ".kiln");
  const std::string text = "kernel k(%p: ptr<f32> readonly, %f: f32) {\n\tstore %p, %f\n}";
  std::ofstream(path) << text;
  auto result = verify(*parse(text, path.string()));
  std::filesystem::remove(path);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message,
            path.string() + ":2:2: error: store: writes through the read-only parameter `p`\n   store %p, %f\n   ^");
}

TEST(Verify, DiagnosticsReadOnlyRegularFiles) {
  Kernel kernel;
  kernel.name = "k";
  kernel.files = {"/dev/zero", "."};
  EXPECT_EQ(diagnostic(kernel, {1, 1, 1}, "m"), "/dev/zero:1:1: error: m");
  EXPECT_EQ(diagnostic(kernel, {2, 1, 1}, "m"), ".:1:1: error: m");
  EXPECT_EQ(diagnostic(kernel, {3, 1, 1}, "m"), "kernel `k`: error: m");
}

TEST(Verify, AnyIndexMayBeWrong) {
  std::mt19937 random(7);
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Kernel kernel = RandomKernel(seed % 50).make();
    std::vector<Op*> ops;
    std::function<void(Region&)> collect = [&](Region& region) {
      for (Op& op : region.ops) {
        ops.push_back(&op);
        for (Region& inner : op.regions) collect(inner);
      }
    };
    collect(kernel.body);
    Op& op = *ops[random() % ops.size()];
    switch (random() % 6) {
      case 0:
        op.code = static_cast<OpCode>(random() % (kOpCount + 2));
        break;
      case 1:
        if (!op.operands.empty())
          op.operands[random() % op.operands.size()] = static_cast<ValueId>(random() % (kernel.values.size() + 2));
        break;
      case 2:
        if (!op.results.empty()) op.results[0] = static_cast<ValueId>(random() % (kernel.values.size() + 2));
        break;
      case 3:
        op.operands.resize(random() % 5);
        break;
      case 4:
        if (!op.regions.empty()) op.regions[0].args.resize(random() % 4);
        break;
      default:
        if (!op.attrs.empty()) op.attrs.pop_back();
    }
    EXPECT_FALSE(print(verify(kernel).ok() ? canonicalise(kernel) : kernel).empty());
  }
}

}  // namespace
}  // namespace kiln::dsl::testing
