// Each diagnostic: its text and its place.
#include "kiln/dsl/verify.h"

#include <unistd.h>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/source_line.h"
#include "kiln/dsl/walk.h"
#include "random/random_kernel.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

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
      kSimple, [](Kernel& k) { k.body.ops[0].regions.push_back({{}, {{OpCode::kYield, {}, {}, {}, {}, {1, 2, 5}}}}); },
      "k.kiln:2:1: error: add: has 1 regions, not 0");
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
      "k.kiln:2:1: error: for: the region has 1 arguments, not 2 (the index and the carried values)\n"
      "k.kiln:3:1: error: add: `%c` is used before it is defined\n"
      "k.kiln:3:1: error: add: `%c` is used before it is defined");
  expect_error(
      kLoop, [](Kernel& k) { k.body.ops[1].operands[1] = k.body.ops[0].regions[0].ops[0].results[0]; },
      "k.kiln:5:1: error: store: `%d` is defined in a region that does not enclose this use");
  expect_error(
      kLoop, [](Kernel& k) { k.body.ops[0].regions[0].ops[1].operands.clear(); },
      "k.kiln:4:1: error: yield: gives 0 values, but this region of `for` yields 1");
  expect_error(
      kLoop, [](Kernel& k) { k.body.ops[0].regions[0].ops[1].operands[0] = k.body.ops[0].regions[0].args[0]; },
      "k.kiln:4:1: error: yield: value 0 is i32, but this region of `for` yields f32; carried types do not change");
  expect_error(
      kLoop, [](Kernel& k) { k.values[k.body.ops[0].regions[0].args[0]].type = scalar_type(ElementType::kI64); },
      "k.kiln:2:1: error: for: argument 0 of a region is i64, not i32");
}

constexpr const char* kBranch =
    "kernel k(%p: ptr<f32>, %x: f32, %b: i1) {\n"
    "%r = if %b {\n"
    "yield %x } else {\n"
    "%y = neg %x yield %y }\n"
    "store %p, %r\n"
    "}";

constexpr const char* kWhile =
    "kernel k(%p: ptr<f32>, %x: f32, %n: i32) {\n"
    "%r = while carry (%a = %n) {\n"
    "%m = cmp %a, %n {pred = lt} yield %m } do (%c) {\n"
    "%d = add %c, %c yield %d }\n"
    "}";

constexpr const char* kCombine =
    "kernel k(%p: ptr<f32>, %x: f32) {\n"
    "%t = splat %x {shape = [8]}\n"
    "%r = reduce %t {kind = custom, axis = 0} (%l, %h) {\n"
    "%s = add %l, %h\n"
    "yield %s }\n"
    "}";

Op& inner_op(Kernel& k, size_t op, size_t region, size_t inner) { return k.body.ops[op].regions[region].ops[inner]; }

TEST(Verify, Branches) {
  expect_error(
      kBranch, [](Kernel& k) { k.body.ops[0].regions.pop_back(); }, "k.kiln:2:1: error: if: has 1 regions, not 2");
  expect_error(
      kBranch, [](Kernel& k) { k.body.ops[0].regions[1].args = {k.body.ops[0].regions[1].ops[0].results[0]}; },
      "k.kiln:2:1: error: if: the region has 1 arguments, not 0 (nothing)\n"
      "k.kiln:4:1: error: neg: `%y` is defined twice");
  expect_error(
      kBranch, [](Kernel& k) { inner_op(k, 0, 1, 1).operands[0] = k.params[2].value; },
      "k.kiln:4:13: error: yield: value 0 is i1, but this region of `if` yields f32");
  expect_error(
      kBranch, [](Kernel& k) { inner_op(k, 0, 1, 1).operands.clear(); },
      "k.kiln:4:13: error: yield: gives 0 values, but this region of `if` yields 1");
  expect_error(
      kBranch, [](Kernel& k) { k.body.ops[0].results.clear(); },
      "k.kiln:5:1: error: store: `%r` is used before it is defined");
  expect_error(
      kBranch, [](Kernel& k) { k.body.ops[1].operands[1] = inner_op(k, 0, 1, 0).results[0]; },
      "k.kiln:5:1: error: store: `%y` is defined in a region that does not enclose this use");
}

TEST(Verify, WhileLoops) {
  expect_error(
      kWhile, [](Kernel& k) { inner_op(k, 0, 0, 1).operands[0] = k.params[2].value; },
      "k.kiln:3:29: error: yield: value 0 is i32, but this region of `while` yields i1; carried types do not change");
  expect_error(
      kWhile, [](Kernel& k) { inner_op(k, 0, 1, 1).operands[0] = k.params[1].value; },
      "k.kiln:4:17: error: yield: value 0 is f32, but this region of `while` yields i32; carried types do not change");
  expect_error(
      kWhile, [](Kernel& k) { k.values[k.body.ops[0].regions[1].args[0]].type = scalar_type(ElementType::kU32); },
      "k.kiln:2:1: error: while: argument 0 of a region is u32, not i32\n"
      "k.kiln:4:1: error: add: gives u32, but the result is i32");
  // The arguments of one region are not visible in the other.
  expect_error(
      kWhile, [](Kernel& k) { inner_op(k, 0, 1, 0).operands[0] = k.body.ops[0].regions[0].args[0]; },
      "k.kiln:4:1: error: add: `%a` is defined in a region that does not enclose this use");
}

TEST(Verify, CombineRegions) {
  expect_error(
      kCombine, [](Kernel& k) { k.body.ops[1].regions.clear(); }, "k.kiln:3:1: error: reduce: has 0 regions, not 1");
  expect_error(
      kCombine, [](Kernel& k) { k.body.ops[1].attrs[0] = static_cast<int64_t>(ReduceKind::kSum); },
      "k.kiln:3:1: error: reduce: has 1 regions, not 0");
  expect_error(
      kCombine, [](Kernel& k) { inner_op(k, 1, 0, 1).operands[0] = k.params[0].value; },
      "k.kiln:5:1: error: yield: value 0 is ptr<f32>, but this region of `reduce` yields f32");
  expect_error(
      kCombine,
      [](Kernel& k) {
        Op& op = inner_op(k, 1, 0, 0);
        op = {OpCode::kLoad, {k.params[0].value}, op.results, with_default_attrs(OpCode::kLoad, {}), {}, op.loc};
      },
      "k.kiln:4:1: error: load: is not allowed in the region of `reduce`, which holds elementwise ops on scalars");
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
  // Every op that writes, through every op that hands a pointer on.
  EXPECT_EQ(error_of("%s = if %b { yield %q } else { yield %p }\nstore %s, %f"), "k.kiln:3:1: " + wrong);
  EXPECT_EQ(error_of("%s = while carry (%x = %q) { yield %b } do (%y) { yield %p }\nstore %s, %f"),
            "k.kiln:3:1: " + wrong);
  auto writes = [](const std::string& op) { return "error: " + op + ": writes through the read-only parameter `p`"; };
  EXPECT_EQ(error_of("%o = atomic_rmw %p, %f {kind = add}"), "k.kiln:2:1: " + writes("atomic_rmw"));
  EXPECT_EQ(error_of("%o = atomic_cas %p, %f, %f"), "k.kiln:2:1: " + writes("atomic_cas"));
  EXPECT_EQ(error_of("%t = splat %f {shape = [8]} %d = descriptor %p, %i {block = [8]}\nstore_tile %d, %t, %i"),
            "k.kiln:3:1: " + writes("store_tile"));
  EXPECT_EQ(error_of("%t = splat %f {shape = [8]} %d = descriptor %p, %i {block = [8]}\n"
                     "reduce_tile %d, %t, %i {kind = add}"),
            "k.kiln:3:1: " + writes("reduce_tile"));
  EXPECT_EQ(error_of("%a = splat %p {shape = [2]} %c = reshape %a {shape = [1, 2]} %v = splat %f {shape = [1, 2]}\n"
                     "store %c, %v"),
            "k.kiln:3:1: " + wrong);
}

// As many as fit, and one too many, by their names' length.
TEST(Verify, Parameters) {
  const auto with = [](size_t count) {
    std::string text = "kernel many(%p: ptr<f32>";
    for (size_t i = 1; i < count; ++i) text += ", %x" + std::to_string(10000 + i) + ": i32";
    return parse(text + ") {\n  grid [1, 1, 1]\n}\n", "many");
  };
  const auto fine = with(1100), many = with(1200);
  ASSERT_TRUE(fine.ok() && many.ok());
  EXPECT_TRUE(verify(*fine).ok()) << verify(*fine).error().message;
  EXPECT_EQ(
      first_line(verify(*many)),
      "kernel `many`: error: the kernel has 1200 parameters, whose description takes 64795 bytes; an artifact has "
      "room for 60000: pass an array in place of scalars");
}

TEST(Verify, Header) {
  expect_error(
      kSimple, [](Kernel& k) { k.params[1].may_alias = true; },
      "kernel `k`: error: parameter `x` is `may_alias` but not a pointer");
  expect_error(
      kSimple, [](Kernel& k) { k.name = "no name"; },
      "kernel `no name`: error: a kernel's name is letters, digits, `_` and `.`");
  expect_error(
      kSimple, [](Kernel& k) { k.constexprs[0].name = std::string(257, 'n'); },
      "kernel `k`: error: a constexpr `" + std::string(40, 'n') + "` is longer than 256 characters");
  expect_error(
      kSimple, [](Kernel& k) { k.params[1].name = std::string(257, 'n'); },
      "kernel `k`: error: a parameter `" + std::string(40, 'n') + "` is longer than 256 characters");
  expect_error(
      kSimple, [](Kernel& k) { k.name = std::string(257, 'n'); },
      "kernel `" + std::string(257, 'n') + "`: error: a kernel's name has up to 256 characters");
  expect_error(kSimple, [](Kernel& k) { k.params[1].name = "p"; }, "kernel `k`: error: the name `p` is used twice");
  expect_error(kSimple, [](Kernel& k) { k.constexprs[0].name = "x"; }, "kernel `k`: error: the name `x` is used twice");
  expect_error(
      kSimple, [](Kernel& k) { k.constexprs[0].name = ""; }, "kernel `k`: error: a constexpr `` has no usable name");
  expect_error(kSimple, [](Kernel& k) { k.values[3].name = "x"; }, "kernel `k`: error: two values are named `%x`");
  expect_error(
      kSimple, [](Kernel& k) { k.space = {{"B", {}}}; }, "kernel `k`: error: the space axis `B` has no values");
  expect_error(
      kSimple, [](Kernel& k) { k.space = {{"C", {1}}, {"num_warps", {4}}}; },
      "kernel `k`: error: the space axis `C` is neither a constexpr nor num_warps, num_stages, waves_per_eu, "
      "chiplets, warp_specialise, split_k, cluster or stream_k");
  expect_error(
      kSimple, [](Kernel& k) { k.params[1].type.shape = {Expr(4)}; },
      "kernel `k`: error: parameter `x` must be a scalar or a pointer\n"
      "kernel `k`: error: parameter `x` and its value have different types");
  expect_error(
      kSimple, [](Kernel& k) { k.space = {{"B", {1}}, {"B", {2}}}; }, "kernel `k`: error: the space has two axes `B`");
  expect_error(
      kSimple, [](Kernel& k) { k.space = {{"B", {1}}, {"B", {2}, "cpu"}, {"B", {3}, "cpu:x"}, {"B", {2}, "cpu"}}; },
      "kernel `k`: error: the space has two axes `B` for `cpu`");
  expect_error(
      kSimple, [](Kernel& k) { k.space = {{"B", {1}, "tpu"}}; },
      "kernel `k`: error: the space axis `B`: there are no targets `tpu`; there are cpu, cuda, amd");
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

// As a worker says it, which reads no files.
TEST(Verify, MessagesOfOthersGetTheSourceLine) {
  const auto path = std::filesystem::temp_directory_path() / ("kiln-lines-" + std::to_string(::getpid()) + ".kiln");
  std::ofstream(path) << "kernel k() {\n  no such thing\n}";
  Kernel kernel;
  kernel.name = "k";
  kernel.files = {"gone.kiln", path.string()};
  const std::string place = path.string() + ":2:3";
  EXPECT_EQ(with_source_line(kernel, place + ": error: m: 5"), place + ": error: m: 5\n    no such thing\n    ^");
  for (const std::string& stays :
       {place + ": error: m\n  and more", place + ": note: m", place + "x: error: m",
        path.string() + ":4294967296:1: error: m", path.string() + ":9:1: error: m",
        std::string("gone.kiln:1:1: error: m"), "x" + place + ": error: m", path.string() + ":", std::string()}) {
    EXPECT_EQ(with_source_line(kernel, stays), stays);
  }
  std::filesystem::remove(path);
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
    for_each_op(kernel, [&](Op& op) { ops.push_back(&op); });
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
