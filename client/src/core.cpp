#include "core.h"

#include "gpu/driver.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/source_line.h"
#include "kiln/target/gpu.h"
#include "profile/recorder.h"

namespace kiln::client {
namespace {

constexpr auto kConnectRest = std::chrono::seconds(5);
constexpr auto kChoosingRest = std::chrono::minutes(1);

// Of a worker, which cannot read the source.
Error with_source_line(const CompileSpec& spec, Error error) {
  error.message = dsl::with_source_line(*spec.kernel, error.message);
  return error;
}

}  // namespace

Result<RequestBytes> request_of(const CompileSpec& spec, const dsl::Facts& facts, const std::string& emit) {
  if (spec.code) return dsl::encode_custom_request({*spec.kernel, *spec.code, spec.target});
  if (spec.requests) return spec.requests->encode(spec.target, spec.constexprs, facts, emit);
  return dsl::encode_request({*spec.kernel, spec.target, spec.constexprs, facts, emit});
}

Result<std::shared_ptr<Connection>> Core::connection(uint32_t deadline_ms) {
  const wire::Deadline full = wire::Clock::now() + connect_.start_timeout;
  const wire::Deadline until =
      deadline_ms > 0 ? std::min(full, wire::Clock::now() + std::chrono::milliseconds(deadline_ms)) : full;
  std::unique_lock lock(connection_mutex_, until);
  if (!lock) return error(ErrorCode::kDeadlineExceeded, "no connection to the daemon yet");
  if (connection_) return connection_;
  if (connect_failure_ && wire::Clock::now() < connect_again_) return *connect_failure_;
  // Without a deadline of the caller's the connection keeps the time itself, which it has anew after a standstill.
  auto opened = Connection::open(connect_, until == full ? wire::kNoDeadline : until);
  if (!opened) {
    // A caller in a hurry says nothing about the daemon.
    if (until == full || opened.error().code != ErrorCode::kDeadlineExceeded) {
      connect_failure_ = opened.error();
      connect_again_ = wire::Clock::now() + kConnectRest;
    }
    return opened.error();
  }
  connection_ = std::move(*opened);
  return connection_;
}

Result<std::string> Core::resolve_target(const std::string& target, uint32_t deadline_ms) {
  const std::string kind = target.substr(0, target.find(':'));
  const bool on_device = gpu::is_gpu_kind(kind);
  if (auto known = target::check_gpu_target(target); !known) return known.error();
  if (target == kInterpreter || (kind != target && (kind == "cpu" || on_device))) return target;
  if (on_device) {
    auto present = devices(target);
    if (!present) return present.error();
    return present->front().target;
  }
  if (target != "cpu")
    return invalid_argument("unknown target `" + target + "`; there are `cpu`, `cuda`, `amd` and `interp`");
  auto daemon = connection(deadline_ms);
  if (!daemon) return daemon.error();
  std::string native = (*daemon)->server().native_target;
  if (!native.empty()) return native;
  // The session was lost, and no request has come since that would have opened another one.
  if (auto there = (*daemon)->ping(); !there) return there.error();
  return (*daemon)->server().native_target;
}

Result<Artifact> Core::fetch(const CompileSpec& spec, const dsl::Facts& facts, const std::string& emit,
                             const CompileOptions& options) {
  auto request = request_of(spec, facts, emit);
  if (!request) return request.error();
  auto artifact = fetch(*request, options);
  if (!artifact) return with_source_line(spec, artifact.error());
  return artifact;
}

Result<Artifact> Core::fetch(const RequestBytes& request, const CompileOptions& options) {
  auto daemon = connection(options.deadline_ms);
  if (!daemon) return daemon.error();
  return (*daemon)->fetch(request, options);
}

Result<std::shared_ptr<const Variant>> Core::compile(const CompileSpec& spec, const dsl::Facts& facts,
                                                     const CompileOptions& options) {
  const TimedCompile timed(spec.kernel->name);
  if (spec.target == kInterpreter) return interpreted_variant(*spec.kernel, spec.constexprs, facts);
  auto artifact = fetch(spec, facts, kLoadable, options);
  if (!artifact) return artifact.error();
  return load_variant(*spec.kernel, *artifact, facts);
}

Result<std::shared_ptr<const Variant>> Core::compile_quickly(const CompileSpec& spec, const CompileOptions& options) {
  const TimedCompile timed(spec.kernel->name);
  auto full = request_of(spec, {});
  if (!full) return full.error();
  auto daemon = connection(options.deadline_ms);
  if (!daemon) return daemon.error();
  auto artifact = (*daemon)->get((*daemon)->key_of(*full));
  if (!artifact && artifact.error().code == ErrorCode::kNotFound) {
    auto request = request_of(spec, {}, abi::kQuickEmit);
    if (!request) return request.error();
    artifact = (*daemon)->fetch(*request, options);
  }
  if (!artifact) return with_source_line(spec, artifact.error());
  return load_variant(*spec.kernel, *artifact, {});
}

Result<wire::Tuned> Core::tune(const CompileSpec& spec, const dsl::Facts& facts, const wire::TuneHeader& header,
                               std::stop_token cancel, uint32_t wait_ms) {
  auto request = request_of(spec, facts);
  if (!request) return request.error();
  auto daemon = connection(wait_ms);
  if (!daemon) return daemon.error();
  return (*daemon)->tune(*request, header, std::move(cancel), wait_ms);
}

Result<wire::Tuned> Core::choose(const CompileSpec& spec, const dsl::Facts& facts, const wire::TuneHeader& header,
                                 std::stop_token cancel) {
  auto chosen = tune(spec, facts, header, std::move(cancel));
  if (chosen) return chosen;
  const ErrorCode code = chosen.error().code;
  const bool is_verdict = code == ErrorCode::kInvalidArgument || code == ErrorCode::kCancelled;
  if (!is_verdict) choose_again_ = (wire::Clock::now() + kChoosingRest).time_since_epoch().count();
  return chosen;
}

void Core::stop() {
  tuning_.stop();
  specialising_.stop();
}

}  // namespace kiln::client
