// `kiln compile`: one kernel, one config, one file.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include "archive.h"
#include "c_header.h"
#include "commands.h"
#include "kiln/abi/metadata.h"
#include "kiln/client/connection.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/source_line.h"
#include "kiln/wire/files.h"
#include "kiln/wire/printable.h"

namespace kiln::cli {
namespace {

// What the daemon makes of the kernel: code, or text for people.
Result<Artifact> fetch(const CompileFlags& flags, dsl::CompileRequest request, const std::string& emit) {
  client::ConnectOptions options;
  options.client_name = "kiln compile";
  auto connection = client::Connection::open(options);
  if (!connection) return connection.error();
  if (request.target == "cpu") request.target = (*connection)->server().native_target;
  request.emit = emit;
  auto bytes = dsl::encode_request(request);
  if (!bytes) return bytes.error();
  auto made =
      (*connection)->fetch(*bytes, {.deadline_ms = flags.kernel.deadline_ms, .memory_bytes = flags.memory_bytes});
  if (made) return made;
  Error error = made.error();
  error.message = dsl::with_source_line(request.kernel, error.message);
  return error;
}

Result<void> print(std::span<const std::byte> bytes) {
  const std::string text = wire::printable_lines({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return internal_error(std::string("cannot write to the standard output: ") + std::strerror(errno));
  }
  return {};
}

Result<void> dump(const CompileFlags& flags, const dsl::CompileRequest& request) {
  auto text = fetch(flags, request, flags.dump_after == "llvm" ? "llvm" : "ir:" + flags.dump_after);
  if (!text) return text.error();
  return print(text->code);
}

// What costs a GPU kernel its speed is said before anybody runs it.
void print_device_notes(const abi::Metadata& metadata, const std::string& emit) {
  if (!metadata.device) return;
  const abi::Device& device = *metadata.device;
  const std::string about = "kiln: note: " + wire::printable(metadata.kernel + " for " + metadata.target) + ": ";
  auto note = [&](const std::string& what) { std::fprintf(stderr, "%s%s\n", about.c_str(), what.c_str()); };
  if ((emit == "so" || emit == "cubin") && metadata.emit == "ptx") {
    note("PTX, for want of NVIDIA's assembler; what it costs is known at load");
  }
  if (const int64_t bytes = device.spill_bytes.value_or(0); bytes > 0) {
    note(std::to_string(device.registers.value_or(0)) + " registers a thread are too few: " + std::to_string(bytes) +
         " bytes of spills");
  }
  if (const int64_t bytes = device.scratch_bytes.value_or(0); bytes > 0) {
    note(std::to_string(bytes) + " bytes of scratch memory a lane");
  }
  for (const std::string& warning : device.warnings.value_or(std::vector<std::string>())) {
    note(wire::printable_lines(warning));
  }
}

// Whether a terminal can show it.
bool is_text(const std::string& emit) {
  return emit == "ir" || emit == "llvm" || emit == "asm" || emit == "ptx" || emit.starts_with("ir:");
}

std::string header_path(const std::string& output) {
  for (const char* ending : {".so", ".o", ".a"}) {
    if (output.ends_with(ending)) return output.substr(0, output.size() - std::strlen(ending)) + ".h";
  }
  return output + ".h";
}

// What --set says of this kernel among several: each takes what it has, and somebody must.
std::vector<std::string> sets_for(const dsl::Kernel& kernel, const std::vector<std::string>& sets,
                                  std::set<std::string>& unused) {
  std::vector<std::string> out;
  for (const std::string& set : sets) {
    for (const std::string& item : split(set, ',')) {
      const std::string name = item.substr(0, item.find('='));
      if (!kernel.find_constexpr(name) && !dsl::is_schedule_option(name)) continue;
      out.push_back(item);
      unused.erase(item);
    }
  }
  return out;
}

// Of all kernels of an archive, before any is compiled.
Result<std::vector<dsl::CompileRequest>> archive_requests(const CompileFlags& flags) {
  std::vector<std::string> files = {flags.kernel.file};
  files.insert(files.end(), flags.more.begin(), flags.more.end());
  if (files.size() > 1 && (!flags.kernel.facts.empty() || !flags.entry.empty())) {
    return invalid_argument("compile: --facts and --entry are of one kernel, and here are several");
  }
  std::set<std::string> unused, names;
  for (const std::string& set : flags.kernel.sets) {
    for (const std::string& item : split(set, ',')) unused.insert(item);
  }
  std::vector<dsl::CompileRequest> requests;
  for (const std::string& file : files) {
    auto kernel = load_kernel(file);
    if (!kernel) return kernel.error();
    if (!names.insert(kernel->name).second) {
      return invalid_argument(file + ": a second kernel with the name `" + kernel->name + "`");
    }
    KernelFlags own = flags.kernel;
    own.file = file;
    if (files.size() > 1) own.sets = sets_for(*kernel, flags.kernel.sets, unused);
    auto request = make_request(own);
    if (!request) return request.error();
    if (auto concrete = dsl::instantiate(request->kernel, request->constexprs, request->facts); !concrete) {
      return concrete.error();
    }
    requests.push_back(std::move(*request));
  }
  if (files.size() > 1 && !unused.empty()) {
    return invalid_argument("--set " + *unused.begin() + ": none of the kernels has such a constexpr");
  }
  return requests;
}

// `-o NAME.a`: an object a kernel, with entries of their own names, and one header for all.
Result<void> compile_archive(const CompileFlags& flags) {
  auto requests = archive_requests(flags);
  if (!requests) return requests.error();
  if (auto writable = wire::check_writable(flags.output); !writable) return writable;
  std::vector<ArchiveMember> members;
  std::string header;
  for (const dsl::CompileRequest& request : *requests) {
    const std::string entry = flags.entry.empty() ? request.kernel.name + "_entry" : flags.entry;
    auto artifact = fetch(flags, request, "obj:" + entry);
    if (!artifact) return artifact.error();
    members.push_back({request.kernel.name + ".o", std::move(artifact->code), entries_of(artifact->metadata)});
    header += (header.empty() ? "" : "\n") + c_header(request.kernel, artifact->metadata);
  }
  if (auto done = wire::write_text(flags.output, archive(members)); !done) return done;
  return wire::write_text(header_path(flags.output), header);
}

}  // namespace

Result<void> compile(const CompileFlags& flags) {
  const bool is_archive = flags.output.ends_with(".a");
  if (is_archive && (flags.emit == "so" || flags.emit == "obj") && flags.dump_after.empty()) {
    return compile_archive(flags);
  }
  if (!flags.more.empty()) return invalid_argument("compile: several kernels go into an archive: say -o NAME.a");
  if (!flags.entry.empty() && flags.emit != "so" && flags.emit != "obj") {
    return invalid_argument("compile: --entry is for `so` and `obj`, not for `" + flags.emit + "`");
  }
  auto request = make_request(flags.kernel);
  if (!request) return request.error();
  const bool to_stdout = flags.output == "-" || (flags.output.empty() && is_text(flags.emit));
  if (flags.output == "-" && !is_text(flags.emit)) {
    return invalid_argument("compile: `" + flags.emit + "` is not text: say --output FILE (-o)");
  }
  if (flags.output.empty() && flags.dump_after.empty() && !to_stdout) {
    return invalid_argument("compile: say --output FILE (-o) or --dump-after PASS");
  }
  if (!flags.output.empty() && !to_stdout) {
    if (auto writable = wire::check_writable(flags.output); !writable) return writable;
  }
  // Here as well as in the worker: a config that is wrong needs no daemon to be refused.
  if (auto concrete = dsl::instantiate(request->kernel, request->constexprs, request->facts); !concrete) {
    return concrete.error();
  }
  if (!flags.dump_after.empty()) {
    auto dumped = dump(flags, *request);
    if (!dumped || flags.output.empty()) return dumped;
  }
  auto artifact = fetch(flags, *request, flags.entry.empty() ? flags.emit : flags.emit + ":" + flags.entry);
  if (!artifact) return artifact.error();
  print_device_notes(artifact->metadata, flags.emit);
  if (to_stdout) return print(artifact->code);
  const std::span<const std::byte> pieces[] = {artifact->code};
  const bool is_called = flags.emit == "so" || flags.emit == "quick" || flags.emit == "obj";
  if (!is_called || artifact->metadata.device) return wire::write_file(flags.output, pieces);
  const std::string header = c_header(request->kernel, artifact->metadata);
  if (auto done = wire::write_file(flags.output, pieces); !done) return done;
  return wire::write_text(header_path(flags.output), header);
}

}  // namespace kiln::cli
