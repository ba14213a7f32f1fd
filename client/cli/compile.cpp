// `kiln compile`: one kernel, one config, one file.
#include "c_header.h"
#include "commands.h"
#include "files.h"
#include "kiln/client/connection.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"

namespace kiln::cli {
namespace {

Result<Artifact> compile_in_daemon(const CompileFlags& flags, dsl::CompileRequest request) {
  client::ConnectOptions options;
  options.client_name = "kiln compile";
  auto connection = client::Connection::open(options);
  if (!connection) return connection.error();
  if (request.target == "cpu") request.target = (*connection)->server().native_target;
  auto bytes = dsl::encode_request(request);
  if (!bytes) return bytes.error();
  return (*connection)->fetch(*bytes, {.deadline_ms = flags.kernel.deadline_ms});
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
  if (target != "cpu" && !target.starts_with("cpu:")) {
    return invalid_argument("unknown target `" + target + "`; `kiln compile` knows `cpu`");
  }
  if (auto writable = check_writable(flags.output); !writable) return writable;
  // Here as well as in the worker: a config that is wrong needs no daemon to be refused.
  auto concrete = dsl::instantiate(*kernel, *values, *facts);
  if (!concrete) return concrete.error();
  if (flags.emit == "ir") return write_text(flags.output, dsl::print(*concrete));

  auto artifact = compile_in_daemon(flags, {*kernel, target, *values, *facts, flags.emit});
  if (!artifact) return artifact.error();
  const std::span<const std::byte> pieces[] = {artifact->code};
  if (auto done = write_file(flags.output, pieces); !done) return done;
  if (flags.emit != "so") return {};
  return write_text(header_path(flags.output), c_header(*kernel, artifact->metadata));
}

}  // namespace kiln::cli
