// Devices of this process, their memory, streams, events and recordings: GPUs of NVIDIA ("cuda") and AMD ("amd"), and
// the processors of this machine ("cpu"). One program text runs on all of them.
//
//   auto device = Device::open("cuda");
//   auto x = DeviceBuffer<float>::allocate(*device, n);
//   auto copied = x->copy_from(host);
//   auto stream = Stream::create(*device);
//   auto done = fn->launch({.stream = &*stream}, *x, n);   // fn: client.get(kernel, {.target = "cuda"})
//   if (auto finished = stream->synchronise(); !finished) …finished.error().message…
//
// A launch is queued and returns; what goes wrong while it runs is the error of a later synchronisation. All of these
// may be used by many threads at once, and each keeps its device open.
//
// On CPUs a stream of create() is a queue with a thread of its own, which runs each launch on as many threads as the
// launch asks for. The default stream is the calling thread: what is queued there has run when the call returns. Memory
// is memory: arrays that are no DeviceBuffer may be arguments too, and must stay until the stream has run. Behind a
// launch that failed, launches and copies of its stream are left out until somebody has waited for it, and got the
// error.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/result.h"

namespace kiln::client {

namespace gpu {
struct DeviceState;
struct StreamState;
struct MemoryState;
struct EventState;
struct GraphState;
}  // namespace gpu

class Stream;

struct DeviceInfo {
  std::string kind;    // "cuda", "amd", "cpu"
  int ordinal = 0;     // the driver's number of it
  std::string name;    // "NVIDIA H200"
  std::string target;  // what kernels are compiled for: "cuda:sm_90a", "amd:gfx942", "cpu"
  uint64_t memory_bytes = 0;
  uint32_t multiprocessors = 0;  // of CPUs: processors that this process may run on
  uint32_t shared_bytes = 0;     // shared memory that one block may have; 0 of CPUs
  uint64_t cache_bytes = 0;      // of the last cache before memory; 0: the driver does not tell
  int driver_version = 0;        // as the vendor numbers them; 0: the driver does not tell
  std::string note = {};         // a line for people where its code is not made as usual; mostly empty
};

// The devices of a kind, in the driver's order, without opening them. No driver is an error, and so is no device.
Result<std::vector<DeviceInfo>> devices(std::string_view kind);
// A GPU with all that measurements on it depend on: those of one hold for all that are called the same.
std::string hardware_text(const DeviceInfo& device);

// Who has memory of a device, by what it is for: "arrays", "arena of graph `mlp`".
struct MemoryHolder {
  std::string name;
  uint64_t bytes = 0;
  size_t pieces = 0;
};
// What this process has of a device's memory by Kiln, in bytes. What other libraries have is not counted.
struct MemoryUse {
  uint64_t bytes = 0;
  uint64_t peak_bytes = 0;
  uint64_t hard_limit = 0, soft_limit = 0;  // 0: none
  size_t pieces = 0;
  std::vector<MemoryHolder> holders;  // the largest first
};

class Device {
 public:
  // A device that is open already is shared. docs/use/cli.md says where the driver is looked for.
  static Result<Device> open(std::string_view kind, int ordinal = 0);

  const DeviceInfo& info() const;
  // The stream of launches that name none. Of a GPU, other libraries' default streams run in order with it; of a CPU it
  // is the calling thread.
  Stream default_stream() const;
  // Waits for all work of the device.
  Result<void> synchronise() const;

  MemoryUse memory_use() const;
  void forget_memory_peak() const;  // it begins anew at what there is now
  // Most of info().memory_bytes that this process may have by Kiln; memory that it has stays. An allocation that would
  // pass `soft` has caches given back first; one that would pass `hard` all the same is kOutOfMemory, and the error
  // names the largest holders. 0: no limit. For as long as the device is open.
  Result<void> set_memory_fraction(double hard, double soft = 0) const;
  // Memory that waits for a later run goes to the driver; how many bytes that were. Nothing while a stream is captured.
  uint64_t give_back_caches() const;

  const std::shared_ptr<gpu::DeviceState>& state() const { return state_; }

 private:
  friend class Stream;
  explicit Device(std::shared_ptr<gpu::DeviceState> state) : state_(std::move(state)) {}
  std::shared_ptr<gpu::DeviceState> state_;
};

// The processors of this process in so many parts that are disjoint and even, each of neighbours: of one memory node
// and package where that can be. For streams side by side, one on each part. Error: fewer processors than parts.
Result<std::vector<std::vector<int>>> split_cores(int parts);

struct StreamOptions {
  // Of a CPU: the processors that the stream's work runs on, by the system's numbers, and with as many threads where
  // the launch does not say. None: as the process may.
  std::vector<int> cores = {};
};

// A queue of work on a device. Copies of it are the same queue.
class Stream {
 public:
  // Runs beside the other streams, also beside the default one.
  static Result<Stream> create(const Device& device, const StreamOptions& options = {});
  // Another library's stream, which stays that library's: a CUstream, cudaStream_t or hipStream_t. Worth keeping:
  // workspaces of the launches on it go with the last copy. Of a CPU: native() of a stream that still is.
  static Stream wrap(const Device& device, void* native);

  Device device() const;
  void* native() const;
  // Waits for what was queued. The error names the last launch, and for kernels with checks the check that failed.
  Result<void> synchronise() const;

  const std::shared_ptr<gpu::StreamState>& state() const { return state_; }

 private:
  friend class Device;
  explicit Stream(std::shared_ptr<gpu::StreamState> state) : state_(std::move(state)) {}
  std::shared_ptr<gpu::StreamState> state_;
};

// A point in a stream's work.
class Event {
 public:
  static Result<Event> create(const Device& device);

  // Moves the event behind what the stream has now.
  Result<void> record(const Stream& stream) const;
  Result<void> synchronise() const;
  // Whether that point is reached, without waiting. One that was never recorded is.
  Result<bool> is_done() const;
  // Work queued on the stream from now on waits for the event; the host does not.
  Result<void> hold_back(const Stream& stream) const;

  const std::shared_ptr<gpu::EventState>& state() const { return state_; }

 private:
  explicit Event(std::shared_ptr<gpu::EventState> state) : state_(std::move(state)) {}
  std::shared_ptr<gpu::EventState> state_;
};
// The device's time between two events that are done, in milliseconds.
Result<float> elapsed_ms(const Event& from, const Event& to);

// Launches and copies that were recorded once and run again as one. Arguments are those of the recording; variants and
// workspaces of the recorded launches live as long as the graph.
class Recording {
 public:
  // Calls `work`; what it queues on the stream, by this object or copies of it, is recorded and not run. The stream is
  // one of create() or wrap().
  static Result<Recording> capture(const Stream& stream, const std::function<Result<void>()>& work);
  // Queues it all. One graph runs one replay at a time, whichever streams they are on.
  Result<void> replay(const Stream& stream) const;

 private:
  explicit Recording(std::shared_ptr<gpu::GraphState> state) : state_(std::move(state)) {}
  std::shared_ptr<gpu::GraphState> state_;
};

// Memory of a device; given back with the object, once the device is done with all that was queued before.
class DeviceMemory {
 public:
  // `holder`: what it is for, in MemoryUse and in errors.
  static Result<DeviceMemory> allocate(const Device& device, uint64_t bytes, const std::string& holder = "arrays");
  // In the order of a stream: given back, it waits for whoever allocates on this stream next, who has it at once and
  // without a call of the driver. For what this stream alone uses; another one must be done with it before it goes.
  // What waits counts as used, and is given back like other caches. Error: the stream is captured.
  static Result<DeviceMemory> allocate(const Stream& stream, uint64_t bytes, const std::string& holder = "arrays");

  void* data() const;
  uint64_t bytes() const;
  // With a stream they queue, and the host's bytes must stay until it has run. Without one they run on the default
  // stream and are done on return; work on streams of create() they do not wait for.
  Result<void> copy_from(std::span<const std::byte> host) const;
  Result<void> copy_from(std::span<const std::byte> host, const Stream& stream) const;
  Result<void> copy_to(std::span<std::byte> host) const;
  Result<void> copy_to(std::span<std::byte> host, const Stream& stream) const;
  Result<void> copy_from(const DeviceMemory& other, const Stream& stream) const;  // maybe of another device
  // Sets every byte.
  Result<void> fill(uint8_t value, const Stream& stream) const;
  // Sets what is behind the first `period` bytes to copies of them.
  Result<void> repeat(uint64_t period, const Stream& stream) const;

 private:
  explicit DeviceMemory(std::unique_ptr<gpu::MemoryState> state);
  struct Free {
    void operator()(gpu::MemoryState* state) const;
  };
  std::unique_ptr<gpu::MemoryState, Free> state_;
};

// An array in a device's memory. It is an argument of launches where the kernel has a pointer to T or const T.
template <class T>
class DeviceBuffer {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);

 public:
  // On a device, or in the order of a stream.
  template <class Place>
    requires std::same_as<Place, Device> || std::same_as<Place, Stream>
  static Result<DeviceBuffer> allocate(const Place& place, size_t count) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(uint64_t{count}, sizeof(T), &bytes)) {
      return error(ErrorCode::kOutOfMemory, "no device has memory for " + std::to_string(count) + " elements");
    }
    auto memory = DeviceMemory::allocate(place, bytes);
    if (!memory) return memory.error();
    return DeviceBuffer(std::move(*memory), count);
  }

  T* data() const { return static_cast<T*>(memory_.data()); }
  size_t size() const { return size_; }
  const DeviceMemory& memory() const { return memory_; }
  operator T*() const& { return data(); }  // NOLINT(google-explicit-constructor)
  operator T*() && = delete;
  dsl::Argument argument() const { return {data(), static_cast<int64_t>(size_), 0}; }

  Result<void> copy_from(std::span<const T> host) const { return memory_.copy_from(std::as_bytes(host)); }
  Result<void> copy_from(std::span<const T> host, const Stream& stream) const {
    return memory_.copy_from(std::as_bytes(host), stream);
  }
  Result<void> copy_to(std::span<T> host) const { return memory_.copy_to(std::as_writable_bytes(host)); }
  Result<void> copy_to(std::span<T> host, const Stream& stream) const {
    return memory_.copy_to(std::as_writable_bytes(host), stream);
  }
  Result<void> copy_from(const DeviceBuffer& other, const Stream& stream) const {
    return memory_.copy_from(other.memory_, stream);
  }
  Result<void> fill(uint8_t byte, const Stream& stream) const { return memory_.fill(byte, stream); }

 private:
  DeviceBuffer(DeviceMemory memory, size_t size) : memory_(std::move(memory)), size_(size) {}
  DeviceMemory memory_;
  size_t size_;
};

}  // namespace kiln::client

namespace kiln {
using client::Device;
using client::DeviceBuffer;
using client::DeviceInfo;
using client::DeviceMemory;
using client::devices;
using client::elapsed_ms;
using client::Event;
using client::MemoryHolder;
using client::MemoryUse;
using client::Recording;
using client::split_cores;
using client::Stream;
using client::StreamOptions;
}  // namespace kiln
