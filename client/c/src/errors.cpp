// Status and message of a thread's last failure.
#include "errors.h"

#include <cstring>
#include <string>

#include "lifetime.h"

namespace kiln::c {
namespace {

static_assert(KILN_INVALID_ARGUMENT == 1 + static_cast<int>(ErrorCode::kInvalidArgument));
static_assert(KILN_POISONED == 1 + static_cast<int>(ErrorCode::kPoisoned));
static_assert(KILN_RESOURCE_EXHAUSTED == 1 + static_cast<int>(ErrorCode::kResourceExhausted));
static_assert(KILN_NOT_FOUND == 1 + static_cast<int>(ErrorCode::kNotFound));
static_assert(KILN_INTERNAL == 1 + static_cast<int>(ErrorCode::kInternal));

struct LastError {
  std::string message;
  bool out_of_memory = false;  // and the message could not be kept
  bool retryable = false;
  uint32_t retry_after_ms = 0;
};
LastError& last() { return client::of_thread<LastError>(); }

}  // namespace

kiln_status keep(Error error) noexcept {
  try {
    LastError& here = last();
    here = {std::move(error.message), false, error.retryable, error.retry_after_ms};
    if (!error.trace_id.empty()) here.message += " (trace " + error.trace_id + ")";
  } catch (const std::exception&) {
    return keep_out_of_memory();
  }
  return 1 + static_cast<kiln_status>(error.code);
}

kiln_status keep_out_of_memory() noexcept {
  try {
    last() = {"", true, false, 0};
  } catch (const std::exception&) {  // then the message before stays
  }
  return KILN_OUT_OF_MEMORY;
}

Error null_argument(const char* name) { return invalid_argument("`" + std::string(name) + "` is NULL"); }

Result<void> copy_options(const void* given, void* known, size_t size, const char* name) {
  size_t theirs = 0;
  std::memcpy(&theirs, given, sizeof theirs);
  // Of every version it is a multiple of its own size: another one would cut a pointer in two.
  if (theirs < sizeof theirs || theirs > 4096 || theirs % sizeof theirs != 0) {
    return invalid_argument(std::string(name) + "::size is " + std::to_string(theirs) + ": set it to sizeof(" + name +
                            "), and what you do not choose to 0");
  }
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (size_t i = size; i < theirs; ++i) {
    if (bytes[i] == 0) continue;
    return error(ErrorCode::kVersionMismatch, std::string(name) + " has a field that this libkiln does not know");
  }
  std::memcpy(known, given, std::min(size, theirs));
  return {};
}

extern "C" {

const char* kiln_version(void) { return KILN_VERSION; }

const char* kiln_error_message(void) {
  try {
    const LastError& here = last();
    return here.out_of_memory ? "there is no memory" : here.message.c_str();
  } catch (const std::exception&) {
    return "there is no memory";
  }
}

int32_t kiln_error_is_retryable(void) {
  return guarded_value<int32_t>(0, [](int32_t& out) -> Result<void> {
    out = last().retryable ? 1 : 0;
    return {};
  });
}

uint32_t kiln_error_retry_after_ms(void) {
  return guarded_value<uint32_t>(0, [](uint32_t& out) -> Result<void> {
    out = last().retry_after_ms;
    return {};
  });
}

const char* kiln_status_name(kiln_status status) {
  if (status == KILN_OK) return "OK";
  if (status < KILN_INVALID_ARGUMENT || status > KILN_INTERNAL) return "UNKNOWN";
  return to_string(static_cast<ErrorCode>(status - 1)).data();
}

}  // extern "C"

}  // namespace kiln::c
