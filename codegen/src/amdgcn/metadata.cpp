// The note ("AMDGPU Usage", "Code Object V5 Metadata"): a MessagePack map whose `amdhsa.kernels` has a map for each
// kernel.
#include "amdgcn/metadata.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/BinaryFormat/MsgPackDocument.h>
#include <llvm/Object/ELF.h>

#include <algorithm>

namespace kiln::codegen::amdgcn {
namespace {

using Elf = llvm::object::ELF64LEFile;

Result<Resources> read_note(llvm::StringRef text) {
  llvm::msgpack::Document document;
  if (!document.readFromBlob(text, false)) return internal_error("a code object's note is no MessagePack");
  llvm::msgpack::DocNode& root = document.getRoot();
  if (!root.isMap() || !root.getMap()["amdhsa.kernels"].isArray()) {
    return internal_error("a code object's note names no kernels");
  }
  llvm::msgpack::ArrayDocNode kernels = root.getMap()["amdhsa.kernels"].getArray();
  if (kernels.empty()) return internal_error("a code object has no kernel");
  const auto number = [&](const char* field) {
    int64_t most = 0;
    for (llvm::msgpack::DocNode& node : kernels) {
      if (!node.isMap()) continue;
      const auto found = node.getMap().find(field);
      if (found == node.getMap().end() || found->second.getKind() != llvm::msgpack::Type::UInt) continue;
      most = std::max(most, static_cast<int64_t>(found->second.getUInt()));
    }
    return most;
  };
  Resources out;
  out.registers = static_cast<int>(number(".vgpr_count"));
  out.accumulator_registers = static_cast<int>(number(".agpr_count"));
  out.scalar_registers = static_cast<int>(number(".sgpr_count"));
  out.lds_bytes = number(".group_segment_fixed_size");
  out.scratch_bytes = number(".private_segment_fixed_size");
  out.vector_spills = static_cast<int>(number(".vgpr_spill_count"));
  out.scalar_spills = static_cast<int>(number(".sgpr_spill_count"));
  return out;
}

}  // namespace

Result<Resources> read_resources(std::span<const std::byte> code_object) {
  const llvm::StringRef bytes(reinterpret_cast<const char*>(code_object.data()), code_object.size());
  auto file = Elf::create(bytes);
  if (!file) return internal_error("a code object is no ELF file: " + llvm::toString(file.takeError()));
  auto segments = file->program_headers();
  if (!segments) return internal_error("a code object has no segments: " + llvm::toString(segments.takeError()));
  for (const Elf::Elf_Phdr& segment : *segments) {
    if (segment.p_type != llvm::ELF::PT_NOTE) continue;
    llvm::Error problem = llvm::Error::success();
    for (const Elf::Elf_Note note : file->notes(segment, problem)) {
      if (note.getName() != "AMDGPU" || note.getType() != llvm::ELF::NT_AMDGPU_METADATA) continue;
      llvm::consumeError(std::move(problem));
      return read_note(note.getDescAsStringRef(segment.p_align));
    }
    if (problem) return internal_error("a code object's notes: " + llvm::toString(std::move(problem)));
  }
  return internal_error("a code object has no note of AMDGPU's");
}

int waves_per_simd(const Resources& resources, const Processor& processor, int threads) {
  const int portion = processor.register_portion;
  const int registers = std::max((resources.registers + portion - 1) / portion * portion, portion);
  const int waves = std::max(1, threads / processor.lanes);
  int out = std::min(processor.most_waves, processor.registers / registers);
  if (resources.lds_bytes > 0) {
    const auto workgroups = static_cast<int>(processor.lds_bytes() / resources.lds_bytes);
    out = std::min(out, std::max(1, workgroups * waves / processor.simds));
  }
  return out;
}

}  // namespace kiln::codegen::amdgcn
