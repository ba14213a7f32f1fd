#include "device_times.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "../cpu/cpu_driver.h"
#include "recorder.h"

namespace kiln::client {
namespace {

// Events are the driver's memory: beyond so many those are read that are done.
constexpr size_t kMostPending = 4096;

// A launch whose times are not read yet.
struct Pending {
  profile::Span span;
  std::unique_ptr<gpu::EventState> begin, end;
};

// A moment on a device's clock and on the host's.
struct Base {
  std::unique_ptr<gpu::EventState> event;
  int64_t host_ns = 0;
};

struct DeviceTimes {
  std::atomic<bool> is_on{false};
  std::mutex mutex;
  std::vector<Pending> pending;
  std::map<gpu::DeviceState*, Base> bases;  // of devices that an event keeps
};

// Never destroyed: launches go on while exit() destroys statics.
DeviceTimes& times() {
  static DeviceTimes& times = *new DeviceTimes;
  return times;
}

std::unique_ptr<gpu::EventState> record(gpu::StreamState& stream) {
  auto handle = stream.device.driver->create_event();
  if (!handle) return nullptr;
  auto event = std::make_unique<gpu::EventState>(stream.device.shared_from_this(), *handle);
  if (!stream.device.driver->record_event(event->handle, stream.handle)) return nullptr;
  return event;
}

// The first launch of a device that is timed waits for it, once.
bool has_base(gpu::DeviceState& device) {
  DeviceTimes& all = times();
  const std::lock_guard lock(all.mutex);
  Base& base = all.bases[&device];
  if (base.event) return true;
  auto event = record(device.default_stream);
  if (!event || !device.driver->synchronise_event(event->handle)) return false;
  base.event = std::move(event);
  base.host_ns = profile_clock();
  // At the end of the program the driver's own handlers, registered earlier, run behind this one.
  static const int registered = std::atexit([] { note_device_times(Launches::kAll); });
  (void)registered;
  return true;
}

int64_t in_ns(float ms) { return static_cast<int64_t>(static_cast<double>(ms) * 1e6); }

// Under the lock. False: the driver does not say.
bool read_times(Pending& launch) {
  gpu::Driver& driver = *launch.end->device->driver;
  const Base& base = times().bases[launch.end->device.get()];
  const auto before = driver.elapsed_ms(base.event->handle, launch.begin->handle);
  const auto took = driver.elapsed_ms(launch.begin->handle, launch.end->handle);
  if (!before || !took) return false;
  launch.span.begin_ns = base.host_ns + in_ns(*before);
  launch.span.end_ns = launch.span.begin_ns + in_ns(*took);
  return true;
}

// Under the lock.
void drain(std::vector<Pending>& pending, Launches which) {
  std::erase_if(pending, [which](Pending& launch) {
    gpu::Driver& driver = *launch.end->device->driver;
    if (which == Launches::kAll) {
      if (!driver.synchronise_event(launch.end->handle)) return true;
    } else if (const auto done = driver.is_done(launch.end->handle); done && !*done) {
      return false;
    }
    if (read_times(launch)) note(std::move(launch.span));
    return true;
  });
}

}  // namespace

void time_devices(bool on) {
  DeviceTimes& all = times();
  const std::lock_guard lock(all.mutex);
  all.is_on.store(on, std::memory_order_relaxed);
  all.pending.clear();
  all.bases.clear();
}

void note_device_times(Launches which) {
  DeviceTimes& all = times();
  const std::lock_guard lock(all.mutex);
  drain(all.pending, which);
}

void lock_device_times() { times().mutex.lock(); }
void unlock_device_times() { times().mutex.unlock(); }

DeviceTimed::DeviceTimed(gpu::StreamState& stream, profile::Span* host) : stream_(stream) {
  if (host == nullptr || !times().is_on.load(std::memory_order_relaxed)) return;
  if (stream.device.driver->info().kind == cpu::kKind) return;
  if (stream.recording.load(std::memory_order_acquire) != nullptr || !has_base(stream.device)) return;
  if (host->flow == 0) host->flow = next_flow();
  span_ = *host;
  span_.on_device = true;
  span_.track = reinterpret_cast<uint64_t>(stream.handle);
  begin_ = record(stream);
}

DeviceTimed::~DeviceTimed() {
  if (!begin_) return;
  auto end = record(stream_);
  if (!end) return;
  DeviceTimes& all = times();
  const std::lock_guard lock(all.mutex);
  if (!all.is_on.load(std::memory_order_relaxed)) return;
  if (all.pending.size() >= kMostPending) drain(all.pending, Launches::kDone);
  all.pending.push_back({std::move(span_), std::move(begin_), std::move(end)});
}

}  // namespace kiln::client
