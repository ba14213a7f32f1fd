#include "nvptx/jit_link.h"

#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>

namespace kiln::codegen::nvptx {
namespace {

constexpr int kInputPtx = 2;
constexpr int kUnrecognizedOption = 1, kUnrecognizedArch = 16, kUnsupportedArch = 17;
constexpr const char* kVariable = "KILN_NVJITLINK";

Result<void*> open_library(const char* path) {
  if (void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return library;
  return error(ErrorCode::kUnavailable, dlerror());
}

Result<JitLink> load(const char* path, const Outside& outside) {
  auto opened = outside.open_library ? outside.open_library(path) : open_library(path);
  if (!opened) return error(ErrorCode::kUnavailable, "cannot be loaded: " + opened.error().message);
  void* library = *opened;
  JitLink out{};
  const char* missing = nullptr;
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function && !missing) missing = name;
  };
  find(out.create, "nvJitLinkCreate");
  find(out.destroy, "nvJitLinkDestroy");
  find(out.add_data, "nvJitLinkAddData");
  find(out.complete, "nvJitLinkComplete");
  find(out.cubin_size, "nvJitLinkGetLinkedCubinSize");
  find(out.cubin, "nvJitLinkGetLinkedCubin");
  find(out.error_log_size, "nvJitLinkGetErrorLogSize");
  find(out.error_log, "nvJitLinkGetErrorLog");
  find(out.info_log_size, "nvJitLinkGetInfoLogSize");
  find(out.info_log, "nvJitLinkGetInfoLog");
  if (missing) return error(ErrorCode::kUnavailable, std::string("has no function ") + missing);
  return out;
}

std::string read_log(JitLink::Handle handle, int (*size_of)(JitLink::Handle, size_t*),
                     int (*read)(JitLink::Handle, char*)) {
  size_t size = 0;
  if (size_of(handle, &size) != 0 || size == 0) return "";
  std::string out(size, '\0');
  if (read(handle, out.data()) != 0) return "";
  out.resize(out.find_last_not_of(std::string_view("\0\n", 2)) + 1);
  return out;
}

// One link, from creation to destruction.
class Link {
 public:
  Link(const JitLink& library, std::vector<const char*> options) : library_(library) {
    status_ = library.create(&handle_, static_cast<uint32_t>(options.size()), options.data());
  }
  ~Link() {
    if (handle_) library_.destroy(&handle_);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  bool knows_its_options() const { return status_ != kUnrecognizedOption; }

  Result<Linked> link(const std::string& ptx) {
    // The library wants the terminating zero to be counted.
    if (status_ == 0) status_ = library_.add_data(handle_, kInputPtx, ptx.c_str(), ptx.size() + 1, "kernel");
    if (status_ == 0) status_ = library_.complete(handle_);
    size_t size = 0;
    if (status_ == 0) status_ = library_.cubin_size(handle_, &size);
    std::vector<std::byte> cubin(size);
    if (status_ == 0) status_ = library_.cubin(handle_, cubin.data());
    if (status_ == 0) return Linked{std::move(cubin), log(library_.info_log_size, library_.info_log)};
    const std::string why = handle_ ? log(library_.error_log_size, library_.error_log) : "";
    const bool is_too_old = status_ == kUnrecognizedArch || status_ == kUnsupportedArch ||
                            why.find("Unsupported .version") != std::string::npos;
    return error(is_too_old ? ErrorCode::kUnavailable : ErrorCode::kInternal,
                 "NVIDIA's assembler refused the code (nvJitLink's result " + std::to_string(status_) + "): " + why);
  }

 private:
  std::string log(int (*size_of)(JitLink::Handle, size_t*), int (*read)(JitLink::Handle, char*)) const {
    return read_log(handle_, size_of, read);
  }

  const JitLink& library_;
  JitLink::Handle handle_ = nullptr;
  int status_ = 0;
};

}  // namespace

Result<std::optional<JitLink>> find_jit_link(const Outside& outside) {
  if (const char* path = ::secure_getenv(kVariable); path && *path) {
    auto named = load(path, outside);
    if (named) return std::optional(*named);
    return error(ErrorCode::kCompileFailed,
                 std::string(kVariable) + " names " + path + ", which " + named.error().message);
  }
  // Who names a program wants that.
  if (const char* program = ::secure_getenv("KILN_PTXAS"); program && *program) return std::optional<JitLink>();
  // A version of the library assembles PTX up to its own; the newest first.
  for (const char* name : {"libnvJitLink.so.13", "libnvJitLink.so.12", "/usr/local/cuda/lib64/libnvJitLink.so.13",
                           "/usr/local/cuda/lib64/libnvJitLink.so.12"}) {
    if (auto found = load(name, outside)) return std::optional(*found);
  }
  return std::optional<JitLink>();
}

Result<Linked> link(const JitLink& library, const std::string& ptx, const std::string& processor, bool line_tables) {
  const std::string architecture = "-arch=" + processor;
  std::vector<const char*> options = {architecture.c_str(), "-O3", "-Xptxas=-v"};
  if (line_tables) options.push_back("-lineinfo");
  // What the library has in a cache of its own comes without the log, which says what is to be tried next: code would
  // depend on what had been assembled before. An old library does not know the option.
  options.push_back("-no-cache");
  Link uncached(library, options);
  if (uncached.knows_its_options()) return uncached.link(ptx);
  options.pop_back();
  return Link(library, std::move(options)).link(ptx);
}

}  // namespace kiln::codegen::nvptx
