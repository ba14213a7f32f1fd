// Seconds of work on a machine that others use, too.
#pragma once

#include <functional>
#include <vector>

namespace kiln::bench {

// `threads` == 1: the time that this thread ran, else that passed.
double seconds(int threads, int repeats, const std::function<void()>& work);

double median(std::vector<double> values);

// Puts other data into the first and second levels of the caches of all OpenMP threads.
void evict_caches();

}  // namespace kiln::bench
