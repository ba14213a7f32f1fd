// SIGINT and SIGTERM as a request to stop; the second of a kind ends the process.
#pragma once

#include <stop_token>
#include <thread>

#include "kiln/wire/fd.h"

namespace kiln::autotune::cli {

// At most one at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  wire::UniqueFd events_;
  std::thread listener_;
};

}  // namespace kiln::autotune::cli
