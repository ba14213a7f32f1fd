// The records in SQLite: `scope` has a row for each key, `measurement` one for each config of it.
#include "kiln/autotune/records.h"

#include <cstdlib>

#include "kiln/autotune/runner_protocol.h"
#include "records/records_file.h"
#include "records/records_lines.h"
#include "report/text_files.h"

namespace kiln::autotune {
namespace {

// In the order of read_row.
constexpr const char* kSelect =
    "SELECT kernel, bucket, target, hardware, builder, config, kernel_name, failure, message, median_us, low_us,"
    " high_us, samples, is_default, is_best, predicted_us, figures, created_ms"
    " FROM measurement JOIN scope ON scope.id = measurement.scope ";
constexpr const char* kOfKey = "WHERE kernel = ? AND bucket = ? AND target = ? AND hardware = ? AND builder = ? ";

Result<Record> read_row(const Statement& row) {
  Record out;
  out.key = {row.text(0), row.text(1), row.text(2), row.text(3), row.text(4)};
  auto config = parse_config(row.text(5));
  if (!config) return config.error();
  out.config = std::move(*config);
  out.kernel_name = row.text(6);
  auto failure = parse_failure(row.text(7));
  if (!failure) return failure.error();
  out.failure = *failure;
  out.message = row.text(8);
  out.median_us = row.real(9);
  out.low_us = row.real(10);
  out.high_us = row.real(11);
  out.samples = static_cast<int>(row.integer(12));
  out.is_default = row.integer(13) != 0;
  out.is_best = row.integer(14) != 0;
  out.predicted_us = row.real(15);
  out.figures = nlohmann::json::parse(row.text(16), nullptr, false);
  if (!out.figures.is_object()) out.figures = nlohmann::json::object();
  out.created_ms = row.integer(17);
  return out;
}

Result<std::vector<Record>> read_rows(Statement& query) {
  std::vector<Record> out;
  while (query.step()) {
    auto record = read_row(query);
    if (!record) return record.error();
    out.push_back(std::move(*record));
  }
  if (auto done = query.result(); !done) return done.error();
  return out;
}

Statement& bind_key(Statement& statement, const RecordKey& key) {
  return statement.bind(key.kernel).bind(key.bucket).bind(key.target).bind(key.hardware).bind(key.builder);
}

class SqliteRecords final : public Records {
 public:
  explicit SqliteRecords(RecordsFile file) : file_(std::move(file)) {
    if (!file_.note.empty()) notes_.push_back(file_.note);
  }

  std::vector<std::string> notes() const override { return notes_; }

  Result<void> put(const Record& record) override {
    auto transaction = Transaction::begin(database());
    if (!transaction) return transaction.error();
    auto scope = scope_of(record.key);
    if (!scope) return scope.error();
    if (auto done = write(*scope, record); !done) return done;
    return transaction->commit();
  }

  Result<std::vector<Record>> all(const RecordKey& key) override {
    Statement query(database(), (std::string(kSelect) + kOfKey + "ORDER BY config").c_str());
    bind_key(query, key);
    return read_rows(query);
  }

  Result<std::optional<Record>> best(const RecordKey& key) override {
    Statement query(database(), (std::string(kSelect) + kOfKey + "AND is_best LIMIT 1").c_str());
    bind_key(query, key);
    auto rows = read_rows(query);
    if (!rows) return rows.error();
    return rows->empty() ? std::optional<Record>() : std::optional(std::move(rows->front()));
  }

  Result<void> set_best(const RecordKey& key, const Config& config) override {
    auto transaction = Transaction::begin(database());
    if (!transaction) return transaction.error();
    auto scope = scope_of(key);
    if (!scope) return scope.error();
    Statement mark(database(), "UPDATE measurement SET is_best = (config = ?) WHERE scope = ?");
    if (auto done = mark.bind(to_string(config)).bind(*scope).run(); !done) return done;
    Statement count(database(), "SELECT count(*) FROM measurement WHERE scope = ? AND is_best");
    count.bind(*scope).step();
    if (auto done = count.result(); !done) return done;
    if (count.integer(0) == 0) {
      return error(ErrorCode::kNotFound,
                   "the config `" + to_string(config) + "` has no record, and cannot be the best");
    }
    if (auto done = count.run(); !done) return done;
    return transaction->commit();
  }

  Result<std::vector<Record>> neighbours(const RecordKey& key) override {
    Statement query(database(), (std::string(kSelect) + "WHERE kernel = ? AND target = ? AND hardware = ? AND is_best"
                                                        " ORDER BY created_ms DESC, bucket")
                                    .c_str());
    query.bind(key.kernel).bind(key.target).bind(key.hardware);
    return read_rows(query);
  }

  Result<size_t> export_lines(const std::string& path) override {
    std::string text = header_line();
    Statement machines(database(), "SELECT hardware, builder, roofs FROM machine ORDER BY hardware, builder");
    while (machines.step()) {
      const auto roofs = nlohmann::json::parse(machines.text(2), nullptr, false);
      if (roofs.is_object()) text += to_line(MachineRecord{machines.text(0), machines.text(1), roofs});
    }
    if (auto done = machines.result(); !done) return done.error();
    Statement query(database(),
                    (std::string(kSelect) + "ORDER BY kernel, bucket, target, hardware, builder, config").c_str());
    size_t count = 0;
    for (; query.step(); ++count) {
      auto record = read_row(query);
      if (!record) return record.error();
      text += to_line(*record);
    }
    if (auto done = query.result(); !done) return done.error();
    if (auto done = write_text_file(path, text); !done) return done.error();
    return count;
  }

  Result<size_t> merge(const std::vector<Record>& records) override { return merge(records, {}); }

  Result<size_t> import_lines(const std::string& path) override {
    auto text = read_text_file(path);
    if (!text) return text.error();
    auto lines = parse_record_lines(*text, path);
    if (!lines) return lines.error();
    auto taken = merge(lines->records, lines->machines);
    if (taken && !lines->note.empty()) notes_.push_back(lines->note);
    return taken;
  }

  Result<nlohmann::json> machine(const std::string& hardware, const std::string& builder) override {
    Statement query(database(),
                    "SELECT roofs FROM machine WHERE hardware = ? AND (builder = ? OR ? = '')"
                    " ORDER BY rowid DESC");
    query.bind(hardware).bind(builder).bind(builder);
    if (query.step()) return nlohmann::json::parse(query.text(0), nullptr, false);
    if (auto done = query.result(); !done) return done.error();
    return nlohmann::json();
  }

  Result<void> put_machine(const std::string& hardware, const std::string& builder,
                           const nlohmann::json& machine) override {
    return write_machine("INSERT OR REPLACE", {hardware, builder, machine});
  }

 private:
  sqlite3* database() const { return file_.database.get(); }

  // The rest happens in the caller's transaction.
  Result<int64_t> scope_of(const RecordKey& key) {
    Statement insert(database(),
                     "INSERT OR IGNORE INTO scope (kernel, bucket, target, hardware, builder) VALUES (?, ?, ?, ?, ?)");
    if (auto done = bind_key(insert, key).run(); !done) return done.error();
    Statement query(database(), (std::string("SELECT id FROM scope ") + kOfKey).c_str());
    bind_key(query, key).step();
    if (auto done = query.result(); !done) return done.error();
    return query.integer(0);
  }

  Result<void> write(int64_t scope, const Record& record) {
    Statement insert(database(),
                     "INSERT OR REPLACE INTO measurement (scope, config, kernel_name, failure, message, median_us,"
                     " low_us, high_us, samples, is_default, is_best, predicted_us, figures, created_ms)"
                     " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    const auto replace = nlohmann::json::error_handler_t::replace;
    const std::string figures = record.figures.is_object() ? record.figures.dump(-1, ' ', false, replace) : "{}";
    return insert.bind(scope)
        .bind(to_string(record.config))
        .bind(record.kernel_name)
        .bind(std::string_view(to_string(record.failure)))
        .bind(record.message)
        .bind(record.median_us)
        .bind(record.low_us)
        .bind(record.high_us)
        .bind(int64_t{record.samples})
        .bind(record.is_default)
        .bind(record.is_best)
        .bind(record.predicted_us)
        .bind(figures)
        .bind(record.created_ms)
        .run();
  }

  Result<size_t> merge(const std::vector<Record>& records, const std::vector<MachineRecord>& machines) {
    auto transaction = Transaction::begin(database());
    if (!transaction) return transaction.error();
    size_t taken = 0;
    for (const Record& record : records) {
      auto took = merge_one(record);
      if (!took) return took.error();
      taken += *took;
    }
    for (const MachineRecord& item : machines) {
      if (auto done = write_machine("INSERT OR IGNORE", item); !done) return done.error();
    }
    if (auto done = transaction->commit(); !done) return done.error();
    return taken;
  }

  // Whether the record was taken: of two, the one with more samples is. A choice stays one whichever record does; of
  // two choices the faster.
  Result<bool> merge_one(const Record& record) {
    auto scope = scope_of(record.key);
    if (!scope) return scope.error();
    Statement query(database(), "SELECT samples, is_best FROM measurement WHERE scope = ? AND config = ?");
    const bool exists = query.bind(*scope).bind(to_string(record.config)).step();
    if (auto done = query.result(); !done) return done.error();
    const bool taken = !exists || record.samples > query.integer(0);
    Record merged = record;
    merged.is_best = record.is_best || (exists && query.integer(1) != 0);
    if (auto done = query.run(); !done) return done.error();
    if (taken) {
      if (auto done = write(*scope, merged); !done) return done.error();
    } else if (record.is_best) {
      Statement mark(database(), "UPDATE measurement SET is_best = 1 WHERE scope = ? AND config = ?");
      if (auto done = mark.bind(*scope).bind(to_string(record.config)).run(); !done) return done.error();
    }
    if (!merged.is_best) return taken;
    Statement choose(database(),
                     "UPDATE measurement SET is_best = 0 WHERE scope = ?1 AND is_best AND config <> (SELECT config FROM"
                     " measurement WHERE scope = ?1 AND is_best ORDER BY samples = 0, median_us, config LIMIT 1)");
    if (auto done = choose.bind(*scope).run(); !done) return done.error();
    return taken;
  }

  Result<void> write_machine(const std::string& how, const MachineRecord& item) {
    Statement insert(database(), (how + " INTO machine (hardware, builder, roofs) VALUES (?, ?, ?)").c_str());
    return insert.bind(item.hardware).bind(item.builder).bind(item.machine.dump()).run();
  }

  RecordsFile file_;
  std::vector<std::string> notes_;
};

}  // namespace

bool is_certainly_faster(const Record& a, const Record& b) {
  const auto tells = [](const Record& record) {
    return record.failure == Failure::kNone && record.median_us > 0 && record.samples >= kSamplesOfInterval;
  };
  return tells(a) && tells(b) && a.high_us < b.low_us;
}

std::string Records::default_path() {
  if (const char* file = ::secure_getenv("KILN_TUNE_DB"); file && *file) return file;
  const char* data = ::secure_getenv("XDG_DATA_HOME");
  if (data && data[0] == '/') return std::string(data) + "/kiln/tune.sqlite";  // a relative one is to be ignored
  const char* home = ::secure_getenv("HOME");
  return home && *home ? std::string(home) + "/.local/share/kiln/tune.sqlite" : "";
}

Result<std::unique_ptr<Records>> Records::open(const std::string& path) {
  auto file = open_records_file(path);
  if (!file) return file.error();
  return std::unique_ptr<Records>(std::make_unique<SqliteRecords>(std::move(*file)));
}

}  // namespace kiln::autotune
