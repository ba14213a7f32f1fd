#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>

#include "block.h"
#include "gpu_emulator.h"
#include "kiln/dsl/walk.h"
#include "kiln/dsl/wide.h"

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
  int lanes() const { return *static_cast<const int32_t*>(dlsym(handle_, "kiln_emulated_lanes")); }

 private:
  void* handle_ = nullptr;
};

// What the host encodes at a launch. `data` are the arguments' copies, by parameter.
EmulatedTensorMap encode(const abi::TensorMap& map, const std::vector<std::byte*>& data,
                         const dsl::Bindings& bindings) {
  const auto value = [&](const dsl::Expr& expr) { return expr.evaluate(bindings).value(); };
  EmulatedTensorMap out;
  out.element_bytes = static_cast<size_t>(dsl::info(map.element).bytes);
  out.address = data[map.param] + value(map.offset) * static_cast<int64_t>(out.element_bytes);
  out.rank = map.dims.size();
  for (size_t i = 0; i < out.rank; ++i) {
    out.dims[i] = value(map.dims[i]);
    out.box[i] = map.box[i];
    if (i > 0) out.strides_bytes[i] = value(map.strides_bytes[i - 1]);
  }
  out.swizzle_bytes = map.swizzle_bytes;
  if (map.fills_nan) out.fill = dsl::bits_from_double(map.element, std::numeric_limits<double>::quiet_NaN());
  return out;
}

// Sums of floats by atomics depend on the order.
bool has_atomics(const dsl::Kernel& kernel) {
  return dsl::any_op(kernel, [](const dsl::Op& op) {
    return op.code == dsl::OpCode::kAtomicRmw || op.code == dsl::OpCode::kAtomicCas;
  });
}

// So few that they take several programs.
constexpr uint32_t kPersistentBlocks = 2;

// Copies of the arguments, at addresses that are multiples of no more than they must be.
class Launch {
 public:
  Launch(const Artifact& artifact, const dsl::Kernel& kernel, std::span<const dsl::Argument> arguments, bool tells_host)
      : params_(8 * (arguments.size() + artifact.metadata.device->tensor_maps.size())) {
    std::vector<std::byte*> data(arguments.size());
    dsl::Bindings bindings{{}, std::vector<std::optional<int64_t>>(arguments.size())};
    for (size_t i = 0; i < arguments.size(); ++i) {
      const dsl::Param& param = kernel.params[i];
      uint64_t bits = arguments[i].bits;
      if (param.type.pointer) {
        const auto element = static_cast<size_t>(dsl::info(param.type.element).bytes);
        const dsl::Facts& facts = artifact.metadata.facts;
        const bool is_aligned = i < facts.size() && facts[i] == dsl::ParamFact::kAlign16;
        const size_t bytes = static_cast<size_t>(arguments[i].extent) * element;
        add_buffer(param.name, arguments[i].data, bytes, is_aligned ? 16 : element);
        data[i] = buffers_.back().data;
        bits = reinterpret_cast<uint64_t>(data[i]);
      } else if (dsl::is_int(param.type.element)) {
        bindings.params[i] = static_cast<int64_t>(dsl::number_from_bits(param.type.element, bits));
      }
      std::memcpy(params_.data() + 8 * i, &bits, 8);
    }
    for (const abi::TensorMap& map : artifact.metadata.device->tensor_maps) {
      maps_.push_back(encode(map, data, bindings));
    }
    for (size_t i = 0; i < maps_.size(); ++i) {
      const auto address = reinterpret_cast<uint64_t>(&maps_[i]);
      std::memcpy(params_.data() + 8 * (arguments.size() + i), &address, 8);
    }
    own_buffers_ = buffers_.size();
    const std::map<abi::LaunchField, int64_t>& there = artifact.metadata.offsets;
    append_launch_params(there, kernel, arguments, tells_host);
    if (there.contains(abi::LaunchField::kPrograms)) programs_at_ = params_.size(), params_.resize(params_.size() + 8);
    if (there.contains(abi::LaunchField::kGrid)) grid_at_ = params_.size(), params_.resize(params_.size() + 24);
    if (there.contains(abi::LaunchField::kQueue)) {
      const auto address = reinterpret_cast<uint64_t>(&counter_);
      params_.resize(params_.size() + 8);
      std::memcpy(params_.data() + params_.size() - 8, &address, 8);
    }
  }

  Result<void> run(const EmulatedCode& code, std::array<uint32_t, 3> grid, ThreadOrder order) {
    Block block(code, params_.data(), buffers_);
    const auto programs = static_cast<uint32_t>(code.programs);
    if (programs_at_) std::memcpy(params_.data() + *programs_at_, grid.data(), sizeof grid[0]);
    grid[0] = (grid[0] + programs - 1) / programs;  // blocks
    if (grid_at_) {
      for (size_t axis = 0; axis < 3; ++axis) {
        std::memcpy(params_.data() + *grid_at_ + 8 * axis, &grid[axis], sizeof grid[axis]);
      }
      grid = {std::min(grid[0] * grid[1] * grid[2], kPersistentBlocks), 1, 1};
    }
    Program program{{}, grid};
    for (program.id[2] = 0; program.id[2] < grid[2]; ++program.id[2]) {
      for (program.id[1] = 0; program.id[1] < grid[1]; ++program.id[1]) {
        for (program.id[0] = 0; program.id[0] < grid[0]; ++program.id[0]) {
          if (auto done = block.run(program, order); !done) return done;
        }
      }
    }
    if (counter_ != 0) return internal_error("the counter of the queue is " + std::to_string(counter_) + " at the end");
    return {};
  }

  // Of the arguments.
  std::span<const GlobalBuffer> buffers() const { return {buffers_.data(), own_buffers_}; }

  EmulatedReports reports() const {
    EmulatedReports out;
    for (const GlobalBuffer& buffer : buffers_) {
      std::vector<std::byte>* to = buffer.data == failure_ ? &out.failure : buffer.data == ring_ ? &out.ring : nullptr;
      if (to) to->assign(buffer.data, buffer.data + buffer.bytes);
    }
    return out;
  }

 private:
  // Behind the kernel's own parameters, as docs/reference/artifact.md has it.
  void append_launch_params(const std::map<abi::LaunchField, int64_t>& there, const dsl::Kernel& kernel,
                            std::span<const dsl::Argument> arguments, bool tells_host) {
    const auto append = [&](uint64_t bits) {
      params_.resize(params_.size() + 8);
      std::memcpy(params_.data() + params_.size() - 8, &bits, 8);
    };
    if (there.contains(abi::LaunchField::kFailure)) {
      const std::vector<std::byte> record(64);
      add_buffer("the failure record", record.data(), record.size(), 8);
      failure_ = buffers_.back().data;
      append(reinterpret_cast<uint64_t>(failure_));
    }
    if (there.contains(abi::LaunchField::kExtents)) {
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (kernel.params[i].type.pointer) append(static_cast<uint64_t>(tells_host ? arguments[i].extent : -1));
      }
    }
    if (there.contains(abi::LaunchField::kPrint)) {
      constexpr uint64_t kCapacity = 1 << 16, kCapacityAt = 24;
      std::vector<std::byte> ring(64 + kCapacity);
      std::memcpy(ring.data() + kCapacityAt, &kCapacity, 8);
      add_buffer("the ring of messages", ring.data(), ring.size(), 8);
      if (tells_host) ring_ = buffers_.back().data;
      append(reinterpret_cast<uint64_t>(ring_));
    }
  }

  void add_buffer(const std::string& name, const void* data, size_t bytes, size_t alignment) {
    constexpr size_t kRoom = 256;
    memory_.emplace_back(bytes + 3 * kRoom, std::byte{0xa5});
    const auto start = reinterpret_cast<uintptr_t>(memory_.back().data());
    const size_t offset = (start / kRoom + 1) * kRoom - start + alignment;
    buffers_.push_back({name, memory_.back().data() + offset, bytes});
    if (bytes) std::memcpy(buffers_.back().data, data, bytes);
  }

  std::vector<std::byte> params_;
  std::vector<EmulatedTensorMap> maps_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<GlobalBuffer> buffers_;
  size_t own_buffers_ = 0;
  std::optional<size_t> programs_at_, grid_at_;
  uint32_t counter_ = 0;  // of programs that blocks share
  const std::byte *failure_ = nullptr, *ring_ = nullptr;
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
                          std::array<uint32_t, 3> grid, EmulatedReports* reports) {
  const Library library(artifact.code);
  if (!library.entry()) return internal_error(std::string("dlopen: ") + dlerror());
  const abi::Device& device = *artifact.metadata.device;
  const EmulatedCode code{library.entry(), library.lanes(), static_cast<int>(device.threads.value()),
                          static_cast<size_t>(device.shared_bytes.value()), static_cast<int>(device.programs.value())};
  Launch forward(artifact, kernel, arguments, reports != nullptr);
  Result<void> done = forward.run(code, grid, ThreadOrder::kForward);
  if (done && !has_atomics(kernel)) {
    const ThreadOrder other = artifact.code.size() / 8 % 2 == 0 ? ThreadOrder::kReverse : ThreadOrder::kRandom;
    Launch again(artifact, kernel, arguments, reports != nullptr);
    done = again.run(code, grid, other);
    if (done) done = compare(forward, again);
  }
  if (reports) *reports = forward.reports();
  size_t next = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!kernel.params[i].type.pointer) continue;
    const GlobalBuffer& buffer = forward.buffers()[next++];
    if (buffer.bytes) std::memcpy(arguments[i].data, buffer.data, buffer.bytes);
  }
  return done;
}

}  // namespace kiln::test
