// The cost model. A kernel's time is that of its scarcest resource, plus a part of what the others take, since they
// overlap only so far; plus the passes over tiles that a CPU keeps in scratch, which overlap with nothing; times what
// the grid loses where it does not fill the machine; plus what the launch costs. Roofs are the machine's own,
// calibrated; the few constants here say how pieces of work load them, and need only rank configs of one kernel well.
#include "kiln/autotune/model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "kiln/dsl/config.h"
#include "kiln/target/gpu.h"

namespace kiln::autotune {
namespace {

constexpr double kOverlapLoss = 0.2;  // of the time of resources that are not the scarcest
constexpr double kStepUs = 0.002;     // an iteration of a loop, or a program, on a CPU
constexpr double kJumpUs = 0.04;      // a piece of a row that nothing has looked ahead for, on a CPU
constexpr double kFirstCacheBytes = 32 << 10, kSecondCacheBytes = 1 << 20;  // of a CPU, about
constexpr double kLookAheadBytes = 2 << 10;  // of a tile beyond which a core does not see the next op
constexpr double kScratchLoss = 0.25;        // for each doubling of tiles beyond the first cache
constexpr double kFlightBytes = 32 << 10;    // that a multiprocessor must have asked memory for to keep it busy
constexpr double kGoodRegisterBytes = 192;   // of a thread's share of the tile that it holds
constexpr double kUnevenLoss = 0.1;          // for each halving or doubling of that
constexpr double kRoundUs = 0.65;      // of a program on a GPU, and of an iteration of its loops, without products
constexpr double kBytesOfThread = 16;  // of the tile that a program holds, where the compiler chooses its threads
constexpr double kMostResident = 32;   // programs of a multiprocessor, whatever their size
constexpr double kSpillFactor = 4;     // uses of a spilled register, about

bool is_gpu(const Machine& machine) { return dsl::target_family(machine.target) != "cpu"; }

double over(double amount, double roof) { return roof > 0 ? amount / roof : 0; }

// Of a type that was not calibrated: what the next calibrated one of its size does, for bytes that of i8; else what f32
// does.
double dot_roof(const Machine& machine, dsl::ElementType type) {
  const dsl::ElementTypeInfo& info = dsl::info(type);
  for (const std::string& name : {std::string(info.name), std::string(info.bytes == 1 ? "i8" : "f32")}) {
    auto found = machine.dot_flops_per_us.find(name);
    if (found != machine.dot_flops_per_us.end()) return found->second;
  }
  return machine.f32_flops_per_us;
}

// What no product can beat by much: of a type that was not calibrated, the fastest of all types, and of a narrower type
// more in proportion.
double fastest_dot(const Machine& machine, dsl::ElementType type) {
  const std::string name(dsl::info(type).name);
  if (machine.dot_flops_per_us.contains(name)) return machine.dot_flops_per_us.at(name);
  double out = machine.f32_flops_per_us;
  for (const auto& [other, roof] : machine.dot_flops_per_us) {
    const auto element = dsl::parse_element_type(other);
    const double narrower = element ? static_cast<double>(dsl::info(*element).bytes) / dsl::info(type).bytes : 1;
    out = std::max(out, roof * std::max(1.0, narrower));
  }
  return out;
}

double memory_roof(const Machine& machine, const Work& work) {
  return work.stored > 0.1 * work.loaded ? machine.copy_bytes_per_us : machine.read_bytes_per_us;
}

double known(const std::optional<int64_t>& number) { return static_cast<double>(number.value_or(0)); }

// What the compiler said; before the compile, nothing.
abi::Device device_of(const abi::Metadata* metadata) {
  return metadata && metadata->device ? *metadata->device : abi::Device();
}

// Programs that a multiprocessor holds at once; before the compile, by the bytes of the tiles alone. As the compiler
// counts them, from the same row of kiln/target/targets.def.
double resident_programs(const Machine& machine, const Work& work, const abi::Device& device) {
  const int64_t threads = device.threads.value_or(0);
  if (threads <= 0) return std::clamp(256e3 / std::max(1.0, work.tile_bytes), 1.0, 16.0);
  const target::Multiprocessor unit = target::multiprocessor_of(machine.target);
  int64_t blocks = unit.threads / threads;
  if (const int64_t waves = device.waves_per_simd.value_or(0); waves > 0) {
    blocks = std::min(blocks, waves * unit.simds * unit.lanes / threads);
  }
  if (unit.nvidia != nullptr) {
    const int64_t registers = device.registers.value_or(0);
    blocks = target::blocks_but_for_registers(*unit.nvidia, threads, device.shared_bytes.value_or(0));
    if (registers > 0) blocks = std::min(blocks, target::blocks_by_registers(*unit.nvidia, registers, threads));
  }
  return static_cast<double>(std::max<int64_t>(1, blocks)) * std::max(1.0, known(device.programs));
}

// How much of its speed a multiprocessor loses because too little is in flight.
double latency_factor(const Machine& machine, const Work& work, const Config& config, const abi::Device& device) {
  auto stages = config.find(std::string(dsl::kNumStages));
  const double ahead = stages == config.end() ? 1 : std::max<double>(1, static_cast<double>(stages->second - 1));
  const double given = std::ceil(work.programs / machine.parallel);
  const double resident = std::min(given, resident_programs(machine, work, device));
  const double flight = resident * ahead * work.loaded / std::max(1.0, work.steps);
  return std::max(1.0, std::sqrt(kFlightBytes / std::max(flight, 64.0)));
}

// What a GPU loses in reductions and scans where a thread holds so little of a tile that it waits with nothing to do,
// or so much that few threads fit.
double share_a_thread_factor(const Machine& machine, const Work& work, const Config& config) {
  const double each = register_bytes_a_thread(machine, work, config);
  if (each <= 0 || work.dot_flops > 0) return 1;
  return 1 + kUnevenLoss * std::max(0.0, std::abs(std::log2(each / kGoodRegisterBytes)) - 0.5);
}

// Of kernels without products: as many programs as threads allow go on at once, and how long one takes depends little
// on how much it has to do.
double rounds_us(const Machine& machine, const Work& work, const Config& config) {
  if (work.dot_flops > 0 || work.programs <= 0) return 0;
  const target::Multiprocessor unit = target::multiprocessor_of(machine.target);
  const auto warps = config.find(std::string(dsl::kNumWarps));
  const double threads = warps != config.end()
                             ? static_cast<double>(warps->second * unit.lanes)
                             : std::clamp(work.register_bytes / kBytesOfThread, 32.0, double{target::kMostThreads});
  const double resident = std::clamp(static_cast<double>(unit.threads) / threads, 1.0, kMostResident);
  const double rounds = std::ceil(work.programs / (std::max(1, machine.parallel) * resident));
  return kRoundUs * rounds * work.steps / work.programs;
}

double spilled_bytes(const Work& work, const abi::Device& device) {
  return known(device.spill_bytes) * known(device.threads) * work.programs * kSpillFactor;
}

}  // namespace

double register_bytes_a_thread(const Machine& machine, const Work& work, const Config& config) {
  const auto warps = config.find(std::string(dsl::kNumWarps));
  if (!is_gpu(machine) || warps == config.end()) return 0;
  const double lanes = target::multiprocessor_of(machine.target).lanes;
  return work.register_bytes / (static_cast<double>(warps->second) * lanes);
}

double Terms::us() const {
  const double parts[] = {memory / fill, cache, products, operands, arithmetic, pieces};
  const double most = *std::max_element(std::begin(parts), std::end(parts));
  const double sum = std::accumulate(std::begin(parts), std::end(parts), 0.0);
  const double work = fill * uneven * (most + kOverlapLoss * (sum - most) + scratch + jumps);
  return launch + std::max(work, rounds) + kOverlapLoss * std::min(work, rounds);
}

Terms cost_terms(const Machine& machine, const Work& work, const Config& config, const abi::Metadata* metadata) {
  const abi::Device device = device_of(metadata);
  const double parallel = std::max(1, machine.parallel);
  const double traffic = std::max(work.lines, work.loaded + work.stored) + spilled_bytes(work, device);

  Terms out;
  out.fill = std::ceil(work.programs / parallel) * parallel / std::max(1.0, work.programs);
  out.memory = over(work.compulsory, memory_roof(machine, work));
  out.cache = over(traffic, machine.cache_bytes_per_us);
  out.products = over(work.dot_flops, dot_roof(machine, work.dot_type));
  out.operands = over(work.dot_bytes, 4 * machine.cache_bytes_per_us);
  out.arithmetic = over(1.5 * work.flops, machine.f32_flops_per_us) + over(work.math, machine.math_per_us);
  out.launch = work.launches * machine.launch_us;
  out.uneven = share_a_thread_factor(machine, work, config);
  if (is_gpu(machine)) {
    out.waiting = latency_factor(machine, work, config, device);
    out.cache *= out.waiting;
    out.products *= std::sqrt(out.waiting);
    out.rounds = rounds_us(machine, work, config);
    return out;
  }
  // Tiles that the second cache does not hold come from the next one each time.
  const double excess = std::max(0.0, std::log2(work.tile_bytes / kSecondCacheBytes));
  out.cache *= 1 + excess;
  out.products *= 1 + 0.2 * excess;
  out.pieces = kStepUs * work.steps / parallel;
  const double far = std::max(0.0, std::log2(work.tile_bytes / kFirstCacheBytes));
  out.scratch = over(work.scratch_bytes, machine.cache_bytes_per_us) * (1 + kScratchLoss * far);
  if (work.tile_bytes < kLookAheadBytes) out.pieces += std::exchange(out.scratch, 0);
  // Nothing hides them. Of products the parts come from caches, more often than not.
  if (work.dot_flops == 0) out.jumps = kJumpUs * work.jumps / parallel;
  return out;
}

double predict_us(const Machine& machine, const Work& work, const Config& config, const abi::Metadata* metadata) {
  return cost_terms(machine, work, config, metadata).us();
}

std::string to_string(const Terms& terms) {
  std::pair<double, const char*> parts[] = {{terms.memory, "memory"},         {terms.cache, "cache"},
                                            {terms.products, "products"},     {terms.operands, "operands"},
                                            {terms.arithmetic, "arithmetic"}, {terms.pieces, "pieces"},
                                            {terms.scratch, "scratch"},       {terms.jumps, "jumps"},
                                            {terms.rounds, "rounds"},         {terms.launch, "launch"}};
  std::stable_sort(std::begin(parts), std::end(parts), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string out;
  const auto add = [&](const char* before, double number, const char* behind) {
    char text[64];
    std::snprintf(text, sizeof text, "%s%.3g%s", before, number, behind);
    out += text;
  };
  for (const auto& [us, name] : parts) {
    if (us <= 0) continue;
    out += (out.empty() ? "" : ", ") + std::string(name);
    add(" ", us, "");
  }
  constexpr double kSaid = 1.01;
  if (terms.fill > kSaid) add("; × ", terms.fill, " for idle processors");
  if (terms.uneven > kSaid) add("; × ", terms.uneven, " for uneven threads");
  if (terms.waiting > kSaid) add("; with × ", terms.waiting, " for little in flight");
  return out;
}

Roofline roofline(const Machine& machine, const Work& work) {
  const Roofline bounds[] = {
      {over(work.compulsory, memory_roof(machine, work)), "memory"},
      {over(work.dot_flops, dot_roof(machine, work.dot_type)), "products"},
      {over(work.flops, machine.f32_flops_per_us) + over(work.math, machine.math_per_us), "arithmetic"},
      {machine.launch_us, "launch"}};
  return *std::max_element(std::begin(bounds), std::end(bounds),
                           [](const Roofline& a, const Roofline& b) { return a.us < b.us; });
}

double possible_us(const Machine& machine, const Work& work) {
  if (work.estimated) return 0;
  // What fits in a cache may have stayed there.
  const double bytes = std::max({machine.read_bytes_per_us, machine.copy_bytes_per_us, machine.cache_bytes_per_us});
  return std::max(over(work.compulsory, 2 * bytes), over(work.dot_flops, 2 * fastest_dot(machine, work.dot_type)));
}

std::string prune_reason(const abi::Metadata& metadata) {
  constexpr int64_t kSpillBytes = 512, kScratchBytes = 256 << 20;
  const abi::Device device = device_of(&metadata);
  const target::Multiprocessor unit = target::multiprocessor_of(metadata.target);
  if (const int64_t scratch = metadata.scratch_bytes.value_or(0); scratch > kScratchBytes) {
    return "needs " + std::to_string(scratch) + " bytes of scratch memory a thread";
  }
  const int64_t threads = device.threads.value_or(0), registers = device.registers.value_or(0);
  if (device.waves_per_simd.value_or(0) == 0 && registers * threads > unit.registers) {
    return std::to_string(threads) + " threads of " + std::to_string(registers) +
           " registers do not fit on a multiprocessor";
  }
  if (const int64_t shared = device.shared_bytes.value_or(0); shared > unit.block_shared_bytes) {
    return "needs " + std::to_string(shared) + " bytes of shared memory";
  }
  if (const int64_t spilled = device.spill_bytes.value_or(0); spilled > kSpillBytes) {
    return "spills " + std::to_string(spilled) + " bytes of registers a thread";
  }
  return "";
}

}  // namespace kiln::autotune
