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

using llvm::msgpack::DocNode;

// The document's maps, one a kernel.
Result<llvm::msgpack::ArrayDocNode> kernels_of(llvm::msgpack::Document& document, llvm::StringRef note) {
  if (!document.readFromBlob(note, false)) return internal_error("a code object's note is no MessagePack");
  DocNode& root = document.getRoot();
  if (!root.isMap() || !root.getMap()["amdhsa.kernels"].isArray()) {
    return internal_error("a code object's note names no kernels");
  }
  llvm::msgpack::ArrayDocNode kernels = root.getMap()["amdhsa.kernels"].getArray();
  if (kernels.empty()) return internal_error("a code object has no kernel");
  return kernels;
}

int64_t number_of(DocNode& node, const char* field) {
  if (!node.isMap()) return 0;
  const auto found = node.getMap().find(field);
  if (found == node.getMap().end() || found->second.getKind() != llvm::msgpack::Type::UInt) return 0;
  return static_cast<int64_t>(found->second.getUInt());
}

llvm::StringRef text_of(DocNode& node, const char* field) {
  if (!node.isMap()) return {};
  const auto found = node.getMap().find(field);
  return found != node.getMap().end() && found->second.isString() ? found->second.getString() : llvm::StringRef();
}

Result<Resources> resources_of(llvm::StringRef note) {
  llvm::msgpack::Document document;
  auto kernels = kernels_of(document, note);
  if (!kernels) return kernels.error();
  const auto number = [&](const char* field) {
    int64_t most = 0;
    for (DocNode& node : *kernels) most = std::max(most, number_of(node, field));
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

// It borrows the bytes.
Result<llvm::StringRef> note_of(std::span<const std::byte> code_object) {
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
      return note.getDescAsStringRef(segment.p_align);
    }
    if (problem) return internal_error("a code object's notes: " + llvm::toString(std::move(problem)));
  }
  return internal_error("a code object has no note of AMDGPU's");
}

}  // namespace

Result<Resources> read_resources(std::span<const std::byte> code_object) {
  auto note = note_of(code_object);
  return note ? resources_of(*note) : note.error();
}

Result<std::vector<NotedArgument>> read_arguments(std::span<const std::byte> code_object, std::string_view kernel) {
  auto note = note_of(code_object);
  if (!note) return note.error();
  llvm::msgpack::Document document;
  auto kernels = kernels_of(document, *note);
  if (!kernels) return kernels.error();
  for (DocNode& node : *kernels) {
    if (text_of(node, ".name") != llvm::StringRef(kernel)) continue;
    std::vector<NotedArgument> out;
    const auto list = node.getMap().find(".args");
    if (list == node.getMap().end() || !list->second.isArray()) return out;
    for (DocNode& argument : list->second.getArray()) {
      if (text_of(argument, ".value_kind").starts_with("hidden_")) continue;
      out.push_back({number_of(argument, ".offset"), number_of(argument, ".size")});
    }
    return out;
  }
  return internal_error("a code object has no kernel `" + std::string(kernel) + "`");
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

void describe(const Resources& resources, const Processor& processor, abi::Device& device) {
  device.registers = resources.registers;
  device.accumulator_registers = resources.accumulator_registers;
  device.scalar_registers = resources.scalar_registers;
  device.lds_bytes = resources.lds_bytes;
  device.scratch_bytes = resources.scratch_bytes;
  // Scalar ones go to lanes of vector registers, not to memory.
  device.spill_bytes = 4 * resources.vector_spills;
  device.scalar_spills = resources.scalar_spills;
  device.waves_per_simd = waves_per_simd(resources, processor, static_cast<int>(*device.threads));
}

}  // namespace kiln::codegen::amdgcn
