// What kilnd leaves behind when it crashes itself: a file that names the build and the compiles that were running.
// A handler of signals can reach nothing but globals, so this is a global, and the only one.
#pragma once

#include <cstdint>
#include <string>

#include "kiln/dsl/request.h"

namespace kiln::server {

// From now on a signal that ends the process by its own fault writes `path` first. `identity` is lines of text:
// program, version, build-ids.
void install_crash_report(const std::string& path, const std::string& identity);

// The compiles that run, by the number of their job. Of more than 64 at once some are not remembered.
void note_running(uint64_t job, const RequestKey& key);
void note_ended(uint64_t job);

}  // namespace kiln::server
