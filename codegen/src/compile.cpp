// The life of one compile request: decode → instantiate → the passes on the tile IR → lower → optimise → codegen →
// link.
#include "kiln/codegen/compile.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <chrono>
#include <cstring>

#include "cpu/f16_bits.h"
#include "cpu/lower.h"
#include "cpu/supported.h"
#include "emit.h"
#include "kiln/abi/metadata_json.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/float_mode.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"
#include "passes/pipeline.h"
#include "passes/refine_axes.h"
#include "plan.h"
#include "reports.h"
#include "target.h"
#ifdef KILN_AMDGCN
#include "amdgcn/generate.h"
#endif
#ifdef KILN_NVPTX
#include "nvptx/vendor.h"
#endif

namespace kiln::codegen {
namespace {

using Clock = std::chrono::steady_clock;

// Times each phase and tells the heartbeat about it.
class Phases {
 public:
  explicit Phases(const Progress& progress) : progress_(progress), start_(Clock::now()) {}

  void begin(std::string_view name) {
    end();
    name_ = std::string(name);
    since_ = Clock::now();
    if (progress_) progress_(name);
  }

  void end() {
    if (!name_.empty()) us_[name_] += microseconds(since_);
    name_.clear();
  }

  std::map<std::string, int64_t> finish() {
    end();
    us_["total"] = microseconds(start_);
    return us_;
  }

 private:
  static int64_t microseconds(Clock::time_point since) {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - since).count();
  }

  const Progress& progress_;
  Clock::time_point start_, since_;
  std::string name_;
  std::map<std::string, int64_t> us_;
};

// Code, and what is said of it.
struct Compiled {
  abi::Metadata metadata;
  std::vector<std::byte> code;
};

abi::Metadata describe_cpu(const dsl::CompileRequest& request, const dsl::Kernel& kernel, const CpuTarget& target,
                           const Plan& plan, const cpu::Lowered& lowered) {
  abi::Metadata out = describe(request, kernel);
  out.needs = {target.machine->getTargetTriple().getArchName().str(), target.needs};
  out.scratch_bytes = static_cast<int64_t>(lowered.scratch_bytes);
  if (!plan.stages.empty()) out.entry = plan.stages.back().entry;
  describe_launch(plan, lowered, out);
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

// LLVM's code generator without its optimisations while this lives: half to three quarters of a compile's time, for
// code that keeps its values in memory.
class QuickCode {
 public:
  QuickCode(llvm::TargetMachine& machine, bool wanted) : machine_(machine), level_(machine.getOptLevel()) {
    if (wanted) machine_.setOptLevel(llvm::CodeGenOptLevel::None);
  }
  ~QuickCode() { machine_.setOptLevel(level_); }
  QuickCode(const QuickCode&) = delete;
  QuickCode& operator=(const QuickCode&) = delete;

 private:
  llvm::TargetMachine& machine_;
  const llvm::CodeGenOptLevel level_;
};

Result<std::vector<std::byte>> emit(llvm::Module& module, CpuTarget& target, const std::string& what, Phases& phases) {
  phases.begin("codegen");
  const QuickCode level(*target.machine, what == abi::kQuickEmit);
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

// The tile IR as text after each pass that the request asks for: `ir:PASS`, `ir:instantiate` for what the passes are
// given, `ir:all`, or `ir` for what they leave.
class IrDump {
 public:
  explicit IrDump(const std::string& emit) {
    if (emit == "ir") wanted_ = pipeline().back().name;
    if (emit.starts_with("ir:")) wanted_ = emit.substr(3);
  }

  bool is_wanted() const { return !wanted_.empty(); }
  bool is_known() const {
    return wanted_.empty() || wanted_ == "all" || wanted_ == kInstantiate || find_pass(wanted_) != nullptr;
  }

  void after(std::string_view pass, const dsl::Kernel& kernel) {
    if (wanted_ == "all") text_ += (text_.empty() ? "// after " : "\n// after ") + std::string(pass) + "\n";
    if (wanted_ == "all" || wanted_ == pass) text_ += dsl::print(kernel);
  }

  const std::string& text() const { return text_; }
  static constexpr std::string_view kInstantiate = "instantiate";

 private:
  std::string wanted_, text_;
};

// `forms`: what the target's code can be, beside the tile IR.
Result<void> check_emit(const std::string& emit, const std::vector<std::string>& forms) {
  if (!IrDump(emit).is_known()) {
    return invalid_argument("cannot dump the tile IR after `" + emit.substr(3) + "`; there are " +
                            std::string(IrDump::kInstantiate) + ", " + pass_names() + ", all");
  }
  if (IrDump(emit).is_wanted() || llvm::is_contained(forms, emit)) return {};
  return invalid_argument("cannot emit `" + emit + "` for this target; there are " + llvm::join(forms, ", ") +
                          ", ir, ir:PASS");
}

// The stages before any target: constants in, the passes on the tile IR.
Result<dsl::Kernel> optimise_kernel(const dsl::Kernel& source, const dsl::CompileRequest& request, IrDump& dump,
                                    Phases& phases) {
  phases.begin("instantiate");
  auto kernel = dsl::instantiate(source, request.constexprs, request.facts);
  if (!kernel) return kernel;
  dump.after(IrDump::kInstantiate, *kernel);
  return run_passes(std::move(*kernel),
                    {.begin = [&](std::string_view name) { phases.begin(name); },
                     .end = [&](std::string_view name, const dsl::Kernel& k) { dump.after(name, k); }});
}

// `so:NAME` or `obj:NAME`: the same with an entry of that name, so that several kernels go into one program.
Result<std::string> take_entry(std::string& emit) {
  const size_t colon = emit.find(':');
  if (colon == std::string::npos || emit.starts_with("ir:")) return std::string(kEntry);
  std::string name = emit.substr(colon + 1);
  emit.resize(colon);
  const bool is_fine = !name.empty() && name.size() <= 200 && !llvm::isDigit(name[0]) &&
                       llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  if (!is_fine) return invalid_argument("`" + name.substr(0, 80) + "` cannot be the name of an entry");
  return name;
}

// Of the last stage the name itself.
void name_entries(Plan& plan, const std::string& name) {
  if (name == kEntry) return;
  for (size_t i = 0; i + 1 < plan.stages.size(); ++i) plan.stages[i].entry = name + "_stage_" + std::to_string(i);
  plan.stages.back().entry = name;
}

// From the tile IR to code.
Result<Compiled> generate(const dsl::CompileRequest& request, const dsl::Kernel& kernel, CpuTarget& cpu,
                          const std::string& entry, Phases& phases) {
  if (auto fine = cpu::check_supported(kernel); !fine) return fine.error();
  phases.begin("lower");
  llvm::LLVMContext context;
  llvm::Module module("kiln", context);
  module.setTargetTriple(cpu.triple);
  module.setDataLayout(cpu.machine->createDataLayout());
  Plan plan = make_plan(refine_axes(kernel), request.constexprs);
  name_entries(plan, entry);
  auto lowered = cpu::lower(plan, cpu, module);
  if (!lowered) return lowered.error();
  if (!cpu.has_f16c) cpu::hold_f16_as_bits(module);
  if (auto valid = check_module(module); !valid) return valid.error();

  phases.begin("optimise");
  clean_up(module, *cpu.machine, Invariants::kInPlace);
  auto code = emit(module, cpu, request.emit, phases);
  if (!code) return code.error();
  return Compiled{describe_cpu(request, kernel, cpu, plan, *lowered), std::move(*code)};
}

Result<Compiled> compile_for_cpu(dsl::CompileRequest request, Phases& phases) {
  auto entry = take_entry(request.emit);
  if (!entry) return entry.error();
  if (auto fine = check_emit(request.emit, {"so", abi::kQuickEmit, "obj", "asm", "llvm"}); !fine) return fine.error();
  phases.begin("target");
  auto target = cpu_target(request.target);
  if (!target) return target.error();
  CpuTarget& cpu = **target;
  dsl::Kernel source = request.kernel;
  // Without an FMA instruction a contraction would be a library call a lane.
  if (!cpu.has_fma) source.options.contract = false;
  IrDump dump(request.emit);
  auto kernel = optimise_kernel(source, request, dump, phases);
  if (!kernel) return kernel.error();
  if (dump.is_wanted()) return Compiled{describe_cpu(request, *kernel, cpu, {}, {}), to_bytes(dump.text())};
  return generate(request, *kernel, cpu, *entry, phases);
}

// The GPUs' code generators, and whether this compiler has them.
struct VendorEntry {
  std::string_view family, name;
  const gpu::Vendor* vendor = nullptr;
};

const std::vector<VendorEntry>& vendors() {
  static const std::vector<VendorEntry> all = [] {
    std::vector<VendorEntry> out = {{"cuda", "NVIDIA"}, {"amd", "AMD"}};
#ifdef KILN_NVPTX
    out[0].vendor = &nvptx::vendor();
#endif
#ifdef KILN_AMDGCN
    out[1].vendor = &amdgcn::vendor();
#endif
    return out;
  }();
  return all;
}

Result<Compiled> compile_for_gpu(const gpu::Vendor& vendor, dsl::CompileRequest request, Phases& phases) {
  if (request.emit == "so") request.emit = vendor.forms.front();
  if (auto fine = check_emit(request.emit, {vendor.forms.begin(), vendor.forms.end()}); !fine) return fine.error();
  phases.begin("target");
  if (auto known = vendor.check_target(request.target); !known) return known.error();
  IrDump dump(request.emit);
  auto kernel = optimise_kernel(request.kernel, request, dump, phases);
  if (!kernel) return kernel.error();
  if (dump.is_wanted()) return Compiled{describe(request, *kernel), to_bytes(dump.text())};
  auto generated = vendor.generate(*kernel, request.target, request.constexprs, gpu::effort_for(request.facts),
                                   request.emit, [&](std::string_view phase) { phases.begin(phase); });
  if (!generated) return generated.error();
  abi::Metadata metadata = describe(request, *kernel);
  metadata.emit = generated->emitted;
  metadata.device = std::move(generated->device);
  const gpu::LoweredPlan& plan = generated->plan;
  if (plan.first.programs > 1) metadata.device->programs = plan.first.programs;
  describe_stages(plan, metadata);
  describe_launch(*kernel, plan.first, metadata);
  return Compiled{std::move(metadata), std::move(generated->code)};
}

// Everything of the request's work except decoding it.
Result<Compiled> compile_request(const dsl::CompileRequest& request, Phases& phases) {
  const auto compile_it = [&]() -> Result<Compiled> {
    for (const VendorEntry& entry : vendors()) {
      if (dsl::target_family(request.target) != entry.family) continue;
      if (entry.vendor) return compile_for_gpu(*entry.vendor, request, phases);
      return invalid_argument("target `" + request.target.substr(0, 80) + "`: this compiler was built without " +
                              std::string(entry.name) + " GPUs (KILN_TARGETS)");
    }
    return compile_for_cpu(request, phases);
  };
  auto compiled = compile_it();
  if (compiled) compiled->metadata.code_bytes = static_cast<int64_t>(compiled->code.size());
  return compiled;
}

}  // namespace

Result<Artifact> compile(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                         const Progress& progress) {
  const dsl::FloatMode mode;
  Phases phases(progress);
  phases.begin("decode");
  auto request = dsl::decode_request(canonical, debug);
  if (!request) return request.error();
  auto compiled = compile_request(*request, phases);
  if (!compiled) return compiled.error();
  compiled->metadata.phases_us = phases.finish();
  return Artifact{abi::to_json(compiled->metadata), std::move(compiled->code)};
}

void start_helpers() {
  for (const VendorEntry& entry : vendors()) {
    if (entry.vendor && entry.vendor->start_helpers) entry.vendor->start_helpers();
  }
}

void warm_up() {
  initialise_llvm();
  for (const VendorEntry& entry : vendors()) {
    if (entry.vendor) entry.vendor->initialise();
  }
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
