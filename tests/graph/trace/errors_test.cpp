// What authors do wrong: each mistake with its text and the line that it names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "kiln/dsl/library.h"
#include "trace/lines.h"

namespace kiln::graph {
namespace {

using ::testing::AllOf;
using ::testing::AnyOfArray;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Matcher;
using ::testing::Not;

const Dim n = dim("n", 1, 1024), m = dim("m", 1, 1024);

std::string at_line(uint32_t line) { return "errors_test.cpp:" + std::to_string(line) + ":"; }

struct Mistake {
  uint32_t line;
  Tensor (*function)(Tensor x, Tensor w, Tensor ids);
  const char* message;
};

// x: f32[n, 4], w: f32[8, 4], ids: i32[n].
#define KILN_MISTAKE(expression, message)                                                            \
  {__LINE__,                                                                                         \
   []([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor ids) -> Tensor { \
     return expression;                                                                              \
   },                                                                                                \
   message}
// clang-format off
const Mistake kMistakes[] = {
    // elementwise
    KILN_MISTAKE(x + w, "add: the shapes of f32[n, 4] and f32[8, 4] do not broadcast: n against 8"),
    KILN_MISTAKE(x + zeros(f32, {m, 4}), "add: the shapes of f32[n, 4] and f32[m, 4] do not broadcast: n against m"),
    KILN_MISTAKE(where(x, x, 0), "where: the condition is f32[n, 4], not i1; compare it, as in x != 0"),
    KILN_MISTAKE(x & 1.5, "and: takes ints or i1, not f32[n, 4]"),
    KILN_MISTAKE(ids & cast(x, u32), "and: i32 and u32 have the same width and different signedness"),
    KILN_MISTAKE((x > 0) + 1, "add: takes numbers: cast i1 first, not i1[n, 4]"),
    KILN_MISTAKE(mulhi(x, x), "mulhi: takes ints, not f32[n, 4]"),
    KILN_MISTAKE(bitcast(x, i64), "bitcast: f32[n, 4] has elements of another width than i64"),
    KILN_MISTAKE(clamp(x, 2, 1), "clamp: low is above high"),
    // make
    KILN_MISTAKE(full({n}, 0.5, i32), "full: 0.5 is not a value of i32"),
    KILN_MISTAKE(full({n}, x, f32), "full: f32[n, 4] does not broadcast to the shape of f32[n]"),
    KILN_MISTAKE(zeros(f32, {n - 2}), "full: the extent n - 2 may be negative; give the dims bounds"),
    KILN_MISTAKE(zeros(f32, {dim("n", 1, 7)}), "zeros: the dim n is declared twice, with other bounds"),
    KILN_MISTAKE(zeros(f32, {dim("", 1, 7)}), "zeros: the dim  has no name"),
    KILN_MISTAKE(constant(f32, {2, 2}, {1, 2, 3}), "constant: 3 elements for a shape of 4"),
    KILN_MISTAKE(constant(f32, {-1}, {}), "constant: an extent of -1"),
    KILN_MISTAKE(iota(i32, {n}, 1), "iota: there is no axis 1 among 1"),
    KILN_MISTAKE(philox(x, 0, {n}), "philox: seed is u64[n, 4], and must have 0 axes"),
    // views
    KILN_MISTAKE(reshape(x, {n, 5}), "reshape: f32[n, 4] has 4*n elements, [n, 5] has 5*n"),
    KILN_MISTAKE(reshape(x, {-1, 3}), "reshape: what is left of f32[n, 4] beside 3 is not known to be a whole number"),
    KILN_MISTAKE(reshape(x, {-1, -1}), "reshape: two extents are -1"),
    KILN_MISTAKE(permute(x, {1}), "permute: 1 axes for f32[n, 4]"),
    KILN_MISTAKE(permute(x, {1, 1}), "permute: axis 1 is named twice"),
    KILN_MISTAKE(transpose(x, 0, 2), "transpose: there is no axis 2 among 2"),
    KILN_MISTAKE(broadcast_to(w, {n, 4}), "broadcast_to: f32[8, 4] does not broadcast to the shape of f32[n, 4]"),
    KILN_MISTAKE(squeeze(x, {1}), "squeeze: axis 1 of f32[n, 4] has not the extent 1"),
    KILN_MISTAKE(flatten(x, 1, 0), "flatten: the first axis is behind the last one"),
    KILN_MISTAKE(slice(x, 1, 0, 5), "index: the range of 0 to 5 is not within axis 1 of f32[n, 4]"),
    KILN_MISTAKE(slice(x, 0, 0, m), "slice: end of axis 0 of f32[n, 4]: m <= n is not known for all sizes"),
    KILN_MISTAKE(pad(x, {1}, {1}), "pad: low and high must have an entry for each axis of f32[n, 4]"),
    KILN_MISTAKE(pad(x, {1, 1}, {1, 1}, 0, {1}), "pad: 1 numbers in `inner` for 2 axes"),
    KILN_MISTAKE(cat({x, ids}, 0), "cat: f32[n, 4] and f32[n] do not go behind each other"),
    KILN_MISTAKE(cat({}, 0), "cat: no tensors"),
    KILN_MISTAKE(cat({x, x}, 2), "cat: there is no axis 2 among 2"),
    KILN_MISTAKE(stack({x, w}), "cat: extents of axis 1 of f32[1, n, 4] and f32[1, 8, 4]"),
    KILN_MISTAKE(split(x, 3, 1)[0], "split: axis 1 of f32[n, 4] is not known to divide into 3 equal parts"),
    KILN_MISTAKE(repeat(x, {-1}), "repeat: a negative number of times"),
    // indices
    KILN_MISTAKE(x(0, 4), "index: the index 4 is outside of axis 1 of f32[n, 4]"),
    KILN_MISTAKE(x(0, -5), "index: the index -5 is outside of axis 1 of f32[n, 4]"),
    KILN_MISTAKE(x(0, 0, 0), "index: 3 indices for the 2 axes of f32[n, 4]"),
    KILN_MISTAKE(x(rest, rest), "index: `rest` stands twice among the indices"),
    KILN_MISTAKE(x(all, range(0, 4, 0)), "index: a range of step 0"),
    KILN_MISTAKE(x(all, range(3, 1)), "index: the range of 3 to 1 is not within axis 1 of f32[n, 4]"),
    KILN_MISTAKE(x(x > 0), "index: a mask, i1[n, 4], chooses as many elements as are not known"),
    KILN_MISTAKE(x(x), "index: an index of floats, f32[n, 4]"),
    KILN_MISTAKE(set_at(x, {all, 0}, w), "set_at: f32[8, 4] does not broadcast to the shape of f32[n]"),
    KILN_MISTAKE(gather(x, ids, 0), "gather: index is i32[n], and must have 2 axes"),
    KILN_MISTAKE(take(x, x, 0), "index: indices 0 is f32[n, 4], and must be of ints"),
    KILN_MISTAKE(index(x, {ids}, {0, 1}), "index: 1 indices for 2 axes"),
    KILN_MISTAKE(embedding(w, x), "embedding: ids is f32[n, 4], and must be of ints"),
    // reduce, order
    KILN_MISTAKE(sum(x, {2}), "sum: there is no axis 2 among 2"),
    KILN_MISTAKE(sum(x, {0, -2}), "sum: axis 0 is named twice"),
    KILN_MISTAKE(reduce(x, ReduceKind::kAnd), "reduce: f32[n, 4] has no bits to combine"),
    KILN_MISTAKE(argmax(x > 0, 0), "arg_reduce: i1 has no order; cast it"),
    KILN_MISTAKE(topk(x, 5, 1).first, "topk: k and the extent of the axis: 5 <= 4 does not hold"),
    KILN_MISTAKE(histogram(x, 4), "histogram: x is f32[n, 4], and must be of ints"),
    // contract
    KILN_MISTAKE(matmul(x, w), "dot: extents of the contracted axes of f32[n, 4] and f32[8, 4] differ: 4 and 8"),
    KILN_MISTAKE(matmul(x, 2), "matmul: a scalar among f32[n, 4] and f32[]; write a * b"),
    KILN_MISTAKE(linear(x, transpose(w)), "linear: the last axes of x, f32[n, 4], and w, f32[4, 8], differ: 4 and 8"),
    KILN_MISTAKE(dot(x, w, {{}, {}, {2}, {1}}), "dot: there is no axis 2 among 2"),
    KILN_MISTAKE(conv(x, w), "conv: f32[n, 4] has not the form [N, C, …] of 1 to 3 spatial axes"),
    KILN_MISTAKE(max_pool(x(none), {}), "max_pool: no size of the window"),
    KILN_MISTAKE(max_pool(x(none), {.size = {2, 2}}), "max_pool: 2 numbers in `size` for 1 axes"),
    // layers
    KILN_MISTAKE(layer_norm(x, w), "layer_norm: the normalised axes of x and weight have shapes [4] and [8, 4]"),
    KILN_MISTAKE(dropout(x, 1.5, 0, 0), "dropout: p is 0 or more, and below 1"),
    KILN_MISTAKE(cross_entropy(x, x), "cross_entropy: targets is f32[n, 4], and must be of ints"),
    KILN_MISTAKE(attention(x, x, x), "attention: q is f32[n, 4], and must have 4 axes"),
    // bodies
    KILN_MISTAKE(cond(x > 0, [&] { return x; }, [&] { return x; }), "cond: the predicate is i1[n, 4], not i1[]; where() chooses element by element"),
    KILN_MISTAKE(cond(sum(x) > 0, [&] { return x; }, [&] { return w; }), "cond: result 0 is f32[n, 4] of one branch and f32[8, 4] of the other"),
    KILN_MISTAKE(loop(3, {x}, {}, [](Tensors c, Tensors) { return LoopStep{{sum(c[0])}, {}}; }).carried[0], "loop: carried tensor 0 begins as f32[n, 4] and goes on as f32[]"),
    KILN_MISTAKE(loop(3, {x}, {}, [](Tensors, Tensors) { return LoopStep{}; }).carried[0], "loop: begins with 1 carried tensor, and its function gives 0"),
    KILN_MISTAKE(loop(m, {}, {x}, [](Tensors, Tensors s) { return LoopStep{{}, s}; }).stacked[0], "loop: scanned tensor 0 is f32[n, 4], whose first extent is not m"),
    KILN_MISTAKE(call("f", {x}, [](Tensors) { return Tensors{}; }).empty() ? x : x, "call: its function gives no tensors"),
    KILN_MISTAKE(reduce({x}, {sum(x)}, {0}, [&](Tensors l, Tensors) { return Tensors{l[0] + sum(w)}; })[0], "sum: a tensor from outside of the reduce, whose function sees nothing but what it is given"),
    KILN_MISTAKE(reduce({x}, Tensors(), {0}, [](Tensors l, Tensors) { return l; })[0], "reduce: 1 tensor and 0 inits"),
    KILN_MISTAKE(scan({x}, 0, [](Tensors l, Tensors r) { return Tensors{l[0] > r[0]}; })[0], "scan: its function combines two of f32[] to i1[]"),
};
// clang-format on

GraphDef make(const Mistake& mistake) {
  return graph("g", {input("x", f32, {n, 4}), input("w", f32, {8, 4}), input("ids", i32, {n})}, mistake.function);
}

// One error, though what the mistake made is used by further ops.
TEST(Mistakes, AreNamedWithTheirLine) {
  for (const Mistake& mistake : kMistakes) {
    const std::string text = error_text(make(mistake));
    EXPECT_THAT(text, AllOf(HasSubstr(mistake.message), HasSubstr(at_line(mistake.line)), Not(HasSubstr("\n"))));
  }
}

TEST(Mistakes, AreCollected) {
  const uint32_t line = __LINE__;
  const auto def = graph("g", {input("x", f32, {n, 4}), input("w", f32, {8, 4})}, [](Tensor x, Tensor w) {
    const Tensor a = x + w;
    const Tensor b = sum(x, {7});
    return relu(a) * b + a;
  });
  EXPECT_EQ(error_text(def), at_line(line + 2) +
                                 "26: add: the shapes of f32[n, 4] and f32[8, 4] do not broadcast: n "
                                 "against 8\n" +
                                 at_line(line + 3) + "25: sum: there is no axis 7 among 2");
}

// Not of a loop that never ends being wrong.
TEST(Mistakes, OfManyTheFirstTwenty) {
  const auto def = graph("g", {input("x", f32, {3})}, [](Tensor x) {
    for (int i = 0; i < 1000; ++i) sum(x, {i + 1});
    return x;
  });
  const std::string text = error_text(def);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 19);
}

// The message of a graph that a call near this line makes, with that line.
void expect_here(const GraphDef& def, const std::string& message, uint32_t line = __builtin_LINE()) {
  std::vector<Matcher<std::string>> lines;
  for (uint32_t near = line - 4; near <= line + 4; ++near) lines.push_back(HasSubstr(at_line(near)));
  EXPECT_THAT(error_text(def), AllOf(HasSubstr(message), AnyOfArray(lines))) << "line " << line;
}

TEST(Mistakes, InputsAndOutputs) {
  const auto same = [](Tensors xs) { return xs; };
  expect_here(graph("g", {input("x", f32, {n}), input("x", f32, {n})}, same), "two inputs have the name x");
  expect_here(graph("g", {input("", f32, {n})}, same), "input: a name is missing");
  EXPECT_THAT(error_text(graph("", {input("x", f32, {n})}, same)), HasSubstr("it has no name"));
  expect_here(graph("g", {input("x", f32, {dim("k", 5, 2)})}, same),
              "input x: the dim k needs 0 <= low <= high <= 2^40");
  expect_here(graph("g", {input("x", f32, {dim("k")}), input("y", f32, {dim("k", 2)})}, same),
              "input y: the dim k is declared twice, with other bounds");
  expect_here(graph("g", {input("x", f32, Shape(17, 1))}, same), "has more than 16 axes");
  EXPECT_THAT(error_text(graph("g", {input("x", f32, {n})}, [](Tensor) { return Tensors{}; })),
              HasSubstr("graph g: no outputs"));
  expect_here(graph("g", {input("x", f32, {n})}, [](Tensor x) { return Outputs{{"y", x}, {"y", x + 1}}; }),
              "graph g: two outputs have the name y");
  EXPECT_THAT(error_text(graph("g", {input("x", f32, {n})}, [](Tensor) { return Tensor(); })),
              HasSubstr("output y: a Tensor without a value"));
  expect_here(graph("g", {donated("x", f32, {n}, "z")}, same), "input x: it is donated to z, which is no output");
  expect_here(graph("g", {donated("x", f32, {n}, "y")}, [](Tensor x) { return sum(x); }),
              "input x of f32[n] cannot be donated to output y of f32[]");
  const uint32_t line = __LINE__ + 2;  // of what is the output
  const auto twice =
      graph("g", {donated("x", f32, {n}, "y"), donated("z", f32, {n}, "y")}, [](Tensor x, Tensor z) { return x + z; });
  EXPECT_THAT(error_text(twice),
              AllOf(HasSubstr("output y: two inputs are donated to it: x and z"), HasSubstr(at_line(line))));
}

// Names the input's line.
TEST(Mistakes, OfAnInputNameItsLine) {
  const uint32_t line = __LINE__ + 1;
  const auto bad = input("x", f32, {dim("k", 5, 2)});
  EXPECT_THAT(error_text(graph("g", {bad}, [](Tensor x) { return x; })), HasSubstr(at_line(line)));
}

TEST(Mistakes, WrongCountOfInputs) {
  bool ran = false;
  const auto def = graph("g", {input("x", f32, {n})}, [&](Tensor x, Tensor y) {
    ran = true;
    return x + y;
  });
  EXPECT_THAT(error_text(def), HasSubstr("graph g: 1 tensors for a function that takes 2"));
  EXPECT_FALSE(ran);
  const auto more = graph("g", {input("x", f32, {n}), input("y", f32, {n})}, [](Tensor x) { return x; });
  EXPECT_THAT(error_text(more), HasSubstr("graph g: 2 tensors for a function that takes 1"));
}

TEST(Mistakes, TensorKeptAfterItsGraph) {
  Tensor kept;
  const auto first = graph("first", {input("x", f32, {n})}, [&](Tensor x) { return kept = x + 1; });
  ASSERT_TRUE(first.ir().ok());
  EXPECT_FALSE((kept * 2).valid());  // no graph to say it to
  EXPECT_EQ(kept.rank(), 0);
  EXPECT_EQ(kept.extent(3).expr(), Expr(1));
  EXPECT_FALSE(kept(0).valid());
  EXPECT_FALSE(loop(3, {kept}, {}, [](Tensors c, Tensors) { return LoopStep{c, {c[0] + 1}}; }).stacked.at(0).valid());
  const auto second = graph("second", {input("x", f32, {n})}, [&](Tensor x) { return x + kept; });
  EXPECT_THAT(error_text(second), HasSubstr("add: a tensor of another graph"));
  const auto output = graph("second", {input("x", f32, {n})}, [&](Tensor) { return kept; });
  EXPECT_THAT(error_text(output), HasSubstr("output y: a tensor of another graph"));
}

TEST(Mistakes, TensorOnAnotherThread) {
  const auto def = graph("g", {input("x", f32, {n})}, [](Tensor x) {
    Tensor y;
    std::thread([&] { y = x * 2; }).join();
    return y;
  });
  EXPECT_THAT(error_text(def), HasSubstr("output y: a Tensor without a value; it was never assigned, left out, or made "
                                         "outside graph()"));
}

TEST(Mistakes, ExceptionInTheFunction) {
  const auto throws = [](Tensor) -> Tensor { throw std::runtime_error("no weights"); };
  const uint32_t line = __LINE__ + 1;
  const auto def = graph("g", {input("x", f32, {n})}, throws);
  EXPECT_THAT(error_text(def), AllOf(HasSubstr(at_line(line)), HasSubstr("graph g: its function threw: no weights")));
  // In a body, which is open at that time; and caught by the author.
  const auto inside = graph("g", {input("x", f32, {n})}, [&](Tensor x) {
    return loop(3, {x}, {}, [&](Tensors c, Tensors) { return LoopStep{{throws(c[0])}, {}}; }).carried[0];
  });
  EXPECT_THAT(error_text(inside), HasSubstr("graph g: its function threw: no weights"));
  const auto caught = graph("g", {input("x", f32, {n})}, [&](Tensor x) {
    try {
      loop(3, {x}, {}, [&](Tensors c, Tensors) { return LoopStep{{throws(c[0])}, {}}; });
    } catch (const std::runtime_error&) {
    }
    return x + 1;
  });
  EXPECT_EQ(node_lines(caught).back(), "add f32[n], f32[n] -> f32[n]");
  // What is no std::exception is the author's, and leaves nothing behind.
  EXPECT_THROW(graph("g", {input("x", f32, {n})}, [](Tensor) -> Tensor { throw 7; }), int);
  EXPECT_TRUE(graph("g", {input("x", f32, {n})}, [](Tensor x) { return x; }).ir().ok());
}

TEST(Mistakes, GraphInsideOfAGraph) {
  std::string inner;
  const auto def = graph("outer", {input("x", f32, {n})}, [&](Tensor x) {
    inner = error_text(graph("inner", {input("x", f32, {n})}, [](Tensor y) { return y; }));
    return x;
  });
  EXPECT_THAT(inner, HasSubstr("graph inner: inside of the function of another graph; use inline_graph() there"));
  EXPECT_TRUE(def.ir().ok());
}

TEST(Mistakes, TensorOfAClosedBody) {
  Tensor kept;
  const uint32_t line = __LINE__ + 2;
  const auto def = graph("g", {input("x", f32, {n})}, [&](Tensor x) {
    const LoopStep done = loop(3, {x}, {}, [&](Tensors c, Tensors) {
      kept = c[0] * 2;
      return LoopStep{{kept}, {}};
    });
    return done.carried[0] + kept;
  });
  EXPECT_THAT(error_text(def), AllOf(HasSubstr("add: a tensor made inside the loop at "), HasSubstr(at_line(line)),
                                     HasSubstr("is used outside of it; let its function return it")));
}

TEST(Mistakes, OfAnInlinedGraph) {
  const auto part = graph("part", {input("x", f32, {n, 4})}, [](Tensor x) { return relu(x); });
  const auto bad = graph("bad", {input("x", f32, {n})}, [](Tensor x) { return sum(x, {3}); });
  const auto use = [](const GraphDef& def, Shape shape, size_t count) {
    return error_text(graph("g", {input("x", f32, std::move(shape))},
                            [&](Tensor x) { return inline_graph(def, Tensors(count, x)); }));
  };
  EXPECT_THAT(use(part, {n}, 1), HasSubstr("inline_graph: input x of graph part is f32[n, 4], given is f32[n]"));
  EXPECT_THAT(use(part, {m, 4}, 1), HasSubstr("input x of graph part is f32[n, 4], given is f32[m, 4]"));
  EXPECT_THAT(use(part, {n, 4}, 2), HasSubstr("inline_graph: 2 tensors for the 1 inputs of graph part"));
  EXPECT_THAT(use(part, {dim("n"), 4}, 1), HasSubstr("inline_graph: the dim n is declared twice, with other bounds"));
  EXPECT_THAT(use(bad, {n}, 1), HasSubstr("sum: there is no axis 3 among 1"));
}

}  // namespace
}  // namespace kiln::graph
