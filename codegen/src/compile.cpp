// The life of one compile request: decode → instantiate → optimise the tile IR → lower → optimise → emit → link.
#include "kiln/codegen/compile.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <chrono>
#include <cstring>

#include "cpu/lower.h"
#include "cpu/supported.h"
#include "cse.h"
#include "emit.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/expr_json.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"
#include "target.h"

namespace kiln::codegen {
namespace {

using Clock = std::chrono::steady_clock;

// Times each phase and tells the heartbeat about it.
class Phases {
 public:
  explicit Phases(const Progress& progress) : progress_(progress), start_(Clock::now()) {}

  void begin(const char* name) {
    end();
    name_ = name;
    since_ = Clock::now();
    if (progress_) progress_(name);
  }

  void end() {
    if (name_) json_[name_] = microseconds(since_);
    name_ = nullptr;
  }

  nlohmann::json finish() {
    end();
    json_["total"] = microseconds(start_);
    return json_;
  }

 private:
  static int64_t microseconds(Clock::time_point since) {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - since).count();
  }

  const Progress& progress_;
  Clock::time_point start_, since_;
  const char* name_ = nullptr;
  nlohmann::json json_ = nlohmann::json::object();
};

const char* fact_name(dsl::ParamFact fact) {
  switch (fact) {
    case dsl::ParamFact::kAlign16:
      return "align16";
    case dsl::ParamFact::kMultiple16:
      return "x16";
    case dsl::ParamFact::kOne:
      return "one";
    case dsl::ParamFact::kNone:
      break;
  }
  return "none";
}

nlohmann::json describe(const dsl::CompileRequest& request, const dsl::Kernel& kernel, const cpu::Lowered& lowered) {
  nlohmann::json out;
  out["kernel"] = kernel.name;
  out["target"] = request.target;
  out["emit"] = request.emit;
  out["entry"] = "kiln_entry";
  out["scratch_bytes"] = lowered.scratch_bytes;
  uint64_t params_bytes = 0;
  const auto layout = cpu::param_layout(kernel, params_bytes);
  out["params"] = nlohmann::json::array();
  for (size_t i = 0; i < layout.size(); ++i) {
    const dsl::Param& param = kernel.params[i];
    out["params"].push_back({{"name", param.name},
                             {"type", dsl::to_string(param.type, kernel.expr_names())},
                             {"readonly", param.readonly},
                             {"offset", layout[i].offset}});
  }
  out["params_bytes"] = params_bytes;
  for (const dsl::Expr& extent : kernel.grid) {
    out["grid"].push_back(dsl::to_string(extent, kernel.expr_names()));
    out["grid_expr"].push_back(dsl::expr_to_json(extent));
  }
  out["constexprs"] = nlohmann::json::object();
  for (const auto& [name, value] : request.constexprs) out["constexprs"][name] = value;
  out["facts"] = nlohmann::json::array();
  for (dsl::ParamFact fact : request.facts) out["facts"].push_back(fact_name(fact));
  return out;
}

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// A module that LLVM's verifier rejects is a bug of ours; better an error than LLVM's behaviour on broken IR.
Result<void> check_module(const llvm::Module& module) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream)) return internal_error("the compiler made invalid LLVM IR: " + message);
  return {};
}

Result<std::vector<std::byte>> emit(llvm::Module& module, CpuTarget& target, const std::string& what, Phases& phases) {
  phases.begin("codegen");
  if (what == "llvm") return to_bytes(print_module(module));
  if (what == "asm") {
    auto text = emit_assembly(module, target);
    return text ? Result<std::vector<std::byte>>(to_bytes(*text)) : text.error();
  }
  auto object = emit_object(module, target);
  if (!object || what == "obj") return object;
  phases.begin("link");
  return link_shared(*object);
}

// Everything of the request's work except decoding it.
Result<Artifact> compile_request(const dsl::CompileRequest& request, Phases& phases) {
  if (request.emit != "so" && request.emit != "obj" && request.emit != "asm" && request.emit != "llvm") {
    return invalid_argument("cannot emit `" + request.emit + "`; there are so, obj, asm, llvm");
  }
  auto target = make_cpu_target(request.target);
  if (!target) return target.error();
  CpuTarget& cpu = **target;

  phases.begin("instantiate");
  dsl::Kernel source = request.kernel;
  // Without an FMA instruction a contraction would be a library call a lane.
  if (!cpu.has_fma) source.options.contract = false;
  auto kernel = dsl::instantiate(source, request.constexprs, request.facts);
  if (!kernel) return kernel.error();
  if (auto fine = cpu::check_supported(*kernel); !fine) return fine.error();
  const dsl::Kernel optimised = eliminate_common_subexpressions(*kernel);

  phases.begin("lower");
  llvm::LLVMContext context;
  llvm::Module module("kiln", context);
  module.setTargetTriple(cpu.triple);
  module.setDataLayout(cpu.machine->createDataLayout());
  auto lowered = cpu::lower(optimised, cpu, module);
  if (!lowered) return lowered.error();
  if (auto valid = check_module(module); !valid) return valid.error();

  phases.begin("optimise");
  optimise(module, cpu);
  auto code = emit(module, cpu, request.emit, phases);
  if (!code) return code.error();
  Artifact artifact;
  artifact.metadata = describe(request, optimised, *lowered);
  artifact.metadata["code_bytes"] = code->size();
  artifact.code = std::move(*code);
  return artifact;
}

}  // namespace

Result<Artifact> compile(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                         const Progress& progress) {
  Phases phases(progress);
  phases.begin("decode");
  auto request = dsl::decode_request(canonical, debug);
  if (!request) return request.error();
  auto artifact = compile_request(*request, phases);
  if (artifact) artifact->metadata["phases_us"] = phases.finish();
  return artifact;
}

void warm_up() {
  initialise_llvm();
  // Touches what every kernel needs: address arithmetic, masks, vectors, math, a reduction.
  constexpr char kKernel[] =
      "kernel warm_up(%x: ptr<f32> readonly, %y: ptr<f32>, %n: i32) {\n"
      "  grid [1, 1, 1]\n"
      "  %i = arange {start = 0, end = 256} : tile<[256], i32>\n"
      "  %s = splat %n {shape = [256]} : tile<[256], i32>\n"
      "  %m = cmp %i, %s {pred = lt} : tile<[256], i1>\n"
      "  %a = splat %x {shape = [256]} : tile<[256], ptr<f32>>\n"
      "  %p = addptr %a, %i : tile<[256], ptr<f32>>\n"
      "  %v = load %p, %m : tile<[256], f32>\n"
      "  %e = math %v {fn = exp} : tile<[256], f32>\n"
      "  %t = reduce %e {kind = sum, axis = 0} : f32\n"
      "  %u = splat %t {shape = [256]} : tile<[256], f32>\n"
      "  %d = div %e, %u : tile<[256], f32>\n"
      "  %b = splat %y {shape = [256]} : tile<[256], ptr<f32>>\n"
      "  %q = addptr %b, %i : tile<[256], ptr<f32>>\n"
      "  store %q, %d, %m\n"
      "}\n";
  auto kernel = dsl::parse(kKernel, "warm_up");
  if (!kernel) return;
  const Progress none;
  Phases phases(none);
  (void)compile_request({*kernel, native_target(), {}, {}}, phases);
}

}  // namespace kiln::codegen
