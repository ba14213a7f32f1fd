// The life of one compile request: decode → instantiate → the passes on the tile IR → the steps of its target's backend
// (backend.h).
#include "kiln/codegen/compile.h"

#include "attempts.h"
#include "backend.h"
#include "emit.h"
#include "ir_dump.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/float_mode.h"
#include "kiln/dsl/rounding.h"
#include "kiln/dsl/text.h"
#include "phases.h"
#include "reports.h"
#include "wanted_form.h"

namespace kiln::codegen {
namespace {

// Phases are told to the clock; passes too, and to who wants the IR behind them.
Observer observer_of(Phases& phases, IrDump& dump) {
  return {.begin = [&](std::string_view name) { phases.begin(name); },
          .passes = {.begin = [&](std::string_view name) { phases.begin_pass(name); },
                     .end =
                         [&](std::string_view name, const PrintIr& print) {
                           phases.end_pass();
                           dump.after(name, print);
                         },
                     .launch = [&](std::string_view name) { dump.launch(name); }}};
}

// The kernel with its config and facts, behind the passes of the language and of every target, which are phases too.
Result<dsl::Kernel> instantiated(const dsl::CompileRequest& request, Phases& phases, IrDump& dump,
                                 const Observer& observer) {
  phases.begin("instantiate");
  auto kernel = dsl::with_constants(request.kernel, request.constexprs, request.facts);
  if (!kernel) return kernel.error();
  dump.after(IrDump::kInstantiate, [&] { return dsl::print(*kernel); });
  PassObserver early = observer.passes;
  early.begin = [&](std::string_view name) {
    phases.begin(name);
    phases.begin_pass(name);
  };
  return run_passes(run_passes(rounding_passes(), std::move(*kernel), early), early);
}

Result<Compiled> compile_by(const Backend& backend, dsl::CompileRequest request, Phases& phases) {
  auto wanted = wanted_form(request.emit, request.kernel, backend);
  if (!wanted) return wanted.error();
  request.emit = wanted->form;
  phases.begin("target");
  if (auto known = backend.check_target(request.target); !known) return known.error();
  if (backend.restrict_options) backend.restrict_options(request.target, request.kernel.options);

  IrDump dump(request.emit);
  const Observer observer = observer_of(phases, dump);
  auto kernel = instantiated(request, phases, dump, observer);
  if (!kernel) return kernel.error();
  abi::Metadata metadata = describe_request(request, *kernel);
  if (dump.is_wanted() && dump.is_early()) return Compiled{std::move(metadata), to_bytes(dump.text())};

  phases.begin("lower");
  if (auto fine = backend.check_supported(*kernel, request.target); !fine) return fine.error();
  *kernel = run_passes(backend.tile_passes, std::move(*kernel), observer.passes);
  LaunchSequence sequence = backend.cut(std::move(*kernel), request.constexprs, observer.passes);
  name_entries(sequence, wanted->entry);
  auto made = make_code(backend, request, sequence, observer, metadata);
  if (made && dump.is_wanted()) return Compiled{std::move(metadata), to_bytes(dump.text())};
  return made;
}

}  // namespace

Result<Artifact> compile(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                         const Progress& progress) {
  const dsl::FloatMode mode;
  Phases phases(progress);
  phases.begin("decode");
  auto request = dsl::decode_request(canonical, debug);
  if (!request) return request.error();
  const auto backend = backend_for(request->target);
  if (!backend) return backend.error();
  auto compiled = compile_by(**backend, std::move(*request), phases);
  if (!compiled) return compiled.error();
  compiled->metadata.code_bytes = static_cast<int64_t>(compiled->code.size());
  phases.describe(compiled->metadata);
  return Artifact{std::move(compiled->metadata), std::move(compiled->code)};
}

}  // namespace kiln::codegen
