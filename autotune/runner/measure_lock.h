// One measurement at a time on a device, whichever process of the machine it is in.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "kiln/dsl/result.h"
#include "kiln/wire/fd.h"

namespace kiln::autotune {

// The file in the runtime directory, open.
struct LockFile {
  wire::UniqueFd file;
  std::string path;
};
// It is made where it is not there.
Result<LockFile> open_lock_file(const std::string& device);

// A process beside this one that takes the machine's name on its word, and ends with it: for one that gives up binding
// names.
class NameKeeper {
 public:
  // While there is one thread. Where a runtime directory was chosen nobody needs a name, and there is no process.
  static Result<NameKeeper> start(const std::string& device);

  // False: another has it.
  Result<bool> take();
  void give_back();

 private:
  wire::UniqueFd socket_;
};

struct LockOptions {
  std::string device;              // "cpu", "cuda-0"
  double patience_s = 60;          // how long another's measurements are waited for
  const LockFile* file = nullptr;  // of a process that gives up opening files; without one it is opened for each lock
  NameKeeper* keeper = nullptr;    // likewise, and binding names
};

// Held as long as the object lives.
class DeviceLock {
 public:
  DeviceLock() = default;
  // What is locked; `opened` is its owner where nobody else is.
  DeviceLock(int file, wire::UniqueFd opened) : file_(file), opened_(std::move(opened)) {}
  ~DeviceLock() { release(); }
  DeviceLock(DeviceLock&& other) noexcept { *this = std::move(other); }
  DeviceLock& operator=(DeviceLock&& other) noexcept;

  int file() const { return file_; }  // keeps those with the same runtime directory away, in other containers too
  // A name keeps all others of this machine (of this network namespace) away, whoever's they are.
  void hold(wire::UniqueFd name) { name_ = std::move(name); }
  void hold(NameKeeper& keeper) { keeper_ = &keeper; }

 private:
  void release();

  int file_ = -1;
  wire::UniqueFd opened_, name_;
  NameKeeper* keeper_ = nullptr;  // has the name
};

// `waiting` is called about once a second while another has it. A runtime directory that was chosen (KILN_RUNTIME_DIR)
// is a world of its own: then only the file is locked.
Result<DeviceLock> lock_device(const LockOptions& options, const std::function<void()>& waiting);

}  // namespace kiln::autotune
