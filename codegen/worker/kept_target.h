// What `cpu` means on this machine, the same for every process of the user: part of it is measured, two measurements
// may differ, and artifacts are kept by the name. So the first answer is kept below the cache's directory
// (docs/reference/cache-format.md), and later ones are that.
#pragma once

#include <functional>
#include <string>

namespace kiln::worker {

struct NativeTarget {
  std::string processor;                                          // begins the name
  std::function<std::string()> measure = nullptr;                 // the rest of it; null: there is none
  std::function<bool(const std::string& rest)> may_be = nullptr;  // what this machine could be measured as
};

// The whole name: with the rest that is kept in the directory `cache`, or measured and, where that can be, kept there.
// Several processes at once agree. Where nothing can be kept, or `cache` is empty, each has what it measured. What else
// lies there is never an error: a link, another user's file or a bad one is as good as none.
std::string native_target_kept_in(const std::string& cache, const NativeTarget& native);

}  // namespace kiln::worker
