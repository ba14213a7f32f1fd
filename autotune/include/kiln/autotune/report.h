// What a batch found, for programs and for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "kiln/autotune/batch.h"

namespace kiln::autotune {

// The object of `--json`: totals, and each job with its best config. docs/use/tuning.md lists the fields.
nlohmann::json summary_json(const BatchResult& result);

// Ranked tables of each job, at most `rows` configs of one, and a table of all jobs' gains.
std::string text_report(const BatchResult& result, size_t rows = 10);

// One HTML file that needs no other and no network: tables, and plots drawn by its own script.
std::string html_report(const BatchResult& result);

// "1.234 ms", "12.3 µs": three or four digits.
std::string time_text(double us);

}  // namespace kiln::autotune
