// `kiln run` on the interpreter: files in, files out.
#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

class Run : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    write("axpy.kiln", kAxpy);
    write_floats("x.npy", {1, 2, 3, 4, 5, 6});
    write_floats("y.npy", {10, 20, 30, 40, 50, 60});
  }
  // Runs axpy on six elements with more flags.
  Outcome axpy(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"run", "axpy.kiln", "--target", "interp", "x=@x.npy", "n=6", "a=0.5"};
    words.insert(words.end(), more.begin(), more.end());
    return kiln(words);
  }
};

TEST_F(Run, WritesAFreshOutput) {
  const Outcome outcome = axpy({"y=@y.npy", "z=@z.npy:f32[2,3]"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output + outcome.errors, "");
  EXPECT_EQ(read_floats("z.npy"), (std::vector<float>{10.5, 21, 31.5, 42, 52.5, 63}));
  auto array = client::read_npy(path("z.npy"));
  ASSERT_TRUE(array.ok());
  EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 3}));
}

TEST_F(Run, ReadsAndWritesOneArray) {
  write_floats("z.npy", {7, 7, 7, 7, 7, 7, 7, 7});
  EXPECT_EQ(axpy({"y=@y.npy", "z=@z.npy>@new.npy"}).code, 0);
  EXPECT_EQ(read_floats("new.npy"), (std::vector<float>{10.5, 21, 31.5, 42, 52.5, 63, 7, 7}));
  EXPECT_EQ(read_floats("z.npy"), std::vector<float>(8, 7));
  EXPECT_EQ(axpy({"y=@y.npy", "z=@z.npy>@z.npy"}).code, 0);
  EXPECT_EQ(read_floats("z.npy"), read_floats("new.npy"));
}

TEST_F(Run, PrintsToStandardOutput) {
  write("talk.kiln",
        "kernel talk(%y: ptr<f32>, %n: i32) {\n  %r = arange {start = 0, end = 300}\n  %p = program_id {axis = 0}\n"
        "  %x = load %y\n  print %n, %x {message = \"begins\"}\n  print %r {message = \"\"}\n}\n");
  const Outcome outcome = kiln({"run", "talk.kiln", "--target", "interp", "y=@y.npy", "n=-7", "--grid", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const std::string begin = "talk.kiln:5:3: program (0, 0, 0): begins\n  i32 -7\n  f32 10.0\n";
  EXPECT_NE(outcome.output.find(begin), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("program (1, 0, 0): begins\n"), std::string::npos);
  EXPECT_NE(outcome.output.find("  tile<[300], i32> 0, 1, 2, 3"), std::string::npos);
  EXPECT_NE(outcome.output.find("255, … (300 elements)\n"), std::string::npos);
}

// Misuse is an error with the line of the text and a caret.
TEST_F(Run, MisuseNamesLineAndProgram) {
  write("race.kiln",
        "kernel race(%y: ptr<f32>) {\n  grid [2]\n  %p = program_id {axis = 0}\n  %f = cast %p {to = f32}\n"
        "  store %y, %f\n}\n");
  const Outcome race = kiln({"run", "race.kiln", "--target", "interp", "y=@y.npy"});
  EXPECT_EQ(race.code, 1);
  EXPECT_NE(race.errors.find("race.kiln:5:3: error: store:"), std::string::npos) << race.errors;
  EXPECT_NE(race.errors.find("(program 1, 0, 0)"), std::string::npos) << race.errors;
  EXPECT_NE(race.errors.find("\n    store %y, %f\n    ^"), std::string::npos) << race.errors;
  write("claim.kiln",
        "kernel claim(%y: ptr<f32>, %n: i32) {\n  option debug = true\n  %z = constant {value = 3, type = i32}\n"
        "  %m = cmp %n, %z {pred = lt}\n  assert %m {message = \"n is small\"}\n}\n");
  const Outcome claim = kiln({"run", "claim.kiln", "--target", "interp", "y=@y.npy", "n=5"});
  EXPECT_EQ(claim.code, 1);
  EXPECT_NE(claim.errors.find("claim.kiln:5:3: error: assert: n is small"), std::string::npos) << claim.errors;
  EXPECT_EQ(kiln({"run", "claim.kiln", "--target", "interp", "y=@y.npy", "n=2"}).code, 0);
}

TEST_F(Run, TakesConstexprsGridFactsAndThreads) {
  const Outcome outcome = axpy(
      {"y=@y.npy", "z=@z.npy:f32[6]", "--set", "BLOCK=2", "--grid", "2", "--facts", "x=align16", "--threads", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(read_floats("z.npy"), (std::vector<float>{10.5, 21, 31.5, 42, 0, 0}));
}

// y[0] = cast(x[0]) for every pair of element types that files may hold.
TEST_F(Run, EveryElementTypeTravels) {
  using dsl::ElementType;
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    const ElementType type = static_cast<ElementType>(i);
    const std::string name(dsl::info(type).name);
    write(
        "cast.kiln",
        "kernel c(%x: ptr<" + name + "> readonly, %y: ptr<f64>, %s: " + name + ") {\n%v = load %x : " + name +
            "\n%w = cast %v {to = f64} : f64\n%t = cast %s {to = f64} : f64\n%u = add %w, %t : f64\nstore %y, %u\n}\n");
    auto input = client::NpyArray::make({1}, type);
    ASSERT_TRUE(input.ok());
    const uint64_t bits = dsl::bits_from_int(type, 1);
    std::memcpy(input->data(), &bits, input->bytes);
    ASSERT_TRUE(client::write_npy(path("in.npy"), *input).ok());
    const Outcome outcome = kiln({"run", "cast.kiln", "--target", "interp", "x=@in.npy", "y=@out.npy:f64[1]", "s=1"});
    ASSERT_EQ(outcome.code, 0) << name << ": " << outcome.errors;
    auto output = client::read_npy(path("out.npy"));
    ASSERT_TRUE(output.ok());
    double value = 0;
    std::memcpy(&value, output->data(), sizeof value);
    EXPECT_EQ(value, 2) << name;
  }
}

TEST_F(Run, NegativeAndFloatScalars) {
  write("scalars.kiln",
        "kernel s(%y: ptr<f64>, %i: i8, %f: f64) {\n%v = cast %i {to = f64} : f64\n%w = add %v, %f : f64\nstore %y, "
        "%w\n}\n");
  ASSERT_EQ(kiln({"run", "scalars.kiln", "--target", "interp", "y=@y64.npy:f64[]", "i=-128", "f=1e-3"}).code, 0);
  auto output = client::read_npy(path("y64.npy"));
  ASSERT_TRUE(output.ok());
  double value = 0;
  std::memcpy(&value, output->data(), sizeof value);
  EXPECT_EQ(value, -128 + 1e-3);
  EXPECT_TRUE(output->shape.empty());
}

}  // namespace
}  // namespace kiln::cli::testing
