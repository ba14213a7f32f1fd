// kiln-worker, except that a kernel with ops that do not get on kills it, is refused, or never gets done; and that a
// graph `kills` does the first, and a graph `waits` takes its time.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "compile_any.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/text.h"
#include "kiln/graph/plan_request.h"
#include "zygote.h"

namespace {

using namespace kiln;

std::string text_of(std::span<const std::byte> canonical, std::span<const std::byte> debug) {
  if (graph::is_plan_request(canonical)) return "";
  const auto request = dsl::decode_request(canonical, debug);
  return request ? dsl::print(request->kernel) : "";
}

Result<Artifact> compile(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                         const codegen::Progress& progress) {
  if (graph::is_plan_request(canonical)) {
    const auto request = graph::decode_plan_request(canonical, debug);
    const std::string name = request ? request->graph.main().name : "";
    if (name == "kills") std::raise(SIGKILL);
    if (name == "waits") std::this_thread::sleep_for(std::chrono::seconds(2));
  }
  const std::string text = text_of(canonical, debug);
  const auto has = [&](const std::string& fn) { return text.find("{fn = " + fn + "}") != std::string::npos; };
  if (has("sin") && has("exp")) std::abort();
  if (has("cos") && has("exp")) return error(ErrorCode::kCompileFailed, "cos and exp are refused here");
  if (has("log") && has("exp")) std::this_thread::sleep_for(std::chrono::hours(1));
  if (has("erf")) std::abort();
  return worker::compile_any(canonical, debug, progress);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--builder-id") == 0) {
    std::printf("%s\n", codegen::builder_id().c_str());
    return 0;
  }
  const worker::Compiler compiler{
      .builder_id = codegen::builder_id,
      .native_target = [] { return worker::NativeTarget{.processor = codegen::native_processor()}; },
      .warm_up = [](const std::string& native) { codegen::warm_up({}, native); },
      .start_helpers =
          [](const worker::HelperRights& rights) {
            codegen::start_helpers({.confine_helper = rights.helper, .confine_program = rights.program});
          },
      .compile = compile};
  return argc == 2 && std::strcmp(argv[1], "--zygote") == 0 ? worker::zygote_main(compiler) : 2;
}
