#include "nvptx/assemble.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <regex>
#include <sstream>

#include "nvptx/ptxas.h"

namespace kiln::codegen::nvptx {
namespace {

// The library's functions that we call, as its documentation declares them (nvJitLink API reference); all return 0 for
// success.
struct JitLink {
  using Handle = void*;
  int (*create)(Handle*, uint32_t option_count, const char** options);
  int (*destroy)(Handle*);
  int (*add_data)(Handle, int input_type, const void* data, size_t size, const char* name);
  int (*complete)(Handle);
  int (*cubin_size)(Handle, size_t*);
  int (*cubin)(Handle, void*);
  int (*error_log_size)(Handle, size_t*);
  int (*error_log)(Handle, char*);
  int (*info_log_size)(Handle, size_t*);
  int (*info_log)(Handle, char*);
};
constexpr int kInputPtx = 2;

void* open_library() {
  // A version of the library assembles PTX up to its own; the newest first.
  if (const char* path = std::getenv("KILN_NVJITLINK"); path && *path) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  for (const char* name : {"libnvJitLink.so.13", "libnvJitLink.so.12", "/usr/local/cuda/lib64/libnvJitLink.so.13",
                           "/usr/local/cuda/lib64/libnvJitLink.so.12"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

std::optional<JitLink> load_library() {
  void* library = open_library();
  if (!library) return std::nullopt;
  JitLink out{};
  bool complete = true;
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    complete = complete && function;
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
  if (!complete) return std::nullopt;
  return out;
}

const std::optional<JitLink>& jit_link() {
  static const std::optional<JitLink> library = load_library();
  return library;
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

  Result<std::vector<std::byte>> assemble(const std::string& ptx) {
    // The library wants the terminating zero to be counted.
    if (status_ == 0) status_ = library_.add_data(handle_, kInputPtx, ptx.c_str(), ptx.size() + 1, "kernel");
    if (status_ == 0) status_ = library_.complete(handle_);
    size_t size = 0;
    if (status_ == 0) status_ = library_.cubin_size(handle_, &size);
    std::vector<std::byte> cubin(size);
    if (status_ == 0) status_ = library_.cubin(handle_, cubin.data());
    if (status_ == 0) return cubin;
    std::string why = handle_ ? read_log(handle_, library_.error_log_size, library_.error_log) : "";
    return internal_error("NVIDIA's assembler refused the code (nvJitLink's result " + std::to_string(status_) +
                          "): " + why);
  }

  std::string log() const { return read_log(handle_, library_.info_log_size, library_.info_log); }

 private:
  const JitLink& library_;
  JitLink::Handle handle_ = nullptr;
  int status_ = 0;
};

int64_t number_before(const std::string& line, const std::string& what) {
  std::smatch match;
  return std::regex_search(line, match, std::regex("(\\d+) " + what)) ? std::stoll(match[1]) : 0;
}

}  // namespace

Resources read_resources(const std::string& log) {
  Resources out;
  std::istringstream lines(log);
  static const std::regex lost_speed("\\(C75\\d\\d\\)");
  for (std::string line; std::getline(lines, line);) {
    if (line.find("spill stores") != std::string::npos) {
      out.stack_bytes = number_before(line, "bytes stack frame");
      out.spill_store_bytes = number_before(line, "bytes spill stores");
      out.spill_load_bytes = number_before(line, "bytes spill loads");
    } else if (line.find("Used ") != std::string::npos) {
      out.registers = static_cast<int>(number_before(line, "registers"));
      out.static_shared_bytes = number_before(line, "bytes smem");
    } else if (std::regex_search(line, lost_speed)) {
      out.warnings.push_back(line);
    }
  }
  return out;
}

namespace {

// The process that runs ptxas for this one. Started once; nothing where there is no ptxas.
const AssemblerProcess* assembler_process() {
  static const std::unique_ptr<AssemblerProcess> process = [] {
    const std::string program = find_ptxas();
    if (program.empty()) return std::unique_ptr<AssemblerProcess>();
    auto started = AssemblerProcess::start(program);
    return started ? std::move(*started) : nullptr;
  }();
  return process.get();
}

Result<Assembled> link(const JitLink& library, const std::string& ptx, const std::string& processor, bool line_tables) {
  const std::string architecture = "-arch=" + processor;
  std::vector<const char*> options = {architecture.c_str(), "-O3", "-Xptxas=-v"};
  if (line_tables) options.push_back("-lineinfo");
  Link link(library, std::move(options));
  auto cubin = link.assemble(ptx);
  if (!cubin) return cubin.error();
  return Assembled{std::move(*cubin), read_resources(link.log())};
}

Result<Assembled> run(const AssemblerProcess& process, const std::string& ptx, const std::string& processor,
                      bool line_tables) {
  auto output = process.assemble(ptx, processor, line_tables);
  if (!output) return output.error();
  return Assembled{std::move(output->cubin), read_resources(output->log)};
}

}  // namespace

void load_assembler() { (void)jit_link(); }

void start_assembler() {
  if (!jit_link()) (void)assembler_process();
}

Result<std::optional<Assembled>> assemble(const std::string& ptx, const std::string& processor, bool line_tables) {
  const auto start = std::chrono::steady_clock::now();
  const std::optional<JitLink>& library = jit_link();
  if (!library && !assembler_process()) return std::optional<Assembled>();
  auto out =
      library ? link(*library, ptx, processor, line_tables) : run(*assembler_process(), ptx, processor, line_tables);
  if (!out) return out.error();
  out->resources.assembler_us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
  return std::optional(std::move(*out));
}

}  // namespace kiln::codegen::nvptx
