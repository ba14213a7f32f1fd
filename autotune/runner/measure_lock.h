// One measurement at a time on a device, whichever process of the user it is in.
#pragma once

#include <functional>
#include <string>

#include "kiln/dsl/result.h"
#include "kiln/wire/fd.h"

namespace kiln::autotune {

struct LockOptions {
  std::string device;      // "cpu", "cuda-0"
  double patience_s = 60;  // how long another's measurements are waited for
};

// Held as long as the descriptor is open, by this process alone of those with the same runtime directory. `waiting` is
// called about once a second while another has it.
Result<wire::UniqueFd> lock_device(const LockOptions& options, const std::function<void()>& waiting);

}  // namespace kiln::autotune
