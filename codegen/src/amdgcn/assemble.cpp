#include "amdgcn/assemble.h"

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
#include <llvm/Support/SourceMgr.h>

#include "emit.h"

namespace kiln::codegen::amdgcn {
namespace {

// The first error; what follows is often of its making.
void note_first(const llvm::SMDiagnostic& said, void* into) {
  auto& first = *static_cast<std::string*>(into);
  if (!first.empty() || said.getKind() != llvm::SourceMgr::DK_Error) return;
  first = said.getFilename().str() + ":" + std::to_string(said.getLineNo()) + ":" +
          std::to_string(said.getColumnNo() + 1) + ": " + said.getMessage().str();
}

}  // namespace

Result<std::vector<std::byte>> assemble(const std::string& text, const std::string& file,
                                        const llvm::TargetMachine& machine) {
  const llvm::Target& target = machine.getTarget();
  const llvm::Triple& triple = machine.getTargetTriple();
  const llvm::MCSubtargetInfo& subtarget = *machine.getMCSubtargetInfo();
  const llvm::MCTargetOptions& options = machine.Options.MCOptions;
  std::string first_error;
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, file), llvm::SMLoc());
  sources.setDiagHandler(note_first, &first_error);
  llvm::MCContext context(triple, machine.getMCAsmInfo(), machine.getMCRegisterInfo(), &subtarget, &sources, &options);
  const std::unique_ptr<llvm::MCObjectFileInfo> sections(target.createMCObjectFileInfo(context, /*PIC=*/true));
  context.setObjectFileInfo(sections.get());
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  std::unique_ptr<llvm::MCAsmBackend> backend(
      target.createMCAsmBackend(subtarget, *machine.getMCRegisterInfo(), options));
  auto writer = backend->createObjectWriter(stream);
  std::unique_ptr<llvm::MCCodeEmitter> emitter(target.createMCCodeEmitter(*machine.getMCInstrInfo(), context));
  const std::unique_ptr<llvm::MCStreamer> streamer(target.createMCObjectStreamer(
      triple, context, std::move(backend), std::move(writer), std::move(emitter), subtarget));
  const std::unique_ptr<llvm::MCAsmParser> parser(
      llvm::createMCAsmParser(sources, context, *streamer, *machine.getMCAsmInfo()));
  const std::unique_ptr<llvm::MCTargetAsmParser> instructions(
      target.createMCAsmParser(subtarget, *parser, *machine.getMCInstrInfo(), options));
  parser->setTargetParser(*instructions);
  if (parser->Run(/*NoInitialTextSection=*/false) || context.hadError()) {
    return error(ErrorCode::kCompileFailed, first_error.empty() ? file + " is no assembly" : first_error);
  }
  return to_bytes({object.data(), object.size()});
}

}  // namespace kiln::codegen::amdgcn
