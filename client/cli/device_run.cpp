#include "device_run.h"

#include <cstdio>

#include "kiln/client/gpu.h"

namespace kiln::cli {
namespace {

// Where an array of the host lies on the device.
struct Staged {
  std::span<std::byte> host;
  DeviceMemory device;
  bool written;
};

Result<double> timed_ms(const client::UntypedFunction& function, const std::vector<client::Argument>& arguments,
                        const client::LaunchOptions& options, const Device& device) {
  auto before = Event::create(device), after = Event::create(device);
  if (!before) return before.error();
  if (!after) return after.error();
  if (auto begun = before->record(*options.stream); !begun) return begun.error();
  if (auto queued = function.launch(arguments, options); !queued) return queued.error();
  if (auto ended = after->record(*options.stream); !ended) return ended.error();
  if (auto done = options.stream->synchronise(); !done) return done.error();
  auto ms = elapsed_ms(*before, *after);
  if (!ms) return ms.error();
  return double{*ms};
}

}  // namespace

Result<std::vector<double>> launch_on_device(const std::string& kind, const client::UntypedFunction& function,
                                             std::vector<client::Argument> arguments, client::LaunchOptions options,
                                             int repeat) {
  auto device = Device::open(kind);
  if (!device) return device.error();
  if (const std::string& note = device->info().note; !note.empty()) std::fprintf(stderr, "kiln: %s\n", note.c_str());
  const Stream stream = device->default_stream();
  std::vector<Staged> arrays;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const dsl::Param& param = function.kernel().params[i];
    if (!param.type.pointer) continue;
    const auto bytes = static_cast<size_t>(arguments[i].extent * dsl::info(param.type.element).bytes);
    auto memory = DeviceMemory::allocate(*device, bytes);
    if (!memory) return memory.error();
    arrays.push_back({{static_cast<std::byte*>(arguments[i].data), bytes}, std::move(*memory), !param.readonly});
    if (auto there = arrays.back().device.copy_from(arrays.back().host); !there) return there.error();
    arguments[i].data = arrays.back().device.data();
  }
  options.stream = &stream;
  if (auto queued = function.launch(arguments, options); !queued) return queued.error();
  if (auto done = stream.synchronise(); !done) return done.error();
  for (const Staged& array : arrays) {
    if (!array.written) continue;
    if (auto back = array.device.copy_to(array.host); !back) return back.error();
  }
  options.print = [](const dsl::PrintRecord&) {};  // once is enough
  std::vector<double> times;
  for (int i = 0; i < repeat; ++i) {
    auto ms = timed_ms(function, arguments, options, *device);
    if (!ms) return ms.error();
    times.push_back(*ms);
  }
  return times;
}

}  // namespace kiln::cli
