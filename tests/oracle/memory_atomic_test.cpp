// atomic_rmw and atomic_cas against one step at a time, in any order.
#include "reference/floats.h"
#include "reference/inputs.h"
#include "reference/ints.h"
#include "reference/tolerance.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

namespace ref = reference;

// -0.0 below +0.0, and NaN on either side gives NaN.
Bits extreme(Type type, Bits a, Bits b, bool is_min) {
  if (!ref::is_float(type)) return is_min ? ref::ints::min(type, a, b) : ref::ints::max(type, a, b);
  if (ref::is_zero(type, a) && ref::is_zero(type, b)) return is_min ? a | b : a & b;
  return is_min ? ref::floats::min(type, a, b) : ref::floats::max(type, a, b);
}

Bits combined(const std::string& kind, Type type, Bits old, Bits value) {
  if (kind == "add") return ref::is_float(type) ? ref::floats::add(type, old, value) : ref::ints::add(type, old, value);
  if (kind == "min" || kind == "max") return extreme(type, old, value, kind == "min");
  if (kind == "and") return ref::ints::bit_and(type, old, value);
  if (kind == "or") return ref::ints::bit_or(type, old, value);
  if (kind == "xor") return ref::ints::bit_xor(type, old, value);
  return value;
}

std::vector<std::string> kinds_of(Type type) {
  if (type == Type::kI1) return {};
  if (ref::is_float(type)) return {"add", "min", "max", "xchg"};
  return {"add", "min", "max", "and", "or", "xor", "xchg"};
}

// old = atomic(memory[index], operands…, mask) over `count` lanes.
struct Outcome {
  Column memory, old;
};
Outcome run_atomic(const std::string& op, const std::string& attrs, Type type, const Column& memory,
                   const Column& index, const std::vector<Column>& operands, const Column& mask) {
  const std::string n = std::to_string(index.size());
  std::string params = "%m: ptr<" + type_name(type) + ">, %i: ptr<i64>, %k: ptr<i1>, %o: ptr<" + type_name(type) + ">";
  std::string body = "%l = arange {start = 0, end = " + n + "}\n", list_text;
  const auto load_of = [&](const std::string& p, const std::string& x) {
    return p + "s = splat " + p + " {shape = [" + n + "]}\n" + p + "q = addptr " + p + "s, %l\n" + x + " = load " + p +
           "q\n";
  };
  body += load_of("%i", "%at") + load_of("%k", "%mask");
  std::vector<Buffer> buffers = {{type, memory},
                                 {Type::kI64, index},
                                 {Type::kI1, mask.empty() ? Column(index.size()) : mask},
                                 {type, Column(index.size())}};
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string p = "%v" + std::to_string(i);
    params += ", " + p + ": ptr<" + type_name(type) + ">";
    body += load_of(p, p + "x");
    list_text += ", " + p + "x";
    buffers.push_back({type, operands[i]});
  }
  body += "%ms = splat %m {shape = [" + n + "]}\n%mq = addptr %ms, %at\n%old = " + op + " %mq" + list_text +
          (mask.empty() ? "" : ", %mask") + attrs + "\n%os = splat %o {shape = [" + n +
          "]}\n%oq = addptr %os, %l\nstore %oq, %old\n";
  const auto ran = run("kernel k(" + params + ") {\n" + body + "}", buffers);
  return {ran[0].elements, ran[3].elements};
}

Column counting(size_t count) {
  Column out(count);
  for (size_t i = 0; i < count; ++i) out[i] = i;
  return out;
}

TEST(MemoryAtomic, EveryKindAndTypeCombinesOnceAndGivesWhatWasThere) {
  for (const Type type : ref::kAllTypes) {
    for (const std::string& kind : kinds_of(type)) {
      const int64_t n = 97;
      Column memory = ref::random_elements(type, n, 1), values = ref::random_elements(type, n, 2);
      if (kind == "min" || kind == "max") without_f8_infinities(type, memory), without_f8_infinities(type, values);
      const Column mask = ref::random_bits(Type::kI1, n, 3);
      Column index = counting(static_cast<size_t>(n));
      for (size_t i = 0; i < index.size(); ++i) index[i] = mask[i] != 0 ? n - 1 - i : Bits{1} << 45;
      const Outcome out = run_atomic("atomic_rmw", " {kind = " + kind + "}", type, memory, index, {values}, mask);
      for (size_t i = 0; i < index.size(); ++i) {
        const size_t at = index.size() - 1 - i;
        const std::string what = type_name(type) + " " + kind + " " + hex({memory[at], values[i]});
        ASSERT_TRUE(ref::same(type, out.old[i], mask[i] != 0 ? memory[at] : 0)) << what;
        const Bits expected = mask[i] != 0 ? combined(kind, type, memory[at], values[i]) : memory[at];
        ASSERT_TRUE(ref::same(type, out.memory[at], expected)) << what << " gave " << hex({out.memory[at]});
      }
    }
  }
}

TEST(MemoryAtomic, FloatMinAndMaxOrderMinusZeroBelowZeroAndTakeNan) {
  for (const Type type : ref::kFloatTypes) {
    const Bits minus = ref::format(type).sign_bit(), nan = ref::format(type).quiet_nan();
    const Bits one = ref::from_real(type, 1);
    const Column memory = {0, minus, 0, minus, nan, one, minus, nan}, values = {minus, 0, 0, minus, one, nan, one, nan};
    const Outcome least = run_atomic("atomic_rmw", " {kind = min}", type, memory, counting(8), {values}, {});
    const Outcome most = run_atomic("atomic_rmw", " {kind = max}", type, memory, counting(8), {values}, {});
    const Column min = {minus, minus, 0, minus, nan, nan, minus, nan}, max = {0, 0, 0, minus, nan, nan, one, nan};
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_TRUE(ref::same(type, least.memory[i], min[i])) << type_name(type) << " min " << i;
      EXPECT_TRUE(ref::same(type, most.memory[i], max[i])) << type_name(type) << " max " << i;
    }
  }
}

TEST(MemoryAtomic, MinAndMaxOfF8e5m2KeepInfinity) {
  const Bits infinity = 0x7c, minus = 0xfc;
  EXPECT_EQ(run_atomic("atomic_rmw", " {kind = max}", Type::kF8E5M2, {0x3c}, {0}, {{infinity}}, {}).memory[0],
            infinity);
  EXPECT_EQ(run_atomic("atomic_rmw", " {kind = min}", Type::kF8E5M2, {minus}, {0}, {{0x3c}}, {}).memory[0], minus);
}

// Whether an order of the lanes exists: from `start`, each step finds what one lane saw, until all are spent.
TEST(MemoryAtomic, LanesThatShareAnAddressAllTakeEffectInSomeOrder) {
  for (const Type type : ref::kIntTypes) {
    for (const std::string& kind : kinds_of(type)) {
      const size_t n = 40;
      const Column memory = ref::random_elements(type, 3, 1), values = ref::random_elements(type, n, 2);
      const Column index = ref::random_ints(Type::kI64, n, 0, 2, 3);
      const Outcome out = run_atomic("atomic_rmw", " {kind = " + kind + "}", type, memory, index, {values}, {});
      for (Bits at = 0; at < 3; ++at) {
        std::vector<size_t> left;
        for (size_t i = 0; i < n; ++i) {
          if (index[i] == at) left.push_back(i);
        }
        // Lanes that leave memory as it is may come as soon as their old value is there.
        Bits now = memory[at];
        while (!left.empty()) {
          auto next = std::find_if(left.begin(), left.end(), [&](size_t i) {
            return out.old[i] == now && combined(kind, type, now, values[i]) == now;
          });
          if (next == left.end())
            next = std::find_if(left.begin(), left.end(), [&](size_t i) { return out.old[i] == now; });
          ASSERT_NE(next, left.end()) << type_name(type) << " " << kind << ": no lane saw " << hex({now});
          now = combined(kind, type, now, values[*next]);
          left.erase(next);
        }
        EXPECT_EQ(out.memory[at], now) << type_name(type) << " " << kind;
      }
    }
  }
}

TEST(MemoryAtomic, FloatSumsOfSharedAddressesRoundStepByStepInTheType) {
  for (const Type type : ref::kFloatTypes) {
    const Outcome out =
        run_atomic("atomic_rmw", " {kind = add}", type, {0}, Column(16), {Column(16, ref::from_real(type, 1))}, {});
    EXPECT_EQ(out.memory[0], ref::from_real(type, type == Type::kF8E5M2 ? 8 : 16)) << type_name(type);
  }
}

TEST(MemoryAtomic, CasComparesBits) {
  for (const Type type : ref::kAllTypes) {
    if (type == Type::kI1) continue;
    const int64_t n = 61;
    Column memory = ref::random_bits(type, n, 1), expected = memory;
    const Column values = ref::random_bits(type, n, 2), mask = ref::random_bits(Type::kI1, n, 3);
    for (size_t i = 0; i < expected.size(); i += 3) expected[i] ^= 1;
    if (ref::is_float(type)) {
      memory[1] = expected[1] = ref::format(type).quiet_nan();
      memory[4] = 0;
      expected[4] = ref::format(type).sign_bit();
    }
    const Outcome out =
        run_atomic("atomic_cas", "", type, memory, counting(static_cast<size_t>(n)), {expected, values}, mask);
    for (size_t i = 0; i < memory.size(); ++i) {
      const bool hits = mask[i] != 0 && memory[i] == expected[i];
      ASSERT_EQ(out.memory[i], hits ? values[i] : memory[i]) << type_name(type) << i;
      ASSERT_EQ(out.old[i], mask[i] != 0 ? memory[i] : 0) << type_name(type) << i;
    }
  }
}

TEST(MemoryAtomic, OfLanesThatCasOneAddressOneWins) {
  const Outcome out =
      run_atomic("atomic_cas", "", Type::kI32, {0}, Column(9), {Column(9), {1, 2, 3, 4, 5, 6, 7, 8, 9}}, {});
  EXPECT_EQ(std::count(out.old.begin(), out.old.end(), 0), 1);
  const auto winner = std::find(out.old.begin(), out.old.end(), 0) - out.old.begin();
  EXPECT_EQ(out.memory[0], static_cast<Bits>(winner + 1));
  for (const Bits old : out.old) EXPECT_TRUE(old == 0 || old == out.memory[0]);
}

TEST(MemoryAtomic, OrdersAndScopesOfOneProgramChangeNoResult) {
  for (const char* order : {"acq_rel", "relaxed", "acquire", "release"}) {
    for (const char* scope : {"device", "block", "system"}) {
      const std::string attrs = std::string("order = ") + order + ", scope = " + scope + "}";
      EXPECT_EQ(run_atomic("atomic_rmw", " {kind = add, " + attrs, Type::kU32, {5}, {0}, {{7}}, {}).memory[0], 12u);
      EXPECT_EQ(run_atomic("atomic_cas", " {" + attrs, Type::kU32, {5}, {0}, {{5}, {9}}, {}).memory[0], 9u);
    }
  }
}

TEST(MemoryAtomic, ThereAreNoneOfI1AndNoBitwiseOnesOfFloats) {
  const auto refused = [](const std::string& type, const std::string& kind) {
    return run_kernel(
        "kernel k(%p: ptr<" + type + ">, %v: " + type + ") {\n%o = atomic_rmw %p, %v {kind = " + kind + "}\n}", {});
  };
  EXPECT_NE(refused("i1", "or").find("atomic_rmw"), std::string::npos);
  EXPECT_NE(refused("f32", "xor").find("atomic_rmw"), std::string::npos);
  EXPECT_NE(refused("f16", "and").find("k.kiln:2"), std::string::npos);
}

TEST(MemoryAtomic, ProgramsOfAGridAllTakeEffect) {
  const auto ran = run(R"(kernel k(%count: ptr<i64>, %sum: ptr<i64>) {
  %x = program_id {axis = 0}
  %y = program_id {axis = 1}
  %one = constant {value = 1, type = i64}
  %xw = cast %x {to = i64}
  %yw = cast %y {to = i64}
  %p = mul %xw, %yw
  %a = atomic_rmw %count, %one {kind = add}
  %b = atomic_rmw %sum, %p {kind = add}
})",
                       {{Type::kI64, {0}}, {Type::kI64, {0}}}, {17, 5, 3});
  EXPECT_EQ(ran[0].elements[0], 17u * 5 * 3);
  EXPECT_EQ(ran[1].elements[0], 3u * (16 * 17 / 2) * (4 * 5 / 2));
}

}  // namespace
}  // namespace kiln::oracle
