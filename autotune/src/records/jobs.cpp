#include "kiln/autotune/jobs.h"

#include <algorithm>
#include <array>

#include "kiln/dsl/config.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "report/text_files.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;

constexpr std::array kFields = {"kernel", "type",  "name", "shape",  "shapes",
                                "arrays", "space", "set",  "target", "targets"};

Error field_error(const std::string& field, const std::string& what) {
  return invalid_argument("`" + field + "`: " + what);
}

bool is_file(const std::string& name) { return name.ends_with(".kiln") || name.find('/') != std::string::npos; }

Result<dsl::Kernel> load_kernel(const std::string& name, const std::string& directory) {
  const std::string path = name.starts_with("/") || directory == "." ? name : directory + "/" + name;
  auto text = read_text_file(path);
  if (!text) return text.error();
  auto kernel = dsl::parse(*text, path);
  if (!kernel) return kernel;
  if (auto valid = dsl::verify(*kernel); !valid) return valid.error();
  return kernel;
}

Result<std::string> text_field(const json& line, const char* field) {
  const auto found = line.find(field);
  if (found == line.end()) return std::string();
  if (!found->is_string() || found->get_ref<const std::string&>().empty()) {
    return field_error(field, "must be a text that is not empty");
  }
  return found->get<std::string>();
}

Result<dsl::Kernel> kernel_of(const json& line, const std::string& directory) {
  auto name = text_field(line, "kernel"), type = text_field(line, "type");
  if (!name) return name.error();
  if (!type) return type.error();
  if (name->empty()) return field_error("kernel", "is missing: the name of a library kernel, or a .kiln file");
  if (is_file(*name) && !type->empty()) return field_error("type", "a kernel file has the types that it states");
  auto kernel = is_file(*name) ? load_kernel(*name, directory) : library_kernel(*name, *type);
  return kernel ? kernel : field_error(type->empty() ? "kernel" : "type", kernel.error().message);
}

bool has_config_name(const dsl::Kernel& kernel, const std::string& name) {
  return kernel.find_constexpr(name).has_value() || dsl::is_schedule_option(name);
}

Error unknown_name(const dsl::Kernel& kernel, const std::string& field, const std::string& name) {
  std::string names;
  for (const dsl::Constexpr& item : kernel.constexprs) names += item.name + ", ";
  return field_error(field, "kernel `" + kernel.name + "` has no constexpr `" + name + "`; it has " + names +
                                "and there are " + target::schedule_option_names());
}

// An integer, or as text the name that a value of a schedule option has.
std::optional<int64_t> config_value(const std::string& name, const json& value) {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_string()) return target::parse_option_name(name, value.get_ref<const std::string&>());
  return std::nullopt;
}

Result<dsl::ConstexprValues> fixed_of(const json& line, const dsl::Kernel& kernel) {
  dsl::ConstexprValues out;
  const auto found = line.find("set");
  if (found == line.end()) return out;
  if (!found->is_object()) return field_error("set", "must be an object: {\"D\": 128}");
  for (const auto& [name, value] : found->items()) {
    if (!has_config_name(kernel, name)) return unknown_name(kernel, "set", name);
    const auto number = config_value(name, value);
    if (!number) return field_error("set", "`" + name + "` must be an integer");
    out.emplace(name, *number);
  }
  return out;
}

// An axis's values ascending, each once.
Result<std::vector<dsl::SpaceAxis>> axes_of(const json& line, const dsl::Kernel& kernel) {
  std::vector<dsl::SpaceAxis> out;
  const auto found = line.find("space");
  if (found == line.end()) return out;
  if (!found->is_object()) return field_error("space", "must be an object: {\"BM\": [64, 128]}");
  for (const auto& [name, values] : found->items()) {
    if (!has_config_name(kernel, name)) return unknown_name(kernel, "space", name);
    if (!values.is_array() || values.empty()) return field_error("space", "`" + name + "` must be a list of integers");
    dsl::SpaceAxis axis{name, {}};
    for (const json& value : values) {
      const auto number = config_value(name, value);
      if (!number) return field_error("space", "`" + name + "` must be a list of integers");
      axis.values.push_back(*number);
    }
    std::sort(axis.values.begin(), axis.values.end());
    axis.values.erase(std::unique(axis.values.begin(), axis.values.end()), axis.values.end());
    out.push_back(std::move(axis));
  }
  return out;
}

// Of a field or its plural, whichever stands there: name in the message, and value.
using Items = std::vector<std::pair<std::string, json>>;
Result<Items> one_or_many(const json& line, const std::string& one) {
  const std::string many = one + "s";
  if (line.contains(one) && line.contains(many)) return field_error(many, "stands beside `" + one + "`");
  Items out;
  if (line.contains(one)) out.emplace_back(one, line[one]);
  if (!line.contains(many)) return out;
  if (!line[many].is_array() || line[many].empty()) return field_error(many, "must be a list that is not empty");
  for (const json& item : line[many]) out.emplace_back(many + "[" + std::to_string(out.size()) + "]", item);
  return out;
}

// "M=4096,N=1024", ints in the order of the parameters, then what is set.
std::string shape_text(const dsl::Kernel& kernel, const json& shape, const dsl::ConstexprValues& fixed) {
  std::string out;
  for (const dsl::Param& param : kernel.params) {
    if (param.type.pointer || !shape.contains(param.name) || !shape[param.name].is_number_integer()) continue;
    out += (out.empty() ? "" : ",") + param.name + "=" + shape[param.name].dump();
  }
  for (const auto& [name, value] : fixed) out += (out.empty() ? "" : ",") + name + "=" + std::to_string(value);
  return out;
}

// The fields that say what is computed, of one shape.
nlohmann::ordered_json line_of(const json& line, const json& shape) {
  nlohmann::ordered_json out;
  for (const char* field : {"kernel", "type", "name"}) {
    if (line.contains(field)) out[field] = line[field];
  }
  out["shape"] = shape;
  for (const char* field : {"set", "arrays"}) {
    if (line.contains(field)) out[field] = line[field];
  }
  return out;
}

}  // namespace

Result<std::vector<JobSpec>> parse_job(const json& line, const std::string& directory) {
  for (const auto& [field, value] : line.items()) {
    const bool known = std::any_of(kFields.begin(), kFields.end(), [&](const char* name) { return field == name; });
    if (!known) return field_error(field, "there is no such field");
  }
  auto kernel = kernel_of(line, directory);
  if (!kernel) return kernel.error();
  auto name = text_field(line, "name"), type = text_field(line, "type");
  if (!name) return name.error();
  auto fixed = fixed_of(line, *kernel);
  if (!fixed) return fixed.error();
  auto axes = axes_of(line, *kernel);
  if (!axes) return axes.error();
  auto shapes = one_or_many(line, "shape");
  if (!shapes) return shapes.error();
  if (shapes->empty()) shapes->emplace_back("shape", json::object());
  auto targets = one_or_many(line, "target");
  if (!targets) return targets.error();
  if (targets->empty()) targets->emplace_back("target", "");
  const json arrays = line.value("arrays", json::object());

  std::vector<JobSpec> out;
  for (const auto& [shape_field, shape] : *shapes) {
    if (!shape.is_object()) return field_error(shape_field, "must be an object: {\"M\": 4096}");
    auto workload = make_workload(*kernel, shape, arrays, *fixed, directory);
    if (!workload) return field_error(shape_field, workload.error().message);
    const std::string text = shape_text(*kernel, shape, *fixed);
    const std::string plain = kernel->name + (type->empty() ? "" : " " + *type);
    const bool spell_out = name->empty() || shapes->size() > 1;
    for (const auto& [target_field, target] : *targets) {
      if (!target.is_string()) return field_error(target_field, "must be a text: \"cuda\"");
      JobSpec spec;
      spec.name = (name->empty() ? plain : *name) + (spell_out && !text.empty() ? " " + text : "");
      spec.target = target.get<std::string>();
      spec.kernel = *kernel;
      spec.workload = *workload;
      spec.axes = *axes;
      spec.line = line_of(line, shape);
      out.push_back(std::move(spec));
    }
  }
  return out;
}

Result<void> for_each_line(std::string_view text, const std::string& file, const TakeLine& each) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view words = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = file + ":" + std::to_string(number);
    const json line = json::parse(words, nullptr, false);
    if (!line.is_object()) return invalid_argument(place + ": not a JSON object");
    if (auto done = each(place, line); !done) return error(done.error().code, place + ": " + done.error().message);
  }
  return {};
}

Result<std::vector<JobSpec>> parse_jobs(std::string_view text, const std::string& file) {
  std::vector<JobSpec> out;
  auto done = for_each_line(text, file, [&](const std::string& place, const json& line) -> Result<void> {
    auto jobs = parse_job(line, directory_of(file));
    if (!jobs) return jobs.error();
    for (JobSpec& job : *jobs) {
      job.place = place;
      out.push_back(std::move(job));
    }
    return {};
  });
  if (!done) return done.error();
  return out;
}

Result<std::vector<JobSpec>> read_jobs(const std::string& file) {
  auto text = read_text_file(file);
  if (!text) return text.error();
  return parse_jobs(*text, file);
}

}  // namespace kiln::autotune
