// Kernels as they are written, and compiling them.
#include "arrays.h"
#include "errors.h"
#include "kiln/client/artifact.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "kiln/wire/files.h"
#include "modes.h"
#include "objects.h"
#include "run_options.h"

namespace kiln::c {

FunctionObject::FunctionObject(UntypedFunction from, std::string_view target)
    : fn(std::move(from)), place{device_of(dsl::target_family(target)), 0} {}

namespace {

Result<dsl::Kernel> read_kernel(std::string_view bytes, const std::string& name) {
  // The binary form begins with the size of its first section, whose highest byte is 0; text has no such byte.
  if (bytes.substr(0, 4).find('\0') != std::string_view::npos) {
    auto kernel = dsl::decode_kernel(std::as_bytes(std::span(bytes)));
    if (!kernel) kernel.error().message = name + ": " + kernel.error().message;
    return kernel;
  }
  auto kernel = dsl::parse(bytes, name);
  if (!kernel) return kernel;
  if (auto valid = dsl::verify(*kernel); !valid) return valid.error();
  return kernel;
}

Result<void> give_kernel(Result<dsl::Kernel> read, kiln_kernel** kernel) {
  if (!read) return read.error();
  give<KernelObject>(kernel, std::move(*read));
  return {};
}

Result<GetOptions> get_options(const kiln_kernel_options& from) {
  GetOptions out;
  out.target = text_or(from.target, "cpu");
  auto constexprs = named_ints(from.constexprs, from.constexpr_count, "constexprs");
  if (!constexprs) return constexprs.error();
  out.constexprs = {constexprs->begin(), constexprs->end()};
  out.deadline_ms = from.deadline_ms;
  auto mode = mode_of(from.mode);
  if (!mode) return mode.error();
  out.mode = *mode;
  out.tune_budget_ms = from.tune_budget_ms;
  out.tune_wait_ms = from.tune_wait_ms;
  out.quick_start = from.quick_start != 0;
  return out;
}

Result<CompileAhead> ahead_options(const kiln_ahead_options& from, const dsl::Kernel& kernel) {
  CompileAhead out;
  out.target = text_or(from.target, "cpu");
  auto constexprs = named_ints(from.constexprs, from.constexpr_count, "constexprs");
  if (!constexprs) return constexprs.error();
  out.constexprs = {constexprs->begin(), constexprs->end()};
  out.emit = text_or(from.emit, "so");
  out.deadline_ms = from.deadline_ms;
  if (auto fine = check_pointer(from.facts, from.fact_count, "facts"); !fine) return fine.error();
  if (from.fact_count > 0 && from.fact_count != kernel.params.size()) {
    return invalid_argument("kernel `" + kernel.name + "` has " + std::to_string(kernel.params.size()) +
                            " parameters, and there are " + std::to_string(from.fact_count) + " facts");
  }
  for (uint32_t i = 0; i < from.fact_count; ++i) {
    const char* text = from.facts[i];
    const auto fact = text ? dsl::parse_fact(text) : std::nullopt;
    if (!fact || !dsl::fits(*fact, kernel.params[i].type)) {
      return invalid_argument("facts[" + std::to_string(i) + "] is " + (text ? "`" + std::string(text) + "`" : "NULL") +
                              ": `" + kernel.params[i].name + "` is " +
                              to_string(kernel.params[i].type, kernel.expr_names()) +
                              "; write none, align16 for a pointer, x8, x16 or one for an int");
    }
    out.facts.push_back(*fact);
  }
  return out;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

extern "C" {

kiln_status kiln_kernel_read(const char* path, kiln_kernel** kernel) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(path, "path"); !fine) return fine;
    if (auto fine = check_pointer(kernel, "kernel"); !fine) return fine;
    auto bytes = wire::read_text(path);
    if (!bytes) return bytes.error();
    return give_kernel(read_kernel(*bytes, path), kernel);
  });
}

kiln_status kiln_kernel_parse(const void* data, size_t size, const char* name, kiln_kernel** kernel) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(data, size, "data"); !fine) return fine;
    if (auto fine = check_pointer(kernel, "kernel"); !fine) return fine;
    return give_kernel(read_kernel({static_cast<const char*>(data), size}, text_or(name, "kernel")), kernel);
  });
}

kiln_status kiln_kernel_library(const char* name, kiln_kernel** kernel) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(name, "name"); !fine) return fine;
    if (auto fine = check_pointer(kernel, "kernel"); !fine) return fine;
    for (const dsl::LibraryKernel& known : dsl::library_kernels()) {
      if (known.name == name) return give_kernel(*known.ir, kernel);
    }
    return error(ErrorCode::kNotFound, "the library has no kernel `" + std::string(name) + "`");
  });
}

kiln_status kiln_kernel_text(kiln_kernel* kernel, kiln_bytes** text) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(text, "text"); !fine) return fine;
    auto object = pin<KernelObject>(kernel, "kernel");
    if (!object) return object.error();
    give<BytesObject>(text, dsl::print((*object)->kernel));
    return {};
  });
}

kiln_status kiln_kernel_encode(kiln_kernel* kernel, kiln_bytes** bytes) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(bytes, "bytes"); !fine) return fine;
    auto object = pin<KernelObject>(kernel, "kernel");
    if (!object) return object.error();
    give<BytesObject>(bytes, text_of(dsl::encode_kernel((*object)->kernel)));
    return {};
  });
}

const char* kiln_kernel_name(kiln_kernel* kernel) {
  return guarded_value<const char*>(nullptr, [&](const char*& out) -> Result<void> {
    auto object = pin<KernelObject>(kernel, "kernel");
    if (!object) return object.error();
    out = (*object)->kernel.name.c_str();
    return {};
  });
}

size_t kiln_kernel_param_count(kiln_kernel* kernel) {
  return guarded_value<size_t>(0, [&](size_t& out) -> Result<void> {
    auto object = pin<KernelObject>(kernel, "kernel");
    if (!object) return object.error();
    out = (*object)->kernel.params.size();
    return {};
  });
}

kiln_status kiln_kernel_param(kiln_kernel* kernel, size_t index, kiln_param_info* info) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(info, "info"); !fine) return fine;
    auto object = pin<KernelObject>(kernel, "kernel");
    if (!object) return object.error();
    const std::vector<dsl::Param>& params = (*object)->kernel.params;
    if (index >= params.size()) {
      return invalid_argument("there are " + std::to_string(params.size()) + " parameters, and no " +
                              std::to_string(index));
    }
    const dsl::Param& param = params[index];
    *info = {param.name.c_str(), type_of(param.type.element), param.type.pointer ? 1 : 0, param.readonly ? 1 : 0};
    return {};
  });
}

kiln_status kiln_kernel_compile(kiln_client* client, kiln_kernel* kernel, const kiln_kernel_options* options,
                                kiln_function** fn) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(fn, "fn"); !fine) return fine;
    auto with = pin<ClientObject>(client, "client");
    if (!with) return with.error();
    auto what = pin<KernelObject>(kernel, "kernel");
    if (!what) return what.error();
    auto known = read_options(options, "kiln_kernel_options");
    if (!known) return known.error();
    auto chosen = get_options(*known);
    if (!chosen) return chosen.error();
    auto compiled = (*with)->client.get((*what)->kernel, *chosen);
    if (!compiled) return compiled.error();
    give<FunctionObject>(fn, std::move(*compiled), chosen->target);
    return {};
  });
}

kiln_status kiln_kernel_compile_ahead(kiln_client* client, kiln_kernel* kernel, const kiln_ahead_options* options,
                                      kiln_bytes** code, kiln_bytes** metadata) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(code, "code"); !fine) return fine;
    if (auto fine = check_pointer(metadata, "metadata"); !fine) return fine;
    auto with = pin<ClientObject>(client, "client");
    if (!with) return with.error();
    auto what = pin<KernelObject>(kernel, "kernel");
    if (!what) return what.error();
    auto known = read_options(options, "kiln_ahead_options");
    if (!known) return known.error();
    auto chosen = ahead_options(*known, (*what)->kernel);
    if (!chosen) return chosen.error();
    auto compiled = (*with)->client.compile((*what)->kernel, *chosen);
    if (!compiled) return compiled.error();
    auto code_object = std::make_unique<BytesObject>(text_of(compiled->code));
    auto json_object = std::make_unique<BytesObject>(abi::write_metadata(compiled->metadata));
    *code = publish<kiln_bytes>(std::move(code_object));
    *metadata = publish<kiln_bytes>(std::move(json_object));
    return {};
  });
}

kiln_status kiln_function_load(kiln_kernel* kernel, const void* code, size_t code_size, const char* metadata,
                               size_t metadata_size, kiln_function** fn) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(code, "code"); !fine) return fine;
    if (auto fine = check_pointer(metadata, "metadata"); !fine) return fine;
    if (auto fine = check_pointer(fn, "fn"); !fine) return fine;
    auto what = pin<KernelObject>(kernel, "kernel");
    if (!what) return what.error();
    auto known = abi::read_metadata({metadata, metadata_size});
    if (!known) return known.error();
    if (known->kernel != (*what)->kernel.name || known->params.size() != (*what)->kernel.params.size()) {
      return invalid_argument("the code is of kernel `" + known->kernel + "`, not of this `" + (*what)->kernel.name +
                              "`");
    }
    const auto* bytes = static_cast<const std::byte*>(code);
    const std::string target = known->target;
    auto loaded = client::load_artifact((*what)->kernel, {std::move(*known), {bytes, bytes + code_size}});
    if (!loaded) return loaded.error();
    give<FunctionObject>(fn, std::move(*loaded), target);
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
