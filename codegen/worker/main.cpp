// kiln-worker: the zygote with Kiln's compiler behind it. Only kilnd starts it.
#include <cstdio>
#include <cstring>

#include "kiln/codegen/compile.h"
#include "zygote.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--builder-id") == 0) {
    std::printf("%s\n", kiln::codegen::builder_id().c_str());
    return 0;
  }
  if (argc != 2 || std::strcmp(argv[1], "--zygote") != 0) {
    std::fprintf(stderr, "kiln-worker is started by kilnd and has no use of its own\n");
    return 2;
  }
  return kiln::worker::zygote_main({.builder_id = kiln::codegen::builder_id,
                                    .native_target = kiln::codegen::native_target,
                                    .warm_up = kiln::codegen::warm_up,
                                    .start_helpers = kiln::codegen::start_helpers,
                                    .compile = kiln::codegen::compile});
}
