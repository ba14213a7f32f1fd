// Kernels of the user's as nodes of graphs: those of the language, and those whose code the user wrote.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "graph_service.h"
#include "kiln/client/graph_package.h"
#include "kiln/graph/control.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/text.h"

namespace kiln {
namespace {

using graph::GraphDef;
using graph::KernelArgument;
using graph::Tensor;
using testing::HasSubstr;
using testing::Not;
using CustomInGraphs = test::GraphService;

// out = x + 1 for each program of 256 elements.
constexpr const char* kIncrementIr = R"(
define void @increment(ptr %x, ptr %out, i32 %n, i32 %program, i32 %py, i32 %pz) {
begin:
  %first = mul i32 %program, 256
  %after = add i32 %first, 256
  %end = call i32 @llvm.smin.i32(i32 %after, i32 %n)
  br label %head
head:
  %i = phi i32 [ %first, %begin ], [ %next, %body ]
  %more = icmp slt i32 %i, %end
  br i1 %more, label %body, label %done
body:
  %from = getelementptr float, ptr %x, i32 %i
  %value = load float, ptr %from
  %larger = fadd float %value, 1.0
  %to = getelementptr float, ptr %out, i32 %i
  store float %larger, ptr %to
  %next = add i32 %i, 1
  br label %head
done:
  ret void
}
declare i32 @llvm.smin.i32(i32, i32)
)";

dsl::Kernel declared() {
  return *dsl::lang::kernel("increment", {"x", "out", "n"},
                            [](dsl::lang::Ptr<const dsl::lang::f32>, dsl::lang::Ptr<dsl::lang::f32>, dsl::lang::i32 n) {
                              dsl::lang::grid(dsl::lang::cdiv(n, 256));
                            })
              .ir();
}

Tensor increment(const Tensor& x, const char* code = kIncrementIr, const graph::KernelGradient& gradient = {}) {
  graph::Dim elements = 1;
  for (int axis = 0; axis < static_cast<int>(x.rank()); ++axis) elements = elements * x.extent(axis);
  return graph::kernel(
      graph::CustomKernel{declared(), {{"cpu", {.text = code}}}},
      {KernelArgument::in(x), KernelArgument::out(graph::f32, x.shape()), KernelArgument::number(elements)},
      gradient)[0];
}

std::vector<float> numbers(size_t count) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), 1.0f);
  return out;
}

// Between compiled launches, of any sizes, and of a value that is not row-major: that is copied first.
GraphDef turned() {
  const graph::Dim rows = graph::dim("rows", 1, 4096);
  return graph::graph("turned", {graph::input("x", graph::f32, {rows, 3})},
                      [](Tensor x) { return graph::sqrt(increment(graph::permute(x * 2, {1, 0}))); });
}

TEST_F(CustomInGraphs, RunBetweenCompiledLaunches) {
  Client client(options());
  const auto fn = client.compile(turned(), {.target = "cpu"});
  ASSERT_TRUE(fn) << fn.error().message;
  EXPECT_THAT(fn->explain({{"rows", 100}}), HasSubstr("increment, of the graph's LLVM IR, gives f32[3, rows]"));
  for (const int64_t rows : {1, 85, 100, 4096}) {
    const std::vector<float> x = numbers(static_cast<size_t>(rows) * 3);
    for (const int threads : {1, 2}) {
      const auto y = (*fn)({array(x, {rows, 3})}, {.threads = threads});
      ASSERT_TRUE(y) << y.error().message;
      ASSERT_EQ((*y)[0].shape(), (std::vector<int64_t>{3, rows}));
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < 3; ++column) {
          const float from = x[static_cast<size_t>(row * 3 + column)];
          ASSERT_FLOAT_EQ((*y)[0].as<float>()[static_cast<size_t>(column * rows + row)], std::sqrt(2 * from + 1));
        }
      }
    }
  }
  // Arrays of any alignment, and code that is asked for once.
  const uint64_t before = compiles();
  std::vector<float> storage(7);
  std::iota(storage.begin(), storage.end(), 0.0f);
  const auto y = (*fn)({array(storage.data() + 1, {2, 3})});
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_FLOAT_EQ((*y)[0].as<float>()[5], std::sqrt(13.0f));
  const auto again = client.compile(turned(), {.target = "cpu"});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_LE(compiles(), before + 2) << "those of the others for arrays without alignment";
}

// x of the caller's, with strides: row-major before the kernel has it.
TEST_F(CustomInGraphs, TakeStridedInputsAsCopies) {
  Client client(options());
  const graph::Dim n = graph::dim("n", 1, 64);
  const auto fn = client.compile(
      graph::graph("strided", {graph::input("x", graph::f32, {n})}, [](Tensor x) { return increment(x); }),
      {.target = "cpu"});
  ASSERT_TRUE(fn) << fn.error().message;
  const std::vector<float> x = numbers(20);
  const auto y = (*fn)({array(x.data(), {10}, {2})});
  ASSERT_TRUE(y) << y.error().message;
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ((*y)[0].as<float>()[i], x[2 * i] + 1);
}

TEST_F(CustomInGraphs, RunInLoopsAndTakeGradients) {
  Client client(options());
  const auto loop =
      client.compile(graph::graph("passes", {graph::input("x", graph::f32, {5})},
                                  [](Tensor x) {
                                    return graph::loop(7, {x}, {},
                                                       [](graph::Tensors carried, graph::Tensors) {
                                                         return graph::LoopStep{{increment(carried[0])}, {}};
                                                       })
                                        .carried[0];
                                  }),
                     {.target = "cpu"});
  ASSERT_TRUE(loop) << loop.error().message;
  const std::vector<float> x = numbers(5);
  auto y = (*loop)({array(x, {5})});
  ASSERT_TRUE(y) << y.error().message;
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ((*y)[0].as<float>()[i], x[i] + 7);

  const auto loss = graph::graph("loss", {graph::input("x", graph::f32, {5})}, [](Tensor x) {
    const auto same = [](graph::Tensors, graph::Tensors, graph::Tensors g) { return graph::Tensors{g[0]}; };
    return graph::sum(graph::square(increment(x, kIncrementIr, same)));
  });
  const auto slope = client.compile(graph::grad(loss, {"x"}), {.target = "cpu"});
  ASSERT_TRUE(slope) << slope.error().message;
  y = (*slope)({array(x, {5})});
  ASSERT_TRUE(y) << y.error().message;
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ((*y)[0].as<float>()[i], 2 * (x[i] + 1));
}

// As text, as a package that needs no daemon, and with weights bound.
TEST_F(CustomInGraphs, TravelAsTextAndAsPackages) {
  Client client(options());
  const std::string text = *turned().text();
  EXPECT_THAT(text, HasSubstr("code \"cpu\" llvm {\n"));
  const auto read = graph::parse(text, "turned.kg");
  ASSERT_TRUE(read) << read.error().message;
  const auto fn = client.compile(*read, {.target = "cpu"});
  ASSERT_TRUE(fn) << fn.error().message;
  const auto package = client::write_package(client, fn->plan());
  ASSERT_TRUE(package) << package.error().message;
  stop_daemon();
  const auto loaded = client::read_package(std::as_bytes(std::span(*package)));
  ASSERT_TRUE(loaded) << loaded.error().message;
  const std::vector<float> x = {4, 12, 24};
  for (const auto* each : {&*fn, &*loaded}) {
    const auto y = (*each)({array(x, {1, 3})});
    ASSERT_TRUE(y) << y.error().message;
    EXPECT_THAT((*y)[0].as<float>(), testing::ElementsAre(3, 5, 7));
    const auto bound = each->bind({{"x", array(x, {1, 3})}});
    ASSERT_TRUE(bound) << bound.error().message;
    EXPECT_THAT((*(*bound)({}))[0].as<float>(), testing::ElementsAre(3, 5, 7));
  }
}

TEST_F(CustomInGraphs, WhatIsWrongIsNamedWithItsPlace) {
  Client client(options());
  const auto failure = [&](const std::string& code, const std::string& target = "cpu") {
    const GraphDef def = graph::graph("g", {graph::input("x", graph::f32, {8})},
                                      [&](Tensor x) { return increment(x, code.c_str()) * 2; });
    const auto fn = client.compile(def, {.target = target});
    return fn ? "none" : fn.error().message;
  };
  const auto with = [](const std::string& old, const std::string& now) {
    std::string out = kIncrementIr;
    return out.replace(out.find(old), old.size(), now);
  };
  const std::string wrong = failure(with("store float", "store flout"));
  EXPECT_THAT(wrong, testing::StartsWith("graph `g`: launch 1, `increment`"));
  EXPECT_THAT(wrong, HasSubstr("custom_kernel_test.cpp:"));
  EXPECT_THAT(wrong, HasSubstr("increment.ll:17:9: expected type"));
  EXPECT_THAT(failure(with("i32 %n,", "i64 %n64, i32 %n,")), HasSubstr("no function of 3 parameters"));
  EXPECT_THAT(failure(with("ret void", "call void @exit()\n  ret void") + "declare void @exit()\n"),
              HasSubstr("calls `exit`, which it does not have"));
  EXPECT_THAT(failure(kIncrementIr, "interp"),
              HasSubstr("kernel: `increment` has code for cpu, and no ops that run elsewhere"));
  EXPECT_THAT(failure(kIncrementIr, "amd:gfx942"), HasSubstr("has code for cpu, and no ops"));
  EXPECT_EQ(failure(kIncrementIr), "none") << "and the daemon goes on";
}

}  // namespace
}  // namespace kiln
