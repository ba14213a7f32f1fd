// Streams and events.
#include "device_state.h"
#include "profile/recorder.h"

namespace kiln::client {
namespace gpu {

std::string LastLaunch::text() const {
  const std::string* label = label_.load(std::memory_order_relaxed);
  if (label == nullptr) return "";
  const uint64_t grid = grid_.load(std::memory_order_relaxed);
  return "; the last launch on the stream was " + *label + ", grid " +
         grid_text({static_cast<uint32_t>(grid), static_cast<uint32_t>(grid >> 32 & 0xffff),
                    static_cast<uint32_t>(grid >> 48)});
}

StreamState::StreamState(DeviceState& of, Handle native, bool ours, std::shared_ptr<DeviceState> owner)
    : keeps(std::move(owner)),
      device(of),
      handle(native),
      owned(ours),
      workspace(*of.driver, false),
      queue_counter(*of.driver),
      pool(*of.driver) {}

StreamState::~StreamState() {
  if (owned) device.driver->destroy_stream(handle);
}

Result<void> StreamState::synchronise() {
  Timed timed(profile::Kind::kWait, "stream");
  if (timed.span() != nullptr) timed.span()->device = device.place;
  if (auto done = device.driver->synchronise_stream(handle); !done) {
    Error error = done.error();
    error.message += last.text();
    return device.explain(std::move(error), "waiting for a stream");
  }
  if (!checked.exchange(false, std::memory_order_acq_rel)) return {};
  return device.read_reports();
}

}  // namespace gpu

Result<Stream> Stream::create(const Device& device, const StreamOptions& options) {
  const auto& owner = device.state();
  auto handle = options.cores.empty() ? owner->driver->create_stream() : owner->driver->create_stream(options.cores);
  if (!handle) return owner->explain(handle.error(), "creating a stream");
  return Stream(std::make_shared<gpu::StreamState>(*owner, *handle, true, owner));
}

Stream Stream::wrap(const Device& device, void* native) {
  const auto& owner = device.state();
  return Stream(std::make_shared<gpu::StreamState>(*owner, native, false, owner));
}

Device Stream::device() const { return Device(state_->device.shared_from_this()); }
void* Stream::native() const { return state_->handle; }
Result<void> Stream::synchronise() const { return state_->synchronise(); }

namespace gpu {

Result<Handle> Driver::create_stream(std::span<const int>) {
  return invalid_argument("streams of a GPU have no processors to choose");
}

}  // namespace gpu

Result<Event> Event::create(const Device& device) {
  const auto& owner = device.state();
  auto handle = owner->driver->create_event();
  if (!handle) return owner->explain(handle.error(), "creating an event");
  return Event(std::make_shared<gpu::EventState>(owner, *handle));
}

Result<void> Event::record(const Stream& stream) const {
  const gpu::StreamState& on = *stream.state();
  auto done = state_->device->driver->record_event(state_->handle, on.handle);
  if (!done) return state_->device->explain(done.error(), "recording an event");
  state_->checked.store(on.checked.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return {};
}

Result<void> Event::synchronise() const {
  Timed timed(profile::Kind::kWait, "event");
  if (timed.span() != nullptr) timed.span()->device = state_->device->place;
  auto done = state_->device->driver->synchronise_event(state_->handle);
  if (!done) return state_->device->explain(done.error(), "waiting for an event");
  if (!state_->checked.exchange(false, std::memory_order_acq_rel)) return {};
  return state_->device->read_reports();
}

Result<bool> Event::is_done() const {
  auto done = state_->device->driver->is_done(state_->handle);
  if (!done) return state_->device->explain(done.error(), "asking for an event");
  return done;
}

Result<void> Event::hold_back(const Stream& stream) const {
  gpu::DeviceState& device = stream.state()->device;
  auto done = device.driver->wait_for_event(stream.state()->handle, state_->handle);
  if (!done) return device.explain(done.error(), "letting a stream wait for an event");
  return {};
}

Result<float> elapsed_ms(const Event& from, const Event& to) {
  const auto& device = from.state()->device;
  auto elapsed = device->driver->elapsed_ms(from.state()->handle, to.state()->handle);
  if (!elapsed) return device->explain(elapsed.error(), "taking the time between two events");
  return elapsed;
}

}  // namespace kiln::client
