// What a process leaves behind when it crashes: lines that name the build and the compiles that were running.
// A handler of signals can reach nothing but globals, so this is a global, and the only one.
#pragma once

#include <cstdint>
#include <string>

#include "kiln/dsl/request.h"

namespace kiln::wire {

// From now on a signal that ends the process by its own fault is first reported in the file `path`, behind what is
// there; a file of more than 256 KiB starts anew. Processes may share one. `identity` is lines of text: program,
// version, build-ids. Forked processes inherit it.
void install_crash_report(const std::string& path, const std::string& identity);

// The compiles that run, by the number of their job, which is not 0. Of more than 64 at once some are not remembered.
// One thread calls these.
void note_running(uint64_t job, const RequestKey& key);
void note_ended(uint64_t job);

}  // namespace kiln::wire
