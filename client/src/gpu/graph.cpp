// Recording a stream's work and running it again.
#include "device_state.h"
#include "profile/device_times.h"
#include "profile/recorder.h"
#include "recorded.h"

namespace kiln::client {
namespace gpu {

GraphState::~GraphState() {
  // Its workspaces and modules go next, and a replay may still use them.
  (void)device->driver->synchronise();
  device->driver->destroy_graph(handle);
}

}  // namespace gpu

bool is_recorded(const Stream& stream) { return stream.state()->recording.load(std::memory_order_acquire) != nullptr; }

void keep_with_recording(const Stream& stream, std::shared_ptr<const void> what) {
  gpu::RecordingState* recording = stream.state()->recording.load(std::memory_order_acquire);
  if (recording == nullptr) return;
  const std::lock_guard lock(recording->mutex);
  recording->pinned.push_back(std::move(what));
}

Result<Recording> Recording::capture(const Stream& stream, const std::function<Result<void>()>& work) {
  gpu::StreamState& on = *stream.state();
  gpu::DeviceState& device = on.device;
  auto recording = std::make_unique<gpu::RecordingState>(*device.driver);
  gpu::RecordingState* nobody = nullptr;
  if (!on.recording.compare_exchange_strong(nobody, recording.get())) {
    return invalid_argument("a capture of this stream is under way");
  }
  const gpu::MemoryBook::Captured captured(device.driver->memory());
  auto begun = device.driver->begin_capture(on.handle);
  if (!begun) {
    on.recording.store(nullptr);
    return device.explain(begun.error(), "beginning a capture");
  }
  auto worked = work();
  auto graph = device.driver->end_capture(on.handle);  // also after a failure, or the stream stays in capture
  on.recording.store(nullptr);
  if (!worked) {
    if (graph) device.driver->destroy_graph(*graph);
    return worked.error();
  }
  if (!graph) return device.explain(graph.error(), "ending a capture");
  return Recording(std::make_shared<gpu::GraphState>(device.shared_from_this(), std::move(recording), *graph));
}

Result<void> Recording::replay(const Stream& stream) const {
  gpu::StreamState& on = *stream.state();
  Timed timed(profile::Kind::kReplay, "recording");
  if (timed.span() != nullptr) timed.span()->device = on.device.place;
  const DeviceTimed on_device(on, timed.span());
  if (state_->recording->checked) on.checked.store(true, std::memory_order_release);
  auto queued = state_->device->driver->replay(state_->handle, on.handle);
  if (!queued) return state_->device->explain(queued.error(), "replaying a graph");
  return {};
}

}  // namespace kiln::client
