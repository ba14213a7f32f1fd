// Code objects for the tests; see build.h.
#include "build.h"

#include <gtest/gtest.h>
#include <lld/Common/Driver.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/MCAsmBackend.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCCodeEmitter.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCObjectFileInfo.h>
#include <llvm/MC/MCObjectWriter.h>
#include <llvm/MC/MCParser/MCAsmParser.h>
#include <llvm/MC/MCParser/MCTargetAsmParser.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCStreamer.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <fstream>

LLD_HAS_DRIVER(elf)

extern "C" {
void LLVMInitializeAMDGPUTargetInfo();
void LLVMInitializeAMDGPUTarget();
void LLVMInitializeAMDGPUTargetMC();
void LLVMInitializeAMDGPUAsmParser();
void LLVMInitializeAMDGPUAsmPrinter();
}

namespace kiln::amdgcn_emulator {
namespace {

const llvm::Triple kTriple("amdgcn-amd-amdhsa");

const llvm::Target& target() {
  static const llvm::Target* found = [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmParser();
    LLVMInitializeAMDGPUAsmPrinter();
    std::string message;
    return llvm::TargetRegistry::lookupTarget(kTriple, message);
  }();
  return *found;
}

// A temporary file that goes with this object.
class TemporaryFile {
 public:
  TemporaryFile() { EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("kiln", "o", path_)); }
  ~TemporaryFile() { llvm::sys::fs::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return std::string(path_); }

 private:
  llvm::SmallString<128> path_;
};

std::vector<std::byte> link(llvm::StringRef object) {
  TemporaryFile input, output;
  std::ofstream(input.path(), std::ios::binary).write(object.data(), static_cast<std::streamsize>(object.size()));
  std::string in = input.path(), out = output.path(), messages;
  llvm::raw_string_ostream stream(messages);
  const char* arguments[] = {"ld.lld", "-shared", in.c_str(), "-o", out.c_str()};
  lld::Result result = lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  EXPECT_EQ(result.retCode, 0) << messages;
  std::ifstream file(out, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

CodeObject load(const std::vector<std::byte>& elf) {
  Result<CodeObject> object = CodeObject::load(elf);
  EXPECT_TRUE(object.ok()) << (object.ok() ? "" : object.error().message);
  return object.ok() ? *object : CodeObject();
}

}  // namespace

std::vector<std::byte> assemble_file(const std::string& processor, const std::string& text) {
  const llvm::Target& amdgpu = target();
  llvm::MCTargetOptions options;
  std::unique_ptr<llvm::MCRegisterInfo> registers(amdgpu.createMCRegInfo(kTriple));
  std::unique_ptr<llvm::MCAsmInfo> assembly(amdgpu.createMCAsmInfo(*registers, kTriple, options));
  std::unique_ptr<llvm::MCInstrInfo> instructions(amdgpu.createMCInstrInfo());
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(amdgpu.createMCSubtargetInfo(kTriple, processor, ""));
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text), llvm::SMLoc());
  llvm::MCContext context(kTriple, assembly.get(), registers.get(), subtarget.get(), &sources, &options);
  std::unique_ptr<llvm::MCObjectFileInfo> sections(amdgpu.createMCObjectFileInfo(context, true));
  context.setObjectFileInfo(sections.get());
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  std::unique_ptr<llvm::MCAsmBackend> backend(amdgpu.createMCAsmBackend(*subtarget, *registers, options));
  auto writer = backend->createObjectWriter(stream);
  std::unique_ptr<llvm::MCCodeEmitter> emitter(amdgpu.createMCCodeEmitter(*instructions, context));
  std::unique_ptr<llvm::MCStreamer> streamer(amdgpu.createMCObjectStreamer(
      kTriple, context, std::move(backend), std::move(writer), std::move(emitter), *subtarget));
  std::unique_ptr<llvm::MCAsmParser> parser(llvm::createMCAsmParser(sources, context, *streamer, *assembly));
  std::unique_ptr<llvm::MCTargetAsmParser> target_parser(
      amdgpu.createMCAsmParser(*subtarget, *parser, *instructions, options));
  parser->setTargetParser(*target_parser);
  if (parser->Run(false)) {
    ADD_FAILURE() << "the assembler refuses the text";
    return {};
  }
  return link({object.data(), object.size()});
}

CodeObject assemble(const std::string& processor, const std::string& body) {
  bool gfx9 = processor.starts_with("gfx9");
  bool offset = processor == "gfx90a" || processor.starts_with("gfx94") || processor.starts_with("gfx95");
  std::string text = ".amdgcn_target \"amdgcn-amd-amdhsa--" + processor + "\"\n.amdhsa_code_object_version 5\n" +
                     R"(.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
)" + body + R"(
s_endpgm
.rodata
.p2align 6
.amdhsa_kernel kernel
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_group_segment_fixed_size 4096
  .amdhsa_private_segment_fixed_size 64
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_float_denorm_mode_32 3
  .amdhsa_next_free_vgpr 128
  .amdhsa_next_free_sgpr 96
)" + (offset ? ".amdhsa_accum_offset 64\n" : "") +
                     (gfx9 ? "" : ".amdhsa_wavefront_size32 1\n") + R"(.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.target: amdgcn-amd-amdhsa--)" +
                     processor + R"(
amdhsa.kernels:
  - .name: kernel
    .symbol: kernel.kd
    .kernarg_segment_size: 64
    .group_segment_fixed_size: 4096
    .private_segment_fixed_size: 64
    .kernarg_segment_align: 8
    .wavefront_size: )" +
                     (gfx9 ? "64" : "32") + R"(
    .sgpr_count: 96
    .vgpr_count: 128
    .max_flat_workgroup_size: 1024
...
.end_amdgpu_metadata
)";
  return load(assemble_file(processor, text));
}

CodeObject compile(const std::string& processor, const std::string& ir) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::TargetMachine> machine(target().createTargetMachine(
      kTriple, processor, "", llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(ir, diagnostic, context);
  EXPECT_TRUE(module) << diagnostic.getLineNo() << ": " << diagnostic.getMessage().str();
  if (!module) return {};
  module->setTargetTriple(kTriple);
  module->setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  EXPECT_FALSE(machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile));
  passes.run(*module);
  return load(link({object.data(), object.size()}));
}

}  // namespace kiln::amdgcn_emulator
