// Ops that have kernels of their own, and reductions that need more than a sum: extents of several blocks, of one and
// of none, ties, NaN, and places that come more than once. Plans run by the interpreter of tiles against the evaluator.
#include <gtest/gtest.h>

#include <array>

#include "graph/compare.h"
#include "graph/random_graph.h"
#include "kiln/graph/text.h"
#include "kiln/planner/plan_graph.h"
#include "run_plan.h"

namespace kiln::test {
namespace {

using Sizes = std::map<std::string, int64_t>;

struct AloneCase {
  std::string name;
  std::string graph;         // text; dims n and m, kernels and bodies may stand in front
  std::vector<Sizes> sizes;  // one plan for all
  random_graph::Content content = {};
};
void PrintTo(const AloneCase& each, std::ostream* out) { *out << each.name; }

class AlonePlan : public testing::TestWithParam<AloneCase> {};

// A plan for the target, whose kernels the interpreter runs.
void expect_the_evaluators(const AloneCase& each, const std::string& target) {
  auto graph = graph::parse(each.graph, "case.kg");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  auto plan = planner::plan_graph({*graph, target, {}});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  uint64_t seed = 0;
  for (Sizes sizes : each.sizes) {
    sizes.try_emplace("n", 1);  // where it is not used
    sizes.try_emplace("m", 1);
    SCOPED_TRACE(testing::PrintToString(sizes));
    const auto inputs = random_graph::inputs({*graph, sizes}, ++seed, each.content);
    auto expected = graph::evaluate(*graph, inputs, sizes);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    auto actual = run_plan(*plan, inputs, sizes);
    ASSERT_TRUE(actual.ok()) << actual.error().message;
    EXPECT_EQ(difference(*actual, *expected, {.coarsest = coarsest_float(*graph)}), "");
  }
}

TEST_P(AlonePlan, IsTheEvaluators) { expect_the_evaluators(GetParam(), "interp"); }

// What is planned otherwise there.
class AlonePlanOfAGpu : public testing::TestWithParam<AloneCase> {};
TEST_P(AlonePlanOfAGpu, IsTheEvaluators) { expect_the_evaluators(GetParam(), "cuda:sm_90a"); }

const char* const kDims = "dim n: 0..100000\ndim m: 1..100000\n\n";

// Does not commute: what is on the left decides unless it is below 0.
const char* const kFirst = R"(body @first(%a: f32[], %p: i32[], %b: f32[], %q: i32[]) {
  %zero = full {type = f32, shape = [], value = 0.0} : f32[]
  %m = cmp %a, %zero {pred = ge} : i1[]
  %x = select %m, %a, %b : f32[]
  %y = select %m, %p, %q : i32[]
  output x = %x
  output y = %y
}

)";

std::string graph_of(const std::string& inputs, const std::string& body, const std::string& before = "") {
  return kDims + before + "graph alone(" + inputs + ") {\n" + body + "}\n";
}

const std::vector<Sizes> kLengths = {{{"n", 3000}, {"m", 3}}, {{"n", 1025}, {"m", 1}}, {{"n", 1}, {"m", 70}}};
const random_graph::Content kSpecial = {.largest = 2, .percent_special = 10};
const random_graph::Content kSmallInts = {.largest = 3};

std::vector<AloneCase> reductions() {
  std::vector<AloneCase> out;
  for (const char* kind : {"min", "max"}) {
    const std::string attrs = std::string("{kind = ") + kind + ", axis = ";
    out.push_back({std::string("arg_") + kind + "_of_long_rows",
                   graph_of("%x: f32[m, n + 1]", "  %y = arg_reduce %x " + attrs + "1} : i64[m]\n  output y = %y\n"),
                   kLengths, kSpecial});
    out.push_back(
        {std::string("arg_") + kind + "_of_columns",
         graph_of("%x: i32[n + 1, m]", "  %y = arg_reduce %x " + attrs + "0, keep = 1} : i64[1, m]\n  output y = %y\n"),
         {{{"n", 100}, {"m", 300}}, {{"n", 1}, {"m", 1}}},
         kSmallInts});
    out.push_back({std::string("arg_") + kind + "_beside_a_sum",
                   graph_of("%x: bf16[5, 700]", "  %y = arg_reduce %x " + attrs +
                                                    "1} : i64[5]\n  %s = reduce %x {kind = sum, axes = [1]} : bf16[5]\n"
                                                    "  %f = cast %y {to = bf16} : bf16[5]\n"
                                                    "  %z = add %f, %s : bf16[5]\n  output y = %y\n  output z = %z\n"),
                   {{}}});
  }
  const std::string custom = "  %x2, %p2 = reduce_custom %x, %p, %u, %v {body = @first, axes = [";
  using Way = std::array<std::string, 3>;
  for (const auto& [name, axes, shape] : {Way{"rows", "1", "m"}, Way{"columns", "0", "n"}, Way{"all", "0, 1", ""}}) {
    const std::string shapes = std::string("f32[") + shape + "], i32[" + shape + "]";
    out.push_back({std::string("the_first_of_") + name,
                   graph_of("%x: f32[m, n], %p: i32[m, n], %u: f32[], %v: i32[]",
                            custom + axes + "]} : " + shapes + "\n  output x = %x2\n  output p = %p2\n", kFirst),
                   {{{"n", 1500}, {"m", 9}}, {{"n", 2}, {"m", 50}}, {{"n", 0}, {"m", 3}}}});
  }
  return out;
}

std::vector<AloneCase> scans() {
  std::vector<AloneCase> out;
  for (const char* element : {"f8e5m2", "f8e4m3"}) {  // the former has infinities
    const std::string type = std::string(element) + "[3, 40]";
    out.push_back({std::string("least_and_greatest_of_") + element,
                   graph_of("%bits: u8[3, 40]",
                            "  %x = bitcast %bits {to = " + std::string(element) + "} : " + type +
                                "\n  %y = scan %x {kind = min, axis = 1, reverse = 1, exclusive = 1} : " + type +
                                "\n  %z = reduce %x {kind = max, axes = [1]} : " + element +
                                "[3]\n  output y = %y\n  output z = %z\n"),
                   {{}},
                   {.largest = 255}});
  }
  for (const char* how : {"reverse = 0, exclusive = 0", "reverse = 1, exclusive = 0", "reverse = 0, exclusive = 1",
                          "reverse = 1, exclusive = 1"}) {
    std::string name = how;
    name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return c == ' ' || c == '=' || c == ','; }),
               name.end());
    const std::string attrs = std::string(", ") + how + "}";
    out.push_back(
        {"sum_of_rows_" + name,
         graph_of("%x: f32[m, n]", "  %y = scan %x {kind = sum, axis = 1" + attrs + " : f32[m, n]\n  output y = %y\n"),
         {{{"n", 3000}, {"m", 3}}, {{"n", 1}, {"m", 70}}, {{"n", 0}, {"m", 2}}}});
    out.push_back({"max_of_columns_" + name,
                   graph_of("%x: i32[3, n, m]",
                            "  %y = scan %x {kind = max, axis = 1" + attrs + " : i32[3, n, m]\n  output y = %y\n"),
                   {{{"n", 700}, {"m", 5}}, {{"n", 1}, {"m", 300}}}});
    out.push_back({"product_of_bf16_" + name,
                   graph_of("%x: bf16[4, 100]",
                            "  %y = scan %x {kind = prod, axis = 1" + attrs + " : bf16[4, 100]\n  output y = %y\n"),
                   {{}}});
    out.push_back({"or_of_i1_" + name,
                   graph_of("%x: i1[n]", "  %y = scan %x {kind = or, axis = 0" + attrs + " : i1[n]\n  output y = %y\n"),
                   {{{"n", 2500}}, {{"n", 3}}}});
  }
  for (const char* reverse : {"0", "1"}) {
    for (const char* axis : {"0", "1"}) {
      out.push_back(
          {std::string("the_first_along_") + axis + (*reverse == '1' ? "_reverse" : ""),
           graph_of("%x: f32[n, m], %p: i32[n, m]",
                    std::string("  %x2, %p2 = scan_custom %x, %p {body = @first, axis = ") + axis +
                        ", reverse = " + reverse + "} : f32[n, m], i32[n, m]\n  output x = %x2\n  output p = %p2\n",
                    kFirst),
           {{{"n", 9}, {"m", 1500}}, {{"n", 1500}, {"m", 7}}, {{"n", 1}, {"m", 1}}}});
    }
  }
  return out;
}

std::vector<AloneCase> scatters() {
  std::vector<AloneCase> out;
  // Infinities stay where nothing is put, and as the least.
  out.push_back({"scatter_the_least_of_f8e5m2",
                 graph_of("%bits: u8[600], %i: i32[40], %v: f8e5m2[40]",
                          "  %x = bitcast %bits {to = f8e5m2} : f8e5m2[600]\n"
                          "  %c = full {type = i32, shape = [40], value = 600} : i32[40]\n  %j = rem %i, %c : i32[40]\n"
                          "  %y = scatter %x, %j, %v {axis = 0, kind = min} : f8e5m2[600]\n  output y = %y\n"),
                 {{}},
                 {.largest = 255}});
  for (const char* kind : {"set", "add", "mul", "min", "max"}) {
    for (const char* element : {"f32", "i8", "bf16"}) {
      const std::string e = element, name = std::string(kind) + "_of_" + element;
      out.push_back({"scatter_" + name,
                     graph_of("%x: " + e + "[m, 7], %i: i32[n, 7], %v: " + e + "[n, 7]",
                              "  %c = extent {type = i32, value = m} : i32[]\n"
                              "  %b = broadcast %c {shape = [n, 7]} : i32[n, 7]\n  %j = rem %i, %b : i32[n, 7]\n"
                              "  %y = scatter %x, %j, %v {axis = 0, kind = " +
                                  std::string(kind) + "} : " + e + "[m, 7]\n  output y = %y\n"),
                     {{{"n", 40}, {"m", 6}}, {{"n", 0}, {"m", 3}}, {{"n", 5}, {"m", 100}}},
                     e == "i8" ? random_graph::Content{.largest = 120} : random_graph::Content{.largest = 1000}});
      out.push_back({"index_put_" + name,
                     graph_of("%x: " + e + "[5, m, 3], %v: " + e + "[n, 2, m], %i: i64[n, 2], %k: u8[n, 2]",
                              "  %five = full {type = i64, shape = [n, 2], value = 5} : i64[n, 2]\n"
                              "  %three = full {type = u8, shape = [n, 2], value = 3} : u8[n, 2]\n"
                              "  %j = rem %i, %five : i64[n, 2]\n  %l = rem %k, %three : u8[n, 2]\n"
                              "  %y = index_put %x, %v, %l, %j {axes = [2, 0], kind = " +
                                  std::string(kind) + "} : " + e + "[5, m, 3]\n  output y = %y\n"),
                     {{{"n", 20}, {"m", 9}}, {{"n", 1}, {"m", 1100}}},
                     random_graph::Content{.largest = 100}});
    }
  }
  return out;
}

// Bags of any size, of none, and ids in front of the first bag; ids count from the end where they are negative.
std::vector<AloneCase> bags() {
  std::vector<AloneCase> out;
  const std::string ids = "  %c = full {type = i32, shape = [m], value = 7} : i32[m]\n  %ids = rem %i, %c : i32[m]\n";
  // Sorted places in 0 … m.
  const std::string starts =
      "  %e = extent {type = i64, value = m + 1} : i64[]\n  %f = broadcast %e {shape = [n]} : i64[n]\n"
      "  %r = rem %o, %f : i64[n]\n  %a = abs %r : i64[n]\n"
      "  %starts, %from = sort %a {axis = 0} : i64[n], i64[n]\n";
  const std::vector<Sizes> sizes = {{{"n", 40}, {"m", 100}}, {{"n", 1}, {"m", 3}}, {{"n", 70}, {"m", 5}}};
  for (const char* mode : {"sum", "mean", "max"}) {
    for (const char* element : {"f32", "bf16", "f64"}) {
      const std::string e = element;
      out.push_back({std::string("bags_") + mode + "_of_" + e,
                     graph_of("%t: " + e + "[7, 33], %i: i32[m], %o: i64[n]",
                              ids + starts + "  %y = embedding_bag %t, %ids, %starts {mode = " + mode + "} : " + e +
                                  "[n, 33]\n  output y = %y\n"),
                     sizes,
                     {.largest = 1000, .percent_special = *mode == 'm' && e == "f32" ? 5 : 0}});
    }
  }
  out.push_back({"bags_with_weights_of_a_computed_table",
                 graph_of("%t: f32[7, 3], %u: f32[7, 3], %i: i32[m], %o: i64[n], %w: f32[m]",
                          ids + starts +
                              "  %b = exp %u : f32[7, 3]\n  %v = neg %w : f32[m]\n"
                              "  %x = embedding_bag %t, %ids, %starts, %v {mode = sum} : f32[n, 3]\n"
                              "  %y = embedding_bag %b, %ids, %starts {mode = mean} : f32[n, 3]\n"
                              "  %z = tanh %y : f32[n, 3]\n  output x = %x\n  output z = %z\n"),
                 sizes,
                 {.largest = 2}});
  out.push_back({"bags_of_one_length",
                 graph_of("%t: f32[7, 1], %i: i32[m], %o: i64[n]",
                          ids + "  %k = iota {type = i64, shape = [5], axis = 0} : i64[5]\n"
                                "  %l = full {type = i64, shape = [5], value = 20} : i64[5]\n"
                                "  %starts = mul %k, %l : i64[5]\n"
                                "  %y = embedding_bag %t, %ids, %starts {mode = sum} : f32[5, 1]\n  output y = %y\n"),
                 {{{"m", 100}}, {{"m", 81}}}});
  for (const std::string columns : {"1", "70"}) {
    out.push_back({"one_bag_of_columns_" + columns,
                   graph_of("%t: f32[7, " + columns + "], %i: i32[m]",
                            ids + "  %starts = iota {type = i64, shape = [1], axis = 0} : i64[1]\n" +
                                "  %y = embedding_bag %t, %ids, %starts {mode = max} : f32[1, " + columns +
                                "]\n  output y = %y\n"),
                   {{{"m", 10}}, {{"m", 1}}}});
  }
  return out;
}

// Results of many parts: of one shape, along any axis, of values and of what is computed.
std::vector<AloneCase> cats() {
  std::vector<AloneCase> out;
  for (const char* axis : {"0", "1", "2"}) {
    const std::string shape = *axis == '0' ? "[20, n, m]" : *axis == '1' ? "[2, 10 * n, m]" : "[2, n, 10 * m]";
    out.push_back(
        {std::string("cat_of_many_along_") + axis,
         graph_of("%a: f32[2, n, m], %b: f32[2, n, m]",
                  "  %c = exp %a : f32[2, n, m]\n  %d = reverse %b {axes = [1]} : f32[2, n, m]\n"
                  "  %y = cat %a, %b, %c, %d, %a, %c, %c, %b, %d, %a {axis = " +
                      std::string(axis) + "} : f32" + shape + "\n  %z = neg %y : f32" + shape + "\n  output z = %z\n"),
         {{{"n", 30}, {"m", 50}}, {{"n", 0}, {"m", 3}}, {{"n", 1}, {"m", 1}}}});
  }
  return out;
}

std::vector<AloneCase> orders() {
  std::vector<AloneCase> out;
  for (const char* down : {"0", "1"}) {
    for (const char* element : {"f32", "i32", "u8", "f8e5m2", "f8e4m3", "bf16"}) {
      const std::string e = element, name = e + (*down == '1' ? "_down" : "_up");
      const auto content = e[0] == 'f' || e[0] == 'b' ? kSpecial : kSmallInts;
      // Symbolic: merged from runs; of known extent: sorted in tiles.
      out.push_back(
          {"sort_by_merging_" + name,
           graph_of("%x: " + e + "[n, m]", "  %v, %i = sort %x {axis = 0, descending = " + std::string(down) +
                                               "} : " + e + "[n, m], i64[n, m]\n  output v = %v\n  output i = %i\n"),
           {{{"n", 9000}, {"m", 2}}, {{"n", 1}, {"m", 3}}},
           content});
      out.push_back({"sort_in_tiles_" + name,
                     graph_of("%x: " + e + "[3, 2, 77, m]",
                              "  %v, %i = sort %x {axis = 2, descending = " + std::string(down) + "} : " + e +
                                  "[3, 2, 77, m], i64[3, 2, 77, m]\n  output v = %v\n  output i = %i\n"),
                     {{{"m", 1}}, {{"m", 40}}},
                     content});
      out.push_back({"topk_in_blocks_" + name,
                     graph_of("%x: " + e + "[m, n + 20]",
                              "  %v, %i = topk %x {k = 20, axis = 1, largest = " + std::string(down) + "} : " + e +
                                  "[m, 20], i64[m, 20]\n  output v = %v\n  output i = %i\n"),
                     {{{"n", 5000}, {"m", 2}}, {{"n", 0}, {"m", 3}}},
                     {.largest = 100}});
      out.push_back(
          {"topk_by_merging_" + name,
           graph_of("%x: " + e + "[m]", "  %v, %i = topk %x {k = m, axis = 0, largest = " + std::string(down) +
                                            "} : " + e + "[m], i64[m]\n  output v = %v\n  output i = %i\n"),
           {{{"m", 25000}}, {{"m", 1}}, {{"m", 8192}}},
           content});
    }
  }
  // Of known extents: as a whole, with what is computed before it.
  out.push_back({"sort_of_long_lines",
                 graph_of("%x: f32[m, 12001], %y: f32[m, 12001]",
                          "  %z = mul %x, %y : f32[m, 12001]\n"
                          "  %v, %i = sort %z {axis = 1, descending = 1} : f32[m, 12001], i64[m, 12001]\n"
                          "  %t, %j = topk %z {k = 50, axis = 1, largest = 0} : f32[m, 50], i64[m, 50]\n"
                          "  output v = %v\n  output i = %i\n  output t = %t\n  output j = %j\n"),
                 {{{"m", 2}}},
                 kSpecial});
  // In parts: of few lines, one of which ends within a part, with ties at the ends of parts, and NaN.
  for (const char* largest : {"0", "1"}) {
    for (const char* element : {"f32", "i8", "f8e5m2"}) {
      const std::string e = element;
      // Arithmetic on f8 saturates.
      const std::string before = e[0] == 'f' && e[1] == '8' ? "reverse %x {axes = [0]}" : "neg %x";
      out.push_back({std::string("topk_of_long_lines_") + e + "_" + largest,
                     graph_of("%x: " + e + "[2, 70001, m]",
                              "  %z = " + before + " : " + e +
                                  "[2, 70001, m]\n  %t, %j = topk %z {k = 37, axis = 1, largest = " + largest +
                                  "} : " + e + "[2, 37, m], i64[2, 37, m]\n  output t = %t\n  output j = %j\n"),
                     {{{"m", 1}}},
                     e == "i8" ? kSmallInts : random_graph::Content{.largest = 200, .percent_special = 1}});
      out.push_back(
          {std::string("topk_of_one_line_") + e + "_" + largest,
           graph_of("%x: " + e + "[65537]", "  %t, %j = topk %x {k = 100, axis = 0, largest = " + std::string(largest) +
                                                "} : " + e + "[100], i64[100]\n  output t = %t\n  output j = %j\n"),
           {{}},
           e == "i8" ? kSmallInts : random_graph::Content{.largest = 2, .percent_special = 30}});
    }
  }
  for (const char* bins : {"5", "m", "5000"}) {
    for (const char* element : {"i8", "u64", "i32"}) {
      out.push_back(
          {std::string("histogram_of_") + element + "_in_" + bins,
           graph_of(std::string("%x: ") + element + "[n, 3], %unused: f32[m]",
                    std::string("  %y = histogram %x {bins = ") + bins + "} : i64[" + bins + "]\n  output y = %y\n"),
           {{{"n", 2000}, {"m", 7}}, {{"n", 0}, {"m", 1}}},
           random_graph::Content{.largest = 10, .percent_special = 5}});
    }
  }
  return out;
}

// All but the last element of the result.
const char* const kTwice = R"(kernel @k {
  operands f32[n]
  results f32[n]
  arguments operand 0, result 0, n - 1
  kernel twice(%x: ptr<f32> readonly, %y: ptr<f32>, %n: i32) {
    constexpr BLOCK = 256
    grid [div(n + BLOCK - 1, BLOCK), 1, 1]

    %pid = program_id {axis = 0} : i32
    %block = constant {value = BLOCK, type = i32} : i32
    %base = mul %pid, %block : i32
    %lanes = arange {start = 0, end = BLOCK} : tile<[BLOCK], i32>
    %start = splat %base {shape = [BLOCK]} : tile<[BLOCK], i32>
    %at = add %start, %lanes : tile<[BLOCK], i32>
    %end = splat %n {shape = [BLOCK]} : tile<[BLOCK], i32>
    %m = cmp %at, %end {pred = lt} : tile<[BLOCK], i1>
    %xp = splat %x {shape = [BLOCK]} : tile<[BLOCK], ptr<f32>>
    %xq = addptr %xp, %at : tile<[BLOCK], ptr<f32>>
    %zero = constant {value = 0.0, type = f32} : f32
    %zeros = splat %zero {shape = [BLOCK]} : tile<[BLOCK], f32>
    %v = load %xq, %m, %zeros : tile<[BLOCK], f32>
    %w = add %v, %v : tile<[BLOCK], f32>
    %yp = splat %y {shape = [BLOCK]} : tile<[BLOCK], ptr<f32>>
    %yq = addptr %yp, %at : tile<[BLOCK], ptr<f32>>
    store %yq, %w, %m
  }
}

)";

std::vector<AloneCase> kernels() {
  return {{"kernel_that_leaves_an_element",
           graph_of("%x: f32[n]",
                    "  %s = reverse %x {axes = [0]} : f32[n]\n  %y = kernel %s {kernel = @k} : f32[n]\n"
                    "  %z = exp %y : f32[n]\n  output y = %y\n  output z = %z\n",
                    kTwice),
           {{{"n", 1000}}, {{"n", 1}}}}};
}

// Few lines of known length: on a GPU a program has longer blocks of them.
std::vector<AloneCase> long_lines() {
  std::vector<AloneCase> out;
  for (const char* op :
       {"scan %x {kind = max, axis = 1, reverse = 0, exclusive = 0} : i32[2, 9000]",
        "scan %x {kind = sum, axis = 1, reverse = 1, exclusive = 1} : i32[2, 9000]",
        "arg_reduce %x {kind = max, axis = 1} : i64[2]", "reduce %x {kind = prod, axes = [1]} : i32[2]"}) {
    out.push_back({"long_lines_" + std::to_string(out.size()),
                   graph_of("%x: i32[2, 9000]", std::string("  %y = ") + op + "\n  output y = %y\n"),
                   {{}}});
  }
  return out;
}

std::vector<AloneCase> all_cases() {
  std::vector<AloneCase> out;
  for (const auto& some : {reductions(), scans(), long_lines(), scatters(), bags(), cats(), orders(), kernels()})
    out.insert(out.end(), some.begin(), some.end());
  return out;
}
std::vector<AloneCase> gpu_cases() {
  std::vector<AloneCase> out;
  for (const auto& some : {long_lines(), scatters(), bags(), cats(), orders()})
    out.insert(out.end(), some.begin(), some.end());
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, AlonePlanOfAGpu, testing::ValuesIn(gpu_cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(All, AlonePlan, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

// A kernel of the user's with code: for its target the plan has that, elsewhere its ops, and where it has none an
// error.
TEST(CodeOfOnesOwn, IsPlannedWhereItIs) {
  const char* const declared =
      "  kernel double_it(%x: ptr<f32> readonly, %y: ptr<f32>, %n: i32) {\n    grid [n, 1, 1]\n";
  const std::string head =
      "dim n: 1..4096\n\nkernel @double_it {\n  operands f32[n]\n  results f32[n]\n"
      "  arguments operand 0, result 0, n\n  code \"cuda\" ptx threads 32 { \".version 7.0\" }\n";
  const std::string ops =
      "    %p = program_id {axis = 0} : i32\n    %from = addptr %x, %p : ptr<f32>\n    %v = load %from : f32\n"
      "    %w = add %v, %v : f32\n    %to = addptr %y, %p : ptr<f32>\n    store %to, %w\n";
  const std::string tail =
      "  }\n}\ngraph g(%x: f32[n]) {\n  %a = kernel %x {kernel = @double_it}\n"
      "  %b = kernel %a {kernel = @double_it}\n  output y = %b\n}\n";
  const auto plan_of = [&](bool with_ops, const std::string& target) {
    auto graph = graph::parse(head + declared + (with_ops ? ops : "") + tail, "case.kg");
    EXPECT_TRUE(graph) << graph.error().message;
    return planner::plan_graph({*graph, target, {}});
  };
  auto gpu = plan_of(true, "cuda:sm_90a");
  ASSERT_TRUE(gpu) << gpu.error().message;
  ASSERT_EQ(gpu->kernels.size(), 2u) << "zeros, and the code once";
  const graph::PlannedKernel& coded = gpu->kernels[1];
  ASSERT_TRUE(coded.code);
  EXPECT_EQ(coded.code->threads, 32);
  EXPECT_TRUE(coded.kernel.body.ops.empty());
  EXPECT_EQ(gpu->log[1], "1: double_it, of the graph's PTX, gives f32[n]");
  auto interpreted = plan_of(true, "interp");
  ASSERT_TRUE(interpreted) << interpreted.error().message;
  EXPECT_FALSE(interpreted->kernels[1].code);
  ASSERT_TRUE(plan_of(false, "cuda:sm_90a"));
  const auto nothing = plan_of(false, "cpu:generic");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().message,
            "case.kg:13:3: kernel: `double_it` has code for cuda, and no ops that run elsewhere");
  EXPECT_EQ(nothing.error().code, ErrorCode::kCompileFailed);
}

}  // namespace
}  // namespace kiln::test
