// A directory for what a tuner and its runner exchange.
#pragma once

#include <string>

#include "kiln/dsl/result.h"
#include "kiln/wire/fd.h"

namespace kiln::autotune {

// Removed with the object. It is locked as long as its process lives; one that is not is of a process that was killed,
// and goes when the next one is made.
class TemporaryDirectory {
 public:
  static Result<TemporaryDirectory> make();
  ~TemporaryDirectory();
  TemporaryDirectory(TemporaryDirectory&&) = default;
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  const std::string& path() const { return path_; }

 private:
  TemporaryDirectory(std::string path, wire::UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  wire::UniqueFd lock_;
};

}  // namespace kiln::autotune
