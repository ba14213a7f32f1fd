#include "harness.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "amd_device.h"
#include "cuda_device.h"
#include "gpu/failures.h"
#include "gpu/prints.h"
#include "gpu_emulator.h"
#include "kiln/abi/cpu_abi.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/instantiate.h"
#include "variant.h"

namespace kiln::test {
namespace {

// A copy of a buffer whose last byte lies right before a guard page.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(const std::vector<std::byte>& bytes) : bytes_(bytes.size()) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t pages = (bytes_ + page - 1) / page + 1;
    mapped_ = pages * page;
    base_ = static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + mapped_ - page, page, PROT_NONE);
    data_ = base_ + mapped_ - page - bytes_;
    std::copy(bytes.begin(), bytes.end(), data_);
  }
  ~GuardedBuffer() { munmap(base_, mapped_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  std::byte* data() { return data_; }

 private:
  size_t bytes_;
  size_t mapped_ = 0;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
};

// Full of NaN: nothing may rely on what was there.
class DirtyMemory {
 public:
  explicit DirtyMemory(uint64_t bytes) : data_(std::aligned_alloc(64, (bytes + 64) / 64 * 64)) {
    std::memset(data_, 0xff, (bytes + 64) / 64 * 64);
  }
  ~DirtyMemory() { std::free(data_); }
  DirtyMemory(const DirtyMemory&) = delete;
  DirtyMemory& operator=(const DirtyMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_;
};

dsl::Bindings bindings_of(const dsl::Kernel& kernel, const std::vector<TestArgument>& arguments) {
  dsl::Bindings bindings;
  bindings.params.resize(kernel.params.size());
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const dsl::Type& type = kernel.params[i].type;
    if (type.pointer || dsl::is_float(type.element)) continue;
    const int shift = 64 - dsl::info(type.element).bits;
    const uint64_t high = arguments[i].bits << shift;
    bindings.params[i] =
        dsl::info(type.element).is_signed ? static_cast<int64_t>(high) >> shift : static_cast<int64_t>(high >> shift);
  }
  return bindings;
}

std::vector<dsl::Argument> raw_arguments(const dsl::Kernel& kernel, std::vector<TestArgument>& arguments) {
  std::vector<dsl::Argument> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    TestArgument& argument = arguments[i];
    const int bytes = dsl::info(kernel.params[i].type.element).bytes;
    out.push_back({argument.buffer.data(), static_cast<int64_t>(argument.buffer.size()) / bytes, argument.bits});
  }
  return out;
}

}  // namespace

void initialise() {
  static const bool once = [] {
    codegen::initialise();
    return true;
  }();
  (void)once;
}

Result<Artifact> compile(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs, const dsl::Facts& facts,
                         const std::string& target, const std::string& emit) {
  initialise();
  if (on_cuda() && target.empty() && emit == "so") return compile_for_cuda(kernel, constexprs, facts);
  if (is_emulated(target)) return compile_emulated(kernel, constexprs, facts, target);
  if (target == "amd") return compile(kernel, constexprs, facts, amd_target_of(kernel), emit);
  if (target.empty() && emit == "so" && !wants_targets("cpu"))
    return compile(kernel, constexprs, facts, wants_targets("amd") ? "amd" : "gpu", emit);
  const bool quick = emit == "so" && std::getenv("KILN_TEST_QUICK") != nullptr;
  auto request = dsl::encode_request(
      {kernel, target.empty() ? codegen::native_target() : target, constexprs, facts, quick ? "quick" : emit});
  if (!request) return request.error();
  return codegen::compile(request->canonical, request->debug, {});
}

dsl::Facts facts_of(const dsl::Kernel& kernel, const std::vector<TestArgument>& arguments) {
  dsl::Facts out(kernel.params.size(), dsl::ParamFact::kNone);
  for (size_t i = 0; i < out.size(); ++i) {
    const dsl::Type& type = kernel.params[i].type;
    if (type.pointer) {
      out[i] = dsl::ParamFact::kAlign16;
    } else if (!dsl::is_float(type.element) && type.element != dsl::ElementType::kI1) {
      out[i] = dsl::fact_of_int(static_cast<int64_t>(arguments[i].bits));
    }
  }
  return out;
}

bool is_refused(const Result<Artifact>& artifact) {
  if (artifact) return false;
  const std::string& message = artifact.error().message;
  return message.find("is not lowered to GPUs yet") != std::string::npos ||
         message.find("is not there for GPUs yet") != std::string::npos ||
         // AMD's processors have less shared memory than some tests want.
         message.find("bytes of shared memory a block; there are 65536") != std::string::npos ||
         (message.find("bytes of shared memory a block; gfx") != std::string::npos);
}

bool wants_targets(const std::string& kind) {
  const char* wanted = std::getenv("KILN_TEST_TARGETS");
  const std::string_view all = wanted ? std::string_view(wanted) : kind;
  return all.substr(0, all.find(':')) == kind;
}

Result<std::array<uint32_t, 3>> grid_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs,
                                        const std::vector<TestArgument>& arguments) {
  auto concrete = dsl::instantiate(kernel, constexprs, {});
  if (!concrete) return concrete.error();
  return dsl::evaluate_grid(concrete->grid, bindings_of(kernel, arguments));
}

Result<void> run_compiled(const dsl::Kernel& kernel, const Artifact& artifact, std::vector<TestArgument>& arguments) {
  const abi::Metadata& metadata = artifact.metadata;
  const bool on_amd = is_amd(metadata.target), emulated = is_emulated(metadata.target);
  if (metadata.device && !on_amd && !emulated) return run_on_cuda(kernel, artifact, arguments, {});
  auto grid = grid_of(kernel, metadata.constexprs, arguments);
  if (!grid) return grid.error();
  if (on_amd) return run_on_amd(artifact, kernel, raw_arguments(kernel, arguments), *grid);
  if (emulated) return run_emulated(artifact, kernel, raw_arguments(kernel, arguments), *grid);

  const int fd = memfd_create("kiln-test", MFD_CLOEXEC);
  if (fd < 0 || write(fd, artifact.code.data(), artifact.code.size()) != static_cast<ssize_t>(artifact.code.size())) {
    return internal_error("cannot write a memory file");
  }
  void* library = dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
  close(fd);
  if (!library) return internal_error(std::string("dlopen: ") + dlerror());

  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  std::vector<std::byte> params(static_cast<size_t>(metadata.params_bytes) + 8);
  for (size_t i = 0; i < arguments.size(); ++i) {
    uint64_t bits = arguments[i].bits;
    if (arguments[i].is_buffer) {
      buffers.push_back(std::make_unique<GuardedBuffer>(arguments[i].buffer));
      bits = reinterpret_cast<uint64_t>(buffers.back()->data());
    } else {
      buffers.push_back(nullptr);
    }
    const dsl::Type& type = kernel.params[i].type;
    const size_t bytes = type.pointer ? 8 : static_cast<size_t>(dsl::info(type.element).bytes);
    std::memcpy(params.data() + metadata.params[i].offset, &bits, bytes);
  }
  const uint64_t programs = uint64_t{(*grid)[0]} * (*grid)[1] * (*grid)[2];
  const auto scratch_bytes = static_cast<uint64_t>(metadata.scratch_bytes.value());
  const DirtyMemory scratch(scratch_bytes),
      workspace(static_cast<uint64_t>(metadata.workspace_bytes.value_or(0)) * programs);
  kiln_ctx context{};
  context.size = sizeof context;
  context.scratch = scratch.data();
  context.scratch_bytes = scratch_bytes;
  context.workspace = workspace.data();
  int32_t status = 0;
  const std::vector<abi::LaunchStep> one = {{metadata.entry, 1, {}, {}}};
  for (const abi::LaunchStep& step : metadata.plan.empty() ? one : metadata.plan) {
    auto entry = reinterpret_cast<kiln_entry_fn>(dlsym(library, step.entry.c_str()));
    const auto chunks = static_cast<uint32_t>(step.chunks);
    const std::array<uint32_t, 3> stage_grid = {(*grid)[0] * chunks, (*grid)[1], (*grid)[2]};
    if (status == 0) status = entry(params.data(), stage_grid.data(), 0, programs * chunks, &context);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::vector<std::byte>& bytes = arguments[i].buffer;
    if (buffers[i] && !bytes.empty()) std::memcpy(bytes.data(), buffers[i]->data(), bytes.size());
  }
  dlclose(library);
  if (status != 0) return internal_error("kiln_entry returned " + std::to_string(status));
  return {};
}

namespace {

// What the client makes of what a launch on a device has left.
Result<void> launch_emulated(const dsl::Kernel& kernel, const Artifact& artifact, std::vector<TestArgument>& arguments,
                             const client::LaunchOptions& options) {
  const abi::Metadata& metadata = artifact.metadata;
  auto grid = options.grid ? *options.grid : grid_of(kernel, metadata.constexprs, arguments);
  if (!grid) return grid.error();
  const client::Reports reports = {metadata.checks, metadata.prints};
  EmulatedReports left;
  const auto run = is_amd(metadata.target) ? run_on_amd : run_emulated;
  auto done = run(artifact, kernel, raw_arguments(kernel, arguments), *grid, &left);
  if (!done) return done;
  if (options.print && !left.ring.empty()) {
    client::gpu::PrintRing ring;
    std::memcpy(&ring, left.ring.data(), sizeof ring);
    client::gpu::read_messages(ring, left.ring.data() + sizeof ring, 0, reports, options.print);
  }
  if (left.failure.empty()) return {};
  client::gpu::FailureRecord record;
  std::memcpy(&record, left.failure.data(), sizeof record);
  if (record.code == 0) return {};
  return client::gpu::failure_in_words({kernel, reports}, record);
}

}  // namespace

Result<void> run_launched(const dsl::Kernel& kernel, const Artifact& artifact, std::vector<TestArgument>& arguments,
                          const client::LaunchOptions& options) {
  const std::string& target = artifact.metadata.target;
  if (is_emulated(target) || is_amd(target)) return launch_emulated(kernel, artifact, arguments, options);
  if (artifact.metadata.device) return run_on_cuda(kernel, artifact, arguments, options);
  auto variant = client::load_variant(kernel, artifact, {});
  if (!variant) return variant.error();
  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  std::vector<client::Argument> raw;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const TestArgument& argument = arguments[i];
    buffers.push_back(argument.is_buffer ? std::make_unique<GuardedBuffer>(argument.buffer) : nullptr);
    const auto bytes = static_cast<size_t>(dsl::info(kernel.params[i].type.element).bytes);
    raw.push_back({buffers[i] ? buffers[i]->data() : nullptr, static_cast<int64_t>(argument.buffer.size() / bytes),
                   argument.bits});
  }
  auto done = client::launch_variant(**variant, kernel, abi::lay_out_params(kernel), raw, options);
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::vector<std::byte>& bytes = arguments[i].buffer;
    if (buffers[i] && !bytes.empty()) std::memcpy(bytes.data(), buffers[i]->data(), bytes.size());
  }
  return done;
}

Result<void> run_interpreted(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs, const dsl::Facts& facts,
                             std::vector<TestArgument>& arguments, bool contract,
                             const dsl::InterpretOptions& options) {
  dsl::Kernel source = kernel;
  source.options.contract = source.options.contract && contract;
  auto concrete = dsl::instantiate(source, constexprs, facts);
  if (!concrete) return concrete.error();
  auto grid = dsl::evaluate_grid(concrete->grid, bindings_of(kernel, arguments));
  if (!grid) return grid.error();
  return dsl::interpret(*concrete, raw_arguments(kernel, arguments), *grid, options);
}

}  // namespace kiln::test
