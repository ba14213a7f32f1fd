#include "device_run.h"

#include "kiln/client/gpu.h"

namespace kiln::cli {
namespace {

// Where an array of the host lies on the device.
struct Staged {
  std::span<std::byte> host;
  DeviceMemory device;
  bool written;
};

}  // namespace

Result<void> launch_on_device(const std::string& kind, const client::UntypedFunction& function,
                              std::vector<client::Argument> arguments, client::LaunchOptions options) {
  auto device = Device::open(kind);
  if (!device) return device.error();
  const Stream stream = device->default_stream();
  std::vector<Staged> arrays;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const dsl::Param& param = function.kernel().params[i];
    if (!param.type.pointer) continue;
    const auto bytes = static_cast<size_t>(arguments[i].extent * dsl::info(param.type.element).bytes);
    auto memory = DeviceMemory::allocate(*device, bytes);
    if (!memory) return memory.error();
    arrays.push_back({{static_cast<std::byte*>(arguments[i].data), bytes}, std::move(*memory), !param.readonly});
    if (auto there = arrays.back().device.copy_from(arrays.back().host); !there) return there;
    arguments[i].data = arrays.back().device.data();
  }
  options.stream = &stream;
  if (auto queued = function.launch(arguments, options); !queued) return queued;
  if (auto done = stream.synchronise(); !done) return done;
  for (const Staged& array : arrays) {
    if (!array.written) continue;
    if (auto back = array.device.copy_to(array.host); !back) return back;
  }
  return {};
}

}  // namespace kiln::cli
