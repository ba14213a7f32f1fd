// Kernels of a plan that cannot be compiled: the graph runs all the same, and says so; or it is an error.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "graph_service.h"
#include "kiln/client/profile.h"

namespace kiln {
namespace {

using graph::Tensor;
using testing::HasSubstr;

class Fallback : public test::GraphService {
 protected:
  // Of each element something that the worker stumbles over once exp is in the same kernel.
  static graph::GraphDef program(const std::function<Tensor(Tensor)>& function) {
    return graph::graph("program", {graph::input("x", graph::f32, {graph::dim("n", 1, 100), 8})},
                        [&](Tensor x) { return graph::sum(exp(function(x) * 0.25), {1}) + 1.0; });
  }
  Client client(const char* deadline = nullptr) const {
    ClientOptions out = options();
    out.connect.worker_path = FAULTY_WORKER;
    if (deadline) out.connect.daemon_args = {"--deadline", deadline};
    return Client(std::move(out));
  }
  static void expect_right(const CompiledGraph& fn, double (*function)(double)) {
    std::vector<float> x(24);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * static_cast<float>(i);
    const auto results = fn({array(x, {3, 8})});
    ASSERT_TRUE(results) << results.error().message;
    for (size_t row = 0; row < 3; ++row) {
      double sum = 1;
      for (size_t i = 0; i < 8; ++i) sum += std::exp(function(double{x[8 * row + i]}) * 0.25);
      EXPECT_NEAR((*results)[0].as<float>()[row], sum, 1e-5 * sum);
    }
  }
};

TEST_F(Fallback, AKernelThatKillsItsWorkerGoesApart) {
  const auto fn = client().compile(program([](Tensor x) { return sin(x); }));
  ASSERT_TRUE(fn) << fn.error().message;
  EXPECT_GT(fn->plan().launches.size(), 1u);
  EXPECT_THAT(fn->explain(), HasSubstr("not fused: graph `program`: launch 0"));
  expect_right(*fn, std::sin);
}

TEST_F(Fallback, AKernelThatIsRefusedGoesApart) {
  ASSERT_TRUE(profile::start().ok());
  const auto fn = client().compile(program([](Tensor x) { return cos(x); }));
  const auto profile = profile::stop();
  ASSERT_TRUE(fn && profile);
  const auto noted = std::ranges::find(profile->spans, profile::Kind::kFallback, &profile::Span::kind);
  ASSERT_NE(noted, profile->spans.end());
  EXPECT_EQ(noted->name, "program");
  EXPECT_THAT(noted->detail, HasSubstr("are refused here"));
  EXPECT_THAT(fn->explain(), HasSubstr("are refused here"));
  EXPECT_THAT(fn->explain(), HasSubstr("a kernel of them could not be compiled"));
  expect_right(*fn, std::cos);
}

TEST_F(Fallback, AKernelThatTakesTooLongGoesApart) {
  const auto fn = client("2").compile(program([](Tensor x) { return log(x + 1.0); }));
  ASSERT_TRUE(fn) << fn.error().message;
  EXPECT_THAT(fn->explain(), HasSubstr("not fused: graph `program`: launch 0"));
  expect_right(*fn, std::log1p);
}

TEST_F(Fallback, OfALoopsKernelAllGoApart) {
  const graph::Dim n = graph::dim("n", 0, 1000);
  const auto fn = client().compile(graph::graph("looped", {graph::input("xs", graph::f32, {n, 8})}, [&](Tensor xs) {
    return graph::loop(n, {graph::zeros(graph::f32, {8})}, {xs},
                       [](graph::Tensors sum, graph::Tensors x) {
                         return graph::LoopStep{{sum[0] + exp(cos(x[0]) * 0.25)}, {}};
                       })
        .carried[0];
  }));
  ASSERT_TRUE(fn) << fn.error().message;
  EXPECT_THAT(fn->explain(), HasSubstr("are refused here"));
  const std::vector<float> xs(3 * 8, 0.5f);
  const auto results = (*fn)({array(xs, {3, 8})});
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_NEAR((*results)[0].as<float>()[7], 3 * std::exp(std::cos(0.5) * 0.25), 1e-5);
}

TEST_F(Fallback, FullMakesItAnError) {
  const auto fn = client().compile(program([](Tensor x) { return cos(x); }), {.full = true});
  ASSERT_FALSE(fn);
  EXPECT_EQ(fn.error().code, ErrorCode::kCompileFailed);
  EXPECT_THAT(fn.error().message, HasSubstr("graph `program`: launch 0"));
}

// An op alone has nothing to fall back to.
TEST_F(Fallback, AnOpThatFailsByItselfIsAnError) {
  const auto fn = client().compile(program([](Tensor x) { return erf(x); }));
  ASSERT_FALSE(fn);
  EXPECT_EQ(fn.error().code, ErrorCode::kWorkerCrashed);
  EXPECT_THAT(fn.error().message, HasSubstr("fallback_test.cpp:"));
}

}  // namespace
}  // namespace kiln
