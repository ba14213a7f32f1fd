// Reads a code object; see code_object.h.
#include "code_object.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/BinaryFormat/MsgPackDocument.h>

#include <cstring>
#include <optional>

#include "decode.h"

namespace kiln::amdgcn_emulator {
namespace {

namespace elf = llvm::ELF;
using Bytes = std::span<const std::byte>;

constexpr uint32_t kMetadataNote = 32;  // NT_AMDGPU_METADATA
constexpr uint32_t kRelative64 = 13;    // R_AMDGPU_RELATIVE64
constexpr size_t kDescriptorBytes = 64;
constexpr size_t kImageLimit = size_t{1} << 30;

Error bad(const std::string& why) { return invalid_argument("code object: " + why); }

// A T at an offset of some bytes; nothing where they end before it does.
template <class T>
std::optional<T> read(Bytes bytes, uint64_t offset) {
  T value;
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::optional<Bytes> part(Bytes bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return std::nullopt;
  return bytes.subspan(offset, size);
}

// The segments and what the dynamic section's symbols say.
struct Reader {
  Bytes file;
  LoadedCode& code;
  std::string metadata;
  std::map<std::string, uint64_t> symbols;
  uint64_t text_offset = 0;  // in the image
  uint64_t text_bytes = 0;

  Result<void> segments(const elf::Elf64_Ehdr& header);
  Result<void> sections(const elf::Elf64_Ehdr& header);
  Result<void> note(Bytes notes);
  Result<void> symbol_table(const elf::Elf64_Shdr& section, const elf::Elf64_Ehdr& header);
  Result<void> relocations(const elf::Elf64_Shdr& section);
  Result<void> kernels();
  Result<Descriptor> descriptor(const std::string& symbol);
};

Result<void> Reader::segments(const elf::Elf64_Ehdr& header) {
  std::vector<elf::Elf64_Phdr> loads;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    auto segment = read<elf::Elf64_Phdr>(file, header.e_phoff + uint64_t{i} * sizeof(elf::Elf64_Phdr));
    if (!segment) return bad("the program headers end early");
    if (segment->p_type == elf::PT_NOTE) {
      auto notes = part(file, segment->p_offset, segment->p_filesz);
      if (!notes) return bad("a note lies outside the file");
      if (Result<void> read_note = note(*notes); !read_note) return read_note.error();
    }
    if (segment->p_type != elf::PT_LOAD) continue;
    if (segment->p_vaddr > kImageLimit || segment->p_memsz > kImageLimit || segment->p_filesz > segment->p_memsz)
      return bad("a segment is too large");
    loads.push_back(*segment);
    code.image_bytes = std::max<size_t>(code.image_bytes, segment->p_vaddr + segment->p_memsz);
  }
  constexpr size_t kPage = 4096;
  code.storage.resize(code.image_bytes + kPage);
  code.image = code.storage.data() + (kPage - reinterpret_cast<uint64_t>(code.storage.data()) % kPage);
  for (const elf::Elf64_Phdr& segment : loads) {
    auto contents = part(file, segment.p_offset, segment.p_filesz);
    if (!contents) return bad("a segment lies outside the file");
    std::memcpy(code.image + segment.p_vaddr, contents->data(), contents->size());
    if (segment.p_flags & elf::PF_X) {
      text_offset = segment.p_vaddr;
      text_bytes = segment.p_filesz / 4 * 4;
    }
    code.segments.push_back({code.image + segment.p_vaddr, segment.p_memsz, (segment.p_flags & elf::PF_W) != 0});
  }
  if (text_bytes == 0) return bad("no executable segment");
  return {};
}

Result<void> Reader::note(Bytes notes) {
  uint64_t at = 0;
  while (auto head = read<elf::Elf64_Nhdr>(notes, at)) {
    uint64_t name = at + sizeof(elf::Elf64_Nhdr);
    uint64_t contents = name + (head->n_namesz + uint64_t{3}) / 4 * 4;
    auto bytes = part(notes, contents, head->n_descsz);
    if (!bytes) return bad("a note ends early");
    if (head->n_type == kMetadataNote) metadata.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    at = contents + (head->n_descsz + uint64_t{3}) / 4 * 4;
  }
  return {};
}

Result<void> Reader::symbol_table(const elf::Elf64_Shdr& section, const elf::Elf64_Ehdr& header) {
  auto strings = read<elf::Elf64_Shdr>(file, header.e_shoff + uint64_t{section.sh_link} * sizeof(elf::Elf64_Shdr));
  auto names = strings ? part(file, strings->sh_offset, strings->sh_size) : std::nullopt;
  auto table = part(file, section.sh_offset, section.sh_size);
  if (!names || !table || names->empty() || names->back() != std::byte{0}) return bad("the symbol table is damaged");
  for (uint64_t at = 0; at + sizeof(elf::Elf64_Sym) <= table->size(); at += sizeof(elf::Elf64_Sym)) {
    auto symbol = *read<elf::Elf64_Sym>(*table, at);
    if (symbol.st_name >= names->size()) return bad("a symbol's name lies outside the string table");
    symbols[reinterpret_cast<const char*>(names->data()) + symbol.st_name] = symbol.st_value;
  }
  return {};
}

Result<void> Reader::relocations(const elf::Elf64_Shdr& section) {
  auto table = part(file, section.sh_offset, section.sh_size);
  if (!table) return bad("the relocations lie outside the file");
  for (uint64_t at = 0; at + sizeof(elf::Elf64_Rela) <= table->size(); at += sizeof(elf::Elf64_Rela)) {
    auto relocation = *read<elf::Elf64_Rela>(*table, at);
    if (relocation.getType() != kRelative64)
      return bad("relocation of type " + std::to_string(relocation.getType()) + ", only R_AMDGPU_RELATIVE64 is known");
    if (relocation.r_offset > code.image_bytes || code.image_bytes - relocation.r_offset < sizeof(uint64_t))
      return bad("a relocation lies outside the image");
    uint64_t value = reinterpret_cast<uint64_t>(code.image) + static_cast<uint64_t>(relocation.r_addend);
    std::memcpy(code.image + relocation.r_offset, &value, sizeof value);
  }
  return {};
}

Result<void> Reader::sections(const elf::Elf64_Ehdr& header) {
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    auto section = read<elf::Elf64_Shdr>(file, header.e_shoff + uint64_t{i} * sizeof(elf::Elf64_Shdr));
    if (!section) return bad("the section headers end early");
    Result<void> result;
    if (section->sh_type == elf::SHT_DYNSYM) result = symbol_table(*section, header);
    if (section->sh_type == elf::SHT_RELA && (section->sh_flags & elf::SHF_ALLOC)) result = relocations(*section);
    if (!result) return result;
  }
  return {};
}

Result<Descriptor> Reader::descriptor(const std::string& symbol) {
  auto found = symbols.find(symbol);
  if (found == symbols.end()) return bad("no symbol " + symbol);
  auto bytes = part({code.image, code.image_bytes}, found->second, kDescriptorBytes);
  if (!bytes) return bad("descriptor " + symbol + " lies outside the image");
  Descriptor result;
  result.lds_bytes = *read<uint32_t>(*bytes, 0);
  result.scratch_bytes = *read<uint32_t>(*bytes, 4);
  result.argument_bytes = *read<uint32_t>(*bytes, 8);
  result.entry = reinterpret_cast<uint64_t>(code.image) + found->second + *read<uint64_t>(*bytes, 16);
  result.rsrc3 = *read<uint32_t>(*bytes, 44);
  result.rsrc1 = *read<uint32_t>(*bytes, 48);
  result.rsrc2 = *read<uint32_t>(*bytes, 52);
  result.properties = *read<uint16_t>(*bytes, 56);
  result.preload = *read<uint16_t>(*bytes, 58);
  return result;
}

using Node = llvm::msgpack::DocNode;

Node* member(Node& map, const char* key) {
  auto found = map.getMap().find(key);
  return found == map.getMap().end() ? nullptr : &found->second;
}

std::string text_of(Node& map, const char* key) {
  Node* node = member(map, key);
  return node && node->isString() ? node->getString().str() : "";
}

uint32_t number_of(Node& map, const char* key) {
  Node* node = member(map, key);
  if (!node) return 0;
  if (node->getKind() == llvm::msgpack::Type::Int) return static_cast<uint32_t>(node->getInt());
  return node->getKind() == llvm::msgpack::Type::UInt ? static_cast<uint32_t>(node->getUInt()) : 0;
}

Kernel kernel_of(Node& map) {
  Kernel kernel;
  kernel.name = text_of(map, ".name");
  kernel.wavefront_size = number_of(map, ".wavefront_size");
  kernel.argument_bytes = number_of(map, ".kernarg_segment_size");
  kernel.lds_bytes = number_of(map, ".group_segment_fixed_size");
  kernel.scratch_bytes = number_of(map, ".private_segment_fixed_size");
  kernel.vgprs = number_of(map, ".vgpr_count");
  kernel.sgprs = number_of(map, ".sgpr_count");
  Node* dynamic = member(map, ".uses_dynamic_stack");
  kernel.dynamic_stack = dynamic && dynamic->getKind() == llvm::msgpack::Type::Boolean && dynamic->getBool();
  if (Node* arguments = member(map, ".args"); arguments && arguments->isArray())
    for (Node& argument : arguments->getArray())
      if (argument.isMap())
        kernel.arguments.push_back(
            {text_of(argument, ".value_kind"), number_of(argument, ".offset"), number_of(argument, ".size")});
  return kernel;
}

Result<void> Reader::kernels() {
  llvm::msgpack::Document document;
  if (!document.readFromBlob(metadata, false) || !document.getRoot().isMap()) return bad("no metadata note");
  std::string target = text_of(document.getRoot(), "amdhsa.target");
  std::string processor = target.substr(target.rfind('-') + 1);
  code.processor = processor_of(processor.substr(0, processor.find(':')));
  Node* list = member(document.getRoot(), "amdhsa.kernels");
  if (!list || !list->isArray()) return bad("the metadata names no kernels");
  for (Node& entry : list->getArray()) {
    if (!entry.isMap()) return bad("the metadata of a kernel is no map");
    Kernel kernel = kernel_of(entry);
    Result<Descriptor> found = descriptor(text_of(entry, ".symbol"));
    if (!found) return found.error();
    if (kernel.wavefront_size != 32 && kernel.wavefront_size != 64)
      return bad("kernel " + kernel.name + " has waves of " + std::to_string(kernel.wavefront_size) + " lanes");
    code.kernels.push_back({kernel, *found});
    code.kernel_list.push_back(std::move(kernel));
  }
  return {};
}

}  // namespace

const Instruction* LoadedCode::find(uint64_t address) const {
  uint64_t dword = (address - text_begin) / 4;
  if (address % 4 != 0 || address < text_begin || dword >= instruction_at.size()) return &instructions.back();
  return &instructions[instruction_at[dword]];
}

Result<CodeObject> CodeObject::load(Bytes file) {
  auto header = read<elf::Elf64_Ehdr>(file, 0);
  if (!header || !header->checkMagic() || header->e_ident[elf::EI_CLASS] != elf::ELFCLASS64 ||
      header->e_machine != elf::EM_AMDGPU || header->e_type != elf::ET_DYN)
    return bad("no shared ELF64 object for AMDGPU");
  auto code = std::make_shared<LoadedCode>();
  Reader reader{file, *code, {}, {}, 0, 0};
  if (Result<void> done = reader.segments(*header); !done) return done.error();
  if (Result<void> done = reader.sections(*header); !done) return done.error();
  if (Result<void> done = reader.kernels(); !done) return done.error();
  code->text_begin = reinterpret_cast<uint64_t>(code->image) + reader.text_offset;
  bool wave64 = code->kernels.empty() || code->kernels.front().kernel.wavefront_size == 64;
  if (Result<void> done = decode_text(*code, reader.text_bytes, wave64); !done) return done.error();
  CodeObject object;
  object.code_ = std::move(code);
  return object;
}

std::string_view CodeObject::processor() const { return code_->processor.name; }
std::span<const Kernel> CodeObject::kernels() const {
  return code_ ? std::span<const Kernel>(code_->kernel_list) : std::span<const Kernel>();
}

}  // namespace kiln::amdgcn_emulator
