// A batch as JSON: what `--json` prints and what the page of the HTML report draws.
#pragma once

#include "kiln/autotune/report.h"

namespace kiln::autotune {

// The summary's fields, and candidates and convergence of each job.
nlohmann::json page_json(const BatchResult& result);
// "cpu:x86-64-v3" without its features, which are many.
std::string short_target(const std::string& target);
std::string dump_json(const nlohmann::json& value);

}  // namespace kiln::autotune
