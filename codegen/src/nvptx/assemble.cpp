#include "nvptx/assemble.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <regex>
#include <sstream>

#include "nvptx/jit_link.h"
#include "nvptx/ptxas.h"

namespace kiln::codegen::nvptx {
namespace {

int64_t number_before(const std::string& line, const std::string& what) {
  std::smatch match;
  return std::regex_search(line, match, std::regex("(\\d+) " + what)) ? std::stoll(match[1]) : 0;
}

}  // namespace

bool Resources::ignores_registers() const {
  return std::ranges::any_of(
      warnings, [](const std::string& line) { return line.find("'setmaxnreg' ignored") != std::string::npos; });
}

Resources read_resources(const std::string& log) {
  Resources out;
  std::istringstream lines(log);
  static const std::regex lost_speed("\\(C75\\d\\d\\)");
  for (std::string line; std::getline(lines, line);) {
    if (line.find("spill stores") != std::string::npos) {
      out.stack_bytes = std::max(out.stack_bytes, number_before(line, "bytes stack frame"));
      out.spill_store_bytes += number_before(line, "bytes spill stores");
      out.spill_load_bytes += number_before(line, "bytes spill loads");
    } else if (line.find("Used ") != std::string::npos) {
      out.registers = std::max(out.registers, static_cast<int>(number_before(line, "registers")));
      out.static_shared_bytes = std::max(out.static_shared_bytes, number_before(line, "bytes smem"));
    } else if (std::regex_search(line, lost_speed)) {
      out.warnings.push_back(line);
    }
  }
  return out;
}

namespace {

using Process = std::unique_ptr<AssemblerProcess>;

// The process that runs ptxas for this one. Started once; nothing where there is no ptxas.
const Result<Process>& assembler_process(const Outside& outside = {}) {
  static const Result<Process> process = [&]() -> Result<Process> {
    auto program = find_ptxas(outside);
    if (!program) return program.error();
    return program->empty() ? Process() : AssemblerProcess::start(*program, outside);
  }();
  return process;
}

const Result<std::optional<JitLink>>& jit_link(const Outside& outside = {}) {
  static const Result<std::optional<JitLink>> library = find_jit_link(outside);
  return library;
}

Result<Assembled> run(const AssemblerProcess& process, const std::string& ptx, const std::string& processor,
                      bool line_tables) {
  auto output = process.assemble(ptx, processor, line_tables);
  if (!output) return output.error();
  return Assembled{std::move(output->cubin), read_resources(output->log)};
}

// nvJitLink assembles for linking, which leaves every thread the registers that it began with.
bool moves_registers(const std::string& ptx) { return ptx.find("setmaxnreg") != std::string::npos; }

Result<std::optional<Assembled>> assemble_once(const std::string& ptx, const std::string& processor, bool line_tables) {
  if (!jit_link()) return jit_link().error();
  const std::optional<JitLink>& library = *jit_link();
  const bool by_program = moves_registers(ptx) && (!assembler_process() || *assembler_process());
  if (library && !by_program) {
    auto linked = link(*library, ptx, processor, line_tables);
    if (linked) return std::optional(Assembled{std::move(linked->cubin), read_resources(linked->log)});
    if (linked.error().code != ErrorCode::kUnavailable) return linked.error();
  }
  const Result<Process>& process = assembler_process();
  if (!process) return process.error();
  if (!*process) return std::optional<Assembled>();
  auto assembled = run(**process, ptx, processor, line_tables);
  if (!assembled) return assembled.error();
  return std::optional(std::move(*assembled));
}

}  // namespace

void load_assembler(const Outside& outside) { (void)jit_link(outside); }

void start_assembler(const Outside& outside) { (void)assembler_process(outside); }

Result<std::optional<Assembled>> assemble(const std::string& ptx, const std::string& processor, bool line_tables) {
  const auto start = std::chrono::steady_clock::now();
  auto out = assemble_once(ptx, processor, line_tables);
  if (out && *out) {
    (*out)->resources.assembler_us =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
  }
  return out;
}

}  // namespace kiln::codegen::nvptx
