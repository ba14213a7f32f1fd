#include "target.h"

#include <link.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include <cstring>
#include <map>

#include "kiln/codegen/compile.h"

namespace kiln::codegen {
namespace {

constexpr char kPrefix[] = "cpu:";

std::string to_hex(const unsigned char* bytes, size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < size; ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

// The GNU build-id of a loaded object, from its note segment.
std::string build_id_of(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object.dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(object.dlpi_addr + header.p_vaddr);
    const char* end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* name = at + sizeof note;
      const char* data = name + ((note.n_namesz + 3) & ~3u);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        return to_hex(reinterpret_cast<const unsigned char*>(data), note.n_descsz);
      }
      at = data + ((note.n_descsz + 3) & ~3u);
    }
  }
  return {};
}

int collect_build_ids(dl_phdr_info* object, size_t, void* out) {
  // The executable has the empty name; every LLVM library counts, whichever way it is split.
  const std::string name = object->dlpi_name ? object->dlpi_name : "";
  if (name.empty() || name.find("libLLVM") != std::string::npos) {
    (*static_cast<std::map<std::string, std::string>*>(out))[name.empty() ? "" : "llvm"] = build_id_of(*object);
  }
  return 0;
}

bool cpu_is_known(const llvm::Target& target, const std::string& triple, const std::string& cpu) {
  std::unique_ptr<llvm::MCSubtargetInfo> info(target.createMCSubtargetInfo(triple, "", ""));
  return info && info->isCPUStringValid(cpu);
}

}  // namespace

void initialise_llvm() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
}

std::string native_target() {
  std::string out = std::string(kPrefix) + llvm::sys::getHostCPUName().str();
  std::map<std::string, bool> sorted;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) sorted[feature.first().str()] = feature.second;
  for (const auto& [name, on] : sorted) out += (on ? ",+" : ",-") + name;
  return out;
}

std::string builder_id() {
  std::map<std::string, std::string> ids;
  dl_iterate_phdr(collect_build_ids, &ids);
  return ids[""] + (ids.count("llvm") ? "-" + ids["llvm"] : "");
}

Result<std::unique_ptr<CpuTarget>> make_cpu_target(const std::string& name) {
  if (name.rfind(kPrefix, 0) != 0) return invalid_argument("target `" + name + "` is unknown; this compiler has: cpu");
  auto out = std::make_unique<CpuTarget>();
  out->name = name;
  const std::string rest = name.substr(sizeof kPrefix - 1);
  const size_t comma = rest.find(',');
  out->cpu = rest.substr(0, comma);
  if (comma != std::string::npos) out->features = rest.substr(comma + 1);
  out->triple = llvm::sys::getDefaultTargetTriple();

  std::string message;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(out->triple, message);
  if (!target) return internal_error("LLVM: " + message);
  if (!cpu_is_known(*target, out->triple, out->cpu)) {
    return invalid_argument("target `" + name.substr(0, 80) + "`: LLVM knows no CPU named `" + out->cpu + "`");
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // LLVM contracts nothing; the IR says where
  out->machine.reset(target->createTargetMachine(out->triple, out->cpu, out->features, options, llvm::Reloc::PIC_,
                                                 llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, true));
  if (!out->machine) return internal_error("LLVM has no target machine for " + out->triple);
  const llvm::MCSubtargetInfo& info = *out->machine->getMCSubtargetInfo();
  const bool avx512 = info.checkFeatures("+avx512f") && info.checkFeatures("+avx512vl") &&
                      info.checkFeatures("+avx512bw") && info.checkFeatures("+avx512dq");
  out->vector_bytes = avx512 ? 64 : info.checkFeatures("+avx2") ? 32 : 16;
  out->vector_registers = avx512 ? 32 : 16;
  out->has_fma = info.checkFeatures("+fma");
  out->has_f16c = info.checkFeatures("+f16c");
  return out;
}

}  // namespace kiln::codegen
