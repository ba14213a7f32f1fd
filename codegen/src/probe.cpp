#include "probe.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kiln::codegen {
namespace {

bool has_bf16_instruction(const llvm::MCSubtargetInfo& info) {
  return info.checkFeatures("+avx512bf16") && info.checkFeatures("+avx512vl");
}
bool has_tiles(const llvm::MCSubtargetInfo& info, const char* feature) {
  return info.checkFeatures("+amx-tile") && info.checkFeatures(feature);
}

// The names of the units of a family of CPUs, by DotUnit.
using UnitNames = std::array<std::string_view, 3>;
constexpr UnitNames kBf16Units = {"widen", "vdpbf16ps", "amx"}, kByteUnits = {"widen", "vnni", "amx"};
constexpr UnitNames kBf16UnitsOfArm = {"widen", "bfdot", "bfmmla"}, kByteUnitsOfArm = {"widen", "sdot", "smmla"};

std::string name_of(const UnitNames& names, DotUnit unit) { return std::string(names[static_cast<size_t>(unit)]); }

// Which units a CPU has, by DotUnit.
using HasUnits = std::array<bool, 3>;
HasUnits bf16_units(const llvm::MCSubtargetInfo& info) {
  if (info.getTargetTriple().isX86()) return {true, has_bf16_instruction(info), has_tiles(info, "+amx-bf16")};
  const bool bf16 = info.checkFeatures("+bf16");
  return {true, bf16, bf16};
}
HasUnits byte_units(const llvm::MCSubtargetInfo& info) {
  if (info.getTargetTriple().isX86()) return {true, has_vnni(info), has_tiles(info, "+amx-int8")};
  return {true, info.checkFeatures("+dotprod"), info.checkFeatures("+i8mm")};
}

Result<DotUnit> unit_of(const UnitNames& names, std::string_view key, std::string_view value,
                        const HasUnits& available) {
  for (DotUnit unit : {DotUnit::kWiden, DotUnit::kInstruction, DotUnit::kTile}) {
    if (name_of(names, unit) != value) continue;
    if (available[static_cast<size_t>(unit)]) return unit;
    return invalid_argument("target option `" + std::string(key) + "=" + std::string(value) +
                            "`: the CPU has no such instruction");
  }
  std::string all;
  for (std::string_view name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return invalid_argument("target option `" + std::string(key) + "`: `" + std::string(value) +
                          "` is unknown; there are " + all);
}

[[maybe_unused]] std::string options_of(const DotUnits& found, const DotUnits& usual) {
  std::string out;
  if (found.bf16 != usual.bf16) out += ";dot-bf16=" + name_of(kBf16Units, found.bf16);
  if (found.bytes != usual.bytes) out += ";dot-i8=" + name_of(kByteUnits, found.bytes);
  return out;
}

}  // namespace

bool has_vnni(const llvm::MCSubtargetInfo& info) {
  const bool wide = info.checkFeatures("+avx512vnni") && info.checkFeatures("+avx512vl");
  return wide || (info.checkFeatures("+avxvnni") && !info.checkFeatures("+avx512f"));
}

DotUnits default_dot_units(const llvm::MCSubtargetInfo& info) {
  const HasUnits bf16 = bf16_units(info), bytes = byte_units(info);
  DotUnits out;
  if (bf16[2]) out.bf16 = DotUnit::kTile;
  if (bytes[1]) out.bytes = DotUnit::kInstruction;
  if (bytes[2]) out.bytes = DotUnit::kTile;
  return out;
}

Result<DotUnits> parse_dot_units(std::string_view options, const llvm::MCSubtargetInfo& info) {
  DotUnits out = default_dot_units(info);
  const bool x86 = info.getTargetTriple().isX86();
  while (!options.empty()) {
    options.remove_prefix(1);  // the semicolon
    const std::string_view option = options.substr(0, options.find(';'));
    options.remove_prefix(option.size());
    const size_t equals = std::min(option.find('='), option.size());
    const std::string_view key = option.substr(0, equals), value = option.substr(std::min(equals + 1, option.size()));
    if (key == "dot-bf16") {
      auto unit = unit_of(x86 ? kBf16Units : kBf16UnitsOfArm, key, value, bf16_units(info));
      if (!unit) return unit.error();
      out.bf16 = *unit;
    } else if (key == "dot-i8") {
      auto unit = unit_of(x86 ? kByteUnits : kByteUnitsOfArm, key, value, byte_units(info));
      if (!unit) return unit.error();
      out.bytes = *unit;
    } else {
      return invalid_argument("target option `" + std::string(option) +
                              "` is unknown; there are dot-bf16, dot-i8, sve");
    }
  }
  return out;
}

#if defined(__x86_64__)
namespace {

// ---- the measurement: products per nanosecond of chains in registers, as a micro-kernel has them ----

constexpr int kChains = 12;
constexpr int kSteps = 4000;  // some ten microseconds
constexpr int kRounds = 9;
// An instruction must win clearly: two starts of one machine should agree, and only widening is exact for subnormals.
constexpr double kClearly = 1.2;

// Chains of products that the compiler can neither drop nor merge.
#define KILN_CHAINS(INSTRUCTION, A, B)                                              \
  for (int step = 0; step < kSteps; ++step) {                                       \
    _Pragma("GCC unroll 12") for (int i = 0; i < kChains; ++i) {                    \
      __asm__ volatile(INSTRUCTION " %2, %1, %0" : "+v"(sums[i]) : "v"(A), "v"(B)); \
    }                                                                               \
  }

__attribute__((target("avx512f"))) void chain_fma() {
  __m512 sums[kChains] = {}, x = _mm512_set1_ps(0.5f);
  KILN_CHAINS("vfmadd231ps", x, x)
}

__attribute__((target("avx512f"))) void chain_bf16() {
  __m512 sums[kChains] = {}, x = _mm512_set1_ps(0.5f);
  KILN_CHAINS("vdpbf16ps", x, x)
}

__attribute__((target("avx512f"))) void chain_bytes() {
  __m512i sums[kChains] = {}, x = _mm512_set1_epi8(3);
  KILN_CHAINS("vpdpbusd", x, x)
}

__attribute__((target("avx512f"))) void chain_pairs() {
  __m512i sums[kChains] = {}, x = _mm512_set1_epi16(3), product = x;
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      __asm__ volatile("vpmaddwd %3, %3, %1\n\tvpaddd %1, %0, %0" : "+v"(sums[i]), "=&v"(product) : "v"(x), "v"(x));
    }
  }
}

#undef KILN_CHAINS

struct alignas(64) TileConfiguration {
  uint8_t bytes[64] = {1};
};

template <class Product>
__attribute__((target("amx-tile"))) void chain_tiles(Product product) {
  TileConfiguration configuration;
  for (int tile = 0; tile < 8; ++tile) {
    configuration.bytes[16 + 2 * tile] = 64;
    configuration.bytes[48 + tile] = 16;
  }
  _tile_loadconfig(configuration.bytes);
  for (int step = 0; step < kSteps / 16; ++step) product();
  _tile_release();
}

__attribute__((target("amx-tile,amx-bf16"))) void chain_tiles_bf16() {
  chain_tiles([]() __attribute__((target("amx-tile,amx-bf16"))) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  });
}

__attribute__((target("amx-tile,amx-int8"))) void chain_tiles_bytes() {
  chain_tiles([]() __attribute__((target("amx-tile,amx-int8"))) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  });
}

// An instruction that a hypervisor shows but does not run must not end the process.
sigjmp_buf g_after_fault;
void on_illegal_instruction(int) { siglongjmp(g_after_fault, 1); }

struct Candidate {
  DotUnit unit;
  void (*run)();
  double products;  // of one run
};

double seconds(void (*run)()) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Whether `body` came to its end.
template <class Body>
bool without_fault(const Body& body) {
  struct sigaction fault{}, before{};
  fault.sa_handler = on_illegal_instruction;
  sigaction(SIGILL, &fault, &before);
  const bool is_first_time = sigsetjmp(g_after_fault, 1) == 0;
  if (is_first_time) body();
  sigaction(SIGILL, &before, nullptr);
  return is_first_time;
}

// The fastest unit: the median of rounds in which all run in turn. The first candidate stands unless another wins
// clearly.
DotUnit fastest(const std::vector<Candidate>& candidates) {
  std::vector<std::array<double, kRounds>> times(candidates.size());
  auto measure = [&] {
    for (int round = -1; round < kRounds; ++round) {  // the first wakes the unit up
      for (size_t i = 0; i < candidates.size(); ++i) {
        const double time = seconds(candidates[i].run);
        if (round >= 0) times[i][static_cast<size_t>(round)] = time;
      }
    }
  };
  if (candidates.size() == 1 || !without_fault(measure)) return candidates[0].unit;
  size_t best = 0;
  double best_rate = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    std::nth_element(times[i].begin(), times[i].begin() + kRounds / 2, times[i].end());
    const double rate = candidates[i].products / times[i][kRounds / 2];
    if (i == 0 || rate > best_rate * kClearly) {
      best = i;
      best_rate = rate;
    }
  }
  return candidates[best].unit;
}

bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// What this machine may be best served by, and what its features promise.
struct HostUnits {
  std::vector<Candidate> bf16, bytes;
  DotUnits usual;
};

// Nothing where there is no choice.
std::optional<HostUnits> host_units() {
  const auto features = llvm::sys::getHostCPUFeatures();  // those the system enables, too
  auto has = [&](const char* name) { return features.lookup(name); };
  if (!has("avx512f") || !has("avx512vl") || !has("avx512bw")) return std::nullopt;
  constexpr int kTurns = kSteps / 16;
  constexpr double kVectorSteps = double{kSteps} * kChains, kTileSteps = double{kTurns} * 4;
  const bool tiles = has("amx-tile") && may_use_tiles();
  HostUnits out;
  out.bf16 = {{DotUnit::kWiden, chain_fma, kVectorSteps * 16}};
  if (has("avx512bf16")) out.bf16.push_back({DotUnit::kInstruction, chain_bf16, kVectorSteps * 32});
  if (tiles && has("amx-bf16")) out.bf16.push_back({DotUnit::kTile, chain_tiles_bf16, kTileSteps * 16 * 16 * 32});
  out.bytes = {{DotUnit::kWiden, chain_pairs, kVectorSteps * 32}};
  if (has("avx512vnni")) out.bytes.push_back({DotUnit::kInstruction, chain_bytes, kVectorSteps * 64});
  if (tiles && has("amx-int8")) out.bytes.push_back({DotUnit::kTile, chain_tiles_bytes, kTileSteps * 16 * 16 * 64});
  if (has("avx512vnni")) out.usual.bytes = DotUnit::kInstruction;
  if (has("amx-tile") && has("amx-int8")) out.usual.bytes = DotUnit::kTile;
  if (has("amx-tile") && has("amx-bf16")) out.usual.bf16 = DotUnit::kTile;
  if (out.bf16.size() == 1 && out.bytes.size() == 1 && options_of({}, out.usual).empty()) return std::nullopt;
  return out;
}

bool runs(const Candidate& candidate) { return without_fault(candidate.run); }

}  // namespace

bool may_measure_units() { return host_units().has_value(); }

std::string measured_dot_units() {
  const auto host = host_units();
  return host ? options_of({fastest(host->bf16), fastest(host->bytes)}, host->usual) : std::string();
}

bool may_be_measured(std::string_view units) {
  const auto host = host_units();
  if (!host) return units.empty();
  for (const Candidate& bf16 : host->bf16) {
    for (const Candidate& bytes : host->bytes) {
      if (options_of({bf16.unit, bytes.unit}, host->usual) == units) return runs(bf16) && runs(bytes);
    }
  }
  return false;
}

#else

bool may_measure_units() { return false; }
std::string measured_dot_units() { return {}; }
bool may_be_measured(std::string_view units) { return units.empty(); }

#endif

}  // namespace kiln::codegen
