// Devices of this process: one object each, shared by all who open it, gone with the last of them.
#include <algorithm>
#include <map>
#include <mutex>

#include "cpu/cpu_driver.h"
#include "cuda_driver.h"
#include "device_state.h"
#include "hip_driver.h"
#include "profile/recorder.h"

namespace kiln::client {
namespace gpu {
namespace {

struct Kind {
  std::string_view name;
  Result<std::vector<DeviceInfo>> (*list)();
  Result<std::unique_ptr<Driver>> (*open)(int ordinal);
};
constexpr Kind kKinds[] = {
    {"cuda", cuda::list, cuda::open}, {"amd", hip::list, hip::open}, {cpu::kKind, cpu::list, cpu::open}};

Result<Kind> find_kind(std::string_view name) {
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind;
  }
  return invalid_argument("unknown kind of device `" + std::string(name) + "`; there are `cuda`, `amd` and `cpu`");
}

}  // namespace

bool is_gpu_kind(std::string_view name) { return name != cpu::kKind && find_kind(name).ok(); }

Result<std::vector<DeviceInfo>> list_devices(std::string_view kind) {
  auto known = find_kind(kind);
  return known ? known->list() : known.error();
}

Result<std::unique_ptr<Driver>> open_driver(std::string_view kind, int ordinal) {
  auto known = find_kind(kind);
  return known ? known->open(ordinal) : known.error();
}

LoadedModule::~LoadedModule() {
  // A kernel of it may still run for a handle that is gone; this may fail only where nothing runs any more.
  (void)device_->driver->synchronise();
  device_->driver->unload_module(module_);
}

Result<std::shared_ptr<const LoadedModule>> DeviceState::module(const std::vector<std::byte>& code) {
  std::lock_guard lock(module_mutex_);
  auto& known = modules_[code];
  if (auto module = known.lock()) return module;
  auto handle = driver->load_module(code);
  if (!handle) {
    modules_.erase(code);
    return handle.error();
  }
  std::shared_ptr<const LoadedModule> module = std::make_shared<LoadedModule>(shared_from_this(), *handle);
  known = module;
  std::erase_if(modules_, [](const auto& entry) { return entry.second.expired(); });
  return module;
}

const std::string* DeviceState::label(std::string text) {
  std::lock_guard lock(text_mutex_);
  return &*labels_.insert(std::move(text)).first;
}

Result<void> DeviceState::read_reports() {
  if (auto printed = prints.drain(); !printed) return printed;
  return failures.check();
}

DeviceState::DeviceState(std::unique_ptr<Driver> of)
    : driver(std::move(of)),
      place(driver->info().kind + ":" + std::to_string(driver->info().ordinal)),
      failures(*driver),
      prints(*driver),
      default_stream(*this, nullptr, false, nullptr) {}

std::string DeviceState::name() const { return place + " (" + driver->info().name + ")"; }

Error DeviceState::explain(Error error, const std::string& doing) {
  error.message = doing + " on " + name() + ": " + error.message;
  if (!driver->broken()) return error;
  std::lock_guard lock(text_mutex_);
  const std::string first = first_failure_;
  if (first_failure_.empty()) first_failure_ = error.message;
  error.message +=
      "\nThis process can use the device no more: every call from now on fails, and only a new process helps";
  if (!first.empty()) error.message += ". The first failure was: " + first;
  return error;
}

std::string grid_text(const std::array<uint32_t, 3>& grid) {
  return std::to_string(grid[0]) + "×" + std::to_string(grid[1]) + "×" + std::to_string(grid[2]);
}

}  // namespace gpu

Result<std::vector<DeviceInfo>> devices(std::string_view kind) { return gpu::list_devices(kind); }

std::string hardware_text(const DeviceInfo& device) {
  return device.name + "; " + device.target + "; " + std::to_string(device.multiprocessors) + " multiprocessors; " +
         std::to_string(device.memory_bytes >> 20) + " MiB; driver " + std::to_string(device.driver_version);
}

Result<Device> Device::open(std::string_view kind, int ordinal) {
  static std::mutex mutex;
  // Never destroyed: other threads may open a device while exit() destroys statics.
  static auto& open_devices = *new std::map<std::pair<std::string, int>, std::weak_ptr<gpu::DeviceState>>;
  std::lock_guard lock(mutex);
  auto& known = open_devices[{std::string(kind), ordinal}];
  // Of a GPU the parent's driver works for no child of a fork(), and says so. Processors are there for both.
  const auto usable = [&](const auto& state) { return kind != cpu::kKind || !state->birth.of_parent(); };
  if (auto state = known.lock(); state && usable(state)) return Device(std::move(state));
  auto driver = gpu::open_driver(kind, ordinal);
  if (!driver) return driver.error();
  auto state = std::make_shared<gpu::DeviceState>(std::move(*driver));
  known = state;
  profile_as_environment_says();
  return Device(std::move(state));
}

const DeviceInfo& Device::info() const { return state_->driver->info(); }

Stream Device::default_stream() const {
  return Stream(std::shared_ptr<gpu::StreamState>(state_, &state_->default_stream));
}

MemoryUse Device::memory_use() const { return state_->driver->memory().use(); }
void Device::forget_memory_peak() const { state_->driver->memory().forget_peak(); }
uint64_t Device::give_back_caches() const { return state_->driver->memory().give_back_caches(); }

Result<void> Device::set_memory_fraction(double hard, double soft) const {
  const auto is_fraction = [](double value) { return value >= 0 && value <= 1; };  // and no NaN
  if (!is_fraction(hard) || !is_fraction(soft)) {
    return invalid_argument("fractions of a device's memory are from 0 to 1, not " + std::to_string(hard) + " and " +
                            std::to_string(soft));
  }
  const uint64_t all = info().memory_bytes;
  if (all == 0) return error(ErrorCode::kUnavailable, state_->name() + " does not tell how much memory it has");
  const auto part = [all](double fraction) {
    const auto bytes = static_cast<uint64_t>(static_cast<double>(all) * fraction);
    return fraction > 0 ? std::max<uint64_t>(bytes, 1) : 0;
  };
  state_->driver->memory().set_limits(part(hard), part(soft));
  return {};
}

Result<void> Device::synchronise() const {
  Timed timed(profile::Kind::kWait, "device");
  if (timed.span() != nullptr) timed.span()->device = state_->place;
  if (auto done = state_->driver->synchronise(); !done) return state_->explain(done.error(), "waiting for all work");
  return state_->read_reports();
}

}  // namespace kiln::client
