// Threads for the parts of one piece of work.
#pragma once

#include <functional>

namespace kiln::client {

// Calls `part(i, n)` for each i below n, each in a thread; n is `threads`, or less where there are fewer to be had.
void in_parallel(int threads, const std::function<void(int part, int parts)>& part);
// Whether the parts of in_parallel() surely run side by side, so that one may wait for another. Not in a thread that
// called fork(), seen from the child.
bool parts_run_at_once();
// As many as a caller should ask for: what it wants, 0 being OpenMP's default, but for one inside of a parallel region.
int threads_to_use(int wanted);

}  // namespace kiln::client
