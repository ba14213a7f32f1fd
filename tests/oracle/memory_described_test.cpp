// Descriptors against arrays read element by element: outside on every side, all ranks, strides with gaps.
#include <map>

#include "reference/floats.h"
#include "reference/inputs.h"
#include "reference/ints.h"
#include "reference/tolerance.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

namespace ref = reference;

struct View {
  Shape extents, strides, block;  // strides of all axes, the last one 1
};

const std::vector<View>& all_views() {
  static const std::vector<View> views = {
      {{7}, {1}, {4}},
      {{1}, {1}, {1}},
      {{5}, {1}, {8}},
      {{5, 7}, {7, 1}, {3, 4}},
      {{5, 7}, {10, 1}, {2, 8}},  // gaps between rows
      {{1, 9}, {9, 1}, {1, 4}},
      {{3, 4, 5}, {20, 5, 1}, {2, 3, 4}},
      {{3, 4, 5}, {40, 9, 1}, {1, 4, 2}},
      {{2, 3, 2, 3}, {18, 6, 3, 1}, {2, 2, 3, 2}},
      {{2, 3, 2, 2, 3}, {36, 12, 6, 3, 1}, {1, 2, 3, 1, 2}},
  };
  return views;
}

// Offsets per axis: well inside, on and over both borders, far outside.
std::vector<Shape> offsets_of(const View& view, uint64_t seed) {
  std::vector<Shape> out;
  const size_t rank = view.extents.size();
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t extent = view.extents[axis], block = view.block[axis];
    for (const int64_t at : {int64_t{0}, int64_t{-1}, -block, 1 - block, extent - 1, extent, extent - block,
                             extent + 100, int64_t{INT64_MAX}, int64_t{INT64_MIN}}) {
      Shape offsets(rank, 0);
      offsets[axis] = at;
      out.push_back(offsets);
    }
  }
  const Column random = ref::random_ints(Type::kI64, 20 * static_cast<int64_t>(rank), -4, 8, seed);
  for (size_t i = 0; i + rank <= random.size(); i += rank) {
    out.emplace_back(random.begin() + static_cast<std::ptrdiff_t>(i),
                     random.begin() + static_cast<std::ptrdiff_t>(i + rank));
  }
  return out;
}

int64_t elements_of(const View& view) {
  int64_t last = 0;
  for (size_t i = 0; i < view.extents.size(); ++i) last += (view.extents[i] - 1) * view.strides[i];
  return last + 1;
}

// Where an element of the block at `offsets` lies; -1 outside.
int64_t place(const View& view, const Shape& offsets, const Shape& index) {
  int64_t at = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    const ref::Wide coordinate = static_cast<ref::Wide>(offsets[i]) + index[i];
    if (coordinate < 0 || coordinate >= view.extents[i]) return -1;
    at += static_cast<int64_t>(coordinate) * view.strides[i];
  }
  return at;
}

// Parameters %m (the array), %t (a block's elements), then extents, strides and offsets as i64; `lines` use %d and
// the offsets' text. The block in memory is %tq, of the descriptor's shape.
std::string kernel_text(const View& view, Type type, const std::string& attrs, const std::string& lines) {
  std::string params = "%m: ptr<" + type_name(type) + ">, %t: ptr<" + type_name(type) + ">", dims;
  const size_t rank = view.block.size();
  for (size_t i = 0; i < rank; ++i) params += ", %e" + std::to_string(i) + ": i64", dims += ", %e" + std::to_string(i);
  for (size_t i = 0; i + 1 < rank; ++i)
    params += ", %s" + std::to_string(i) + ": i64", dims += ", %s" + std::to_string(i);
  for (size_t i = 0; i < rank; ++i) params += ", %f" + std::to_string(i) + ": i64";
  const std::string n = std::to_string(ref::count(view.block));
  return "kernel k(" + params + ") {\n%i = arange {start = 0, end = " + n + "}\n%ts = splat %t {shape = [" + n +
         "]}\n%ta = addptr %ts, %i\n%tq = reshape %ta {shape = " + list(view.block) + "}\n%d = descriptor %m" + dims +
         " {block = " + list(view.block) + attrs + "}\n" + lines + "\n}";
}

std::string offset_text(const View& view) {
  std::string out;
  for (size_t i = 0; i < view.block.size(); ++i) out += ", %f" + std::to_string(i);
  return out;
}

std::vector<Buffer> launch(const dsl::Kernel& kernel, Type type, const View& view, const Shape& offsets,
                           const Column& memory, const Column& block) {
  std::vector<Buffer> buffers = {{type, memory}, {type, block}};
  const auto push = [&](int64_t value) { buffers.push_back({Type::kI64, {static_cast<Bits>(value)}, true}); };
  for (const int64_t extent : view.extents) push(extent);
  for (size_t i = 0; i + 1 < view.strides.size(); ++i) push(view.strides[i]);
  for (const int64_t offset : offsets) push(offset);
  EXPECT_EQ(try_run(kernel, buffers), "");
  return buffers;
}

TEST(MemoryDescribed, LoadTileGivesZeroOrNanOutsideOnEverySide) {
  size_t turn = 0;
  for (const Type type : ref::kAllTypes) {
    for (const bool nan : {false, true}) {
      if (nan && !ref::is_float(type)) continue;
      for (const View& view : all_views()) {
        const Column memory = ref::random_bits(type, elements_of(view), ++turn);
        const dsl::Kernel kernel = instantiated(kernel_text(
            view, type, nan ? ", fill = nan" : "", "%x = load_tile %d" + offset_text(view) + "\nstore %tq, %x"));
        for (const Shape& offsets : offsets_of(view, turn)) {
          const Column out =
              launch(kernel, type, view, offsets, memory, Column(static_cast<size_t>(ref::count(view.block))))[1]
                  .elements;
          for (size_t i = 0; i < out.size(); ++i) {
            const int64_t at = place(view, offsets, ref::index_of(view.block, static_cast<int64_t>(i)));
            const Bits fill = nan ? ref::format(type).quiet_nan() : 0;
            ASSERT_TRUE(ref::same(type, out[i], at < 0 ? fill : memory[static_cast<size_t>(at)]))
                << type_name(type) << " " << list(view.extents) << " at " << list(offsets) << ", element " << i;
          }
        }
      }
    }
  }
}

TEST(MemoryDescribed, StoreTileDropsWhatLiesOutsideAndLeavesGapsAlone) {
  size_t turn = 0;
  for (const Type type : ref::kAllTypes) {
    for (const View& view : all_views()) {
      const Column memory = ref::random_bits(type, elements_of(view), ++turn);
      const Column block = ref::random_bits(type, ref::count(view.block), turn + 99);
      const dsl::Kernel kernel =
          instantiated(kernel_text(view, type, "", "%x = load %tq\nstore_tile %d, %x" + offset_text(view)));
      for (const Shape& offsets : offsets_of(view, turn)) {
        Column expected = memory;
        for (size_t i = 0; i < block.size(); ++i) {
          const int64_t at = place(view, offsets, ref::index_of(view.block, static_cast<int64_t>(i)));
          if (at >= 0) expected[static_cast<size_t>(at)] = block[i];
        }
        ASSERT_EQ(launch(kernel, type, view, offsets, memory, block)[0].elements, expected)
            << type_name(type) << " " << list(view.extents) << " at " << list(offsets);
      }
    }
  }
}

TEST(MemoryDescribed, ReduceTileCombinesInsideAndDropsOutside) {
  using Combine = Bits (*)(Type, Bits, Bits);
  const std::map<std::string, Combine> of_ints = {{"add", ref::ints::add},   {"min", ref::ints::min},
                                                  {"max", ref::ints::max},   {"and", ref::ints::bit_and},
                                                  {"or", ref::ints::bit_or}, {"xor", ref::ints::bit_xor}};
  const std::map<std::string, Combine> of_floats = {
      {"add", ref::floats::add},
      {"min", [](Type t, Bits a, Bits b) { return ref::floats::min(t, a, b); }},
      {"max", [](Type t, Bits a, Bits b) { return ref::floats::max(t, a, b); }}};
  size_t turn = 0;
  for (const Type type : ref::kAllTypes) {
    if (type == Type::kI1) continue;
    for (const auto& [kind, combine] : ref::is_float(type) ? of_floats : of_ints) {
      const View& view = all_views()[++turn % all_views().size()];
      Column memory = ref::random_elements(type, elements_of(view), turn);
      Column block = ref::random_elements(type, ref::count(view.block), turn + 99);
      if (kind != "add") without_f8_infinities(type, memory), without_f8_infinities(type, block);
      const dsl::Kernel kernel = instantiated(kernel_text(
          view, type, "", "%x = load %tq\nreduce_tile %d, %x" + offset_text(view) + " {kind = " + kind + "}"));
      for (const Shape& offsets : offsets_of(view, turn)) {
        Column expected = memory;
        for (size_t i = 0; i < block.size(); ++i) {
          const int64_t at = place(view, offsets, ref::index_of(view.block, static_cast<int64_t>(i)));
          if (at >= 0) expected[static_cast<size_t>(at)] = combine(type, expected[static_cast<size_t>(at)], block[i]);
        }
        const Column out = launch(kernel, type, view, offsets, memory, block)[0].elements;
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_TRUE(ref::same(type, out[i], expected[i], kind != "add"))
              << type_name(type) << " " << kind << " " << hex({memory[i], out[i], expected[i]});
        }
      }
    }
  }
}

// Block 1 by 4 of an array of 6 by 5, rows by number: twice the same, negative, beyond.
TEST(MemoryDescribed, GatherRowsByNumberFromAColumnOn) {
  for (const Type type : ref::kAllTypes) {
    for (const bool nan : {false, true}) {
      if (nan && !ref::is_float(type)) continue;
      const std::string element_text = type_name(type);
      const dsl::Kernel kernel = instantiated("kernel k(%m: ptr<" + element_text +
                                              ">, %r: ptr<i32>, %c: i32, %o: ptr<" + element_text + R"(>) {
  %h = constant {value = 6, type = i32}
  %w = constant {value = 5, type = i32}
  %s = constant {value = 8, type = i32}
  %d = descriptor %m, %h, %w, %s {block = [1, 4], fill = )" +
                                              (nan ? "nan" : "zero") + R"(}
  %i = arange {start = 0, end = 9}
  %rs = splat %r {shape = [9]}
  %rq = addptr %rs, %i
  %rows = load %rq
  %x = gather_rows %d, %rows, %c
  %j = arange {start = 0, end = 36}
  %os = splat %o {shape = [36]}
  %oq = addptr %os, %j
  %y = reshape %x {shape = [36]}
  store %oq, %y
})");
      const std::vector<int64_t> rows = {0, 5, 5, -1, 6, 2, 2147483647, -2147483648, 3};
      const Column memory = ref::random_bits(type, 45, 3);
      for (const int64_t column : {0, 1, 2, -1, -3, -4, 4, 5, 2147483647, -2147483647 - 1}) {
        Column row_bits;
        for (const int64_t row : rows) row_bits.push_back(static_cast<uint32_t>(row));
        std::vector<Buffer> buffers = {{type, memory},
                                       {Type::kI32, row_bits},
                                       {Type::kI32, {static_cast<uint32_t>(column)}, true},
                                       {type, Column(36)}};
        ASSERT_EQ(try_run(kernel, buffers), "");
        for (size_t i = 0; i < 36; ++i) {
          const int64_t row = rows[i / 4], at = column + static_cast<int64_t>(i % 4);
          const bool inside = row >= 0 && row < 6 && at >= 0 && at < 5;
          const Bits fill = nan ? ref::format(type).quiet_nan() : 0;
          ASSERT_TRUE(
              ref::same(type, buffers[3].elements[i], inside ? memory[static_cast<size_t>(row * 8 + at)] : fill))
              << element_text << " row " << row << " column " << at;
        }
      }
    }
  }
}

TEST(MemoryDescribed, ExtentsOffsetsAndRowsAreIntsOfAnyType) {
  for (const Type type : ref::kIntTypes) {
    const std::string t = type_name(type);
    const auto ran = run("kernel k(%m: ptr<i16>, %h: " + t + ", %w: " + t + ", %f: " + t + R"(, %o: ptr<i16>) {
  %d = descriptor %m, %h, %w, %w {block = [2, 3]}
  %x = load_tile %d, %f, %f
  %i = arange {start = 0, end = 6}
  %os = splat %o {shape = [6]}
  %oq = addptr %os, %i
  %y = reshape %x {shape = [6]}
  store %oq, %y
})",
                         {{Type::kI16, {1, 2, 3, 4, 5, 6}},
                          {type, {2}, true},
                          {type, {3}, true},
                          {type, {1}, true},
                          {Type::kI16, Column(6)}});
    EXPECT_EQ(ran[4].elements, (Column{5, 6, 0, 0, 0, 0})) << t;
  }
}

TEST(MemoryDescribed, ReduceTileOfProgramsThatShareElementsIsAtomicAndOrdersZeros) {
  const auto reduced = [](const std::string& kind, const Column& memory, Bits x) {
    return run("kernel k(%m: ptr<f32>, %x: f32) {\n%n = constant {value = 4, type = i32}\n"
               "%z = constant {value = 0, type = i32}\n%d = descriptor %m, %n {block = [4]}\n"
               "%t = splat %x {shape = [4]}\nreduce_tile %d, %t, %z {kind = " +
                   kind + "}\n}",
               {{Type::kF32, memory}, {Type::kF32, {x}, true}}, {3, 1, 1})[0]
        .elements;  // races are checked
  };
  const Bits minus = 0x80000000;
  EXPECT_EQ(reduced("add", Column(4), 0x3fc00000), Column(4, 0x40900000));  // 3 · 1.5
  EXPECT_EQ(reduced("min", {0, minus, 0, minus}, 0), (Column{0, minus, 0, minus}));
  EXPECT_EQ(reduced("min", {0, minus, 0, minus}, minus), Column(4, minus));
  EXPECT_EQ(reduced("max", {0, minus, 0, minus}, 0), Column(4));
  EXPECT_EQ(reduced("max", {0, minus, 0, minus}, minus), (Column{0, minus, 0, minus}));
}

}  // namespace
}  // namespace kiln::oracle
