// What a process leaves behind when it crashes: lines that name the build and the compiles that were running.
// A handler of signals can reach nothing but globals, so this is a global, and the only one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "kiln/dsl/request.h"

namespace kiln::wire {

// From now on a signal that ends the process by its own fault is first reported in the file `path`, behind what is
// there; a file of more than 256 KiB starts anew. Processes may share one. `identity` is lines of text: program,
// version, build-ids. Forked processes inherit it. One that the process has ignored so far is still ignored where
// another process sends it.
void install_crash_report(const std::string& path, const std::string& identity);

// The same for a program such as "kiln-runner" that has no directory of its own: PROGRAM.crash in the runtime
// directory, which is not made for it.
void install_crash_report_of(const std::string& program, const std::string& version);

// A report is written on a stack of its own, for that of the thread may have overflowed; the thread that installs
// reports has one, any other has one when it has called this. Once a thread; without reports, and after the first call,
// it costs next to nothing.
void report_overflows_here();
// What a thread of ours runs, with that stack: std::jthread(reporting(work)).
template <class Work>
auto reporting(Work work) {
  return [work = std::move(work)](
             auto&&... arguments) mutable -> decltype(work(std::forward<decltype(arguments)>(arguments)...)) {
    report_overflows_here();
    return work(std::forward<decltype(arguments)>(arguments)...);
  };
}

// Opens the report's file now, for a process that gives up opening files. It is empty until something crashes.
void hold_crash_report();

// What runs, by the number of its job, which is not 0. Of more than 64 at once some are not remembered. Any thread.
//
// A compile by its key. Its request, as a COMPILE frame's body, is written beside the report, to
// `path`.request.SECONDS-PROCESS-N, so that it can be repeated though it was stored nowhere; it must live until
// note_ended(). Of the first 8 only; of what crashes have left the newest 64 stay.
void note_running(uint64_t job, const RequestKey& key, std::span<const std::byte> request = {});
// Anything else, in a line of words; those beyond 255 bytes are cut off.
void note_running(uint64_t job, const std::string& what);
void note_ended(uint64_t job);

}  // namespace kiln::wire
