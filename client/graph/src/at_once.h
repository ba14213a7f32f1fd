// Requests that wait for others' answers, side by side.
#pragma once

#include <cstddef>
#include <functional>

namespace kiln::client {

// Calls it for 0 … count-1, some at once, in threads and here; back when all are done.
void at_once(size_t count, const std::function<void(size_t)>& call);

}  // namespace kiln::client
