#include "records/sqlite.h"

#include <utility>

namespace kiln::autotune {

Error database_error(sqlite3* database, int status) {
  const char* name = sqlite3_db_filename(database, "main");
  const std::string file = name && *name ? name : "the tuner's records";
  switch (status & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kUnavailable, file + ": other processes have kept it locked for too long", true, 1000, {}};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return error(ErrorCode::kInternal, file + ": is damaged (" + sqlite3_errmsg(database) +
                                             "); the next run moves it aside and begins a new one");
    case SQLITE_FULL:
      return error(ErrorCode::kResourceExhausted, file + ": the disk is full");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return error(ErrorCode::kPermissionDenied, file + ": cannot be written (" + sqlite3_errmsg(database) + ")");
    default:
      return internal_error(file + ": " + sqlite3_errmsg(database));
  }
}

Statement::Statement(sqlite3* database, const char* sql) : database_(database) {
  sqlite3_stmt* statement = nullptr;
  status_ = sqlite3_prepare_v2(database, sql, -1, &statement, nullptr);
  statement_.reset(statement);
}

Statement& Statement::bind(std::string_view text) {
  if (status_ == SQLITE_OK) {
    status_ = sqlite3_bind_text64(statement_.get(), ++bound_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  return *this;
}

Statement& Statement::bind(int64_t number) {
  if (status_ == SQLITE_OK) status_ = sqlite3_bind_int64(statement_.get(), ++bound_, number);
  return *this;
}

Statement& Statement::bind(double number) {
  if (status_ == SQLITE_OK) status_ = sqlite3_bind_double(statement_.get(), ++bound_, number);
  return *this;
}

bool Statement::step() {
  if (status_ != SQLITE_OK && status_ != SQLITE_ROW) return false;
  status_ = sqlite3_step(statement_.get());
  return status_ == SQLITE_ROW;
}

Result<void> Statement::run() {
  while (step()) {
  }
  Result<void> out = result();
  sqlite3_reset(statement_.get());
  bound_ = 0;
  status_ = SQLITE_OK;
  return out;
}

Result<void> Statement::result() const {
  if (status_ == SQLITE_OK || status_ == SQLITE_ROW || status_ == SQLITE_DONE) return {};
  return database_error(database_, status_);
}

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return bytes ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))) : "";
}

Result<void> execute(sqlite3* database, const char* sql) {
  const int status = sqlite3_exec(database, sql, nullptr, nullptr, nullptr);
  return status == SQLITE_OK ? Result<void>() : database_error(database, status);
}

// Immediate: a transaction that reads first could not wait for another writer.
Result<Transaction> Transaction::begin(sqlite3* database) {
  if (auto begun = execute(database, "BEGIN IMMEDIATE"); !begun) return begun.error();
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database_) sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
}

Result<void> Transaction::commit() {
  auto done = execute(database_, "COMMIT");
  if (done) database_ = nullptr;
  return done;
}

}  // namespace kiln::autotune
