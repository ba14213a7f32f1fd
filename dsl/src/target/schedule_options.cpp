#include "kiln/target/schedule_options.h"

#include <algorithm>
#include <bit>

#include "kiln/dsl/kept.h"
#include "kiln/target/gpu.h"

namespace kiln::target {
namespace {

using enum OptionValues;
using enum OptionTargets;
constexpr ScheduleOption kOptions[] = {
#define KILN_SCHEDULE_OPTION(id, ...) {__VA_ARGS__},
#include "kiln/target/schedule_options.def"
};

constexpr ScheduleInfo kSchedules[] = {
#define KILN_SCHEDULE(id, ...) {__VA_ARGS__},
#include "kiln/target/schedule_options.def"
};

// "a, b or c"
std::string alternatives(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return out;
}

}  // namespace

std::vector<int64_t> values_of(std::initializer_list<Schedule> schedules) {
  std::vector<int64_t> out;
  for (Schedule schedule : schedules) out.push_back(value_of(schedule));
  return out;
}

std::span<const ScheduleInfo> schedules() { return kSchedules; }

bool ScheduleOption::allows(int64_t value) const {
  if (value < least || value > most) return false;
  return values != OptionValues::kPowersOfTwo || std::has_single_bit(static_cast<uint64_t>(value));
}

std::string ScheduleOption::allowed() const {
  std::vector<std::string> words;
  switch (values) {
    case OptionValues::kRange:
      return std::to_string(least) + " to " + std::to_string(most);
    case OptionValues::kPowersOfTwo:
      for (int64_t value = least; value <= most; value *= 2) words.push_back(std::to_string(value));
      break;
    case OptionValues::kNamed:
      for (int64_t value = least; value <= most; ++value) {
        words.push_back(std::to_string(value) + " (" + option_value_text(name, value) + ")");
      }
      break;
  }
  return alternatives(words);
}

bool ScheduleOption::is_of(std::string_view target) const {
  const size_t colon = target.find(':');
  const std::string_view family = target.substr(0, colon);
  if (family.empty()) return true;
  if (family == "interp") return false;
  switch (targets) {
    case OptionTargets::kAll:
      return true;
    case OptionTargets::kGpus:
      return family != "cpu";
    case OptionTargets::kAmd:
      return family == "amd";
    case OptionTargets::kSpecificNvidia:
    case OptionTargets::kClusteredNvidia:
      break;
  }
  const NvidiaGpu* gpu =
      family == "cuda" && colon != std::string_view::npos ? find_nvidia_gpu(target.substr(colon + 1)) : nullptr;
  return gpu != nullptr && gpu->units.moves_registers &&
         (targets == OptionTargets::kSpecificNvidia || gpu->units.shares_loads);
}

std::span<const ScheduleOption> schedule_options() { return kOptions; }

const ScheduleOption* find_schedule_option(std::string_view name) {
  const auto found = std::ranges::find(kOptions, name, &ScheduleOption::name);
  return found == std::end(kOptions) ? nullptr : &*found;
}

const std::string& schedule_option_names() {
  static const dsl::Kept all = [] {
    std::vector<std::string> words;
    for (const ScheduleOption& option : kOptions) words.emplace_back(option.name);
    return alternatives(words);
  }();
  return *all;
}

std::optional<int64_t> parse_option_name(std::string_view option, std::string_view text) {
  const ScheduleOption* found = find_schedule_option(option);
  if (found == nullptr || found->values != OptionValues::kNamed) return std::nullopt;
  const auto named = std::ranges::find(kSchedules, text, &ScheduleInfo::name);
  if (named == std::end(kSchedules)) return std::nullopt;
  return named - std::begin(kSchedules);
}

std::string option_value_text(std::string_view option, int64_t value) {
  const ScheduleOption* found = find_schedule_option(option);
  const bool is_named = found != nullptr && found->values == OptionValues::kNamed && found->allows(value);
  return is_named ? std::string(kSchedules[value].name) : std::to_string(value);
}

}  // namespace kiln::target
