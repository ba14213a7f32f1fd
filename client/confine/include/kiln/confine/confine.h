// What a process gives up for good before it touches what it does not trust: files by Landlock, system calls by a
// filter. None can be taken back, and several add up. Filters hold for all threads; what concerns files, for the
// calling thread and what it starts, so it is called while there is one thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::confine {

// Other processes of the same user can no longer read this one's memory, take its descriptors or trace it, and it
// leaves no core file. Until it executes another program.
void hide_from_others();

// Its children and itself can gain no rights by executing files. The functions below need it.
Result<void> gain_no_rights();

// Directories, with all beneath them, and files; those that do not exist are left out.
struct Files {
  std::vector<std::string> read = {};   // and execute
  std::vector<std::string> write = {};  // and read, make and remove
};

// 0: the kernel has no Landlock, and the function below does nothing.
int landlock_version();
// Nothing but these can be opened, nor processes outside be traced; where the kernel's version has it, also no TCP, and
// neither signals to processes outside nor their abstract sockets. Descriptors that are open stay of use, and anonymous
// files can be opened by their names in /proc.
Result<void> open_only(const Files& files);

enum class Opening { kRead, kWrite };
// An allow-list by name: memory, threads, clocks, its own signals and limits, what is open, and opening files for
// reading or also for writing. `more` is allowed besides; `socket` is for Unix sockets alone. All other calls fail with
// EPERM, those of a CPU's other instruction set end the process.
Result<void> call_only(Opening opening, std::span<const char* const> more = {});

enum class Programs { kNone, kAny };
// A deny-list, for drivers and programs of others, whose calls nobody has listed: no way to other processes and none
// to the network, nor what attacks on the kernel begin with (namespaces, mounts, BPF, io_uring, userfaultfd, keys).
Result<void> reach_nobody(Programs programs);

}  // namespace kiln::confine
