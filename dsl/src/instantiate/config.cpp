#include "kiln/dsl/config.h"

#include <algorithm>

namespace kiln::dsl {
namespace {

constexpr std::array<std::string_view, 3> kFamilies = {"cpu", "cuda", "amd"};

Result<void> check_names(const Kernel& kernel, const ConstexprValues& values) {
  for (const auto& [name, value] : values) {
    if (kernel.find_constexpr(name)) continue;
    if (is_schedule_option(name)) {
      if (auto fine = check_schedule_option(name, value); !fine) {
        return invalid_argument("kernel `" + kernel.name + "`: " + fine.error().message);
      }
      continue;
    }
    std::string known;
    for (const Constexpr& item : kernel.constexprs) known += (known.empty() ? "" : ", ") + item.name;
    return invalid_argument("kernel `" + kernel.name + "` has no constexpr `" + name + "`" +
                            (known.empty() ? "; it has none" : "; it has " + known));
  }
  return {};
}

}  // namespace

bool is_schedule_option(std::string_view name) { return target::find_schedule_option(name) != nullptr; }

Result<void> check_schedule_option(std::string_view name, int64_t value) {
  const target::ScheduleOption* option = target::find_schedule_option(name);
  if (option == nullptr) return invalid_argument("there is no schedule option `" + std::string(name) + "`");
  if (option->allows(value)) return {};
  return invalid_argument("schedule option `" + std::string(name) + "` is " + std::to_string(value) + "; it must be " +
                          option->allowed());
}

int64_t schedule_option(const ConstexprValues& config, std::string_view name) {
  const auto given = config.find(std::string(name));
  return given != config.end() ? given->second : target::find_schedule_option(name)->none;
}

std::string_view target_family(std::string_view target) { return target.substr(0, target.find(':')); }

bool defaults_apply(std::string_view name, std::string_view target) {
  return name == target || name == target_family(target);
}

std::string target_defaults_problem(const Kernel& kernel, std::string_view target, const ConstexprValues& values) {
  if (std::find(kFamilies.begin(), kFamilies.end(), target_family(target)) == kFamilies.end() ||
      target.ends_with(':')) {
    std::string known;
    for (std::string_view family : kFamilies) known += (known.empty() ? "" : ", ") + std::string(family);
    return "there are no targets `" + std::string(target.substr(0, 80)) + "`; there are " + known;
  }
  for (const auto& [name, value] : values) {
    if (kernel.find_constexpr(name)) continue;
    if (!is_schedule_option(name))
      return "`" + name + "` is neither a constexpr nor " + target::schedule_option_names();
    if (auto fine = check_schedule_option(name, value); !fine) return fine.error().message;
  }
  return "";
}

Result<ConstexprValues> complete_constexprs(const Kernel& kernel, const ConstexprValues& values,
                                            std::string_view target) {
  if (auto fine = check_names(kernel, values); !fine) return fine.error();
  ConstexprValues out = values;
  // A family's name comes before those of its members; what stands in the map already stays.
  for (auto entry = kernel.target_defaults.rbegin(); entry != kernel.target_defaults.rend(); ++entry) {
    if (defaults_apply(entry->first, target)) out.insert(entry->second.begin(), entry->second.end());
  }
  for (const Constexpr& item : kernel.constexprs) {
    if (item.default_value) out.emplace(item.name, *item.default_value);
    if (!out.contains(item.name)) {
      return invalid_argument("kernel `" + kernel.name + "`: constexpr `" + item.name +
                              "` has no value and no default");
    }
  }
  std::erase_if(out, [&](const auto& item) {
    const target::ScheduleOption* option = target::find_schedule_option(item.first);
    return option != nullptr && !option->is_of(target);
  });
  return out;
}

}  // namespace kiln::dsl
