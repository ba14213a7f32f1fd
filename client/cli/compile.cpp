// `kiln compile`: one kernel, one config, one file.
#include <cstdio>

#include "c_header.h"
#include "commands.h"
#include "files.h"
#include "kiln/client/connection.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/instantiate.h"

namespace kiln::cli {
namespace {

// What the daemon makes of the kernel: code, or text for people.
Result<Artifact> fetch(const CompileFlags& flags, dsl::CompileRequest request, const std::string& emit) {
  client::ConnectOptions options;
  options.client_name = "kiln compile";
  auto connection = client::Connection::open(options);
  if (!connection) return connection.error();
  if (request.target == "cuda") {
    auto present = client::devices(request.target);
    if (!present) return present.error();
    request.target = present->front().target;
  }
  if (request.target == "cpu") request.target = (*connection)->server().native_target;
  request.emit = emit;
  auto bytes = dsl::encode_request(request);
  if (!bytes) return bytes.error();
  return (*connection)->fetch(*bytes, {.deadline_ms = flags.kernel.deadline_ms});
}

Result<void> dump(const CompileFlags& flags, const dsl::CompileRequest& request) {
  auto text = fetch(flags, request, flags.dump_after == "llvm" ? "llvm" : "ir:" + flags.dump_after);
  if (!text) return text.error();
  std::fwrite(text->code.data(), 1, text->code.size(), stdout);
  return {};
}

std::string header_path(const std::string& output) {
  return (output.ends_with(".so") ? output.substr(0, output.size() - 3) : output) + ".h";
}

}  // namespace

Result<void> compile(const CompileFlags& flags) {
  auto kernel = load_kernel(flags.kernel.file);
  if (!kernel) return kernel.error();
  auto values = parse_sets(*kernel, flags.kernel.sets);
  if (!values) return values.error();
  auto facts = parse_facts(*kernel, flags.kernel.facts);
  if (!facts) return facts.error();
  const std::string& target = flags.kernel.target;
  const bool is_known =
      target == "cpu" || target == "cuda" || target.starts_with("cpu:") || target.starts_with("cuda:");
  if (!is_known) {
    return invalid_argument("unknown target `" + target +
                            "`; `kiln compile` knows `cpu`, `cpu:NAME`, `cuda` and `cuda:NAME`");
  }
  if (flags.output.empty() && flags.dump_after.empty())
    return invalid_argument("compile: say --output FILE (-o) or --dump-after PASS");
  if (!flags.output.empty()) {
    if (auto writable = check_writable(flags.output); !writable) return writable;
  }
  // Here as well as in the worker: a config that is wrong needs no daemon to be refused.
  if (auto concrete = dsl::instantiate(*kernel, *values, *facts); !concrete) return concrete.error();

  const dsl::CompileRequest request{*kernel, target, *values, *facts};
  if (!flags.dump_after.empty()) {
    auto dumped = dump(flags, request);
    if (!dumped || flags.output.empty()) return dumped;
  }
  auto artifact = fetch(flags, request, flags.emit);
  if (!artifact) return artifact.error();
  const std::span<const std::byte> pieces[] = {artifact->code};
  if (auto done = write_file(flags.output, pieces); !done) return done;
  if (flags.emit != "so" || artifact->metadata.contains("device")) return {};
  return write_text(header_path(flags.output), c_header(*kernel, artifact->metadata));
}

}  // namespace kiln::cli
