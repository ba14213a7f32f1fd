// Files in directories of this user. What lies in one may have been put there by another, who has prepared it, restored
// it or could write to it once: a link to a file elsewhere, a fifo that stops who opens it, a file that stays theirs.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>

namespace kiln::wire {

// These return -errno, and one of four where something is there and not ours: ELOOP for a link, ENXIO for what is no
// regular file, EPERM for another user's, EMLINK for one to be written that has another name.

// Opens a regular file of this user's, or, to read it, of root's; `flags` are open's without O_TRUNC. The last part of
// `path` is never a link, and nothing is waited for. Handlers of signals may call it.
int open_own_file(int dir, const char* path, int flags, mode_t mode = 0600);

// Whether open_own_file would have given this descriptor, which was opened with these flags: 0 or -errno.
int judge_own_file(int fd, int flags);

// Opens the directory `path` below `dir`, which is this user's or root's; no part of the way is a link.
int open_own_dir(int dir, const std::string& path);

// What open_own_file says to a file that is there, without opening it; 0 where nothing is, or where it is ours.
int check_own_file(const std::string& path);

// The error is one of the four.
bool is_not_ours(int number);
// What an errno of these calls means, as the end of a message.
std::string own_file_reason(int number);

}  // namespace kiln::wire
