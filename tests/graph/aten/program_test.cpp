// Programs of ATen calls as graphs: what they compute, and what is said of those that are none. That each overload is
// PyTorch's is compared beside PyTorch (tests/graph/pytorch).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aten/aten.h"
#include "aten/import/functions.h"
#include "evaluate/arrays.h"
#include "kiln/graph/aten.h"
#include "kiln/graph/verify.h"

namespace kiln::graph {
namespace {

using evaluating::show;
using testing::HasSubstr;
using testing::Not;

AtenArgument tensor(std::string name) { return {AtenName{std::move(name)}}; }
AtenArgument list(std::initializer_list<int64_t> numbers) {
  AtenList out;
  for (const int64_t each : numbers) out.push_back({each});
  return {std::move(out)};
}
AtenArgument tensors(std::initializer_list<const char*> names) {
  AtenList out;
  for (const char* each : names) out.push_back(tensor(each));
  return {std::move(out)};
}

using Arguments = std::vector<std::pair<std::string, AtenArgument>>;
AtenCall call(std::string target, Arguments arguments, std::vector<std::string> results) {
  return {std::move(target), std::move(arguments), std::move(results), ""};
}

// Of inputs f32[6] with 0 … 5, and the tensor that is the output.
AtenProgram program(std::vector<AtenCall> calls, std::string output, Shape shape = {6}) {
  return {"p", {{"x", f32, std::move(shape), ""}}, std::move(calls), {{"y", std::move(output)}}};
}

Array counted(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t each : shape) count *= each;
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<double>(i));
  return array_of(f32, std::move(shape), numbers);
}

// What it computes for 0, 1, …, or what is wrong.
std::string result(const AtenProgram& program, std::vector<int64_t> shape = {6}) {
  const auto graph = graph_of(program);
  if (!graph) return graph.error().message;
  if (auto sound = verify(*graph); !sound) return "not sound: " + sound.error().message;
  std::vector<Array> inputs = {counted(std::move(shape))};
  while (inputs.size() < graph->main().inputs.size()) inputs.push_back(own(ElementType::kU64, {}));
  const auto outputs = evaluate(*graph, inputs);
  return outputs ? show(outputs->front()) : outputs.error().message;
}

std::string error_of(const AtenProgram& program) {
  const auto graph = graph_of(program);
  return graph ? "no error" : graph.error().message;
}

TEST(AtenProgram, CallsBecomeNodes) {
  const AtenProgram each =
      program({call("aten.view.default", {{"self", tensor("x")}, {"size", list({2, -1})}}, {"v"}),
               call("aten.add.Tensor", {{"self", tensor("v")}, {"other", {int64_t{1}}}, {"alpha", {2.0}}}, {"a"}),
               call("aten.sum.dim_IntList", {{"self", tensor("a")}, {"dim", list({-1})}}, {"s"})},
              "s");
  EXPECT_EQ(result(each), "f32[2]: 9 18");
}

TEST(AtenProgram, SeveralResultsAndLists) {
  const AtenProgram each = program(
      {call("aten.split_with_sizes.default", {{"self", tensor("x")}, {"split_sizes", list({2, 4})}}, {"a", "b"}),
       call("aten.cat.default", {{"tensors", tensors({"b", "a"})}}, {"c"})},
      "c");
  EXPECT_EQ(result(each), "f32[6]: 2 3 4 5 0 1");
}

TEST(AtenProgram, ExtentsKnownWhenItRuns) {
  const Dim n = dim("n", 2, 64);
  const AtenProgram each = program(
      {call("aten.sym_size.int", {{"self", tensor("x")}, {"dim", {int64_t{0}}}}, {"size"}),
       call("aten.arange.default", {{"end", tensor("size")}}, {"line"}),
       call("aten.expand.default", {{"self", tensor("line")}, {"size", {AtenList{{int64_t{2}}, {n}}}}}, {"wide"}),
       call("aten.slice.Tensor", {{"self", tensor("wide")}, {"dim", {int64_t{1}}}, {"start", {int64_t{-2}}}}, {"last"}),
       call("aten.mul.Tensor", {{"self", tensor("last")}, {"other", {n}}}, {"y"})},
      "y", {n});
  EXPECT_EQ(result(each, {6}), "i64[2, 2]: 24 30 24 30");
  EXPECT_EQ(result(each, {3}), "i64[2, 2]: 3 6 3 6");
}

// PyTorch's promotion, which is another than that of tensors of graphs.
TEST(AtenProgram, PromotesAsPyTorch) {
  const auto sum = [](ElementType a, Shape shape_a, ElementType b, Shape shape_b) {
    AtenProgram out{"p", {{"a", a, std::move(shape_a), ""}, {"b", b, std::move(shape_b), ""}}, {}, {{"y", "y"}}};
    out.calls = {call("aten.add.Tensor", {{"self", tensor("a")}, {"other", tensor("b")}}, {"y"})};
    const auto graph = graph_of(out);
    if (!graph) return graph.error().message;
    const Body& main = graph->main();
    return std::string(dsl::info(graph->type(main, main.outputs[0].value).element).name);
  };
  EXPECT_EQ(sum(f16, {2}, f64, {}), "f16");
  EXPECT_EQ(sum(i8, {2}, f64, {}), "f64");
  EXPECT_EQ(sum(i8, {2}, u8, {2}), "i16");
  EXPECT_EQ(sum(i1, {2}, i1, {2}), "i1");
  EXPECT_EQ(sum(f16, {2}, bf16, {2}), "f32");
  const AtenProgram division =
      program({call("aten._to_copy.default", {{"self", tensor("x")}, {"dtype", {i64}}}, {"i"}),
               call("aten.div.Tensor", {{"self", tensor("i")}, {"other", {int64_t{2}}}}, {"q"})},
              "q");
  EXPECT_EQ(result(division), "f32[6]: 0 0.5 1 1.5 2 2.5");
}

TEST(AtenProgram, ChecksAndDeadCallsAreNothing) {
  const AtenProgram each = program({call("aten._assert_tensor_metadata.default", {{"a", tensor("x")}}, {}),
                                    call("aten.sym_constrain_range_for_size.default", {}, {}),
                                    call("aten.exp.default", {{"self", tensor("x")}}, {"unused"}),
                                    call("aten.neg.default", {{"self", tensor("x")}}, {"y"})},
                                   "y");
  const auto graph = graph_of(each);
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->main().nodes.size(), 1u);
}

TEST(AtenProgram, RandomNumbersHaveASeedAndPlacesOfTheirOwn) {
  AtenProgram each = program(
      {call("aten.rand.default", {{"size", list({6})}}, {"a"}), call("aten.rand.default", {{"size", list({6})}}, {"b"}),
       call("aten.eq.Tensor", {{"self", tensor("a")}, {"other", tensor("b")}}, {"same"}),
       call("aten.any.default", {{"self", tensor("same")}}, {"y"})},
      "y");
  const auto graph = graph_of(each);
  ASSERT_TRUE(graph);
  ASSERT_EQ(graph->main().inputs.size(), 3u);
  EXPECT_EQ(graph->main().inputs[1].name, "seed");
  EXPECT_EQ(graph->main().inputs[2].name, "offset");
  EXPECT_EQ(result(each), "i1[]: 0");
  each =
      program({call("aten.dropout.default", {{"input", tensor("x")}, {"p", {0.5}}, {"train", {false}}}, {"y"})}, "y");
  EXPECT_EQ(graph_of(each)->main().inputs.size(), 1u);
}

// --- in place ---

TEST(AtenProgram, WritesInPlaceAreNewValues) {
  AtenProgram each = program({call("aten.add_.Tensor", {{"self", tensor("x")}, {"other", {int64_t{1}}}}, {"a"}),
                              call("aten.mul_.Tensor", {{"self", tensor("x")}, {"other", tensor("a")}}, {})},
                             "a");
  EXPECT_EQ(result(each), "f32[6]: 1 4 9 16 25 36");
  each.inputs[0].donated_to = "y";
  const auto graph = graph_of(each);
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->main().inputs[0].donated_to, 0u);
  // Of self's type, whatever the other is.
  each = program({call("aten._to_copy.default", {{"self", tensor("x")}, {"dtype", {i32}}}, {"i"}),
                  call("aten.copy_.default", {{"self", tensor("i")}, {"src", tensor("x")}}, {})},
                 "i");
  EXPECT_EQ(result(each), "i32[6]: 0 1 2 3 4 5");
}

TEST(AtenProgram, WritesThroughViewsAreSeenByAllOfThem) {
  const std::vector<AtenCall> calls = {
      call("aten.clone.default", {{"self", tensor("x")}}, {"c"}),
      call("aten.view.default", {{"self", tensor("c")}, {"size", list({2, 3})}}, {"m"}),
      call("aten.t.default", {{"self", tensor("m")}}, {"t"}),
      call("aten.select.int", {{"self", tensor("t")}, {"dim", {int64_t{0}}}, {"index", {int64_t{1}}}}, {"row"}),
      call("aten.slice.Tensor", {{"self", tensor("c")}, {"start", {int64_t{3}}}}, {"rest"}),
      call("aten.fill_.Scalar", {{"self", tensor("row")}, {"value", {int64_t{9}}}}, {}),
      call("aten.neg_.default", {{"self", tensor("rest")}}, {})};
  EXPECT_EQ(result(program(calls, "c")), "f32[6]: 0 9 2 -3 -9 -5");
  EXPECT_EQ(result(program(calls, "m")), "f32[2, 3]: 0 9 2 -3 -9 -5");
  EXPECT_EQ(result(program(calls, "t")), "f32[3, 2]: 0 -3 9 -9 2 -5");
  EXPECT_EQ(result(program(calls, "row")), "f32[2]: 9 -9");
  EXPECT_EQ(result(program(calls, "x")), "f32[6]: 0 1 2 3 4 5");
}

TEST(AtenProgram, AxesChangeInPlace) {
  const std::vector<AtenCall> calls = {
      call("aten.clone.default", {{"self", tensor("x")}}, {"c"}),
      call("aten.unsqueeze_.default", {{"self", tensor("c")}, {"dim", {int64_t{1}}}}, {"u"}),
      call("aten.neg_.default", {{"self", tensor("c")}}, {})};
  EXPECT_EQ(result(program(calls, "c")), "f32[6, 1]: -0 -1 -2 -3 -4 -5");
}

// Whether a reshape shares memory hangs on strides.
TEST(AtenProgram, WhatIsPerhapsAViewIsNotReadAfterAWrite) {
  std::vector<AtenCall> calls = {call("aten.reshape.default", {{"self", tensor("x")}, {"shape", list({2, 3})}}, {"r"}),
                                 call("aten.neg_.default", {{"self", tensor("r")}}, {})};
  EXPECT_EQ(result(program(calls, "r")), "f32[2, 3]: -0 -1 -2 -3 -4 -5");
  EXPECT_THAT(error_of(program(calls, "x")), HasSubstr("perhaps one memory"));
  calls[1] = call("aten.neg_.default", {{"self", tensor("x")}}, {});
  EXPECT_THAT(error_of(program(calls, "r")), HasSubstr("output y: `r` and `x` are perhaps one memory"));
}

TEST(AtenProgram, TrainingMovesStatistics) {
  AtenProgram each{"p", {{"x", f32, {3, 2}, ""}, {"m", f32, {2}, ""}, {"v", f32, {2}, ""}}, {}, {}};
  each.calls = {call("aten.batch_norm.default",
                     {{"input", tensor("x")},
                      {"running_mean", tensor("m")},
                      {"running_var", tensor("v")},
                      {"training", {true}},
                      {"momentum", {0.5}},
                      {"eps", {0.0}}},
                     {"y"})};
  each.outputs = {{"m2", "m"}, {"v2", "v"}};
  const auto graph = graph_of(each);
  ASSERT_TRUE(graph) << graph.error().message;
  const auto out = evaluate(*graph, std::vector{counted({3, 2}), counted({2}), counted({2})});
  ASSERT_TRUE(out);
  EXPECT_EQ(show((*out)[0]), "f32[2]: 1 2");
  EXPECT_EQ(show((*out)[1]), "f32[2]: 2 2.5");
}

// --- errors ---

TEST(AtenProgram, NamesAllOverloadsThatThereIsNoGraphOf) {
  AtenProgram each = program({call("aten.nonzero.default", {{"self", tensor("x")}}, {"a"}),
                              call("aten.nonzero.default", {{"self", tensor("x")}}, {"b"}),
                              call("mine.op.default", {{"self", tensor("x")}}, {"c"})},
                             "c");
  each.calls[0].place = "model.py:7 in forward";
  EXPECT_EQ(error_of(each),
            "aten.nonzero.default, call 0, model.py:7 in forward: there is no graph of it, for its extent is data (2 "
            "calls)\nmine.op.default, call 2: there is no graph of it (1 call)");
  EXPECT_TRUE(is_known_aten("aten.add_.Tensor"));
  EXPECT_TRUE(is_known_aten("aten._assert_async.msg"));
  EXPECT_FALSE(is_known_aten("aten.nonzero.default"));
  EXPECT_FALSE(is_known_aten("aten.add"));
  EXPECT_FALSE(is_known_aten(""));
}

TEST(AtenProgram, ErrorsNameTheCallAndItsPlace) {
  const auto message = [](AtenCall each) {
    each.place = "model.py:12 in forward";
    each.results = {"y"};
    return error_of(program({each}, "y"));
  };
  const std::string place = ", call 0, model.py:12 in forward: ";
  EXPECT_EQ(message(call("aten.exp.default", {}, {})), "aten.exp.default" + place + "the argument `self` is missing");
  EXPECT_EQ(message(call("aten.exp.default", {{"self", tensor("z")}}, {})),
            "aten.exp.default" + place + "no call in front gives the tensor `z`");
  EXPECT_EQ(message(call("aten.sum.dim_IntList", {{"self", tensor("x")}, {"dim", {std::string("one")}}}, {})),
            "aten.sum.dim_IntList" + place + "the argument `dim` is a word, not an int");
  EXPECT_EQ(message(call("aten.sum.dim_IntList", {{"self", tensor("x")}, {"dim", list({4})}}, {})),
            "aten.sum.dim_IntList" + place + "there is no axis 4 among 1");
  EXPECT_EQ(message(call("aten.mean.default", {{"self", tensor("x")}, {"dtype", {i64}}}, {})),
            "aten.mean.default" + place + "a mean of ints; give a `dtype` of floats");
  EXPECT_EQ(message(call("aten.mm.default", {{"self", tensor("x")}, {"mat2", {2.5}}}, {})),
            "aten.mm.default" + place + "matmul: a scalar among f32[6] and f32[]; write a * b");
}

TEST(AtenProgram, ErrorsHaveNoEcho) {
  const AtenProgram each =
      program({call("aten.exp.default", {}, {"a"}), call("aten.neg.default", {{"self", tensor("a")}}, {"b"}),
               call("aten.tan.default", {{"self", tensor("c")}}, {"d"}),
               call("aten.add.Tensor", {{"self", tensor("b")}, {"other", tensor("d")}}, {"y"})},
              "y");
  EXPECT_EQ(error_of(each),
            "aten.exp.default, call 0: the argument `self` is missing\n"
            "aten.tan.default, call 2: no call in front gives the tensor `c`");
}

TEST(AtenProgram, ErrorsOfInputsAndOutputs) {
  AtenProgram each = program({}, "x");
  each.inputs.push_back(each.inputs[0]);
  EXPECT_THAT(error_of(each), HasSubstr("two inputs have the name x"));
  each = program({}, "z");
  EXPECT_EQ(error_of(each), "output y: no call in front gives the tensor `z`");
  each = program({}, "x");
  each.outputs.clear();
  EXPECT_EQ(error_of(each), "a program without outputs");
  each = program({}, "x");
  each.inputs[0].donated_to = "q";
  EXPECT_EQ(error_of(each), "input x: it is donated to q, which is no output");
}

// --- the table ---

TEST(AtenProgram, EachRowHasItsFunctionAndEachFunctionItsRow) {
  std::set<std::string> functions;
  for (const auto family : aten::function_families()) {
    for (const aten::Function& each : family) {
      EXPECT_TRUE(functions.emplace(each.name).second) << each.name << " twice";
    }
  }
  for (const AtenRow& row : aten_table()) {
    const std::string name(row.name.substr(6));
    const bool computed = row.kind != AtenKind::kNo && row.kind != AtenKind::kValue;
    EXPECT_EQ(functions.erase(name), computed ? 1u : 0u) << row.name;
  }
  EXPECT_THAT(functions, testing::IsEmpty()) << "functions without a row";
}

// Whatever the arguments are, an error and no crash.
TEST(AtenProgram, NoFunctionBreaksOnStrangeArguments) {
  const std::vector<AtenArgument> strange = {
      {},          {true},         {int64_t{-3}},       {0.5},        {std::string("what")}, {i1}, {dim("n")},
      tensor("x"), tensor("gone"), tensors({"x", "s"}), list({7, -9})};
  for (const AtenRow& row : aten_table()) {
    for (const AtenArgument& argument : strange) {
      AtenCall each = call("aten." + std::string(row.name.substr(6)), {}, {"y", "z", "u"});
      std::istringstream names{std::string(row.arguments)};
      for (std::string name; names >> name;) each.arguments.emplace_back(name, argument);
      AtenProgram whole = program({each}, "y", {2, 3});
      whole.inputs.push_back({"s", i64, {}, ""});
      static_cast<void>(graph_of(whole));
      whole.calls[0].arguments.assign(1, {std::string(row.arguments.substr(0, row.arguments.find(' '))), tensor("s")});
      static_cast<void>(graph_of(whole));
    }
  }
}

}  // namespace
}  // namespace kiln::graph
