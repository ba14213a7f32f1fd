// Requests for plans: what is hashed says what is computed, and the rest where it stands in the source.
#include "kiln/graph/plan_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/kernels.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/text.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;

Graph parsed(const std::string& text) {
  auto graph = parse(text, "model.kg");
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? *graph : Graph();
}

const std::string kText =
    "dim n\n"
    "graph g(%x: f32[n], %y: f32[n]) {\n"
    "  %a = exp %x\n"
    "  %b = sin %y\n"
    "  %c = mul %a, %b\n"
    "  output z = %c\n"
    "}\n";

PlanRequest request_of(const std::string& text, const std::string& target = "cpu:generic", bool fuse = true) {
  return {parsed(text), target, {fuse}};
}

RequestBytes bytes_of(const PlanRequest& request) {
  auto bytes = encode_plan_request(request);
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes ? *bytes : RequestBytes();
}

TEST(PlanRequest, ComesBackWithLocations) {
  const PlanRequest request = request_of(kText, "cpu:generic", false);
  const RequestBytes bytes = bytes_of(request);
  const auto again = decode_plan_request(bytes.canonical, bytes.debug);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->target, "cpu:generic");
  EXPECT_EQ(again->options, PlanOptions{.fuse = false});
  EXPECT_EQ(print(again->graph), print(canonical(request.graph)));
  const Body& body = again->graph.main();
  ASSERT_EQ(body.nodes.size(), 3u);
  std::set<std::string> places;
  for (const Node& node : body.nodes) places.insert(again->graph.location_text(node.loc));
  EXPECT_EQ(places, (std::set<std::string>{"model.kg:3:3", "model.kg:4:3", "model.kg:5:3"}));
  // Each at its own node.
  for (const Node& node : body.nodes) {
    if (node.op == TensorOp::kMul) {
      EXPECT_EQ(again->graph.location_text(node.loc), "model.kg:5:3");
    }
  }
  EXPECT_EQ(again->graph.location_text(body.inputs[1].loc),
            again->graph.location_text(request.graph.main().inputs[1].loc));
}

TEST(PlanRequest, SaysWhichOpsAreApart) {
  PlanRequest request = request_of(kText);
  const RequestBytes whole = bytes_of(request);
  request.options.apart = {1, 2, 7};
  const RequestBytes bytes = bytes_of(request);
  EXPECT_NE(bytes.canonical, whole.canonical);
  const auto again = decode_plan_request(bytes.canonical, bytes.debug);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->options, request.options);
  request.options.apart = {2, 1};
  const auto unsorted = decode_plan_request(bytes_of(request).canonical, {});
  ASSERT_FALSE(unsorted);
  EXPECT_EQ(unsorted.error().message, "request for a plan: the ops apart do not rise");
}

TEST(PlanRequest, WithoutADebugSectionHasNoLocations) {
  const RequestBytes bytes = bytes_of(request_of(kText));
  const auto again = decode_plan_request(bytes.canonical, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->graph.files.empty());
  EXPECT_EQ(encode(again->graph), encode(canonical(parsed(kText))));
}

// Names of values, places and the order of tracing are out; target and options are not.
TEST(PlanRequest, IsHashedWithoutNamesAndPlaces) {
  const std::string other =
      "\n\ndim n\n"
      "graph g(%x: f32[n], %y: f32[n]) {\n"
      "  %s = sin %y\n"
      "  %e = exp %x\n"
      "  %p = mul %s, %e\n"
      "  output z = %p\n"
      "}\n";
  const RequestBytes one = bytes_of(request_of(kText)), two = bytes_of(request_of(other));
  EXPECT_EQ(one.canonical, two.canonical);
  EXPECT_NE(one.debug, two.debug);
  EXPECT_NE(one.canonical, bytes_of(request_of(kText, "interp")).canonical);
  EXPECT_NE(one.canonical, bytes_of(request_of(kText, "cpu:generic", false)).canonical);
  std::string renamed = kText;
  renamed.replace(renamed.find("graph g"), 7, "graph h");
  EXPECT_NE(one.canonical, bytes_of(request_of(renamed)).canonical);
}

TEST(PlanRequest, IsToldFromThatOfAKernel) {
  const RequestBytes plan = bytes_of(request_of(kText));
  EXPECT_TRUE(is_plan_request(plan.canonical));
  EXPECT_FALSE(is_plan_request({}));
  EXPECT_FALSE(is_plan_request(std::span(plan.canonical).first(10)));
  auto kernel = dsl::encode_request({*dsl::lang::kernels::vector_add().ir(), "cpu:generic", {{"BLOCK", 64}}, {}});
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_FALSE(is_plan_request(kernel->canonical));
  EXPECT_FALSE(dsl::decode_request(plan.canonical, plan.debug));
  EXPECT_FALSE(decode_plan_request(kernel->canonical, kernel->debug));
}

TEST(PlanRequest, OfAGraphThatDoesNotVerifyIsAnError) {
  Graph graph = parsed(kText);
  graph.bodies[0].outputs[0].value = 99;
  const auto bytes = encode_plan_request({graph, "interp", {}});
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, ErrorCode::kVerifyFailed);
}

TEST(PlanRequest, SurvivesAnyBytes) {
  const RequestBytes bytes = bytes_of(request_of(kText));
  std::mt19937 random(7);
  for (int round = 0; round < 4000; ++round) {
    RequestBytes changed = bytes;
    auto& section = round % 2 ? changed.canonical : changed.debug;
    if (round % 8 < 2) {
      section.resize(random() % section.size());
    } else {
      section[random() % section.size()] = static_cast<std::byte>(random());
    }
    const auto request = decode_plan_request(changed.canonical, changed.debug);
    if (request) {
      for (const Node& node : request->graph.main().nodes) (void)request->graph.location_text(node.loc);
    } else {
      EXPECT_NE(request.error().code, ErrorCode::kInternal) << request.error().message;
      EXPECT_THAT(request.error().message, testing::StartsWith("request for a plan: "));
    }
  }
}

TEST(PlanRequest, RefusesTheDebugSectionOfAnotherGraph) {
  const RequestBytes bytes = bytes_of(request_of(kText));
  std::string shorter = kText;
  shorter.replace(shorter.find("mul %a, %b"), 10, "mul %a, %a");
  const RequestBytes other = bytes_of(request_of(shorter));
  const auto request = decode_plan_request(bytes.canonical, other.debug);
  ASSERT_FALSE(request);
  EXPECT_THAT(request.error().message, HasSubstr("the debug section is of another graph"));
}

}  // namespace
}  // namespace kiln::graph
