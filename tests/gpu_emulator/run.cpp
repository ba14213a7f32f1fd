#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "block.h"
#include "gpu_emulator.h"

namespace kiln::test {
namespace {

// A shared object from memory.
class Library {
 public:
  explicit Library(const std::vector<std::byte>& code) {
    const int fd = memfd_create("kiln-gpu-emulator", MFD_CLOEXEC);
    if (write(fd, code.data(), code.size()) == static_cast<ssize_t>(code.size())) {
      handle_ = dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    close(fd);
  }
  ~Library() {
    if (handle_) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  EmulatedEntry entry() const {
    return handle_ ? reinterpret_cast<EmulatedEntry>(dlsym(handle_, "kiln_emulated_entry")) : nullptr;
  }

 private:
  void* handle_ = nullptr;
};

// Copies of the arguments, at addresses that are multiples of no more than they must be.
class Launch {
 public:
  Launch(const Artifact& artifact, const dsl::Kernel& kernel, std::span<const dsl::Argument> arguments)
      : params_(8 * arguments.size()) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const dsl::Param& param = kernel.params[i];
      uint64_t bits = arguments[i].bits;
      if (param.type.pointer) {
        const auto element = static_cast<size_t>(dsl::info(param.type.element).bytes);
        const nlohmann::json& aligned = artifact.metadata["aligned"];
        const bool is_aligned = i < aligned.size() && aligned[i].get<bool>();
        const size_t bytes = static_cast<size_t>(arguments[i].extent) * element;
        add_buffer(param.name, arguments[i].data, bytes, is_aligned ? 16 : element);
        bits = reinterpret_cast<uint64_t>(buffers_.back().data);
      }
      std::memcpy(params_.data() + 8 * i, &bits, 8);
    }
  }

  Result<void> run(const EmulatedCode& code, std::array<uint32_t, 3> grid, ThreadOrder order) {
    Block block(code, params_.data(), buffers_);
    Program program{{}, grid};
    for (program.id[2] = 0; program.id[2] < grid[2]; ++program.id[2]) {
      for (program.id[1] = 0; program.id[1] < grid[1]; ++program.id[1]) {
        for (program.id[0] = 0; program.id[0] < grid[0]; ++program.id[0]) {
          if (auto done = block.run(program, order); !done) return done;
        }
      }
    }
    return {};
  }

  const std::vector<GlobalBuffer>& buffers() const { return buffers_; }

 private:
  void add_buffer(const std::string& name, const void* data, size_t bytes, size_t alignment) {
    constexpr size_t kRoom = 256;
    memory_.emplace_back(bytes + 3 * kRoom, std::byte{0xa5});
    const auto start = reinterpret_cast<uintptr_t>(memory_.back().data());
    const size_t offset = (start / kRoom + 1) * kRoom - start + alignment;
    buffers_.push_back({name, memory_.back().data() + offset, bytes});
    if (bytes) std::memcpy(buffers_.back().data, data, bytes);
  }

  std::vector<std::byte> params_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<GlobalBuffer> buffers_;
};

Result<void> compare(const Launch& a, const Launch& b) {
  for (size_t i = 0; i < a.buffers().size(); ++i) {
    const GlobalBuffer &x = a.buffers()[i], &y = b.buffers()[i];
    for (size_t byte = 0; byte < x.bytes; ++byte) {
      if (x.data[byte] == y.data[byte]) continue;
      return internal_error("byte " + std::to_string(byte) + " of `" + x.name + "` depends on the order of threads");
    }
  }
  return {};
}

}  // namespace

Result<void> run_emulated(const Artifact& artifact, const dsl::Kernel& kernel, std::span<const dsl::Argument> arguments,
                          std::array<uint32_t, 3> grid) {
  const Library library(artifact.code);
  const EmulatedCode code{library.entry(), artifact.metadata["lanes"], artifact.metadata["threads"],
                          artifact.metadata["shared_bytes"]};
  if (!code.entry) return internal_error(std::string("dlopen: ") + dlerror());
  Launch forward(artifact, kernel, arguments);
  Result<void> done = forward.run(code, grid, ThreadOrder::kForward);
  if (done && artifact.metadata["any_order"].get<bool>()) {
    const ThreadOrder other = artifact.code.size() / 8 % 2 == 0 ? ThreadOrder::kReverse : ThreadOrder::kRandom;
    Launch again(artifact, kernel, arguments);
    done = again.run(code, grid, other);
    if (done) done = compare(forward, again);
  }
  size_t next = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!kernel.params[i].type.pointer) continue;
    const GlobalBuffer& buffer = forward.buffers()[next++];
    if (buffer.bytes) std::memcpy(arguments[i].data, buffer.data, buffer.bytes);
  }
  return done;
}

}  // namespace kiln::test
