// The file of the records: opened by one process at a time, brought to this version's tables, and moved aside where it
// is damaged.
#pragma once

#include <string>

#include "records/sqlite.h"

namespace kiln::autotune {

struct RecordsFile {
  Database database;
  std::string note;  // that a damaged file was moved aside, and whereto
};
Result<RecordsFile> open_records_file(const std::string& path);

}  // namespace kiln::autotune
