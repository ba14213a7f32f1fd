// kiln-worker: the zygote with Kiln's compiler behind it, which kilnd starts; or one compile in the foreground.
#include <cstdio>
#include <cstring>

#include "kiln/codegen/compile.h"
#include "zygote.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--builder-id") == 0) {
    std::printf("%s\n", kiln::codegen::builder_id().c_str());
    return 0;
  }
  const kiln::worker::Compiler compiler{.builder_id = kiln::codegen::builder_id,
                                        .native_target = kiln::codegen::native_target,
                                        .warm_up = kiln::codegen::warm_up,
                                        .start_helpers = kiln::codegen::start_helpers,
                                        .compile = kiln::codegen::compile};
  if (argc == 4 && std::strcmp(argv[1], "--compile") == 0) {
    return kiln::worker::compile_main(compiler, argv[2], argv[3]);
  }
  if (argc == 2 && std::strcmp(argv[1], "--zygote") == 0) return kiln::worker::zygote_main(compiler);
  std::fprintf(stderr, "kiln-worker is started by kilnd, or by `kiln reproduce` with --compile REQUEST CODE\n");
  return 2;
}
