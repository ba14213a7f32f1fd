// load, store and addptr: masks, `other`, lanes that share an address.
#include "reference/formats.h"
#include "reference/inputs.h"
#include "reference/ints.h"
#include "reference/tolerance.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

// Indices into 11 elements, all distinct if need be; where the mask is false they are far outside of the buffer.
struct Lanes {
  Column index, mask;
};
Lanes lanes_of(size_t count, bool masked, uint64_t seed) {
  Lanes out;
  const Column random = reference::random_ints(Type::kI64, static_cast<int64_t>(count), 0, 10, seed);
  const Column masks = reference::random_bits(Type::kI1, static_cast<int64_t>(count), seed + 1);
  const Bits faults[] = {Bits{1} << 40, ~Bits{0}, static_cast<Bits>(-1000000), 11, Bits{1} << 62};
  for (size_t i = 0; i < count; ++i) {
    const bool on = !masked || masks[i] != 0;
    out.mask.push_back(on);
    out.index.push_back(on ? random[i] : faults[i % 5]);
  }
  return out;
}

// "kernel k(…) {" and tiles %x1, … of the parameters %p1, … of `count` elements; %p0 is the memory that is tested.
std::string opening(const std::vector<Type>& types, const std::string& count) {
  std::string params, body = "%i = arange {start = 0, end = " + count + "}\n";
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string p = "%p" + std::to_string(i), tile_of = " {shape = [" + count + "]}\n";
    params += (i == 0 ? "" : ", ") + p + ": ptr<" + type_name(types[i]) + ">";
    body += p + "s = splat " + p + tile_of;
    if (i > 0) body += p + "q = addptr " + p + "s, %i\n%x" + std::to_string(i) + " = load " + p + "q\n";
  }
  return "kernel k(" + params + ") {\n" + body + "%q = addptr %p0s, %x1\n";
}

TEST(MemoryLoad, MaskedLanesTouchNoMemoryAndGiveOtherOr0) {
  for (const Type type : reference::kAllTypes) {
    for (const size_t count : {1, 2, 33, 64}) {
      const Lanes lanes = lanes_of(count, true, count);
      const Column memory = reference::random_bits(type, 11, 5);
      const Column other = reference::random_bits(type, static_cast<int64_t>(count), 6);
      for (const bool has_other : {false, true}) {
        const std::string text = opening({type, Type::kI64, Type::kI1, type, type}, std::to_string(count)) +
                                 "%y = load %q, %x2" + (has_other ? ", %x3" : "") + "\nstore %p4q, %y\n}";
        const auto ran = run(
            text,
            {{type, memory}, {Type::kI64, lanes.index}, {Type::kI1, lanes.mask}, {type, other}, {type, Column(count)}});
        for (size_t i = 0; i < count; ++i) {
          const Bits expected = lanes.mask[i] != 0 ? memory[lanes.index[i]] : has_other ? other[i] : 0;
          ASSERT_TRUE(reference::same(type, ran[4].elements[i], expected)) << type_name(type) << " lane " << i;
        }
      }
    }
  }
}

TEST(MemoryLoad, WithoutMaskReadsEveryLaneAndKeepsEveryBit) {
  for (const Type type : reference::kAllTypes) {
    const Lanes lanes = lanes_of(65, false, 3);
    const Column memory = reference::random_bits(type, 11, 8);
    const auto ran = run(opening({type, Type::kI64, type}, "65") + "%y = load %q\nstore %p2q, %y\n}",
                         {{type, memory}, {Type::kI64, lanes.index}, {type, Column(65)}});
    for (size_t i = 0; i < 65; ++i) ASSERT_EQ(ran[2].elements[i], memory[lanes.index[i]]) << type_name(type);
  }
}

TEST(MemoryLoad, MaskedLanesAreOrdinaryLanesThatHoldOther) {
  // A sum over all lanes counts `other` too.
  const Input x = {Type::kI32, {{8}, {1, 2, 3, 4, 5, 6, 7, 8}}};
  const std::string text = R"(%i = arange {start = 0, end = 8}
%n = constant {value = 3, type = i32}
%ns = splat %n {shape = [8]}
%m = cmp %i, %ns {pred = lt}
%s = splat %p0 {shape = [8]}
%q = addptr %s, %i
%c = constant {value = 100, type = i32}
%cs = splat %c {shape = [8]}
%y = load %q, %m, %cs
%z0 = reduce %y {kind = sum, axis = 0})";
  EXPECT_EQ(run_tile(text, {x}, {Type::kI32, {}}).data[0], Bits{6 + 500});
}

TEST(MemoryLoad, OfAScalarWithAMask) {
  for (const Bits mask : {0, 1}) {
    const std::string text = R"(kernel k(%p: ptr<f32>, %at: i64, %m: i1, %other: f32, %o: ptr<f32>) {
  %q = addptr %p, %at
  %x = load %q, %m, %other
  store %o, %x
})";
    const auto ran = run(text, {{Type::kF32, {1, 2, 3}},
                                {Type::kI64, {mask != 0 ? Bits{2} : Bits{1} << 50}, true},
                                {Type::kI1, {mask}, true},
                                {Type::kF32, {77}, true},
                                {Type::kF32, {0}}});
    EXPECT_EQ(ran[4].elements[0], mask != 0 ? Bits{3} : Bits{77});
  }
}

TEST(MemoryLoad, HintsChangeNoResult) {
  const Lanes lanes = lanes_of(9, true, 4);
  for (const char* cache : {"all", "global", "streaming"}) {
    for (const char* eviction : {"normal", "first", "last"}) {
      const auto ran =
          run(opening({Type::kF16, Type::kI64, Type::kI1, Type::kF16}, "9") + "%y = load %q, %x2 {cache = " + cache +
                  ", eviction = " + eviction + "}\nstore %p3q, %y {cache = " + cache + "}\n}",
              {{Type::kF16, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
               {Type::kI64, lanes.index},
               {Type::kI1, lanes.mask},
               {Type::kF16, Column(9)}});
      for (size_t i = 0; i < 9; ++i) {
        EXPECT_EQ(ran[3].elements[i], lanes.mask[i] != 0 ? lanes.index[i] + 1 : 0);
      }
    }
  }
}

TEST(MemoryStore, MaskedLanesWriteNothingAndOneOfTheValuesArrives) {
  for (const Type type : reference::kAllTypes) {
    for (const size_t count : {1, 7, 33, 128}) {
      for (const bool masked : {false, true}) {
        const Lanes lanes = lanes_of(count, masked, count + 9);
        const Column memory = reference::random_bits(type, 11, 5);
        const Column values = reference::random_bits(type, static_cast<int64_t>(count), 6);
        const std::string text = opening({type, Type::kI64, Type::kI1, type}, std::to_string(count)) + "store %q, %x3" +
                                 (masked ? ", %x2" : "") + "\n}";
        const auto ran =
            run(text, {{type, memory}, {Type::kI64, lanes.index}, {Type::kI1, lanes.mask}, {type, values}});
        for (size_t at = 0; at < 11; ++at) {
          Column allowed;
          for (size_t i = 0; i < count; ++i) {
            if (lanes.mask[i] != 0 && lanes.index[i] == at) allowed.push_back(values[i]);
          }
          if (allowed.empty()) allowed.push_back(memory[at]);
          ASSERT_NE(std::find(allowed.begin(), allowed.end(), ran[0].elements[at]), allowed.end())
              << type_name(type) << " element " << at << ": " << hex({ran[0].elements[at]}) << " of " << hex(allowed);
        }
      }
    }
  }
}

TEST(MemoryStore, ThroughAReadonlyParameterIsRefused) {
  EXPECT_NE(run_kernel(R"(kernel k(%p: ptr<i32> readonly) {
  %one = constant {value = 1, type = i32}
  %q = addptr %p, %one
  store %q, %one
})",
                       {})
                .find("k.kiln:4"),
            std::string::npos);
}

TEST(MemoryAddptr, OffsetsOfEveryIntTypeMoveByElementsEitherWay) {
  const Column memory = reference::random_bits(Type::kF32, 200, 1);
  for (const Type type : reference::kIntTypes) {
    const bool is_signed = reference::is_signed(type);
    const Column offsets = reference::random_ints(type, 31, is_signed ? -100 : 0, 99, 2);
    const std::string text = "kernel k(%p: ptr<f32>, %f: ptr<" + type_name(type) + R"(>, %o: ptr<f32>) {
  %i = arange {start = 0, end = 31}
  %fs = splat %f {shape = [31]}
  %fq = addptr %fs, %i
  %by = load %fq
  %hundred = constant {value = 100, type = i32}
  %middle = addptr %p, %hundred
  %ms = splat %middle {shape = [31]}
  %q = addptr %ms, %by
  %x = load %q
  %os = splat %o {shape = [31]}
  %oq = addptr %os, %i
  store %oq, %x
})";
    const auto ran = run(text, {{Type::kF32, memory}, {type, offsets}, {Type::kF32, Column(31)}});
    for (size_t i = 0; i < 31; ++i) {
      const auto at = static_cast<size_t>(100 + reference::int_value(type, offsets[i]));
      ASSERT_EQ(ran[2].elements[i], memory[at]) << type_name(type);
    }
  }
}

// Every tail of a block in every dimension: y[i, j] = x[i, j] for i < rows, j < columns, and nothing else is touched.
TEST(MemoryMask, TailsInEveryDimension) {
  const std::string text = R"(kernel k(%x: ptr<i16> readonly, %y: ptr<i16>, %rows: i32, %cols: i32) {
  %ri = arange {start = 0, end = 5}
  %ci = arange {start = 0, end = 7}
  %rs = splat %rows {shape = [5]}
  %cs = splat %cols {shape = [7]}
  %rm = cmp %ri, %rs {pred = lt}
  %cm = cmp %ci, %cs {pred = lt}
  %rm1 = expand_dims %rm {axis = 1}
  %cm1 = expand_dims %cm {axis = 0}
  %rm2 = broadcast %rm1 {shape = [5, 7]}
  %cm2 = broadcast %cm1 {shape = [5, 7]}
  %m = and %rm2, %cm2
  %cs5 = splat %cols {shape = [5]}
  %ro = mul %ri, %cs5
  %ro1 = expand_dims %ro {axis = 1}
  %ci1 = expand_dims %ci {axis = 0}
  %ro2 = broadcast %ro1 {shape = [5, 7]}
  %ci2 = broadcast %ci1 {shape = [5, 7]}
  %at = add %ro2, %ci2
  %xs = splat %x {shape = [5, 7]}
  %ys = splat %y {shape = [5, 7]}
  %xq = addptr %xs, %at
  %yq = addptr %ys, %at
  %v = load %xq, %m
  store %yq, %v, %m
})";
  for (int64_t rows = 1; rows <= 5; ++rows) {
    for (int64_t columns = 1; columns <= 7; ++columns) {
      const Column x = reference::random_bits(Type::kI16, rows * columns, 1);
      const auto ran = run(text, {{Type::kI16, x},
                                  {Type::kI16, Column(x.size())},
                                  {Type::kI32, {static_cast<Bits>(rows)}, true},
                                  {Type::kI32, {static_cast<Bits>(columns)}, true}});
      EXPECT_EQ(ran[1].elements, x);
    }
  }
}

}  // namespace
}  // namespace kiln::oracle
