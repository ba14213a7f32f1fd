// The library's elementwise functions, integers and orders.
#include <cmath>

#include "reference/cast.h"
#include "reference/floats.h"
#include "reference/inputs.h"
#include "reference/ints.h"
#include "reference/lines.h"
#include "reference/math.h"
#include "reference/order.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

namespace lang = dsl::lang;
using lang::Value;
using Values = std::vector<Value>;
using BitLine = std::vector<Bits>;

TEST(LibraryLanes, ActivationsOfOrdinaryAndExtremeNumbers) {
  struct Activation {
    const char* name;
    Value (*function)(lang::Operand);
    long double (*expected)(long double);
  };
  const Activation activations[] = {
      {"sigmoid", lang::sigmoid, reference::sigmoid},
      {"silu", lang::silu, reference::silu},
      {"gelu_erf", lang::gelu_erf, reference::gelu_erf},
      {"gelu_tanh", [](lang::Operand x) { return lang::gelu_tanh(std::move(x)); }, reference::gelu_tanh},
      {"relu", lang::relu, reference::relu},
      {"softplus", lang::softplus, reference::softplus},
  };
  for (const Activation& activation : activations) {
    for (const Type type : {Type::kF32, Type::kF16, Type::kBF16, Type::kF64}) {
      Input x = random_input(type, {700}, 1);
      // And numbers spread over the tails.
      for (int i = 0; i < 300; ++i) x.tile.data[static_cast<size_t>(i)] = reference::element_of(type, (i - 150) * 0.7L);
      reference::Array<long double> expected = reals(x);
      for (long double& value : expected.data) value = activation.expected(value);
      const Tile out =
          run_traced([&](const Values& v) { return Values{activation.function(v[0])}; }, {x}, {{type, {700}}})[0];
      expect_close(type, out, expected, activation.name);
    }
  }
}

TEST(LibraryLanes, ClampPropagatesNanAndKeepsItsBounds) {
  for (const Type type : reference::kAllTypes) {
    if (type == Type::kI1) continue;
    Input x = random_input(type, {200}, 2);
    without_f8_infinities(type, x.tile.data);
    const Bits low = reference::element_of(type, reference::is_signed(type) ? -1 : 1),
               high = reference::element_of(type, 2);
    const Input a = {type, {{}, {low}}}, b = {type, {{}, {high}}};
    const Tile out = run_traced([](const Values& v) { return Values{lang::clamp(v[0], v[1], v[2])}; }, {x, a, b},
                                {{type, {200}}})[0];
    Tile expected = x.tile;
    for (Bits& bits : expected.data) {
      const bool is_float = reference::is_float(type);
      bits = is_float ? reference::floats::min(type, reference::floats::max(type, bits, low), high)
                      : reference::ints::min(type, reference::ints::max(type, bits, low), high);
    }
    expect_same(type, out, expected, "clamp", true);
  }
}

TEST(LibraryLanes, WhereFlipInterleaveAndZerosLikeOfAllTypes) {
  for (const Type type : reference::kAllTypes) {
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 1, 3}}) {
      const Input a = random_input(type, shape, 1), b = random_input(type, shape, 2),
                  c = random_input(Type::kI1, shape, 3);
      const int last = static_cast<int>(shape.size()) - 1;
      const Shape twice = reference::with_extent(shape, shape.size() - 1, 2 * shape.back());
      const auto out = run_traced(
          [&](const Values& v) {
            return Values{lang::where(v[2], v[0], v[1]), lang::flip(v[0], 0), lang::flip(v[0], -1),
                          lang::interleave(v[0], v[1])};
          },
          {a, b, c}, {{type, shape}, {type, shape}, {type, shape}, {type, twice}});
      Tile chosen = a.tile;
      for (size_t i = 0; i < chosen.data.size(); ++i)
        chosen.data[i] = c.tile.data[i] != 0 ? a.tile.data[i] : b.tile.data[i];
      expect_same(type, out[0], chosen, "where");
      expect_same(type, out[1], reference::flip(a.tile, 0), "flip");
      expect_same(type, out[2], reference::flip(a.tile, static_cast<size_t>(last)), "flip of the last axis");
      expect_same(type, out[3], reference::interleave(a.tile, b.tile), "interleave");
      const Tile zeros =
          run_traced([](const Values& v) { return Values{lang::zeros_like(v[0])}; }, {a}, {{type, shape}})[0];
      expect_same(type, zeros, {shape, BitLine(chosen.data.size())}, "zeros_like");
    }
  }
}

TEST(LibraryLanes, FloorDivAndFloorModRoundDownAndZeroDivisorsAreDefined) {
  for (const Type type : reference::kIntTypes) {
    Input a = random_input(type, {600}, 1), b = random_input(type, {600}, 2);
    const auto small = reference::random_ints(type, 300, reference::is_signed(type) ? -6 : 0, 6, 3);
    for (size_t i = 0; i < 300; ++i) b.tile.data[2 * i] = small[i];
    const auto out =
        run_traced([](const Values& v) { return Values{lang::floor_div(v[0], v[1]), lang::floor_mod(v[0], v[1])}; },
                   {a, b}, {{type, {600}}, {type, {600}}});
    for (size_t i = 0; i < 600; ++i) {
      const Bits x = a.tile.data[i], y = b.tile.data[i];
      ASSERT_EQ(out[0].data[i], reference::ints::floor_div(type, x, y)) << type_name(type) << " " << hex({x, y});
      ASSERT_EQ(out[1].data[i], reference::ints::floor_mod(type, x, y)) << type_name(type) << " " << hex({x, y});
    }
  }
}

TEST(LibraryLanes, CdivRoundsUp) {
  for (const Type type : reference::kIntTypes) {
    const Input a = {type, {{100}, reference::random_ints(type, 100, 0, 60, 1)}},
                b = {type, {{100}, reference::random_ints(type, 100, 1, 60, 2)}};
    const Tile out =
        run_traced([](const Values& v) { return Values{lang::cdiv(v[0], v[1])}; }, {a, b}, {{type, {100}}})[0];
    for (size_t i = 0; i < 100; ++i) {
      const Bits whole = a.tile.data[i] / b.tile.data[i];
      ASSERT_EQ(out.data[i], whole + (whole * b.tile.data[i] < a.tile.data[i])) << type_name(type);
    }
  }
}

TEST(LibraryLanes, CdivRoundsUpOverTheWholeRangeOfItsType) {
  for (const Type type : reference::kIntTypes) {
    const reference::Wide top = reference::int_max(type);
    Input x = {type, {{3}, {}}}, y = x;
    for (const auto& [left, right] : {std::pair{top, reference::Wide{2}}, {top, top}, {top - 1, top}}) {
      x.tile.data.push_back(reference::wrap(type, left));
      y.tile.data.push_back(reference::wrap(type, right));
    }
    const Tile out =
        run_traced([](const Values& v) { return Values{lang::cdiv(v[0], v[1])}; }, {x, y}, {{type, {3}}})[0];
    EXPECT_EQ(out.data, (BitLine{reference::wrap(type, top / 2 + 1), 1, 1})) << type_name(type);
  }
}

TEST(LibraryLanes, AnyAndAllAreAboutZeroAndNanIsNone) {
  for (const Type type : reference::kAllTypes) {
    for (const Shape& shape : {Shape{1}, Shape{5}, Shape{4, 3}, Shape{2, 1, 3}}) {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        Input x = random_input(type, shape, 5 + axis);
        const Column keep = reference::random_bits(Type::kI1, reference::count(shape), 6);
        for (size_t i = 0; i < keep.size(); ++i) {
          if (keep[i] == 0)
            x.tile.data[i] = reference::is_float(type) && i % 2 == 0 ? reference::element_of(type, -0.0L) : 0;
        }
        const auto truth = [&](bool all) {
          return reference::reduce_lines(x.tile, axis, [&](const BitLine& line) {
            size_t set = 0;
            for (const Bits bits : line) set += reference::cast(type, Type::kI1, bits);
            return Bits{all ? set == line.size() : set > 0};
          });
        };
        const Tile any = truth(false);
        const int at = static_cast<int>(axis);
        const auto out = run_traced([&](const Values& v) { return Values{lang::any(v[0], at), lang::all(v[0], at)}; },
                                    {x}, {{Type::kI1, any.shape}, {Type::kI1, any.shape}});
        expect_same(Type::kI1, out[0], any, "any of " + type_name(type));
        expect_same(Type::kI1, out[1], truth(true), "all of " + type_name(type));
      }
    }
  }
}

TEST(LibraryLanes, MaxAndMinWithIndex) {
  for (const Type type : reference::kAllTypes) {
    if (type == Type::kI1) continue;
    Input x = random_input(type, {4, 9}, 8);
    without_f8_infinities(type, x.tile.data);
    const auto out = run_traced(
        [](const Values& v) {
          const auto [top, top_at] = lang::max_with_index(v[0], -1);
          const auto [low, low_at] = lang::min_with_index(v[0], 0);
          return Values{top, top_at, low, low_at};
        },
        {x}, {{type, {4}}, {Type::kI32, {4}}, {type, {9}}, {Type::kI32, {9}}});
    const auto at = [&](size_t axis, auto which) {
      return reference::reduce_lines(x.tile, axis, [&](const BitLine& line) { return Bits{which(type, line)}; });
    };
    const Tile top = at(1, reference::argmax), low = at(0, reference::argmin);
    expect_same(Type::kI32, out[1], top, "argmax");
    expect_same(Type::kI32, out[3], low, "argmin");
    const auto value = [&](size_t axis, auto which) {
      return reference::reduce_lines(x.tile, axis, [&](const BitLine& line) { return line[which(type, line)]; });
    };
    expect_same(type, out[0], value(1, reference::argmax), "max", true);
    expect_same(type, out[2], value(0, reference::argmin), "min", true);
  }
}

TEST(LibraryLanes, SumsOfSmallIntsWiden) {
  const std::pair<Type, Type> widened[] = {
      {Type::kI1, Type::kI32},  {Type::kI8, Type::kI32},  {Type::kI16, Type::kI32},
      {Type::kU8, Type::kU32},  {Type::kU16, Type::kU32}, {Type::kI32, Type::kI32},
      {Type::kU32, Type::kU32}, {Type::kI64, Type::kI64}, {Type::kU64, Type::kU64}};
  for (const auto& [type, wide] : widened) {
    const Input x = random_input(type, {300}, 4);
    const auto out = run_traced([](const Values& v) { return Values{lang::sum(v[0], 0), lang::cumsum(v[0], 0)}; }, {x},
                                {{wide, {}}, {wide, {300}}});
    BitLine line;
    for (const Bits bits : x.tile.data) line.push_back(reference::cast(type, wide, bits));
    const Type to = wide;
    const BitLine running = reference::scan(line, [to](Bits a, Bits b) { return reference::ints::add(to, a, b); });
    expect_same(wide, out[1], {{300}, running}, "cumsum of " + type_name(type));
    EXPECT_EQ(out[0].data[0], running.back()) << type_name(type);
  }
}

TEST(LibraryLanes, SearchsortedCountsWhatLiesBeforeOnEitherSide) {
  for (const Type type : reference::kAllTypes) {
    if (type == Type::kI1) continue;
    for (const int64_t extent : {1, 2, 3, 7, 8, 9, 31, 64, 65}) {
      Input keys = random_input(type, {extent}, static_cast<uint64_t>(extent));
      for (size_t i = 1; i < keys.tile.data.size(); i += 3) keys.tile.data[i] = keys.tile.data[i - 1];  // ties
      keys.tile.data = reference::take(keys.tile.data, reference::sort_order(type, keys.tile.data));
      Input values = random_input(type, {5, 13}, 99);
      for (size_t i = 0; i < 30; ++i) values.tile.data[2 * i] = keys.tile.data[i % keys.tile.data.size()];
      const auto out = run_traced(
          [](const Values& v) {
            return Values{lang::searchsorted(v[0], v[1]), lang::searchsorted(v[0], v[1], lang::Side::kRight)};
          },
          {keys, values}, {{Type::kI32, {5, 13}}, {Type::kI32, {5, 13}}});
      for (size_t i = 0; i < 65; ++i) {
        for (const bool right : {false, true}) {
          ASSERT_EQ(out[right ? 1 : 0].data[i],
                    reference::searchsorted(type, keys.tile.data, values.tile.data[i], right))
              << type_name(type) << " " << hex({values.tile.data[i]}) << " in " << hex(keys.tile.data, 70);
        }
      }
    }
  }
}

TEST(LibraryLanes, GroupedOrderWalksGroupsOfRowsColumnByColumn) {
  for (const auto& [m, n, group] :
       {std::array<int64_t, 3>{1, 1, 1}, {5, 3, 2}, {4, 7, 4}, {7, 5, 3}, {3, 4, 8}, {9, 1, 2}, {1, 9, 3}}) {
    std::vector<std::pair<Bits, Bits>> expected;
    for (int64_t first = 0; first < m; first += group) {
      for (int64_t column = 0; column < n; ++column) {
        for (int64_t row = first; row < std::min(m, first + group); ++row) expected.emplace_back(row, column);
      }
    }
    const Input pid = {Type::kI32, reference::counting<Bits>({m * n})};
    const auto number = [](int64_t value) { return Input{Type::kI32, {{}, {static_cast<Bits>(value)}}}; };
    const Output lanes = {Type::kI32, {m * n}};
    const auto out = run_traced(
        [](const Values& v) {
          const auto [i, j] = lang::grouped_order(v[0], v[1], v[2], v[3]);
          return Values{i, j};
        },
        {pid, number(m), number(n), number(group)}, {lanes, lanes});
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(std::pair(out[0].data[i], out[1].data[i]), expected[i]) << list({m, n, group}) << " program " << i;
    }
  }
}

}  // namespace
}  // namespace kiln::oracle
