#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kiln/abi/metadata_json.h"
#include "kiln/dsl/expr_json.h"

namespace kiln::abi {
namespace {

using nlohmann::json;

constexpr int64_t kMaxBox = 256;
constexpr int64_t kMaxElements = int64_t{1} << 31;  // of a printed value

// Within this file a field that is not as it must be is an exception, as it is to the JSON library.
[[noreturn]] void bad(const std::string& what) { throw std::invalid_argument(what); }

const json* find(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

int64_t number(const json& value, const char* name) {
  if (!value.is_number_integer()) bad(std::string("a bad `") + name + "`");
  return value.get<int64_t>();
}

std::optional<int64_t> number_if(const json& object, const char* name) {
  const json* value = find(object, name);
  return value ? std::optional(number(*value, name)) : std::nullopt;
}

std::string text(const json& value, const char* name) {
  if (!value.is_string()) bad(std::string("a bad `") + name + "`");
  return value.get<std::string>();
}

std::string text_if(const json& object, const char* name) {
  const json* value = find(object, name);
  return value ? text(*value, name) : std::string();
}

// What `read` makes of each item of a list; none where there is no list.
template <class Read>
auto list(const json& object, const char* name, const Read& read) {
  std::vector<decltype(read(object))> out;
  const json* values = find(object, name);
  if (values && !values->is_array()) bad(std::string("a bad `") + name + "`");
  if (values) {
    for (const json& value : *values) out.push_back(read(value));
  }
  return out;
}

const json& as_object(const json& value, const char* name) {
  if (!value.is_object()) bad(std::string("a bad `") + name + "`");
  return value;
}

std::vector<std::string> texts(const json& object, const char* name) {
  return list(object, name, [&](const json& value) { return text(value, name); });
}

std::vector<int64_t> numbers(const json& object, const char* name) {
  return list(object, name, [&](const json& value) { return number(value, name); });
}

std::map<std::string, int64_t> named_numbers(const json& object, const char* name) {
  std::map<std::string, int64_t> out;
  const json* values = find(object, name);
  if (!values) return out;
  for (const auto& [key, value] : as_object(*values, name).items()) out.emplace(key, number(value, name));
  return out;
}

dsl::Expr expression(const json& value) {
  auto expr = dsl::expr_from_json(value);
  if (!expr) bad("a bad expression: " + expr.error().message);
  return std::move(*expr);
}

dsl::ElementType element(const json& value, const char* what) {
  const auto type = value.is_string() ? dsl::parse_element_type(value.get_ref<const std::string&>()) : std::nullopt;
  if (!type) bad(std::string(what) + " of an unknown type");
  return *type;
}

Metadata::Param param_of(const json& value) {
  as_object(value, "params");
  const json* readonly = find(value, "readonly");
  return {text_if(value, "name"), text_if(value, "type"), static_cast<uint64_t>(number_if(value, "offset").value_or(0)),
          readonly && *readonly == true};
}

SourcePlace place_of(const json& value) {
  return {text_if(value, "file"), static_cast<uint32_t>(number_if(value, "line").value_or(0)),
          static_cast<uint32_t>(number_if(value, "column").value_or(0))};
}

Check check_of(const json& value) {
  as_object(value, "checks");
  Check out{text_if(value, "op"), place_of(value), std::nullopt, number_if(value, "extent")};
  if (find(value, "message")) out.message = text_if(value, "message");
  return out;
}

PrintedType printed_of(const json& value) {
  as_object(value, "prints");
  PrintedType out{element(value.value("type", json()), "a printed value"), numbers(value, "shape")};
  int64_t count = 1;
  for (int64_t extent : out.shape) {
    if (extent < 1 || extent > kMaxElements / count) bad("a printed value of a bad shape");
    count *= extent;
  }
  return out;
}

Print print_of(const json& value) {
  as_object(value, "prints");
  return {text_if(value, "message"), place_of(value), list(value, "values", printed_of)};
}

LaunchStep step_of(const json& value) {
  as_object(value, "plan");
  return {text_if(value, "entry"), number_if(value, "chunks").value_or(1), number_if(value, "threads"),
          number_if(value, "shared_bytes")};
}

int swizzle_bytes(const json& value) {
  for (const int bytes : {32, 64, 128}) {
    if (value == std::to_string(bytes)) return bytes;
  }
  if (value != "none") bad("a tensor map of an unknown swizzle");
  return 0;
}

bool fills_nan(const json& value, dsl::ElementType type) {
  if (value == "zero") return false;
  const dsl::ElementTypeInfo& info = dsl::info(type);
  if (value != "nan" || !info.is_float || info.bytes < 2) bad("a tensor map of an unknown fill");
  return true;
}

TensorMap map_of(const json& value) {
  as_object(value, "tensor_maps");
  TensorMap out;
  const int64_t param = number_if(value, "param").value_or(-1);
  if (param < 0 || param > UINT32_MAX) bad("a tensor map of no parameter");
  out.param = static_cast<uint32_t>(param);
  out.element = element(value.value("type", json()), "a tensor map");
  const int64_t rank = number_if(value, "rank").value_or(0);
  if (rank < 1 || rank > static_cast<int64_t>(kMaxTensorRank)) bad("a tensor map of a bad rank");
  const auto axes = static_cast<size_t>(rank);
  out.dims = list(value, "dims", expression);
  out.strides_bytes = list(value, "strides_bytes", expression);
  out.box = numbers(value, "box");
  if (out.dims.size() != axes) bad("a tensor map of bad dims");
  if (out.strides_bytes.size() != axes - 1) bad("a tensor map of bad strides_bytes");
  const bool fits = std::ranges::all_of(out.box, [](int64_t extent) { return extent >= 1 && extent <= kMaxBox; });
  if (out.box.size() != axes || !fits) bad("a tensor map of a bad box");
  out.swizzle_bytes = swizzle_bytes(value.value("swizzle", json("none")));
  out.fills_nan = fills_nan(value.value("fill", json("zero")), out.element);
  if (value.value("interleave", json("none")) != "none") bad("a tensor map with interleave, which Kiln does not use");
  out.offset = expression(value.value("offset", json::array()));
  return out;
}

Device device_of(const json& value) {
  as_object(value, "device");
  Device out;
  for (const auto& [name, field] : kDeviceNumbers) out.*field = number_if(value, name);
  if (const json* waits = find(value, "waits")) out.waits = waits->get<bool>();
  if (find(value, "cluster")) {
    const std::vector<int64_t> extents = numbers(value, "cluster");
    if (extents.size() != 3) bad("a bad cluster");
    out.cluster = {extents[0], extents[1], extents[2]};
  }
  out.tensor_maps = list(value, "tensor_maps", map_of);
  if (find(value, "warnings")) out.warnings = texts(value, "warnings");
  return out;
}

dsl::ParamFact fact_of(const json& value) {
  const auto fact = value.is_string() ? dsl::parse_fact(value.get_ref<const std::string&>()) : std::nullopt;
  if (!fact) bad("an unknown fact");
  return *fact;
}

Metadata read(const json& from) {
  if (!from.is_object()) bad("no fields");
  Metadata out;
  out.kernel = text_if(from, "kernel");
  out.target = text_if(from, "target");
  out.emit = text_if(from, "emit");
  out.entry = text_if(from, "entry");
  out.params = list(from, "params", param_of);
  out.params_bytes = number_if(from, "params_bytes").value_or(0);
  out.grid = texts(from, "grid");
  out.grid_expr = list(from, "grid_expr", expression);
  out.constexprs = named_numbers(from, "constexprs");
  out.config = numbers(from, "config");
  out.facts = list(from, "facts", fact_of);
  out.phases_us = named_numbers(from, "phases_us");
  out.passes_us = named_numbers(from, "passes_us");
  out.code_bytes = number_if(from, "code_bytes").value_or(0);
  out.checks = list(from, "checks", check_of);
  out.prints = list(from, "prints", print_of);
  out.plan = list(from, "plan", step_of);
  if (find(from, "plan") && out.plan.empty()) bad("a bad `plan`");
  out.workspace_bytes = number_if(from, "workspace_bytes");
  if (const json* needs = find(from, "needs")) {
    as_object(*needs, "needs");
    out.needs = {text_if(*needs, "architecture"), texts(*needs, "features")};
  }
  out.scratch_bytes = number_if(from, "scratch_bytes");
  if (const json* device = find(from, "device")) out.device = device_of(*device);
  for (const auto& [field, name] : kLaunchFieldNames) {
    if (const auto offset = number_if(from, name)) out.offsets[field] = *offset;
  }
  return out;
}

}  // namespace

Result<Metadata> metadata_of(const nlohmann::json& from) try {
  return read(from);
} catch (const std::exception& problem) {  // also nlohmann's, of another kind of value than expected
  return internal_error(problem.what());
}

Result<Metadata> read_metadata(std::string_view text) {
  const json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return internal_error("no JSON");
  return metadata_of(parsed);
}

}  // namespace kiln::abi
