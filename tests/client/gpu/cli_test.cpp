// What `kiln run --target cuda` does around a launch.
#include "device_run.h"
#include "fake_case.h"
#include "function_state.h"

namespace kiln::test {
namespace {

using CliLaunch = FakeCase;

// Adds one to x and y.
void add_one(const unsigned char* params, const unsigned*) {
  for (int i = 0; i < 2; ++i) {
    int32_t* array;
    std::memcpy(&array, params + 8 * i, sizeof array);
    for (int j = 0; j < 3; ++j) ++array[j];
  }
}

TEST_F(CliLaunch, CopiesArraysThereAndWrittenOnesBack) {
  fake_kernel("kiln_entry", add_one);
  const dsl::Kernel kernel = kernel_of("%x: ptr<i32> readonly, %y: ptr<i32>, %n: i32", "[n, 1, 1]");
  client::CompileSpec spec{std::make_shared<const dsl::Kernel>(kernel), "cuda:sm_90a", {}};
  const UntypedFunction function(
      client::FunctionState::make(std::make_shared<client::Core>(client::ConnectOptions{}, false), std::move(spec),
                                  loaded(kernel, artifact_of(kernel))));
  std::vector<int32_t> x = {1, 2, 3}, y = {10, 20, 30};
  ASSERT_EQ(message(cli::launch_on_device("cuda", function, {{x.data(), 3, 0}, {y.data(), 3, 0}, scalar(5)}, {})), "");
  EXPECT_EQ(x, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(y, (std::vector<int32_t>{11, 21, 31}));
  EXPECT_EQ(fake_launch(0)->grid[0], 5u);
  EXPECT_EQ(
      message(cli::launch_on_device("cuda", function, {{x.data(), 3, 0}, {y.data(), 3, 0}, scalar(0xffffffff)}, {})),
      "kernel `k`: grid axis 0 is -1: `n` with n = -1; it must be 0 to 2147483647");
}

}  // namespace
}  // namespace kiln::test
