// Arrays that the kernel reads and writes are kept and restored. Those that it only writes begin as bytes of ones, so
// that a candidate that leaves a part out is seen. A time below kEnough is that of many launches; a kernel with kept
// arrays is launched once, for the second launch would find another input.
#include "session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compare.h"
#include "inputs.h"
#include "kiln/client/artifact.h"
#include "kiln/wire/crash_report.h"

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
  settle();
  loaded_.clear();
  different_.clear();
  has_first_ = false;
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
    if (auto done = write_input(i, workload); !done) return done;
    if (!use_[i].written) continue;
    if (auto done = device_.keep(array_of_[i]); !done) return done;
  }
  return {};
}

Result<void> Session::write_input(size_t param, const Workload& workload) {
  const WorkloadArgument& argument = workload.arguments[param];
  const dsl::ElementType type = kernel_.params[param].type.element;
  if (!argument.file.empty()) {
    auto array = read_array(kernel_.params[param], argument);
    return array ? device_.write(array_of_[param], {array->data(), array->bytes}) : Result<void>(array.error());
  }
  const auto elements = std::min(static_cast<uint64_t>(argument.elements), kPeriod);
  std::vector<std::byte> values(elements * static_cast<uint64_t>(dsl::info(type).bytes));
  fill_array(type, argument, workload.seed, param, values);
  return device_.write(array_of_[param], values);
}

Result<void> Session::reset_arrays() {
  for (size_t i = 0; i < use_.size(); ++i) {
    if (!use_[i].written || use_[i].read) continue;
    if (auto done = device_.fill(array_of_[i], kUnwritten); !done) return done;
  }
  return device_.restore();
}

std::span<std::byte> Session::HostArray::resized(size_t bytes) {
  if (bytes > room) {
    data = std::make_unique_for_overwrite<std::byte[]>(bytes);
    room = bytes;
  }
  size = bytes;
  return {data.get(), size};
}

// Into the memory of the last ones, which is there already.
Result<void> Session::read_outputs() {
  for (size_t i = 0; i < use_.size(); ++i) {
    if (!use_[i].written) continue;
    const auto bytes = static_cast<size_t>(arguments_[i].extent * dsl::info(kernel_.params[i].type.element).bytes);
    if (auto done = device_.read(array_of_[i], last_[i].resized(bytes)); !done) return done;
  }
  return {};
}

std::string Session::compare_outputs() const {
  for (size_t i = 0; i < use_.size(); ++i) {
    if (!use_[i].written) continue;
    const dsl::Param& param = kernel_.params[i];
    const std::string text = compare_arrays(param.type.element, rounding_, first_.at(i).bytes(), last_.at(i).bytes());
    if (!text.empty()) return "array `" + param.name + "`: " + text;
  }
  return "";
}

void Session::settle() {
  if (!comparison_.valid()) return;
  const std::string text = comparison_.get();
  if (text.empty()) return;
  different_[comparing_] = text;
  loaded_.erase(comparing_);
}

std::string Session::difference(CandidateId id) const {
  const auto found = different_.find(id);
  return found == different_.end() ? "" : found->second;
}

void Session::unload(CandidateId id) {
  settle();
  loaded_.erase(id);
  different_.erase(id);
}

Result<int> Session::launches_for(const UntypedFunction& function) {
  const bool in_place = std::any_of(use_.begin(), use_.end(), [](ParamUse use) { return use.read && use.written; });
  if (in_place || cache_ == Cache::kCold) return 1;
  auto us = device_.time_us(function, arguments_, 1, Cache::kHot, 1);
  if (!us) return us.error();
  return std::clamp(static_cast<int>(std::ceil(kEnough / std::max(us->front(), 0.01))), 1, kMaxLaunches);
}

Result<Outcome> Session::load(CandidateId id, const Artifact& artifact) {
  unload(id);
  auto function = client::load_artifact(kernel_, artifact);
  if (!function) return failed(function.error(), Failure::kCompile);
  if (auto done = reset_arrays(); !done) return failed(done.error(), Failure::kCrash);
  if (auto done = device_.run(*function, arguments_); !done) return failed(done.error(), Failure::kCrash);
  if (auto done = read_outputs(); !done) return failed(done.error(), Failure::kCrash);
  const bool is_first = !std::exchange(has_first_, true);
  if (is_first) first_.swap(last_);
  auto launches = launches_for(*function);
  if (!launches) return failed(launches.error(), Failure::kCrash);
  loaded_[id] = {std::move(*function), *launches};
  if (is_first) return Outcome{};
  comparing_ = id;
  comparison_ = std::async(std::launch::async, wire::reporting([this] { return compare_outputs(); }));
  if (device_.apart_from_host()) return Outcome{};
  settle();
  const std::string different = difference(id);
  return different.empty() ? Outcome{} : Outcome{{Failure::kWrongResult, different}};
}

Result<Outcome> Session::measure(CandidateId id, int times) {
  if (const std::string different = difference(id); !different.empty()) {
    return Outcome{{Failure::kWrongResult, different}};
  }
  const auto found = loaded_.find(id);
  if (found == loaded_.end()) return invalid_argument("candidate " + std::to_string(id) + " is not loaded");
  auto us = device_.time_us(found->second.function, arguments_, found->second.launches, cache_, times);
  if (!us) return failed(us.error(), Failure::kCrash);
  return Outcome{{}, false, std::move(*us)};
}

}  // namespace kiln::autotune
