// The common subexpression pass as text, before and after; and the errors of the compiler.
#include "cse.h"
#include "differential.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"

namespace kiln::test {
namespace {

std::string after_cse(const std::string& text) {
  auto concrete = dsl::instantiate(parse_kernel(text), {}, {});
  EXPECT_TRUE(concrete.ok()) << concrete.error().message;
  return concrete ? dsl::print(codegen::eliminate_common_subexpressions(*concrete)) : "";
}

// What the pass gives must be what instantiating the expected kernel gives.
void expect_cse(const std::string& before, const std::string& after) {
  auto wanted = dsl::instantiate(parse_kernel(after), {}, {});
  ASSERT_TRUE(wanted.ok()) << wanted.error().message;
  EXPECT_EQ(after_cse(before), dsl::print(*wanted));
}

TEST(CommonSubexpressions, EqualOpsBecomeOne) {
  expect_cse(R"(kernel k(%x: ptr<f32>) {
  %i = arange {start = 0, end = 8}
  %j = arange {start = 0, end = 8}
  %p = splat %x {shape = [8]}
  %q = splat %x {shape = [8]}
  %r = addptr %p, %i
  %s = addptr %q, %j
  %v = load %r
  store %s, %v
})",
             R"(kernel k(%x: ptr<f32>) {
  %j = arange {start = 0, end = 8}
  %q = splat %x {shape = [8]}
  %s = addptr %q, %j
  %v = load %s
  store %s, %v
})");
}

TEST(CommonSubexpressions, LoadsAndAttributesKeepApart) {
  const std::string text = R"(kernel k(%x: ptr<f32>) {
  %i = arange {start = 0, end = 8}
  %j = arange {start = 1, end = 9}
  %p = splat %x {shape = [8]}
  %r = addptr %p, %i
  %s = addptr %p, %j
  %v = load %r
  store %s, %v
  %w = load %r
  store %s, %w
})";
  expect_cse(text, text);
}

TEST(CommonSubexpressions, RegionsSeeWhatIsOutside) {
  expect_cse(R"(kernel k(%x: ptr<f32>, %n: i32) {
  %c = constant {value = 1, type = i32}
  %a = add %n, %c
  %q = addptr %x, %a
  %w = load %q
  store %q, %w
  for %k = %c to %n step %c {
    %d = constant {value = 1, type = i32}
    %b = add %n, %d
    %p = addptr %x, %b
    %v = load %p
    store %p, %v
    yield
  }
})",
             R"(kernel k(%x: ptr<f32>, %n: i32) {
  %c = constant {value = 1, type = i32}
  %a = add %n, %c
  %q = addptr %x, %a
  %w = load %q
  store %q, %w
  for %k = %c to %n step %c {
    %v = load %q
    store %q, %v
    yield
  }
})");
}

constexpr char kCopy[] = "kernel k(%x: ptr<f32>) {\n  %v = load %x\n  store %x, %v\n}\n";

void expect_error(const std::string& text, const std::string& target, ErrorCode code,
                  const std::vector<std::string>& parts) {
  auto artifact = compile(parse_kernel(text), {}, {}, target);
  ASSERT_FALSE(artifact.ok()) << text;
  EXPECT_EQ(artifact.error().code, code) << artifact.error().message;
  for (const std::string& part : parts) {
    EXPECT_NE(artifact.error().message.find(part), std::string::npos)
        << part << " is not in: " << artifact.error().message;
  }
}

TEST(CompileErrors, UnknownTargets) {
  expect_error(kCopy, "nvptx:sm_90", ErrorCode::kInvalidArgument, {"nvptx:sm_90", "cpu"});
  expect_error(kCopy, "cpu:pentium-9", ErrorCode::kInvalidArgument, {"pentium-9"});
  expect_error(kCopy, "cpu:", ErrorCode::kInvalidArgument, {"CPU"});
}

TEST(CompileErrors, EightBitFloats) {
  const std::string load = "kernel k(%x: ptr<f8e4m3>, %y: ptr<f32>) {\n  %v = load %x\n";
  for (const auto& [op, name] : {std::pair<std::string, std::string>{"%w = add %v, %v", "add"},
                                 {"%w = neg %v", "neg"},
                                 {"%w = max %v, %v", "max"},
                                 {"%w = math %v {fn = exp}", "math"},
                                 {"%w = fma %v, %v, %v", "fma"}}) {
    expect_error(load + "  " + op + "\n  store %x, %w\n}\n", "", ErrorCode::kCompileFailed,
                 {"test.kiln:3", name, "f8"});
  }
  expect_error(load + "  %w = cast %v {to = f32}\n  store %y, %w\n}\n", "", ErrorCode::kCompileFailed,
               {"test.kiln:3", "cast", "f8"});
  expect_error(
      "kernel k(%x: ptr<f8e5m2>, %y: ptr<f32>) {\n  %v = load %y\n  %w = cast %v {to = f8e5m2}\n  store %x, %w\n}\n",
      "", ErrorCode::kCompileFailed, {"test.kiln:3", "cast", "f8"});
  expect_error(load + "  %w = cmp %v, %v {pred = lt}\n  store %x, %v, %w\n}\n", "", ErrorCode::kCompileFailed,
               {"test.kiln:3", "cmp", "f8"});
  expect_error(load + "  %s = splat %v {shape = [8]}\n  %w = reduce %s {kind = max, axis = 0}\n  store %x, %w\n}\n", "",
               ErrorCode::kCompileFailed, {"test.kiln:4", "reduce", "f8"});
  expect_error(load +
                   "  %s = splat %v {shape = [8, 8]}\n  %z = constant {value = 0, type = f32}\n  %a = splat %z {shape "
                   "= [8, 8]}\n"
                   "  %d = dot %s, %s, %a\n  %r = reduce %d {kind = max, axis = 0}\n  %w = reduce %r {kind = max, axis "
                   "= 0}\n  store %y, %w\n}\n",
               "", ErrorCode::kCompileFailed, {"test.kiln:6", "dot", "f8"});
  // Moving them is fine.
  auto artifact = compile(parse_kernel(load + "  store %x, %v\n}\n"), {});
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
}

}  // namespace
}  // namespace kiln::test
