// What streams order: events, recordings, and copies from and to memory of a device.
#include "arrays.h"
#include "errors.h"

namespace kiln::c {
namespace {

// Drivers take what they get for their own: a stream of another device must not come so far.
Result<void> check_same(const Place& place, const char* what, const StreamObject& stream) {
  if (place == stream.place) return {};
  return invalid_argument(std::string(what) + " is of " + place_text(place) + ", and the stream of " +
                          place_text(stream.place));
}

// A caller's stream, or none. `place`: of what is used on it.
Result<Pinned<StreamObject>> stream_for(const Place& place, const char* what, kiln_stream* stream) {
  if (stream == nullptr) return Pinned<StreamObject>();
  auto on = pin<StreamObject>(stream, "stream");
  if (!on) return on;
  if (auto same = check_same(place, what, **on); !same) return same.error();
  return on;
}

// Memory and the stream that something is done with it on.
template <class Work>
kiln_status with_memory(kiln_memory* memory, const char* name, kiln_stream* stream, Work&& work) {
  return guarded([&]() -> Result<void> {
    auto object = pin<MemoryObject>(memory, name);
    if (!object) return object.error();
    auto on = stream_for((*object)->place, "the memory", stream);
    if (!on) return on.error();
    return work(**object, *on ? &(*on)->stream : nullptr);
  });
}

// Work that needs a stream: the default one where there is none, and then it is waited for.
template <class Work>
Result<void> queue(const Device& device, const Stream* stream, Work&& work) {
  if (stream != nullptr) return work(*stream);
  const Stream on = device.default_stream();
  auto queued = work(on);
  return queued ? on.synchronise() : queued;
}

}  // namespace

extern "C" {

kiln_status kiln_event_create(kiln_device* device, kiln_event** event) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(event, "event"); !fine) return fine;
    auto on = pin<DeviceObject>(device, "device");
    if (!on) return on.error();
    auto made = Event::create((*on)->device);
    if (!made) return made.error();
    give<EventObject>(event, std::move(*made), place_of((*on)->device));
    return {};
  });
}

kiln_status kiln_event_record(kiln_event* event, kiln_stream* stream) {
  return guarded([&]() -> Result<void> {
    auto object = pin<EventObject>(event, "event");
    if (!object) return object.error();
    auto on = pin<StreamObject>(stream, "stream");
    if (!on) return on.error();
    if (auto same = check_same((*object)->place, "the event", **on); !same) return same;
    return (*object)->event.record((*on)->stream);
  });
}

kiln_status kiln_event_synchronise(kiln_event* event) {
  return guarded([&]() -> Result<void> {
    auto object = pin<EventObject>(event, "event");
    if (!object) return object.error();
    return (*object)->event.synchronise();
  });
}

kiln_status kiln_event_is_done(kiln_event* event, int32_t* done) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(done, "done"); !fine) return fine;
    auto object = pin<EventObject>(event, "event");
    if (!object) return object.error();
    auto reached = (*object)->event.is_done();
    if (!reached) return reached.error();
    *done = *reached ? 1 : 0;
    return {};
  });
}

kiln_status kiln_event_hold_back(kiln_event* event, kiln_stream* stream) {
  return guarded([&]() -> Result<void> {
    auto object = pin<EventObject>(event, "event");
    if (!object) return object.error();
    auto on = pin<StreamObject>(stream, "stream");
    if (!on) return on.error();
    // GPUs of one kind wait for each other.
    if ((*object)->place.device != (*on)->place.device) {
      if (auto same = check_same((*object)->place, "the event", **on); !same) return same;
    }
    return (*object)->event.hold_back((*on)->stream);
  });
}

kiln_status kiln_event_elapsed_ms(kiln_event* from, kiln_event* to, float* milliseconds) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(milliseconds, "milliseconds"); !fine) return fine;
    auto first = pin<EventObject>(from, "from");
    if (!first) return first.error();
    auto second = pin<EventObject>(to, "to");
    if (!second) return second.error();
    if ((*first)->place != (*second)->place) {
      return invalid_argument("one event is of " + place_text((*first)->place) + ", the other of " +
                              place_text((*second)->place));
    }
    auto elapsed = elapsed_ms((*first)->event, (*second)->event);
    if (!elapsed) return elapsed.error();
    *milliseconds = *elapsed;
    return {};
  });
}

kiln_status kiln_recording_capture(kiln_stream* stream, kiln_work_fn work, void* data, kiln_recording** recording) {
  return guarded([&]() -> Result<void> {
    if (work == nullptr) return null_argument("work");
    if (auto fine = check_pointer(recording, "recording"); !fine) return fine;
    auto on = pin<StreamObject>(stream, "stream");
    if (!on) return on.error();
    const auto run = [&]() -> Result<void> {
      const kiln_status status = work(data);
      if (status == KILN_OK) return {};
      const bool is_known = status > KILN_OK && status <= KILN_INTERNAL;
      const auto code = is_known ? static_cast<ErrorCode>(status - 1) : ErrorCode::kInvalidArgument;
      return error(code, "the recorded work failed: " + std::string(kiln_error_message()));
    };
    auto captured = Recording::capture((*on)->stream, run);
    if (!captured) return captured.error();
    give<RecordingObject>(recording, std::move(*captured), (*on)->place);
    return {};
  });
}

kiln_status kiln_recording_replay(kiln_recording* recording, kiln_stream* stream) {
  return guarded([&]() -> Result<void> {
    auto object = pin<RecordingObject>(recording, "recording");
    if (!object) return object.error();
    auto on = pin<StreamObject>(stream, "stream");
    if (!on) return on.error();
    if (auto same = check_same((*object)->place, "the recording", **on); !same) return same;
    return (*object)->recording.replay((*on)->stream);
  });
}

kiln_status kiln_memory_allocate(kiln_device* device, uint64_t bytes, kiln_memory** memory) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(memory, "memory"); !fine) return fine;
    auto on = pin<DeviceObject>(device, "device");
    if (!on) return on.error();
    auto made = DeviceMemory::allocate((*on)->device, bytes);
    if (!made) return made.error();
    give<MemoryObject>(memory, std::move(*made), (*on)->device);
    return {};
  });
}

kiln_status kiln_memory_allocate_on(kiln_stream* stream, uint64_t bytes, kiln_memory** memory) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(memory, "memory"); !fine) return fine;
    auto on = pin<StreamObject>(stream, "stream");
    if (!on) return on.error();
    auto made = DeviceMemory::allocate((*on)->stream, bytes);
    if (!made) return made.error();
    give<MemoryObject>(memory, std::move(*made), (*on)->stream.device());
    return {};
  });
}

void* kiln_memory_data(kiln_memory* memory) {
  return guarded_value<void*>(nullptr, [&](void*& out) -> Result<void> {
    auto object = pin<MemoryObject>(memory, "memory");
    if (!object) return object.error();
    out = (*object)->memory.data();
    return {};
  });
}

uint64_t kiln_memory_size(kiln_memory* memory) {
  return guarded_value<uint64_t>(0, [&](uint64_t& out) -> Result<void> {
    auto object = pin<MemoryObject>(memory, "memory");
    if (!object) return object.error();
    out = (*object)->memory.bytes();
    return {};
  });
}

kiln_status kiln_memory_copy_from_host(kiln_memory* memory, const void* host, uint64_t bytes, kiln_stream* stream) {
  return with_memory(memory, "memory", stream, [&](MemoryObject& to, const Stream* on) -> Result<void> {
    if (auto fine = check_pointer(host, bytes, "host"); !fine) return fine;
    const std::span from(static_cast<const std::byte*>(host), bytes);
    return on ? to.memory.copy_from(from, *on) : to.memory.copy_from(from);
  });
}

kiln_status kiln_memory_copy_to_host(kiln_memory* memory, void* host, uint64_t bytes, kiln_stream* stream) {
  return with_memory(memory, "memory", stream, [&](MemoryObject& from, const Stream* on) -> Result<void> {
    if (auto fine = check_pointer(host, bytes, "host"); !fine) return fine;
    const std::span to(static_cast<std::byte*>(host), bytes);
    return on ? from.memory.copy_to(to, *on) : from.memory.copy_to(to);
  });
}

kiln_status kiln_memory_copy(kiln_memory* to, kiln_memory* from, kiln_stream* stream) {
  return with_memory(to, "to", stream, [&](MemoryObject& target, const Stream* on) -> Result<void> {
    auto source = pin<MemoryObject>(from, "from");
    if (!source) return source.error();
    const uint32_t kind = (*source)->place.device;
    if (kind != target.place.device && kind != KILN_HOST) {
      return invalid_argument("from " + place_text((*source)->place) + " to " + place_text(target.place) +
                              " goes by the host: kiln_memory_copy_to_host()");
    }
    return queue(target.device, on,
                 [&](const Stream& stream) { return target.memory.copy_from((*source)->memory, stream); });
  });
}

kiln_status kiln_memory_fill(kiln_memory* memory, uint8_t value, kiln_stream* stream) {
  return with_memory(memory, "memory", stream, [&](MemoryObject& what, const Stream* on) -> Result<void> {
    return queue(what.device, on, [&](const Stream& stream) { return what.memory.fill(value, stream); });
  });
}

}  // extern "C"

}  // namespace kiln::c
