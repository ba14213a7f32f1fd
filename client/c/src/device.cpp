// Devices and their streams.
#include "arrays.h"
#include "errors.h"

namespace kiln::c {

extern "C" {

kiln_status kiln_device_open(uint32_t kind, int32_t ordinal, kiln_device** device) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(device, "device"); !fine) return fine;
    auto name = device_kind(kind);
    if (!name) return name.error();
    auto opened = Device::open(*name, ordinal);
    if (!opened) return opened.error();
    give<DeviceObject>(device, std::move(*opened));
    return {};
  });
}

kiln_status kiln_stream_create(kiln_device* device, const int32_t* cores, size_t core_count, kiln_stream** stream) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(stream, "stream"); !fine) return fine;
    if (auto fine = check_pointer(cores, core_count, "cores"); !fine) return fine;
    auto on = pin<DeviceObject>(device, "device");
    if (!on) return on.error();
    auto made = Stream::create((*on)->device, {.cores = std::vector<int>(cores, cores + core_count)});
    if (!made) return made.error();
    give<StreamObject>(stream, std::move(*made));
    return {};
  });
}

kiln_status kiln_stream_wrap(kiln_device* device, void* native, kiln_stream** stream) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(stream, "stream"); !fine) return fine;
    auto on = pin<DeviceObject>(device, "device");
    if (!on) return on.error();
    if (device_of((*on)->device.info().kind) == KILN_HOST) {
      return invalid_argument("streams of processors are Kiln's own: no other library has one to wrap");
    }
    give<StreamObject>(stream,
                       native == nullptr ? (*on)->device.default_stream() : Stream::wrap((*on)->device, native));
    return {};
  });
}

kiln_status kiln_stream_synchronise(kiln_stream* stream) {
  return guarded([&]() -> Result<void> {
    auto object = pin<StreamObject>(stream, "stream");
    if (!object) return object.error();
    return (*object)->stream.synchronise();
  });
}

}  // extern "C"

}  // namespace kiln::c
