// Schedule options (schedule_options.def): their names, what each may be, and which targets obey it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::target {

// The names: kNumWarps is "num_warps".
#define KILN_SCHEDULE_OPTION(id, name, ...) inline constexpr std::string_view id = name;
#include "kiln/target/schedule_options.def"

// The values of kWarpSpecialise.
enum class Schedule : uint8_t {
#define KILN_SCHEDULE(id, ...) id,
#include "kiln/target/schedule_options.def"
};
// As it stands in configs.
constexpr int64_t value_of(Schedule schedule) { return static_cast<int64_t>(schedule); }
std::vector<int64_t> values_of(std::initializer_list<Schedule> schedules);

struct ScheduleInfo {
  std::string_view name, doc;
};
std::span<const ScheduleInfo> schedules();  // by value

enum class OptionValues : uint8_t { kRange, kPowersOfTwo, kNamed };

// kSpecificNvidia: code for one processor alone (cuda:sm_90a, not sm_90) whose warps may give each other registers.
// kClusteredNvidia: those of them whose blocks load for each other. The interpreter has no option; a target of no
// family, "", has all.
enum class OptionTargets : uint8_t { kAll, kGpus, kAmd, kSpecificNvidia, kClusteredNvidia };

struct ScheduleOption {
  std::string_view name;
  int64_t least, most;
  OptionValues values;
  int64_t none;
  OptionTargets targets;
  std::string_view doc;

  bool allows(int64_t value) const;
  std::string allowed() const;  // "1, 2, 4, 8, 16 or 32", "1 to 8"
  // Whether it makes a difference to a target: "cuda:sm_90a".
  bool is_of(std::string_view target) const;
};

// In the order of their encoding.
std::span<const ScheduleOption> schedule_options();
// Null: no option has this name.
const ScheduleOption* find_schedule_option(std::string_view name);
// "num_warps, num_stages, … or stream_k"
const std::string& schedule_option_names();

// A value of an option by name, such as "queue" of warp_specialise; none where the option has no such name.
std::optional<int64_t> parse_option_name(std::string_view option, std::string_view text);
// The name of a value that has one, else the number. `option` may be the name of anything.
std::string option_value_text(std::string_view option, int64_t value);

}  // namespace kiln::target
