// A batch as JSON: what `--json` prints and what the page of the HTML report draws.
#pragma once

#include "kiln/autotune/report.h"

namespace kiln::autotune {

// The summary's fields, and candidates and convergence of each job.
nlohmann::json page_json(const BatchResult& result);
// "cpu:x86-64-v3" without its features, which are many.
std::string short_target(const std::string& target);
// Half of the 99 % interval, "±1.2 %"; "few" samples give none, and a "noisy" one says only that times varied.
std::string interval_text(const Record& record);
// Of a config over the default, "1.35×". Where their intervals overlap it may be chance, "≈ 1", unless the last races
// decided; "-" where the default was not measured.
std::string speedup_text(const JobResult& job, const Candidate& candidate);
std::string dump_json(const nlohmann::json& value);

}  // namespace kiln::autotune
