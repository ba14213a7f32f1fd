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

// Its children and itself can gain no rights by executing files, and of root's it keeps that of reading. The functions
// below need it. For the calling thread and what it starts.
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

// kNone: to read, what is open already, by its name in /proc/self/fd, which takes the signal SIGSYS; nothing else is
// opened or looked at (stat).
enum class Opening { kNone, kRead, kWrite };
struct Calls {
  Opening opening = Opening::kRead;
  std::span<const char* const> more = {};  // allowed besides
  int lock = -1;  // the one descriptor that may be locked, and stays what it is for good; -1: none may
};
// An allow-list by name: memory, clocks, its own signals and limits, what is open, and opening files as it says; no
// sockets, anonymous files and threads but those that are there. Of `more` "clone" is for threads,
// "sched_setaffinity" for the calling one, "arch_prctl" for tile registers (AMX). All other calls fail with EPERM,
// those of a CPU's other instruction set end the process.
Result<void> call_only(const Calls& calls);

// An allow-list for a process that starts programs of others: the above, and what programs begin with, look at files
// with and wait for each other with; no limits, signals or scheduling of others, no sockets, no files' modes.
Result<void> run_programs();
// Neither processes nor threads; for a process that is about to become a program that needs none.
Result<void> stay_alone();

// For drivers, whose calls nobody has listed: all that are known but for those by which it would reach others (their
// memory, limits, scheduling, signals, sockets, locks, System V memory), change what files there are, start programs,
// or begin an attack on the kernel (namespaces, mounts, BPF, io_uring, userfaultfd, keys). `lock` is as above.
Result<void> reach_nobody(int lock = -1);

}  // namespace kiln::confine
