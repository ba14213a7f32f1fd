// Workloads: the values of scalar parameters from JSON, and the sizes of arrays from the kernel's expressions.
#include "kiln/autotune/workload.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numbers>

#include "kiln/dsl/config.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/text.h"

namespace kiln::autotune {
namespace {

Error wrong(const dsl::Kernel& kernel, const std::string& what) {
  return invalid_argument("kernel `" + kernel.name + "`: " + what);
}

Result<uint64_t> scalar_bits(const dsl::Kernel& kernel, const dsl::Param& param, const nlohmann::json& value) {
  const dsl::ElementType type = param.type.element;
  const std::string where = "parameter `" + param.name + "`";
  if (type == dsl::ElementType::kI1 && value.is_boolean()) return uint64_t{value.get<bool>()};
  if (dsl::is_float(type)) {
    if (!value.is_number()) return wrong(kernel, where + " is a number, not " + value.dump());
    return dsl::bits_from_double(type, value.get<double>());
  }
  if (!value.is_number_integer()) return wrong(kernel, where + " is an integer, not " + value.dump());
  if (type == dsl::ElementType::kU64 && value.is_number_unsigned()) return value.get<uint64_t>();
  const bool too_large = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  if (too_large || !dsl::int_fits(type, value.get<int64_t>())) {
    return wrong(kernel, where + ": " + value.dump() + " is no value of " + std::string(dsl::info(type).name));
  }
  return dsl::bits_from_int(type, value.get<int64_t>());
}

int64_t int_of_bits(dsl::ElementType type, uint64_t bits) {
  const dsl::ElementTypeInfo& type_info = dsl::info(type);
  const int shift = 64 - type_info.bits;
  return type_info.is_signed ? static_cast<int64_t>(bits << shift) >> shift : static_cast<int64_t>(bits);
}

// The largest value that the expression has for a config of the kernel's space: an array must be large enough for all.
// Axes are bound one by one, until the expression has a value.
Result<int64_t> largest(const dsl::Kernel& kernel, const dsl::Expr& expr, dsl::Bindings bindings, size_t axis = 0) {
  auto value = expr.evaluate(bindings);
  if (value || axis == kernel.space.size()) return value;
  const auto index = kernel.find_constexpr(kernel.space[axis].name);
  if (!index || bindings.constexprs[*index]) return largest(kernel, expr, bindings, axis + 1);
  std::vector<int64_t> choices;
  for (const dsl::SpaceAxis& other : kernel.space) {
    if (other.name == kernel.space[axis].name) choices.insert(choices.end(), other.values.begin(), other.values.end());
  }
  if (const auto& chosen = kernel.constexprs[*index].default_value) choices.push_back(*chosen);
  std::optional<int64_t> best;
  for (int64_t choice : choices) {
    bindings.constexprs[*index] = choice;
    auto size = largest(kernel, expr, bindings, axis + 1);
    if (!size) return size;
    best = std::max(best.value_or(*size), *size);
  }
  return *best;
}

// What the expressions of an array's size see: constexprs that are not the tuner's have their defaults.
dsl::Bindings array_bindings(const dsl::Kernel& kernel, const Workload& workload) {
  dsl::Bindings out = bindings(kernel, workload);
  for (size_t i = 0; i < kernel.constexprs.size(); ++i) {
    const dsl::Constexpr& item = kernel.constexprs[i];
    const bool tuned = std::any_of(kernel.space.begin(), kernel.space.end(),
                                   [&](const dsl::SpaceAxis& axis) { return axis.name == item.name; });
    if (!out.constexprs[i] && !tuned) out.constexprs[i] = item.default_value;
  }
  return out;
}

// A number, or the text of an expression.
Result<dsl::Expr> array_expr(const dsl::Kernel& kernel, const dsl::Param& param, const nlohmann::json& value) {
  if (value.is_number_integer()) return dsl::Expr(value.get<int64_t>());
  if (value.is_string()) {
    auto expr = dsl::parse_expr(kernel, value.get_ref<const std::string&>());
    if (!expr) return wrong(kernel, "array `" + param.name + "`: " + expr.error().message);
    return expr;
  }
  return wrong(kernel, "array `" + param.name + "`: " + value.dump() + " is neither an integer nor an expression");
}

Result<dsl::ArrayInfo> stated_array(const dsl::Kernel& kernel, const dsl::Param& param, const nlohmann::json& value) {
  if (!value.is_object()) {
    auto elements = array_expr(kernel, param, value);
    if (!elements) return elements.error();
    return dsl::ArrayInfo{param.name, *elements, {}};
  }
  for (const auto& [key, unused] : value.items()) {
    if (key == "elements" || key == "low" || key == "high") continue;
    return wrong(kernel, "array `" + param.name + "`: `" + key + "` is none of elements, low, high");
  }
  if (!value.contains("elements")) return wrong(kernel, "array `" + param.name + "`: `elements` is missing");
  if (value.contains("low") != value.contains("high")) {
    return wrong(kernel, "array `" + param.name + "`: `low` and `high` go together");
  }
  auto elements = array_expr(kernel, param, value["elements"]);
  if (!elements) return elements.error();
  if (!value.contains("low")) return dsl::ArrayInfo{param.name, *elements, {}};
  auto low = array_expr(kernel, param, value["low"]);
  if (!low) return low.error();
  auto high = array_expr(kernel, param, value["high"]);
  if (!high) return high.error();
  return dsl::ArrayInfo{param.name, *elements, std::pair(*low, *high)};
}

Result<WorkloadArgument> array_argument(const dsl::Kernel& kernel, const Workload& workload,
                                        const dsl::ArrayInfo& array) {
  const dsl::Bindings known = array_bindings(kernel, workload);
  const std::string where = "array `" + array.param + "`: ";
  WorkloadArgument out;
  auto elements = largest(kernel, array.elements, known);
  if (!elements) return wrong(kernel, where + elements.error().message);
  if (*elements < 0) return wrong(kernel, where + "it has " + std::to_string(*elements) + " elements");
  out.elements = *elements;
  if (!array.range) return out;
  auto low = largest(kernel, array.range->first, known), high = largest(kernel, array.range->second, known);
  if (!low || !high) return wrong(kernel, where + (low ? high : low).error().message);
  if (*low >= *high) {
    return wrong(kernel, where + "no value is in [" + std::to_string(*low) + ", " + std::to_string(*high) + ")");
  }
  out.range = std::pair(*low, *high);
  return out;
}

std::string hash_text(const client::NpyArray& array) {
  char out[17];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(XXH3_64bits(array.data(), array.bytes)));
  return out;
}

// "@offsets.npy": the values themselves.
Result<WorkloadArgument> array_of_file(const dsl::Kernel& kernel, const dsl::Param& param, const std::string& name,
                                       const std::optional<std::string>& directory) {
  const std::string where = "array `" + param.name + "`: ";
  if (!directory) return wrong(kernel, where + "no file is read here");
  std::error_code failed;
  WorkloadArgument out;
  out.file = std::filesystem::absolute(std::filesystem::path(*directory) / name, failed).lexically_normal().string();
  if (failed) return wrong(kernel, where + name + ": " + failed.message());
  auto array = read_array(param, out);
  if (!array) return wrong(kernel, array.error().message);
  out.elements = array->count();
  out.content = hash_text(*array);
  return out;
}

const dsl::ArrayInfo* declared_array(const dsl::Kernel& kernel, const std::string& param) {
  auto found = std::find_if(kernel.arrays.begin(), kernel.arrays.end(),
                            [&](const dsl::ArrayInfo& array) { return array.param == param; });
  return found == kernel.arrays.end() ? nullptr : &*found;
}

// Every name of the JSON object is a parameter of that sort.
Result<void> check_names(const dsl::Kernel& kernel, const nlohmann::json& values, bool pointers, const char* what) {
  if (values.is_null()) return {};
  if (!values.is_object()) return wrong(kernel, std::string(what) + "s are a JSON object of names");
  for (const auto& [name, unused] : values.items()) {
    const auto index = kernel.find_param(name);
    if (!index || kernel.params[*index].type.pointer != pointers) {
      return wrong(kernel, "it has no " + std::string(what) + " `" + name + "`");
    }
  }
  return {};
}

std::string power_of_two_above(int64_t value) {
  uint64_t power = 1;
  while (power < static_cast<uint64_t>(std::max<int64_t>(value, 0))) power *= 2;
  return std::to_string(power);
}

}  // namespace

Result<Workload> make_workload(const dsl::Kernel& kernel, const nlohmann::json& scalars, const nlohmann::json& arrays,
                               const dsl::ConstexprValues& fixed, const std::optional<std::string>& directory) {
  if (auto fine = check_names(kernel, scalars, false, "scalar parameter"); !fine) return fine.error();
  if (auto fine = check_names(kernel, arrays, true, "pointer parameter"); !fine) return fine.error();
  for (const auto& [name, unused] : fixed) {
    if (!kernel.find_constexpr(name) && !dsl::is_schedule_option(name))
      return wrong(kernel, "it has no constexpr `" + name + "`");
  }
  Workload out;
  out.fixed = fixed;
  out.arguments.resize(kernel.params.size());
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const dsl::Param& param = kernel.params[i];
    if (param.type.pointer) continue;
    if (!scalars.contains(param.name)) return wrong(kernel, "parameter `" + param.name + "` has no value");
    auto bits = scalar_bits(kernel, param, scalars[param.name]);
    if (!bits) return bits.error();
    out.arguments[i].bits = *bits;
  }
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const dsl::Param& param = kernel.params[i];
    if (!param.type.pointer) continue;
    const dsl::ArrayInfo* declared = declared_array(kernel, param.name);
    const bool stated = arrays.contains(param.name);
    if (!declared && !stated) {
      return wrong(kernel, "nothing says how large the array `" + param.name + "` is: the kernel has no `array " +
                               param.name + " = …`");
    }
    if (stated && arrays[param.name].is_string() && arrays[param.name].get_ref<const std::string&>().starts_with("@")) {
      auto argument =
          array_of_file(kernel, param, arrays[param.name].get_ref<const std::string&>().substr(1), directory);
      if (!argument) return argument.error();
      out.arguments[i] = *argument;
      continue;
    }
    auto array = stated ? stated_array(kernel, param, arrays[param.name]) : Result<dsl::ArrayInfo>(*declared);
    if (!array) return array.error();
    if (declared && !array->range) array->range = declared->range;
    auto argument = array_argument(kernel, out, *array);
    if (!argument) return argument.error();
    out.arguments[i] = *argument;
  }
  return out;
}

bool has_file(const Workload& workload) {
  return std::any_of(workload.arguments.begin(), workload.arguments.end(),
                     [](const WorkloadArgument& argument) { return !argument.file.empty(); });
}

Result<client::NpyArray> read_array(const dsl::Param& param, const WorkloadArgument& argument) {
  const std::string where = "array `" + param.name + "`: ";
  auto array = client::read_npy(argument.file);
  if (!array) return error(array.error().code, where + array.error().message);
  if (array->dtype != client::npy_dtype(param.type.element)) {
    return invalid_argument(where + argument.file + ": it holds '" + array->dtype + "', but the parameter points to " +
                            std::string(dsl::info(param.type.element).name) + " ('" +
                            client::npy_dtype(param.type.element) + "')");
  }
  if (!argument.content.empty() && (array->count() != argument.elements || hash_text(*array) != argument.content))
    return invalid_argument(where + argument.file + ": it has changed since the jobs were read");
  return array;
}

dsl::Bindings bindings(const dsl::Kernel& kernel, const Workload& workload, const dsl::ConstexprValues& config) {
  dsl::Bindings out;
  for (const dsl::Constexpr& item : kernel.constexprs) {
    const auto chosen = config.find(item.name), fixed = workload.fixed.find(item.name);
    if (chosen != config.end()) {
      out.constexprs.emplace_back(chosen->second);
    } else {
      out.constexprs.push_back(fixed == workload.fixed.end() ? std::nullopt : std::optional(fixed->second));
    }
  }
  out.params.resize(kernel.params.size());
  for (size_t i = 0; i < kernel.params.size() && i < workload.arguments.size(); ++i) {
    const dsl::Type& type = kernel.params[i].type;
    if (!type.pointer && dsl::is_int(type.element)) {
      out.params[i] = int_of_bits(type.element, workload.arguments[i].bits);
    }
  }
  return out;
}

dsl::Facts facts_of(const dsl::Kernel& kernel, const Workload& workload) {
  const dsl::Bindings known = bindings(kernel, workload);
  dsl::Facts out(kernel.params.size(), dsl::ParamFact::kNone);
  for (size_t i = 0; i < out.size(); ++i) {
    const dsl::Type& type = kernel.params[i].type;
    if (type.pointer) {
      out[i] = dsl::ParamFact::kAlign16;
    } else if (known.params[i] && type.element != dsl::ElementType::kI1) {
      out[i] = dsl::fact_of_int(*known.params[i]);
    }
  }
  return out;
}

// NAME=VALUE for each int parameter, then what stands behind pointers where it is not what the kernel declares, then
// the element types. Of a bucket of powers VALUE is one, followed by the fact; of facts, the fact alone.
std::string bucket_text(const dsl::Kernel& kernel, const Workload& workload, Bucket bucket) {
  const dsl::Bindings known = bindings(kernel, workload);
  const dsl::Facts facts = facts_of(kernel, workload);
  std::string ints, arrays, types;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const dsl::Param& param = kernel.params[i];
    if (param.type.pointer) {
      const std::string type(dsl::info(param.type.element).name);
      if (("," + types + ",").find("," + type + ",") == std::string::npos) types += (types.empty() ? "" : ",") + type;
      const dsl::ArrayInfo* declared = declared_array(kernel, param.name);
      if (bucket != Bucket::kExact) continue;
      const WorkloadArgument& given = workload.arguments[i];
      auto usual =
          declared ? array_argument(kernel, workload, *declared) : Result<WorkloadArgument>(WorkloadArgument());
      if (usual && *usual == given) continue;
      arrays += ";" + param.name + "=" + std::to_string(given.elements);
      if (!given.content.empty()) arrays += " of " + given.content;
      if (!given.range) continue;
      arrays += " in [" + std::to_string(given.range->first) + "," + std::to_string(given.range->second) + ")";
      continue;
    }
    if (!known.params[i]) continue;
    const char* fact = facts[i] == dsl::ParamFact::kNone ? "" : dsl::fact_name(facts[i]);
    ints += (ints.empty() ? "" : ",") + param.name + "=";
    if (bucket == Bucket::kExact) ints += std::to_string(*known.params[i]);
    if (bucket == Bucket::kPowers) ints += power_of_two_above(*known.params[i]) + (*fact ? "/" : "");
    if (bucket != Bucket::kExact) ints += fact;
  }
  return ints + arrays + ";" + types;
}

double bucket_distance(const std::string& a, const std::string& b) {
  // The ints come first, "M=4096,N=64": texts of one kernel name them in the same order.
  const std::string_view ints_a = std::string_view(a).substr(0, a.find(';'));
  const std::string_view ints_b = std::string_view(b).substr(0, b.find(';'));
  auto value_at = [](std::string_view text, size_t equals) {
    double out = 0;
    std::from_chars(text.data() + equals + 1, text.data() + text.size(), out);
    return out;
  };
  double out = 0;
  for (size_t i = ints_a.find('='), j = ints_b.find('='); i != ints_a.npos && j != ints_b.npos;
       i = ints_a.find('=', i + 1), j = ints_b.find('=', j + 1)) {
    const double x = value_at(ints_a, i), y = value_at(ints_b, j);
    out += std::abs(std::asinh(x) - std::asinh(y)) / std::numbers::ln2;  // as a logarithm, and 0 has one
  }
  return out;
}

}  // namespace kiln::autotune
