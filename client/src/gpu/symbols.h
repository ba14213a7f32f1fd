// The functions of a library that was opened at run time, by its own names.
#pragma once

#include <dlfcn.h>

#include <string>

namespace kiln::client::gpu {

class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function>
  void optional(const char* name, Function*& out) {
    out = reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  template <class Function>
  void required(const char* name, Function*& out) {
    optional(name, out);
    if (out == nullptr && missing_.empty()) missing_ = name;
  }
  // The first of those that are required and not there.
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

}  // namespace kiln::client::gpu
