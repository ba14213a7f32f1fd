// Which files this process executes or obeys: those that its user and root alone can change.
#pragma once

#include <string>

#include "kiln/dsl/result.h"

namespace kiln::wire {

// Every directory on the way to `path`, every link on it and the file itself belong to this process's effective user or
// to root and are closed to others; the error names the one that is not, and why. A sticky directory (/tmp) is passed
// where what is taken in it belongs to either. A group may write if it has no member but them, and is nobody else's
// primary one (docs/reference/service.md). A path that leads to nothing is refused too, with kUnavailable: what has not
// been looked at is not trusted.
Result<void> check_trusted(const std::string& path);

// The program that somebody has named, as a path from the root, which check_trusted has found to be fine: whoever
// starts it starts this path. A name without a slash is looked for in PATH, where those that others could have put
// there are passed over. kPermissionDenied: the error names the place at fault; kUnavailable: there is none.
Result<std::string> find_program(const std::string& name);

// The value of a variable; empty where there is none, and in a program that has more rights than who started it.
std::string environment(const char* name);

}  // namespace kiln::wire
