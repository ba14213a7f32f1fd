// Opening holds a lock beside the file, so that of two processes that meet a damaged file one moves it aside and the
// other finds the new one. The lock goes with its holder.
#include "records/records_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "kiln/wire/fd.h"
#include "kiln/wire/own_file.h"
#include "report/text_files.h"

namespace kiln::autotune {
namespace {

constexpr int kBusyMs = 20'000;

// Each step leads from the version of its place to the next; none is ever changed.
constexpr std::array kSteps = {
    // 0 → 1: measurements, by what they hold for.
    "CREATE TABLE scope (id INTEGER PRIMARY KEY, kernel TEXT NOT NULL, bucket TEXT NOT NULL, target TEXT NOT NULL,"
    "  hardware TEXT NOT NULL, builder TEXT NOT NULL, UNIQUE (kernel, bucket, target, hardware, builder));"
    "CREATE TABLE measurement (scope INTEGER NOT NULL REFERENCES scope (id), config TEXT NOT NULL, kernel_name TEXT,"
    "  failure TEXT, message TEXT, median_us REAL, low_us REAL, high_us REAL, samples INTEGER, is_default INTEGER,"
    "  is_best INTEGER, predicted_us REAL, figures TEXT, created_ms INTEGER, PRIMARY KEY (scope, config));",
    // 1 → 2: the roofs of machines.
    "CREATE TABLE machine (hardware TEXT NOT NULL, builder TEXT NOT NULL, roofs TEXT NOT NULL,"
    "  PRIMARY KEY (hardware, builder));",
};

// What SQLite opens beside the file: its log and the log's index, and, to see whether a change was broken off, a
// journal.
constexpr std::array kBeside = {"-journal", "-wal", "-shm"};

Result<wire::UniqueFd> lock(const std::string& path) {
  const std::string name = path + ".lock";
  const int opened = wire::open_own_file(AT_FDCWD, name.c_str(), O_RDWR | O_CREAT);
  if (opened < 0) return error(ErrorCode::kPermissionDenied, name + ": " + wire::own_file_reason(-opened));
  wire::UniqueFd fd(opened);
  if (::flock(fd.get(), LOCK_EX) != 0) {
    return error(ErrorCode::kPermissionDenied, name + ": cannot be locked: " + std::strerror(errno));
  }
  return fd;
}

// SQLite follows links and waits at fifos. Not opened to be looked at: to close it would end the locks that this
// process has on it.
Result<void> check_ours(const std::string& path) {
  std::vector<std::string> files = {path};
  for (const char* suffix : kBeside) files.push_back(path + suffix);
  for (const std::string& file : files) {
    const int status = wire::check_own_file(file);
    if (status < 0) return error(ErrorCode::kPermissionDenied, file + ": " + wire::own_file_reason(-status));
  }
  return {};
}

bool is_damage(int status) { return (status & 0xff) == SQLITE_CORRUPT || (status & 0xff) == SQLITE_NOTADB; }

// Reads the whole file. `damage` is what is wrong with its content; an error is anything else.
Result<void> check(sqlite3* database, std::string& damage) {
  Statement query(database, "PRAGMA quick_check(1)");
  if (query.step()) {
    if (query.text(0) != "ok") damage = query.text(0);
    return {};
  }
  if (!is_damage(query.status())) return query.result();
  damage = sqlite3_errmsg(database);
  return {};
}

Result<void> migrate(sqlite3* database) {
  // Read again inside of the transaction: another process may have done it.
  auto transaction = Transaction::begin(database);
  if (!transaction) return transaction.error();
  Statement query(database, "PRAGMA user_version");
  if (!query.step()) return query.result();
  const auto version = static_cast<size_t>(query.integer(0));
  if (auto done = query.run(); !done) return done;
  if (version > kSteps.size()) {
    return error(ErrorCode::kVersionMismatch, std::string(sqlite3_db_filename(database, "main")) +
                                                  ": written by a newer Kiln (version " + std::to_string(version) +
                                                  " of its tables, this one knows " + std::to_string(kSteps.size()) +
                                                  "); name another file");
  }
  for (size_t step = version; step < kSteps.size(); ++step) {
    if (auto done = execute(database, kSteps[step]); !done) return done;
  }
  const std::string mark = "PRAGMA user_version = " + std::to_string(kSteps.size());
  if (auto done = execute(database, mark.c_str()); !done) return done;
  return transaction->commit();
}

// With its log, so that everything that was in it can be looked at.
Result<std::string> move_aside(const std::string& path) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  std::string aside = path + ".damaged-" + std::to_string(seconds.count());
  struct stat status{};
  for (int number = 1; ::lstat(aside.c_str(), &status) == 0; ++number) {
    aside = path + ".damaged-" + std::to_string(seconds.count()) + "-" + std::to_string(number);
  }
  if (::rename(path.c_str(), aside.c_str()) != 0) {
    return error(ErrorCode::kPermissionDenied,
                 path + ": is damaged and cannot be moved aside: " + std::string(std::strerror(errno)));
  }
  for (const char* suffix : kBeside) ::rename((path + suffix).c_str(), (aside + suffix).c_str());
  return aside;
}

Result<Database> open_once(const std::string& path, std::string& damage) {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int status = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  Database database(handle);
  if (status != SQLITE_OK) {
    return error(ErrorCode::kPermissionDenied,
                 path + ": cannot be opened: " + (handle ? sqlite3_errmsg(handle) : "out of memory"));
  }
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyMs);
  if (auto done = check(handle, damage); !done) return done.error();
  if (!damage.empty()) return database;
  // FULL: a commit is on the disk when it returns.
  if (auto done = execute(handle, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"); !done) return done.error();
  if (auto done = migrate(handle); !done) return done.error();
  return database;
}

}  // namespace

Result<RecordsFile> open_records_file(const std::string& path) {
  if (path.empty()) return invalid_argument("the tuner's records: there is no home directory; name a file");
  if (auto made = make_directories(directory_of(path)); !made) return made.error();
  auto locked = lock(path);
  if (!locked) return locked.error();
  if (auto ours = check_ours(path); !ours) return ours.error();
  std::string damage;
  auto database = open_once(path, damage);
  if (!database) return database.error();
  if (damage.empty()) return RecordsFile{std::move(*database), ""};
  database->reset();
  auto aside = move_aside(path);
  if (!aside) return aside.error();
  std::string note = path + ": is damaged (" + damage + "); moved to " + *aside + ", and a new one is begun";
  damage.clear();
  database = open_once(path, damage);
  if (!database) return database.error();
  if (!damage.empty()) return internal_error(path + ": is damaged although it is new (" + damage + ")");
  return RecordsFile{std::move(*database), std::move(note)};
}

}  // namespace kiln::autotune
