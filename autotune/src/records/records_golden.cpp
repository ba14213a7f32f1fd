// Golden files: records that ship with an application. They are read into memory, and never written.
#include <algorithm>

#include "kiln/autotune/records.h"
#include "records/records_lines.h"
#include "report/text_files.h"

namespace kiln::autotune {
namespace {

class GoldenRecords final : public Records {
 public:
  GoldenRecords(std::string path, RecordLines lines) : path_(std::move(path)), lines_(std::move(lines)) {}

  std::vector<std::string> notes() const override {
    return lines_.note.empty() ? std::vector<std::string>() : std::vector{lines_.note};
  }

  Result<std::vector<Record>> all(const RecordKey& key) override {
    std::vector<Record> out;
    for (const Record& record : lines_.records) {
      if (record.key == key) out.push_back(record);
    }
    return out;
  }

  // Whoever ships a choice wants it on every such target; the one of this very hardware and compiler comes first.
  Result<std::optional<Record>> best(const RecordKey& key) override {
    auto rank = [&](const Record& record) {
      return 2 * (record.key.hardware == key.hardware) + (record.key.builder == key.builder);
    };
    const Record* found = nullptr;
    for (const Record& record : lines_.records) {
      const RecordKey& of = record.key;
      if (!record.is_best || of.kernel != key.kernel || of.bucket != key.bucket || of.target != key.target) continue;
      if (!found || rank(record) > rank(*found)) found = &record;
    }
    if (!found) return std::optional<Record>();
    Record out = *found;
    out.golden = true;
    return std::optional(std::move(out));
  }

  Result<std::vector<Record>> neighbours(const RecordKey& key) override {
    std::vector<Record> out;
    for (const Record& record : lines_.records) {
      const RecordKey& of = record.key;
      if (record.is_best && of.kernel == key.kernel && of.target == key.target && of.hardware == key.hardware) {
        out.push_back(record);
      }
    }
    return out;
  }

  Result<size_t> export_lines(const std::string& path) override {
    std::string text = header_line();
    for (const MachineRecord& machine : lines_.machines) text += to_line(machine);
    for (const Record& record : lines_.records) text += to_line(record);
    if (auto done = write_text_file(path, text); !done) return done.error();
    return lines_.records.size();
  }

  Result<nlohmann::json> machine(const std::string& hardware, const std::string& builder) override {
    for (const MachineRecord& item : lines_.machines) {
      if (item.hardware == hardware && (builder.empty() || item.builder == builder)) return item.machine;
    }
    return nlohmann::json();
  }

  Result<void> put(const Record&) override { return refuse(); }
  Result<void> set_best(const RecordKey&, const Config&) override { return refuse(); }
  Result<size_t> merge(const std::vector<Record>&) override { return refuse(); }
  Result<size_t> import_lines(const std::string&) override { return refuse(); }
  Result<void> put_machine(const std::string&, const std::string&, const nlohmann::json&) override { return refuse(); }

 private:
  Error refuse() const { return error(ErrorCode::kPermissionDenied, path_ + ": a golden file is only read"); }

  std::string path_;
  RecordLines lines_;
};

class GoldenOverDatabase final : public Records {
 public:
  GoldenOverDatabase(std::unique_ptr<Records> golden, std::unique_ptr<Records> database)
      : golden_(std::move(golden)), database_(std::move(database)) {}

  std::vector<std::string> notes() const override {
    std::vector<std::string> out = golden_->notes(), more = database_->notes();
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  Result<std::vector<Record>> all(const RecordKey& key) override {
    return both(golden_->all(key), database_->all(key),
                [](const Record& a, const Record& b) { return a.config == b.config; });
  }

  Result<std::optional<Record>> best(const RecordKey& key) override {
    auto chosen = golden_->best(key);
    return chosen && !*chosen ? database_->best(key) : chosen;
  }

  Result<std::vector<Record>> neighbours(const RecordKey& key) override {
    return both(golden_->neighbours(key), database_->neighbours(key),
                [](const Record& a, const Record& b) { return a.key == b.key; });
  }

  Result<nlohmann::json> machine(const std::string& hardware, const std::string& builder) override {
    auto found = golden_->machine(hardware, builder);
    return found && found->is_null() ? database_->machine(hardware, builder) : found;
  }

  Result<void> put(const Record& record) override { return database_->put(record); }
  Result<void> set_best(const RecordKey& key, const Config& config) override {
    return database_->set_best(key, config);
  }
  Result<size_t> export_lines(const std::string& path) override { return database_->export_lines(path); }
  Result<size_t> merge(const std::vector<Record>& records) override { return database_->merge(records); }
  Result<size_t> import_lines(const std::string& path) override { return database_->import_lines(path); }
  Result<void> put_machine(const std::string& hardware, const std::string& builder,
                           const nlohmann::json& machine) override {
    return database_->put_machine(hardware, builder, machine);
  }

 private:
  template <class Same>
  static Result<std::vector<Record>> both(Result<std::vector<Record>> first, Result<std::vector<Record>> second,
                                          Same same) {
    if (!first || !second) return first ? second : first;
    const size_t golden = first->size();
    for (Record& record : *second) {
      const auto end = first->begin() + static_cast<std::ptrdiff_t>(golden);
      if (std::none_of(first->begin(), end, [&](const Record& item) { return same(item, record); })) {
        first->push_back(std::move(record));
      }
    }
    return first;
  }

  std::unique_ptr<Records> golden_, database_;
};

}  // namespace

Result<std::unique_ptr<Records>> Records::open_golden(const std::string& path) {
  auto text = read_text_file(path);
  if (!text) return text.error();
  auto lines = parse_record_lines(*text, path);
  if (!lines) return lines.error();
  return std::unique_ptr<Records>(std::make_unique<GoldenRecords>(path, std::move(*lines)));
}

std::unique_ptr<Records> Records::with_golden(std::unique_ptr<Records> golden, std::unique_ptr<Records> database) {
  return std::make_unique<GoldenOverDatabase>(std::move(golden), std::move(database));
}

}  // namespace kiln::autotune
