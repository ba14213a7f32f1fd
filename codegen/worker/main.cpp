// kiln-worker: the zygote with Kiln's compiler behind it, which kilnd starts; or one compile in the foreground.
#include <cstdio>
#include <cstring>

#include "compile_any.h"
#include "kiln/codegen/compile.h"
#include "kiln/wire/library.h"
#include "kiln/wire/trusted.h"
#include "zygote.h"

namespace {

// Others' programs and libraries are used where nobody else could have put or changed them.
kiln::codegen::Outside outside(const kiln::worker::HelperRights& rights = {}) {
  return {.check_program = kiln::wire::check_trusted,
          .open_library = kiln::wire::open_trusted_library,
          .confine_helper = rights.helper,
          .confine_program = rights.program};
}

kiln::worker::NativeTarget native_target() {
  kiln::worker::NativeTarget out{.processor = kiln::codegen::native_processor()};
  if (!kiln::codegen::may_measure_units()) return out;
  out.measure = kiln::codegen::measured_dot_units;
  out.may_be = kiln::codegen::may_be_measured;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--builder-id") == 0) {
    std::printf("%s\n", kiln::codegen::builder_id().c_str());
    return 0;
  }
  const kiln::worker::Compiler compiler{
      .builder_id = kiln::codegen::builder_id,
      .native_target = native_target,
      .warm_up = [](const std::string& native) { kiln::codegen::warm_up(outside(), native); },
      .start_helpers = [](const kiln::worker::HelperRights& rights) { kiln::codegen::start_helpers(outside(rights)); },
      .compile = kiln::worker::compile_any};
  if (argc == 4 && std::strcmp(argv[1], "--compile") == 0) {
    return kiln::worker::compile_main(compiler, argv[2], argv[3]);
  }
  if (argc == 2 && std::strcmp(argv[1], "--zygote") == 0) return kiln::worker::zygote_main(compiler);
  std::fprintf(stderr, "kiln-worker is started by kilnd, or by `kiln reproduce` with --compile REQUEST CODE\n");
  return 2;
}
