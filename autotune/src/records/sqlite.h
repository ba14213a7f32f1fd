// SQLite as the records use it: handles that close themselves, and errors as values.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kiln/dsl/result.h"

namespace kiln::autotune {

// One SQL statement. Values are bound from the left; `step` gives the next row. The first failure stays, so that a
// caller looks once, at the end.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql);

  Statement& bind(std::string_view text);
  Statement& bind(int64_t number);
  Statement& bind(double number);
  Statement& bind(bool flag) { return bind(int64_t{flag}); }

  bool step();         // false: no further row, or a failure
  Result<void> run();  // to its end, and then ready to be bound again
  int status() const { return status_; }
  Result<void> result() const;

  std::string text(int column) const;
  int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  double real(int column) const { return sqlite3_column_double(statement_.get(), column); }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
  int status_ = SQLITE_OK;
};

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

// "FILE: what SQLite says".
Error database_error(sqlite3* database, int status);
Result<void> execute(sqlite3* database, const char* sql);

// Everything until `commit` happens or nothing does.
class Transaction {
 public:
  static Result<Transaction> begin(sqlite3* database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  ~Transaction();
  Result<void> commit();

 private:
  explicit Transaction(sqlite3* database) : database_(database) {}
  sqlite3* database_;
};

}  // namespace kiln::autotune
