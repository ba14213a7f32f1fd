// .pt2 files of PyTorch's, read and evaluated, and files that nobody should have written.
#include "kiln/graph/pt2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <minizip/zip.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "pt2/archive.h"
#include "pt2/calls.h"
#include "pt2/names.h"
#include "pt2/symbols.h"

namespace kiln::graph {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::string model_path(const std::string& name) { return KILN_SOURCE_DIR "/tests/graph/pt2/models/" + name; }

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Pt2 : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/pt2-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& bytes) {
    const std::string path = folder_ + "/bad.pt2";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  using Members = std::vector<std::pair<std::string, std::string>>;
  std::string write_zip(const Members& members, int level = 0) {
    const std::string path = folder_ + "/made.pt2";
    std::filesystem::remove(path);
    zipFile zip = zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
    for (const auto& [name, bytes] : members) {
      zip_fileinfo info{};
      zipOpenNewFileInZip64(zip, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, level == 0 ? 0 : Z_DEFLATED,
                            level, 0);
      zipWriteInFileInZip(zip, bytes.data(), static_cast<unsigned>(bytes.size()));
      zipCloseFileInZip(zip);
    }
    zipClose(zip, nullptr);
    return path;
  }

  static Members members_of(const std::string& name) {
    auto archive = pt2::open_archive(model_path(name));
    EXPECT_TRUE(archive.ok()) << archive.error().message;
    Members out;
    for (const auto& [path, bytes] : archive->members) {
      out.emplace_back("m/" + path, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
    return out;
  }

  // What reading says after a change of one JSON member.
  std::string error_of(const std::string& member, const std::function<void(json&)>& change) {
    Members members = members_of("mlp.pt2");
    for (auto& [name, bytes] : members) {
      if (name != "m/" + member) continue;
      json value = json::parse(bytes);
      change(value);
      bytes = value.dump();
    }
    const auto model = read_pt2(write_zip(members));
    return model ? "no error" : model.error().message;
  }

  std::string folder_;
};

const char* const kProgram = "models/model.json";
const char* const kWeights = "data/weights/model_weights_config.json";

Array array_of_json(const json& numbers, ElementType element) {
  return array_of(element, numbers["shape"].get<std::vector<int64_t>>(), numbers["values"].get<std::vector<double>>());
}

// The model's outputs for the inputs of expected.json.
void expect_numbers(const std::string& file, const std::string& name, double tolerance) {
  SCOPED_TRACE(file);
  const json expected = json::parse(std::ifstream(model_path("expected.json")))[name];
  auto model = read_pt2(model_path(file));
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto graph = graph_of(model->program);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  std::vector<Array> inputs;
  for (const AtenInput& input : model->program.inputs) {
    const auto weight = std::ranges::find(model->weights, input.name, &Pt2Weight::input);
    inputs.push_back(weight != model->weights.end() ? weight->values
                                                    : array_of_json(expected["inputs"][input.name], input.element));
  }
  auto outputs = evaluate(*graph, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  ASSERT_EQ(outputs->size(), expected["outputs"].size());
  for (size_t i = 0; i < outputs->size(); ++i) {
    const std::string& output = graph->main().outputs[i].name;
    SCOPED_TRACE(output);
    const json& right = expected["outputs"][output];
    ASSERT_FALSE(right.is_null());
    ASSERT_EQ((*outputs)[i].shape, right["shape"].get<std::vector<int64_t>>());
    for (int64_t k = 0; k < (*outputs)[i].count(); ++k) {
      const double want = right["values"][static_cast<size_t>(k)];
      ASSERT_NEAR((*outputs)[i].number(k), want, tolerance * (1 + std::abs(want))) << k;
    }
  }
}

TEST_F(Pt2, GivesPyTorchsNumbers) {
  expect_numbers("mlp.pt2", "mlp", 1e-5);
  expect_numbers("mlp_traced.pt2", "mlp", 1e-5);
  expect_numbers("steps.pt2", "steps", 1e-5);
  expect_numbers("attention.pt2", "attention", 0.02);
  expect_numbers("tied.pt2", "tied", 1e-5);
}

TEST_F(Pt2, SaysWhatTheModelHas) {
  auto model = read_pt2(model_path("mlp.pt2"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_THAT(model->inputs, ElementsAre("x"));
  EXPECT_THAT(model->outputs, ElementsAre("out", "parts_0", "parts_1"));
  std::vector<std::string> weights;
  for (const Pt2Weight& weight : model->weights) weights.push_back(weight.name);
  EXPECT_THAT(weights, ElementsAre("first.weight", "first.bias", "second.weight", "second.bias", "norm.weight",
                                   "norm.bias", "scale", "shift"));
  // One is the other's transpose, in the same memory.
  const Array &first = model->weights[0].values, &second = model->weights[2].values;
  EXPECT_EQ(first.data, second.data);
  EXPECT_THAT(second.strides, ElementsAre(1, 8));
  const AtenInput& x = model->program.inputs.back();
  ASSERT_EQ(x.shape.size(), 2u);
  ASSERT_EQ(x.shape[0].symbols().size(), 1u);
  EXPECT_EQ(x.shape[0].symbols()[0].low, 2);
  EXPECT_EQ(x.shape[0].symbols()[0].high, 100);
  EXPECT_TRUE(std::ranges::any_of(model->program.calls,
                                  [](const AtenCall& call) { return call.place.starts_with("make_models.py:"); }));
}

TEST_F(Pt2, StatesHaveNextValues) {
  auto model = read_pt2(model_path("steps.pt2"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->states.size(), 3u);
  EXPECT_EQ(model->states[0].input, "b_norm_running_mean");
  EXPECT_EQ(model->states[0].output, "b_norm_running_mean_next");
  EXPECT_THAT(model->outputs, ElementsAre("y"));
  EXPECT_EQ(model->program.inputs[2].donated_to, "b_norm_running_mean_next");
}

TEST_F(Pt2, PartsWithoutGradientsAreInlined) {
  auto model = read_pt2(model_path("steps_traced.pt2"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  std::vector<std::string> targets;
  for (const AtenCall& call : model->program.calls) targets.push_back(call.target);
  EXPECT_THAT(targets, testing::IsSupersetOf({"aten.mul.Tensor", "aten.add.Tensor"}));
  for (const std::string& target : targets) EXPECT_THAT(target, testing::Not(HasSubstr("higher_order")));
}

TEST_F(Pt2, TruncatedFilesAreErrors) {
  const std::string whole = bytes_of(model_path("mlp.pt2"));
  for (size_t size = 0; size < whole.size(); size += size < 64 ? 1 : 997) {
    auto model = read_pt2(write(whole.substr(0, size)));
    ASSERT_FALSE(model.ok()) << size;
    EXPECT_THAT(model.error().message, HasSubstr("bad.pt2: ")) << size;
  }
}

TEST_F(Pt2, FlippedBytesNeverCrash) {
  const std::string whole = bytes_of(model_path("mlp.pt2"));
  std::mt19937 random(5);
  int errors = 0;
  for (int i = 0; i < 600; ++i) {
    std::string changed = whole;
    // Half of them in the directory at the end, where one byte moves everything.
    const size_t from = i % 2 == 0 ? 0 : whole.size() - 1800;
    for (int k = 0; k < 3; ++k) changed[from + random() % (whole.size() - from)] = static_cast<char>(random());
    auto model = read_pt2(write(changed));
    errors += !model.ok();
    if (!model) continue;
    (void)graph_of(model->program);
    // What is not refused is in the file.
    for (const Pt2Weight& weight : model->weights) {
      for (int64_t k = 0; k < weight.values.count(); ++k) (void)weight.values.bits(k);
    }
  }
  EXPECT_GT(errors, 100);
}

TEST_F(Pt2, OtherFilesAreNamed) {
  EXPECT_EQ(read_pt2(folder_ + "/none.pt2").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(read_pt2(folder_).error().message, HasSubstr("is not a regular file"));
  EXPECT_THAT(read_pt2(write("graph")).error().message, HasSubstr("is no .pt2 file"));
  EXPECT_THAT(read_pt2(write_zip({{"m/a", "b"}})).error().message, HasSubstr("has no program in `models/`"));
  EXPECT_THAT(read_pt2(write_zip({{"serialized", "b"}})).error().message, HasSubstr("is in no folder"));
  EXPECT_THAT(read_pt2(write_zip({{"m/serialized_exported_program.json", "b"}})).error().message,
              HasSubstr("older PyTorch"));
  EXPECT_THAT(read_pt2(write_zip({{"m/a", "b"}, {"m/a", "c"}})).error().message, HasSubstr("has member `a` twice"));
  EXPECT_THAT(read_pt2(write_zip({{"m/a", "b"}, {"n/a", "c"}})).error().message, HasSubstr("two folders"));
  EXPECT_THAT(read_pt2(write_zip({{"m/models/model.json", std::string(100000, ' ')}}, 9)).error().message,
              HasSubstr("is compressed"));
  EXPECT_THAT(read_pt2(write_zip({{"m/models/model.json", "{"}})).error().message, HasSubstr("is no JSON"));
  EXPECT_THAT(read_pt2(write_zip({{"m/models/model.json", "[]"}})).error().message, HasSubstr("is no object"));
  EXPECT_THAT(read_pt2(write_zip({{"m/models/model.json", std::string(200000, '[')}})).error().message,
              HasSubstr("is no JSON"));
  EXPECT_THAT(read_pt2(write_zip({{"m/byteorder", "big"}, {"m/models/model.json", "{}"}})).error().message,
              HasSubstr("byte order `big`"));
}

TEST_F(Pt2, OneOfSeveralModelsIsAskedFor) {
  Members members = members_of("mlp.pt2");
  for (auto [name, bytes] : members_of("mlp.pt2")) {
    if (name == "m/models/model.json") members.emplace_back("m/models/other.json", bytes);
    if (name.ends_with("model_weights_config.json"))
      members.emplace_back("m/data/weights/other_weights_config.json", bytes);
    if (name.ends_with("model_constants_config.json"))
      members.emplace_back("m/data/constants/other_constants_config.json", bytes);
  }
  const std::string path = write_zip(members);
  EXPECT_THAT(read_pt2(path).error().message, HasSubstr("has several models: `model`, `other`"));
  EXPECT_THAT(read_pt2(path, "third").error().message, HasSubstr("has no model `third`; it has `model`, `other`"));
  auto other = read_pt2(path, "other");
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(other->weights.size(), 8u);
}

TEST_F(Pt2, ProgramsOfOtherFormAreErrors) {
  EXPECT_EQ(error_of(kProgram, [](json&) {}), "no error");
  const auto graph = [](json& j) -> json& { return j["graph_module"]["graph"]; };
  EXPECT_THAT(error_of(kProgram, [](json& j) { j["schema_version"]["major"] = 9; }), HasSubstr("export schema 9"));
  EXPECT_THAT(error_of(kProgram, [](json& j) { j.erase("graph_module"); }), HasSubstr("`graph_module` is missing"));
  EXPECT_THAT(error_of(kProgram, [&](json& j) { graph(j)["nodes"][1]["inputs"][0]["arg"] = {{"as_complex", {}}}; }),
              HasSubstr("an argument that is `as_complex`"));
  EXPECT_THAT(error_of(kProgram, [&](json& j) { graph(j)["nodes"][1]["inputs"] = 7; }),
              HasSubstr("`inputs` is no list"));
  EXPECT_THAT(error_of(kProgram, [&](json& j) { graph(j)["tensor_values"]["x"]["dtype"] = 10; }),
              HasSubstr("the input `x`: there are no complex numbers"));
  EXPECT_THAT(error_of(kProgram, [&](json& j) { graph(j)["tensor_values"].erase("x"); }),
              HasSubstr("the input `x` has no type"));
  EXPECT_THAT(error_of(kProgram, [&](json& j) { graph(j)["sym_int_values"].clear(); }), HasSubstr("no size is called"));
  EXPECT_THAT(
      error_of(kProgram, [&](json& j) { j["range_constraints"].begin().value() = {{"min_val", 9}, {"max_val", 3}}; }),
      HasSubstr("has no values"));
  EXPECT_THAT(error_of(kProgram, [&](json& j) { j["graph_module"]["signature"]["output_specs"] = json::array(); }),
              HasSubstr("gives no tensor"));
  EXPECT_THAT(error_of(kProgram,
                       [&](json& j) {
                         json& inputs = j["graph_module"]["signature"]["input_specs"];
                         inputs.push_back(inputs[0]);
                       }),
              HasSubstr("the input `p_first_weight` is there twice"));
}

TEST_F(Pt2, WeightsOutsideOfTheFileAreErrors) {
  const auto meta = [](json& j) -> json& { return j["config"]["first.weight"]["tensor_meta"]; };
  const auto size = [](int64_t n) { return json{{"as_int", n}}; };
  EXPECT_THAT(error_of(kWeights, [&](json& j) { meta(j)["storage_offset"] = size(1); }),
              HasSubstr("weight `first.weight` needs 49 elements"));
  EXPECT_THAT(error_of(kWeights, [&](json& j) { meta(j)["storage_offset"] = size(-1); }), HasSubstr("a size of -1"));
  EXPECT_THAT(error_of(kWeights, [&](json& j) { meta(j)["sizes"] = {size(int64_t{1} << 40), size(int64_t{1} << 40)}; }),
              HasSubstr("needs"));
  EXPECT_THAT(
      error_of(kWeights, [&](json& j) { meta(j)["strides"] = {size(int64_t{1} << 40), size(int64_t{1} << 40)}; }),
      HasSubstr("needs"));
  EXPECT_THAT(error_of(kWeights, [&](json& j) { meta(j)["sizes"] = {size(int64_t{1} << 62), size(1)}; }),
              HasSubstr("a size of"));
  EXPECT_THAT(error_of(kWeights, [&](json& j) { meta(j)["strides"].push_back(size(1)); }),
              HasSubstr("other strides than sizes"));
  EXPECT_THAT(error_of(kWeights, [&](json& j) { meta(j)["sizes"] = {size(6), size(4)}; }),
              HasSubstr("of another type than in the program"));
  EXPECT_THAT(error_of(kWeights, [&](json& j) { j["config"].erase("first.weight"); }),
              HasSubstr("the weight `first.weight` is not in the file"));
  EXPECT_THAT(error_of(kWeights, [&](json& j) { j["config"]["first.weight"]["path_name"] = "../../x"; }),
              HasSubstr("are not in the file"));
  EXPECT_THAT(error_of(kWeights, [&](json& j) { j["config"]["first.weight"]["use_pickle"] = true; }),
              HasSubstr("is a pickle"));
}

std::string size_text(const std::string& text) {
  const pt2::SymbolRanges ranges = {{"s0", {2, 64}}, {"s1", {1, 8}}};
  auto dim = pt2::read_dim(text, ranges);
  if (!dim) return dim.error().message;
  const auto name = [&](uint32_t i) { return dim->symbols()[i].name; };
  return to_string(dim->expr(), {name, nullptr});
}

TEST(Pt2Symbols, AreReadAsSymPyWritesThem) {
  const auto same = [](const std::string& a, const std::string& b) { EXPECT_EQ(size_text(a), size_text(b)) << a; };
  same("Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(-1))", "2*s0 - 1");
  same("FloorDiv(Add(Symbol('s0', integer=True), Integer(1)), Integer(2))", "(s0 + 1)//2");
  same("Mod(Symbol('s0'), Integer(3))", "s0 % 3");
  same("Max(Integer(1), Symbol('s0'))", "Max(1, s0)");
  same("Pow(Symbol('s1'), Integer(2))", "s1*s1");
  same("s0**2", "s0*s0");
  EXPECT_EQ(size_text("7"), "7");
}

TEST(Pt2Symbols, OtherTextIsAnError) {
  EXPECT_THAT(size_text("s0 +"), HasSubstr("ends early"));
  EXPECT_THAT(size_text("(s0"), HasSubstr("`)` is missing"));
  EXPECT_THAT(size_text("s0 s1"), HasSubstr("unexpected `s`"));
  EXPECT_THAT(size_text("floor(s0)"), HasSubstr("there are no sizes with `floor`"));
  EXPECT_THAT(size_text("s0**s1"), HasSubstr("a power that is no small number"));
  EXPECT_THAT(size_text("99999999999999999999"), HasSubstr("is no size"));
  EXPECT_THAT(size_text("Add()"), HasSubstr("of nothing"));
  EXPECT_THAT(size_text(std::string(5000, '(')), HasSubstr("nested too deeply"));
  EXPECT_THAT(size_text(std::string(5000, '-') + "1"), HasSubstr("nested too deeply"));
  std::string sum = "s0";
  for (int i = 0; i < 400; ++i) sum += " + t" + std::to_string(i);
  EXPECT_THAT(size_text("(" + sum + ")*(" + sum + ")"), HasSubstr("too many terms"));
}

TEST(Pt2Names, AreThoseOfTheTree) {
  const std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
  const auto tree = [](const std::string& inner) { return "[1, " + inner + "]"; };
  EXPECT_THAT(pt2::leaf_names(tree(leaf), 1), ElementsAre("y"));
  EXPECT_THAT(
      pt2::leaf_names(
          tree(R"({"type": "builtins.tuple", "context": "null", "children_spec": [)" + leaf + "," + leaf + "]}"), 2),
      ElementsAre("y0", "y1"));
  EXPECT_THAT(pt2::leaf_names(tree(R"({"type": "builtins.dict", "context": "[\"a\", \"b c\"]", "children_spec": [)" +
                                   leaf + "," + leaf + "]}"),
                              2),
              ElementsAre("a", "b_c"));
  EXPECT_THAT(pt2::leaf_names("nonsense", 2), ElementsAre("y0", "y1"));
}

TEST(Pt2Places, AreTheAuthorsLines) {
  EXPECT_EQ(pt2::place_of("  File \"/home/a/model.py\", line 6, in forward\n    y = s(x)\n  File "
                          "\"/usr/lib/torch/nn/linear.py\", line 134, in forward\n    return"),
            "model.py:6 in forward");
  EXPECT_EQ(pt2::place_of("no trace"), "");
}

}  // namespace
}  // namespace kiln::graph
