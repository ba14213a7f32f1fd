#include "kiln/abi/launch_block.h"

#include <algorithm>

namespace kiln::abi {
namespace {

uint32_t align(uint32_t offset, uint32_t to) { return (offset + to - 1) / to * to; }

// Of each of a field; they lie side by side.
uint32_t size_of(LaunchField field) {
  switch (field) {
    case LaunchField::kTensorMaps:
      return kTensorMapBytes;
    case LaunchField::kGrid:
      return sizeof(uint32_t);
    case LaunchField::kWorkspace:
    case LaunchField::kFailure:
    case LaunchField::kExtents:
    case LaunchField::kPrint:
    case LaunchField::kPrograms:
    case LaunchField::kQueue:
      break;
  }
  return sizeof(uint64_t);
}

uint32_t alignment_of(LaunchField field) {
  return field == LaunchField::kTensorMaps ? kTensorMapAlignment : sizeof(uint64_t);
}

}  // namespace

ParamLayout lay_out_params(const dsl::Kernel& kernel) {
  ParamLayout out;
  for (const dsl::Param& param : kernel.params) {
    const uint32_t size = param.type.pointer ? 8 : static_cast<uint32_t>(dsl::info(param.type.element).bytes);
    const uint32_t offset = align(out.bytes, size);
    out.slots.push_back({offset, size});
    out.bytes = offset + size;
  }
  return out;
}

std::optional<uint32_t> LaunchBlock::offset(LaunchField field) const {
  const auto found = std::ranges::find(tail, field, &LaunchParam::field);
  return found == tail.end() ? std::nullopt : std::optional(found->slot.offset);
}

LaunchBlock lay_out_launch_block(uint32_t params_bytes, const LaunchCounts& counts) {
  LaunchBlock out{{}, params_bytes};
  for (size_t i = 0; i < kLaunchFields; ++i) {
    const auto field = static_cast<LaunchField>(i);
    if (counts[field] == 0) continue;
    const uint32_t size = size_of(field);
    out.bytes = align(out.bytes, alignment_of(field));
    for (uint32_t index = 0; index < counts[field]; ++index, out.bytes += size) {
      out.tail.push_back({field, index, {out.bytes, size}});
    }
  }
  return out;
}

uint32_t pointer_count(const dsl::Kernel& kernel) {
  return static_cast<uint32_t>(
      std::ranges::count_if(kernel.params, [](const dsl::Param& param) { return param.type.pointer; }));
}

}  // namespace kiln::abi
