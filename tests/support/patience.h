// How long tests wait for what must happen.
#pragma once

#include <chrono>

namespace kiln::test {

// Machines are shared, and have stood still for 17 s: nothing that must happen has less time than this, be it the start
// of a daemon. A test that passes does not wait.
inline constexpr std::chrono::milliseconds kPatience{60'000};

}  // namespace kiln::test
