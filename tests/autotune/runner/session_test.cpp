// A kernel on a device that works apart from the host, as a GPU does: here the CPU, which says so.
#include "session.h"

#include <cstring>

#include "runner_case.h"

namespace kiln::autotune {
namespace {

using testing::HasSubstr;

class ApartFromHost final : public MeasuredDevice {
 public:
  explicit ApartFromHost(std::unique_ptr<MeasuredDevice> device) : device_(std::move(device)) {}
  const RunnerInfo& info() const override { return device_->info(); }
  Result<void> allocate(std::span<const uint64_t> bytes) override { return device_->allocate(bytes); }
  void* data(size_t array) const override { return device_->data(array); }
  Result<void> write(size_t array, std::span<const std::byte> bytes) override { return device_->write(array, bytes); }
  Result<void> fill(size_t array, uint8_t byte) override { return device_->fill(array, byte); }
  Result<void> read(size_t array, std::span<std::byte> out) const override { return device_->read(array, out); }
  Result<void> keep(size_t array) override { return device_->keep(array); }
  Result<void> restore() override { return device_->restore(); }
  Result<void> run(const UntypedFunction& function, std::span<const Argument> arguments) override {
    return device_->run(function, arguments);
  }
  Result<std::vector<double>> time_us(const UntypedFunction& function, std::span<const Argument> arguments,
                                      int launches, Cache cache, int times) override {
    return device_->time_us(function, arguments, launches, cache, times);
  }
  bool apart_from_host() const override { return true; }

 private:
  std::unique_ptr<MeasuredDevice> device_;
};

// y[0] = MODE.
constexpr const char* kKernel = R"(kernel says(%y: ptr<i32>) {
  constexpr MODE = 0
  array y = 1
  grid [1, 1, 1]
  %mode = constant {value = MODE, type = i32} : i32
  store %y, %mode
})";

using SessionCase = RunnerCase;

TEST_F(SessionCase, OutputsAreComparedBesideTheMeasurement) {
  const TestCompiler compiler(path("run"));
  const dsl::Kernel kernel = parsed(kKernel);
  auto cpu = open_cpu({1});
  ASSERT_TRUE(cpu);
  ApartFromHost device(std::move(*cpu));
  Session session(device);
  auto begun = session.begin(kernel, workload_by(kernel, {}), Cache::kCold);
  ASSERT_TRUE(begun) << begun.error().message;
  const auto load = [&](CandidateId id, int64_t mode) {
    auto outcome = session.load(id, compiler.compile(kernel, {{"MODE", mode}}));
    EXPECT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->status.failure, Failure::kNone) << outcome->status.message;
  };
  load(0, 3);
  load(1, 4);  // wrong, which is not known yet
  load(2, 3);
  session.settle();
  EXPECT_EQ(session.difference(0) + session.difference(2), "");
  EXPECT_THAT(session.difference(1), HasSubstr("array `y`: 1 of 1 elements differ; at 0 it is 4, not 3"));
  auto right = session.measure(2, 5);
  ASSERT_TRUE(right) << right.error().message;
  EXPECT_EQ(right->us.size(), 5u);
  auto wrong = session.measure(1, 5);
  ASSERT_TRUE(wrong) << wrong.error().message;
  EXPECT_EQ(wrong->status.failure, Failure::kWrongResult);
  // Its number may be another's then.
  load(1, 3);
  session.settle();
  EXPECT_EQ(session.difference(1), "");
}

// y[0] = x[2].
constexpr const char* kThird = R"(kernel third(%x: ptr<i32> readonly, %y: ptr<i32>) {
  array x = 3
  array y = 1
  grid [1, 1, 1]
  %two = constant {value = 2, type = i32} : i32
  %at = addptr %x, %two : ptr<i32>
  %value = load %at : i32
  store %y, %value
})";

TEST_F(SessionCase, AnArrayHasTheValuesOfItsFile) {
  const TestCompiler compiler(path("run"));
  const dsl::Kernel kernel = parsed(kThird);
  auto values = client::NpyArray::make({3}, dsl::ElementType::kI32);
  ASSERT_TRUE(values);
  const int32_t numbers[] = {1, 2, 77};
  std::memcpy(values->data(), numbers, sizeof numbers);
  ASSERT_TRUE(client::write_npy(path("x.npy"), *values));
  auto workload = make_workload(kernel, nlohmann::json::object(), {{"x", "@x.npy"}}, {}, path(""));
  ASSERT_TRUE(workload) << workload.error().message;
  auto device = open_cpu({1});
  ASSERT_TRUE(device);
  MeasuredDevice& cpu = **device;
  Session session(cpu);
  auto begun = session.begin(kernel, *workload, Cache::kHot);
  ASSERT_TRUE(begun) << begun.error().message;
  auto outcome = session.load(0, compiler.compile(kernel, {}));
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->status.failure, Failure::kNone) << outcome->status.message;
  int32_t result = 0;
  ASSERT_TRUE(cpu.read(1, std::as_writable_bytes(std::span(&result, 1))));
  EXPECT_EQ(result, 77);
  std::filesystem::remove(path("x.npy"));
  EXPECT_THAT(session.begin(kernel, *workload, Cache::kHot).error().message, HasSubstr("x.npy: cannot be opened"));
}

}  // namespace
}  // namespace kiln::autotune
