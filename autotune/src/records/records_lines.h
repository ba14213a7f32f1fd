// Records as JSON lines: what export writes, and import and golden files read. docs/use/tuning.md lists the fields.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/autotune/records.h"

namespace kiln::autotune {

struct MachineRecord {
  std::string hardware, builder;
  nlohmann::json machine;
};

struct RecordLines {
  std::vector<Record> records;
  std::vector<MachineRecord> machines;
  std::string note;  // that the last line was cut off
};

// Errors name `file:line` and the field. A last line without an end that cannot be read was cut off while it was
// written: it is left out, and a note says so.
Result<RecordLines> parse_record_lines(std::string_view text, const std::string& file);

std::string header_line();
std::string to_line(const Record& record);
std::string to_line(const MachineRecord& machine);

}  // namespace kiln::autotune
