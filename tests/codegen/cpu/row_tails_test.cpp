// What is left over of a row: chunks of one register with a mask, in stores, copies and reductions alike.
#include <regex>

#include "differential.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

using dsl::ElementType;

// The sums, extremes and places of a row of n elements, and the row with itself from behind added.
std::string row_kernel(int64_t extent, const std::string& element) {
  TextKernel kernel("%x: ptr<" + element + ">, %o: ptr<" + element + ">, %r: ptr<" + element +
                    ">, %p: ptr<i32>, %n: i32");
  const TextKernel::Shape shape = {extent};
  const std::string mask = kernel.mask(shape, {"%n"});
  const std::string low = kernel.fill("-3", element, shape);
  const std::string v = kernel.op("load " + kernel.pointers("%x", shape) + ", " + mask + ", " + low);
  int64_t place = 0;
  for (const char* kind : {"sum", "max", "min", "argmax", "argmin"}) {
    const std::string all = kernel.op("reduce " + v + " {kind = " + kind + ", axis = 0}");
    const bool is_index = std::string(kind).starts_with("arg");
    const std::string to = is_index ? "%p" : "%r";
    kernel.line("store " + kernel.op("addptr " + to + ", " + kernel.constant(std::to_string(place++), "i32")) + ", " +
                all);
  }
  const std::string reversed =
      kernel.op("sub " + kernel.fill(std::to_string(extent - 1), "i32", shape) + ", " + kernel.index(shape));
  const std::string turned = kernel.op("gather " + v + ", " + reversed + " {axis = 0}");
  kernel.line("store " + kernel.pointers("%o", shape) + ", " + kernel.op("add " + v + ", " + turned) + ", " + mask);
  return kernel.text();
}

TEST(TailsOnCpu, RowsOfAnyLength) {
  for (const auto& [element, extent] :
       std::vector<std::pair<const char*, int64_t>>{{"f32", 7}, {"f32", 75}, {"f32", 200}, {"f64", 75}, {"i8", 200}}) {
    const ElementType type = *dsl::parse_element_type(element);
    for (int64_t n : {int64_t{1}, extent / 3, extent - 1}) {
      Trial run;
      // Reads behind the row are a crash: the buffer ends with it.
      run.arguments = {random_buffer(type, static_cast<size_t>(n), 1, false),
                       random_buffer(type, static_cast<size_t>(extent), 2), random_buffer(type, 3, 3),
                       random_buffer(ElementType::kI32, 5, 4), int_scalar(n)};
      run.match = {1e-5, 1e-5, true};
      expect_same(row_kernel(extent, element), run);
    }
  }
}

// Long enough a row that its sum moves to a wider total now and then.
TEST(TailsOnCpu, SumsInBlocks) {
  for (int64_t n : {2047, 2048, 2049, 4001, 5000}) {
    TextKernel kernel("%x: ptr<f32>, %o: ptr<f32>, %n: i32");
    const std::string mask = kernel.mask({5000}, {"%n"});
    const std::string v = kernel.op("load " + kernel.pointers("%x", {5000}) + ", " + mask);
    kernel.line("store %o, " + kernel.op("reduce " + v + " {kind = sum, axis = 0}"));
    Trial run;
    run.arguments = {random_buffer(ElementType::kF32, static_cast<size_t>(n), 1, false),
                     random_buffer(ElementType::kF32, 1, 2), int_scalar(n)};
    run.match = {1e-5, 1e-4};
    expect_same(kernel.text(), run);
  }
}

TEST(TailsOnCpu, AreOneRegisterWide) {
  TextKernel kernel("%x: ptr<f32>, %o: ptr<f32>, %n: i32");
  const std::string mask = kernel.mask({1024}, {"%n"});
  const std::string v = kernel.op("load " + kernel.pointers("%x", {1024}) + ", " + mask);
  kernel.line("store " + kernel.pointers("%o", {1024}) + ", " + kernel.op("neg " + v) + ", " + mask);
  auto artifact = compile(parse_kernel(kernel.text()), {}, {}, "cpu:x86-64-v3", "llvm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string text(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
  EXPECT_NE(text.find("load <32 x float>"), std::string::npos) << text;
  EXPECT_NE(text.find("@llvm.masked.load.v8f32"), std::string::npos) << text;
  EXPECT_EQ(text.find("@llvm.masked.load.v32f32"), std::string::npos) << text;
}

// The condition on an axis of one place is a scalar's: it holds for the whole tile or for nothing of it, and is no mask
// by lanes.
TEST(TailsOnCpu, OfATileOfOneRow) {
  TextKernel kernel("%x: ptr<f32>, %o: ptr<f32>, %m: i32, %n: i32");
  const TextKernel::Shape shape = {1, 1024};
  const std::string mask = kernel.mask(shape, {"%m", "%n"});
  const std::string v = kernel.op("load " + kernel.pointers("%x", shape) + ", " + mask);
  kernel.line("store " + kernel.pointers("%o", shape) + ", " + kernel.op("neg " + v) + ", " + mask);
  auto artifact = compile(parse_kernel(kernel.text()), {}, {}, "cpu:x86-64-v3", "llvm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string text(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
  EXPECT_NE(text.find("load <32 x float>"), std::string::npos) << text;
  EXPECT_EQ(text.find("@llvm.masked.load.v32f32"), std::string::npos) << text;
  for (int m : {0, 1}) {
    for (int n : {1, 37, 1024}) {
      expect_same(kernel.text(), {{random_buffer(ElementType::kF32, static_cast<size_t>(n), 1, false),
                                   random_buffer(ElementType::kF32, 1024, 2), int_scalar(m), int_scalar(n)},
                                  kExact});
    }
  }
}

// A load's mask that is no bound makes the lanes behind the interior be walked one vector after the other: to where the
// store's mask ends, not to where the tile does.
TEST(TailsOnCpu, StoresWalkNoFurtherThanTheirMask) {
  const dsl::Kernel& kernel = *kernels::conv2d_depthwise<>().ir();
  const auto artifact = compile(kernel, {{"BC", 128}}, {}, "cpu:x86-64-v3", "asm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string text(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
  EXPECT_NE(text.find("vmaskmovps"), std::string::npos);
  EXPECT_FALSE(std::regex_search(text, std::regex("cmpq\\s+\\$128, %\\w+\\n\\s+jl"))) << text;
}

// A tile that is stored where it was loaded, the other way round, is kept in scratch meanwhile. The vector that a bound
// ends in has what the load names for lanes that are off, where several elements of a small axis lie side by side too.
TEST(TailsOnCpu, OfSmallAxesKeepWhatTheLoadNames) {
  for (const char* element : {"f32", "i8", "bf16"}) {
    for (const TextKernel::Shape& shape : {TextKernel::Shape{59, 2}, {123, 4}, {5, 2}}) {
      TextKernel kernel(std::string("%x: ptr<") + element + ">, %m: i32");
      const std::string mask = kernel.mask(shape, {"%m", ""});
      const std::string one = kernel.fill(std::string(element) == "i8" ? "1" : "1.0", element, shape);
      const std::string v = kernel.op("load " + kernel.pointers("%x", shape) + ", " + mask + ", " + one);
      kernel.line("store " + kernel.pointers("%x", shape, 0, {1, shape[0]}) + ", " + v);
      for (int64_t m : {int64_t{1}, int64_t{3}, shape[0] / 2 + 3}) {
        expect_same(kernel.text(),
                    {{random_buffer(*dsl::parse_element_type(element), static_cast<size_t>(shape[0] * shape[1]), 1),
                      int_scalar(static_cast<int>(m))},
                     kExact});
      }
    }
  }
}

// LLVM 22 stored the one lane of a truncated vector that a constant mask leaves as wide as it was before.
TEST(TailsOnCpu, ScansEndWithOneElementAndNoMore) {
  for (const char* element : {"bf16", "f8e4m3", "f16", "i8"}) {
    for (int64_t extent : {17, 33, 65}) {
      TextKernel kernel(std::string("%x: ptr<") + element + ">, %y: ptr<" + element + ">");
      const std::string v = kernel.op("load " + kernel.pointers("%x", {extent}));
      const std::string sums = kernel.op("scan " + v + " {kind = min, axis = 0, reverse = true}");
      kernel.line("store " + kernel.pointers("%y", {extent}) + ", " + sums);
      const ElementType type = *dsl::parse_element_type(element);
      Trial run;
      run.arguments = {random_buffer(type, extent, 1), random_buffer(type, extent, 2)};
      run.targets = all_targets();
      expect_same(kernel.text(), run);
    }
  }
}

}  // namespace
}  // namespace kiln::test
