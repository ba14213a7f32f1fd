// `kiln reproduce`: compiles a stored request again, in a process of its own in the foreground, so that a crash can be
// looked at and a difference is seen.
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>

#include "commands.h"
#include "entries.h"
#include "kiln/wire/files.h"
#include "kiln/wire/messages.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/printable.h"
#include "kiln/wire/process.h"
#include "kiln/wire/trusted.h"
#include "scratch_directory.h"

namespace kiln::cli {
namespace {

Result<std::string> worker_program(const std::string& stated) {
  if (!stated.empty()) return wire::find_program(stated);
  auto kilnd = wire::find_kilnd();
  if (!kilnd) return kilnd.error();
  return wire::find_worker(*kilnd);
}

// What the compiler makes of the request; it writes its phases to standard error.
Result<std::string> compile_again(const std::string& worker, std::span<const std::byte> request) {
  ScratchDirectory scratch("kiln-reproduce");
  if (!scratch.is_there()) return internal_error("no directory for temporary files can be made");
  const std::span<const std::byte> pieces[] = {request};
  if (auto written = wire::write_file(scratch / "request", pieces); !written) return written.error();
  auto pid = wire::spawn({.command = {worker, "--compile", scratch / "request", scratch / "code"}});
  if (!pid) return pid.error();
  int status = 0;
  ::waitpid(*pid, &status, 0);
  if (WIFSIGNALED(status))
    return error(ErrorCode::kWorkerCrashed, "the compiler was ended by " + wire::exit_text(status));
  if (WEXITSTATUS(status) != 0) return error(ErrorCode::kCompileFailed, "the compiler refused the request");
  return wire::read_text(scratch / "code");
}

// What is compiled again, and what it must give: empty after a crash.
struct Replay {
  std::vector<std::byte> request, code;
  std::string path;
};

// A request that a daemon had in flight when it crashed, in a file beside its report.
Result<Replay> kept_request(const std::string& path) {
  auto text = wire::read_text(path);
  if (!text) return text.error();
  const auto bytes = std::as_bytes(std::span(*text));
  if (auto body = wire::split_compile_body(bytes); !body) return invalid_argument(path + ": no compile request");
  return Replay{{bytes.begin(), bytes.end()}, {}, path};
}

Result<Replay> stored_request(const ReproduceFlags& flags) {
  if (!is_key(flags.key)) {
    return invalid_argument(flags.key + ": give a key, its first 8 digits or more, or the path of a kept request");
  }
  auto root = cache_root(flags.cache_directory);
  if (!root) return root.error();
  auto file = find_by_key(*root, flags.key);
  if (!file) return file.error();
  auto entry = load_entry(*file);
  if (!entry) return invalid_argument(file->path + ": " + entry.error().message);
  const wire::EntryView& view = entry->view;
  if (view.request.empty()) return invalid_argument(flags.key + ": its request was too large to be kept");
  return Replay{{view.request.begin(), view.request.end()}, {view.code.begin(), view.code.end()}, file->path};
}

}  // namespace

Result<void> reproduce(const ReproduceFlags& flags) {
  const bool is_path = flags.key.find('/') != std::string::npos;
  auto replay = is_path ? kept_request(flags.key) : stored_request(flags);
  if (!replay) return replay.error();
  auto worker = worker_program(flags.worker);
  if (!worker) return worker.error();
  auto code = compile_again(*worker, replay->request);
  if (!code) return code.error();
  const auto bytes = std::as_bytes(std::span(*code));
  if (!flags.output.empty()) {
    const std::span<const std::byte> pieces[] = {bytes};
    if (auto written = wire::write_file(flags.output, pieces); !written) return written;
  }
  if (replay->code.empty()) {
    std::printf("compiled without a crash: %zu bytes\n", bytes.size());
    return {};
  }
  if (!std::ranges::equal(bytes, replay->code)) {
    return internal_error("another code than the stored: " + std::to_string(bytes.size()) + " bytes against " +
                          std::to_string(replay->code.size()));
  }
  std::printf("the same %zu bytes as in %s\n", bytes.size(), wire::printable(replay->path).c_str());
  return {};
}

}  // namespace kiln::cli
