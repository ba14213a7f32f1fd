// Tests with the fake driver as the process's CUDA driver.
#pragma once

#include <cstdlib>
#include <cstring>

#include "device_case.h"
#include "fake_cuda.h"

namespace kiln::test {

// Starts with two devices of capability 9.0, and ends with a look for what was left behind.
class FakeCase : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("KILN_CUDA_DRIVER", FAKE_CUDA, 1);
    fake_reset(2);
  }
  void TearDown() override {
    EXPECT_STREQ(fake_misuse(), "");
    for (const char* what : {"memory", "stream", "event", "module", "graph", "context"}) {
      EXPECT_EQ(fake_live(what), 0) << what;
    }
  }
};

// Of type T at an offset of a launch's parameters.
template <class T>
T parameter(const FakeLaunch& launch, size_t offset) {
  T out;
  std::memcpy(&out, launch.params + offset, sizeof out);
  return out;
}

}  // namespace kiln::test
