// A GPU of any vendor. Times are the device's own, between two events of one stream. With cold caches a buffer twice as
// large as the last cache is written before the launch; that also keeps the device busy until the launch is queued.
// Several such times are queued at once, so that the device does not wait for the host between them. With hot caches a
// launch too short to be timed is recorded many times into a graph, so that the host's share of a launch is not what is
// measured.
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
  out.fingerprint = hardware_text(device);
  return out;
}

class Gpu final : public MeasuredDevice {
 public:
  Gpu(Device device, Stream stream)
      : info_(describe(device.info())), device_(std::move(device)), stream_(std::move(stream)) {}
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
    const Working working(worked_us_);
    const uint64_t period = std::min<uint64_t>(bytes.size(), arrays_[array].bytes());
    if (period == 0) return {};
    if (auto queued = arrays_[array].copy_from(bytes.first(period), stream_); !queued) return queued;
    if (auto queued = arrays_[array].repeat(period, stream_); !queued) return queued;
    return stream_.synchronise();
  }
  Result<void> fill(size_t array, uint8_t byte) override { return arrays_[array].fill(byte, stream_); }
  Result<void> read(size_t array, std::span<std::byte> out) const override {
    const Working working(worked_us_);
    return arrays_[array].copy_to(out);
  }
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
    const Working working(worked_us_);
    if (auto queued = queue(function, arguments); !queued) return queued;
    return stream_.synchronise();
  }
  Result<std::vector<double>> time_us(const UntypedFunction& function, std::span<const Argument> arguments,
                                      int launches, Cache cache, int times) override;
  bool apart_from_host() const override { return true; }

 private:
  Result<void> queue(const UntypedFunction& function, std::span<const Argument> arguments) {
    return function.launch(arguments, {.print = [](const dsl::PrintRecord&) {}, .stream = &stream_});
  }
  Result<void> flush();
  Result<void> ready_events(int times);
  Result<void> queue_timed(size_t time, Cache cache, const std::function<Result<void>()>& work);
  Result<std::vector<double>> cold_us(const UntypedFunction& function, std::span<const Argument> arguments, int times);
  Result<double> hot_us(const UntypedFunction& function, std::span<const Argument> arguments, int launches);

  const RunnerInfo info_;
  const Device device_;
  const Stream stream_;
  std::vector<std::pair<Event, Event>> events_;  // around each of the times of one call
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

Result<void> Gpu::ready_events(int times) {
  while (events_.size() < static_cast<size_t>(times)) {
    auto begin = Event::create(device_), end = Event::create(device_);
    if (!begin || !end) return (begin ? end : begin).error();
    events_.emplace_back(std::move(*begin), std::move(*end));
  }
  return {};
}

Result<void> Gpu::queue_timed(size_t time, Cache cache, const std::function<Result<void>()>& work) {
  if (auto done = restore(); !done) return done;
  if (cache == Cache::kCold) {
    if (auto done = flush(); !done) return done;
  }
  if (auto done = events_[time].first.record(stream_); !done) return done;
  if (auto done = work(); !done) return done;
  return events_[time].second.record(stream_);
}

Result<std::vector<double>> Gpu::cold_us(const UntypedFunction& function, std::span<const Argument> arguments,
                                         int times) {
  const Working working(worked_us_);
  for (size_t i = 0; i < static_cast<size_t>(times); ++i) {
    auto queued = queue_timed(i, Cache::kCold, [&] { return queue(function, arguments); });
    if (!queued) return queued.error();
  }
  if (auto done = stream_.synchronise(); !done) return done.error();
  std::vector<double> out;
  for (size_t i = 0; i < static_cast<size_t>(times); ++i) {
    auto ms = elapsed_ms(events_[i].first, events_[i].second);
    if (!ms) return ms.error();
    out.push_back(static_cast<double>(*ms) * 1e3);
  }
  return out;
}

Result<double> Gpu::hot_us(const UntypedFunction& function, std::span<const Argument> arguments, int launches) {
  if (auto done = restore(); !done) return done.error();
  if (auto warm = run(function, arguments); !warm) return warm.error();
  std::optional<Recording> many;
  if (launches > 1) {
    auto graph = Recording::capture(stream_, [&]() -> Result<void> {
      for (int i = 0; i < launches; ++i) {
        if (auto queued = queue(function, arguments); !queued) return queued;
      }
      return {};
    });
    if (!graph) return graph.error();
    many = std::move(*graph);
  }
  const Working working(worked_us_);
  auto queued = queue_timed(0, Cache::kHot, [&] { return many ? many->replay(stream_) : queue(function, arguments); });
  if (!queued) return queued.error();
  if (auto done = stream_.synchronise(); !done) return done.error();
  auto ms = elapsed_ms(events_[0].first, events_[0].second);
  if (!ms) return ms.error();
  return static_cast<double>(*ms) * 1e3 / launches;
}

Result<std::vector<double>> Gpu::time_us(const UntypedFunction& function, std::span<const Argument> arguments,
                                         int launches, Cache cache, int times) {
  if (auto ready = ready_events(cache == Cache::kCold ? times : 1); !ready) return ready.error();
  if (cache == Cache::kCold) return cold_us(function, arguments, times);
  std::vector<double> out;
  for (int i = 0; i < times; ++i) {
    auto us = hot_us(function, arguments, launches);
    if (!us) return us.error();
    out.push_back(*us);
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<MeasuredDevice>> open_gpu(const std::string& kind, int ordinal) {
  auto device = Device::open(kind, ordinal);
  if (!device) return device.error();
  auto stream = Stream::create(*device);
  if (!stream) return stream.error();
  return std::unique_ptr<MeasuredDevice>(std::make_unique<Gpu>(std::move(*device), std::move(*stream)));
}

}  // namespace kiln::autotune
