// The seam between the launcher and a vendor's driver: one object a device, with the few calls that the rest needs.
// `cuda_driver.cpp` and `hip_driver.cpp` implement it, and `cpu/cpu_driver.cpp` for the processors of this machine.
// Errors hold the driver's own words; who called adds what it was doing.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kiln/abi/launch_block.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/types.h"
#include "memory_book.h"

namespace kiln::client::gpu {

// The driver's own name of a stream, event, module, kernel or graph. A null stream is the default one.
using Handle = void*;

struct KernelLaunch {
  Handle kernel = nullptr;
  Handle stream = nullptr;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> cluster = {1, 1, 1};
  bool early = false;    // may begin before what the stream ran earlier is done: it waits for that by itself
  uint32_t threads = 1;  // of a block
  uint32_t shared_bytes = 0;
  void* block = nullptr;  // the parameters
  size_t block_bytes = 0;
  // Where in the block they are. Without these the block is passed as it is: then it must lie as the kernel has its
  // parameters, which is not known of kernels with tensor maps.
  std::span<const uint32_t> offsets;
};
inline constexpr size_t kMaxOffsets = 512;

// An array as the tensor copy engine sees it, innermost axis first.
using abi::kMaxTensorRank;
struct TensorMapArguments {
  dsl::ElementType element = dsl::ElementType::kF32;
  void* address = nullptr;
  uint32_t rank = 1;
  std::array<uint64_t, kMaxTensorRank> dims = {};
  std::array<uint64_t, kMaxTensorRank> strides_bytes = {};  // of the axes from the second on
  std::array<uint32_t, kMaxTensorRank> box = {};
  uint32_t swizzle_bytes = 0;  // 0, 32, 64 or 128
  bool fills_nan = false;      // what is out of bounds; else 0
};
using abi::kTensorMapAlignment;
using abi::kTensorMapBytes;

// Thread-safe. What a call needs of the calling thread's state it sets up and puts back.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual const DeviceInfo& info() const = 0;
  // Whether code of an artifact runs here: `target` and `emit` of its metadata.
  virtual Result<void> check_runs(const std::string& target, const std::string& emit) const = 0;
  // A call has reported that the device can never again be used by this process.
  virtual bool broken() const = 0;

  // `holder`: who has it, for errors and statistics: "arrays". kOutOfMemory where the process has its share.
  Result<void*> allocate(uint64_t bytes, const std::string& holder);
  // Waits until the device is done with it.
  void free(void* memory);
  MemoryBook& memory() { return book_; }
  // Host and device addresses alike.
  virtual Result<void> copy(void* to, const void* from, uint64_t bytes, Handle stream) = 0;
  virtual Result<void> fill(void* to, uint8_t value, uint64_t bytes, Handle stream) = 0;

  virtual Result<Handle> create_stream() = 0;
  // On these processors only.
  virtual Result<Handle> create_stream(std::span<const int> cores);
  // Whether it can be one of this device's: what other libraries call a stream is not looked at.
  virtual Result<void> check_stream(Handle) const { return {}; }
  virtual void destroy_stream(Handle stream) = 0;
  virtual Result<void> synchronise_stream(Handle stream) = 0;
  virtual Result<void> synchronise() = 0;

  virtual Result<Handle> create_event() = 0;
  virtual void destroy_event(Handle event) = 0;
  virtual Result<void> record_event(Handle event, Handle stream) = 0;
  virtual Result<void> synchronise_event(Handle event) = 0;
  virtual Result<bool> is_done(Handle event) = 0;
  virtual Result<void> wait_for_event(Handle stream, Handle event) = 0;
  virtual Result<float> elapsed_ms(Handle from, Handle to) = 0;

  virtual Result<void> begin_capture(Handle stream) = 0;
  // What was captured, ready to run.
  virtual Result<Handle> end_capture(Handle stream) = 0;
  virtual Result<void> replay(Handle graph, Handle stream) = 0;
  virtual void destroy_graph(Handle graph) = 0;

  virtual Result<Handle> load_module(std::span<const std::byte> code) = 0;
  virtual void unload_module(Handle module) = 0;
  // Allows the kernel its shared memory.
  virtual Result<Handle> find_kernel(Handle module, const std::string& entry, uint32_t shared_bytes) = 0;
  virtual Result<void> launch(const KernelLaunch& launch) = 0;
  // Writes kTensorMapBytes to `map`, which is aligned.
  virtual Result<void> encode_tensor_map(const TensorMapArguments& arguments, void* map) = 0;

 protected:
  virtual Result<void*> allocate_memory(uint64_t bytes) = 0;
  virtual void free_memory(void* memory) = 0;

 private:
  MemoryBook book_;
};

// `kind` is the part of a target before the colon; a GPU's is one whose code goes through Driver::launch.
bool is_gpu_kind(std::string_view name);
Result<std::vector<DeviceInfo>> list_devices(std::string_view kind);
Result<std::unique_ptr<Driver>> open_driver(std::string_view kind, int ordinal);

}  // namespace kiln::client::gpu
