// The way in for a program: kernels in, handles out.
//
//   kiln::Client client;
//   auto fn = client.get(vector_add, {.target = "cpu", .constexprs = {{"BLOCK", 1024}}});
//   if (!fn) …fn.error().message…
//   auto done = (*fn)(x, y, z, n);
#pragma once

#include <memory>
#include <string>

#include "kiln/client/connection.h"
#include "kiln/client/function.h"
#include "kiln/dsl/custom_kernel.h"
#include "kiln/dsl/kernel.h"

namespace kiln::graph {
class GraphDef;
struct Graph;
struct Plan;
}  // namespace kiln::graph

namespace kiln::client {

class CompiledGraph;
struct GraphOptions;
class Core;
template <class T>
class PerProcess;

struct ClientOptions {
  ConnectOptions connect = {};  // how the daemon is found or started; it is when a kernel is first compiled
  // Compile the variant for the exact facts of a launch behind the launch that noticed it is missing.
  bool specialise_in_background = true;
};

// Who chooses what the caller does not (docs/use/tuning.md). What the tuner chooses is never worse than the default as
// measured.
enum class Mode : uint8_t {
  // The service's cost model, without a measurement, for each class of shapes: launches take the kernel's default until
  // that config is compiled behind them, and where the model is not sure. Not for kernels that are `deterministic`, nor
  // where the caller chose some of the kernel's space.
  kDefault,
  kAutotune,  // launches take the default at once, and the better config when it has been found behind them
  kMax,       // the first launch of a shape waits for the tuner
  kFixed,     // the kernel's default, for all shapes
};

// Why the service chooses no config for launches in the default mode, of a caller who gives these values; empty: it
// does.
std::string no_choice(const dsl::Kernel& kernel, const dsl::ConstexprValues& given);

// Whether the tuner is asked about launches.
constexpr bool asks_tuner(Mode mode) { return mode == Mode::kAutotune || mode == Mode::kMax; }

struct GetOptions {
  std::string target = "cpu";  // "cpu", "cuda", "amd", "interp", or resolved: "cpu:znver5,+avx2", "cuda:sm_90a"
  // Those without a default must be there; schedule options may (kiln/dsl/config.h).
  dsl::ConstexprValues constexprs = {};
  uint32_t deadline_ms = 0;  // 0: the daemon's default
  Mode mode = Mode::kDefault;
  uint32_t tune_budget_ms = 0;  // of a shape; 0: the tuner's default
  // How long a launch with kMax waits; then it takes the default, and the others the better config when it is found.
  // 0: until the tuner answers.
  uint32_t tune_wait_ms = 0;
  // Of a CPU, where the code is in no cache: begin with code that compiles in half to three quarters of the time and
  // runs up to four times slower, for a first result. The first launch that takes it has the full code compiled behind
  // it, if the client does such things (ClientOptions); of a client that does not, this is ignored.
  bool quick_start = false;
};

// What to compile ahead.
struct CompileAhead {
  std::string target = "cpu";  // as in GetOptions, but the interpreter: of a machine that need not be this one
  dsl::ConstexprValues constexprs = {};
  dsl::Facts facts = {};     // one a parameter, or none: the code is sound only for arguments of which they hold
  std::string emit = "so";   // "so": what a launcher loads; else a form that docs/use/cli.md lists
  uint32_t deadline_ms = 0;  // 0: the daemon's default
};

// What code of one's own is compiled for.
struct CustomOptions {
  std::string target = "cpu";  // as in GetOptions, but the interpreter
  uint32_t deadline_ms = 0;    // 0: the daemon's default
};

// Thread-safe. Destruction cancels what compiles in the background; handles outlive their client. The process may end
// at any moment, from any thread, with clients and handles of any lifetime. In the child of a fork() a client connects
// anew, and gives handles of the child's own; those from before launch what they had, and compile nothing more.
class Client {
 public:
  explicit Client(ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The generic variant is ready when this returns. A repeated call for the same kernel and options is a table look-up.
  template <class... Args>
  Result<Function<Args...>> get(const dsl::KernelDef<Args...>& kernel, const GetOptions& options = {}) {
    auto untyped = get_memoised(kernel.id(), kernel.ir(), options);
    if (!untyped) return untyped.error();
    return Function<Args...>(std::move(*untyped));
  }
  // Every call verifies the kernel and asks the daemon.
  Result<UntypedFunction> get(const dsl::Kernel& kernel, const GetOptions& options = {});

  // A kernel whose code the caller wrote (kiln/dsl/custom_kernel.h): `declared` has no ops. It is compiled by the
  // daemon, cached, and launched as any other. Error: what the code's assembler or LLVM says, with the line.
  template <class... Args>
  Result<Function<Args...>> get_custom(const dsl::KernelDef<Args...>& declared, const dsl::CustomCode& code,
                                       const CustomOptions& options = {}) {
    if (!declared.ir()) return declared.ir().error();
    auto untyped = get_custom(*declared.ir(), code, options);
    if (!untyped) return untyped.error();
    return Function<Args...>(std::move(*untyped));
  }
  Result<UntypedFunction> get_custom(const dsl::Kernel& declared, const dsl::CustomCode& code,
                                     const CustomOptions& options = {});
  // The same as bytes, for later or for another machine: nothing is loaded.
  Result<Artifact> compile_custom(const dsl::Kernel& declared, const dsl::CustomCode& code,
                                  const CustomOptions& options = {});

  // Compiles and loads nothing, so that the target's machine need not be this one. The daemon keeps the code, and a
  // get() for it is a hit. To run it where there is no daemon: load_artifact() of artifact.h.
  template <class... Args>
  Result<Artifact> compile(const dsl::KernelDef<Args...>& kernel, const CompileAhead& what = {}) {
    if (!kernel.ir()) return kernel.ir().error();
    return compile(*kernel.ir(), what);
  }
  Result<Artifact> compile(const dsl::Kernel& kernel, const CompileAhead& what = {});

  // A graph, ready to run: one request for its plan, and one for all kernels of that which no cache has. For these
  // include kiln/client/graph.h, and link Kiln::client_graph.
  Result<CompiledGraph> compile(const graph::GraphDef& graph);
  Result<CompiledGraph> compile(const graph::GraphDef& graph, const GraphOptions& options);
  Result<CompiledGraph> compile(const graph::Graph& graph, const GraphOptions& options);
  // The plan alone, with the ops of its kernels, of which none is compiled: for a target whose machine need not be this
  // one (graph_package.h). Of the options it takes `target`, `fuse`, `deadline_ms` and `cancel`.
  Result<graph::Plan> plan(const graph::Graph& graph, const GraphOptions& options);

 private:
  std::shared_ptr<Core> core() const;
  Result<UntypedFunction> get_memoised(uint64_t id, const Result<dsl::Kernel>& kernel, const GetOptions& options);

  struct State;
  PerProcess<State>* state_;
};

}  // namespace kiln::client

namespace kiln {
using client::Client;
using client::ClientOptions;
using client::CompileAhead;
using client::CustomOptions;
using client::Function;
using client::GetOptions;
using client::LaunchOptions;
using client::Mode;
using client::UntypedFunction;
using dsl::CodeForm;
using dsl::CustomCode;
}  // namespace kiln
