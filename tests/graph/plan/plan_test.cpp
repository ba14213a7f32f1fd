// Plans as bytes: the same plan back, or an error that says where.
#include "kiln/graph/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "graph/hand_plan.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/text.h"

namespace kiln::graph {
namespace {

using planned::hand_plan;
using testing::HasSubstr;

TEST(Plan, ComesBack) {
  const Plan plan = hand_plan("cpu:generic");
  const std::vector<std::byte> bytes = encode_plan(plan);
  const auto again = decode_plan(bytes);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(encode_plan(*again), bytes);
  EXPECT_EQ(again->name, "by_hand");
  EXPECT_EQ(again->target, "cpu:generic");
  EXPECT_EQ(again->dims, plan.dims);
  ASSERT_EQ(again->inputs.size(), 2u);
  EXPECT_EQ(again->inputs[1].name, "state");
  EXPECT_EQ(again->inputs[1].type, plan.inputs[1].type);
  ASSERT_EQ(again->outputs.size(), 3u);
  EXPECT_EQ(again->outputs[2].type, plan.outputs[2].type);
  EXPECT_EQ(again->in_place, plan.in_place);
  ASSERT_EQ(again->kernels.size(), 2u);
  EXPECT_EQ(again->kernels[0].kernel.name, "scale");
  EXPECT_EQ(again->kernels[1].constexprs, plan.kernels[1].constexprs);
  ASSERT_EQ(again->buffers.size(), plan.buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    EXPECT_EQ(again->buffers[i].home, plan.buffers[i].home);
    EXPECT_EQ(again->buffers[i].index, plan.buffers[i].index);
    EXPECT_EQ(again->buffers[i].offset, plan.buffers[i].offset);
    EXPECT_EQ(again->buffers[i].bytes, plan.buffers[i].bytes);
  }
  ASSERT_EQ(again->launches.size(), plan.launches.size());
  const PlannedLaunch& last = again->launches.back();
  EXPECT_EQ(last.kernel, 0u);
  EXPECT_EQ(last.arguments[0].buffer, 6u);
  EXPECT_EQ(last.arguments[0].offset, plan.launches.back().arguments[0].offset);
  EXPECT_EQ(last.arguments[3].scalar, plan.launches.back().arguments[3].scalar);
  EXPECT_EQ(last.name, "copy");
  EXPECT_EQ(last.place, "model.cpp:6:9");
  EXPECT_EQ(last.moved, plan.launches.back().moved);
  EXPECT_EQ(again->constants, plan.constants);
  EXPECT_EQ(again->arena_bytes, plan.arena_bytes);
  EXPECT_EQ(again->log, plan.log);
}

// Arrays are aligned where all launches of a kernel find them so.
TEST(Plan, SaysWhatCodeMayRelyOn) {
  using enum dsl::ParamFact;
  Plan plan = hand_plan("cpu:generic");
  const dsl::Facts before = facts_of(plan)[0];
  EXPECT_EQ(before[0], kAlign16);
  EXPECT_EQ(before[3], kNone) << "a number";
  Expr& offset = plan.launches.back().arguments[0].offset;
  const Expr n = Expr::constexpr_ref(0), m = Expr::constexpr_ref(1), whole = offset;  // m is a multiple of 4
  const std::map<int, Expr> aligned = {{1, whole + 32 * n}, {2, whole + 4 * m}, {3, whole + 2 * m * m}},
                            others = {{1, whole + 8}, {2, whole + 4 * n}, {3, whole + 2 * m}};
  for (const auto& [number, here] : aligned) {
    offset = here;
    EXPECT_EQ(facts_of(plan)[0][0], kAlign16) << number;
  }
  for (const auto& [number, here] : others) {
    offset = here;
    EXPECT_EQ(facts_of(plan)[0][0], kNone) << number;
    EXPECT_EQ(facts_of(plan)[0][1], before[1]);
  }
}

// Without bodies: all that launches need, and requests for the same code.
TEST(Plan, ComesWithoutTheOpsOfItsKernels) {
  Plan plan = hand_plan("cpu:generic");
  dsl::Kernel printing = plan.kernels[0].kernel;
  printing.name = "lines";
  printing.options.check_bounds = true;
  plan.kernels.push_back({printing, plan.kernels[0].constexprs});
  const std::vector<std::byte> bytes = encode_plan(plan);
  const auto whole = decode_plan(bytes), heads = decode_plan_heads(bytes);
  ASSERT_TRUE(heads) << heads.error().message;
  EXPECT_EQ(encode_plan(*heads), bytes);
  for (size_t i = 0; i < 3; ++i) {
    const PlannedKernel &kernel = whole->kernels[i], &head = heads->kernels[i];
    EXPECT_EQ(head.kernel.name, kernel.kernel.name);
    EXPECT_EQ(head.constexprs, kernel.constexprs);
    ASSERT_EQ(head.kernel.params.size(), kernel.kernel.params.size());
    for (size_t p = 0; p < head.kernel.params.size(); ++p) {
      EXPECT_EQ(head.kernel.params[p].name, kernel.kernel.params[p].name);
      EXPECT_EQ(head.kernel.params[p].type, kernel.kernel.params[p].type);
      EXPECT_EQ(head.kernel.params[p].readonly, kernel.kernel.params[p].readonly);
    }
    EXPECT_EQ(head.encoded.empty(), i == 2) << "one that names lines is read whole";
    EXPECT_EQ(head.kernel.body.ops.empty(), i != 2);
    EXPECT_FALSE(head.has_loop);
    if (i == 2) continue;
    auto values = dsl::complete_constexprs(kernel.kernel, kernel.constexprs, plan.target);
    ASSERT_TRUE(values);
    const auto requests =
        dsl::RequestEncoder::of_encoded(std::make_shared<const dsl::Kernel>(head.kernel), head.encoded);
    ASSERT_TRUE(requests);
    const auto request = requests->encode(plan.target, *values, {}),
               wanted = dsl::encode_request({kernel.kernel, plan.target, *values, {}});
    ASSERT_TRUE(request && wanted);
    EXPECT_EQ(request->canonical, wanted->canonical);
    EXPECT_EQ(request->debug, wanted->debug);
  }
}

// A kernel whose code is the user's own: the request is one for that, whatever arrays are aligned to.
TEST(Plan, KeepsCodeOfOnesOwn) {
  Plan plan = hand_plan("cuda:sm_90a");
  plan.kernels[0].kernel = dsl::declaration_of(plan.kernels[0].kernel);
  plan.kernels[0].kernel.constexprs.clear();
  plan.kernels[0].kernel.grid = {dsl::Expr(1), dsl::Expr(1), dsl::Expr(1)};
  plan.kernels[0].constexprs.clear();
  plan.kernels[0].code = {.form = dsl::CodeForm::kPtx, .text = "\xff", .entry = "scale", .threads = 64};
  const std::vector<std::byte> bytes = encode_plan(plan);
  for (const auto& again : {decode_plan(bytes), decode_plan_heads(bytes)}) {
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->kernels[0].code, plan.kernels[0].code);
    EXPECT_FALSE(again->kernels[1].code);
    EXPECT_EQ(encode_plan(*again), bytes);
    EXPECT_EQ(facts_of(*again)[0], dsl::Facts(4, dsl::ParamFact::kNone));
  }
  plan.kernels[0].code->threads = 5000;
  const auto refused = decode_plan(encode_plan(plan));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("kernel 0: custom kernel `scale`: blocks have 1 to 1024 threads"));
}

TEST(Plan, HeadsSayWhetherThereAreLoops) {
  Plan plan = hand_plan();
  plan.kernels.push_back({*dsl::lang::kernels::matmul().ir(), {}});
  const auto heads = decode_plan_heads(encode_plan(plan));
  ASSERT_TRUE(heads) << heads.error().message;
  EXPECT_FALSE(heads->kernels[0].has_loop);
  EXPECT_TRUE(heads->kernels[2].has_loop);
}

// Every prefix, and many plans with some other bytes: an error of the input, or a plan that has a form.
TEST(Plan, SurvivesAnyBytes) {
  const std::vector<std::byte> bytes = encode_plan(hand_plan());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto plan = decode_plan(std::span(bytes).first(size));
    ASSERT_FALSE(plan) << size;
    ASSERT_FALSE(decode_plan_heads(std::span(bytes).first(size))) << size;
    EXPECT_NE(plan.error().code, ErrorCode::kInternal) << plan.error().message;
    EXPECT_THAT(plan.error().message, testing::StartsWith("plan: "));
  }
  std::mt19937 random(7);
  int sound = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::byte> changed = bytes;
    for (int i = 0; i < 1 + round % 3; ++i) changed[random() % changed.size()] = static_cast<std::byte>(random());
    const auto plan = decode_plan(changed);
    const auto heads = decode_plan_heads(changed);
    EXPECT_TRUE(heads || heads.error().code != ErrorCode::kInternal);
    if (heads &&
        round % 10 == 0) {  // stricter about numbers' forms than what reads kernels whole, and knows nothing of ops
      const std::vector<std::byte> as_read = encode_plan(*heads);
      const auto reread = decode_plan_heads(as_read);
      ASSERT_TRUE(reread) << reread.error().message;
      EXPECT_EQ(encode_plan(*reread), as_read);
    }
    if (!plan) {
      EXPECT_NE(plan.error().code, ErrorCode::kInternal) << plan.error().message;
      continue;
    }
    ++sound;
    const std::vector<std::byte> once = encode_plan(*plan);
    const auto again = decode_plan(once);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(encode_plan(*again), once);
  }
  EXPECT_GT(sound, 10);
}

TEST(Plan, RefusesWhatARunnerCouldNotRelyOn) {
  using Home = PlannedBuffer::Home;
  const Expr other_dim = Expr::constexpr_ref(2);
  const std::vector<std::pair<std::function<void(Plan&)>, std::string>> cases = {
      {[](Plan& p) { p.dims[1].name = "n"; }, "dim 1: another has the name n"},
      {[](Plan& p) { p.dims[0].high = 0; }, "dim 0: needs 0 <= low <= high"},
      {[&](Plan& p) { p.inputs[0].type.shape[1] = other_dim; },
       "input 0: its extent: an index is not a number in range"},
      {[](Plan& p) { p.inputs[1].name = "x"; }, "input 1: another has the name x"},
      {[](Plan& p) { p.outputs[0].type.shape[0] = Expr::constexpr_ref(0) - 2; },
       "output 0: its type has an extent that may be negative"},
      {[](Plan& p) { p.in_place.pop_back(); }, "there is not one donation an output"},
      {[](Plan& p) { p.in_place[0] = 2; }, "a donation is out of range"},
      {[](Plan& p) { p.in_place[0] = 1; }, "input 1 is donated twice"},
      {[](Plan& p) { p.in_place = {kNone, kNone, 0}; }, "input 0 is donated to an output of another type"},
      {[](Plan& p) { p.kernels[0].constexprs["WIDTH"] = 3; }, "kernel 0: "},
      {[](Plan& p) { p.buffers[0].index = 2; }, "buffer 0: its input is out of range"},
      {[](Plan& p) { p.buffers[4].index = 3; }, "buffer 4: its output is out of range"},
      {[](Plan& p) { p.buffers[8].index = 2; }, "buffer 8: its constant is out of range"},
      {[&](Plan& p) { p.buffers[5].bytes = other_dim; }, "buffer 5: its size: "},
      {[&](Plan& p) { p.buffers[5].offset = other_dim; }, "buffer 5: its offset: "},
      {[](Plan& p) { p.launches[1].kernel = 2; }, "launch 1: its kernel is out of range"},
      {[](Plan& p) { p.launches[1].arguments.pop_back(); }, "launch 1: it has not one argument a parameter"},
      {[](Plan& p) { p.launches[1].arguments[2].buffer = 9; }, "launch 1: parameter `out`: its buffer is out of range"},
      {[](Plan& p) { p.launches[1].arguments[2] = p.launches[1].arguments[3]; },
       "launch 1: parameter `out`: it is of another kind"},
      {[](Plan& p) { p.launches[1].arguments[3] = p.launches[1].arguments[2]; },
       "launch 1: parameter `n`: it is of another kind"},
      {[](Plan& p) { p.launches[1].arguments[2].buffer = 0; },
       "launch 1: parameter `out`: it may write to an input or a constant"},
      {[](Plan& p) { p.launches[1].arguments[2].buffer = 7; },
       "launch 1: parameter `out`: it may write to an input or a constant"},
      {[&](Plan& p) { p.launches[0].arguments[3].scalar = other_dim; }, "launch 0: parameter `n`: its value: "},
      {[&](Plan& p) { p.launches[0].moved = other_dim; }, "launch 0: its bytes: "},
      {[](Plan& p) { p.launches[3].arguments[2].buffer = 6; }, "output 0: no launch writes it"},
      {[](Plan& p) { p.buffers[2] = {Home::kArena, 0, 0, 64}; }, "output 0: no launch writes it"},
      {[&](Plan& p) { p.arena_bytes = other_dim; }, "the arena's size: "},
  };
  for (const auto& [change, says] : cases) {
    Plan plan = hand_plan();
    change(plan);
    const auto read = decode_plan(encode_plan(plan));
    ASSERT_FALSE(read) << says;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(read.error().message, HasSubstr("plan: " + says));
  }
}

}  // namespace
}  // namespace kiln::graph
