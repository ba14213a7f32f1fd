#include "kiln/target/processor.h"

#include <algorithm>

#include "kiln/target/nearest.h"
#include "target/parts.h"

namespace kiln::target {
namespace {

using enum Family;
constexpr CpuRow kCpus[] = {
#define KILN_CPU(...) {__VA_ARGS__},
#include "kiln/target/targets.def"
};

struct RunOn {
  std::string_view target, where;
};
constexpr RunOn kRunOn[] = {
#define KILN_RUN_ON(...) {__VA_ARGS__},
#include "kiln/target/targets.def"
};

const CpuRow* find_cpu(std::string_view name) {
  const auto found = std::ranges::find(kCpus, name, [](const CpuRow& row) { return std::string_view(row.name); });
  return found == std::end(kCpus) ? nullptr : &*found;
}

Error unknown(std::string_view name, const std::string& what) {
  return invalid_argument("target `" + std::string(name.substr(0, 80)) + "`: " + what);
}

// "dot-i8=widen", "sve=256"
bool choose(std::string_view option, Family family, CpuUnits& units) {
  struct Choice {
    std::string_view of_x86, of_aarch64;
    DotUnit CpuUnits::* of;
    DotUnit unit;
  };
  static constexpr Choice kChoices[] = {
      {"dot-bf16=widen", "dot-bf16=widen", &CpuUnits::bf16, DotUnit::kWiden},
      {"dot-bf16=vdpbf16ps", "dot-bf16=bfdot", &CpuUnits::bf16, DotUnit::kInstruction},
      {"dot-bf16=amx", "dot-bf16=bfmmla", &CpuUnits::bf16, DotUnit::kTile},
      {"dot-i8=widen", "dot-i8=widen", &CpuUnits::bytes, DotUnit::kWiden},
      {"dot-i8=vnni", "dot-i8=sdot", &CpuUnits::bytes, DotUnit::kInstruction},
      {"dot-i8=amx", "dot-i8=smmla", &CpuUnits::bytes, DotUnit::kTile}};
  for (const Choice& choice : kChoices) {
    if ((family == kAarch64 ? choice.of_aarch64 : choice.of_x86) != option) continue;
    units.*choice.of = choice.unit;
    return true;
  }
  for (int bits : kSveBits) {
    if (units.sve_bits == 0 || option != "sve=" + std::to_string(bits)) continue;
    units.sve_bits = bits;
    return true;
  }
  return false;
}

// "x86-64-v3,+avxvnni;dot-i8=widen"
Result<Processor> cpu_of(std::string_view text, std::string_view target) {
  const auto options = parts(text.substr(std::min(text.find(';'), text.size())), ';');
  const auto words = parts(text.substr(0, text.find(';')), ',');
  const CpuRow* row = words.empty() ? nullptr : find_cpu(words[0]);
  if (row == nullptr) {
    std::vector<std::string_view> names;
    for (const CpuRow& each : kCpus) names.emplace_back(each.name);
    const std::vector<std::string_view> near = nearest_names(words.empty() ? "" : words[0], names);
    const std::string nearest =
        near.empty() ? "" : (near.size() == 1 ? "the nearest is " : "the nearest are ") + listed(near) + "; ";
    return unknown(target, nearest + "of CPUs the table has " + listed(names) +
                               ", with features behind as in cpu:x86-64-v3,+avxvnni");
  }
  std::vector<std::string> features = features_of(*row);
  for (size_t i = 1; i < words.size(); ++i) {
    std::erase(features, words[i].substr(1));
    if (words[i][0] == '+') {
      features.emplace_back(words[i].substr(1));
    } else if (words[i][0] != '-') {
      return unknown(target, "`" + std::string(words[i]) + "` is no feature with a sign before it");
    }
  }
  Processor out{.family = row->family, .cpu = cpu_units(row->family, features)};
  for (std::string_view option : options) {
    if (!choose(option, row->family, out.cpu))
      return unknown(target, "`" + std::string(option) + "` is no option of CPUs");
  }
  return out;
}

Result<Processor> processor_of(const std::string& family, std::string_view name, std::string_view target) {
  if (family == "cpu") return cpu_of(name, target);
  if (auto known = check_gpu_target(family + ":" + std::string(name)); !known) return known.error();
  if (family == "cuda") return Processor{.family = kNvidia, .nvidia = find_nvidia_gpu(name)};
  return Processor{.family = kAmd, .amd = find_amd_gpu(name)};
}

// Of a name that says it by how it begins.
std::string family_of(std::string_view name) {
  if (name.starts_with("sm_") || name.starts_with("compute_")) return "cuda";
  return name.starts_with("gfx") ? "amd" : "cpu";
}

}  // namespace

std::span<const CpuRow> cpus() { return kCpus; }

std::vector<std::string> features_of(const CpuRow& row) {
  std::vector<std::string> out;
  for (std::string_view name : parts(row.features, ' ')) out.emplace_back(name);
  if (const CpuRow* base = find_cpu(row.base)) {
    const std::vector<std::string> more = features_of(*base);
    out.insert(out.end(), more.begin(), more.end());
  }
  std::ranges::sort(out);
  return out;
}

int sve_bits(std::span<const std::string> features) {
  const auto has = [&](const std::string& name) { return std::ranges::find(features, name) != features.end(); };
  int out = has("sve") ? 128 : 0;
  for (int bits : kSveBits) {
    if (out > 0 && has("sve" + std::to_string(bits))) out = bits;
  }
  return out;
}

int usual_sve_bits(std::string_view cpu) {
  const CpuRow* row = find_cpu(cpu);
  return row == nullptr ? 128 : std::max(128, sve_bits(features_of(*row)));
}

CpuUnits cpu_units(Family family, std::span<const std::string> features) {
  const auto has = [&](std::string_view name) { return std::ranges::find(features, name) != features.end(); };
  CpuUnits out;
  if (family == kAarch64) {
    out.fma = out.f16_conversions = true;
    out.f16_arithmetic = has("fullfp16");
    out.atomics = has("lse");
    out.sve_bits = sve_bits(features);
    if (has("dotprod")) out.bytes = DotUnit::kInstruction;
    if (has("i8mm")) out.bytes = DotUnit::kTile;
    if (has("bf16")) out.bf16 = DotUnit::kTile;
    return out;
  }
  out.avx2 = has("avx2");
  out.avx512 = has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq");
  out.fma = has("fma");
  out.f16_conversions = has("f16c");
  const bool has_vnni = (has("avx512vnni") && has("avx512vl")) || (has("avxvnni") && !has("avx512f"));
  if (has_vnni) out.bytes = DotUnit::kInstruction;
  if (has("amx-tile") && has("amx-int8")) out.bytes = DotUnit::kTile;
  if (has("amx-tile") && has("amx-bf16")) out.bf16 = DotUnit::kTile;
  out.avx10_2 = out.avx512 && has("avx10.2");
  out.tiles_of_f8 = has("amx-fp8");
  out.tiles_of_f16 = has("amx-fp16");
  out.tiles_of_tf32 = has("amx-tf32");
  return out;
}

std::vector<NamedTarget> named_targets() {
  std::vector<std::string> names;
  for (const CpuRow& row : kCpus) names.push_back("cpu:" + std::string(row.name));
  for (const NvidiaGpu& gpu : nvidia_gpus()) names.push_back("cuda:" + std::string(gpu.name));
  for (const AmdGpu& gpu : amd_gpus()) names.push_back("amd:" + std::string(gpu.name));
  std::vector<NamedTarget> out;
  for (const std::string& name : names) out.push_back(find_target(name).value());
  return out;
}

Result<NamedTarget> find_target(std::string_view name) {
  const size_t colon = name.substr(0, name.find(',')).find(':');
  const std::string family = colon == std::string_view::npos ? family_of(name) : std::string(name.substr(0, colon));
  const std::string_view rest = colon == std::string_view::npos ? name : name.substr(colon + 1);
  if (family != "cpu" && family != "cuda" && family != "amd") {
    return unknown(name, "a target is of cpu, cuda or amd, as in cpu:x86-64-v3, cuda:sm_90a or amd:gfx942");
  }
  auto processor = processor_of(family, rest, name);
  if (!processor) return processor.error();
  return NamedTarget{family + ":" + std::string(rest), *processor};
}

std::vector<std::string> targets_that_ran() {
  std::vector<std::string> out;
  for (const RunOn& row : kRunOn) out.emplace_back(row.target);
  return out;
}

std::string_view run_on(std::string_view target) {
  const auto found = std::ranges::find(kRunOn, target, &RunOn::target);
  return found == std::end(kRunOn) ? std::string_view() : found->where;
}

}  // namespace kiln::target
