#include "target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "kiln/abi/sve_length.h"
#include "kiln/codegen/compile.h"
#include "kiln/target/nearest.h"
#include "kiln/target/processor.h"
#include "probe.h"

namespace kiln::codegen {
namespace {

constexpr char kPrefix[] = "cpu:";

// The families of CPUs, each with the triple of its code.
struct Family {
  const char* triple;
  const char* plain_name;  // "cpu:NAME" for what all of them run
  const char* plain_cpu;   // LLVM's name of the same
};
constexpr Family kFamilies[] = {
    {"x86_64-pc-linux-gnu", "x86-64", "x86-64"},
    {"aarch64-unknown-linux-gnu", "aarch64", "generic"},
};

Error unknown_target(const std::string& name, const std::string& what) {
  return invalid_argument("target `" + name.substr(0, 80) + "`: " + what +
                          "; a target is cpu (this machine), cpu:x86-64-v2, -v3 or -v4, cpu:aarch64, or cpu:NAME for "
                          "LLVM's name of a 64-bit x86 or AArch64 CPU (cpu:sapphirerapids, cpu:znver4, "
                          "cpu:cortex-a76, cpu:neoverse-n1), with features behind it as in cpu:x86-64-v3,+avxvnni");
}

// The name of a feature that LLVM does not know; empty where it knows all.
std::string unknown_feature(const llvm::MCSubtargetInfo& info, const std::string& features) {
  llvm::SmallVector<llvm::StringRef, 64> names;
  llvm::StringRef(features).split(names, ',', -1, false);
  for (llvm::StringRef name : names) {
    const bool has_sign = name.starts_with("+") || name.starts_with("-");
    const bool known = llvm::any_of(info.getAllProcessorFeatures(), [&](const llvm::SubtargetFeatureKV& feature) {
      return name.drop_front() == feature.Key;
    });
    if (!has_sign || !known) return name.str();
  }
  return "";
}

// Sets the triple and LLVM's name of the CPU from the target's.
Result<const llvm::Target*> find_family(CpuTarget& out) {
  bool is_32_bit = false;
  std::vector<std::string_view> known;
  for (const Family& family : kFamilies) {
    std::string message;
    const llvm::Triple triple(family.triple);
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, message);
    if (!target) return internal_error("LLVM: " + message);
    const std::string cpu = out.cpu == family.plain_name ? family.plain_cpu : out.cpu;
    std::unique_ptr<llvm::MCSubtargetInfo> info(target->createMCSubtargetInfo(triple, "", ""));
    if (!info) continue;
    for (const llvm::SubtargetSubTypeKV& each : info->getAllProcessorDescriptions()) known.emplace_back(each.Key);
    if (cpu.empty() || !info->isCPUStringValid(cpu)) continue;
    if (cpu == "generic" && out.cpu == cpu) continue;  // of which family?
    info.reset(target->createMCSubtargetInfo(triple, cpu, ""));
    if (triple.isX86() && !info->checkFeatures("+64bit")) {
      is_32_bit = true;
      continue;
    }
    if (const std::string unknown = unknown_feature(*info, out.features); !unknown.empty()) {
      return unknown_target(out.name, "LLVM knows no feature `" + unknown + "` of such CPUs");
    }
    out.triple = family.triple;
    out.cpu = cpu;
    return target;
  }
  if (is_32_bit) return unknown_target(out.name, "`" + out.cpu + "` is no 64-bit CPU");
  const auto nearest = target::nearest_names(out.cpu, known);
  const std::string similar =
      nearest.empty() ? ""
                      : (nearest.size() == 1 ? "; the nearest is " : "; the nearest are ") + target::listed(nearest);
  return unknown_target(out.name, "LLVM knows no CPU named `" + out.cpu + "`" + similar);
}

// LLVM 19 folded a spilled operand of vcmpph and left the predicate as it was. 22 does not, but its arithmetic of
// halves has run on no CPU here, and halves are computed in f32 anyway. AVX10.2 is not to be had without it.
bool leaves_out_halves(const llvm::Target& family, const CpuTarget& target) {
  const llvm::Triple triple(target.triple);
  std::unique_ptr<llvm::MCSubtargetInfo> info(family.createMCSubtargetInfo(triple, target.cpu, target.features));
  return triple.isX86() && !info->checkFeatures("+avx10.2");
}

void set_x86_properties(CpuTarget& out, const llvm::MCSubtargetInfo& info) {
  const bool avx512 = info.checkFeatures("+avx512f") && info.checkFeatures("+avx512vl") &&
                      info.checkFeatures("+avx512bw") && info.checkFeatures("+avx512dq");
  out.vector_bytes = avx512 ? 64 : info.checkFeatures("+avx2") ? 32 : 16;
  out.vector_registers = avx512 ? 32 : 16;
  out.has_fma = info.checkFeatures("+fma");
  out.has_f16c = info.checkFeatures("+f16c");
  out.has_vnni = has_vnni(info);
  out.has_avx10_2 = avx512 && info.checkFeatures("+avx10.2");
  out.has_vnni_signs = out.has_avx10_2 || (!avx512 && out.has_vnni && info.checkFeatures("+avxvnniint8"));
  out.has_bf16_pairs = avx512 && info.checkFeatures("+avx512bf16");
}

// Tiles of other small floats go with those of bf16.
void set_tiles(CpuTarget& out, const llvm::MCSubtargetInfo& info) {
  const auto has = [&](const char* feature) {
    return out.is_x86 && out.dots.bf16 == DotUnit::kTile && info.checkFeatures(feature);
  };
  out.has_tiles_of_f8 = has("+amx-fp8");
  out.has_tiles_of_f16 = has("+amx-fp16");
  out.has_tiles_of_tf32 = has("+amx-tf32");
}

// Takes ";sve=256" from the options of a target; without it the length is the usual one of the CPU.
Result<int> take_sve_bits(std::string& options, const std::string& cpu, const llvm::MCSubtargetInfo& info) {
  constexpr std::string_view kKey = ";sve=";
  const bool has_sve = info.getTargetTriple().isAArch64() && info.checkFeatures("+sve");
  int out = has_sve ? target::usual_sve_bits(cpu) : 0;
  for (size_t at; (at = options.find(kKey)) != std::string::npos;) {
    const size_t end = std::min(options.find(';', at + 1), options.size());
    const std::string text = options.substr(at + kKey.size(), end - at - kKey.size());
    const auto* bits = std::ranges::find(target::kSveBits, text, [](int each) { return std::to_string(each); });
    if (bits == std::end(target::kSveBits)) {
      return invalid_argument("target option `sve`: `" + text + "` is unknown; there are 128, 256, 512");
    }
    if (!has_sve) return invalid_argument("target option `sve=" + text + "`: the CPU has no such instruction");
    out = *bits;
    options.erase(at, end - at);
  }
  return out;
}

// Of every AArch64 CPU: NEON, fused multiply-add and conversions of f16.
void set_aarch64_properties(CpuTarget& out, const llvm::MCSubtargetInfo& info) {
  out.vector_bytes = std::max(16, out.sve_bits / 8);
  out.vector_registers = 32;
  out.has_fma = true;
  out.has_f16c = true;
  out.has_i8mm = info.checkFeatures("+i8mm");
}

// What a host must have, as far as a launcher without LLVM can ask (client/src/host_cpu.cpp knows the same names).
std::vector<std::string> needed_features(const CpuTarget& target, const llvm::MCSubtargetInfo& info) {
  static constexpr const char* kOfX86[] = {
      "sse3",     "ssse3",      "sse4.1",     "sse4.2",      "popcnt",  "avx",      "avx2",     "fma",
      "f16c",     "bmi",        "bmi2",       "lzcnt",       "avx512f", "avx512cd", "avx512bw", "avx512dq",
      "avx512vl", "avx512vnni", "avx512bf16", "avx512fp16",  "avxvnni", "amx-tile", "amx-int8", "amx-bf16",
      "amx-fp16", "amx-fp8",    "amx-tf32",   "avxvnniint8", "avx10.2", "egpr"};
  static constexpr const char* kOfAarch64[] = {"lse", "fullfp16", "dotprod", "bf16", "i8mm", "sve", "sve2"};
  std::vector<std::string> out;
  auto add = [&](const char* name) {
    if (info.checkFeatures(std::string("+") + name)) out.emplace_back(name);
  };
  if (target.is_x86) {
    for (const char* name : kOfX86) add(name);
  } else {
    for (const char* name : kOfAarch64) add(name);
    if (target.sve_bits > 128) out.push_back("sve" + std::to_string(target.sve_bits));
  }
  return out;
}

}  // namespace

void initialise_llvm() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeX86AsmParser();  // of inline assembly, which asks the system for matrix tiles
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
}

std::string native_processor() {
  std::string name = llvm::sys::getHostCPUName().str();
  const llvm::Triple here(llvm::sys::getProcessTriple());
  for (const Family& family : kFamilies) {
    if (name == "generic" && llvm::Triple(family.triple).getArch() == here.getArch()) name = family.plain_name;
  }
  std::string out = std::string(kPrefix) + name;
  std::map<std::string, bool> sorted;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) sorted[feature.first().str()] = feature.second;
  for (const auto& [feature, on] : sorted) out += (on ? ",+" : ",-") + feature;
  if (const int bits = kiln_sve_bits(); bits > 0) {
    const bool has_code = std::ranges::find(target::kSveBits, bits) != std::end(target::kSveBits);
    out += ";sve=" + std::to_string(has_code ? bits : 128);
  }
  return out;
}

std::string native_target() {
  static const std::string measured = measured_dot_units();
  return native_processor() + measured;
}

Result<std::unique_ptr<CpuTarget>> make_cpu_target(const std::string& name) {
  if (!name.starts_with(kPrefix)) return unknown_target(name, "this compiler has CPUs only");
  auto out = std::make_unique<CpuTarget>();
  out->name = name;
  const size_t end = std::min(name.find(';'), name.size());
  const std::string rest = name.substr(sizeof kPrefix - 1, end - (sizeof kPrefix - 1));
  const size_t comma = rest.find(',');
  out->cpu = rest.substr(0, comma);
  if (comma != std::string::npos) out->features = rest.substr(comma + 1);
  auto family = find_family(*out);
  if (!family) return family.error();
  if (leaves_out_halves(**family, *out)) out->features += out->features.empty() ? "-avx512fp16" : ",-avx512fp16";
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // LLVM contracts nothing; the IR says where
  out->machine.reset((*family)->createTargetMachine(llvm::Triple(out->triple), out->cpu, out->features, options,
                                                    llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                    llvm::CodeGenOptLevel::Default, true));
  if (!out->machine) return internal_error("LLVM has no target machine for " + out->triple);
  const llvm::MCSubtargetInfo& info = *out->machine->getMCSubtargetInfo();
  out->is_x86 = out->machine->getTargetTriple().isX86();
  std::string rest_of_name = name.substr(end);
  auto sve_bits = take_sve_bits(rest_of_name, out->cpu, info);
  if (!sve_bits) return sve_bits.error();
  out->sve_bits = *sve_bits;
  if (out->is_x86) {
    set_x86_properties(*out, info);
  } else {
    set_aarch64_properties(*out, info);
  }
  out->needs = needed_features(*out, info);
  auto units = parse_dot_units(rest_of_name, info);
  if (!units) return units.error();
  out->dots = *units;
  set_tiles(*out, info);
  return out;
}

Result<CpuTarget*> cpu_target(const std::string& name) {
  static std::unique_ptr<CpuTarget> last;
  if (!last || last->name != name) {
    auto made = make_cpu_target(name);
    if (!made) return made.error();
    last = std::move(*made);
  }
  return last.get();
}

}  // namespace kiln::codegen
