// Arrays that the kernel reads and writes are kept and restored. Those that it only writes begin as bytes of ones, so
// that a candidate that leaves a part out is seen. A time below kEnough is that of many launches; a kernel with kept
// arrays is launched once, for the second launch would find another input.
#include "session.h"

#include <algorithm>
#include <cmath>

#include "compare.h"
#include "inputs.h"
#include "kiln/client/artifact.h"

namespace kiln::autotune {
namespace {

constexpr double kEnough = 100;  // us
constexpr int kMaxLaunches = 50;
constexpr uint8_t kUnwritten = 0xff;

Failure failure_of(const Error& error, Failure other) {
  const bool resources = error.code == ErrorCode::kOutOfMemory || error.code == ErrorCode::kResourceExhausted;
  return resources ? Failure::kResources : other;
}

// A driver says kUnavailable of a device that a kernel has broken.
Outcome failed(const Error& error, Failure other) {
  return {{failure_of(error, other), error.message}, error.code == ErrorCode::kUnavailable};
}

}  // namespace

Result<void> Session::begin(dsl::Kernel kernel, const Workload& workload, Cache cache) {
  loaded_.clear();
  first_.clear();
  if (workload.arguments.size() != kernel.params.size()) {
    return invalid_argument("kernel `" + kernel.name + "` takes " + std::to_string(kernel.params.size()) +
                            " arguments, not " + std::to_string(workload.arguments.size()));
  }
  kernel_ = std::move(kernel);
  cache_ = cache;
  use_ = memory_use(kernel_);
  rounding_ = roughest_rounding(kernel_);
  return make_arrays(workload);
}

Result<void> Session::make_arrays(const Workload& workload) {
  std::vector<uint64_t> sizes;
  array_of_.assign(kernel_.params.size(), 0);
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    if (!kernel_.params[i].type.pointer) continue;
    auto bytes = array_bytes(kernel_.params[i], workload.arguments[i]);
    if (!bytes) return bytes.error();
    array_of_[i] = sizes.size();
    sizes.push_back(*bytes);
  }
  if (auto done = device_.allocate(sizes); !done) return done;
  arguments_.assign(kernel_.params.size(), {});
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    const WorkloadArgument& argument = workload.arguments[i];
    arguments_[i].bits = argument.bits;
    if (!kernel_.params[i].type.pointer) continue;
    arguments_[i] = {device_.data(array_of_[i]), argument.elements, 0};
    if (use_[i].written && !use_[i].read) continue;
    std::vector<std::byte> values(sizes[array_of_[i]]);
    fill_array(kernel_.params[i].type.element, argument, workload.seed, i, values);
    if (auto done = device_.write(array_of_[i], values); !done) return done;
    if (!use_[i].written) continue;
    if (auto done = device_.keep(array_of_[i]); !done) return done;
  }
  return {};
}

Result<void> Session::reset_arrays() {
  for (size_t i = 0; i < use_.size(); ++i) {
    if (!use_[i].written || use_[i].read) continue;
    if (auto done = device_.fill(array_of_[i], kUnwritten); !done) return done;
  }
  return device_.restore();
}

Result<std::string> Session::compare_outputs() {
  std::map<size_t, std::vector<std::byte>> outputs;
  for (size_t i = 0; i < use_.size(); ++i) {
    if (!use_[i].written) continue;
    const dsl::ElementType element = kernel_.params[i].type.element;
    std::vector<std::byte> values(static_cast<size_t>(arguments_[i].extent * dsl::info(element).bytes));
    if (auto done = device_.read(array_of_[i], values); !done) return done.error();
    if (!first_.empty()) {
      const std::string difference = compare_arrays(element, rounding_, first_[i], values);
      if (!difference.empty()) return "array `" + kernel_.params[i].name + "`: " + difference;
    } else {
      outputs[i] = std::move(values);
    }
  }
  if (first_.empty()) first_ = std::move(outputs);
  return std::string();
}

Result<int> Session::launches_for(const UntypedFunction& function) {
  const bool in_place = std::any_of(use_.begin(), use_.end(), [](ParamUse use) { return use.read && use.written; });
  if (in_place || cache_ == Cache::kCold) return 1;
  auto us = device_.time_us(function, arguments_, 1, Cache::kHot);
  if (!us) return us.error();
  return std::clamp(static_cast<int>(std::ceil(kEnough / std::max(*us, 0.01))), 1, kMaxLaunches);
}

Result<Outcome> Session::load(CandidateId id, const Artifact& artifact) {
  loaded_.erase(id);
  auto function = client::load_artifact(kernel_, artifact);
  if (!function) return failed(function.error(), Failure::kCompile);
  if (auto done = reset_arrays(); !done) return failed(done.error(), Failure::kCrash);
  if (auto done = device_.run(*function, arguments_); !done) return failed(done.error(), Failure::kCrash);
  auto difference = compare_outputs();
  if (!difference) return failed(difference.error(), Failure::kCrash);
  if (!difference->empty()) return Outcome{{Failure::kWrongResult, *difference}};
  auto launches = launches_for(*function);
  if (!launches) return failed(launches.error(), Failure::kCrash);
  loaded_[id] = {std::move(*function), *launches};
  return Outcome{};
}

Result<Outcome> Session::measure(CandidateId id) {
  const auto found = loaded_.find(id);
  if (found == loaded_.end()) return invalid_argument("candidate " + std::to_string(id) + " is not loaded");
  auto us = device_.time_us(found->second.function, arguments_, found->second.launches, cache_);
  if (!us) return failed(us.error(), Failure::kCrash);
  return Outcome{{}, false, *us};
}

}  // namespace kiln::autotune
