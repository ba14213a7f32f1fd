// `kiln explain FILE.kiln --sizes …`: which config a launch of these sizes takes, and why.
#include <cstdio>

#include "commands.h"
#include "kiln/client/client.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/config.h"
#include "kiln/wire/json.h"
#include "kiln/wire/printable.h"

namespace kiln::cli {
namespace {

void print_row(const char* name, const std::string& text) {
  std::printf("%-12s %s\n", name, wire::printable(text).c_str());
}

std::string text_of(const dsl::ConstexprValues& config) {
  std::string out;
  for (const auto& [name, value] : config) out += (out.empty() ? "" : ",") + name + "=" + std::to_string(value);
  return out.empty() ? "none" : out;
}

// Who found a config, as people say it.
std::string why(const std::string& source) {
  if (source == "tuned") return "measured on this machine";
  if (source == "golden") return "measured, of the application's golden file";
  if (source == "shipped") return "measured for what ships";
  if (source == "predicted") return "predicted by the cost model";
  return "the kernel's default";
}

Result<wire::Scalar> scalar_of(const dsl::Param& param, const std::string& item, const std::string& text) {
  const auto value = wire::parse_object("{\"v\":" + text + "}");
  const nlohmann::json number = value ? (*value)["v"] : nlohmann::json();
  if (dsl::is_float(param.type.element) && number.is_number()) return wire::Scalar(number.get<double>());
  if (!dsl::is_float(param.type.element) && number.is_number_integer()) {
    const auto whole = number.get<int64_t>();
    if (param.type.element == dsl::ElementType::kI1 ? whole == 0 || whole == 1
                                                    : dsl::int_fits(param.type.element, whole)) {
      return wire::Scalar(whole);
    }
  }
  return invalid_argument("--sizes " + item + ": `" + text + "` is no " +
                          std::string(dsl::info(param.type.element).name));
}

// "M=33,N=4099", a value for each scalar parameter.
Result<std::map<std::string, wire::Scalar>> parse_sizes(const dsl::Kernel& kernel, const std::string& text) {
  std::map<std::string, wire::Scalar> out;
  std::vector<std::string> names;
  for (const dsl::Param& param : kernel.params) {
    if (!param.type.pointer) names.push_back(param.name);
  }
  for (const std::string& item : split(text, ',')) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) return invalid_argument("--sizes " + item + ": write NAME=VALUE");
    const std::string name = item.substr(0, equals);
    const auto index = kernel.find_param(name);
    if (!index || kernel.params[*index].type.pointer) {
      return invalid_argument("--sizes " + item + ": kernel `" + kernel.name + "` has no scalar parameter `" + name +
                              "`; it has " + join(names));
    }
    auto scalar = scalar_of(kernel.params[*index], item, item.substr(equals + 1));
    if (!scalar) return scalar.error();
    if (!out.emplace(name, *scalar).second) return invalid_argument("--sizes " + item + ": stated twice");
  }
  for (const std::string& name : names) {
    if (!out.contains(name)) return invalid_argument("--sizes: `" + name + "` has no value");
  }
  return out;
}

Result<std::string> hardware_of(const std::string& target) {
  const std::string kind(dsl::target_family(target));
  if (kind == "cpu") return std::string();
  auto present = client::devices(kind);
  // Of a device that is not here, what is known by its target.
  return present && present->front().target == target ? client::hardware_text(present->front()) : std::string();
}

}  // namespace

Result<void> explain_config(const ExplainFlags& flags) {
  auto request = make_request(flags.kernel);
  if (!request) return request.error();
  const dsl::Kernel& kernel = request->kernel;
  auto given = parse_sets(kernel, flags.kernel.sets);
  if (!given) return given.error();
  auto sizes = parse_sizes(kernel, flags.sizes);
  if (!sizes) return sizes.error();
  client::ConnectOptions options;
  options.client_name = "kiln explain";
  auto daemon = client::Connection::open(options);
  if (!daemon) return daemon.error();
  if (request->target == "cpu") request->target = (*daemon)->server().native_target;
  auto config = dsl::complete_constexprs(kernel, *given, request->target);
  if (!config) return config.error();
  request->constexprs = *config;
  print_row("kernel", kernel.name);
  print_row("target", request->target);
  print_row("sizes", flags.sizes);
  if (const std::string reason = client::no_choice(kernel, *given); !reason.empty()) {
    print_row("config", text_of(*config));
    print_row("why", "the kernel's default: " + reason);
    return {};
  }
  auto hardware = hardware_of(request->target);
  if (!hardware) return hardware.error();
  wire::TuneHeader header{.scalars = std::move(*sizes), .trace_id = {}, .choose = true, .hardware = *hardware};
  for (const auto& [name, value] : *given) header.fixed.push_back(name);
  auto bytes = dsl::encode_request(*request);
  if (!bytes) return bytes.error();
  auto chosen = (*daemon)->tune(*bytes, header);
  if (!chosen) return chosen.error();
  print_row("config", text_of(chosen->config));
  print_row("why", why(chosen->source));
  for (const std::string& reason : chosen->reasons) print_row("", reason);
  if (chosen->config != *config) print_row("default", text_of(*config));
  return {};
}

}  // namespace kiln::cli
