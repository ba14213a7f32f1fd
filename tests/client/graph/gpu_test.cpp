// Plans on a GPU: what is copied where and when, on a fake of the driver that runs host functions as kernels.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "fake_case.h"
#include "graph/hand_plan.h"
#include "kiln/client/graph.h"
#include "kiln/dsl/instantiate.h"

namespace kiln {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

// The arguments of both kernels: three pointers and an i32.
struct Params {
  const float *a, *b;
  float* out;
  int32_t n;
};
Params params_of(const unsigned char* bytes) {
  Params out{};
  std::memcpy(&out, bytes, 28);
  return out;
}

void scale(const unsigned char* bytes, const unsigned[3]) {
  const Params p = params_of(bytes);
  for (int32_t i = 0; i < p.n; ++i) p.out[i] = p.a[i] * p.b[0];
}
void add(const unsigned char* bytes, const unsigned[3]) {
  const Params p = params_of(bytes);
  for (int32_t i = 0; i < p.n; ++i) p.out[i] = p.a[i] + p.b[i];
}

class GraphOnGpu : public test::FakeCase {
 protected:
  void SetUp() override {
    FakeCase::SetUp();
    fake_kernel("kiln_entry", scale);
    fake_kernel("first_stage", add);
    const graph::Plan plan = planned::hand_plan("cuda:sm_90a");
    std::vector<Artifact> artifacts;
    for (const graph::PlannedKernel& kernel : plan.kernels) {
      const bool adds = !artifacts.empty();
      artifacts.push_back(test::artifact_of(kernel.kernel, {{"entry", adds ? "first_stage" : "kiln_entry"}}));
      auto concrete = dsl::instantiate(kernel.kernel, kernel.constexprs, {});
      ASSERT_TRUE(concrete) << concrete.error().message;
      artifacts.back().metadata.grid_expr.assign(concrete->grid.begin(), concrete->grid.end());
    }
    auto loaded = client::load_plan(plan, artifacts);
    ASSERT_TRUE(loaded) << loaded.error().message;
    fn = *loaded;
    std::iota(x.begin(), x.end(), 1.0f);
    std::iota(state.begin(), state.end(), 7.0f);
    for (size_t i = 0; i < x.size(); ++i) {
      next.push_back(state[i] + 2 * x[i]);
      y.push_back(2 * x[i] + next[i]);
    }
  }
  void TearDown() override {
    fn = CompiledGraph();
    FakeCase::TearDown();
  }

  CompiledGraph fn;
  std::vector<float> x = std::vector<float>(12), state = std::vector<float>(12), y, next;
};

TEST_F(GraphOnGpu, HostArraysGoThereAndBack) {
  const long before = fake_live("memory");
  EXPECT_EQ(before, 2);  // constants
  for (int round = 0; round < 3; ++round) {
    auto results = fn({array(x, {3, 4}), array(state, {3, 4})});
    ASSERT_TRUE(results) << results.error().message;
    EXPECT_THAT((*results)[0].as<float>(), ElementsAreArray(y));
    EXPECT_THAT((*results)[1].as<float>(), ElementsAreArray(next));
    EXPECT_THAT((*results)[2].as<float>(), ElementsAreArray(y.end() - 4, y.end()));
    EXPECT_EQ(fake_live("memory"), before + 1);  // the arena, which the next run takes over
  }
  EXPECT_EQ(fake_launches(), 15u);
}

TEST_F(GraphOnGpu, StridedAndDonatedHostArrays) {
  std::vector<float> turned(12);
  for (size_t i = 0; i < 12; ++i) turned[i % 4 * 3 + i / 4] = x[i];
  auto results = fn({array(turned.data(), {3, 4}, {1, 3}), donated(state, {3, 4})});
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_THAT((*results)[0].as<float>(), ElementsAreArray(y));
  EXPECT_EQ((*results)[1].data(), state.data());
  EXPECT_EQ(state, next);
}

// Arenas wait for the next run, until somebody is short of memory.
TEST_F(GraphOnGpu, ArenasAreGivenBack) {
  const auto run = [&] { return fn({array(x, {3, 4}), array(state, {3, 4})}); };
  const Device device = test::open_device();
  ASSERT_TRUE(run());
  const MemoryUse use = device.memory_use();
  const auto arena = std::ranges::find(use.holders, "arena of graph `" + fn.plan().name + "`", &MemoryHolder::name);
  ASSERT_NE(arena, use.holders.end());
  EXPECT_EQ(device.give_back_caches(), arena->bytes);
  EXPECT_EQ(device.memory_use().bytes, use.bytes - arena->bytes);
  EXPECT_EQ(device.give_back_caches(), 0u);

  // A limit that arrays fit below only without it; then one beyond which caches always go.
  ASSERT_TRUE(run());
  const auto all = static_cast<double>(device.info().memory_bytes);
  ASSERT_TRUE(device.set_memory_fraction((static_cast<double>(use.bytes) + 0.5) / all));
  EXPECT_TRUE(DeviceMemory::allocate(device, arena->bytes));
  const auto more = DeviceMemory::allocate(device, arena->bytes + 1);
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().message, HasSubstr("for constants of graph"));
  ASSERT_TRUE(device.set_memory_fraction(0));
  ASSERT_TRUE(run());
  ASSERT_TRUE(device.set_memory_fraction(0, 1 / all));
  EXPECT_TRUE(DeviceMemory::allocate(device, 1));
  EXPECT_EQ(device.memory_use().bytes, use.bytes - arena->bytes);
  ASSERT_TRUE(device.set_memory_fraction(0));
}

DeviceBuffer<float> filled(const Device& device, const std::vector<float>& from) {
  auto buffer = DeviceBuffer<float>::allocate(device, from.size());
  EXPECT_TRUE(buffer);
  EXPECT_TRUE(buffer->copy_from(from));
  return std::move(*buffer);
}

// The plan's arrays on the device: `state` is donated to the output `next`.
struct There {
  There(const std::vector<float>& x_host, const std::vector<float>& state_host)
      : x(filled(device, x_host)), state(filled(device, state_host)) {}

  std::vector<float> read(const DeviceBuffer<float>& buffer) const {
    std::vector<float> out(buffer.size());
    EXPECT_TRUE(buffer.copy_to(out));
    return out;
  }

  Device device = test::open_device();
  DeviceBuffer<float> x, state, y = filled(device, std::vector<float>(12)),
                                last = filled(device, std::vector<float>(4));
  std::vector<ArrayView> inputs = {array(x, {3, 4}), array(state, {3, 4})};
  std::vector<ArrayView> outputs = {donated(y, {3, 4}), donated(state, {3, 4}), donated(last, {4})};
};

TEST_F(GraphOnGpu, ArraysOnTheDeviceStayThere) {
  const There there(x, state);
  auto done = fn.run_into(there.inputs, there.outputs);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(there.read(there.y), y);
  EXPECT_EQ(there.read(there.state), next);

  std::vector<ArrayView> strided = there.inputs;
  strided[0].strides = {1, 3};
  auto refused = fn(strided);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "input `x`: an array on a device is row-major and aligned here");
}

TEST_F(GraphOnGpu, RunsAreQueuedOnAStream) {
  const There there(x, state);
  auto stream = Stream::create(there.device);
  ASSERT_TRUE(stream);
  const long before = fake_live("memory");
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(there.state.copy_from(state));
    auto queued = fn.run_into(there.inputs, there.outputs, {.stream = &*stream});
    ASSERT_TRUE(queued) << queued.error().message;
    ASSERT_TRUE(stream->synchronise());
    EXPECT_EQ(there.read(there.y), y);
    EXPECT_EQ(there.read(there.state), next);
    EXPECT_EQ(fake_live("memory"), before + 1);  // an arena, which the stream's next run takes over
  }
  // Another stream has one of its own: the first may be at work.
  auto other = Stream::create(there.device);
  ASSERT_TRUE(other);
  ASSERT_TRUE(fn.run_into(there.inputs, there.outputs, {.stream = &*other}));
  ASSERT_TRUE(other->synchronise());
  EXPECT_EQ(fake_live("memory"), before + 2);
}

TEST_F(GraphOnGpu, RunsAreRecordedWithAnArenaOfTheirOwn) {
  const There there(x, state);
  auto stream = Stream::create(there.device);
  ASSERT_TRUE(stream);
  const long before = fake_live("memory");
  {
    auto recording =
        Recording::capture(*stream, [&] { return fn.run_into(there.inputs, there.outputs, {.stream = &*stream}); });
    ASSERT_TRUE(recording) << recording.error().message;
    EXPECT_EQ(fake_live("memory"), before + 1);
    fn = CompiledGraph();  // code and arena are the recording's too
    const size_t launches = fake_launches();
    ASSERT_TRUE(recording->replay(*stream));
    ASSERT_TRUE(stream->synchronise());
    EXPECT_EQ(fake_launches(), launches + 5);
    EXPECT_EQ(there.read(there.y), y);
  }
  EXPECT_LE(fake_live("memory"), before);  // constants went with the handle, unless others keep it
}

TEST_F(GraphOnGpu, AStreamTakesArraysOfTheDeviceOnly) {
  const There there(x, state);
  auto stream = Stream::create(there.device);
  ASSERT_TRUE(stream);
  const RunOptions options{.stream = &*stream};
  const auto text = [&](const auto& done) { return done ? std::string() : done.error().message; };
  EXPECT_EQ(text(fn(there.inputs, options)), "graph `by_hand` on a stream: results need arrays of the caller's");
  const std::vector<ArrayView> host = {array(x, {3, 4}), array(state, {3, 4})};
  EXPECT_EQ(text(fn.run_into(host, there.outputs, options)),
            "graph `by_hand` on a stream: input `x` is not on the device");
  std::vector<ArrayView> outputs = there.outputs;
  outputs[0] = donated(y, {3, 4});
  EXPECT_EQ(text(fn.run_into(there.inputs, outputs, options)),
            "graph `by_hand` on a stream: output `y` is not on the device");
  auto cpu = Device::open("cpu");
  ASSERT_TRUE(cpu);
  auto elsewhere = Stream::create(*cpu);
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(text(fn.run_into(there.inputs, there.outputs, {.stream = &*elsewhere})),
            "graph `by_hand` on a stream: it is compiled for cuda, and the stream is of cpu");
  std::vector<double> times;
  EXPECT_EQ(text(fn.run_into(there.inputs, there.outputs, {.stream = &*stream, .launch_ms = &times})),
            "graph `by_hand` on a stream: launches are timed where the run waits for them");
}

TEST_F(GraphOnGpu, LaunchesAreTimed) {
  std::vector<double> times;
  ASSERT_TRUE(fn({array(x, {3, 4}), array(state, {3, 4})}, {.launch_ms = &times}));
  ASSERT_EQ(times.size(), 5u);
  for (const double ms : times) EXPECT_GE(ms, 0);
}

TEST_F(GraphOnGpu, FailuresLeaveNothingBehind) {
  const std::vector<ArrayView> inputs = {array(x, {3, 4}), array(state, {3, 4})};
  ASSERT_TRUE(fn(inputs));
  const Device device = test::open_device();
  device.give_back_caches();  // or the arena that waits would be given back for what is refused
  const long before = fake_live("memory");
  for (int skip = 0; skip < 5; ++skip) {
    fake_fail("cuMemAlloc_v2", 2, skip);
    auto result = fn(inputs);
    device.give_back_caches();
    ASSERT_FALSE(result) << skip;
    EXPECT_EQ(result.error().code, ErrorCode::kOutOfMemory) << result.error().message;
    EXPECT_EQ(fake_live("memory"), before);
  }
  ASSERT_TRUE(fn(inputs));
  fake_fail("cuMemAlloc_v2", 2, 0);
  auto result = fn(inputs);
  ASSERT_TRUE(result) << result.error().message;
}

TEST_F(GraphOnGpu, MemoryOfTheDeviceCountsForTheLimit) {
  const std::vector<ArrayView> inputs = {array(x, {3, 4}), array(state, {3, 4})};
  const auto result = fn(inputs, {.memory_limit = 100});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("128 of arena, 112 of results, 96 of copies of inputs"));
}

}  // namespace
}  // namespace kiln
