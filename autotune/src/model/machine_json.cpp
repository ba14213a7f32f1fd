// A calibrated machine as the records keep it.
#include "kiln/autotune/model.h"

namespace kiln::autotune {
namespace {

struct Field {
  const char* name;
  double Machine::* member;
};
constexpr Field kFields[] = {
    {"read_bytes_per_us", &Machine::read_bytes_per_us},
    {"copy_bytes_per_us", &Machine::copy_bytes_per_us},
    {"cache_bytes_per_us", &Machine::cache_bytes_per_us},
    {"f32_flops_per_us", &Machine::f32_flops_per_us},
    {"math_per_us", &Machine::math_per_us},
    {"launch_us", &Machine::launch_us},
};

}  // namespace

nlohmann::json to_json(const Machine& machine) {
  nlohmann::json out = {
      {"target", machine.target}, {"parallel", machine.parallel}, {"dot_flops_per_us", machine.dot_flops_per_us}};
  for (const Field& field : kFields) out[field.name] = machine.*field.member;
  return out;
}

Result<Machine> parse_machine(const nlohmann::json& value) {
  auto wrong = [](const std::string& what) { return invalid_argument("the description of a machine: " + what); };
  if (!value.is_object()) return wrong("it is no JSON object");
  Machine out;
  for (const Field& field : kFields) {
    auto found = value.find(field.name);
    if (found == value.end() || !found->is_number()) return wrong(std::string("`") + field.name + "` is no number");
    out.*field.member = found->get<double>();
  }
  auto target = value.find("target"), parallel = value.find("parallel"), dots = value.find("dot_flops_per_us");
  if (target == value.end() || !target->is_string()) return wrong("`target` is no text");
  if (parallel == value.end() || !parallel->is_number_integer()) return wrong("`parallel` is no integer");
  if (dots == value.end() || !dots->is_object()) return wrong("`dot_flops_per_us` is no object");
  out.target = target->get<std::string>();
  out.parallel = parallel->get<int>();
  for (const auto& [type, speed] : dots->items()) {
    if (!speed.is_number()) return wrong("`dot_flops_per_us`: `" + type + "` is no number");
    out.dot_flops_per_us[type] = speed.get<double>();
  }
  return out;
}

}  // namespace kiln::autotune
