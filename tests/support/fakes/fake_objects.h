// What the fakes of both vendors' libraries are made of: objects that are counted, failures on demand, streams whose
// work runs at once or is recorded, memory of the host in the place of a device's.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fake {

using Status = int;
constexpr Status kIllegalState = 401, kNotForDefaultStream = 900;
using Work = std::function<void()>;
using Graph = std::vector<Work>;

// PTX is a C string. Machine code says itself how long it is; here it only has to be known as such.
inline std::string image_of(const void* image) {
  constexpr std::string_view kElf = "\177ELF";
  if (std::memcmp(image, kElf.data(), kElf.size()) == 0) return std::string(kElf);
  return static_cast<const char*>(image);
}

struct Module {
  int device;
  std::string image;
  // It has the entries that its image says it has, as in PTX: ".entry NAME"; a cubin has all.
  bool has(const std::string& entry) const {
    return image.starts_with("\177ELF") || image.find(".entry " + entry) != std::string::npos;
  }
};

struct Stream {
  int device;
  Graph* capture = nullptr;

  Status run_or_record(Work work) {
    if (capture != nullptr) {
      capture->push_back(std::move(work));
    } else {
      work();
    }
    return 0;
  }
  // A stream records for one caller at a time, as the drivers' do.
  Status begin_capture() {
    if (capture != nullptr) return kIllegalState;
    capture = new Graph;
    return 0;
  }
  Status end_capture(void** graph) {
    if (capture == nullptr) return kIllegalState;
    *graph = std::exchange(capture, nullptr);
    return 0;
  }
};

inline void run(const Graph& graph) {
  for (const Work& work : graph) work();
}

class Objects {
 public:
  void reset() { *this = {}; }

  // The call after `skip` more calls of the function gives `status`, once.
  void fail(const char* function, Status status, int skip) { failures_[function] = {status, skip}; }
  // What every call does first: it is counted, and it fails if it was told to.
  Status enter(std::string_view function) {
    auto known = calls_.find(function);
    if (known == calls_.end()) known = calls_.emplace(function, 0).first;
    ++known->second;
    const auto failure = failures_.find(function);
    if (failure == failures_.end() || failure->second.skip-- != 0) return 0;
    const Status status = failure->second.status;
    failures_.erase(failure);
    return status;
  }
  size_t calls(const char* function) { return calls_[function]; }

  // The first call that no correct program makes.
  void misuse(const std::string& what) {
    if (misuse_.empty()) misuse_ = what;
  }
  const char* misuse() const { return misuse_.c_str(); }

  template <class T>
  Status create(std::string_view what, void** out, T value) {
    *out = new T(std::move(value));
    count(what, 1);
    return 0;
  }
  template <class T>
  Status destroy(std::string_view what, void* object) {
    delete static_cast<T*>(object);
    count(what, -1);
    return 0;
  }
  void count(std::string_view what, long change) { live_[std::string(what)] += change; }
  long live(const std::string& what) { return live_[what]; }
  long live() const {
    long out = 0;
    for (const auto& [what, number] : live_) out += number;
    return out;
  }

  void* allocate(size_t bytes, int device) {
    void* memory = ::operator new(bytes, std::align_val_t{256});
    std::memset(memory, 0xcd, bytes);
    memory_[memory] = device;
    count("memory", 1);
    return memory;
  }
  // False, and a misuse, if the device has no such memory.
  bool free(void* memory, int device) {
    const auto known = memory_.find(memory);
    if (known == memory_.end() || known->second != device) {
      misuse("memory freed that is none of the device");
      return false;
    }
    memory_.erase(known);
    count("memory", -1);
    ::operator delete(memory, std::align_val_t{256});
    return true;
  }

 private:
  struct Failure {
    Status status;
    int skip;
  };
  std::map<std::string, Failure, std::less<>> failures_;
  std::map<std::string, size_t, std::less<>> calls_;
  std::map<std::string, long> live_;
  std::map<void*, int> memory_;  // to the device
  std::string misuse_;
};

}  // namespace fake
