#include "amd_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>

#include "amdgcn_emulator.h"
#include "harness.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/walk.h"

namespace kiln::test {
namespace {

namespace emulator = amdgcn_emulator;

constexpr char kPrefix[] = "amd:";
// One kernel in so many is in the default run.
constexpr size_t kDefaultPart = 4;

bool has_atomics(const dsl::Kernel& kernel) {
  return dsl::any_op(kernel, [](const dsl::Op& op) {
    return op.code == dsl::OpCode::kAtomicRmw || op.code == dsl::OpCode::kAtomicCas ||
           op.code == dsl::OpCode::kReduceTile;
  });
}

size_t hash_of(const dsl::Kernel& kernel) { return std::hash<std::string>()(dsl::print(kernel)); }

// Copies of the arguments, and the parameters as docs/reference/artifact.md has them.
class AmdLaunch {
 public:
  AmdLaunch(const Artifact& artifact, const dsl::Kernel& kernel, std::span<const dsl::Argument> arguments,
            uint64_t programs, bool tells_host)
      : metadata_(artifact.metadata),
        params_(static_cast<size_t>(metadata_.params_bytes)),
        whole_words_(has_atomics(kernel)) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const dsl::Type& type = kernel.params[i].type;
      uint64_t bits = arguments[i].bits;
      size_t bytes = static_cast<size_t>(dsl::info(type.element).bytes);
      if (type.pointer) {
        const dsl::Facts& facts = metadata_.facts;
        const bool is_aligned = i < facts.size() && facts[i] == dsl::ParamFact::kAlign16;
        bits = add(arguments[i].data, static_cast<size_t>(arguments[i].extent) * bytes, is_aligned ? 16 : bytes);
        bytes = 8;
      }
      std::memcpy(params_.data() + metadata_.params[i].offset, &bits, bytes);
    }
    own_ = ranges_.size();
    if (metadata_.workspace_bytes) {
      // Whatever was there.
      const std::vector<std::byte> workspace(static_cast<uint64_t>(*metadata_.workspace_bytes) * programs,
                                             std::byte{0xff});
      const uint64_t bits = add(workspace.data(), workspace.size(), 256);
      params_.resize((params_.size() + 7) / 8 * 8 + 8);
      std::memcpy(params_.data() + params_.size() - 8, &bits, 8);
    }
    append_launch_params(kernel, arguments, tells_host);
  }

  Result<emulator::Statistics> run(const emulator::CodeObject& object, std::array<uint32_t, 3> grid,
                                   emulator::WaveOrder order, bool count = false) const {
    emulator::Launch launch;
    launch.grid = grid;
    launch.arguments = params_;
    launch.memory = ranges_;
    launch.order = order;
    launch.count_mnemonics = count;
    const std::vector<abi::LaunchStep> one = {{metadata_.entry, 1, metadata_.device->threads, {}}};
    Result<emulator::Statistics> done = emulator::Statistics();
    for (const abi::LaunchStep& step : metadata_.plan.empty() ? one : metadata_.plan) {
      launch.grid[0] = grid[0] * static_cast<uint32_t>(step.chunks);
      launch.threads = static_cast<uint32_t>(step.threads.value());
      if (done) done = emulator::run(object, step.entry, launch);
    }
    return done;
  }

  // Of the arguments' buffers, in order.
  std::span<const emulator::MemoryRange> buffers() const { return {ranges_.data(), own_}; }

  EmulatedReports reports() const {
    EmulatedReports out;
    if (failure_) out.failure.assign(ranges_[*failure_].begin, ranges_[*failure_].begin + ranges_[*failure_].bytes);
    if (ring_) out.ring.assign(ranges_[*ring_].begin, ranges_[*ring_].begin + ranges_[*ring_].bytes);
    return out;
  }

 private:
  uint64_t add(const void* data, size_t bytes, size_t alignment) {
    constexpr size_t kRoom = 256;
    if (whole_words_) alignment = std::max<size_t>(alignment, 4);
    memory_.emplace_back(bytes + 3 * kRoom, std::byte{0xa5});
    const auto start = reinterpret_cast<uintptr_t>(memory_.back().data());
    std::byte* begin = memory_.back().data() + (start / kRoom + 1) * kRoom - start + alignment;
    if (bytes) std::memcpy(begin, data, bytes);
    ranges_.push_back({begin, whole_words_ ? (bytes + 3) / 4 * 4 : bytes, true});
    return reinterpret_cast<uint64_t>(begin);
  }

  bool has(abi::LaunchField field) const { return metadata_.offsets.contains(field); }

  void put(abi::LaunchField field, size_t index, uint64_t bits) {
    const size_t at = static_cast<size_t>(metadata_.offsets.at(field)) + 8 * index;
    if (params_.size() < at + 8) params_.resize(at + 8);
    std::memcpy(params_.data() + at, &bits, 8);
  }

  void append_launch_params(const dsl::Kernel& kernel, std::span<const dsl::Argument> arguments, bool tells_host) {
    if (has(abi::LaunchField::kFailure)) {
      const std::vector<std::byte> record(64);
      failure_ = ranges_.size();
      put(abi::LaunchField::kFailure, 0, add(record.data(), record.size(), 8));
    }
    if (has(abi::LaunchField::kExtents)) {
      size_t next = 0;
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (!kernel.params[i].type.pointer) continue;
        put(abi::LaunchField::kExtents, next++, static_cast<uint64_t>(tells_host ? arguments[i].extent : -1));
      }
    }
    if (has(abi::LaunchField::kPrint)) {
      constexpr uint64_t kCapacity = 1 << 16, kCapacityAt = 24;
      std::vector<std::byte> ring(64 + kCapacity);
      std::memcpy(ring.data() + kCapacityAt, &kCapacity, 8);
      uint64_t address = 0;
      if (tells_host) {
        ring_ = ranges_.size();
        address = add(ring.data(), ring.size(), 8);
      }
      put(abi::LaunchField::kPrint, 0, address);
    }
  }

  const abi::Metadata& metadata_;
  std::vector<std::byte> params_;
  const bool whole_words_;  // atomics of narrow elements change the words that these lie in
  std::list<std::vector<std::byte>> memory_;
  std::vector<emulator::MemoryRange> ranges_;
  size_t own_ = 0;
  std::optional<size_t> failure_, ring_;
};

bool has_same_results(const AmdLaunch& a, const AmdLaunch& b) {
  return std::ranges::equal(a.buffers(), b.buffers(), [](const auto& x, const auto& y) {
    return x.bytes == 0 || std::memcmp(x.begin, y.begin, x.bytes) == 0;
  });
}

}  // namespace

bool is_amd(const std::string& target) { return target == "amd" || target.starts_with(kPrefix); }

std::string amd_target_of(const dsl::Kernel& kernel) {
  static constexpr const char* kProcessors[] = {"amd:gfx942",  "amd:gfx1100", "amd:gfx90a", "amd:gfx906",
                                                "amd:gfx1200", "amd:gfx950",  "amd:gfx1250"};
  const char* wanted = std::getenv("KILN_TEST_TARGETS");
  if (wanted && std::string_view(wanted).starts_with(kPrefix)) return wanted;
  return kProcessors[hash_of(kernel) / kDefaultPart % (wanted ? std::size(kProcessors) : 2)];
}

bool is_chosen_for_amd(const dsl::Kernel& kernel) {
  return !wants_targets("cpu") || hash_of(kernel) % kDefaultPart == 0;
}

// A barrier that is missing shows as results that depend on the order of the waves. Atomics make these depend on it
// too: then the order alone is no error, and the results of one order are those that the test sees.
Result<void> run_on_amd(const Artifact& artifact, const dsl::Kernel& kernel, std::span<const dsl::Argument> arguments,
                        std::array<uint32_t, 3> grid, EmulatedReports* reports) {
  auto object = emulator::CodeObject::load(artifact.code);
  if (!object) return object.error();
  std::vector orders = {emulator::WaveOrder::kForward};
  if (static_cast<uint32_t>(artifact.metadata.device->threads.value()) > object->kernels()[0].wavefront_size)
    orders.insert(artifact.code.size() / 8 % 2 ? orders.begin() : orders.end(), emulator::WaveOrder::kReverse);
  const uint64_t programs = uint64_t{grid[0]} * grid[1] * grid[2];
  std::list<AmdLaunch> launches;
  for (const emulator::WaveOrder order : orders) {
    const AmdLaunch& launch = launches.emplace_back(artifact, kernel, arguments, programs, reports != nullptr);
    auto done = launch.run(*object, grid, order);
    if (reports) *reports = launch.reports();
    if (!done) return done.error();
    if (!has_atomics(kernel) && !has_same_results(launch, launches.front()))
      return internal_error("the results depend on the order in which the waves run: is there a barrier missing?");
  }
  size_t next = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!kernel.params[i].type.pointer) continue;
    const emulator::MemoryRange& buffer = launches.back().buffers()[next++];
    const auto element = static_cast<size_t>(dsl::info(kernel.params[i].type.element).bytes);
    const size_t bytes = static_cast<size_t>(arguments[i].extent) * element;
    if (bytes) std::memcpy(arguments[i].data, buffer.begin, bytes);
  }
  return {};
}

Result<std::map<std::string, uint64_t>> bank_conflicts_on_amd(const Artifact& artifact, const dsl::Kernel& kernel,
                                                              std::span<const dsl::Argument> arguments,
                                                              std::array<uint32_t, 3> grid) {
  auto object = emulator::CodeObject::load(artifact.code);
  if (!object) return object.error();
  const AmdLaunch launch(artifact, kernel, arguments, uint64_t{grid[0]} * grid[1] * grid[2], false);
  auto done = launch.run(*object, grid, emulator::WaveOrder::kForward, true);
  if (!done) return done.error();
  return std::move(done->bank_conflicts);
}

}  // namespace kiln::test
