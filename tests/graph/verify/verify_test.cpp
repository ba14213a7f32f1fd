// Each rule of a graph as a whole: one thing is changed in a graph that verifies, and the error says what and where.
#include "kiln/graph/verify.h"

#include <gtest/gtest.h>

#include <functional>

#include "graph/random_graph.h"
#include "kiln/dsl/text.h"
#include "kiln/graph/builder.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// y = exp(x) + w, where w is donated to y; s = call @part(x) with a name; a kernel.
Graph sound() {
  random_graph::Options options;
  options.nodes = 0;
  options.first = {kKernel};
  options.symbolic = options.donations = false;
  GraphBuilder builder("g");
  const uint32_t file = builder.add_file("g.cpp"), n = *builder.add_dim({"n", 1, 8, 1});
  EXPECT_TRUE(builder.add_dim({"m", 1, 8, 1}));
  const TensorType type{ElementType::kF32, {Expr::constexpr_ref(n)}};
  builder.open_body("part");
  const ValueId a = *builder.add_input("a", type);
  EXPECT_TRUE(builder.add_output("b", *builder.add_one(kNeg, std::vector{a})));
  const BodyId part = builder.close_body();
  const ValueId x = *builder.add_input("x", type, {file, 1, 2}), w = *builder.add_input("w", type, {file, 2, 2});
  const ValueId e = *builder.add_one(kExp, std::vector{x}, {}, {file, 3, 4});
  const ValueId y = *builder.add_one(kAdd, std::vector{e, w}, {}, {file, 4, 4});
  const ValueId s = *builder.add_one(kCall, std::vector{x}, {int64_t{part}}, {file, 5, 4});
  const ValueId r = *builder.add_one(kReduce, std::vector{s}, {int64_t{0}, std::vector<int64_t>{0}}, {file, 6, 4});
  builder.set_name(s, "state");
  EXPECT_TRUE(builder.add_output("y", y));
  EXPECT_TRUE(builder.add_output("r", r));
  EXPECT_TRUE(builder.donate(1, 0));
  auto made = random_graph::make(1, options);
  EXPECT_TRUE(made) << made.error().message;
  TileKernel kernel = made->graph.kernels.at(0);
  kernel.gradient = kNone;
  kernel.name = "twice";
  for (auto* types : {&kernel.operands, &kernel.results}) {
    for (TensorType& each : *types) each = type;
  }
  kernel.arguments[3].scalar = Expr::constexpr_ref(n);
  EXPECT_TRUE(builder.add_kernel(std::move(kernel)));
  return builder.take();
}

struct Row {
  std::function<void(Graph&)> change;
  std::string message;
};

void expect(const std::vector<Row>& rows) {
  const Graph graph = sound();
  ASSERT_TRUE(verify(graph)) << verify(graph).error().message;
  for (const Row& row : rows) {
    Graph changed = graph;
    row.change(changed);
    const auto found = verify(changed);
    EXPECT_EQ(found ? "verifies" : found.error().message, row.message);
    EXPECT_TRUE(found || found.error().code == ErrorCode::kVerifyFailed);
  }
}

// Nodes of main: exp, add, call, reduce. Values: x, w, e, y, s, r.
constexpr size_t kExpNode = 0, kAddNode = 1, kCallNode = 2, kReduceNode = 3;
Body& main_of(Graph& g) { return g.bodies[0]; }

TEST(Verify, Tables) {
  expect({
      {[](Graph& g) { g.bodies.clear(); }, "the graph has no main body"},
      {[](Graph& g) { g.dims[1].name = "n"; }, "two dims have the name n"},
      {[](Graph& g) { g.dims[1].name.clear(); }, "dim 1  has no name"},
      {[](Graph& g) { g.dims[1].low = -1; }, "dim 1 m needs 0 <= low <= high <= 2^40"},
      {[](Graph& g) { g.dims[1].high = int64_t{1} << 41; }, "dim 1 m needs 0 <= low <= high <= 2^40"},
      {[](Graph& g) { g.dims[1].multiple = 0; }, "dim 1 m needs a multiple of 1 to 2^40"},
      {[](Graph& g) { g.dims[1].multiple = 9; }, "dim 1 m has no multiple between its bounds"},
      {[](Graph& g) { g.types.push_back(g.types[0]); }, "types 0 and 2 are equal: f32[n]"},
      {[](Graph& g) { g.types.push_back({static_cast<ElementType>(77), {}}); }, "type 2 has no element type"},
      {[](Graph& g) { g.types.push_back({ElementType::kF32, std::vector<Expr>(17, Expr(1))}); },
       "type 2 has more than 16 axes"},
      {[](Graph& g) { g.types.push_back({ElementType::kF32, {Expr::constexpr_ref(2)}}); },
       "type 2 has an extent that is too large, or of what is no dim"},
      {[](Graph& g) { g.types.push_back({ElementType::kF32, {Expr::constexpr_ref(0) - Expr(2)}}); },
       "type 2 has an extent that may be negative; give the dims bounds"},
      {[](Graph& g) { g.attr_lists.clear(); }, "attribute list 0 is not the empty one"},
      {[](Graph& g) { g.attr_lists.push_back({}); }, "attribute lists 0 and 3 are equal"},
      {[](Graph& g) { g.attr_lists.push_back(g.attr_lists[1]); }, "attribute lists 1 and 3 are equal"},
      {[](Graph& g) { g.attr_lists.push_back({Expr::param_ref(0)}); },
       "attribute list 3: an expression mentions what is no dim"},
  });
}

TEST(Verify, Structure) {
  expect({
      {[](Graph& g) { g.bodies[1].name = "g"; }, "two bodies have the name @g"},
      {[](Graph& g) { g.bodies[1].name.clear(); }, "body 1 has no name"},
      {[](Graph& g) { main_of(g).values[3].type = 9; }, "@g: a value has a type that the graph has not"},
      {[](Graph& g) { main_of(g).values.push_back({0, 9}); }, "@g: a value is neither an input nor a node's result"},
      {[](Graph& g) { main_of(g).operands.push_back(0); }, "@g: an operand is no node's"},
      {[](Graph& g) { main_of(g).inputs[0].name.clear(); }, "g.cpp:1:2: input has no name"},
      {[](Graph& g) { main_of(g).inputs[1].name = "x"; }, "g.cpp:2:2: input x: two inputs have this name"},
      {[](Graph& g) { main_of(g).inputs[1].value = 77; }, "g.cpp:2:2: input w has no value"},
      {[](Graph& g) { main_of(g).inputs[1].value = 2; }, "g.cpp:2:2: input w is the result of a node"},
      {[](Graph& g) { main_of(g).inputs[1].value = 0; }, "g.cpp:2:2: input w has the value of another input"},
      {[](Graph& g) { main_of(g).inputs[1].loc.file = 2; }, "@g: input w is in a file that the graph has not"},
      {[](Graph& g) { g.bodies[1].inputs[0].donated_to = 0; },
       "@part: input a is donated, and inputs of main alone may be"},
      {[](Graph& g) { main_of(g).nodes[kExpNode].op = static_cast<TensorOp>(255); }, "@g: node 0 has no op"},
      {[](Graph& g) { main_of(g).nodes[kExpNode].loc.file = 3; }, "@g: exp: is in a file that the graph has not"},
      {[](Graph& g) { main_of(g).nodes[kExpNode].attrs = 99; },
       "g.cpp:3:4: exp: has attributes that the graph has not"},
      {[](Graph& g) { main_of(g).nodes[kAddNode].first_operand = 0; },
       "g.cpp:4:4: add: its operands are not those behind the operands of the node before"},
      {[](Graph& g) { main_of(g).nodes[kAddNode].operand_count = kNone; },
       "g.cpp:4:4: add: its operands are not those behind the operands of the node before"},
      {[](Graph& g) { main_of(g).operands[0] = 77; }, "g.cpp:3:4: exp: an operand is no value of the body"},
      {[](Graph& g) { main_of(g).operands[0] = 3; },
       "g.cpp:3:4: exp: an operand is used before the node that defines it"},
      {[](Graph& g) { main_of(g).operands[0] = 2; },
       "g.cpp:3:4: exp: an operand is used before the node that defines it"},
      {[](Graph& g) { main_of(g).nodes[kExpNode].first_result = 77; },
       "g.cpp:3:4: exp: its results are no values of the body"},
      {[](Graph& g) { main_of(g).nodes[kExpNode].result_count = kNone; },
       "g.cpp:3:4: exp: its results are no values of the body"},
      {[](Graph& g) { main_of(g).nodes[kExpNode].first_result = 3; },
       "g.cpp:3:4: exp: a result is of another node, or an input"},
      {[](Graph& g) { main_of(g).outputs.clear(); }, "@g: there is no output"},
      {[](Graph& g) { main_of(g).outputs[0].name.clear(); }, "@g: an output has no name"},
      {[](Graph& g) { main_of(g).outputs[1].name = "y"; }, "@g: output y: two outputs have this name"},
      {[](Graph& g) { main_of(g).outputs[1].value = kNoValue; }, "@g: output r has no value"},
      {[](Graph& g) { main_of(g).inputs[1].donated_to = 7; },
       "g.cpp:2:2: input w is donated to an output that is not there"},
      {[](Graph& g) { main_of(g).inputs[0].donated_to = 0; },
       "g.cpp:2:2: input w is donated to output y, as input x is"},
      {[](Graph& g) { main_of(g).inputs[1].donated_to = 1; },
       "g.cpp:2:2: input w of f32[n] cannot be donated to output r of f32[]"},
      {[](Graph& g) { main_of(g).names[77] = "z"; }, "@g: the name z is of no value"},
      {[](Graph& g) { main_of(g).names[0] = "z"; }, "@g: the name z is of an input, which has one"},
      {[](Graph& g) { main_of(g).names[2] = ""; }, "@g: a value has an empty name"},
      {[](Graph& g) { main_of(g).names[2] = "x"; }, "@g: two values have the name x"},
      {[](Graph& g) { main_of(g).names[2] = "state"; }, "@g: two values have the name state"},
  });
}

TEST(Verify, TypesOfResults) {
  expect({
      {[](Graph& g) { main_of(g).nodes[kExpNode].op = kAbs; }, "verifies"},
      {[](Graph& g) { main_of(g).nodes[kExpNode].op = kAdd; }, "g.cpp:3:4: add: takes 2 operands, not 1"},
      {[](Graph& g) { main_of(g).nodes[kExpNode].op = kSort; }, "g.cpp:3:4: sort: has 2 attributes, not 0"},
      {[](Graph& g) { main_of(g).values[2].type = main_of(g).values[5].type; },
       "g.cpp:3:4: exp: result 0 is f32[n], not f32[]"},
      {[](Graph& g) { main_of(g).nodes[kReduceNode].attrs = main_of(g).nodes[kCallNode].attrs; },
       "g.cpp:6:4: reduce: has 3 attributes, not 2"},
      {[](Graph& g) { main_of(g).operands[0] = kNoValue; }, "g.cpp:3:4: exp: operand x is missing"},
      {[](Graph& g) { g.attr_lists[main_of(g).nodes[kCallNode].attrs][0] = int64_t{0}; },
       "@g runs itself, by way of @g"},
      {[](Graph& g) { g.attr_lists[main_of(g).nodes[kCallNode].attrs][0] = int64_t{7}; },
       "g.cpp:5:4: call: body 7 is no body of the graph"},
      {[](Graph& g) { g.attr_lists[main_of(g).nodes[kCallNode].attrs][0] = int64_t{-1}; },
       "g.cpp:5:4: call: body -1 is no body of the graph"},
      {[](Graph& g) { g.attr_lists[main_of(g).nodes[kCallNode].attrs][0] = 1.5; },
       "g.cpp:5:4: call: attribute body is of another kind"},
      {[](Graph& g) { g.bodies[1].outputs.clear(); }, "@part: there is no output"},
  });
}

TEST(Verify, Kernels) {
  using Kind = TileKernel::Argument::Kind;
  expect({
      {[](Graph& g) { g.kernels[0].name.clear(); }, "a kernel has no name"},
      {[](Graph& g) { g.kernels.push_back(g.kernels[0]); }, "two kernels have the name @twice"},
      {[](Graph& g) { g.kernels[0].results.clear(); }, "kernel @twice: gives no results"},
      {[](Graph& g) { g.kernels[0].operands[0].shape = {Expr(-1)}; },
       "kernel @twice: a type has an extent that may be negative; give the dims bounds"},
      {[](Graph& g) { g.kernels[0].arguments.pop_back(); }, "kernel @twice: has 3 arguments, for 4 parameters"},
      {[](Graph& g) { g.kernels[0].arguments[3].scalar = Expr::constexpr_ref(7); },
       "kernel @twice: parameter n is given an expression that mentions a dim that the graph has not"},
      {[](Graph& g) { g.kernels[0].arguments[0].kind = Kind::kScalar; },
       "kernel @twice: parameter x is no int, and given a number"},
      {[](Graph& g) { g.kernels[0].arguments[0].kind = static_cast<Kind>(9); },
       "kernel @twice: parameter x is given nothing"},
      {[](Graph& g) { g.kernels[0].arguments[0].index = 2; },
       "kernel @twice: parameter x is given a tensor that is not there"},
      {[](Graph& g) { g.kernels[0].operands[0].element = ElementType::kF64; },
       "kernel @twice: parameter x is of ptr<f32>, and given f64[n]"},
      {[](Graph& g) { g.kernels[0].arguments[3] = {Kind::kOperand, 0, {}}; },
       "kernel @twice: parameter n is of i32, and given f32[n]"},
      {[](Graph& g) { g.kernels[0].arguments[1] = {Kind::kResult, 0, {}}; },
       "kernel @twice: parameter y is read-only, and given a result"},
      {[](Graph& g) { g.kernels[0].arguments[1].index = 0; }, "kernel @twice: no parameter is given operand 1"},
      {[](Graph& g) { g.kernels[0].results.push_back(g.kernels[0].results[0]); },
       "kernel @twice: no parameter is given result 1"},
      {[](Graph& g) { g.kernels[0].gradient = 0; }, "kernel @twice: its gradient is no body"},
      {[](Graph& g) { g.kernels[0].gradient = 1; },
       "kernel @twice: its gradient @part must take 4 tensors (operands, results, a gradient of each result) and give "
       "2 (one of "
       "each float operand)"},
  });
}

TEST(Verify, CodeOfOnesOwn) {
  const auto with = [](const char* target, dsl::CodeForm form, dsl::CustomCode code = {.text = "some"}) {
    code.form = form;
    return [=](Graph& g) {
      g.kernels[0].kernel = *dsl::parse(
          "kernel twice(%x: ptr<f32> readonly, %y: ptr<f32> readonly, %out: ptr<f32>, %n: i32) {\n  grid [n, 1, "
          "1]\n}\n",
          "declared.kiln");
      g.kernels[0].codes = {{target, code}};
    };
  };
  using enum dsl::CodeForm;
  const std::string custom = "kernel @twice: custom kernel `twice`";
  expect({
      {with("cuda:sm_90a", kPtx), "verifies"},
      {with("cpu", kLlvmIr), "verifies"},
      {with("toaster", kLlvmIr),
       "kernel @twice: has code for a target that is none: there are no targets `toaster`; there are cpu, cuda, amd"},
      {with("cpu", kPtx), "kernel @twice: has PTX for cpu, which does not take it"},
      {with("cuda", kAmdAssembly), "kernel @twice: has assembly of AMD's GPUs for cuda, which does not take it"},
      {with("cuda", kPtx, {}), custom + " has no code"},
      {with("cuda", kPtx, {.text = "some", .threads = 0}), custom + ": blocks have 1 to 1024 threads, not 0"},
      {[&](Graph& g) { g.kernels[0].codes = {{"cuda", {.form = kPtx, .text = "some"}}}; },
       custom + ": `BLOCK` is a constexpr, which its text cannot take: make it a parameter"},
  });
}

// A body that runs itself through others, and bodies deeper than passes go.
TEST(Verify, BodiesDoNotRunThemselves) {
  const auto chain = [](int count, bool closed) {
    Graph graph;
    graph.types = {{ElementType::kF32, {}}};
    for (int i = 0; i < count; ++i) {
      graph.bodies.emplace_back();
      Body& body = graph.bodies.back();
      body.name = "b" + std::to_string(i);
      body.inputs = {{"x", 0, kNone, {}}};
      body.values = {{0, kNone}};
      body.outputs = {{"y", 0}};
      const int next = i + 1 < count ? i + 1 : closed ? 1 : 0;
      if (next == 0) continue;
      graph.attr_lists.push_back({int64_t{next}, int64_t{0}});
      body.values.push_back({0, 0});
      body.operands = {0};
      body.nodes.push_back({kCall, static_cast<AttrsId>(graph.attr_lists.size() - 1), 0, 1, 1, 1, {}});
    }
    if (closed) {  // the list of the last is that of the first
      graph.attr_lists.pop_back();
      graph.bodies.back().nodes[0].attrs = 1;
    }
    return graph;
  };
  EXPECT_TRUE(verify(chain(150, false)));
  EXPECT_EQ(verify(chain(4, true)).error().message, "@b1 runs itself, by way of @b3");
  EXPECT_EQ(verify(chain(100'000, false)).error().message, "@b200 is more than 200 bodies deep");
}

}  // namespace
}  // namespace kiln::graph
