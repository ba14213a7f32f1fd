#include "cuda_device.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "variant.h"

namespace kiln::test {
namespace {

constexpr size_t kGuard = 512;
constexpr std::byte kGuardByte{0xa5};

struct CudaTarget {
  std::string name;
  std::string emit;
};

CudaTarget choose_target() {
  const auto present = devices("cuda");
  const std::string own = present ? present->front().target : "cuda:sm_90a";
  const char* wanted = std::getenv("KILN_TEST_CUDA");
  const std::string name = wanted && *wanted ? wanted : own;
  // Of other targets' machine code the device runs little, of PTX all that is no newer than it.
  return {name, name == own ? "so" : "ptx"};
}

// A buffer of the device between guard bytes.
class GuardedMemory {
 public:
  // `skew` bytes off the alignment of an allocation.
  static Result<GuardedMemory> create(const Device& device, const std::vector<std::byte>& bytes, size_t skew) {
    auto memory = DeviceMemory::allocate(device, bytes.size() + 2 * kGuard + skew);
    if (!memory) return memory.error();
    GuardedMemory out(std::move(*memory), kGuard + skew, bytes.size());
    std::vector<std::byte> all(out.memory_.bytes(), kGuardByte);
    std::copy(bytes.begin(), bytes.end(), all.begin() + static_cast<ptrdiff_t>(out.first_));
    if (auto copied = out.memory_.copy_from(all); !copied) return copied.error();
    return out;
  }

  void* data() const { return static_cast<std::byte*>(memory_.data()) + first_; }

  Result<void> read(std::vector<std::byte>& bytes, const std::string& name) const {
    std::vector<std::byte> all(memory_.bytes());
    if (auto copied = memory_.copy_to(all); !copied) return copied;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == kGuardByte || (i >= first_ && i < first_ + size_)) continue;
      const auto distance = static_cast<int64_t>(i) - static_cast<int64_t>(first_);
      return internal_error("the kernel wrote outside of buffer `" + name + "` of " + std::to_string(size_) +
                            " bytes: at byte " + std::to_string(distance));
    }
    bytes.assign(all.begin() + static_cast<ptrdiff_t>(first_), all.begin() + static_cast<ptrdiff_t>(first_ + size_));
    return {};
  }

 private:
  GuardedMemory(DeviceMemory memory, size_t first, size_t size)
      : memory_(std::move(memory)), first_(first), size_(size) {}
  DeviceMemory memory_;
  size_t first_, size_;
};

// As badly aligned as the artifact allows: by one element, unless a fact or a tensor map wants 16 bytes.
size_t skew_of(const Artifact& artifact, const dsl::Kernel& kernel, size_t param) {
  const dsl::Facts& facts = artifact.metadata.facts;
  const bool aligned = param < facts.size() && facts[param] == dsl::ParamFact::kAlign16;
  if (aligned || !artifact.metadata.device->tensor_maps.empty()) return 0;
  return static_cast<size_t>(dsl::info(kernel.params[param].type.element).bytes);
}

// After a fault every later call in the process fails.
void end_with_lost_device(const Device& device, const Error& error) {
  const auto probe = DeviceMemory::allocate(device, 4);
  std::vector<std::byte> bytes(4);
  if (probe && probe->copy_from(bytes) && probe->copy_to(bytes)) return;
  std::fprintf(stderr, "the device is lost: %s\n", error.message.c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

// Tests run in many processes. Where several have work on a device it divides its time between them, and each copy
// waits for a turn of milliseconds: they take turns of whole launches instead.
class DeviceTurn {
 public:
  DeviceTurn() : file_(::open("/tmp/kiln-cuda-tests.lock", O_CREAT | O_RDWR | O_CLOEXEC, 0666)) {
    if (file_ >= 0) ::flock(file_, LOCK_EX);
  }
  ~DeviceTurn() {
    if (file_ >= 0) ::close(file_);
  }
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;

 private:
  int file_;
};

Result<void> launch(const Device& device, const dsl::Kernel& kernel, const Artifact& artifact,
                    std::vector<TestArgument>& arguments, client::LaunchOptions options) {
  auto variant = client::load_variant(kernel, artifact, {});
  if (!variant) return variant.error();
  std::vector<std::optional<GuardedMemory>> buffers;
  std::vector<client::Argument> raw;
  for (size_t i = 0; i < arguments.size(); ++i) {
    buffers.emplace_back();
    raw.push_back({nullptr, 0, arguments[i].bits});
    if (!arguments[i].is_buffer) continue;
    const dsl::Param& param = kernel.params[i];
    auto buffer = GuardedMemory::create(device, arguments[i].buffer, skew_of(artifact, kernel, i));
    if (!buffer) return buffer.error();
    buffers[i] = std::move(*buffer);
    raw[i] = {buffers[i]->data(),
              static_cast<int64_t>(arguments[i].buffer.size()) / dsl::info(param.type.element).bytes, 0};
  }
  const Stream stream = device.default_stream();
  options.stream = &stream;
  if (auto queued = client::launch_variant(**variant, kernel, abi::lay_out_params(kernel), raw, options); !queued) {
    return queued;
  }
  const auto done = stream.synchronise();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!buffers[i]) continue;
    if (auto back = buffers[i]->read(arguments[i].buffer, kernel.params[i].name); !back) return done ? back : done;
  }
  return done;
}

}  // namespace

bool on_cuda() {
  static const bool chosen = [] {
    const char* targets = std::getenv("KILN_TEST_TARGETS");
    return targets && std::string_view(targets) == "cuda";
  }();
  return chosen;
}

Result<Artifact> compile_for_cuda(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs,
                                  const dsl::Facts& facts) {
  static const CudaTarget target = choose_target();
  auto artifact = compile(kernel, constexprs, facts, target.name, target.emit);
  if (is_refused(artifact)) std::printf("[ REFUSED  ] %s\n", artifact.error().message.c_str());
  return artifact;
}

Result<void> run_on(const Device& device, const dsl::Kernel& kernel, const Artifact& artifact,
                    std::vector<TestArgument>& arguments, const client::LaunchOptions& options) {
  const DeviceTurn turn;
  auto done = launch(device, kernel, artifact, arguments, options);
  if (!done) end_with_lost_device(device, done.error());
  return done;
}

Result<void> run_on_cuda(const dsl::Kernel& kernel, const Artifact& artifact, std::vector<TestArgument>& arguments,
                         const client::LaunchOptions& options) {
  // Nobody is left to close it at the end; opening makes a context, which takes a tenth of a second.
  static const auto& device = *new Result<Device>(Device::open("cuda"));
  if (!device) return device.error();
  return run_on(*device, kernel, artifact, arguments, options);
}

}  // namespace kiln::test
