#include "nvptx/custom.h"

#include <regex>

#include "custom_ir.h"
#include "diagnostics.h"
#include "emit.h"
#include "kiln/abi/launch_block.h"
#include "nvptx/assemble.h"
#include "nvptx/target.h"

namespace kiln::codegen::nvptx {
namespace {

Error refused(const std::string& what) { return error(ErrorCode::kCompileFailed, what); }

// Comments are as good as spaces.
std::string without_comments(const std::string& ptx) {
  std::string out;
  out.reserve(ptx.size());
  for (size_t i = 0; i < ptx.size();) {
    size_t end = i;
    if (ptx.compare(i, 2, "//") == 0) end = std::min(ptx.find('\n', i), ptx.size());
    if (ptx.compare(i, 2, "/*") == 0) end = std::min(ptx.find("*/", i + 2), ptx.size() - 2) + 2;
    out += end > i ? ' ' : ptx[i];
    i = std::max(end, i + 1);
  }
  return out;
}

// The text between the parentheses behind `.entry NAME`.
std::optional<std::string> parameters_of(const std::string& ptx, const std::string& entry) {
  const std::string name = ".entry";
  for (size_t at = ptx.find(name); at != std::string::npos; at = ptx.find(name, at + 1)) {
    const size_t begin = ptx.find_first_not_of(" \t\r\n", at + name.size());
    if (begin == std::string::npos || ptx.compare(begin, entry.size(), entry) != 0) continue;
    const size_t next = ptx.find_first_not_of(" \t\r\n", begin + entry.size());
    if (next == std::string::npos || (ptx[next] != '(' && ptx[next] != '{' && ptx[next] != '.')) continue;
    if (ptx[next] != '(') return "";
    const size_t end = ptx.find(')', next);
    if (end == std::string::npos) return std::nullopt;
    return ptx.substr(next + 1, end - next - 1);
  }
  return std::nullopt;
}

// ".param .align 4 .b8 state[12]" has 12 bytes, ".param .u64 .ptr .global x" 8; 0: it is no parameter.
int64_t bytes_of(const std::string& parameter) {
  static const std::regex form(
      R"(^\s*\.param\b(?:\s*\.align\s+\d+)?\s*\.[a-z]*?(\d+)\b[^\[\]]*(?:\[\s*(\d+)\s*\])?\s*$)");
  std::smatch parts;
  if (!std::regex_match(parameter, parts, form)) return 0;
  return std::stoll(parts[1]) / 8 * (parts[2].matched ? std::stoll(parts[2].str().substr(0, 9)) : 1);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  for (size_t begin = 0; text.find_first_not_of(" \t\r\n", begin) != std::string::npos;) {
    const size_t end = std::min(text.find(',', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = std::min(end + 1, text.size());
  }
  return out;
}

Result<std::string> ptx_of_ir(const dsl::CustomRequest& request, CudaTarget& target) {
  llvm::LLVMContext context;
  const Diagnostics diagnostics(context);
  auto module = read_ir(request, *target.machine, context);
  if (!module) return module.error();
  auto entry = find_entry(**module, request, 0);
  if (!entry) return entry.error();
  (*entry)->setCallingConv(llvm::CallingConv::PTX_Kernel);
  (*entry)->addFnAttr("nvvm.maxntid", std::to_string(request.code.threads));
  optimise_ir(**module, *target.machine, (*entry)->getName());
  auto ptx = emit_ir(**module, *target.machine, llvm::CodeGenFileType::AssemblyFile);
  if (auto fine = diagnostics.check(); !fine) return fine.error();
  return ptx;
}

}  // namespace

Result<void> check_ptx_entry(const dsl::CustomRequest& request) {
  const std::string file = file_of(request, ".ptx");
  const auto inside = parameters_of(without_comments(request.code.text), request.entry());
  if (!inside) return refused(file + " has no `.entry " + request.entry() + "`");
  const std::vector<std::string> given = split(*inside);
  const dsl::Kernel& kernel = request.declaration;
  if (given.size() != kernel.params.size()) {
    return refused(file + ": `" + request.entry() + "` takes " + std::to_string(given.size()) +
                   " parameters, and the declaration has " + std::to_string(kernel.params.size()));
  }
  const abi::ParamLayout layout = abi::lay_out_params(kernel);
  for (size_t i = 0; i < given.size(); ++i) {
    const int64_t bytes = bytes_of(given[i]);
    if (bytes == int64_t{layout.slots[i].size}) continue;
    return refused(file + ": `" + request.entry() + "`: the parameter `" + kernel.params[i].name + "` is declared as " +
                   dsl::to_string(kernel.params[i].type, kernel.expr_names()) + " of " +
                   std::to_string(layout.slots[i].size) + " bytes, and has " + std::to_string(bytes) + " in the code");
  }
  return {};
}

Result<std::vector<std::byte>> compile_custom(const dsl::CustomRequest& request, abi::Metadata& metadata) {
  CudaTarget& target = **cuda_target(request.target);
  std::string ptx = request.code.text;
  if (request.code.form == dsl::CodeForm::kLlvmIr) {
    auto made = ptx_of_ir(request, target);
    if (!made) return made.error();
    ptx = std::move(*made);
  } else if (auto fine = check_ptx_entry(request); !fine) {
    return fine.error();
  }
  metadata.entry = request.entry();
  abi::Device& device = metadata.device.emplace();
  device.threads = request.code.threads;
  device.shared_bytes = request.code.shared_bytes;
  if (!target.is_ptx_only) {
    auto assembled = assemble(ptx, target.processor, /*line_tables=*/false);
    if (!assembled) {
      return refused(file_of(request, request.code.form == dsl::CodeForm::kPtx ? ".ptx" : ".ll") + ": " +
                     assembled.error().message);
    }
    if (*assembled) {
      const Resources& resources = (*assembled)->resources;
      device.registers = resources.registers;
      device.spill_bytes = resources.spill_store_bytes + resources.spill_load_bytes;
      device.assembler_us = resources.assembler_us;
      device.warnings = resources.warnings;
      metadata.emit = "cubin";
      return std::move((*assembled)->cubin);
    }
  }
  metadata.emit = "ptx";
  return to_bytes(ptx);
}

}  // namespace kiln::codegen::nvptx
