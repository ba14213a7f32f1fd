// Atomics of the interpreter.
#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;
using Bits = std::vector<uint64_t>;

// All lanes of x on the elements `index` of memory.
struct Atomic {
  std::vector<std::byte> memory;
  Elements old;
  std::string error;
};
Atomic atomic(const std::string& op, const Elements& memory, const Elements& x, const std::vector<int64_t>& index,
              const std::vector<int64_t>& mask, const Elements& expected = {E::kF32, {}}) {
  const std::string n = std::to_string(index.size()), element(info(x.type).name);
  const std::string tile = "tile<[" + n + "], ", ptr = "tile<[" + n + "], ptr<" + element + ">>\n";
  const bool cas = !expected.bits.empty();
  std::string text = "kernel t(%memory: ptr<" + element + ">, %x: ptr<" + element + ">, %e: ptr<" + element +
                     ">, %i: ptr<i32>, %m: ptr<i1>, %old: ptr<" + element + ">) {\n%r = arange {start = 0, end = " + n +
                     "} : " + tile + "i32>\n";
  for (std::string name : {"x", "e", "i", "m", "old"}) {
    const std::string type = name == "i" ? "i32" : name == "m" ? "i1" : element;
    const std::string pointers = tile + "ptr<" + type + ">>\n";
    text += "%" + name + "s = splat %" + name + " {shape = [" + n + "]} : " + pointers;
    text += "%" + name + "q = addptr %" + name + "s, %r : " + pointers;
    if (name != "old") text += "%" + name + "v = load %" + name + "q : " + tile + type + ">\n";
  }
  text += "%b = splat %memory {shape = [" + n + "]} : " + ptr + "%q = addptr %b, %iv : " + ptr;
  text += "%z = " + op + (cas ? " %q, %ev, %xv, %mv" : " %q, %xv, %mv {kind = " + op + "}") + " : " + tile + element +
          ">\n";
  if (!cas) text.replace(text.find("%z = " + op), 5 + op.size(), "%z = atomic_rmw");
  text += "store %oldq, %z\n}\n";
  Atomic out{memory.memory(), {x.type, {}}, ""};
  std::vector<std::byte> olds(x.memory().size()), xs = x.memory(), es = cas ? expected.memory() : x.memory();
  std::vector<std::byte> is = ints(E::kI32, index).memory(), ms = ints(E::kI1, mask).memory();
  const auto count = static_cast<int64_t>(index.size());
  const Argument arguments[] = {{out.memory.data(), static_cast<int64_t>(memory.bits.size()), 0},
                                {xs.data(), count, 0},
                                {es.data(), count, 0},
                                {is.data(), count, 0},
                                {ms.data(), count, 0},
                                {olds.data(), count, 0}};
  auto done = interpret(instantiated(text), arguments, {1, 1, 1});
  if (!done) out.error = done.error().message;
  out.old = Elements::from_memory(x.type, olds);
  return out;
}

TEST(InterpreterAtomic, LanesThatShareAnAddressAllTakeEffectInOrder) {
  const Atomic sum = atomic("add", ints(E::kI32, {10, 0}), ints(E::kI32, {1, 2, 4}), {0, 0, 0}, {1, 1, 1});
  EXPECT_EQ(sum.error, "");
  EXPECT_EQ(sum.old.bits, (Bits{10, 11, 13}));
  EXPECT_EQ(Elements::from_memory(E::kI32, sum.memory).bits, (Bits{17, 0}));
}

TEST(InterpreterAtomic, MaskedLanesGiveZeroAndTouchNothing) {
  const Atomic sum = atomic("add", ints(E::kI32, {10, 5}), ints(E::kI32, {1, 2, 4}), {0, 99, -7}, {1, 0, 0});
  EXPECT_EQ(sum.error, "");
  EXPECT_EQ(sum.old.bits, (Bits{10, 0, 0}));
  EXPECT_EQ(Elements::from_memory(E::kI32, sum.memory).bits, (Bits{11, 5}));
  EXPECT_NE(
      atomic("add", ints(E::kI32, {10}), ints(E::kI32, {1}), {99}, {1}).error.find("atomic_rmw: index 99 is outside"),
      std::string::npos);
}

TEST(InterpreterAtomic, EveryKindOfInts) {
  auto after = [](const std::string& kind, E type, int64_t memory, int64_t x) {
    return Elements::from_memory(type, atomic(kind, ints(type, {memory}), ints(type, {x}), {0}, {1}).memory).bits[0];
  };
  EXPECT_EQ(after("min", E::kI8, 3, -5), bits_from_int(E::kI8, -5));
  EXPECT_EQ(after("min", E::kU8, 3, -5), 3u);
  EXPECT_EQ(after("max", E::kI64, 3, -5), 3u);
  EXPECT_EQ(after("and", E::kI32, 12, 10), 8u);
  EXPECT_EQ(after("or", E::kI32, 12, 10), 14u);
  EXPECT_EQ(after("xor", E::kI32, 12, 10), 6u);
  EXPECT_EQ(after("xchg", E::kI32, 12, 10), 10u);
  EXPECT_EQ(after("add", E::kI16, 32767, 1), bits_from_int(E::kI16, -32768));
}

TEST(InterpreterAtomic, FloatMinAndMaxOrderZerosAndPropagateNan) {
  auto after = [](const std::string& kind, float memory, float x) {
    return float_of(Elements::from_memory(E::kF32, atomic(kind, f32s({memory}), f32s({x}), {0}, {1}).memory).bits[0]);
  };
  EXPECT_TRUE(std::signbit(after("min", 0.0f, -0.0f)));
  EXPECT_TRUE(std::signbit(after("min", -0.0f, 0.0f)));
  EXPECT_FALSE(std::signbit(after("max", -0.0f, 0.0f)));
  EXPECT_FALSE(std::signbit(after("max", 0.0f, -0.0f)));
  for (const char* kind : {"min", "max"}) {
    EXPECT_TRUE(std::isnan(after(kind, NAN, 1)));
    EXPECT_TRUE(std::isnan(after(kind, 1, NAN)));
  }
}

TEST(InterpreterAtomic, SmallFloatsAddAsTheOpAddDoes) {
  const Elements one{E::kF16, {bits_from_double(E::kF16, 1)}}, big{E::kF16, {bits_from_double(E::kF16, 2048)}};
  EXPECT_EQ(Elements::from_memory(E::kF16, atomic("add", big, one, {0}, {1}).memory).bits, big.bits);
}

TEST(InterpreterAtomic, CasComparesBits) {
  const Atomic zeros =
      atomic("atomic_cas", f32s({0.0f, NAN, 1}), f32s({5, 6, 7}), {0, 1, 2}, {1, 1, 0}, f32s({-0.0f, NAN, 1}));
  EXPECT_EQ(zeros.error, "");
  EXPECT_EQ(Elements::from_memory(E::kF32, zeros.memory).bits, f32s({0, 6, 1}).bits);
  EXPECT_EQ(zeros.old.bits, f32s({0, NAN, 0}).bits);
}

}  // namespace
}  // namespace kiln::dsl::testing
