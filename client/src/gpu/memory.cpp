// Memory of a device, and copies.
#include "memory.h"

#include <algorithm>

#include "device_state.h"
#include "profile/device_times.h"
#include "profile/recorder.h"

namespace kiln::client {
namespace {

Result<void> too_small(uint64_t wanted, uint64_t there) {
  return invalid_argument("a copy of " + std::to_string(wanted) + " bytes and device memory of " +
                          std::to_string(there) + " bytes");
}

// Says what of a device's memory is noted, where anything is.
void describe(Timed& timed, const gpu::DeviceState& device, uint64_t bytes) {
  if (timed.span() == nullptr) return;
  timed.span()->device = device.place;
  timed.span()->bytes = bytes;
}

constexpr std::string_view kToDevice = "to the device", kFromDevice = "from the device", kBetween = "on devices";

Result<void> copy(std::string_view way, gpu::DeviceState& device, void* to, const void* from, uint64_t bytes,
                  gpu::StreamState& stream) {
  if (bytes == 0) return {};
  Timed timed(profile::Kind::kCopy, way);
  describe(timed, device, bytes);
  const DeviceTimed on_device(stream, timed.span());
  auto done = device.driver->copy(to, from, bytes, stream.handle);
  if (!done) return device.explain(done.error(), "copying " + std::to_string(bytes) + " bytes");
  return {};
}

}  // namespace

DeviceMemory::DeviceMemory(std::unique_ptr<gpu::MemoryState> state) : state_(state.release()) {}
void DeviceMemory::Free::operator()(gpu::MemoryState* state) const { delete state; }

Result<DeviceMemory> DeviceMemory::allocate(const Device& device, uint64_t bytes, const std::string& holder) {
  const auto& owner = device.state();
  Timed timed(profile::Kind::kAllocate, holder);
  describe(timed, *owner, bytes);
  // The driver has no memory of no bytes.
  auto data = owner->driver->allocate(bytes > 0 ? bytes : 1, holder);
  if (!data) return owner->explain(data.error(), "allocating " + std::to_string(bytes) + " bytes");
  return DeviceMemory(std::unique_ptr<gpu::MemoryState>(
      new gpu::MemoryState{owner, gpu::Allocation(*owner->driver, *data, bytes), bytes, nullptr}));
}

Result<DeviceMemory> DeviceMemory::allocate(const Stream& stream, uint64_t bytes, const std::string& holder) {
  const std::shared_ptr<gpu::StreamState>& on = stream.state();
  gpu::DeviceState& device = on->device;
  Timed timed(profile::Kind::kAllocate, holder);
  describe(timed, device, bytes);
  if (on->recording.load(std::memory_order_acquire) != nullptr) {
    return invalid_argument("allocating " + std::to_string(bytes) + " bytes on a stream of " + device.place +
                            " that is captured: a replay would write to what others have by then");
  }
  auto piece = on->pool.take(bytes, holder);
  if (!piece) return device.explain(piece.error(), "allocating " + std::to_string(bytes) + " bytes");
  return DeviceMemory(
      std::unique_ptr<gpu::MemoryState>(new gpu::MemoryState{device.shared_from_this(), std::move(*piece), bytes, on}));
}

void* DeviceMemory::data() const { return state_->memory.data(); }
uint64_t DeviceMemory::bytes() const { return state_->bytes; }

Result<void> DeviceMemory::copy_from(std::span<const std::byte> host, const Stream& stream) const {
  if (host.size() > bytes()) return too_small(host.size(), bytes());
  return copy(kToDevice, *state_->device, data(), host.data(), host.size(), *stream.state());
}

Result<void> DeviceMemory::copy_to(std::span<std::byte> host, const Stream& stream) const {
  if (host.size() > bytes()) return too_small(host.size(), bytes());
  return copy(kFromDevice, *state_->device, host.data(), data(), host.size(), *stream.state());
}

Result<void> DeviceMemory::copy_from(const DeviceMemory& other, const Stream& stream) const {
  if (other.bytes() > bytes()) return too_small(other.bytes(), bytes());
  return copy(kBetween, *state_->device, data(), other.data(), other.bytes(), *stream.state());
}

Result<void> DeviceMemory::copy_from(std::span<const std::byte> host) const {
  if (host.size() > bytes()) return too_small(host.size(), bytes());
  if (auto queued = copy(kToDevice, *state_->device, data(), host.data(), host.size(), state_->device->default_stream);
      !queued)
    return queued;
  return state_->device->default_stream.synchronise();
}

Result<void> DeviceMemory::copy_to(std::span<std::byte> host) const {
  if (host.size() > bytes()) return too_small(host.size(), bytes());
  if (auto queued =
          copy(kFromDevice, *state_->device, host.data(), data(), host.size(), state_->device->default_stream);
      !queued)
    return queued;
  return state_->device->default_stream.synchronise();
}

Result<void> DeviceMemory::fill(uint8_t value, const Stream& stream) const {
  if (bytes() == 0) return {};
  Timed timed(profile::Kind::kFill, "");
  describe(timed, *state_->device, bytes());
  const DeviceTimed on_device(*stream.state(), timed.span());
  auto done = state_->device->driver->fill(data(), value, bytes(), stream.native());
  if (!done) return state_->device->explain(done.error(), "setting " + std::to_string(bytes()) + " bytes");
  return {};
}

Result<void> DeviceMemory::repeat(uint64_t period, const Stream& stream) const {
  if (period == 0) return invalid_argument("nothing repeats no bytes");
  auto* begin = static_cast<std::byte*>(data());
  for (uint64_t done = period; done < bytes();) {
    const uint64_t count = std::min(done, bytes() - done);
    if (auto queued = copy(kBetween, *state_->device, begin + done, begin, count, *stream.state()); !queued)
      return queued;
    done += count;
  }
  return {};
}

}  // namespace kiln::client
