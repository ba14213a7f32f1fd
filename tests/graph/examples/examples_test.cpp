// The examples of dsl/graph/examples: each is traced and compared with its `.kg` file, and computes what its formulas,
// written a second time here, say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "examples/adamw.h"
#include "examples/bert.h"
#include "examples/diffusion.h"
#include "examples/dlrm.h"
#include "examples/gpt2.h"
#include "examples/heat.h"
#include "examples/mamba.h"
#include "examples/mlp.h"
#include "examples/resnet.h"
#include "kiln/graph/evaluate.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"

namespace kiln::graph::examples {
namespace {

GraphDef adamw_of_two() { return adamw({{"w", {dim("rows", 1, 4096), 8}}, {"b", {8}}}); }

struct Example {
  const char* name;
  GraphDef (*make)();
};
const Example kExamples[] = {
    {"mlp_loss", mlp_loss},
    {"mlp_gradients", mlp_gradients},
    {"mlp_step", mlp_step},
    {"bert_layer", [] { return bert_layer(); }},
    {"gpt2_step", [] { return gpt2_step(); }},
    {"resnet_training", [] { return resnet_training(); }},
    {"resnet_inference", [] { return resnet_inference(); }},
    {"dlrm", [] { return dlrm(); }},
    {"diffusion_step", [] { return diffusion_step(); }},
    {"mamba_block", [] { return mamba_block(); }},
    {"heat", heat},
    {"adamw", adamw_of_two},
};

// KILN_UPDATE_GOLDEN=1 writes the files anew.
TEST(Examples, AreWhatTheirFilesSay) {
  for (const Example& example : kExamples) {
    SCOPED_TRACE(example.name);
    const GraphDef def = example.make();
    ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
    const auto sound = verify(*def.ir());
    EXPECT_TRUE(sound.ok()) << sound.error().message;
    const std::string path = std::string(KILN_SOURCE_DIR "/dsl/graph/examples/") + example.name + ".kg";
    if (std::getenv("KILN_UPDATE_GOLDEN")) std::ofstream(path) << *def.text();
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(*def.text(), text);
    const auto read = parse(text, path);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(print(*read), text);
  }
}

// --- what they compute ---

class Numbers {
 public:
  explicit Numbers(unsigned seed) : engine_(seed) {}
  Array array(std::vector<int64_t> shape, double scale = 1) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::normal_distribution<double> normal(0, scale);
    std::vector<double> out(static_cast<size_t>(count));
    for (double& each : out) each = normal(engine_);
    return array_of(f32, std::move(shape), out);
  }
  double uniform() { return std::uniform_real_distribution<double>()(engine_); }

 private:
  std::mt19937 engine_;
};

std::vector<Array> run(const GraphDef& def, const std::vector<Array>& inputs,
                       const std::map<std::string, int64_t>& sizes = {}) {
  if (!def.ir()) {
    ADD_FAILURE() << def.ir().error().message;
    return {};
  }
  auto out = evaluate(*def.ir(), inputs, sizes);
  if (out) return *out;
  ADD_FAILURE() << out.error().message;
  return {};
}

// Random inputs of a graph's types, with given sizes of its dims; ints are 0.
std::vector<Array> random_inputs(const Graph& graph, const std::map<std::string, int64_t>& sizes, double scale,
                                 unsigned seed) {
  dsl::Bindings bindings;
  for (const DimInfo& dim : graph.dims) bindings.constexprs.emplace_back(sizes.at(dim.name));
  Numbers numbers(seed);
  std::vector<Array> out;
  for (const Input& input : graph.main().inputs) {
    const TensorType& type = graph.type(graph.main(), input.value);
    std::vector<int64_t> shape;
    for (const Expr& extent : type.shape) shape.push_back(*extent.evaluate(bindings));
    out.push_back(type.element == f32 ? numbers.array(shape, scale) : own(type.element, shape));
  }
  return out;
}

// Points inside a circle are of class 1: no line parts them, 16 hidden values do.
TEST(Examples, MlpLearns) {
  Numbers numbers(1);
  const int64_t batch = 128;
  std::vector<double> points, labels;
  for (int64_t i = 0; i < batch; ++i) {
    const double x = 2 * numbers.uniform() - 1, y = 2 * numbers.uniform() - 1;
    points.insert(points.end(), {x, y});
    labels.push_back(x * x + y * y < 0.5 ? 1 : 0);
  }
  std::vector<Array> in = {
      array_of(f32, {batch, 2}, points), array_of(i64, {batch}, labels), numbers.array({16, 2}),
      numbers.array({16}, 0.1),          numbers.array({2, 16}, 0.25),   array_of(f32, {2}, {0, 0}),
      array_of(f32, {}, {0.5})};
  const GraphDef step = mlp_step();
  double first = 0, last = 0;
  for (int pass = 0; pass < 300; ++pass) {
    const std::vector<Array> out = run(step, in);
    ASSERT_EQ(out.size(), 5u);
    last = out[0].number(0);
    if (pass == 0) first = last;
    for (size_t i = 0; i < 4; ++i) in[2 + i] = out[1 + i];
  }
  EXPECT_GT(first, 0.5);
  EXPECT_LT(last, 0.15);
}

// The plate against the same loop in plain C++.
TEST(Examples, HeatFlows) {
  const int64_t size = 7;
  const float rate = 0.2f;
  std::vector<double> plate(size * size, 0);
  for (int64_t i = 0; i < size; ++i) plate[static_cast<size_t>(i)] = 100;
  const std::vector<Array> out =
      run(heat(), {array_of(f32, {size, size}, plate), array_of(f32, {}, {rate})}, {{"steps", 5}});
  ASSERT_EQ(out.size(), 2u);
  std::vector<double> now = plate;
  for (int pass = 0; pass < 5; ++pass) {
    std::vector<double> next = now;
    for (int64_t y = 1; y + 1 < size; ++y) {
      for (int64_t x = 1; x + 1 < size; ++x) {
        const auto at = [&](int64_t dy, int64_t dx) { return now[static_cast<size_t>((y + dy) * size + x + dx)]; };
        next[static_cast<size_t>(y * size + x)] =
            at(0, 0) + double{rate} * (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) - 4 * at(0, 0));
      }
    }
    now = next;
  }
  for (size_t i = 0; i < now.size(); ++i) EXPECT_NEAR(out[0].number(static_cast<int64_t>(i)), now[i], 1e-3) << i;
  EXPECT_EQ(out[1].shape, std::vector<int64_t>{5});
}

// Token by token through the cache is what causal attention over all of them gives, so that a later token changes no
// earlier logits, and an earlier one does change later ones.
TEST(Examples, Gpt2SeesTheCache) {
  const GraphDef def = gpt2_step({.layers = 2, .width = 16, .heads = 2, .vocabulary = 11, .places = 6});
  ASSERT_TRUE(def.ir().ok());
  const auto logits = [&](const std::vector<double>& tokens) {
    std::vector<Array> in = random_inputs(*def.ir(), {{"batch", 1}}, 0.3, 7);
    const Body& main = def.ir()->main();
    std::vector<double> out;
    for (size_t place = 0; place < tokens.size(); ++place) {
      in[0] = array_of(i64, {1}, {tokens[place]});
      in[1] = array_of(i64, {}, {static_cast<double>(place)});
      const std::vector<Array> results = run(def, in);
      if (results.empty()) return out;
      for (int64_t i = 0; i < 11; ++i) out.push_back(results.back().number(i));
      for (size_t i = 0; i < main.inputs.size(); ++i) {
        if (main.inputs[i].donated_to != kNone) in[i] = results[main.inputs[i].donated_to];
      }
    }
    return out;
  };
  const std::vector<double> a = logits({3, 1, 4}), b = logits({3, 1, 5}), c = logits({2, 1, 4});
  ASSERT_EQ(a.size(), 33u);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 22, b.begin()));
  EXPECT_NE(std::vector(a.begin() + 22, a.end()), std::vector(b.begin() + 22, b.end()));
  EXPECT_NE(std::vector(a.begin() + 11, a.begin() + 22), std::vector(c.begin() + 11, c.begin() + 22));
}

// In inference with the batch's own statistics a block gives what training does; and these move by a tenth.
TEST(Examples, ResnetTrainsAndInfersAlike) {
  const GraphDef training = resnet_training(2), inference = resnet_inference(2);
  ASSERT_TRUE(training.ir().ok() && inference.ir().ok());
  std::vector<Array> in = random_inputs(*training.ir(), {{"batch", 3}, {"height", 5}, {"width", 4}}, 1, 3);
  const std::vector<Array> trained = run(training, in);
  ASSERT_EQ(trained.size(), 5u);
  // new = 0.9·old + 0.1·batch; the variance there is the unbiased one, of 60 numbers.
  const size_t means[] = {4, 9};
  for (size_t layer = 0; layer < 2; ++layer) {
    for (int64_t channel = 0; channel < 2; ++channel) {
      const auto batch = [&](size_t place, size_t output) {
        return (trained[output].number(channel) - 0.9 * in[place].number(channel)) / 0.1;
      };
      const size_t mean = means[layer], output = 1 + 2 * layer;
      const double center = batch(mean, output), spread = batch(mean + 1, output + 1) * 59 / 60;
      set_bits(in[mean], channel, dsl::bits_from_double(f32, center));
      set_bits(in[mean + 1], channel, dsl::bits_from_double(f32, spread));
    }
  }
  const std::vector<Array> inferred = run(inference, in);
  ASSERT_EQ(inferred.size(), 1u);
  for (int64_t i = 0; i < inferred[0].count(); ++i) EXPECT_NEAR(inferred[0].number(i), trained[0].number(i), 1e-3);
}

// --- what PyTorch computes: references.json ---

// 0.3·sin(0.7·i + 1.3·k), as make_references.py has it.
Array wave(int64_t k, const std::vector<int64_t>& shape) {
  Array out = own(f32, shape);
  for (int64_t i = 0; i < out.count(); ++i) {
    const double value = 0.3 * std::sin(0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(k));
    set_bits(out, i, dsl::bits_from_double(f32, value));
  }
  return out;
}

// The only output beside PyTorch's, with waves for the inputs that are not given.
void expect_reference(const std::string& name, const GraphDef& def, const std::map<std::string, Array>& given,
                      const std::map<std::string, int64_t>& sizes) {
  SCOPED_TRACE(name);
  std::ifstream file(KILN_SOURCE_DIR "/tests/graph/examples/references.json");
  const auto reference = nlohmann::json::parse(file)[name];
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  std::vector<Array> in = random_inputs(*def.ir(), sizes, 1, 1);
  for (size_t k = 0; k < in.size(); ++k) {
    const auto known = given.find(def.ir()->main().inputs[k].name);
    in[k] = known == given.end() ? wave(static_cast<int64_t>(k), in[k].shape) : known->second;
  }
  const std::vector<Array> out = run(def, in, sizes);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].shape, reference["shape"].get<std::vector<int64_t>>());
  const auto wanted = reference["data"].get<std::vector<double>>();
  ASSERT_EQ(static_cast<size_t>(out[0].count()), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(out[0].number(static_cast<int64_t>(i)), wanted[i], 1e-5 * (1 + std::abs(wanted[i]))) << i;
  }
}

TEST(Examples, BertIsPyTorchs) {
  expect_reference("bert_layer", bert_layer({.width = 8, .heads = 2, .inner = 16}),
                   {{"mask", array_of(i1, {2, 3}, {1, 1, 1, 1, 1, 0})}}, {{"batch", 2}, {"places", 3}});
}

TEST(Examples, DlrmIsPyTorchs) {
  std::map<std::string, Array> given;
  for (int i = 0; i < 3; ++i) {
    std::vector<double> ids;
    for (int j = 0; j < 5; ++j) ids.push_back((3 * j + i) % 4);
    given["ids" + std::to_string(i)] = array_of(i64, {5}, ids);
    given["offsets" + std::to_string(i)] = array_of(i64, {2}, {0, static_cast<double>(i + 1)});
  }
  expect_reference("dlrm", dlrm({.tables = 3, .rows = 4, .width = 4, .dense = 3}), given, {{"batch", 2}, {"ids", 5}});
}

TEST(Examples, DiffusionIsPyTorchs) {
  expect_reference("diffusion_step", diffusion_step(4, 8),
                   {{"step", array_of(f32, {2}, {3, 10})},
                    {"alpha", array_of(f32, {2}, {0.5, 0.25})},
                    {"next_alpha", array_of(f32, {2}, {0.75, 0.5})}},
                   {{"batch", 2}, {"size", 8}});
}

TEST(Examples, MambaIsPyTorchs) {
  expect_reference("mamba_block", mamba_block({.width = 4, .states = 2, .window = 3}), {},
                   {{"batch", 2}, {"places", 5}});
}

// A later place of Mamba changes no earlier one.
TEST(Examples, MambaIsCausal) {
  const GraphDef def = mamba_block({.width = 4, .states = 2, .window = 3});
  ASSERT_TRUE(def.ir().ok());
  std::vector<Array> in = random_inputs(*def.ir(), {{"batch", 1}, {"places", 5}}, 0.5, 9);
  const std::vector<Array> before = run(def, in);
  set_bits(in[0], 4 * 4, dsl::bits_from_double(f32, 9));
  const std::vector<Array> after = run(def, in);
  ASSERT_EQ(after.size(), 1u);
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(before[0].number(i), after[0].number(i));
  EXPECT_NE(before[0].number(16), after[0].number(16));
}

// The first step against Loshchilov and Hutter's formula, the gradient's norm being 5.
TEST(Examples, AdamWSteps) {
  const GraphDef def = adamw({{"b", {}}, {"w", {}}}, 0.1);
  const auto number = [](double value) { return array_of(f32, {}, {value}); };
  const std::vector<Array> out = run(def, {number(2), number(3), number(0), number(0), number(1), number(4), number(0),
                                           number(0), number(0.01), array_of(i64, {}, {1})});
  ASSERT_EQ(out.size(), 6u);
  const auto expected = [](double param, double gradient) {
    const double g = gradient / 5, m = 0.1 * g, v = 0.001 * g * g;
    return param - 0.01 * 0.1 * param - 0.01 * (m / 0.1) / (std::sqrt(v / 0.001) + 1e-8);
  };
  EXPECT_NEAR(out[0].number(0), expected(2, 3), 1e-6);
  EXPECT_NEAR(out[3].number(0), expected(1, 4), 1e-6);
}

}  // namespace
}  // namespace kiln::graph::examples
