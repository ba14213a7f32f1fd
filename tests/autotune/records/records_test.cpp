// The records: durable, merged, and never lost to damage.
#include "kiln/autotune/records.h"

#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include "batch_helpers.h"

namespace kiln::autotune {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Records> open_at(const std::string& path) { return expect_ok(Records::open(path)); }

std::vector<std::string> configs(const std::vector<Record>& records) {
  std::vector<std::string> out;
  for (const Record& record : records) out.push_back(to_string(record.config));
  return out;
}

void run_sql(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  sqlite3_close(database);
}

TEST(Records, KeepEveryFieldInTheNextProcess) {
  ScratchDirectory directory;
  Record record = some_record(some_key(), 64, 12.5);
  record.failure = Failure::kWrongResult;
  record.message = "y[3] differs; see /tmp/r.kiln\nand \"quotes\"";
  record.is_default = true;
  record.predicted_us = 11.25;
  expect_ok(open_at(directory.file("deep/er/tune.sqlite"))->put(record));
  const auto records = expect_ok(open_at(directory.file("deep/er/tune.sqlite"))->all(some_key()));
  ASSERT_EQ(records.size(), 1u);
  const Record& back = records[0];
  EXPECT_EQ(back.key, record.key);
  EXPECT_EQ(back.config, record.config);
  EXPECT_EQ(back.kernel_name, "matmul");
  EXPECT_EQ(back.failure, Failure::kWrongResult);
  EXPECT_EQ(back.message, record.message);
  EXPECT_EQ(back.median_us, 12.5);
  EXPECT_EQ(back.low_us, record.low_us);
  EXPECT_EQ(back.high_us, record.high_us);
  EXPECT_EQ(back.samples, 9);
  EXPECT_TRUE(back.is_default);
  EXPECT_FALSE(back.is_best);
  EXPECT_EQ(back.predicted_us, 11.25);
  EXPECT_EQ(back.figures, record.figures);
  EXPECT_EQ(back.created_ms, record.created_ms);
}

TEST(Records, HoldForTheirKeyAlone) {
  ScratchDirectory directory;
  auto records = open_at(directory.file("tune.sqlite"));
  expect_ok(records->put(some_record(some_key(), 64, 1)));
  for (auto change :
       {&RecordKey::kernel, &RecordKey::bucket, &RecordKey::target, &RecordKey::hardware, &RecordKey::builder}) {
    RecordKey other = some_key();
    other.*change += "'";
    EXPECT_TRUE(expect_ok(records->all(other)).empty());
  }
}

TEST(Records, ASecondRecordOfAConfigReplacesTheFirst) {
  ScratchDirectory directory;
  auto records = open_at(directory.file("tune.sqlite"));
  expect_ok(records->put(some_record(some_key(), 64, 1)));
  expect_ok(records->put(some_record(some_key(), 64, 2)));
  const auto all = expect_ok(records->all(some_key()));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].median_us, 2);
}

TEST(Records, HaveOneBestOfAKey) {
  ScratchDirectory directory;
  auto records = open_at(directory.file("tune.sqlite"));
  expect_ok(records->put(some_record(some_key(), 32, 3)));
  expect_ok(records->put(some_record(some_key(), 64, 2)));
  EXPECT_FALSE(expect_ok(records->best(some_key())));
  expect_ok(records->set_best(some_key(), {{"BM", 32}, {"BN", 64}}));
  expect_ok(records->set_best(some_key(), {{"BM", 64}, {"BN", 64}}));
  EXPECT_EQ(to_string(expect_ok(records->best(some_key()))->config), "BM=64,BN=64");
  const auto unknown = records->set_best(some_key(), {{"BM", 7}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "the config `BM=7` has no record, and cannot be the best");
  EXPECT_EQ(to_string(expect_ok(records->best(some_key()))->config), "BM=64,BN=64");
}

TEST(Records, NeighboursAreChoicesOfOtherBucketsOnTheSameHardware) {
  ScratchDirectory directory;
  auto records = open_at(directory.file("tune.sqlite"));
  RecordKey near = some_key(), elsewhere = some_key(), other = some_key("k2");
  near.bucket = "M=128,N=64";
  elsewhere.bucket = "M=256,N=64";
  elsewhere.hardware = "another";
  for (const RecordKey& key : {near, elsewhere, other}) {
    expect_ok(records->put(some_record(key, 32, 3)));
    expect_ok(records->put(some_record(key, 64, 2)));
    expect_ok(records->set_best(key, {{"BM", 64}, {"BN", 64}}));
  }
  const auto found = expect_ok(records->neighbours(some_key()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, near);
  EXPECT_EQ(found[0].config.at("BM"), 64);
}

TEST(Records, MachinesAreKeptByHardwareAndBuilder) {
  ScratchDirectory directory;
  auto records = open_at(directory.file("tune.sqlite"));
  EXPECT_TRUE(expect_ok(records->machine("EPYC/2", "b")).is_null());
  expect_ok(records->put_machine("EPYC/2", "b", {{"launch_us", 3}}));
  expect_ok(records->put_machine("EPYC/2", "b", {{"launch_us", 4}}));
  EXPECT_EQ(expect_ok(records->machine("EPYC/2", "b")), nlohmann::json({{"launch_us", 4}}));
  EXPECT_TRUE(expect_ok(records->machine("EPYC/2", "c")).is_null());
}

TEST(RecordsPath, IsTheVariablesElseTheDataDirectorys) {
  auto path_with = [](const char* file, const char* data, const char* home) {
    for (const auto& [name, value] : {std::pair("KILN_TUNE_DB", file), {"XDG_DATA_HOME", data}, {"HOME", home}}) {
      if (value)
        ::setenv(name, value, 1);
      else
        ::unsetenv(name);
    }
    return Records::default_path();
  };
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "/";
  EXPECT_EQ(path_with("/a/b.sqlite", "/data", "/home/x"), "/a/b.sqlite");
  EXPECT_EQ(path_with(nullptr, "/data", "/home/x"), "/data/kiln/tune.sqlite");
  EXPECT_EQ(path_with(nullptr, "relative", "/home/x"), "/home/x/.local/share/kiln/tune.sqlite");
  EXPECT_EQ(path_with(nullptr, nullptr, nullptr), "");
  EXPECT_EQ(Records::open("").error().message, "the tuner's records: there is no home directory; name a file");
  ::setenv("HOME", home.c_str(), 1);
}

TEST(RecordsFile, OfAnEarlierVersionIsBroughtForward) {
  ScratchDirectory directory;
  const std::string path = directory.file("tune.sqlite");
  expect_ok(open_at(path)->put(some_record(some_key(), 64, 1)));
  run_sql(path, "DROP TABLE machine; PRAGMA user_version = 1");
  auto records = open_at(path);
  EXPECT_EQ(expect_ok(records->all(some_key())).size(), 1u);
  expect_ok(records->put_machine("h", "b", {{"launch_us", 4}}));
}

TEST(RecordsFile, OfANewerVersionIsLeftAlone) {
  ScratchDirectory directory;
  const std::string path = directory.file("tune.sqlite");
  expect_ok(open_at(path)->put(some_record(some_key(), 64, 1)));
  run_sql(path, "PRAGMA user_version = 99");
  const auto opened = Records::open(path);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kVersionMismatch);
  EXPECT_THAT(opened.error().message,
              HasSubstr("written by a newer Kiln (version 99 of its tables, this one knows 2)"));
  run_sql(path, "PRAGMA user_version = 2");
  EXPECT_EQ(expect_ok(open_at(path)->all(some_key())).size(), 1u);
}

// A file of several pages, overwritten in its middle or its beginning, cut short, or no database at all.
TEST(RecordsFile, ThatIsDamagedIsMovedAsideAndKept) {
  for (const std::string damage : {"middle", "beginning", "cut", "text"}) {
    SCOPED_TRACE(damage);
    ScratchDirectory directory;
    const std::string path = directory.file("tune.sqlite");
    {
      auto records = open_at(path);
      for (int i = 0; i < 100; ++i) expect_ok(records->put(some_record(some_key(std::string(200, 'k')), i, 1)));
    }
    std::string bytes = read_text(path);
    ASSERT_GT(bytes.size(), 12288u);
    if (damage == "middle") bytes.replace(4096, 8192, std::string(8192, '\x5a'));
    if (damage == "beginning") bytes.replace(0, 100, std::string(100, '\x5a'));
    if (damage == "cut") bytes.resize(bytes.size() - 5000);
    if (damage == "text") bytes = "these are no records\n" + std::string(2000, '.');
    write_text(path, bytes);
    auto records = open_at(path);
    ASSERT_EQ(records->notes().size(), 1u);
    EXPECT_THAT(records->notes()[0], HasSubstr(path + ": is damaged ("));
    EXPECT_TRUE(expect_ok(records->all(some_key())).empty());
    expect_ok(records->put(some_record(some_key(), 64, 1)));
    std::string kept;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
      if (entry.path().string().starts_with(path + ".damaged-")) kept = entry.path();
    }
    EXPECT_EQ(read_text(kept), bytes);
    EXPECT_THAT(records->notes()[0], HasSubstr("moved to " + kept));
    EXPECT_TRUE(open_at(path)->notes().empty());
  }
}

TEST(RecordsFile, ThatCannotBeOpenedSaysWhy) {
  ScratchDirectory directory;
  write_text(directory.file("plain"), "");
  EXPECT_THAT(Records::open(directory.file("plain/tune.sqlite")).error().message, HasSubstr("plain"));
  std::filesystem::create_directory(directory.file("dir.sqlite"));
  EXPECT_THAT(Records::open(directory.file("dir.sqlite")).error().message,
              HasSubstr("dir.sqlite: it is no regular file"));
}

// Why the records cannot be opened, from a process of its own: one that waits is ended.
std::string refusal(const std::string& path) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    auto opened = Records::open(path);
    const std::string said = opened ? "it is opened" : opened.error().message;
    ::_exit(::write(ends[1], said.data(), said.size()) > 0 ? 0 : 1);
  }
  ::close(ends[1]);
  std::string out(4096, '\0');
  out.resize(static_cast<size_t>(std::max<ssize_t>(::read(ends[0], out.data(), out.size()), 0)));
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status == 0 ? out : "it waits";
}

// Neither the database nor what lies beside it.
TEST(RecordsFile, FollowsNoLinkAndWaitsAtNoFifo) {
  for (const char* suffix : {"", "-journal", "-wal", "-shm", ".lock"}) {
    for (const bool fifo : {false, true}) {
      ScratchDirectory directory;
      const std::string path = directory.file("tune.sqlite"), victim = directory.file("victim");
      std::ofstream(victim) << "mine";
      if (*suffix) expect_ok(Records::open(path));  // of a file without contents SQLite looks for no journal
      std::filesystem::remove(path + suffix);
      if (fifo) {
        ASSERT_EQ(::mkfifo((path + suffix).c_str(), 0600), 0);
      } else {
        ASSERT_EQ(::symlink(victim.c_str(), (path + suffix).c_str()), 0);
      }
      EXPECT_THAT(refusal(path), HasSubstr(path + suffix + ": it is "));
      std::ifstream file(victim);
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "mine");
    }
  }
}

TEST(RecordsFile, TakesWritersOfManyProcesses) {
  ScratchDirectory directory;
  const std::string path = directory.file("tune.sqlite");
  constexpr int kWriters = 4, kEach = 20;
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto records = Records::open(path);
      bool done = records.ok();
      for (int i = 0; done && i < kEach; ++i) done = (*records)->put(some_record(some_key(), writer * 100 + i, 1)).ok();
      ::_exit(done ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(expect_ok(open_at(path)->all(some_key())).size(), size_t{kWriters * kEach});
}

// A child writes and says through a pipe what was acknowledged; it is killed at any point, every other one after its
// first record.
TEST(RecordsFile, LosesNothingAcknowledgedToAKill) {
  ScratchDirectory directory;
  const std::string path = directory.file("tune.sqlite");
  std::mt19937 random(7);
  int64_t next = 0, acknowledged = 0;
  for (int kill = 0; kill < 12; ++kill) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto records = Records::open(path);
      for (int64_t i = next; records && (*records)->put(some_record(some_key(), i, 1)).ok(); ++i) {
        if (::write(ends[1], "x", 1) != 1) break;
      }
      ::_exit(1);
    }
    ::close(ends[1]);
    char byte;
    if (kill % 2 == 1) next += ::read(ends[0], &byte, 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(ends[0], &byte, 1) == 1) ++next;
    ::close(ends[0]);
    acknowledged = next;
    auto records = open_at(path);
    EXPECT_TRUE(records->notes().empty());
    const auto all = expect_ok(records->all(some_key()));
    for (int64_t i = 0; i < acknowledged; ++i) {
      const auto has = [&](const Record& record) { return record.config.at("BM") == i; };
      ASSERT_TRUE(std::any_of(all.begin(), all.end(), has)) << "record " << i << " after kill " << kill;
    }
  }
  EXPECT_GT(acknowledged, 0);
}

TEST(RecordsLines, ExportAndImportAreInverse) {
  ScratchDirectory directory;
  auto from = open_at(directory.file("a.sqlite")), to = open_at(directory.file("b.sqlite"));
  Record failed = some_record(some_key(), 128, 0, 0);
  failed.failure = Failure::kHang;
  failed.message = "no answer in 10 s";
  for (const Record& record : {some_record(some_key(), 32, 3), some_record(some_key(), 64, 1.0 / 3), failed}) {
    expect_ok(from->put(record));
  }
  expect_ok(from->set_best(some_key(), {{"BM", 64}, {"BN", 64}}));
  expect_ok(from->put_machine("EPYC/2", "b", {{"launch_us", 3}}));
  EXPECT_EQ(expect_ok(from->export_lines(directory.file("a.jsonl"))), 3u);
  EXPECT_EQ(expect_ok(to->import_lines(directory.file("a.jsonl"))), 3u);
  EXPECT_EQ(expect_ok(to->import_lines(directory.file("a.jsonl"))), 0u);
  EXPECT_EQ(expect_ok(to->export_lines(directory.file("b.jsonl"))), 3u);
  EXPECT_EQ(read_text(directory.file("a.jsonl")), read_text(directory.file("b.jsonl")));
}

TEST(RecordsLines, OfTwoRecordsOfAConfigTheOneWithMoreSamplesStays) {
  ScratchDirectory directory;
  auto ours = open_at(directory.file("a.sqlite")), theirs = open_at(directory.file("b.sqlite"));
  expect_ok(ours->put(some_record(some_key(), 32, 3, 10)));
  expect_ok(ours->put(some_record(some_key(), 64, 4, 10)));
  expect_ok(ours->set_best(some_key(), {{"BM", 32}, {"BN", 64}}));
  expect_ok(theirs->put(some_record(some_key(), 32, 30, 9)));
  expect_ok(theirs->put(some_record(some_key(), 64, 2, 11)));
  expect_ok(theirs->set_best(some_key(), {{"BM", 64}, {"BN", 64}}));
  expect_ok(theirs->export_lines(directory.file("b.jsonl")));
  EXPECT_EQ(expect_ok(ours->import_lines(directory.file("b.jsonl"))), 1u);
  const auto all = expect_ok(ours->all(some_key()));
  EXPECT_THAT(configs(all), ::testing::ElementsAre("BM=32,BN=64", "BM=64,BN=64"));
  EXPECT_EQ(all[0].median_us, 3);
  EXPECT_EQ(all[1].median_us, 2);
  // Two choices met: the faster one is it.
  EXPECT_FALSE(all[0].is_best);
  EXPECT_TRUE(all[1].is_best);
}

TEST(RecordsLines, ToleratesALastLineThatWasCutOff) {
  ScratchDirectory directory;
  auto from = open_at(directory.file("a.sqlite")), to = open_at(directory.file("b.sqlite"));
  for (int64_t bm : {32, 64, 96}) expect_ok(from->put(some_record(some_key(), bm, 3)));
  expect_ok(from->export_lines(directory.file("a.jsonl")));
  const std::string whole = read_text(directory.file("a.jsonl"));
  write_text(directory.file("cut.jsonl"), whole.substr(0, whole.size() - 20));
  EXPECT_EQ(expect_ok(to->import_lines(directory.file("cut.jsonl"))), 2u);
  EXPECT_THAT(to->notes(),
              ::testing::ElementsAre(directory.file("cut.jsonl") + ":4: the last line was cut off and is left out"));
}

TEST(RecordsLines, NameLineAndFieldOfWhatTheyCannotRead) {
  ScratchDirectory directory;
  auto records = open_at(directory.file("a.sqlite"));
  const std::string path = directory.file("x.jsonl");
  const std::string good = R"({"kernel":"k","bucket":"b","target":"t","hardware":"h","builder":"c","config":{"B":1}})";
  auto import_error = [&](const std::string& text) {
    write_text(path, good + "\n" + text + "\n");
    const auto taken = records->import_lines(path);
    EXPECT_FALSE(taken);
    return taken ? "" : taken.error().message.substr(path.size());
  };
  EXPECT_EQ(import_error("{\"kernel\":"), ":2: not a JSON object");
  EXPECT_EQ(import_error("[1]"), ":2: not a JSON object");
  EXPECT_EQ(import_error("{\"kernel\":\"k\"}"), ":2: `bucket` is missing");
  auto with = [&](const std::string& field) { return good.substr(0, good.size() - 1) + "," + field + "}"; };
  EXPECT_EQ(import_error(with("\"median_us\":\"fast\"")), ":2: `median_us` must be a number");
  EXPECT_EQ(import_error(with("\"samples\":1.5")), ":2: `samples` must be an integer");
  EXPECT_EQ(import_error(with("\"is_best\":1")), ":2: `is_best` must be true or false");
  EXPECT_EQ(import_error(with("\"failure\":\"tired\"")), ":2: `failure`: unknown failure `tired`");
  EXPECT_EQ(import_error(with("\"config\":{\"B\":\"x\"}")), ":2: `config`: `B` must be an integer");
  EXPECT_THAT(import_error("{\"format\":\"kiln tuning records\",\"version\":2}"), HasSubstr(":2: written by a newer"));
  // An error leaves nothing behind.
  EXPECT_TRUE(expect_ok(records->all({"k", "b", "t", "h", "c"})).empty());
}

TEST(GoldenFile, WinsOverTheDatabaseAndIsNeverWritten) {
  ScratchDirectory directory;
  {
    auto shipped = open_at(directory.file("g.sqlite"));
    RecordKey elsewhere = some_key();
    elsewhere.builder = "builder-0";
    elsewhere.hardware = "another EPYC";
    expect_ok(shipped->put(some_record(elsewhere, 128, 5)));
    expect_ok(shipped->set_best(elsewhere, {{"BM", 128}, {"BN", 64}}));
    expect_ok(shipped->export_lines(directory.file("golden.jsonl")));
  }
  const std::string before = read_text(directory.file("golden.jsonl"));
  auto golden = expect_ok(Records::open_golden(directory.file("golden.jsonl")));
  EXPECT_THAT(golden->put(some_record(some_key(), 1, 1)).error().message, HasSubstr("a golden file is only read"));
  auto records = Records::with_golden(std::move(golden), open_at(directory.file("a.sqlite")));
  expect_ok(records->put(some_record(some_key(), 64, 1)));
  expect_ok(records->set_best(some_key(), {{"BM", 64}, {"BN", 64}}));
  // The choice holds for the target, its time only for the hardware and compiler that it was measured on.
  EXPECT_EQ(expect_ok(records->best(some_key()))->config.at("BM"), 128);
  EXPECT_THAT(configs(expect_ok(records->all(some_key()))), ::testing::ElementsAre("BM=64,BN=64"));
  EXPECT_EQ(expect_ok(open_at(directory.file("a.sqlite"))->best(some_key()))->config.at("BM"), 64);
  EXPECT_EQ(read_text(directory.file("golden.jsonl")), before);
}

TEST(GoldenFile, OfTheSameHardwareAndBuilderComesFirst) {
  ScratchDirectory directory;
  auto shipped = open_at(directory.file("g.sqlite"));
  RecordKey elsewhere = some_key();
  elsewhere.hardware = "another EPYC";
  for (const auto& [key, bm] : {std::pair(elsewhere, 128), {some_key(), 256}}) {
    expect_ok(shipped->put(some_record(key, bm, 5)));
    expect_ok(shipped->set_best(key, {{"BM", bm}, {"BN", 64}}));
  }
  expect_ok(shipped->export_lines(directory.file("golden.jsonl")));
  auto golden = expect_ok(Records::open_golden(directory.file("golden.jsonl")));
  EXPECT_EQ(expect_ok(golden->best(some_key()))->config.at("BM"), 256);
  EXPECT_EQ(expect_ok(golden->best(elsewhere))->config.at("BM"), 128);
  EXPECT_EQ(configs(expect_ok(golden->all(some_key()))), std::vector<std::string>{"BM=256,BN=64"});
}

}  // namespace
}  // namespace kiln::autotune
