// What lies behind the public handles of gpu.h.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "driver.h"
#include "failures.h"
#include "lifetime.h"
#include "memory.h"
#include "prints.h"
#include "stream_pool.h"

namespace kiln::client::gpu {

struct DeviceState;

// Code on a device; unloaded with the last reference, when the device is done with it.
class LoadedModule {
 public:
  LoadedModule(std::shared_ptr<DeviceState> device, Handle module) : device_(std::move(device)), module_(module) {}
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  Handle handle() const { return module_; }

 private:
  std::shared_ptr<DeviceState> device_;
  Handle module_;
};

// What recorded launches need for as long as they may be replayed.
struct RecordingState {
  explicit RecordingState(Driver& driver) : workspace(driver, true), queue_counter(driver) {}
  std::mutex mutex;
  std::vector<std::shared_ptr<const void>> pinned;
  Workspace workspace;
  QueueCounter queue_counter;
  bool checked = false;  // some launch may leave a failure record, or print
};

// For the error of whoever waits for it. The parts are written by launches without a lock: where threads race on one
// stream, the grid may be another's.
class LastLaunch {
 public:
  void set(const std::string* label, const std::array<uint32_t, 3>& grid) {
    label_.store(label, std::memory_order_relaxed);
    grid_.store(uint64_t{grid[0]} | uint64_t{grid[1]} << 32 | uint64_t{grid[2]} << 48, std::memory_order_relaxed);
  }
  // "; the last launch on the stream was …", or "" where there was none.
  std::string text() const;

 private:
  std::atomic<const std::string*> label_{nullptr};  // of the device's labels
  std::atomic<uint64_t> grid_{0};                   // axis 0 has 31 bits, the others 16
};

struct StreamState {
  // A stream that `owner` is not given for is part of its device.
  StreamState(DeviceState& of, Handle native, bool ours, std::shared_ptr<DeviceState> owner);
  ~StreamState();
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  Result<void> synchronise();

  const std::shared_ptr<DeviceState> keeps;
  DeviceState& device;
  const Handle handle;
  const bool owned;
  std::mutex sequence_mutex;  // held while a launch of several steps uses the workspace
  Workspace workspace;
  QueueCounter queue_counter;
  StreamPool pool;
  std::atomic<RecordingState*> recording{nullptr};
  std::atomic<bool> checked{false};  // a launch may have left a failure record, or printed
  LastLaunch last;
};

struct DeviceState : std::enable_shared_from_this<DeviceState> {
  explicit DeviceState(std::unique_ptr<Driver> of);

  // The module of this code: loaded by the first who asks, and shared while it is in use.
  Result<std::shared_ptr<const LoadedModule>> module(const std::vector<std::byte>& code);
  // A text that lives as long as the device; equal ones are one.
  const std::string* label(std::string text);
  // What launches that are done have left: prints go to their sinks, the first failure is the error.
  Result<void> read_reports();
  // "cuda:0 (NVIDIA H200)"
  std::string name() const;
  // "DOING on cuda:0 (NVIDIA H200): …", and what it means when the device is lost.
  Error explain(Error error, const std::string& doing);

  const Birth birth;
  const std::unique_ptr<Driver> driver;
  const std::string place;  // "cuda:0"
  FailureRecords failures;
  PrintRings prints;
  StreamState default_stream;

 private:
  std::mutex module_mutex_;
  std::map<std::vector<std::byte>, std::weak_ptr<const LoadedModule>> modules_;
  std::mutex text_mutex_;
  std::set<std::string> labels_;
  std::string first_failure_;  // that broke the device
};

struct MemoryState {
  ~MemoryState() {
    if (stream) stream->pool.put(std::move(memory));
  }
  std::shared_ptr<DeviceState> device;
  Allocation memory;
  uint64_t bytes;                       // that were asked for
  std::shared_ptr<StreamState> stream;  // whose pool it goes back to; null: to the driver
};

struct EventState {
  explicit EventState(std::shared_ptr<DeviceState> of, Handle native) : device(std::move(of)), handle(native) {}
  ~EventState() { device->driver->destroy_event(handle); }
  EventState(const EventState&) = delete;
  EventState& operator=(const EventState&) = delete;
  const std::shared_ptr<DeviceState> device;
  const Handle handle;
  std::atomic<bool> checked{false};  // there may be something to read once the event is done
};

struct GraphState {
  GraphState(std::shared_ptr<DeviceState> of, std::unique_ptr<RecordingState> what, Handle native)
      : device(std::move(of)), recording(std::move(what)), handle(native) {}
  ~GraphState();
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;
  const std::shared_ptr<DeviceState> device;
  const std::unique_ptr<RecordingState> recording;
  const Handle handle;
};

// "4×1×1"
std::string grid_text(const std::array<uint32_t, 3>& grid);

}  // namespace kiln::client::gpu
