// Loads a shared object that lies in memory: the dynamic linker wants a file, so it gets one without a name (memfd),
// and where that is not allowed, a temporary one that is gone as soon as it is mapped.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "kiln/client/runtime.h"
#include "lifetime.h"

namespace kiln::client {
namespace {

class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  ~OwnedFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

// The dynamic linker takes two libraries of equal path for one, even when the descriptor's number was closed and used
// again in between. So every load spells the path differently: each bit of a counter is a "/" or a "./" more. The
// process goes by its number: a debugger opens the path too, and what it has itself by this descriptor may be a pipe,
// on which it would wait for ever.
std::string unique_path(int fd) {
  static std::atomic<uint64_t> counter{1};
  std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/";
  for (uint64_t n = counter.fetch_add(1, std::memory_order_relaxed); n != 0; n >>= 1) path += (n & 1) ? "./" : "/";
  return path + std::to_string(fd);
}

void* open_library(const std::string& path) {
  const LinkerTurn turn;
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

// A number that programs hardly come to: by the time that a debugger attaches, the path is nobody's.
int raised(int fd) {
  constexpr int kHigh = 768;
  const int high = fd < 0 ? fd : ::fcntl(fd, F_DUPFD_CLOEXEC, kHigh);
  if (high < 0) return fd;
  ::close(fd);
  return high;
}

// dlerror's text belongs to the calling thread and is cleared by reading it.
std::string linker_message() {
  const char* message = ::dlerror();
  return message != nullptr ? message : "unknown reason";
}

void* load_from_memfd(std::span<const std::byte> bytes, std::string& why) {
  const OwnedFd fd(raised(::memfd_create("kiln-kernel", MFD_CLOEXEC)));
  if (fd.get() < 0 || !write_all(fd.get(), bytes)) {
    why = std::string("memfd: ") + std::strerror(errno);
    return nullptr;
  }
  void* handle = open_library(unique_path(fd.get()));
  if (handle == nullptr) why = linker_message();
  return handle;
}

void* load_from_temporary_file(std::span<const std::byte> bytes, std::string& why) {
  const char* directory = ::secure_getenv("TMPDIR");
  std::string path = std::string(directory != nullptr && *directory != 0 ? directory : "/tmp") + "/kiln-XXXXXX";
  OwnedFd fd(::mkstemp(path.data()));
  if (fd.get() < 0) {
    why = path + ": " + std::strerror(errno);
    return nullptr;
  }
  void* handle = nullptr;
  if (!write_all(fd.get(), bytes)) {
    why = path + ": " + std::strerror(errno);
  } else if ((handle = open_library(path)) == nullptr) {
    why = linker_message();
  }
  ::unlink(path.c_str());
  return handle;
}

}  // namespace

Result<std::shared_ptr<const Module>> Module::load(std::span<const std::byte> shared_object, const std::string& entry) {
  std::string why, why_file;
  void* handle = load_from_memfd(shared_object, why);
  if (handle == nullptr) handle = load_from_temporary_file(shared_object, why_file);
  if (handle == nullptr) {
    return error(ErrorCode::kInternal, "cannot load the compiled kernel: " + why + "; " + why_file);
  }
  std::shared_ptr<Module> module(new Module(handle));
  module->entry_ = module->find(entry);
  if (module->entry_ == nullptr) {
    return error(ErrorCode::kInternal, "the compiled kernel has no symbol `" + entry + "`");
  }
  return std::shared_ptr<const Module>(std::move(module));
}

Result<std::shared_ptr<const Module>> Module::open(const std::string& path, const std::string& entry) {
  // A name without a slash would be looked for where libraries are.
  void* handle = open_library(path.find('/') == std::string::npos ? "./" + path : path);
  if (handle == nullptr) return invalid_argument("cannot load the shared object: " + linker_message());
  std::shared_ptr<Module> module(new Module(handle));
  module->entry_ = module->find(entry);
  if (module->entry_ == nullptr) return invalid_argument(path + " has no symbol `" + entry + "`");
  return std::shared_ptr<const Module>(std::move(module));
}

kiln_entry_fn Module::find(const std::string& entry) const {
  return reinterpret_cast<kiln_entry_fn>(::dlsym(handle_, entry.c_str()));
}

Module::~Module() {
  const LinkerTurn turn;
  ::dlclose(handle_);
}

}  // namespace kiln::client
