// The daemon's figures in Prometheus' text format.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kiln::server {

// Numbers become series by their names; objects of numbers become series with a label; the rest is left out.
std::string prometheus_text(const nlohmann::json& stats);

}  // namespace kiln::server
