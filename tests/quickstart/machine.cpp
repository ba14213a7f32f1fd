#include "machine.h"

#include <chrono>

#include "kiln/dsl/config.h"

namespace kiln::quickstart {

dsl::ConstexprValues config_on(const std::string& target, const dsl::Kernel& kernel, dsl::ConstexprValues config) {
  for (const auto& [name, values] : kernel.target_defaults) {
    if (!dsl::defaults_apply(name, target)) continue;
    std::erase_if(config, [&](const auto& item) { return values.contains(item.first); });
  }
  return config;
}

Result<double> time_ms(const Machine& machine, const std::function<Result<void>()>& run) {
  if (!machine.device) {
    const auto start = std::chrono::steady_clock::now();
    if (auto done = run(); !done) return done.error();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  const Stream stream = machine.device->default_stream();
  auto before = Event::create(*machine.device), after = Event::create(*machine.device);
  if (!before) return before.error();
  if (!after) return after.error();
  if (auto done = before->record(stream); !done) return done.error();
  if (auto done = run(); !done) return done.error();
  if (auto done = after->record(stream); !done) return done.error();
  if (auto done = stream.synchronise(); !done) return done.error();
  auto elapsed = elapsed_ms(*before, *after);
  if (!elapsed) return elapsed.error();
  return static_cast<double>(*elapsed);
}

Result<DeviceCopy> DeviceCopy::create(const Machine& machine, bool small) {
  const uint64_t bytes = uint64_t{1} << (small ? 20 : 30);
  auto from = DeviceMemory::allocate(*machine.device, bytes), to = DeviceMemory::allocate(*machine.device, bytes);
  if (!from) return from.error();
  if (!to) return to.error();
  if (auto filled = from->fill(1, machine.device->default_stream()); !filled) return filled.error();
  return DeviceCopy(std::move(*from), std::move(*to));
}

Result<double> DeviceCopy::measure(const Machine& machine) const {
  auto ms = time_ms(machine, [&] { return to_.copy_from(from_, machine.device->default_stream()); });
  if (!ms) return ms;
  return 2 * static_cast<double>(from_.bytes()) / *ms / 1e6;
}

}  // namespace kiln::quickstart
