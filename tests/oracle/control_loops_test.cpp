// for, while and if: which iterations run, and what is carried.
#include "reference/inputs.h"
#include "reference/ints.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

using reference::Wide;

// What a loop did: how many iterations, and a hash of its indices in order.
struct Trips {
  Bits count = 0, hash = 1;
  void add(Bits index) {
    ++count;
    hash = hash * 31 + index;
  }
  bool operator==(const Trips&) const = default;
};

std::string loop_text(const std::string& bounds) {
  return bounds + R"(  %count0 = constant {value = 0, type = u64}
  %hash0 = constant {value = 1, type = u64}
  %count, %hash = for %i = %lo to %hi step %st carry (%c = %count0, %h = %hash0) {
    %one = constant {value = 1, type = u64}
    %prime = constant {value = 31, type = u64}
    %w = cast %i {to = u64}
    %next = add %c, %one
    %m = mul %h, %prime
    %n = add %m, %w
    yield %next, %n
  }
)";
}

// With the bounds as parameters and as constants, which instantiation may fold.
void check_loop(Type type, Wide low, Wide high, Wide step) {
  Trips expected;
  for (Wide i = low; i < high; i += step) expected.add(static_cast<Bits>(i));  // sign-extended as cast does
  const std::string t = type_name(type), what = t + " " + std::to_string(static_cast<int64_t>(low)) + " to " +
                                                std::to_string(static_cast<int64_t>(high)) + " step " +
                                                std::to_string(static_cast<int64_t>(step));
  const std::string stores = "  store %a, %count\n  store %b, %hash\n}";
  const Buffer word = {Type::kU64, {0}};
  const auto at_launch = run("kernel k(%lo: " + t + ", %hi: " + t + ", %st: " + t +
                                 ", %a: ptr<u64>, %b: ptr<u64>) {\n" + loop_text("") + stores,
                             {{type, {reference::wrap(type, low)}, true},
                              {type, {reference::wrap(type, high)}, true},
                              {type, {reference::wrap(type, step)}, true},
                              word,
                              word});
  EXPECT_EQ((Trips{at_launch[3].elements[0], at_launch[4].elements[0]}), expected) << what;
  std::string constants;
  for (const auto& [name, value] : {std::pair{"%lo", low}, {"%hi", high}, {"%st", step}}) {
    // u64 bounds above INT64_MAX are written as bits.
    constants +=
        std::string("  ") + name + " = constant {value = " +
        (value > INT64_MAX ? "0x" + hex({static_cast<Bits>(value)}) : std::to_string(static_cast<int64_t>(value))) +
        ", type = " + t + "}\n";
  }
  const auto known = run("kernel k(%a: ptr<u64>, %b: ptr<u64>) {\n" + loop_text(constants) + stores, {word, word});
  EXPECT_EQ((Trips{known[0].elements[0], known[1].elements[0]}), expected) << what << " (constants)";
}

TEST(ControlFor, RunsForStartPlusStepsBelowEnd) {
  for (const Type type : reference::kIntTypes) {
    for (const Wide step : {1, 2, 3, 7, 100}) {
      for (const auto& [low, high] : {std::pair<Wide, Wide>{0, 0}, {0, 1}, {0, 7}, {3, 17}, {5, 5}, {9, 2}, {0, 100}}) {
        check_loop(type, low, high, step);
      }
      if (!reference::is_signed(type)) continue;
      for (const auto& [low, high] : {std::pair<Wide, Wide>{-7, 0}, {-9, -2}, {-3, 4}, {0, -5}, {-1, -1}, {-1, 0}}) {
        check_loop(type, low, high, step);
      }
    }
  }
}

TEST(ControlFor, EndsAtTheTopOfItsTypeWithoutWrappingAround) {
  for (const Type type : reference::kIntTypes) {
    const Wide top = reference::int_max(type), bottom = reference::int_min(type);
    for (const Wide step : {Wide{1}, Wide{2}, Wide{5}, Wide{100}, top}) {
      check_loop(type, top - 6, top, step);
      check_loop(type, top - 1, top, step);
      check_loop(type, top, top, step);
      check_loop(type, bottom, bottom + 6, step);
      check_loop(type, top, bottom, step);
    }
    check_loop(type, 0, top, top / 2);
    // The whole range in few steps: high - low is beyond the type where it is signed.
    check_loop(type, bottom, top, top / 3);
  }
}

TEST(ControlFor, U32AndU64BoundsAboveTheSignedRange) {
  check_loop(Type::kU32, 0x7ffffffe, 0x80000003, 1);
  check_loop(Type::kU32, 0xfffffff0, 0xffffffff, 3);
  check_loop(Type::kU64, (Wide{1} << 63) - 2, (Wide{1} << 63) + 3, 1);
  check_loop(Type::kU64, 5, (Wide{1} << 63) + 7, Wide{1} << 62);
}

TEST(ControlFor, ACarriedPairMaySwap) {
  for (int64_t trips = 0; trips < 5; ++trips) {
    const auto ran = run(R"(kernel k(%n: i32, %a: ptr<i32>, %b: ptr<i32>) {
  %lo = constant {value = 0, type = i32}
  %st = constant {value = 1, type = i32}
  %x = load %a
  %y = load %b
  %p, %q = for %i = %lo to %n step %st carry (%l = %x, %r = %y) {
    yield %r, %l
  }
  store %a, %p
  store %b, %q
})",
                         {{Type::kI32, {static_cast<Bits>(trips)}, true}, {Type::kI32, {11}}, {Type::kI32, {22}}});
    EXPECT_EQ(ran[1].elements[0], trips % 2 == 0 ? 11u : 22u);
    EXPECT_EQ(ran[2].elements[0], trips % 2 == 0 ? 22u : 11u);
  }
}

TEST(ControlFor, FibonacciOfTilesCarriesThroughNestedLoops) {
  // The inner loop runs i times and reads what the outer one carries.
  const Input x = random_input(Type::kU32, {2, 3}, 1), y = random_input(Type::kU32, {2, 3}, 2);
  const Ran ran = run_tiles(R"(%lo = constant {value = 0, type = i32}
%st = constant {value = 1, type = i32}
%hi = constant {value = 5, type = i32}
%z0, %z1 = for %i = %lo to %hi step %st carry (%a = %x0, %b = %x1) {
  %c, %d = for %j = %lo to %i step %st carry (%e = %a, %f = %b) {
    %s = add %e, %f
    yield %f, %s
  }
  %t = xor %c, %a
  yield %d, %t
})",
                            {x, y}, {{Type::kU32, {2, 3}}, {Type::kU32, {2, 3}}});
  ASSERT_EQ(ran.error, "");
  for (size_t lane = 0; lane < 6; ++lane) {
    auto a = static_cast<uint32_t>(x.tile.data[lane]), b = static_cast<uint32_t>(y.tile.data[lane]);
    for (int i = 0; i < 5; ++i) {
      uint32_t e = a, f = b;
      for (int j = 0; j < i; ++j) {
        const uint32_t s = e + f;
        e = f, f = s;
      }
      const uint32_t t = e ^ a;
      a = f, b = t;
    }
    EXPECT_EQ(ran.out[0].data[lane], a);
    EXPECT_EQ(ran.out[1].data[lane], b);
  }
}

TEST(ControlFor, CarriesPointers) {
  // Walks along memory by a pointer that moves.
  const auto ran = run(R"(kernel k(%p: ptr<i32>, %n: i32, %o: ptr<i32>) {
  %lo = constant {value = 0, type = i32}
  %one = constant {value = 1, type = i32}
  %end, %sum = for %i = %lo to %n step %one carry (%q = %p, %s = %lo) {
    %x = load %q
    %t = add %s, %x
    %next = addptr %q, %one
    yield %next, %t
  }
  store %o, %sum
})",
                       {{Type::kI32, {1, 20, 300, 4000}}, {Type::kI32, {3}, true}, {Type::kI32, {0}}});
  EXPECT_EQ(ran[2].elements[0], 321u);
}

TEST(ControlFor, AStepBelow1IsReported) {
  for (const Bits step : {Bits{0}, Bits{0xffffffff}}) {
    std::vector<Buffer> buffers = {{Type::kI32, {step}, true}, {Type::kI32, {0}}};
    const std::string error = try_run(instantiated(R"(kernel k(%st: i32, %o: ptr<i32>) {
  %lo = constant {value = 0, type = i32}
  for %i = %lo to %st step %st {
    store %o, %i
    yield
  }
})"),
                                      buffers);
    EXPECT_NE(error.find("k.kiln:3"), std::string::npos) << error;
    EXPECT_NE(error.find("step"), std::string::npos) << error;
  }
}

TEST(ControlWhile, GoesOnAsLongAsTheConditionHoldsAndGivesTheValuesWhereItDidNot) {
  // Collatz: steps until 1, for each start.
  for (const Bits start : {1, 2, 3, 7, 27, 97}) {
    const auto ran = run(R"(kernel k(%n: i64, %o: ptr<i64>, %last: ptr<i64>) {
  %zero = constant {value = 0, type = i64}
  %one = constant {value = 1, type = i64}
  %r, %steps = while carry (%x = %n, %s = %zero) {
    %more = cmp %x, %one {pred = ne}
    yield %more
  } do (%y, %t) {
    %two = constant {value = 2, type = i64}
    %three = constant {value = 3, type = i64}
    %odd = and %y, %one
    %is = cmp %odd, %zero {pred = ne}
    %next = if %is : i64 {
      %a = mul %y, %three
      %b = add %a, %one
      yield %b
    } else {
      %c = div %y, %two
      yield %c
    }
    %u = add %t, %one
    yield %next, %u
  }
  store %o, %steps
  store %last, %r
})",
                         {{Type::kI64, {start}, true}, {Type::kI64, {0}}, {Type::kI64, {0}}});
    Bits steps = 0;
    for (Bits n = start; n != 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1) ++steps;
    EXPECT_EQ(ran[1].elements[0], steps) << start;
    EXPECT_EQ(ran[2].elements[0], 1u);
  }
}

TEST(ControlWhile, CarriedValuesMaySwapAndNoTripGivesTheInits) {
  for (Bits trips = 0; trips < 4; ++trips) {
    const auto ran = run(R"(kernel k(%n: i32, %a: ptr<i32>, %b: ptr<i32>) {
  %zero = constant {value = 0, type = i32}
  %x = load %a
  %y = load %b
  %i, %p, %q = while carry (%c = %zero, %l = %x, %r = %y) {
    %more = cmp %c, %n {pred = lt}
    yield %more
  } do (%d, %s, %t) {
    %one = constant {value = 1, type = i32}
    %next = add %d, %one
    yield %next, %t, %s
  }
  store %a, %p
  store %b, %q
})",
                         {{Type::kI32, {trips}, true}, {Type::kI32, {5}}, {Type::kI32, {6}}});
    EXPECT_EQ(ran[1].elements[0], trips % 2 == 0 ? 5u : 6u);
    EXPECT_EQ(ran[2].elements[0], trips % 2 == 0 ? 6u : 5u);
  }
}

TEST(ControlIf, RunsOneOfItsRegionsOnly) {
  for (const Bits condition : {0, 1}) {
    // Each region stores where only it may, and loads what the other must not: the untaken one would be a fault.
    const auto ran = run(R"(kernel k(%c: i1, %far: i64, %a: ptr<i32>, %b: ptr<i32>, %o: ptr<i32>) {
  %r, %s = if %c : i32, i32 {
    %one = constant {value = 1, type = i32}
    store %a, %one
    %x = load %a
    yield %x, %one
  } else {
    %two = constant {value = 2, type = i32}
    %p = addptr %b, %far
    store %p, %two
    yield %two, %two
  }
  %sum = add %r, %s
  store %o, %sum
})",
                         {{Type::kI1, {condition}, true},
                          {Type::kI64, {condition != 0 ? Bits{1} << 40 : 0}, true},
                          {Type::kI32, {0}},
                          {Type::kI32, {0}},
                          {Type::kI32, {0}}});
    EXPECT_EQ(ran[2].elements[0], condition);
    EXPECT_EQ(ran[3].elements[0], condition != 0 ? 0u : 2u);
    EXPECT_EQ(ran[4].elements[0], condition != 0 ? 2u : 4u);
  }
}

}  // namespace
}  // namespace kiln::oracle
