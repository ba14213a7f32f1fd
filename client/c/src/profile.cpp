// Profiles.
#include "kiln/client/profile.h"

#include <vector>

#include "arrays.h"
#include "errors.h"

namespace kiln::c {
namespace {

// The calling thread's open scopes, the innermost last. C has no destructors: they go with the thread.
std::vector<std::unique_ptr<profile::Scope>>& scopes() {
  thread_local std::vector<std::unique_ptr<profile::Scope>> open;
  return open;
}

}  // namespace

extern "C" {

kiln_status kiln_profile_start(int32_t device_times) {
  return guarded([&] { return profile::start({.device_times = device_times != 0}); });
}

kiln_status kiln_profile_stop(kiln_bytes** summary, kiln_bytes** trace) {
  return guarded([&]() -> Result<void> {
    auto profile = profile::stop();
    if (!profile) return profile.error();
    // Before anything is given: memory may be short.
    std::string table = summary != nullptr ? profile::summary(*profile) : "";
    std::string json = trace != nullptr ? profile::trace_json(*profile) : "";
    if (summary != nullptr) give<BytesObject>(summary, std::move(table));
    if (trace != nullptr) give<BytesObject>(trace, std::move(json));
    return {};
  });
}

kiln_status kiln_profile_begin(const char* name) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(name, "name"); !fine) return fine;
    scopes().push_back(std::make_unique<profile::Scope>(name));
    return {};
  });
}

kiln_status kiln_profile_end(void) {
  return guarded([&]() -> Result<void> {
    if (scopes().empty()) return invalid_argument("kiln_profile_end(): this thread has begun no part that is open");
    scopes().pop_back();
    return {};
  });
}

kiln_status kiln_profile_fallback(const char* name, const char* why, uint64_t bytes) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(name, "name"); !fine) return fine;
    if (auto fine = check_pointer(why, "why"); !fine) return fine;
    profile::fallback(name, why, bytes);
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
