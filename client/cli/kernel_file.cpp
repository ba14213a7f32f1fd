// `kiln print`, `verify`, `hash` and `export-library`: kernel files without a compiler.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "commands.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"
#include "kiln/wire/files.h"
#include "kiln/wire/printable.h"

namespace kiln::cli {

Result<void> print_kernel(const std::string& file) {
  auto kernel = load_kernel(file);
  if (!kernel) return kernel.error();
  std::fputs(dsl::print(*kernel).c_str(), stdout);
  return {};
}

Result<void> verify_kernel(const std::string& file) {
  auto kernel = load_kernel(file);
  if (!kernel) return kernel.error();
  std::printf("%s: kernel `%s` is valid\n", wire::printable(file).c_str(), wire::printable(kernel->name).c_str());
  return {};
}

Result<void> hash_kernel(const KernelFlags& flags) {
  auto kernel = load_kernel(flags.file);
  if (!kernel) return kernel.error();
  auto values = parse_sets(*kernel, flags.sets);
  if (!values) return values.error();
  auto facts = parse_facts(*kernel, flags.facts);
  if (!facts) return facts.error();
  auto request = dsl::encode_request({*kernel, flags.target, *values, *facts});
  if (!request) return request.error();
  // Without a builder: the kernel's and config's identity, the same on every machine.
  std::printf("%s\n", to_hex(request_key("", request->canonical)).c_str());
  return {};
}

Result<void> export_library(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) {
    return invalid_argument(directory + ": cannot be created: " + std::strerror(errno));
  }
  for (const dsl::LibraryKernel& item : dsl::library_kernels()) {
    if (!*item.ir) return item.ir->error();
    // The order of a trace depends on the C++ compiler, the canonical one does not.
    const std::string text = dsl::print(dsl::canonicalise(**item.ir));
    if (auto done = wire::write_text(directory + "/" + std::string(item.name) + ".kiln", text); !done) return done;
  }
  return {};
}

}  // namespace kiln::cli
