// floor_div and floor_mod of the builder's library, and cases that NumPy's documentation publishes.
#include <cmath>

#include "kiln/dsl/kernel.h"
#include "numbers.h"
#include "reference/cast.h"
#include "reference/ints.h"
#include "reference/tolerance.h"

namespace kiln::oracle {
namespace {

namespace lang = dsl::lang;
namespace ints = reference::ints;

constexpr int kLanes = 65536;

// q and r of kLanes pairs.
template <class Int>
dsl::Kernel floor_kernel() {
  auto def = lang::kernel("k", {"a", "b", "q", "r"},
                          [](lang::Ptr<const Int> a, lang::Ptr<const Int> b, lang::Ptr<Int> q, lang::Ptr<Int> r) {
                            const lang::Value lane = lang::arange(0, kLanes);
                            const lang::Value x = lang::load(a + lane), y = lang::load(b + lane);
                            lang::store(q + lane, lang::floor_div(x, y));
                            lang::store(r + lane, lang::floor_mod(x, y));
                          });
  EXPECT_TRUE(def.ir().ok());
  auto concrete = dsl::instantiate(*def.ir(), {}, {});
  EXPECT_TRUE(concrete.ok());
  return *concrete;
}

template <class Int>
void expect_floors(Type type) {
  // All pairs of the 8-bit types fill the lanes; of the others a stretch that holds specials, and the rest is repeated.
  const Pairs& all = pairs(type);
  Column a, b, quotients, remainders;
  const size_t step = std::max<size_t>(all.a.size() / kLanes, 1);
  for (size_t i = 0; i < kLanes; ++i) {
    const size_t at = i * step % all.a.size();
    a.push_back(all.a[at]);
    b.push_back(all.b[at]);
    quotients.push_back(ints::floor_div(type, a.back(), b.back()));
    remainders.push_back(ints::floor_mod(type, a.back(), b.back()));
  }
  std::vector<Buffer> buffers = {{type, a}, {type, b}, {type, Column(kLanes)}, {type, Column(kLanes)}};
  EXPECT_EQ(try_run(floor_kernel<Int>(), buffers, {1, 1, 1}, quick()), "");
  expect_same("floor_div", type, buffers[2].elements, quotients, {type, type}, {a, b});
  expect_same("floor_mod", type, buffers[3].elements, remainders, {type, type}, {a, b});
}

TEST(NumbersLibrary, FloorDivRoundsDownAndFloorModHasTheDivisorsSign) {
  expect_floors<lang::i8>(Type::kI8);
  expect_floors<lang::i16>(Type::kI16);
  expect_floors<lang::i32>(Type::kI32);
  expect_floors<lang::i64>(Type::kI64);
  expect_floors<lang::u8>(Type::kU8);
  expect_floors<lang::u16>(Type::kU16);
  expect_floors<lang::u32>(Type::kU32);
  expect_floors<lang::u64>(Type::kU64);
}

// The first lanes of i32.
struct Floors {
  std::vector<int> quotients, remainders;
};
Floors floors(const std::vector<int>& a, const std::vector<int>& b) {
  Column x(kLanes, 1), y(kLanes, 1);
  for (size_t i = 0; i < a.size(); ++i) {
    x[i] = reference::wrap(Type::kI32, a[i]);
    y[i] = reference::wrap(Type::kI32, b[i]);
  }
  std::vector<Buffer> buffers = {
      {Type::kI32, x}, {Type::kI32, y}, {Type::kI32, Column(kLanes)}, {Type::kI32, Column(kLanes)}};
  EXPECT_EQ(try_run(floor_kernel<lang::i32>(), buffers, {1, 1, 1}, quick()), "");
  Floors out;
  for (size_t i = 0; i < a.size(); ++i) {
    out.quotients.push_back(static_cast<int>(buffers[2].elements[i]));
    out.remainders.push_back(static_cast<int>(buffers[3].elements[i]));
  }
  return out;
}

TEST(NumbersNumpy, FloorDivideAndRemainderOfInts) {
  // numpy.remainder: ([4, 7], [2, 3]) gives [0, 1]; (arange(7), 5) gives [0, 1, 2, 3, 4, 0, 1].
  // numpy.fmod's page: remainder([-3, -2, -1, 1, 2, 3], 2) gives [1, 0, 1, 1, 0, 1]. numpy.floor_divide: (7, 3)
  // gives 2.
  EXPECT_EQ(floors({4, 7}, {2, 3}).remainders, (std::vector<int>{0, 1}));
  EXPECT_EQ(floors({0, 1, 2, 3, 4, 5, 6}, {5, 5, 5, 5, 5, 5, 5}).remainders, (std::vector<int>{0, 1, 2, 3, 4, 0, 1}));
  const Floors threes = floors({-3, -2, -1, 1, 2, 3}, {2, 2, 2, 2, 2, 2});
  EXPECT_EQ(threes.remainders, (std::vector<int>{1, 0, 1, 1, 0, 1}));
  EXPECT_EQ(threes.quotients, (std::vector<int>{-2, -1, -1, 0, 1, 1}));
  EXPECT_EQ(floors({7}, {3}).quotients, (std::vector<int>{2}));
  // The page's own: x/0 = 0, x mod 0 = x, MIN/-1 = MIN.
  const Floors edges = floors({7, -7, INT32_MIN, INT32_MIN, 7, -7}, {0, 0, -1, 0, -2, 2});
  EXPECT_EQ(edges.quotients, (std::vector<int>{0, 0, INT32_MIN, 0, -4, -4}));
  EXPECT_EQ(edges.remainders, (std::vector<int>{7, -7, 0, INT32_MIN, -1, 1}));
}

TEST(NumbersNumpy, FmodHasTheDividendsSign) {
  // numpy.fmod([-3, -2, -1, 1, 2, 3], 2) gives [-1, 0, -1, 1, 0, 1], of ints and of floats; fmod([5, 3], [2, 2.]) [1,
  // 1].
  const std::vector<int> a = {-3, -2, -1, 1, 2, 3, 5}, want = {-1, 0, -1, 1, 0, 1, 1};
  for (const Type type : {Type::kI32, Type::kI8, Type::kF32, Type::kF64, Type::kF16, Type::kF8E4M3}) {
    Column x, expected;
    for (size_t i = 0; i < a.size(); ++i) {
      x.push_back(reference::element_of(type, a[i]));
      expected.push_back(reference::element_of(type, want[i]));
    }
    const Column two(a.size(), reference::element_of(type, 2));
    const Column got = run_elementwise("rem %x0, %x1", {type, type}, {x, two}, type);
    expect_same("rem", type, got, expected, {type, type}, {x, two}, true);
    // C has the sign of a zero too: fmod(-2, 2) is -0.0.
    if (reference::is_float(type)) {
      EXPECT_EQ(got[1], reference::format(type).sign_bit()) << type_name(type);
    }
  }
}

TEST(NumbersNumpy, RoundFloorCeilTrunc) {
  struct Case {
    const char* function;
    std::vector<double> x, want;
  };
  const std::vector<double> x = {-1.7, -1.5, -0.2, 0.2, 1.5, 1.7, 2.0};  // of the pages of rint, floor, ceil and trunc
  for (const Case& c : {Case{"round", {0.5, 1.5, 2.5, 3.5, 4.5}, {0, 2, 2, 4, 4}},
                        Case{"round", x, {-2, -2, -0.0, 0, 2, 2, 2}}, Case{"floor", x, {-2, -2, -1, 0, 1, 1, 2}},
                        Case{"ceil", x, {-1, -1, -0.0, 1, 2, 2, 2}}, Case{"trunc", x, {-1, -1, -0.0, 0, 1, 1, 2}}}) {
    for (const Type type : {Type::kF32, Type::kF64, Type::kF16, Type::kBF16}) {
      Column in, want;
      for (const double value : c.x) in.push_back(reference::element_of(type, value));
      for (const double value : c.want) want.push_back(reference::element_of(type, value));
      EXPECT_EQ(run_elementwise(std::string("math %x0 {fn = ") + c.function + "}", {type}, {in}, type), want)
          << c.function << " " << type_name(type);
    }
  }
}

}  // namespace
}  // namespace kiln::oracle
