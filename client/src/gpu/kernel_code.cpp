#include "kernel_code.h"

#include "kiln/dsl/verify.h"

namespace kiln::client::gpu {
namespace {

// The first line of the kernel's body that is known stands for the kernel.
std::string label_of(const dsl::Kernel& kernel) {
  for (const dsl::Op& op : kernel.body.ops) {
    const std::string place = kernel.location_text(op.loc);
    if (!place.empty()) return "kernel `" + kernel.name + "` (" + place + ")";
  }
  return "kernel `" + kernel.name + "`";
}

std::string_view kind_of(std::string_view target) { return target.substr(0, target.find(':')); }

}  // namespace

LoadedKernel::~LoadedKernel() {
  if (failure_record == nullptr) return;
  (void)device->driver->synchronise();  // a launch of it may still write the record
  device->failures.remove(failure_record);
}

Result<std::shared_ptr<const KernelCode>> KernelCode::create(const dsl::Kernel& kernel, const Artifact& artifact,
                                                             LaunchSequence sequence, const Reports& reports) {
  std::shared_ptr<KernelCode> code(new KernelCode(std::move(sequence), artifact.code, label_of(kernel)));
  code->reports_ = reports;
  if (code->sequence_.failure_offset)
    code->checked_ = std::make_shared<const CheckedKernel>(CheckedKernel{kernel, reports});
  auto device = code->choose_device();
  if (!device) return device.error();
  code->device_ = std::move(*device);
  if (auto loaded = code->load(*code->device_); !loaded) return loaded.error();
  return std::shared_ptr<const KernelCode>(std::move(code));
}

Result<std::shared_ptr<DeviceState>> KernelCode::choose_device() const {
  const std::string kind(kind_of(sequence_.target));
  // Nearly always it is the first, and to list them asks the driver about each.
  if (auto first = Device::open(kind); first && check_fits(*first->state())) return first->state();
  auto present = list_devices(kind);
  if (!present) return error(present.error().code, label_ + ": " + present.error().message);
  std::optional<Error> refused;
  for (const DeviceInfo& info : *present) {
    auto device = Device::open(kind, info.ordinal);
    if (!device) return device.error();
    auto fits = check_fits(*device->state());
    if (fits) return device->state();
    if (!refused) refused = fits.error();
  }
  return *refused;  // list_devices() gives one at least
}

Result<void> KernelCode::check_fits(const DeviceState& device) const {
  if (auto runs = device.driver->check_runs(sequence_.target, sequence_.emit); !runs) {
    return error(runs.error().code, label_ + ": its code for `" + sequence_.target.substr(0, 80) + "` cannot run on " +
                                        device.name() + ": it " + runs.error().message);
  }
  for (const LaunchStep& step : sequence_.steps) {
    if (step.shared_bytes <= device.driver->info().shared_bytes) continue;
    return error(ErrorCode::kResourceExhausted, label_ + ": it needs " + std::to_string(step.shared_bytes) +
                                                    " bytes of shared memory a block, " + device.name() + " has " +
                                                    std::to_string(device.driver->info().shared_bytes));
  }
  return {};
}

Result<const LoadedKernel*> KernelCode::load(DeviceState& device) const {
  std::lock_guard lock(mutex_);
  auto& place = loaded_[slot(device)];
  for (const auto& known : owned_) {
    if (known->device.get() != &device) continue;
    place.store(known.get(), std::memory_order_release);
    return known.get();
  }
  if (auto fits = check_fits(device); !fits) return fits.error();
  auto made = load_new(device);
  if (!made) return device.explain(made.error(), "loading " + label_);
  owned_.push_back(std::move(*made));
  place.store(owned_.back().get(), std::memory_order_release);
  return owned_.back().get();
}

Result<std::shared_ptr<const LoadedKernel>> KernelCode::load_new(DeviceState& device) const {
  auto module = device.module(code_);
  if (!module) return module.error();
  auto out = std::make_shared<LoadedKernel>(device.shared_from_this(), std::move(*module));
  for (const LaunchStep& step : sequence_.steps) {
    auto kernel = device.driver->find_kernel(out->module->handle(), step.entry, step.shared_bytes);
    if (!kernel) return kernel.error();
    out->steps.push_back(*kernel);
  }
  out->label = device.label(label_);
  if (checked_ != nullptr) {
    auto record = device.failures.add(checked_);
    if (!record) return record.error();
    out->failure_record = *record;
  }
  if (sequence_.print_offset) {
    auto ring = device.prints.add(reports_);
    if (!ring) return ring.error();
    out->prints = std::move(*ring);
  }
  return std::shared_ptr<const LoadedKernel>(std::move(out));
}

}  // namespace kiln::client::gpu
