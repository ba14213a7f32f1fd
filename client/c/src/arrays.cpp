#include "arrays.h"

#include "kiln/graph/ir.h"

namespace kiln::c {

static_assert(KILN_F8E5M2 == 1 + static_cast<int>(dsl::ElementType::kF8E5M2));
static_assert(KILN_BF16 == 1 + static_cast<int>(dsl::ElementType::kBF16));
static_assert(KILN_U8 == 1 + static_cast<int>(dsl::ElementType::kU8));
static_assert(KILN_F8E5M2 == dsl::kElementTypeCount && KILN_MAX_RANK == graph::kMaxRank);

Result<dsl::ElementType> element_of(kiln_type type, const char* what) {
  if (type >= KILN_I1 && type <= KILN_F8E5M2) return static_cast<dsl::ElementType>(type - 1);
  return invalid_argument(std::string(what) + ": " + std::to_string(type) + " is no kiln_type");
}

kiln_type type_of(dsl::ElementType element) { return 1 + static_cast<kiln_type>(element); }

Result<std::string> device_kind(uint32_t device) {
  if (device == KILN_HOST) return std::string("cpu");
  if (device == KILN_CUDA) return std::string("cuda");
  if (device == KILN_AMD) return std::string("amd");
  return invalid_argument(std::to_string(device) + " is no kind of device: KILN_HOST, KILN_CUDA or KILN_AMD");
}

uint32_t device_of(std::string_view kind) { return kind == "cuda" ? KILN_CUDA : kind == "amd" ? KILN_AMD : KILN_HOST; }

Place place_of(const Device& device) { return {device_of(device.info().kind), device.info().ordinal}; }

StreamObject::StreamObject(Stream from) : stream(std::move(from)), place(place_of(stream.device())) {}

MemoryObject::MemoryObject(DeviceMemory from, Device of)
    : memory(std::move(from)), device(std::move(of)), place(place_of(device)) {}

std::string place_text(const Place& place) {
  if (place.device == KILN_HOST) return "the host";
  const auto kind = device_kind(place.device);
  return (kind ? *kind : "device " + std::to_string(place.device)) + ":" + std::to_string(place.ordinal);
}

std::string ArrayName::text() const {
  std::string out = std::string(role) + " " + std::to_string(index);
  return name ? out + " (`" + name + "`)" : out;
}

Result<void> read_array(const kiln_array& from, const ArrayName& name, const Place& place, ArrayView& to) {
  const auto wrong = [&](const std::string& what) { return invalid_argument(name.text() + ": " + what); };
  if (from.type < KILN_I1 || from.type > KILN_F8E5M2) {
    return wrong(std::to_string(from.type) + " is no kiln_type");
  }
  if (from.rank < 0 || from.rank > KILN_MAX_RANK) return wrong("its rank is " + std::to_string(from.rank));
  if (from.shape == nullptr && from.rank > 0) return wrong("its shape is NULL");
  if ((from.flags & ~uint32_t{KILN_WRITABLE}) != 0) return wrong("it has flags that are not known");
  for (int32_t axis = 0; axis < from.rank; ++axis) {
    if (from.shape[axis] < 0) {
      return wrong("extent " + std::to_string(axis) + " is " + std::to_string(from.shape[axis]));
    }
  }
  if (from.device != KILN_HOST && Place{from.device, from.ordinal} != place) {
    return wrong("it lies on " + place_text({from.device, from.ordinal}) + ", and this runs on " + place_text(place));
  }
  to.element = static_cast<dsl::ElementType>(from.type - 1);
  to.shape.assign(from.shape, from.shape + from.rank);
  to.strides.clear();
  if (from.strides != nullptr) to.strides.assign(from.strides, from.strides + from.rank);
  to.data = from.data;
  to.bytes = from.bytes == 0 ? ArrayView::kUnknownBytes : from.bytes;
  to.writable = (from.flags & KILN_WRITABLE) != 0;
  to.on_device = from.device != KILN_HOST;
  return {};
}

kiln_array show_array(const ArrayView& view, const Place& place) {
  kiln_array out{};
  out.data = const_cast<void*>(view.data);
  out.shape = view.shape.data();
  out.strides = view.strides.empty() ? nullptr : view.strides.data();
  out.bytes = view.bytes == ArrayView::kUnknownBytes ? 0 : view.bytes;
  out.rank = static_cast<int32_t>(view.shape.size());
  out.type = type_of(view.element);
  out.device = place.device;
  out.ordinal = place.ordinal;
  out.flags = view.writable ? KILN_WRITABLE : 0;
  return out;
}

extern "C" {

const char* kiln_type_name(kiln_type type) {
  if (type < KILN_I1 || type > KILN_F8E5M2) return nullptr;
  return dsl::info(static_cast<dsl::ElementType>(type - 1)).name.data();
}

size_t kiln_type_size(kiln_type type) {
  if (type < KILN_I1 || type > KILN_F8E5M2) return 0;
  return static_cast<size_t>(dsl::info(static_cast<dsl::ElementType>(type - 1)).bytes);
}

}  // extern "C"

}  // namespace kiln::c
