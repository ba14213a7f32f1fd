// When GPUs run launches, copies, fills and replays: two events of the driver's around each.
#pragma once

#include <memory>

#include "../gpu/device_state.h"
#include "kiln/client/profile.h"

namespace kiln::client {

void time_devices(bool on);
// Notes the spans of the launches that are timed: of all, which it waits for, or of those that are done.
enum class Launches : uint8_t { kAll, kDone };
void note_device_times(Launches which);
// Around a fork().
void lock_device_times();
void unlock_device_times();

// Around the queueing of one of them. Does nothing where `host` is null, nobody asked for devices' times, the device is
// the host's processors, or the stream is captured: what is recorded runs later, and as often as it is replayed.
class DeviceTimed {
 public:
  DeviceTimed(gpu::StreamState& stream, profile::Span* host);
  ~DeviceTimed();
  DeviceTimed(const DeviceTimed&) = delete;
  DeviceTimed& operator=(const DeviceTimed&) = delete;

 private:
  gpu::StreamState& stream_;
  std::unique_ptr<gpu::EventState> begin_;
  profile::Span span_;
};

}  // namespace kiln::client
