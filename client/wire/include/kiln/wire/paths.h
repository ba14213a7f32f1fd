// Where the daemon lives and how to reach it: directories, the socket, the executables, build-ids.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "kiln/dsl/result.h"
#include "kiln/wire/fd.h"

namespace kiln::wire {

// The major protocol version is part of the name, so that generations that do not understand each other coexist.
inline constexpr const char* kSocketName = "kilnd.v1.sock";
// Elect the daemon, and the client that starts one: of each generation.
inline constexpr const char* kLockName = "kilnd.v1.lock";
inline constexpr const char* kSpawnLockName = "kilnd.v1.spawn.lock";

// The directory is on a file system of other machines (NFS, SMB, Lustre, GPFS, BeeGFS, Ceph, AFS, 9P) or of a process
// (FUSE): locks may be slow, or hold on one machine only. Of one that does not exist its nearest parent counts.
bool is_on_remote_file_system(const std::string& path);

// $KILN_RUNTIME_DIR, else $XDG_RUNTIME_DIR/kiln, /run/user/<uid>/kiln, ~/.cache/kiln/run if that is not remote (a
// socket serves one machine), /tmp/kiln-<uid>: the first that can be opened by open_private_dir.
Result<std::string> find_runtime_dir(bool (*is_remote)(const std::string&) = is_on_remote_file_system);
// The one that is there, and that a daemon would take; empty: none. Makes nothing.
std::string present_runtime_dir();
struct CacheDir {
  std::string path;
  std::string instead_of;  // the directory in the user's home, where that is remote
};
// $KILN_CACHE_DIR, wherever it is; else $XDG_CACHE_HOME/kiln or ~/.cache/kiln, or /var/tmp/kiln-<uid> where that is
// remote; empty when there is no home.
CacheDir find_cache_dir(bool (*is_remote)(const std::string&) = is_on_remote_file_system);
inline std::string default_cache_dir() { return find_cache_dir().path; }

// Opens a directory, creating it with its parents where missing, and checks that it is ours alone: a real directory,
// owned by the effective user, mode 0700.
Result<UniqueFd> open_private_dir(const std::string& path);

// A connected, close-on-exec socket. kNotFound: no daemon listens there. kDeadlineExceeded: one does, and takes nobody
// in. Directories with long names work.
Result<UniqueFd> connect_socket(const std::string& runtime_dir,
                                std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::now() +
                                                                                 std::chrono::seconds(10));
// Binds to a temporary name, listens, and renames it onto `kSocketName`, so there is no moment without a working
// socket. The directory must be locked by the caller.
Result<UniqueFd> listen_socket(const std::string& runtime_dir, int dir_fd, int backlog);

// The peer of a connected Unix socket runs as this process's effective user.
Result<void> check_peer(int fd);
// The process that connected; 0 where the kernel does not know one of this namespace.
pid_t peer_process(int fd);

// The same for a client; also root is accepted, who listens for the daemon where the system's service manager opened
// the socket, and who could replace this program anyway.
Result<void> check_daemon(int fd);

// Full path of the running executable; empty when /proc is missing.
std::string self_path();
// Programs that others could have put there (kiln/wire/trusted.h) are passed over, and an error names them.
//
// The daemon a client starts: $KILN_KILND, beside the running executable, ../bin, `programs_dir`, then $PATH. Empty: no
// such directory.
Result<std::string> find_kilnd(const std::string& programs_dir = {});
// The worker that a daemon at `kilnd_path` starts: beside it, ../libexec/kiln, ../bin.
Result<std::string> find_worker(const std::string& kilnd_path);
// kiln-tune and kiln-runner of the same installation.
Result<std::string> find_tuner(const std::string& kilnd_path);
Result<std::string> find_runner(const std::string& program_path);

// The GNU build-id of an ELF file in hex; empty when there is none.
std::string read_build_id(const std::string& path);

}  // namespace kiln::wire
