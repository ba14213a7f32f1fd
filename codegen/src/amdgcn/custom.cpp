#include "amdgcn/custom.h"

#include "amdgcn/assemble.h"
#include "amdgcn/metadata.h"
#include "amdgcn/target.h"
#include "custom_ir.h"
#include "diagnostics.h"
#include "emit.h"
#include "kiln/abi/launch_block.h"

namespace kiln::codegen::amdgcn {
namespace {

Result<std::vector<std::byte>> object_of_ir(const dsl::CustomRequest& request, AmdTarget& target) {
  llvm::LLVMContext context;
  const Diagnostics diagnostics(context);
  auto module = read_ir(request, *target.machine, context);
  if (!module) return module.error();
  auto entry = find_entry(**module, request, 0);
  if (!entry) return entry.error();
  if (!(*module)->getModuleFlag(kCodeObjectVersionFlag)) {
    (*module)->addModuleFlag(llvm::Module::Error, kCodeObjectVersionFlag, kCodeObjectVersion);
  }
  (*entry)->setCallingConv(llvm::CallingConv::AMDGPU_KERNEL);
  (*entry)->addFnAttr("amdgpu-flat-work-group-size", "1," + std::to_string(request.code.threads));
  optimise_ir(**module, *target.machine, (*entry)->getName());
  auto object = emit_ir(**module, *target.machine, llvm::CodeGenFileType::ObjectFile);
  if (!object) return object.error();
  if (auto fine = diagnostics.check(); !fine) return fine.error();
  return to_bytes(*object);
}

// The kernel of the request's name takes the declaration's parameters, where the launcher puts them.
Result<void> check_arguments(const dsl::CustomRequest& request, std::span<const std::byte> code) {
  const std::string file = file_of(request, ".s");
  auto given = read_arguments(code, request.entry());
  if (!given) return error(ErrorCode::kCompileFailed, file + ": " + given.error().message);
  const dsl::Kernel& kernel = request.declaration;
  const std::string name = file + ": `" + request.entry() + "`";
  if (given->size() != kernel.params.size()) {
    return error(ErrorCode::kCompileFailed, name + " takes " + std::to_string(given->size()) +
                                                " arguments by its metadata, and the declaration has " +
                                                std::to_string(kernel.params.size()));
  }
  const abi::ParamLayout layout = abi::lay_out_params(kernel);
  for (size_t i = 0; i < given->size(); ++i) {
    const NotedArgument& noted = (*given)[i];
    if (noted.offset == int64_t{layout.slots[i].offset} && noted.bytes == int64_t{layout.slots[i].size}) continue;
    return error(ErrorCode::kCompileFailed, name + ": the parameter `" + kernel.params[i].name + "` is " +
                                                std::to_string(layout.slots[i].size) + " bytes at offset " +
                                                std::to_string(layout.slots[i].offset) + ", and by its metadata " +
                                                std::to_string(noted.bytes) + " at " + std::to_string(noted.offset));
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> compile_custom(const dsl::CustomRequest& request, abi::Metadata& metadata) {
  AmdTarget& target = **amd_target(request.target);
  auto object = request.code.form == dsl::CodeForm::kLlvmIr
                    ? object_of_ir(request, target)
                    : assemble(request.code.text, file_of(request, ".s"), *target.machine);
  if (!object) return object.error();
  auto code = link_shared(*object);
  if (!code) return code.error();
  if (auto fine = check_arguments(request, *code); !fine) return fine.error();
  auto resources = read_resources(*code);
  if (!resources) return resources.error();
  metadata.entry = request.entry();
  metadata.emit = "hsaco";
  abi::Device& device = metadata.device.emplace();
  device.threads = request.code.threads;
  device.shared_bytes = request.code.shared_bytes;
  describe(*resources, target.processor, device);
  return code;
}

}  // namespace kiln::codegen::amdgcn
