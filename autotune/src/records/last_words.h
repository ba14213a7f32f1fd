// What a process writes on its standard error: the beginning and the end of it, however much there is.
#pragma once

#include <string>

#include "kiln/wire/fd.h"

namespace kiln::autotune {

class LastWords {
 public:
  // `pipe` does not block.
  explicit LastWords(wire::UniqueFd pipe) : pipe_(std::move(pipe)) {}

  int fd() const { return pipe_.get(); }
  // Takes what there is now.
  void read();
  std::string text() const;

 private:
  wire::UniqueFd pipe_;
  std::string head_, tail_;
  size_t left_out_ = 0;  // bytes between the two
};

}  // namespace kiln::autotune
