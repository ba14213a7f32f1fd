// Devices and their streams.
#include "arrays.h"
#include "errors.h"

namespace kiln::c {

extern "C" {

kiln_status kiln_device_count(uint32_t kind, size_t* count) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(count, "count"); !fine) return fine;
    auto name = device_kind(kind);
    if (!name) return name.error();
    auto found = devices(*name);
    if (!found) return found.error();
    *count = found->size();
    return {};
  });
}

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

kiln_status kiln_device_get_info(kiln_device* device, kiln_device_info* info) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(info, "info"); !fine) return fine;
    auto object = pin<DeviceObject>(device, "device");
    if (!object) return object.error();
    const DeviceInfo& known = (*object)->device.info();
    *info = {};
    info->name = known.name.c_str();
    info->target = known.target.c_str();
    info->memory_bytes = known.memory_bytes;
    info->cache_bytes = known.cache_bytes;
    info->kind = device_of(known.kind);
    info->ordinal = known.ordinal;
    info->multiprocessors = known.multiprocessors;
    info->shared_bytes = known.shared_bytes;
    info->driver_version = known.driver_version;
    return {};
  });
}

kiln_status kiln_device_synchronise(kiln_device* device) {
  return guarded([&]() -> Result<void> {
    auto object = pin<DeviceObject>(device, "device");
    if (!object) return object.error();
    return (*object)->device.synchronise();
  });
}

kiln_status kiln_device_get_memory_use(kiln_device* device, kiln_memory_use* use) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(use, "use"); !fine) return fine;
    auto object = pin<DeviceObject>(device, "device");
    if (!object) return object.error();
    const MemoryUse now = (*object)->device.memory_use();
    *use = {now.bytes, now.peak_bytes, now.hard_limit, now.soft_limit, now.pieces};
    return {};
  });
}

kiln_status kiln_device_get_memory_holders(kiln_device* device, kiln_bytes** text) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(text, "text"); !fine) return fine;
    auto object = pin<DeviceObject>(device, "device");
    if (!object) return object.error();
    std::string lines;
    for (const MemoryHolder& holder : (*object)->device.memory_use().holders) {
      lines += std::to_string(holder.bytes) + " " + std::to_string(holder.pieces) + " " + holder.name + "\n";
    }
    give<BytesObject>(text, std::move(lines));
    return {};
  });
}

kiln_status kiln_device_forget_memory_peak(kiln_device* device) {
  return guarded([&]() -> Result<void> {
    auto object = pin<DeviceObject>(device, "device");
    if (!object) return object.error();
    (*object)->device.forget_memory_peak();
    return {};
  });
}

kiln_status kiln_device_set_memory_fraction(kiln_device* device, double hard, double soft) {
  return guarded([&]() -> Result<void> {
    auto object = pin<DeviceObject>(device, "device");
    if (!object) return object.error();
    return (*object)->device.set_memory_fraction(hard, soft);
  });
}

kiln_status kiln_device_give_back_caches(kiln_device* device, uint64_t* bytes) {
  return guarded([&]() -> Result<void> {
    auto object = pin<DeviceObject>(device, "device");
    if (!object) return object.error();
    const uint64_t given = (*object)->device.give_back_caches();
    if (bytes != nullptr) *bytes = given;
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
    if (native == nullptr) {
      give<StreamObject>(stream, (*on)->device.default_stream());
      return {};
    }
    if (place_of((*on)->device).device == KILN_HOST) {
      return invalid_argument("streams of processors are Kiln's own: no other library has one to wrap");
    }
    give<StreamObject>(stream, Stream::wrap((*on)->device, native));
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

kiln_status kiln_split_cores(int32_t parts, int32_t* cores, size_t capacity, size_t* counts) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(cores, "cores"); !fine) return fine;
    if (auto fine = check_pointer(counts, "counts"); !fine) return fine;
    auto split = split_cores(parts);
    if (!split) return split.error();
    size_t all = 0;
    for (const auto& part : *split) all += part.size();
    if (all > capacity) {
      return invalid_argument("there are " + std::to_string(all) + " processors, and `cores` has room for " +
                              std::to_string(capacity));
    }
    for (const auto& part : *split) {
      cores = std::copy(part.begin(), part.end(), cores);
      *counts++ = part.size();
    }
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
