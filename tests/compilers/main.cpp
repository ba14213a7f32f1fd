// kernel-keys: the key of each traced kernel and graph, one `name key` line each. For the comparison of two compilers'
// builds also
//   kernel-keys --text       the canonical form behind each key, without names
//   kernel-keys --traced     the ops, or of graphs the nodes, in the order in which they were traced
//   kernel-keys --compiler   which compiler built this
#include <cstdio>
#include <string_view>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/text.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/text.h"
#include "traced_graphs.h"
#include "traced_kernels.h"

namespace {

using kiln::dsl::Kernel;

std::string nameless(Kernel kernel) {
  for (kiln::dsl::Value& value : kernel.values) value.name.clear();
  return kiln::dsl::print(kernel);
}

const char* compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

int print_graphs(std::string_view mode) {
  for (const auto& [name, traced] : kiln::compilers::traced_graphs()) {
    const auto& ir = traced.ir();
    if (!ir) return std::fprintf(stderr, "%s: %s\n", name.c_str(), ir.error().message.c_str()), 1;
    if (mode == "--traced") {
      std::printf("%s", kiln::graph::print(*ir).c_str());
      continue;
    }
    std::printf("%s %s\n", name.c_str(), kiln::graph::key(*ir).c_str());
    if (mode == "--text") std::printf("%s", kiln::graph::print(kiln::graph::canonical(*ir)).c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "--compiler") return std::puts(compiler()), 0;
  for (const auto& [name, ir] : kiln::compilers::traced_kernels()) {
    if (!ir) return std::fprintf(stderr, "%s: %s\n", name.c_str(), ir.error().message.c_str()), 1;
    if (mode == "--traced") {
      std::printf("%s", nameless(*ir).c_str());
      continue;
    }
    const auto bytes = kiln::dsl::encode_request({.kernel = *ir, .target = "cpu:any", .constexprs = {}, .facts = {}});
    if (!bytes) return std::fprintf(stderr, "%s: %s\n", name.c_str(), bytes.error().message.c_str()), 1;
    const std::string key = kiln::to_hex(kiln::request_key("any builder", bytes->canonical));
    std::printf("%s %s\n", name.c_str(), key.c_str());
    if (mode == "--text") std::printf("%s", nameless(kiln::dsl::canonicalise(*ir)).c_str());
  }
  return print_graphs(mode);
}
