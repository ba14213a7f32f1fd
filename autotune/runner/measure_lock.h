// One measurement at a time on a device, whichever process of the machine it is in.
#pragma once

#include <functional>
#include <string>

#include "kiln/dsl/result.h"
#include "kiln/wire/fd.h"

namespace kiln::autotune {

struct LockOptions {
  std::string device;      // "cpu", "cuda-0"
  double patience_s = 60;  // how long another's measurements are waited for
  std::string path = {};   // of the file, as made by make_lock_file(); empty: it is made for each lock
};

// Held as long as the object lives.
struct DeviceLock {
  wire::UniqueFd file;  // keeps those with the same runtime directory away, in other containers too
  wire::UniqueFd name;  // keeps all others of this machine (of this network namespace) away, whoever's they are
};

// The file in the runtime directory, made where it is not there: for a process that gives up making files.
Result<std::string> make_lock_file(const std::string& device);

// `waiting` is called about once a second while another has it. A runtime directory that was chosen (KILN_RUNTIME_DIR)
// is a world of its own: then only the file is locked.
Result<DeviceLock> lock_device(const LockOptions& options, const std::function<void()>& waiting);

}  // namespace kiln::autotune
