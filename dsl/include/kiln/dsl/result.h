// Errors as values. A function that can fail on its input returns Result<T>; exceptions never cross the edge of a room
// or of a process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace kiln {

// The closed set of error codes: the same in every room and on the wire.
enum class ErrorCode : uint16_t {
  kInvalidArgument,  // the caller's input is wrong: text, flags, arguments of a launch
  kVerifyFailed,     // the kernel breaks a rule of the language
  kCompileFailed,    // this kernel cannot be compiled for this target; repeating does not help
  kWorkerCrashed,    // the worker process died while compiling
  kPoisoned,         // this request killed workers before and is refused for a while
  kOutOfMemory,      // the worker's memory limit
  kDeadlineExceeded,
  kCancelled,
  kResourceExhausted,  // a queue or a limit is full; see retry_after_ms
  kDraining,           // the daemon is shutting down
  kVersionMismatch,    // protocol or builder differs
  kPermissionDenied,
  kNotFound,
  kUnavailable,  // no daemon reachable and none could be started
  kInternal,     // a bug of ours
};

// "INVALID_ARGUMENT", … as on the wire; parse_error_code is its inverse (unknown names give kInternal).
std::string_view to_string(ErrorCode code);
ErrorCode parse_error_code(std::string_view name);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // one clear message that names the thing and the place; may have several lines
  bool retryable = false;
  uint32_t retry_after_ms = 0;
  std::string trace_id;  // of the request, when it went over the wire
};

inline Error error(ErrorCode code, std::string message) { return {code, std::move(message), false, 0, {}}; }
inline Error invalid_argument(std::string message) { return error(ErrorCode::kInvalidArgument, std::move(message)); }
inline Error internal_error(std::string message) { return error(ErrorCode::kInternal, std::move(message)); }

// Either a value or an Error. `value()` on an error is a programming mistake and terminates.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return std::get<1>(state_); }
  Error& error() { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }
  Error& error() { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace kiln
