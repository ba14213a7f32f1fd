// Models in one file with their code: made for several targets, run where there is no compiler, and files that nobody
// should have written.
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <random>
#include <span>
#include <thread>

#include "bundle.h"
#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

constexpr const char* kNoDaemon = "/nonexistent/kilnd";

class ModelBundles : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    kilnd_ = KILND_EXECUTABLE;
    for (const char* name : {"mlp.pt2", "steps.pt2", "tied.pt2"}) {
      std::filesystem::copy_file(std::string(KILN_MODELS) + "/" + name, path(name));
    }
    write_matrix("x.npy", {5, 8});
    write_matrix("s.npy", {6, 4});
    write("key", std::string(40, 'k'));
    std::filesystem::permissions(path("key"), std::filesystem::perms::owner_read);
  }
  void TearDown() override {
    kilnd_ = KILND_EXECUTABLE;
    (void)kiln({"stop"});
    CliTest::TearDown();
  }

  void write_matrix(const std::string& name, std::vector<int64_t> shape) const {
    auto array = client::NpyArray::make(shape, dsl::ElementType::kF32);
    ASSERT_TRUE(array.ok());
    std::vector<float> values(array->bytes / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) * 0.25f - 0.5f;
    std::memcpy(array->data(), values.data(), array->bytes);
    ASSERT_TRUE(client::write_npy(path(name), *array).ok());
  }
  void expect_done(const std::vector<std::string>& words) const {
    const Outcome outcome = kiln(words);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
  }
  // What `kiln run` writes of an output, on a machine without a compiler.
  std::vector<float> run_alone(std::vector<std::string> words, const std::string& output) {
    kilnd_ = kNoDaemon;
    words.push_back(output + "=@alone.npy");
    const Outcome outcome = kiln(words);
    kilnd_ = KILND_EXECUTABLE;
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    return outcome.code == 0 ? read_floats("alone.npy") : std::vector<float>{};
  }
};

TEST_F(ModelBundles, RunWhereThereIsNoCompiler) {
  expect_done({"bundle", "mlp.pt2", "-o", "mlp.bundle"});
  expect_done({"run", "mlp.pt2", "x=@x.npy", "out=@expected.npy"});
  const std::vector<float> expected = read_floats("expected.npy");
  std::filesystem::remove(path("mlp.pt2"));
  EXPECT_EQ(run_alone({"run", "mlp.bundle", "--trust", "x=@x.npy"}, "out"), expected);
  std::filesystem::create_directory(path("elsewhere"));
  std::filesystem::rename(path("mlp.bundle"), path("elsewhere/m"));
  EXPECT_EQ(run_alone({"run", "elsewhere/m", "--trust", "x=@x.npy", "--threads", "1"}, "out"), expected);
  // Other sizes are of the same code, and sizes that the model does not have are errors.
  write_matrix("x.npy", {100, 8});
  EXPECT_EQ(run_alone({"run", "elsewhere/m", "--trust", "x=@x.npy"}, "out").size(), 800u);
  write_matrix("x.npy", {101, 8});
  expect_error({"run", "elsewhere/m", "--trust", "x=@x.npy"}, "101");
}

TEST_F(ModelBundles, HaveStates) {
  expect_done({"bundle", "steps.pt2", "-o", "steps.bundle"});
  expect_done({"run", "steps.pt2", "x=@s.npy", "b_norm_running_mean_next=@expected.npy"});
  EXPECT_EQ(run_alone({"run", "steps.bundle", "--trust", "x=@s.npy"}, "b_norm_running_mean_next"),
            read_floats("expected.npy"));
}

TEST_F(ModelBundles, HaveAWeightOfTwoNamesOnce) {
  expect_done({"bundle", "tied.pt2", "-o", "tied.bundle"});
  const std::string whole = read("tied.bundle"), type = R"("dtype":"F32")";
  size_t tensors = 0;
  for (size_t at = whole.find(type); at != std::string::npos; at = whole.find(type, at + 1)) ++tensors;
  EXPECT_EQ(tensors, 1u);
  auto ids = client::NpyArray::make({2, 3}, dsl::ElementType::kI64);
  const std::vector<int64_t> values = {0, 39, 7, 1, 1, 20};
  std::memcpy(ids->data(), values.data(), ids->bytes);
  ASSERT_TRUE(client::write_npy(path("ids.npy"), *ids).ok());
  expect_done({"run", "tied.pt2", "ids=@ids.npy", "y=@expected.npy"});
  EXPECT_EQ(run_alone({"run", "tied.bundle", "--trust", "ids=@ids.npy"}, "y"), read_floats("expected.npy"));
}

TEST_F(ModelBundles, LeaveWeightsInTheModelBeside) {
  expect_done({"bundle", "tied.pt2", "-o", "tied.bundle"});
  expect_done({"bundle", "tied.pt2", "-o", "small.bundle", "--weights", "beside"});
  EXPECT_LT(read("small.bundle").size() + 10000, read("tied.bundle").size());
  expect_done({"bundle", "mlp.pt2", "-o", "mlp.bundle", "--weights", "beside"});
  expect_done({"run", "mlp.pt2", "x=@x.npy", "out=@expected.npy"});
  EXPECT_EQ(run_alone({"run", "mlp.bundle", "--trust", "x=@x.npy"}, "out"), read_floats("expected.npy"));
  std::string changed = read("mlp.pt2");
  changed[changed.size() / 2] ^= 1;
  write("mlp.pt2", changed);
  expect_error({"run", "mlp.bundle", "--trust", "x=@x.npy"}, "mlp.pt2: another file than mlp.bundle was made with");
  std::filesystem::remove(path("mlp.pt2"));
  expect_error({"run", "mlp.bundle", "--trust", "x=@x.npy"}, "mlp.pt2: cannot be opened");
}

TEST_F(ModelBundles, WantAKeyOrAWordOfTrust) {
  expect_done({"bundle", "mlp.pt2", "-o", "plain"});
  expect_done({"bundle", "mlp.pt2", "-o", "keyed", "--key", "key"});
  expect_error({"run", "plain", "x=@x.npy"}, "whoever wrote it has code executed here");
  expect_error({"run", "plain", "--key", "key", "x=@x.npy"}, "it is not authenticated by a key");
  expect_error({"run", "keyed", "--trust", "x=@x.npy"}, "give --key");
  EXPECT_EQ(run_alone({"run", "keyed", "--key", "key", "x=@x.npy"}, "out").size(), 40u);
  write("other", std::string(40, 'o'));
  std::filesystem::permissions(path("other"), std::filesystem::perms::owner_read);
  expect_error({"run", "keyed", "--key", "other", "x=@x.npy"}, "it is not authenticated by this key");
  expect_error({"run", "mlp.pt2", "--trust", "x=@x.npy"}, "is no bundle");
}

TEST_F(ModelBundles, HaveCodeForSeveralTargets) {
  expect_done({"bundle", "mlp.pt2", "-o", "far", "--target", "cpu:aarch64", "--target", "cuda:sm_90a"});
  const Outcome outcome = kiln({"run", "far", "--trust", "x=@x.npy", "out=@compiled.npy"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("this machine is x86_64"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("it is compiled"), std::string::npos) << outcome.errors;
  expect_done({"bundle", "mlp.pt2", "-o", "near", "--target", "cpu:aarch64", "--target", "cpu:x86-64-v2"});
  const std::vector<float> here = run_alone({"run", "near", "--trust", "x=@x.npy"}, "out"),
                           there = read_floats("compiled.npy");
  ASSERT_EQ(here.size(), there.size());
  for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(here[i], there[i], 1e-5f);
  EXPECT_EQ(run_alone({"run", "near", "--trust", "--target", "cpu:x86-64-v2", "x=@x.npy"}, "out"), here);
  expect_done({"stop"});
  kilnd_ = kNoDaemon;
  expect_error({"run", "far", "--trust", "x=@x.npy"}, "KILN_KILND names /nonexistent/kilnd");
  kilnd_ = KILND_EXECUTABLE;
  expect_error({"bundle", "mlp.pt2", "-o", "none", "--target", "toaster"}, "unknown target `toaster`");
  EXPECT_FALSE(exists("none"));
}

// With a digest that is right, so that what is behind it is reached.
TEST_F(ModelBundles, ThatAreDamagedAreErrors) {
  expect_done({"bundle", "mlp.pt2", "-o", "whole"});
  const std::string whole = read("whole");
  kilnd_ = kNoDaemon;
  for (const size_t size : {9u, 24u, 60u, 3000u}) {
    write("bad", whole.substr(0, size));
    expect_error({"run", "bad", "--trust", "x=@x.npy"}, "no whole bundle");
  }
  std::string flipped = whole;
  flipped[whole.size() - 100] ^= 1;
  write("bad", flipped);
  expect_error({"run", "bad", "--trust", "x=@x.npy"}, "its checksum differs");
  std::mt19937 random(1);
  const size_t head = whole.find("\"weights\"") + 200;
  for (int i = 0; i < 40; ++i) {
    std::string bad = whole.substr(0, whole.size() - sizeof(Digest::Value));
    bad[8 + random() % (head - 8)] = static_cast<char>(random());
    Digest digest("");
    digest.add(std::as_bytes(std::span(bad)));
    for (const uint8_t byte : digest.value()) bad += static_cast<char>(byte);
    write("bad", bad);
    const Outcome outcome = kiln({"run", "bad", "--trust", "x=@x.npy"});
    EXPECT_LT(outcome.code, 2) << i << outcome.errors;
  }
}

// Where others may write a file could be changed behind the look at its digest: what was authenticated is what runs.
TEST_F(ModelBundles, OfAKeyAreWhatWasAuthenticated) {
  ASSERT_TRUE(std::filesystem::create_directory(path("open")));
  std::filesystem::copy_file(path("mlp.pt2"), path("open/mlp.pt2"));
  expect_done({"run", "mlp.pt2", "x=@x.npy", "out=@expected.npy"});
  expect_done({"bundle", "open/mlp.pt2", "-o", "open/beside", "--key", "key", "--weights", "beside"});
  expect_done({"bundle", "open/mlp.pt2", "-o", "open/whole", "--key", "key"});
  ASSERT_EQ(::chmod(path("open").c_str(), 0777), 0);
  EXPECT_EQ(run_alone({"run", "open/beside", "--key", "key", "x=@x.npy"}, "out"), read_floats("expected.npy"));

  constexpr long kDigest = 32;
  const long place = static_cast<long>(std::filesystem::file_size(path("open/whole"))) - kDigest - 1;
  std::atomic<bool> ends = false;
  std::thread other([&] {  // the last weight's sign and exponent, there and back
    std::fstream file(path("open/whole"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(place);
    const int byte = file.get();
    for (bool is_changed = true; !ends || !is_changed; is_changed = !is_changed) {
      file.seekp(place);
      file.put(static_cast<char>(is_changed ? byte ^ 0x40 : byte)).flush();
    }
  });
  kilnd_ = kNoDaemon;
  for (int i = 0; i < 30; ++i) {
    const Outcome outcome = kiln({"run", "open/whole", "--key", "key", "x=@x.npy", "out=@out.npy"});
    if (outcome.code == 0) {
      EXPECT_EQ(read_floats("out.npy"), read_floats("expected.npy"));
    } else {
      EXPECT_NE(outcome.errors.find("not authenticated"), std::string::npos) << outcome.errors;
    }
  }
  ends = true;
  other.join();
}

}  // namespace
}  // namespace kiln::cli::testing
