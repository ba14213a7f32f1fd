// Bodies: what they capture, and that they compute what their functions say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/dsl/library.h"
#include "kiln/graph/evaluate.h"
#include "trace/lines.h"

namespace kiln::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Dim n = dim("n", 1, 64);

std::vector<std::string> input_names(const Body& body) {
  std::vector<std::string> out;
  for (const Input& each : body.inputs) out.push_back(each.name);
  return out;
}

std::vector<double> run(const GraphDef& def, const std::vector<Array>& inputs, size_t output = 0) {
  if (!def.ir()) {
    ADD_FAILURE() << error_text(def);
    return {};
  }
  auto results = evaluate(*def.ir(), inputs);
  if (!results) {
    ADD_FAILURE() << results.error().message;
    return {};
  }
  std::vector<double> out;
  for (int64_t i = 0; i < (*results)[output].count(); ++i) out.push_back((*results)[output].number(i));
  return out;
}

const Body& body_named(const GraphDef& def, const std::string& name) {
  for (const Body& body : def.ir()->bodies) {
    if (body.name == name) return body;
  }
  ADD_FAILURE() << "no body " << name;
  return def.ir()->main();
}

TEST(Bodies, ALoopCapturesConstants) {
  const auto def = graph("g", {input("h", f32, {2}), input("xs", f32, {n, 2}), input("w", f32, {2})},
                         [](Tensor h, Tensor xs, Tensor w) {
                           const Tensor twice = w * 2;
                           const LoopStep done = loop(xs.extent(0), {h}, {xs}, [&](Tensors c, Tensors s) {
                             const Tensor next = c[0] * w + s[0] + twice - w;
                             return LoopStep{{next}, {next}};
                           });
                           return Tensors{done.carried[0], done.stacked[0]};
                         });
  ASSERT_EQ(error_text(def), "");
  const Body& body = body_named(def, "loop");
  EXPECT_THAT(input_names(body), ElementsAre("carried0", "slice0", "w", "outside"));
  for (uint32_t i = 0; i < body.inputs.size(); ++i) EXPECT_EQ(body.inputs[i].value, i);
  EXPECT_EQ(node_lines(def).back(),
            "loop f32[2], f32[n, 2], f32[2], f32[2] {body=@loop, carried=1, scanned=1, length=n, reverse=0} -> f32[2], "
            "f32[n, 2]");
  // h = h·w + x + w
  const std::vector<Array> inputs = {array_of(f32, {2}, {1, 2}), array_of(f32, {3, 2}, {1, 0, 2, 0, 3, 0}),
                                     array_of(f32, {2}, {2, 3})};
  EXPECT_THAT(run(def, inputs, 1), ElementsAre(5, 9, 14, 30, 33, 93));
  EXPECT_THAT(run(def, inputs, 0), ElementsAre(33, 93));
}

TEST(Bodies, ReversedLoopsReadAndStackFromTheEnd) {
  const auto def = graph("g", {input("xs", f32, {4})}, [](Tensor xs) {
    return loop(4, {zeros(f32, {})}, {xs},
                [](Tensors c, Tensors s) {
                  const Tensor next = c[0] + s[0];
                  return LoopStep{{next}, {next}};
                },
                {.reverse = true})
        .stacked[0];
  });
  EXPECT_THAT(run(def, {array_of(f32, {4}, {1, 2, 3, 4})}), ElementsAre(10, 9, 7, 4));
}

// Both branches take the same operands, in the order in which they are captured first.
TEST(Bodies, BranchesShareTheirOperands) {
  const auto def = graph(
      "g", {input("p", i1, {}), input("a", f32, {}), input("b", f32, {}), input("c", f32, {})},
      [](Tensor p, Tensor a, Tensor b, Tensor c) { return cond(p, [&] { return b - a; }, [&] { return c - b; }); });
  ASSERT_EQ(error_text(def), "");
  const std::vector<std::string> names = input_names(body_named(def, "then"));
  EXPECT_EQ(names, input_names(body_named(def, "otherwise")));
  EXPECT_EQ(names.size(), 3u);
  const auto inputs = [](double p) {
    return std::vector{array_of(i1, {}, {p}), array_of(f32, {}, {1}), array_of(f32, {}, {20}),
                       array_of(f32, {}, {300})};
  };
  EXPECT_THAT(run(def, inputs(1)), ElementsAre(19));
  EXPECT_THAT(run(def, inputs(0)), ElementsAre(280));
}

// A tensor of the outermost body passes through those between.
TEST(Bodies, CapturesPassThroughNestedBodies) {
  const auto def =
      graph("g", {input("p", i1, {}), input("x", f32, {}), input("w", f32, {})}, [](Tensor p, Tensor x, Tensor w) {
        return loop(3, {x}, {},
                    [&](Tensors c, Tensors) {
                      const Tensor local = c[0] + 1;
                      return LoopStep{{cond(p, [&] { return local * w; }, [&] { return local - w; })}, {}};
                    })
            .carried[0];
      });
  ASSERT_EQ(error_text(def), "");
  EXPECT_THAT(input_names(body_named(def, "loop")), ::testing::UnorderedElementsAre("carried0", "p", "w"));
  EXPECT_EQ(node_lines(def).back(),
            "loop f32[], f32[], i1[] {body=@loop, carried=1, scanned=0, length=3, reverse=0} -> f32[]");
  const auto inputs = [](double p) {
    return std::vector{array_of(i1, {}, {p}), array_of(f32, {}, {1}), array_of(f32, {}, {2})};
  };
  EXPECT_THAT(run(def, inputs(1)), ElementsAre(22));  // ((1+1)·2 + 1)·2 = 10, (10+1)·2
  EXPECT_THAT(run(def, inputs(0)), ElementsAre(-2));
}

TEST(Bodies, CallsCaptureToo) {
  const auto def = graph("g", {input("x", f32, {}), input("w", f32, {})}, [](Tensor x, Tensor w) {
    const auto layer = [&](Tensors in) { return Tensors{in[0] * w + 1}; };
    return call("layer", call("layer", {x}, layer), layer)[0];
  });
  ASSERT_EQ(error_text(def), "");
  EXPECT_THAT(node_lines(def), ElementsAre("call f32[], f32[] {body=@layer, recompute=0} -> f32[]",
                                           "call f32[], f32[] {body=@layer_2, recompute=0} -> f32[]"));
  EXPECT_THAT(run(def, {array_of(f32, {}, {3}), array_of(f32, {}, {10})}), ElementsAre(311));
}

// A captured tensor may be what a body gives, unchanged.
TEST(Bodies, GiveWhatTheyCapture) {
  const auto def = graph("g", {input("p", i1, {}), input("x", f32, {}), input("w", f32, {})},
                         [](Tensor p, Tensor x, Tensor w) { return cond(p, [&] { return x; }, [&] { return w; }); });
  EXPECT_THAT(run(def, {array_of(i1, {}, {0}), array_of(f32, {}, {1}), array_of(f32, {}, {2})}), ElementsAre(2));
}

TEST(Bodies, CustomReductionsAndScans) {
  const auto def = graph("g", {input("x", f32, {2, 4})}, [](Tensor x) {
    // The greatest and its place, by hand.
    const Tensors best =
        reduce({x, iota(i32, {2, 4}, 1)}, {full({}, -1e30, f32), full({}, -1, i32)}, {1}, [](Tensors l, Tensors r) {
          const Tensor left = l[0] >= r[0];
          return Tensors{where(left, l[0], r[0]), where(left, l[1], r[1])};
        });
    const Tensors products = scan({x}, 1, [](Tensors l, Tensors r) { return Tensors{l[0] * r[0]}; });
    return Tensors{best[1], products[0]};
  });
  const std::vector<Array> x = {array_of(f32, {2, 4}, {1, 5, 2, 3, 7, 1, 1, 2})};
  EXPECT_THAT(run(def, x, 0), ElementsAre(1, 0));
  EXPECT_THAT(run(def, x, 1), ElementsAre(1, 5, 10, 30, 7, 7, 7, 14));
}

// --- tile kernels ---

namespace lang = dsl::lang;

Result<dsl::Kernel> scale(const char* name) {
  return lang::kernel(name, {"x", "y", "n", "BLOCK=256"},
                      [](lang::Ptr<const lang::f32> x, lang::Ptr<lang::f32> y, lang::i32 count, lang::Const BLOCK) {
                        lang::grid(lang::cdiv(count, BLOCK));
                        const lang::Value start = lang::program_id(0) * BLOCK;
                        const lang::Value part = lang::tile(x, {count}).load({start}, {BLOCK});
                        lang::tile(y, {count}).store({start}, part * 2);
                      })
      .ir();
}

Tensor scaled(Tensor x, const KernelGradient& gradient = {}) {
  return kernel(scale("scale"),
                {KernelArgument::in(x), KernelArgument::out(f32, x.shape()), KernelArgument::number(x.extent(0))},
                gradient)[0];
}

TEST(Kernels, OneKernelIsThereOnce) {
  const auto def = graph("g", {input("x", f32, {n}), input("z", f32, {2 * n})},
                         [](Tensor x, Tensor z) { return Tensors{scaled(scaled(x)), scaled(z)}; });
  ASSERT_EQ(error_text(def), "");
  ASSERT_EQ(def.ir()->kernels.size(), 2u);  // of [n], and of [2*n]
  EXPECT_EQ(def.ir()->kernels[0].name, "scale");
  EXPECT_EQ(def.ir()->kernels[1].name, "scale_2");
  EXPECT_THAT(node_lines(def),
              ElementsAre("kernel f32[n] {kernel=@scale} -> f32[n]", "kernel f32[n] {kernel=@scale} -> f32[n]",
                          "kernel f32[2*n] {kernel=@scale_2} -> f32[2*n]"));
}

TEST(Kernels, GradientIsABody) {
  const auto def = graph("g", {input("x", f32, {n})}, [](Tensor x) {
    return scaled(x, [](Tensors, Tensors, Tensors gradients) { return Tensors{gradients[0] * 2}; });
  });
  ASSERT_EQ(error_text(def), "");
  const TileKernel& kernel = def.ir()->kernels.at(0);
  ASSERT_NE(kernel.gradient, kNone);
  EXPECT_THAT(input_names(def.ir()->bodies[kernel.gradient]), ElementsAre("x0", "y0", "g0"));
}

// Two calls with one kernel are one kernel where their code is the same.
TEST(Kernels, CodeOfOnesOwnIsOfTheKernel) {
  const auto declared = lang::kernel(
      "scale", {"x", "y", "n"},
      [](lang::Ptr<const lang::f32>, lang::Ptr<lang::f32>, lang::i32 count) { lang::grid(lang::cdiv(count, 256)); });
  const auto coded = [&](const Tensor& x, const char* text) {
    return kernel(CustomKernel{declared.ir(), {{"cuda", {.form = dsl::CodeForm::kPtx, .text = text, .threads = 256}}}},
                  {KernelArgument::in(x), KernelArgument::out(f32, x.shape()), KernelArgument::number(x.extent(0))})[0];
  };
  const auto def =
      graph("g", {input("x", f32, {n})}, [&](Tensor x) { return coded(coded(coded(x, "first"), "first"), "second"); });
  ASSERT_EQ(error_text(def), "");
  ASSERT_EQ(def.ir()->kernels.size(), 2u);
  EXPECT_EQ(def.ir()->kernels[0].codes.at(0).code.text, "first");
  EXPECT_EQ(def.ir()->kernels[1].name, "scale_2");
  EXPECT_THAT(error_text(graph("g", {input("x", f32, {n})}, [&](Tensor x) { return coded(x, ""); })),
              HasSubstr("custom kernel `scale` has no code"));
}

TEST(Kernels, Mistakes) {
  using Arguments = std::vector<KernelArgument>;
  const auto error_of = [](const std::function<Arguments(Tensor)>& arguments, const KernelGradient& gradient = {}) {
    return error_text(graph("g", {input("x", f32, {n}), input("ids", i32, {n})},
                            [&](Tensor x, Tensor) { return kernel(scale("scale"), arguments(x), gradient); }));
  };
  const auto out = KernelArgument::out(f32, {n});
  const auto count = KernelArgument::number(n);
  EXPECT_THAT(error_of([&](Tensor x) { return Arguments{KernelArgument::in(x), out}; }),
              HasSubstr("kernel: 2 arguments for the 3 parameters of kernel scale"));
  EXPECT_THAT(error_of([&](Tensor x) { return Arguments{KernelArgument::in(cast(x, f64)), out, count}; }),
              HasSubstr("kernel: parameter x of kernel scale points to f32, the tensor is of f64"));
  EXPECT_THAT(error_of([&](Tensor x) { return Arguments{out, KernelArgument::in(x), count}; }),
              HasSubstr("kernel: parameter x of kernel scale is Ptr<const f32>, which gives no result"));
  EXPECT_THAT(error_of([&](Tensor x) { return Arguments{KernelArgument::in(x), out, KernelArgument::in(x)}; }),
              HasSubstr("kernel: parameter n of kernel scale is a number, not a tensor"));
  EXPECT_THAT(error_of([&](Tensor) { return Arguments{count, out, count}; }),
              HasSubstr("kernel: parameter x of kernel scale is a pointer, not a number"));
  EXPECT_THAT(error_of([&](Tensor x) { return Arguments{KernelArgument::in(x), KernelArgument::in(x), count}; }),
              HasSubstr("kernel: kernel scale has no results"));
  const auto good = [&](Tensor x) { return Arguments{KernelArgument::in(x), out, count}; };
  EXPECT_THAT(error_of(good, [](Tensors, Tensors, Tensors) { return Tensors{}; }),
              HasSubstr("kernel: the gradient of kernel scale gives 0 tensors, its float inputs are 1"));
  EXPECT_THAT(error_of(good, [](Tensors, Tensors, Tensors g) { return Tensors{sum(g[0])}; }),
              HasSubstr("kernel: gradient 0 of kernel scale is f32[], its input f32[n]"));
  EXPECT_THAT(
      error_text(graph("g", {input("x", f32, {n})},
                       [](Tensor x) { return kernel(scale("no name"), {KernelArgument::in(x)}).empty() ? x : x; })),
      HasSubstr("kernel: `no name` is not a name"));
}

}  // namespace
}  // namespace kiln::graph
