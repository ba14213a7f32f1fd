// For a process whose openat, where it opens for reading, and newfstatat are trapped (SIGSYS).
#pragma once

namespace kiln::confine {

// From now on openat gives a copy of the descriptor that it names, "/proc/self/fd/N", and newfstatat looks at that one
// or at the descriptor itself. Both fail with EACCES where they name anything else.
void answer_openings();

}  // namespace kiln::confine
