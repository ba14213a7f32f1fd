// A GPU of any vendor. Times are the device's own, between two events of one stream. With cold caches a buffer twice as
// large as the last cache is written before the launch; that also keeps the device busy until the launch is queued.
// With hot caches a launch too short to be timed is recorded many times into a graph, so that the host's share of a
// launch is not what is measured.
#include <algorithm>
#include <map>
#include <optional>

#include "device.h"
#include "kiln/client/gpu.h"

namespace kiln::autotune {
namespace {

constexpr uint64_t kLargestCache = 256u << 20;  // where the driver does not tell

RunnerInfo describe(const DeviceInfo& device) {
  RunnerInfo out;
  out.target = device.target;
  out.device = device.name;
  out.fingerprint = device.name + "; " + device.target + "; " + std::to_string(device.multiprocessors) +
                    " multiprocessors; " + std::to_string(device.memory_bytes >> 20) + " MiB; driver " +
                    std::to_string(device.driver_version);
  return out;
}

class Gpu final : public MeasuredDevice {
 public:
  Gpu(Device device, Stream stream, Event begin, Event end)
      : info_(describe(device.info())),
        device_(std::move(device)),
        stream_(std::move(stream)),
        begin_(std::move(begin)),
        end_(std::move(end)) {}
  const RunnerInfo& info() const override { return info_; }

  Result<void> allocate(std::span<const uint64_t> bytes) override {
    kept_.clear();
    arrays_.clear();
    for (uint64_t size : bytes) {
      auto memory = DeviceMemory::allocate(device_, std::max<uint64_t>(size, 1));
      if (!memory) return memory.error();
      arrays_.push_back(std::move(*memory));
    }
    return {};
  }
  void* data(size_t array) const override { return arrays_[array].data(); }
  Result<void> write(size_t array, std::span<const std::byte> bytes) override {
    return arrays_[array].copy_from(bytes);
  }
  Result<void> fill(size_t array, uint8_t byte) override { return arrays_[array].fill(byte, stream_); }
  Result<void> read(size_t array, std::span<std::byte> out) const override { return arrays_[array].copy_to(out); }
  Result<void> keep(size_t array) override {
    auto copy = DeviceMemory::allocate(device_, arrays_[array].bytes());
    if (!copy) return copy.error();
    if (auto done = copy->copy_from(arrays_[array], stream_); !done) return done;
    kept_.insert_or_assign(array, std::move(*copy));
    return stream_.synchronise();
  }
  Result<void> restore() override {
    for (const auto& [array, original] : kept_) {
      if (auto queued = arrays_[array].copy_from(original, stream_); !queued) return queued;
    }
    return {};
  }

  Result<void> run(const UntypedFunction& function, std::span<const Argument> arguments) override {
    if (auto queued = queue(function, arguments); !queued) return queued;
    return stream_.synchronise();
  }
  Result<double> time_us(const UntypedFunction& function, std::span<const Argument> arguments, int launches,
                         Cache cache) override;

 private:
  Result<void> queue(const UntypedFunction& function, std::span<const Argument> arguments) {
    return function.launch(arguments, {.stream = &stream_});
  }
  Result<void> flush();
  Result<void> between_events(const std::function<Result<void>()>& work);

  const RunnerInfo info_;
  const Device device_;
  const Stream stream_;
  const Event begin_, end_;
  std::vector<DeviceMemory> arrays_;
  std::map<size_t, DeviceMemory> kept_;
  std::optional<DeviceMemory> flush_;
};

Result<void> Gpu::flush() {
  if (!flush_) {
    const uint64_t cache = device_.info().cache_bytes;
    auto memory = DeviceMemory::allocate(device_, 2 * (cache > 0 ? cache : kLargestCache));
    if (!memory) return memory.error();
    flush_ = std::move(*memory);
  }
  return flush_->fill(0, stream_);
}

Result<void> Gpu::between_events(const std::function<Result<void>()>& work) {
  if (auto done = begin_.record(stream_); !done) return done;
  if (auto done = work(); !done) return done;
  if (auto done = end_.record(stream_); !done) return done;
  return stream_.synchronise();
}

Result<double> Gpu::time_us(const UntypedFunction& function, std::span<const Argument> arguments, int launches,
                            Cache cache) {
  std::optional<Graph> many;
  if (cache == Cache::kCold) {
    launches = 1;
  } else {
    if (auto warm = run(function, arguments); !warm) return warm.error();
  }
  if (launches > 1) {
    auto graph = Graph::capture(stream_, [&]() -> Result<void> {
      for (int i = 0; i < launches; ++i) {
        if (auto queued = queue(function, arguments); !queued) return queued;
      }
      return {};
    });
    if (!graph) return graph.error();
    many = std::move(*graph);
  }
  if (auto done = restore(); !done) return done.error();
  if (cache == Cache::kCold) {
    if (auto done = flush(); !done) return done.error();
  }
  auto done = between_events([&] { return many ? many->replay(stream_) : queue(function, arguments); });
  if (!done) return done.error();
  auto ms = elapsed_ms(begin_, end_);
  if (!ms) return ms.error();
  return static_cast<double>(*ms) * 1000 / launches;
}

}  // namespace

Result<std::unique_ptr<MeasuredDevice>> open_gpu(const std::string& kind, int ordinal) {
  auto device = Device::open(kind, ordinal);
  if (!device) return device.error();
  auto stream = Stream::create(*device);
  if (!stream) return stream.error();
  auto begin = Event::create(*device), end = Event::create(*device);
  if (!begin || !end) return (begin ? end : begin).error();
  return std::unique_ptr<MeasuredDevice>(
      std::make_unique<Gpu>(std::move(*device), std::move(*stream), std::move(*begin), std::move(*end)));
}

}  // namespace kiln::autotune
