// One worker: takes compile jobs one at a time until it is told to stop, has done its share, or has grown too large.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "kiln/wire/crash_report.h"
#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"
#include "worker_log.h"
#include "zygote.h"

namespace kiln::worker {
namespace {

using wire::Channel;
using wire::Type;

// An allocation failed somewhere in the compiler, perhaps in code built without exceptions: the exit code is the only
// message that needs no memory.
void out_of_memory() { ::_exit(kExitOutOfMemory); }

// What a worker has open beside its channel; in the sandbox nothing can be opened.
struct Files {
  WorkerLog log{::secure_getenv("KILN_WORKER_LOG") != nullptr};
  wire::UniqueFd statm{::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)};

  struct Sizes {
    uint64_t address_space = 0, resident = 0;
  };
  Sizes sizes() const {
    char text[128] = {};
    unsigned long long total = 0, resident = 0;
    if (::pread(statm.get(), text, sizeof text - 1, 0) <= 0) return {};
    if (std::sscanf(text, "%llu %llu", &total, &resident) != 2) return {};
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    return {total * page, resident * page};
  }
  const uint64_t at_first = sizes().address_space;  // before any job
};

// With less than it has already a worker could not even say so.
Result<void> check_memory(uint64_t bytes, const Files& files) {
  if (bytes == 0 || bytes >= files.at_first || !memory_can_be_limited()) return {};
  return error(ErrorCode::kOutOfMemory, "memory_bytes (or --worker-memory) is " + std::to_string(bytes) +
                                            ", and a worker has " + std::to_string(files.at_first) +
                                            " bytes of address space before it compiles");
}

// A library that gets no memory says so in the system's words.
bool lacked_memory(const Error& failure) {
  return failure.code == ErrorCode::kInternal && failure.message.find(std::strerror(ENOMEM)) != std::string::npos;
}

// The limit counts processor time of the whole process, so it moves on with each job.
void arm_cpu_limit(uint64_t seconds) {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  rlimit limit{};
  ::getrlimit(RLIMIT_CPU, &limit);
  const auto end = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1) + seconds;
  limit.rlim_cur = std::min(end, limit.rlim_max);
  ::setrlimit(RLIMIT_CPU, &limit);
}

Result<Artifact> compile_job(const wire::Frame& job, Channel& channel, const Compiler& compiler) {
  auto body = wire::split_compile_body(job.body);
  if (!body) return body.error();
  Progress progress = [&](std::string_view phase) {
    std::string json = wire::dump({{"phase", phase}});
    (void)channel.write({.type = Type::kPhase, .request_id = job.id(), .json = json});
  };
  try {
    auto result = compiler.compile(body->canonical, body->debug, progress);
    if (!result && lacked_memory(result.error())) out_of_memory();
    return result;
  } catch (const std::bad_alloc&) {
    out_of_memory();
  } catch (const std::exception& failure) {
    return internal_error(std::string("exception in the compiler: ") + failure.what());
  } catch (...) {
    return internal_error("exception in the compiler");
  }
  return internal_error("not reached");
}

// Begin and end are logged with the request's trace id, and a crash in between names its key.
Result<Artifact> logged_job(const wire::Frame& job, Channel& channel, const Limits& limits, const Compiler& compiler,
                            const Files& files) {
  auto header = wire::parse_object(job.json);
  if (!header) return header.error();
  wire::Fields fields(*header);
  const std::string key = fields.text("key"), trace_id = fields.text("trace_id");
  const uint64_t memory = fields.number("memory_bytes", limits.memory_bytes);
  if (auto enough = check_memory(memory, files); !enough) return enough.error();
  limit_memory(memory);
  arm_cpu_limit(fields.number("cpu_seconds", limits.cpu_seconds));
  const WorkerLog& log = files.log;
  log.write("compiling", {{"key", key}, {"trace_id", trace_id}});
  if (RequestKey parsed{}; parse_hex(key, parsed)) wire::note_running(1, parsed);
  const auto begun = std::chrono::steady_clock::now();
  auto result = compile_job(job, channel, compiler);
  wire::note_ended(1);
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
  if (result) {
    log.write("compiled", {{"key", key}, {"trace_id", trace_id}, {"ms", ms}, {"bytes", result->code.size()}});
  } else {
    log.write("failed", {{"key", key}, {"trace_id", trace_id}, {"ms", ms}, {"message", result.error().message}});
  }
  return result;
}

Result<void> reply(Channel& channel, uint64_t id, const Result<Artifact>& result, uint32_t flags) {
  Error failure;
  if (result) {
    const std::string metadata = abi::write_metadata(result->metadata);
    if (metadata.size() <= wire::kMaxJsonSize && result->code.size() <= wire::kMaxBodySize) {
      return channel.write(
          {.type = Type::kResult, .request_id = id, .json = metadata, .body = {result->code}, .flags = flags});
    }
    failure = internal_error("the artifact is too large: " + std::to_string(metadata.size()) + " bytes of metadata, " +
                             std::to_string(result->code.size()) + " bytes of code");
  } else {
    failure = result.error();
  }
  const std::string json = wire::to_text(std::move(failure));
  return channel.write({.type = Type::kError, .request_id = id, .json = json, .body = {}, .flags = flags});
}

}  // namespace

void worker_main(Channel channel, const Limits& limits, const Compiler& compiler, int parent_pid) {
  const Files files;
  if (auto status = enter_sandbox(limits, parent_pid, compiler.start_helpers); !status) {
    std::fprintf(stderr, "kiln-worker: %s\n", status.error().message.c_str());
    ::_exit(1);
  }
  std::set_new_handler(out_of_memory);
  for (uint64_t done = 1;; ++done) {
    auto job = channel.read();
    if (!job) ::_exit(job.error().code == ErrorCode::kUnavailable ? 0 : 1);
    if (job->type() != Type::kCompile) ::_exit(1);
    auto result = logged_job(*job, channel, limits, compiler, files);
    // The flag tells the daemon not to send another job to a process that is about to leave.
    bool last = done >= limits.max_jobs || files.sizes().resident > limits.max_rss_bytes;
    if (auto sent = reply(channel, job->id(), result, last ? wire::flag::kLast : 0); !sent) ::_exit(1);
    if (last) ::_exit(0);
  }
}

}  // namespace kiln::worker
