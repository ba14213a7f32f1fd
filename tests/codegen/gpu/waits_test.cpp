// What keeps threads of a GPU from waiting: programs of one warp side by side in a block, reductions that share a
// barrier, loads ahead of them, columns that a thread scans by itself.
#include "algebra_case.h"
#include "gpu/passes/gather_waits.h"
#include "kiln/dsl/text.h"

namespace kiln::test {
namespace {

using dsl::ElementType;

// Each program sums, sorts and scans a row in shared memory of its own; the last block has programs beyond the grid.
constexpr char kRows[] = R"(kernel k(%x: ptr<i32> readonly, %y: ptr<i32>, %count: ptr<i32>, %rows: i32) {
  grid [rows + 1, 1, 2]
  %row = program_id {axis = 0}
  %all = num_programs {axis = 0}
  %half = program_id {axis = 2}
  %base = mul %half, %all
  %number = add %base, %row
  %width = constant {value = 70, type = i32}
  %start = mul %number, %width
  %i = arange {start = 0, end = 70}
  %first = splat %start {shape = [70]}
  %at = add %first, %i
  %px = splat %x {shape = [70]}
  %qx = addptr %px, %at
  %v = load %qx
  %total = reduce %v {kind = sum, axis = 0}
  %sorted = sort %v {axis = 0}
  %back = scan %sorted {kind = sum, axis = 0, reverse = 1}
  %spread = splat %total {shape = [70]}
  %out = xor %back, %spread
  %py = splat %y {shape = [70]}
  %qy = addptr %py, %at
  store %qy, %out
  %pc = addptr %count, %number
  store %pc, %all
})";

TEST(GpuWaits, ProgramsOfOneWarpShareABlockAndEndWithTheGrid) {
  for (int64_t rows : {0, 2, 4}) {
    const auto count = static_cast<size_t>(2 * (rows + 1));
    expect_same(kRows,
                {{random_buffer(ElementType::kI32, 70 * count, 1), random_buffer(ElementType::kI32, 70 * count, 2),
                  random_buffer(ElementType::kI32, count, 3), int_scalar(rows)},
                 kExact,
                 {"gpu:warps=1,programs=4", "gpu:warps=1,lanes=64,programs=2", "gpu:warps=1,programs=1"}});
  }
}

// Two sums of one row, the second of which was behind what the first was for; a load behind both.
constexpr char kNorm[] = R"(kernel k(%x: ptr<f32> readonly, %w: ptr<f32> readonly, %y: ptr<f32>) {
  %i = arange {start = 0, end = 256}
  %px = splat %x {shape = [256]}
  %qx = addptr %px, %i
  %v = load %qx
  %sum = reduce %v {kind = sum, axis = 0}
  %mean = splat %sum {shape = [256]}
  %square = mul %v, %v
  %squares = reduce %square {kind = sum, axis = 0}
  %scale = splat %squares {shape = [256]}
  %centred = sub %v, %mean
  %rest = reduce %centred {kind = max, axis = 0}
  %pw = splat %w {shape = [256]}
  %qw = addptr %pw, %i
  %weight = load %qw
  %scaled = mul %weight, %scale
  %top = splat %rest {shape = [256]}
  %out = add %scaled, %top
  %py = splat %y {shape = [256]}
  %qy = addptr %py, %i
  store %qy, %out
})";

std::vector<std::string> codes(const dsl::Kernel& kernel) {
  std::vector<std::string> out;
  for (const dsl::Op& op : kernel.body.ops) {
    const std::string name = dsl::info(op.code).name;
    if (name == "load" || name == "reduce" || name == "store") out.push_back(name);
  }
  return out;
}

TEST(GpuWaits, LoadsComeBeforeReductionsAndReductionsTogether) {
  using Names = std::vector<std::string>;
  const dsl::Kernel kernel = parse_kernel(kNorm);
  EXPECT_EQ(codes(kernel), (Names{"load", "reduce", "reduce", "reduce", "load", "store"}));
  const dsl::Kernel gathered = codegen::gpu::gather_waits(kernel, 64);
  EXPECT_EQ(codes(gathered), (Names{"load", "load", "reduce", "reduce", "reduce", "store"}));
  size_t first = 0;
  while (dsl::info(gathered.body.ops[first].code).name != std::string("reduce")) ++first;
  EXPECT_EQ(gathered.body.ops[first + 1].code, dsl::OpCode::kReduce);  // behind one another
  // A thread has no registers for more than 64 bytes ahead.
  EXPECT_EQ(codes(codegen::gpu::gather_waits(kernel, 8)),
            (Names{"load", "reduce", "reduce", "reduce", "load", "store"}));
}

TEST(GpuWaits, ReductionsTogetherAreWhatTheyAreAlone) {
  const Match sums{1e-5, 1e-4, true};
  expect_same(kNorm, {{random_buffer(ElementType::kF32, 256, 1, false), random_buffer(ElementType::kF32, 256, 2, false),
                       random_buffer(ElementType::kF32, 256, 3)},
                      sums,
                      {"gpu:warps=1", "gpu:warps=4", "gpu:warps=8", "gpu:warps=2,lanes=64"}});
}

// A store that may change what is loaded stays before the load.
TEST(GpuWaits, LoadsStayBehindStores) {
  const std::string text = R"(kernel k(%x: ptr<i32>, %y: ptr<i32>) {
  %i = arange {start = 0, end = 128}
  %px = splat %x {shape = [128]}
  %qx = addptr %px, %i
  %v = load %qx
  %sum = reduce %v {kind = sum, axis = 0}
  %all = splat %sum {shape = [128]}
  store %qx, %all
  %again = load %qx
  %more = reduce %again {kind = sum, axis = 0}
  store %y, %more
})";
  expect_same(text, {{random_buffer(ElementType::kI32, 128, 1), random_buffer(ElementType::kI32, 1, 2)},
                     kExact,
                     {"gpu:warps=1", "gpu:warps=4"}});
}

TEST(GpuWaits, ColumnsAreScannedByThreadsOfTheirOwn) {
  for (const TextKernel::Shape& shape : {TextKernel::Shape{32, 32}, {64, 128}, {20, 33}, {4, 8, 16}}) {
    AlgebraCase test(shape, {{ElementType::kI32, random_buffer(ElementType::kI32, elements_of(shape), 1), ""}});
    for (size_t axis = 0; axis + 1 < shape.size(); ++axis) {
      test.apply("scan %x0 {kind = sum, axis = " + std::to_string(axis) + "}", {{ElementType::kI32, shape}});
    }
    test.check({"gpu:warps=1", "gpu:warps=4", "gpu:warps=16", "gpu:warps=2,lanes=64"});
  }
}

// Sums that a loop scales and adds up, whose lanes meet behind it; one of them begins with what is no zero, and meets
// in each iteration. Also of loops that run never.
constexpr char kScaledSums[] = R"(kernel k(%x: ptr<i32> readonly, %y: ptr<i32>, %end: i32) {
  %i = arange {start = 0, end = 4}
  %j = arange {start = 0, end = 64}
  %zero = constant {value = 0, type = i32}
  %step = constant {value = 256, type = i32}
  %width = constant {value = 64, type = i32}
  %seven = constant {value = 7, type = i32}
  %rows = expand_dims %i {axis = 1}
  %columns = expand_dims %j {axis = 0}
  %widths = splat %width {shape = [4, 1]}
  %starts = mul %rows, %widths
  %all_starts = broadcast %starts {shape = [4, 64]}
  %all_columns = broadcast %columns {shape = [4, 64]}
  %at = add %all_starts, %all_columns
  %px = splat %x {shape = [4, 64]}
  %qx = addptr %px, %at
  %zeros = splat %zero {shape = [4]}
  %sevens = splat %seven {shape = [4]}
  %scaled, %plain = for %k = %zero to %end step %step carry (%a = %zeros, %b = %sevens) {
    %skip = splat %k {shape = [4, 64]}
    %rx = addptr %qx, %skip
    %v = load %rx
    %top = reduce %v {kind = max, axis = 1}
    %sum = reduce %v {kind = sum, axis = 1}
    %again = xor %v, %skip
    %other = reduce %again {kind = sum, axis = 1}
    %more = mul %top, %a
    %next = add %sum, %more
    %less = mul %b, %top
    %last = add %less, %other
    yield %next, %last
  }
  %py = splat %y {shape = [4]}
  %qy = addptr %py, %i
  store %qy, %scaled
  %four = constant {value = 4, type = i32}
  %fours = splat %four {shape = [4]}
  %ry = addptr %qy, %fours
  store %ry, %plain
})";

TEST(GpuWaits, LanesMeetBehindALoopThatScalesTheirSums) {
  for (int64_t end : {0, 768}) {
    expect_same(kScaledSums,
                {{random_buffer(ElementType::kI32, 768, 1), random_buffer(ElementType::kI32, 8, 2), int_scalar(end)},
                 kExact,
                 {"gpu:warps=4", "gpu:warps=1,programs=4", "gpu:warps=2,lanes=64"}});
  }
}

}  // namespace
}  // namespace kiln::test
