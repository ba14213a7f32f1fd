// JSON headers to structures and back.
#include "kiln/wire/messages.h"

#include "bytes.h"
#include "kiln/wire/json.h"

namespace kiln::wire {
namespace {

constexpr uint64_t kMaxVersion = 0xffff;
constexpr uint64_t kMaxDevices = 64;
constexpr uint64_t kMaxMemory = uint64_t{1} << 50;

template <class T>
Result<T> checked(T value, const Fields& fields) {
  if (!fields.ok()) return fields.error();
  return value;
}

std::optional<Scalar> scalar_of(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_float()) return value.get<double>();
  if (!value.is_number_integer()) return std::nullopt;
  const bool is_large = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  return is_large ? Scalar(value.get<uint64_t>()) : Scalar(value.get<int64_t>());
}

nlohmann::json json_of(const Error& error) {
  nlohmann::json out = {{"code", to_string(error.code)}, {"message", error.message}, {"retryable", error.retryable}};
  if (error.retry_after_ms) out["retry_after_ms"] = error.retry_after_ms;
  if (!error.trace_id.empty()) out["trace_id"] = error.trace_id;
  return out;
}

constexpr size_t kMaxHardware = 4096;

// Of a message, in its field.
Result<std::map<std::string, int64_t>> config_of(const nlohmann::json& value, const std::string& message,
                                                 const std::string& field) {
  if (!value.is_object()) return invalid_argument(message + ": '" + field + "' is not an object");
  std::map<std::string, int64_t> out;
  for (const auto& [name, number] : value.items()) {
    if (!number.is_number_integer()) return invalid_argument(message + ": '" + name + "' is not an integer");
    out[name] = number.get<int64_t>();
  }
  return out;
}

}  // namespace

std::string to_text(const Welcome& welcome) {
  return dump({{"min_version", welcome.min_version},
               {"max_version", welcome.max_version},
               {"builder_id", welcome.builder_id},
               {"native_target", welcome.native_target},
               {"pid", welcome.pid},
               {"daemon_path", welcome.daemon_path},
               {"daemon_build_id", welcome.daemon_build_id},
               {"worker_path", welcome.worker_path},
               {"worker_build_id", welcome.worker_build_id},
               {"limits", {{"max_json", kMaxJsonSize}, {"max_body", kMaxBodySize}, {"max_inline", kMaxInlineEntry}}}});
}

Result<Welcome> parse_welcome(std::string_view text) {
  auto object = parse_object(text);
  if (!object) return object.error();
  const TakesApart at_end(*object);
  Fields fields(*object);
  Welcome welcome;
  welcome.min_version = static_cast<Version>(fields.number("min_version", kMinVersion, kMaxVersion));
  welcome.max_version = static_cast<Version>(fields.number("max_version", kVersion, kMaxVersion));
  welcome.builder_id = fields.text("builder_id");
  welcome.native_target = fields.text("native_target");
  welcome.pid = static_cast<int64_t>(fields.number("pid", 0, INT32_MAX));
  welcome.daemon_path = fields.text("daemon_path");
  welcome.daemon_build_id = fields.text("daemon_build_id");
  welcome.worker_path = fields.text("worker_path");
  welcome.worker_build_id = fields.text("worker_build_id");
  return checked(std::move(welcome), fields);
}

std::string to_text(const Hello& hello) {
  return dump({{"version", hello.version},
               {"client", hello.client_name},
               {"build_id", hello.build_id},
               {"want", hello.replace ? "replace" : "serve"}});
}

Result<Hello> parse_hello(std::string_view text) {
  auto object = parse_object(text);
  if (!object) return object.error();
  const TakesApart at_end(*object);
  Fields fields(*object);
  Hello hello;
  hello.version = static_cast<Version>(fields.number("version", 0, kMaxVersion));
  hello.client_name = fields.text("client");
  hello.build_id = fields.text("build_id");
  std::string want = fields.text("want", "serve");
  if (want != "serve" && want != "replace") return invalid_argument("HELLO: 'want' is neither serve nor replace");
  hello.replace = want == "replace";
  return checked(std::move(hello), fields);
}

std::string to_text(const CompileHeader& header) {
  nlohmann::json out = {{"deadline_ms", header.deadline_ms},
                        {"priority", header.priority == Priority::kInteractive ? "interactive" : "background"}};
  if (!header.trace_id.empty()) out["trace_id"] = header.trace_id;
  if (header.durable) out["durable"] = true;
  if (header.memory_bytes) out["memory_bytes"] = header.memory_bytes;
  return dump(out);
}

Result<CompileHeader> parse_compile_header(std::string_view text) {
  auto object = parse_object(text);
  if (!object) return object.error();
  const TakesApart at_end(*object);
  Fields fields(*object);
  CompileHeader header;
  header.deadline_ms = static_cast<uint32_t>(fields.number("deadline_ms", 0, UINT32_MAX));
  std::string priority = fields.text("priority", "interactive");
  if (priority != "interactive" && priority != "background") {
    return invalid_argument("COMPILE: 'priority' is neither interactive nor background");
  }
  header.priority = priority == "interactive" ? Priority::kInteractive : Priority::kBackground;
  header.trace_id = fields.text("trace_id");
  if (header.trace_id.size() > 128) return invalid_argument("COMPILE: 'trace_id' is longer than 128 bytes");
  header.durable = fields.boolean("durable");
  header.memory_bytes = fields.number("memory_bytes", 0, kMaxMemory);
  return checked(std::move(header), fields);
}

Result<CompileBody> split_compile_body(std::span<const std::byte> body) {
  if (body.size() < 4) return invalid_argument("COMPILE: the body has no length field");
  uint32_t canonical = take<uint32_t>(body.data());
  auto rest = body.subspan(4);
  if (canonical > rest.size()) {
    return invalid_argument("COMPILE: a canonical section of " + std::to_string(canonical) + " bytes in a body of " +
                            std::to_string(body.size()));
  }
  return CompileBody{rest.first(canonical), rest.subspan(canonical)};
}

std::string to_text(const TuneHeader& header) {
  nlohmann::json scalars = nlohmann::json::object();
  for (const auto& [name, value] : header.scalars) {
    std::visit([&](auto number) { scalars[name] = number; }, value);
  }
  nlohmann::json out = {{"scalars", scalars},      {"fixed", header.fixed},         {"wait", header.wait},
                        {"behind", header.behind}, {"budget_ms", header.budget_ms}, {"device", header.device}};
  if (!header.trace_id.empty()) out["trace_id"] = header.trace_id;
  if (!header.choose) return dump(out);
  out["choose"] = true;
  out["hardware"] = header.hardware;
  out["compiled"] = header.compiled;
  out["more"] = header.more;
  return dump(out);
}

Result<TuneHeader> parse_tune_header(std::string_view text) {
  auto object = parse_object(text);
  if (!object) return object.error();
  const TakesApart at_end(*object);
  Fields fields(*object);
  TuneHeader header;
  header.wait = fields.boolean("wait");
  header.behind = fields.boolean("behind");
  header.budget_ms = static_cast<uint32_t>(fields.number("budget_ms", 0, UINT32_MAX));
  header.device = static_cast<uint32_t>(fields.number("device", 0, kMaxDevices - 1));
  header.trace_id = fields.text("trace_id");
  if (header.trace_id.size() > 128) return invalid_argument("TUNE: 'trace_id' is longer than 128 bytes");
  if (auto scalars = object->find("scalars"); scalars != object->end()) {
    if (!scalars->is_object()) return invalid_argument("TUNE: 'scalars' is not an object");
    for (const auto& [name, value] : scalars->items()) {
      const auto scalar = scalar_of(value);
      if (!scalar) return invalid_argument("TUNE: '" + name + "' is not a number");
      header.scalars.emplace(name, *scalar);
    }
  }
  if (auto fixed = object->find("fixed"); fixed != object->end()) {
    if (!fixed->is_array()) return invalid_argument("TUNE: 'fixed' is not a list");
    for (const auto& name : *fixed) {
      if (!name.is_string()) return invalid_argument("TUNE: 'fixed' has an entry that is no name");
      header.fixed.push_back(name);
    }
  }
  header.choose = fields.boolean("choose");
  header.hardware = fields.text("hardware");
  header.more = fields.boolean("more", true);
  if (header.hardware.size() > kMaxHardware) {
    return invalid_argument("TUNE: 'hardware' is longer than " + std::to_string(kMaxHardware) + " bytes");
  }
  if (auto compiled = object->find("compiled"); compiled != object->end()) {
    if (!compiled->is_array()) return invalid_argument("TUNE: 'compiled' is not a list");
    for (const auto& config : *compiled) {
      auto parsed = config_of(config, "TUNE", "compiled");
      if (!parsed) return parsed.error();
      header.compiled.push_back(std::move(*parsed));
    }
  }
  return checked(std::move(header), fields);
}

std::string to_text(const Tuned& tuned) {
  nlohmann::json out = {{"config", tuned.config},
                        {"source", tuned.source},
                        {"final", tuned.final},
                        {"median_us", tuned.median_us},
                        {"default_us", tuned.default_us}};
  if (!tuned.reasons.empty()) out["reasons"] = tuned.reasons;
  return dump(out);
}

Result<Tuned> parse_tuned(std::string_view text) {
  auto object = parse_object(text);
  if (!object) return object.error();
  const TakesApart at_end(*object);
  Fields fields(*object);
  Tuned tuned;
  tuned.source = fields.text("source", "default");
  tuned.final = fields.boolean("final", true);
  for (auto [name, value] : {std::pair("median_us", &tuned.median_us), std::pair("default_us", &tuned.default_us)}) {
    auto found = object->find(name);
    if (found == object->end()) continue;
    if (!found->is_number()) return invalid_argument(std::string("TUNED: '") + name + "' is not a number");
    *value = found->get<double>();
  }
  auto config = config_of(object->value("config", nlohmann::json()), "TUNED", "config");
  if (!config) return config.error();
  tuned.config = std::move(*config);
  if (auto reasons = object->find("reasons"); reasons != object->end()) {
    if (!reasons->is_array()) return invalid_argument("TUNED: 'reasons' is not a list");
    for (const auto& reason : *reasons) {
      if (!reason.is_string()) return invalid_argument("TUNED: 'reasons' has an entry that is no text");
      tuned.reasons.push_back(reason);
    }
  }
  return checked(std::move(tuned), fields);
}

std::string to_text(Error error) {
  std::string text = dump(json_of(error));
  if (text.size() <= kMaxJsonSize) return text;
  constexpr size_t kFits = kMaxJsonSize / 8;  // escapes may take six bytes for one
  error.message.resize(std::min(error.message.size(), kFits));
  error.trace_id.resize(std::min<size_t>(error.trace_id.size(), 128));
  return dump(json_of(error));
}

Error parse_error(std::string_view text) {
  auto object = parse_object(text);
  if (!object) return internal_error("an error frame that does not parse: " + object.error().message);
  const TakesApart at_end(*object);
  Fields fields(*object);
  Error out = error(parse_error_code(fields.text("code")), fields.text("message", "no message"));
  out.retryable = fields.boolean("retryable");
  out.retry_after_ms = static_cast<uint32_t>(fields.number("retry_after_ms", 0, UINT32_MAX));
  out.trace_id = fields.text("trace_id");
  return out;
}

}  // namespace kiln::wire
