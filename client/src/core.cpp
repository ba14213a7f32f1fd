#include "core.h"

#include "gpu/driver.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/binary.h"

namespace kiln::client {

Result<std::shared_ptr<Connection>> Core::connection() {
  std::lock_guard lock(connection_mutex_);
  if (!connection_) {
    auto opened = Connection::open(connect_);
    if (!opened) return opened.error();
    connection_ = std::move(*opened);
  }
  return connection_;
}

Result<std::string> Core::resolve_target(const std::string& target) {
  const std::string kind = target.substr(0, target.find(':'));
  const bool on_device = gpu::is_device_kind(kind);
  if (target == kInterpreter || (kind != target && (kind == "cpu" || on_device))) return target;
  if (on_device) {
    auto present = devices(target);
    if (!present) return present.error();
    return present->front().target;
  }
  if (target != "cpu")
    return invalid_argument("unknown target `" + target + "`; there are `cpu`, `cuda`, `amd` and `interp`");
  auto daemon = connection();
  if (!daemon) return daemon.error();
  return (*daemon)->server().native_target;
}

Result<std::shared_ptr<const Variant>> Core::compile(const CompileSpec& spec, const dsl::Facts& facts,
                                                     const CompileOptions& options) {
  if (spec.target == kInterpreter) return interpreted_variant(*spec.kernel, spec.constexprs, facts);
  auto request = dsl::encode_request({*spec.kernel, spec.target, spec.constexprs, facts});
  if (!request) return request.error();
  auto daemon = connection();
  if (!daemon) return daemon.error();
  auto artifact = (*daemon)->fetch(*request, options);
  if (!artifact) return artifact.error();
  return load_variant(*spec.kernel, *artifact, facts);
}

void Core::run_behind(std::function<void(std::stop_token)> task) {
  std::lock_guard lock(mutex_);
  if (stopped_) return;
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { work(std::move(stop)); });
  wake_.notify_one();
}

void Core::work(std::stop_token stop) {
  for (;;) {
    std::function<void(std::stop_token)> task;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [&] { return !tasks_.empty(); }) || stop.stop_requested()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task(stop);
  }
}

void Core::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    tasks_.clear();
  }
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
}

}  // namespace kiln::client
