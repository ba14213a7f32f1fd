// The life of one compile request: decode → instantiate → the passes on the tile IR → the steps of its target's backend
// (backend.h).
#include "kiln/codegen/compile.h"

#include <llvm/ADT/StringExtras.h>

#include "backend.h"
#include "emit.h"
#include "ir_dump.h"
#include "kiln/abi/metadata_json.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/float_mode.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"
#include "memory_file.h"
#include "phases.h"
#include "reports.h"
#include "target.h"

namespace kiln::codegen {
namespace {

Result<void> check_emit(const std::string& emit, const IrDump& dump, const Backend& backend) {
  if (dump.is_wanted()) {
    std::string known = std::string(IrDump::kInstantiate);
    for (const PassRow& row : rows_of(backend)) {
      if (row.name == dump.wanted()) return {};
      known += ", " + std::string(row.name);
    }
    if (dump.is_early()) return {};
    return invalid_argument("cannot dump the IR after `" + dump.wanted() + "`; there are " + known + ", all");
  }
  if (llvm::is_contained(backend.forms, emit)) return {};
  return invalid_argument("cannot emit `" + emit + "` for this target; there are " + llvm::join(backend.forms, ", ") +
                          ", ir, ir:PASS");
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

// Of the last step the name itself.
void name_entries(LaunchSequence& sequence, const std::string& name) {
  if (name == kEntry) return;
  for (size_t i = 0; i + 1 < sequence.steps.size(); ++i) sequence.steps[i].entry = name + "_stage_" + std::to_string(i);
  sequence.steps.back().entry = name;
}

// Code, and what is said of it.
struct Compiled {
  abi::Metadata metadata;
  std::vector<std::byte> code;
  int64_t spilled_bytes = 0;
};

// From a kernel's launches to its code. `metadata`: what is known of the artifact already.
Result<Compiled> make_code(const Backend& backend, const dsl::CompileRequest& request, const LaunchSequence& sequence,
                           Attempt attempt, const Observer& observer, const abi::Metadata& metadata) {
  for (;;) {
    Job job(request, sequence, attempt, observer);
    job.metadata = metadata;
    if (auto lowered = backend.lower(backend, job); !lowered) return lowered.error();
    if (request.emit.starts_with("ir")) return Compiled{std::move(job.metadata), {}};
    auto code = backend.emit(job);
    if (!code) return code.error();
    if (auto fine = job.diagnostics.check(); !fine) return fine.error();
    if (!code->lacks_registers || !attempt.specialises) {
      return Compiled{std::move(job.metadata), std::move(code->bytes), code->spilled_bytes};
    }
    attempt.specialises = false;  // the program's warps copy by themselves
  }
}

// Short code that is short of registers bridges nothing well.
Result<Compiled> make_good_code(const Backend& backend, const dsl::CompileRequest& request,
                                const LaunchSequence& sequence, const Observer& observer,
                                const abi::Metadata& metadata) {
  const Attempt first{gpu::effort_for(request.facts)};
  auto made = make_code(backend, request, sequence, first, observer, metadata);
  if (!made || first.effort == gpu::Effort::kFast || made->spilled_bytes == 0) return made;
  auto fast = make_code(backend, request, sequence, {}, observer, metadata);
  return !fast || fast->spilled_bytes < made->spilled_bytes ? std::move(fast) : std::move(made);
}

Result<Compiled> compile_by(const Backend& backend, dsl::CompileRequest request, Phases& phases) {
  auto entry = backend.names_entries ? take_entry(request.emit) : std::string(kEntry);
  if (!entry) return entry.error();
  if (request.emit == "so") request.emit = backend.forms.front();
  IrDump dump(request.emit);
  if (auto fine = check_emit(request.emit, dump, backend); !fine) return fine.error();
  phases.begin("target");
  if (auto known = backend.check_target(request.target); !known) return known.error();
  if (backend.restrict_options) backend.restrict_options(request.target, request.kernel.options);

  const Observer observer{.begin = [&](std::string_view name) { phases.begin(name); },
                          .passes = {.begin = [&](std::string_view name) { phases.begin_pass(name); },
                                     .end =
                                         [&](std::string_view name, const PrintIr& print) {
                                           phases.end_pass();
                                           dump.after(name, print);
                                         },
                                     .launch = [&](std::string_view name) { dump.launch(name); }}};
  phases.begin("instantiate");
  auto kernel = dsl::instantiate(request.kernel, request.constexprs, request.facts);
  if (!kernel) return kernel.error();
  dump.after(IrDump::kInstantiate, [&] { return dsl::print(*kernel); });
  PassObserver early = observer.passes;  // these are phases too
  early.begin = [&](std::string_view name) {
    phases.begin(name);
    phases.begin_pass(name);
  };
  *kernel = run_passes(std::move(*kernel), early);
  abi::Metadata metadata = describe_request(request, *kernel);
  if (dump.is_wanted() && dump.is_early()) return Compiled{std::move(metadata), to_bytes(dump.text())};

  phases.begin("lower");
  if (auto fine = backend.check_supported(*kernel, request.target); !fine) return fine.error();
  *kernel = run_passes(backend.tile_passes, std::move(*kernel), observer.passes);
  LaunchSequence sequence = backend.cut(std::move(*kernel), request.constexprs, observer.passes);
  name_entries(sequence, *entry);
  auto made = make_good_code(backend, request, sequence, observer, metadata);
  if (made && dump.is_wanted()) return Compiled{std::move(metadata), to_bytes(dump.text())};
  return made;
}

Result<Compiled> compile_request(const dsl::CompileRequest& request, Phases& phases) {
  const auto backend = backend_for(request.target);
  if (!backend) return backend.error();
  auto compiled = compile_by(**backend, request, phases);
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
  phases.describe(compiled->metadata);
  return Artifact{abi::to_json(compiled->metadata), std::move(compiled->code)};
}

void start_helpers(const Outside& outside) {
  for (const Backend* backend : backends()) {
    if (backend->start_helpers) backend->start_helpers(outside);
  }
  MemoryFile::set_aside();
}

void warm_up(const Outside& outside) {
  for (const Backend* backend : backends()) backend->initialise(outside);
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
