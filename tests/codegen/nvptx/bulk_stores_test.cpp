// Large tiles of products that the bulk engine stores: with bounds, in several boxes, of several types.
#include <gmock/gmock.h>

#include "cuda_device.h"
#include "differential.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using dsl::ParamFact;

struct StoreCase {
  std::string name;
  ElementType out = ElementType::kF32;
  int64_t rows = 64, columns = 64;  // of the tile
  int64_t n = 100, m = 112;         // of the array
  bool transposed = false;          // the array is stored column by column
  bool is_bulk = true;
};
void PrintTo(const StoreCase& test, std::ostream* out) { *out << test.name; }

constexpr int64_t kLine = 256;  // elements from one line of an array to the next

std::string name_of(ElementType element) { return std::string(dsl::info(element).name); }

// Tile (pid0, pid1) of a·b, a of [n, 32], b of [32, m].
std::string product_kernel(const StoreCase& test) {
  TextKernel k("%a: ptr<f16> readonly, %b: ptr<f16> readonly, %n: i32, %m: i32, %ld: i32, %out: ptr<" +
               name_of(test.out) + ">");
  const auto along = [](int64_t n, int64_t tile) { return std::to_string((n + tile - 1) / tile); };
  k.grid = along(test.n, test.rows) + ", " + along(test.m, test.columns) + ", 1";
  const std::string rows = std::to_string(test.rows), columns = std::to_string(test.columns);
  const std::string shape = TextKernel::list({test.rows, test.columns});
  const std::string row =
      k.op("mul " + k.op("program_id {axis = 0} : i32") + ", " + k.constant(rows, "i32") + " : i32");
  const std::string column =
      k.op("mul " + k.op("program_id {axis = 1} : i32") + ", " + k.constant(columns, "i32") + " : i32");
  const auto moved = [&](const std::string& x, const TextKernel::Shape& of, size_t axis) {
    return k.op("add " + k.along(of, axis) + ", " + k.splat(x, of) + " : tile<" + TextKernel::list(of) + ", i32>");
  };
  const auto typed = [](const TextKernel::Shape& of, const std::string& element) {
    return "tile<" + TextKernel::list(of) + ", " + element + ">";
  };
  // The load of one operand, of which an axis is bounded.
  const auto operand = [&](const std::string& param, const TextKernel::Shape& of, size_t bounded,
                           const std::string& start, const std::string& bound) {
    const std::string at = moved(start, of, bounded), other = k.along(of, 1 - bounded);
    const std::string line = bounded == 0 ? at : other, place = bounded == 0 ? other : at;
    const std::string lines = k.op("mul " + line + ", " + k.splat("%ld", of) + " : " + typed(of, "i32"));
    const std::string index = k.op("add " + lines + ", " + place + " : " + typed(of, "i32"));
    const std::string pointers = k.op("addptr " + k.splat(param, of) + ", " + index + " : " + typed(of, "ptr<f16>"));
    const std::string mask = k.op("cmp " + at + ", " + k.splat(bound, of) + " {pred = lt} : " + typed(of, "i1"));
    return k.op("load " + pointers + ", " + mask + " : " + typed(of, "f16"));
  };
  const std::string a = operand("%a", {test.rows, 32}, 0, row, "%n");
  const std::string b = operand("%b", {32, test.columns}, 1, column, "%m");
  const TextKernel::Shape tile = {test.rows, test.columns};
  std::string value = k.op("dot " + a + ", " + b + ", " + k.fill("0.0", "f32", tile) + " : " + typed(tile, "f32"));
  if (test.out != ElementType::kF32) {
    value = k.op("cast " + value + " {to = " + name_of(test.out) + "} : " + typed(tile, name_of(test.out)));
  }
  const std::string r = moved(row, tile, 0), c = moved(column, tile, 1);
  const std::string line = test.transposed ? c : r, place = test.transposed ? r : c;
  const std::string lines = k.op("mul " + line + ", " + k.splat("%ld", tile) + " : " + typed(tile, "i32"));
  const std::string index = k.op("add " + lines + ", " + place + " : " + typed(tile, "i32"));
  const std::string pointers =
      k.op("addptr " + k.splat("%out", tile) + ", " + index + " : " + typed(tile, "ptr<" + name_of(test.out) + ">"));
  const auto below = [&](const std::string& x, const std::string& bound) {
    return k.op("cmp " + x + ", " + k.splat(bound, tile) + " {pred = lt} : " + typed(tile, "i1"));
  };
  const std::string mask = k.op("and " + below(r, "%n") + ", " + below(c, "%m") + " : " + typed(tile, "i1"));
  k.line("store " + pointers + ", " + value + ", " + mask);
  return k.text();
}

dsl::Facts facts_of(const StoreCase& test) {
  const auto of = [](int64_t extent) { return extent % 16 == 0 ? ParamFact::kMultiple16 : ParamFact::kNone; };
  return {ParamFact::kAlign16, ParamFact::kAlign16,    of(test.n),
          of(test.m),          ParamFact::kMultiple16, ParamFact::kAlign16};
}

class BulkStores : public testing::TestWithParam<StoreCase> {};

TEST_P(BulkStores, WriteWhatTheInterpreterWrites) {
  const StoreCase& test = GetParam();
  const std::string text = product_kernel(test);
  SCOPED_TRACE(text);
  const dsl::Kernel kernel = parse_kernel(text);
  std::vector<TestArgument> arguments = {
      random_buffer(ElementType::kF16, static_cast<size_t>(kLine * test.n), 1, false),
      random_buffer(ElementType::kF16, static_cast<size_t>(kLine * 32), 2, false),
      int_scalar(test.n),
      int_scalar(test.m),
      int_scalar(kLine),
      random_buffer(test.out, static_cast<size_t>(kLine * 256), 3, false)};
  std::vector<TestArgument> expected = arguments;
  const dsl::Facts facts = facts_of(test);
  ASSERT_TRUE(run_interpreted(kernel, {}, facts, expected).ok());
  for (const int warps : {4, 1, 8}) {
    const std::string target = on_cuda() ? "" : "gpu:warps=" + std::to_string(warps);
    const dsl::ConstexprValues config = on_cuda() ? dsl::ConstexprValues{{"num_warps", warps}} : dsl::ConstexprValues();
    const auto artifact = compile(kernel, config, facts, target);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    EXPECT_EQ(artifact->metadata.device->tensor_maps.size(), test.is_bulk ? 1u : 0u);
    std::vector<TestArgument> actual = arguments;
    const auto done = run_compiled(kernel, *artifact, actual);
    ASSERT_TRUE(done.ok()) << warps << " warps: " << done.error().message;
    std::string explanation;
    const Match match{.rtol = test.out == ElementType::kF32 ? 1e-3 : 1e-2, .atol = 1e-2};
    EXPECT_EQ(count_differences(test.out, actual[5].buffer, expected[5].buffer, match, explanation), 0u)
        << warps << " warps\n"
        << explanation;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, BulkStores,
                         testing::Values(StoreCase{"F32", ElementType::kF32}, StoreCase{"F16", ElementType::kF16},
                                         StoreCase{"BF16OfOnePanel", ElementType::kBF16, 64, 64, 64, 64},
                                         StoreCase{"NarrowLines", ElementType::kBF16, 128, 16, 130, 48},
                                         StoreCase{"Transposed", ElementType::kBF16, 64, 64, 96, 120, true},
                                         // The engine would write what is behind the end of each line.
                                         StoreCase{"LinesEndInside16Bytes", ElementType::kBF16, 64, 64, 100, 120, true,
                                                   false}),
                         [](const testing::TestParamInfo<StoreCase>& info) { return info.param.name; });

std::string ptx_of(const dsl::Kernel& kernel, const dsl::Facts& facts, const std::string& target) {
  const auto artifact = compile(kernel, {}, facts, target, "ptx");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

TEST(BulkStoresOnNvidia, PublishWhatWasWrittenAndWaitUntilItIsRead) {
  const StoreCase test{"F32", ElementType::kF32};
  const std::string ptx = ptx_of(parse_kernel(product_kernel(test)), facts_of(test), "cuda:sm_90");
  size_t at = 0;
  for (const char* next : {".param .align 64 .b8 kiln_entry_param_6[128]", "st.shared", "fence.proxy.async.shared::cta",
                           "bar.sync", "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group",
                           "cp.async.bulk.commit_group", "cp.async.bulk.wait_group.read 0", "ret;"}) {
    const size_t found = ptx.find(next, at);
    ASSERT_NE(found, std::string::npos) << next << " behind " << ptx.substr(at, 100);
    at = found;
  }
  EXPECT_EQ(ptx.find("st.global"), std::string::npos);
  EXPECT_EQ(ptx.find("st.local"), std::string::npos) << "the map is copied";
}

TEST(BulkStoresOnNvidia, AreDescribedForTheHost) {
  const StoreCase test{"BF16", ElementType::kBF16};
  const dsl::Kernel kernel = parse_kernel(product_kernel(test));
  for (const char* target : {"cuda:sm_90", "cuda:sm_90a"}) {
    const auto artifact = compile(kernel, {}, facts_of(test), target);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    const abi::Device& device = *artifact->metadata.device;
    ASSERT_EQ(device.tensor_maps.size(), 1u);
    const abi::TensorMap& map = device.tensor_maps[0];
    EXPECT_EQ(map.param, 5u);
    EXPECT_EQ(map.element, ElementType::kBF16);
    EXPECT_EQ(map.dims.size(), 2u);
    EXPECT_EQ(map.box, (std::vector<int64_t>{64, 64}));
    EXPECT_EQ(map.swizzle_bytes, 128);
    EXPECT_EQ(map.strides_bytes, (std::vector<dsl::Expr>{dsl::Expr(2) * dsl::Expr::param_ref(4)}));
    if (artifact->metadata.emit == "ptx") continue;  // no assembler on this machine
    EXPECT_THAT(device.warnings.value(), testing::IsEmpty());
  }
}

TEST(BulkStoresOnNvidia, AreLeftToThreadsWhereTheyCannotBe) {
  const StoreCase test{"F32", ElementType::kF32};
  const dsl::Kernel kernel = parse_kernel(product_kernel(test));
  EXPECT_EQ(ptx_of(kernel, {}, "cuda:sm_90").find("cp.async.bulk"), std::string::npos) << "unaligned";
  EXPECT_EQ(ptx_of(kernel, facts_of(test), "cuda:sm_89").find("cp.async.bulk"), std::string::npos) << "no engine";
}

}  // namespace
}  // namespace kiln::test
