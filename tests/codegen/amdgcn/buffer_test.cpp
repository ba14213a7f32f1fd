// Accesses to global memory by an address that all threads have alike and offsets of 32 bits: AMD's buffer
// instructions, on each generation; in the emulator of the lowering, warps of 64.
#include "differential.h"

namespace kiln::test {
namespace {

using dsl::ElementType;

const std::vector<std::string> kTargets = {"amd:gfx906",  "amd:gfx90a",  "amd:gfx942",  "amd:gfx950",
                                           "amd:gfx1100", "amd:gfx1200", "amd:gfx1250", "gpu:warps=2,lanes=64"};

void expect_same_by_offsets(const std::string& text, std::vector<TestArgument> arguments) {
  Trial run;
  run.arguments = std::move(arguments);
  run.targets = kTargets;
  expect_same(text, run);
}

// A row of 300 elements, masked at both ends, from a place that depends on the program and on what memory holds.
std::string masked_copy(const std::string& type, const std::string& other, const std::string& hints) {
  return "kernel test(%x: ptr<" + type + "> readonly, %start: ptr<i32> readonly, %y: ptr<" + type +
         ">, %n: i32) {\n  grid [3, 1, 1]\n"
         "  %pid = program_id {axis = 0} : i32\n"
         "  %sp = addptr %start, %pid : ptr<i32>\n"
         "  %s = load %sp : i32\n"
         "  %i = arange {start = 0, end = 300} : tile<[300], i32>\n"
         "  %st = splat %s {shape = [300]} : tile<[300], i32>\n"
         "  %at = add %st, %i : tile<[300], i32>\n"
         "  %xt = splat %x {shape = [300]} : tile<[300], ptr<" +
         type +
         ">>\n"
         "  %xp = addptr %xt, %at : tile<[300], ptr<" +
         type +
         ">>\n"
         "  %nt = splat %n {shape = [300]} : tile<[300], i32>\n"
         "  %below = cmp %at, %nt {pred = lt} : tile<[300], i1>\n"
         "  %five = constant {value = 5, type = i32} : i32\n"
         "  %fives = splat %five {shape = [300]} : tile<[300], i32>\n"
         "  %above = cmp %i, %fives {pred = ge} : tile<[300], i1>\n"
         "  %mask = and %below, %above : tile<[300], i1>\n"
         "  %o = constant {value = " +
         other + ", type = " + type + "} : " + type +
         "\n"
         "  %ot = splat %o {shape = [300]} : tile<[300], " +
         type +
         ">\n"
         "  %v = load %xp, %mask, %ot" +
         hints + " : tile<[300], " + type +
         ">\n"
         "  %c = constant {value = 300, type = i32} : i32\n"
         "  %row = mul %pid, %c : i32\n"
         "  %y0 = addptr %y, %row : ptr<" +
         type +
         ">\n"
         "  %yt = splat %y0 {shape = [300]} : tile<[300], ptr<" +
         type +
         ">>\n"
         "  %yp = addptr %yt, %i : tile<[300], ptr<" +
         type +
         ">>\n"
         "  store %yp, %v, %below\n}\n";
}

TEST(OffsetAccesses, LoadAndStoreEachTypeUnderMasks) {
  for (ElementType type : {ElementType::kF32, ElementType::kF64, ElementType::kF16, ElementType::kBF16,
                           ElementType::kI8, ElementType::kI16, ElementType::kI64}) {
    for (const char* other : {"0", "3"}) {
      const std::string literal = std::string(other) + (dsl::is_float(type) ? ".0" : "");
      expect_same_by_offsets(
          masked_copy(std::string(dsl::info(type).name), literal, ""),
          {random_buffer(type, 700, 1), buffer<int32_t>({0, 200, 650}), random_buffer(type, 900, 2), int_scalar(700)});
    }
  }
}

// Rows that are a parameter apart; the kernel says how far that is at most.
TEST(OffsetAccesses, ReachRowsOfABoundedStride) {
  const std::string text =
      "kernel test(%x: ptr<f32> readonly, %y: ptr<f32>, %ld: i32, %m: i32) {\n  grid [2, 1, 1]\n"
      "  assume %ld {low = 0, high = 65536}\n"
      "  %pid = program_id {axis = 0} : i32\n"
      "  %c = constant {value = 16, type = i32} : i32\n"
      "  %first = mul %pid, %c : i32\n"
      "  %i = arange {start = 0, end = 16} : tile<[16], i32>\n"
      "  %ft = splat %first {shape = [16]} : tile<[16], i32>\n"
      "  %r = add %ft, %i : tile<[16], i32>\n"
      "  %lt = splat %ld {shape = [16]} : tile<[16], i32>\n"
      "  %ro = mul %r, %lt : tile<[16], i32>\n"
      "  %re = expand_dims %ro {axis = 1} : tile<[16, 1], i32>\n"
      "  %rb = broadcast %re {shape = [16, 32]} : tile<[16, 32], i32>\n"
      "  %j = arange {start = 0, end = 32} : tile<[32], i32>\n"
      "  %je = expand_dims %j {axis = 0} : tile<[1, 32], i32>\n"
      "  %jb = broadcast %je {shape = [16, 32]} : tile<[16, 32], i32>\n"
      "  %o = add %rb, %jb : tile<[16, 32], i32>\n"
      "  %mt = splat %m {shape = [16]} : tile<[16], i32>\n"
      "  %in = cmp %r, %mt {pred = lt} : tile<[16], i1>\n"
      "  %ie = expand_dims %in {axis = 1} : tile<[16, 1], i1>\n"
      "  %mask = broadcast %ie {shape = [16, 32]} : tile<[16, 32], i1>\n"
      "  %xt = splat %x {shape = [16, 32]} : tile<[16, 32], ptr<f32>>\n"
      "  %xp = addptr %xt, %o : tile<[16, 32], ptr<f32>>\n"
      "  %v = load %xp, %mask : tile<[16, 32], f32>\n"
      "  %yt = splat %y {shape = [16, 32]} : tile<[16, 32], ptr<f32>>\n"
      "  %yp = addptr %yt, %o : tile<[16, 32], ptr<f32>>\n"
      "  store %yp, %v, %mask\n}\n";
  for (int64_t rows : {1, 15, 16, 27}) {
    expect_same_by_offsets(text, {random_buffer(ElementType::kF32, 40 * 27, 1),
                                  random_buffer(ElementType::kF32, 40 * 27, 2), int_scalar(40), int_scalar(rows)});
  }
}

// Each program has a place of its own, whether the chiplets divide the grid or not.
TEST(Chiplets, GetEachProgramOnce) {
  for (int programs : {1, 5, 8, 16, 21}) {
    for (int chiplets : {2, 8}) {
      const std::string text =
          "kernel test(%y: ptr<i32>) {\n  defaults \"amd\" {chiplets = " + std::to_string(chiplets) + "}\n  grid [" +
          std::to_string(programs) +
          ", 2, 1]\n"
          "  %x = program_id {axis = 0} : i32\n"
          "  %w = program_id {axis = 1} : i32\n"
          "  %n = num_programs {axis = 0} : i32\n"
          "  %row = mul %w, %n : i32\n"
          "  %at = add %row, %x : i32\n"
          "  %p = addptr %y, %at : ptr<i32>\n"
          "  %old = load %p : i32\n"
          "  %new = add %old, %at : i32\n"
          "  store %p, %new\n}\n";
      Trial run;
      run.arguments = {random_buffer(ElementType::kI32, static_cast<size_t>(2 * programs), 1)};
      run.targets = {"amd:gfx942", "amd:gfx1100"};
      expect_same(text, run);
    }
  }
}

}  // namespace
}  // namespace kiln::test
