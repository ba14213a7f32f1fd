// `kiln calibrate`: scales from samples, against formulas over the same values.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

using Values = std::vector<float>;

class Calibrate : public CliTest {
 protected:
  nlohmann::json scales(std::vector<std::string> words) {
    words.insert(words.begin(), "calibrate");
    words.insert(words.end(), {"-o", "scales.json"});
    const Outcome outcome = kiln(words);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return nlohmann::json::parse(read("scales.json"), nullptr, false);
  }
  std::string problem(std::vector<std::string> words) {
    words.insert(words.begin(), "calibrate");
    words.insert(words.end(), {"-o", "scales.json"});
    const Outcome outcome = kiln(words);
    EXPECT_NE(outcome.code, 0);
    EXPECT_FALSE(exists("scales.json"));
    return outcome.errors;
  }
};

// Numbers near N(0, 1), the sum of twelve uniform ones less six.
Values bell(size_t count) {
  Values out(count);
  uint32_t state = 1;
  for (float& x : out) {
    for (int i = 0; i < 12; ++i) {
      state = state * 1664525 + 1013904223;
      x += static_cast<float>(state >> 8) / (1 << 24);
    }
    x -= 6;
  }
  return out;
}

double snr_of(const Values& values, double scale, double zero, double low, double high) {
  double energy = 0, error = 0;
  for (double x : values) {
    const double back = (std::clamp(std::nearbyint(x / scale) + zero, low, high) - zero) * scale;
    energy += x * x;
    error += (x - back) * (x - back);
  }
  return 10 * std::log10(energy / error);
}

TEST_F(Calibrate, MinMaxOfAllSamplesOfATensor) {
  std::filesystem::create_directory(path("in"));
  write_floats("in/a.npy", {-0.5F, 1, 0.3F});
  write_floats("in/b.npy", {2, 0.1F});
  write_floats("c.npy", {0.25F, 0.7F});
  const auto out = scales({"x=in", "y=c.npy", "x=c.npy"});
  EXPECT_EQ(out["type"], "u8");
  const auto& x = out["tensors"]["x"];
  const Values all = {-0.5F, 1, 0.3F, 2, 0.1F, 0.25F, 0.7F};
  EXPECT_FLOAT_EQ(x["scale"], 2.5F / 255);
  EXPECT_EQ(x["zero"], 51);
  EXPECT_EQ(x["samples"], 3);
  EXPECT_EQ(x["elements"], 7);
  EXPECT_EQ(x["min"], -0.5);
  EXPECT_EQ(x["max"], 2);
  EXPECT_EQ(x["saturated"], 0);
  EXPECT_NEAR(x["snr_db"], snr_of(all, float{x["scale"]}, 51, 0, 255), 1e-6);
  // Without negative values 0 is the lowest all the same.
  EXPECT_FLOAT_EQ(out["tensors"]["y"]["scale"], 0.7F / 255);
  EXPECT_EQ(out["tensors"]["y"]["zero"], 0);
}

TEST_F(Calibrate, PercentilesCutWhatIsFarOut) {
  Values line(10001);
  for (size_t i = 0; i < line.size(); ++i) line[i] = static_cast<float>(i) / 10000;
  write_floats("line.npy", line);
  const auto cut = [&](const char* type) {
    return scales({"x=line.npy", "--type", type, "--method", "percentile", "--percent", "90"})["tensors"]["x"];
  };
  EXPECT_NEAR(cut("i8")["scale"], 0.9 / 127, 0.001 / 127);
  EXPECT_NEAR(cut("u8")["scale"], 0.9 / 255, 0.001 / 255);
  EXPECT_NEAR(cut("u8")["saturated"], 0.1, 0.003);
  for (float& x : line) x = x * 2 - 1;
  write_floats("line.npy", line);
  EXPECT_NEAR(cut("i8")["scale"], 0.9 / 127, 0.002 / 127);
  EXPECT_NEAR(cut("u8")["scale"], 1.8 / 255, 0.004 / 255);
  EXPECT_NEAR(cut("u8")["zero"], 127.5, 1);
}

TEST_F(Calibrate, EntropyLeavesOutliersOut) {
  Values values = bell(20000);
  const double most = *std::ranges::max_element(values, {}, [](float x) { return std::fabs(x); });
  values[7] = 60;
  write_floats("x.npy", values);
  const auto by = [&](const char* method) {
    return scales({"x=x.npy", "--type", "i8", "--method", method})["tensors"]["x"];
  };
  const auto entropy = by("entropy"), minmax = by("minmax");
  EXPECT_FLOAT_EQ(minmax["scale"], 60.0F / 127);
  EXPECT_LT(float{entropy["scale"]} * 127, 1.5 * std::fabs(most));
  EXPECT_GT(float{entropy["scale"]} * 127, 2);
  EXPECT_EQ(minmax["saturated"], 0);
  EXPECT_LT(double{entropy["saturated"]}, 0.02);
  EXPECT_NEAR(minmax["snr_db"], snr_of(values, 60.0F / 127, 0, -128, 127), 1e-6);
  // Of the values that are not far out it keeps more.
  values[7] = 0;
  EXPECT_GT(snr_of(values, float{entropy["scale"]}, 0, -128, 127), snr_of(values, 60.0F / 127, 0, -128, 127) + 10);
}

TEST_F(Calibrate, AnAxisHasAScaleForEachIndex) {
  auto array = client::NpyArray::make({2, 3, 2}, dsl::ElementType::kF64);
  ASSERT_TRUE(array.ok());
  const std::vector<double> values = {1, -2, 0, 0, 5, 6, -4, 3, 0, 0, 7, -8};
  std::memcpy(array->data(), values.data(), array->bytes);
  ASSERT_TRUE(client::write_npy(path("w.npy"), *array).ok());
  const auto out = scales({"w=w.npy", "--type", "i8", "--axis", "1"})["tensors"]["w"];
  EXPECT_EQ(out["axis"], 1);
  ASSERT_EQ(out["scale"].size(), 3u);
  EXPECT_FLOAT_EQ(out["scale"][0], 4.0F / 127);
  EXPECT_EQ(out["scale"][1], 1);  // of zeros alone
  EXPECT_FLOAT_EQ(out["scale"][2], 8.0F / 127);
  EXPECT_EQ(out["zero"], (std::vector<int>{0, 0, 0}));
}

TEST_F(Calibrate, SaysWhatIsWrongWithASample) {
  write_floats("nan.npy", {1, std::nanf(""), 2});
  write_floats("one.npy", {1});
  write_floats("three.npy", {1, 2, 3});
  write_floats("none.npy", {});
  auto ints = client::NpyArray::make({2}, dsl::ElementType::kI32);
  ASSERT_TRUE(client::write_npy(path("ints.npy"), *ints).ok());
  std::filesystem::create_directory(path("empty"));
  EXPECT_EQ(problem({"one.npy"}), "kiln: one.npy: write NAME=FILE.npy or NAME=DIRECTORY\n");
  EXPECT_EQ(problem({"x=nan.npy"}), "kiln: nan.npy: element 1 is NaN\n");
  EXPECT_EQ(problem({"x=ints.npy"}), "kiln: ints.npy: the file holds '<i4', and samples are of f32, f64 or f16\n");
  EXPECT_EQ(problem({"x=none.npy"}), "kiln: x: its samples have no elements\n");
  EXPECT_EQ(problem({"x=empty"}), "kiln: empty: has no .npy files\n");
  EXPECT_EQ(problem({"x=one.npy", "--axis", "1"}), "kiln: one.npy: has no axis 1, its shape is [1]\n");
  EXPECT_EQ(problem({"x=one.npy", "x=three.npy", "--axis", "0"}),
            "kiln: three.npy: axis 0 has 3 channels, that of the files before 1\n");
  EXPECT_EQ(problem({"x=one.npy", "--axis", "0", "--method", "entropy"}),
            "kiln: --axis: the method `entropy` is for whole tensors\n");
  EXPECT_NE(problem({"x=none such.npy"}).find("none such.npy"), std::string::npos);
}

}  // namespace
}  // namespace kiln::cli::testing
