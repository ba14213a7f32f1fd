// while and if, alone and inside each other, with scalars and tiles; philox.
#include "differential.h"

namespace kiln::test {
namespace {

using dsl::ElementType;

Trial with_out(size_t count, std::vector<int64_t> scalars) {
  Trial run;
  for (int64_t value : scalars) run.arguments.push_back(int_scalar(value));
  run.arguments.push_back(random_buffer(ElementType::kF32, count, 5, false));
  run.arguments.push_back(random_buffer(ElementType::kF32, count, 6));
  return run;
}

TEST(ControlOnCpu, IfGivesScalarsAndTiles) {
  TextKernel kernel("%n: i32, %x: ptr<f32>, %o: ptr<f32>");
  kernel.line("%v = load " + kernel.pointers("%x", {3, 70}));
  kernel.line("%five = constant {value = 5, type = i32}\n  %c = cmp %n, %five {pred = lt}");
  kernel.line(R"(%t, %s = if %c : tile<[3, 70], f32>, i32 {
    %e = math %v {fn = exp}
    %twice = add %n, %n
    yield %e, %twice
  } else {
    %half = neg %v
    yield %half, %five
  })");
  kernel.line("%f = cast %s {to = f32}\n  %w = splat %f {shape = [3, 70]}\n  %r = add %t, %w");
  kernel.line("store " + kernel.pointers("%o", {3, 70}) + ", %r");
  for (int64_t n : {4, 5}) {
    Trial run = with_out(210, {n});
    run.match = {1e-6, 1e-6, false};
    expect_same(kernel.text(), run);
  }
}

// Stores of one branch only; what a load saw before the branch stays what it was.
TEST(ControlOnCpu, StoresInBranches) {
  TextKernel kernel("%n: i32, %x: ptr<f32>, %o: ptr<f32>");
  const std::string x = kernel.pointers("%x", {100});
  kernel.line("%v = load " + x);
  kernel.line("%zero = constant {value = 0, type = i32}\n  %c = cmp %n, %zero {pred = gt}");
  kernel.line("if %c {\n    %d = add %v, %v\n    store " + x + ", %d\n    yield\n  } else {\n    yield\n  }");
  kernel.line("store " + kernel.pointers("%o", {100}) + ", %v");
  for (int64_t n : {0, 1}) expect_same(kernel.text(), with_out(100, {n}));
}

// Collatz steps: a loop whose length only the data knows, a tile that grows beside it.
TEST(ControlOnCpu, WhileCarriesScalarsAndTiles) {
  TextKernel kernel("%n: i32, %x: ptr<f32>, %o: ptr<f32>");
  kernel.line("%v = load " + kernel.pointers("%x", {37}));
  kernel.line("%zero = constant {value = 0, type = i32}\n  %one = constant {value = 1, type = i32}");
  kernel.line("%two = constant {value = 2, type = i32}\n  %three = constant {value = 3, type = i32}");
  kernel.line(R"(%m, %k, %t = while carry (%a = %n, %b = %zero, %u = %v) : i32, i32, tile<[37], f32> {
    %more = cmp %a, %one {pred = gt}
    yield %more
  } do (%a2, %b2, %u2) {
    %bit = rem %a2, %two
    %odd = cmp %bit, %one {pred = eq}
    %next = if %odd : i32 {
      %p = mul %a2, %three
      %q = add %p, %one
      yield %q
    } else {
      %h = div %a2, %two
      yield %h
    }
    %b3 = add %b2, %one
    %f = cast %next {to = f32}
    %g = splat %f {shape = [37]}
    %u3 = add %u2, %g
    yield %next, %b3, %u3
  })");
  kernel.line("%steps = cast %k {to = f32}\n  %w = splat %steps {shape = [37]}\n  %r = add %t, %w");
  kernel.line("store " + kernel.pointers("%o", {37}) + ", %r");
  for (int64_t n : {0, 1, 6, 27}) expect_same(kernel.text(), with_out(37, {n}));
}

// Carried tiles that change places: each yield reads the other's old value.
TEST(ControlOnCpu, CarriedTilesChangePlaces) {
  TextKernel kernel("%n: i32, %x: ptr<f32>, %o: ptr<f32>");
  kernel.line("%v = load " + kernel.pointers("%x", {2, 33}) + "\n  %w = neg %v");
  kernel.line("%zero = constant {value = 0, type = i32}\n  %one = constant {value = 1, type = i32}");
  kernel.line(R"(%k, %a, %b = while carry (%i = %zero, %p = %v, %q = %w) : i32, tile<[2, 33], f32>, tile<[2, 33], f32> {
    %more = cmp %i, %n {pred = lt}
    yield %more
  } do (%i2, %p2, %q2) {
    %i3 = add %i2, %one
    %s = add %p2, %q2
    %t = add %s, %p2
    yield %i3, %q2, %t
  })");
  kernel.line("%r = sub %a, %b");
  kernel.line("store " + kernel.pointers("%o", {2, 33}) + ", %r");
  for (int64_t n : {0, 1, 4}) expect_same(kernel.text(), with_out(66, {n}));
}

// A tile that begins with one element everywhere has no place in the first turn: none, one or more of them, one tile
// that needs the old value of the other, a place that is read by other than elementwise ops.
TEST(ControlOnCpu, CarriedTilesBeginWithOneElement) {
  for (const char* body : {"%s = add %a, %v\n    %t = mul %b, %b", "%s = add %b, %v\n    %t = mul %a, %w",
                           "%s = add %a, %v\n    %t = select %c, %a, %b",
                           "%r = sub %w, %v\n    %s = max %a, %r\n"
                           "    %m = reduce %b {kind = sum, axis = 0}\n    %n1 = splat %m {shape = [75]}\n"
                           "    %t = add %n1, %v"}) {
    SCOPED_TRACE(body);
    TextKernel kernel("%n: i32, %first: i32, %x: ptr<f32>, %o: ptr<f32>");
    kernel.line("%v = load " + kernel.pointers("%x", {75}));
    kernel.line("%zero = constant {value = 0, type = i32}\n  %one = constant {value = 1, type = i32}");
    kernel.line("%f = cast %first {to = f32}\n  %w = splat %f {shape = [75]}\n  %c = cmp %v, %w {pred = lt}");
    kernel.line(std::string("%p, %q = for %i = %zero to %n step %one carry (%a = %w, %b = %w) : tile<[75], f32>, "
                            "tile<[75], f32> {\n    ") +
                body + "\n    yield %s, %t\n  }");
    kernel.line("%y = sub %p, %q\n  store " + kernel.pointers("%o", {75}) + ", %y");
    for (const int64_t turns : {-1, 0, 1, 2, 3}) {
      Trial run;
      run.arguments = {int_scalar(turns), int_scalar(3), random_buffer(ElementType::kF32, 75, 5, false),
                       random_buffer(ElementType::kF32, 75, 6)};
      run.match = {1e-5, 1e-5, true};
      expect_same(kernel.text(), run);
    }
  }
}

TEST(ControlOnCpu, PhiloxOfTilesAndScalars) {
  TextKernel kernel("%seed: u64, %base: u64, %o: ptr<u32>");
  const std::string lane = kernel.op("cast " + kernel.index({77}) + " {to = u64}");
  kernel.line("%s = splat %seed {shape = [77]}\n  %b = splat %base {shape = [77]}\n  %off = add %b, " + lane);
  kernel.line("%w0, %w1, %w2, %w3 = philox %s, %off");
  for (int word = 0; word < 4; ++word) {
    kernel.line("store " + kernel.pointers("%o", {77}, 77 * word) + ", %w" + std::to_string(word));
  }
  kernel.line("%s0, %s1, %s2, %s3 = philox %seed, %base");
  kernel.line("%d = constant {value = 308, type = i32}\n  %p = addptr %o, %d\n  %y = xor %s0, %s3\n  store %p, %y");
  for (uint64_t seed : {uint64_t{0}, uint64_t{42}, ~uint64_t{0}}) {
    Trial run;
    run.arguments = {scalar_bits(seed), scalar_bits(0xfffffff0), random_buffer(ElementType::kU32, 309, 1)};
    expect_same(kernel.text(), run);
  }
}

}  // namespace
}  // namespace kiln::test
