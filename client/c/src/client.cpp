// Clients, bytes, words to stop, and freeing.
#include <dlfcn.h>

#include <filesystem>

#include "errors.h"
#include "objects.h"

namespace kiln::c {
namespace {

// The programs of the installation that this library is part of: what it was built with says how they lie to it.
std::string own_programs_dir() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&kiln_version), &here) == 0 || here.dli_fname == nullptr) return "";
  std::error_code failed;
  const auto library = std::filesystem::weakly_canonical(here.dli_fname, failed);
  if (failed) return "";
  return (library.parent_path() / KILN_BIN_FROM_LIB).lexically_normal().string();
}

Result<ClientOptions> client_options(const kiln_client_options& from) {
  ClientOptions out;
  client::ConnectOptions& connect = out.connect;
  connect.runtime_dir = text_or(from.runtime_dir, "");
  connect.kilnd_path = text_or(from.kilnd_path, "");
  connect.worker_path = text_or(from.worker_path, "");
  connect.programs_dir = from.programs_dir ? from.programs_dir : own_programs_dir();
  connect.client_name = text_or(from.client_name, "kiln-c");
  connect.autostart = from.no_autostart == 0;
  connect.exact_build = from.any_build == 0;
  connect.allow_pipe = from.no_pipe == 0;
  if (from.start_timeout_ms != 0) connect.start_timeout = std::chrono::milliseconds(from.start_timeout_ms);
  if (auto fine = check_pointer(from.daemon_args, from.daemon_arg_count, "daemon_args"); !fine) return fine.error();
  for (uint32_t i = 0; i < from.daemon_arg_count; ++i) {
    if (auto fine = check_pointer(from.daemon_args[i], "daemon_args[i]"); !fine) return fine.error();
    connect.daemon_args.emplace_back(from.daemon_args[i]);
  }
  out.specialise_in_background = from.no_background == 0;
  return out;
}

}  // namespace

extern "C" {

kiln_status kiln_free(void* handle) {
  return guarded([&] { return free_handle(handle); });
}

const char* kiln_bytes_data(kiln_bytes* bytes) {
  return guarded_value<const char*>(nullptr, [&](const char*& out) -> Result<void> {
    auto object = pin<BytesObject>(bytes, "bytes");
    if (!object) return object.error();
    out = (*object)->bytes.c_str();
    return {};
  });
}

size_t kiln_bytes_size(kiln_bytes* bytes) {
  return guarded_value<size_t>(0, [&](size_t& out) -> Result<void> {
    auto object = pin<BytesObject>(bytes, "bytes");
    if (!object) return object.error();
    out = (*object)->bytes.size();
    return {};
  });
}

kiln_status kiln_cancel_create(kiln_cancel** cancel) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(cancel, "cancel"); !fine) return fine;
    give<CancelObject>(cancel);
    return {};
  });
}

kiln_status kiln_cancel_request(kiln_cancel* cancel) {
  return guarded([&]() -> Result<void> {
    auto object = pin<CancelObject>(cancel, "cancel");
    if (!object) return object.error();
    (*object)->source.request_stop();
    return {};
  });
}

kiln_status kiln_client_create(const kiln_client_options* options, kiln_client** client) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(client, "client"); !fine) return fine;
    auto known = read_options(options, "kiln_client_options");
    if (!known) return known.error();
    auto chosen = client_options(*known);
    if (!chosen) return chosen.error();
    give<ClientObject>(client, std::move(*chosen));
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
