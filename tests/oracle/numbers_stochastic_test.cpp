// cast with rounding = stochastic, whose every bit follows from the random word.
#include <cmath>

#include "numbers.h"
#include "reference/cast.h"
#include "reference/inputs.h"

namespace kiln::oracle {
namespace {

namespace ref = kiln::reference;

constexpr Type kSources[] = {Type::kF32, Type::kF16, Type::kBF16, Type::kF8E4M3, Type::kF8E5M2};
constexpr Type kResults[] = {Type::kF16, Type::kBF16, Type::kF8E4M3, Type::kF8E5M2};

// The least word with which x is rounded away from zero, 2^32 when none does: by bisection, since more goes up with
// more.
uint64_t threshold(Type from, Type to, Bits x) {
  const Bits down = ref::cast_stochastic(from, to, x, 0);
  uint64_t low = 0, high = uint64_t{1} << 32;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (ref::cast_stochastic(from, to, x, static_cast<uint32_t>(middle)) == down) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

struct Operands {
  Column x, words;
};

Operands operands(Type from, Type to) {
  Operands out;
  const Column random = ref::random_bits(Type::kU32, 8191, 41);
  size_t next = 0;
  const Column all = values(from, 6000);
  for (const Bits x : all) {
    out.x.push_back(x);
    out.words.push_back(random[next++ % random.size()]);
  }
  for (size_t i = 0; i < all.size(); i += all.size() / 200 + 1) {
    const uint64_t up = threshold(from, to, all[i]);
    for (const uint64_t word :
         {uint64_t{0}, uint64_t{0x7fffffff}, uint64_t{0x80000000}, uint64_t{0xffffffff}, up, up - 1}) {
      out.x.push_back(all[i]);
      out.words.push_back(word & 0xffffffff);
    }
  }
  return out;
}

void expect_stochastic(Type from, Type to, const std::string& more, ref::Overflow overflow) {
  const Operands o = operands(from, to);
  Column want;
  for (size_t i = 0; i < o.x.size(); ++i) {
    want.push_back(ref::cast_stochastic(from, to, o.x[i], static_cast<uint32_t>(o.words[i]), overflow));
  }
  const std::string op = "cast %x0, %x1 {to = " + type_name(to) + ", rounding = stochastic" + more + "}";
  expect_same(op, to, run_elementwise(op, {from, Type::kU32}, {o.x, o.words}, to), want, {from, Type::kU32},
              {o.x, o.words});
}

TEST(NumbersStochastic, TheMagnitudeIsTheFloorOfItsStepsPlusTheWord) {
  for (const Type from : kSources) {
    for (const Type to : kResults) expect_stochastic(from, to, "", ref::Overflow::kDefault);
  }
}

TEST(NumbersStochastic, OverflowWithoutSaturationIsAsForNearest) {
  for (const Type from : kSources) {
    for (const Type to : {Type::kF8E4M3, Type::kF8E5M2}) {
      expect_stochastic(from, to, ", saturate = 0", ref::Overflow::kSpecial);
    }
  }
}

TEST(NumbersStochastic, InNumbers) {
  const std::string op = "cast %x0, %x1 {to = bf16, rounding = stochastic}";
  const Bits x = from_float(1 + 0x1p-9f);  // a quarter of a step above 1
  EXPECT_EQ(run_elementwise(op, {Type::kF32, Type::kU32}, {{x, x, x, x}, {0, 0xbfffffff, 0xc0000000, 0xffffffff}},
                            Type::kBF16),
            (Column{0x3f80, 0x3f80, 0x3f81, 0x3f81}));
  // The step below 2^-126 is that of the subnormals, 2^-133.
  const Bits small = from_float(-0x1.8p-134f);
  EXPECT_EQ(run_elementwise(op, {Type::kF32, Type::kU32}, {{small, small}, {0x3fffffff, 0x40000000}}, Type::kBF16),
            (Column{0x8000, 0x8001}));
}

}  // namespace
}  // namespace kiln::oracle
