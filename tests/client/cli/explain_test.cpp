// What the command line tells of compiled kernels, and what it does with them: explain, reproduce, export, import, top.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "cli_helpers.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/text.h"
#include "kiln/wire/fd.h"
#include "kiln/wire/paths.h"
#include "left_out.h"

namespace kiln::cli::testing {
namespace {

namespace fs = std::filesystem;

class Entries : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    kilnd_ = KILND_EXECUTABLE;
    write("axpy.kiln", kAxpy);
  }
  void TearDown() override {
    (void)kiln({"stop"});
    CliTest::TearDown();
  }
  // The key of the one entry, when it has reached the disk.
  std::string compile(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"compile", "axpy.kiln", "-o", "axpy.so"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome done = kiln(words);
    EXPECT_EQ(done.code, 0) << done.errors;
    EXPECT_EQ(kiln({"stop"}).code, 0);  // which writes what is still to be written
    wait_for_its_end();
    return kiln({"cache", "ls"}).output.substr(0, 64);
  }
  // The daemon's, whose lock on the cache goes with it.
  void wait_for_its_end() const {
    const wire::UniqueFd lock(::open(path("cache/LOCK").c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(::flock(lock.get(), LOCK_EX), 0);
  }
  uintmax_t size_of_entries() const {
    uintmax_t out = 0;
    for (const auto& file : fs::recursive_directory_iterator(path("cache/v1"))) {
      if (file.is_regular_file()) out += file.file_size();
    }
    return out;
  }
  std::string first_entry() const {
    for (const auto& file : fs::recursive_directory_iterator(path("cache/v1"))) {
      if (file.is_regular_file()) return file.path().string();
    }
    return {};
  }
  std::string output_of(const std::vector<std::string>& words) const {
    const Outcome outcome = kiln(words);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return outcome.output;
  }
  void expect_parts(const std::string& text, const std::vector<std::string>& parts) const {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\nnot in\n" << text;
  }
};

TEST_F(Entries, AreExplainedByKeyDigitsAndFile) {
  const std::string key = compile({"--set", "BLOCK=64", "--facts", "x=align16", "--target", "cpu:x86-64-v3"});
  ASSERT_EQ(key.size(), 64u);
  const std::vector<std::string> parts = {key,  "axpy",         "cpu:x86-64-v3", "BLOCK=64", "x=align16",
                                          "so", "kiln compile", "in the queue",  "compiled", "instantiate "};
  expect_parts(output_of({"explain", key}), parts);
  expect_parts(output_of({"explain", key.substr(0, 8)}), parts);
  expect_parts(
      output_of({"explain", "axpy.kiln", "--set", "BLOCK=64", "--facts", "x=align16", "--target", "cpu:x86-64-v3"}),
      parts);
  expect_error({"explain", "0123456789"}, "neither an entry nor the report of a crash");
  expect_error({"explain", "no-such.kiln"}, "no-such.kiln");
}

TEST_F(Entries, AMissIsExplainedByTheNearest) {
  const std::string far = compile({"--set", "BLOCK=256", "--target", "cpu:x86-64-v2", "--facts", "x=align16,n=x16"});
  const std::string near = compile({"--set", "BLOCK=64", "--target", "cpu:x86-64-v3"});
  const std::string text = output_of({"explain", "axpy.kiln", "--set", "BLOCK=64", "--target", "cpu:x86-64-v4"});
  expect_parts(text, {"It is not in", "target: cpu:x86-64-v4 here, cpu:x86-64-v3 there"});
  EXPECT_EQ(text.find("constexpr BLOCK"), std::string::npos) << text;
  EXPECT_EQ(text.find("builder:"), std::string::npos) << text;
  expect_parts(
      output_of({"explain", "axpy.kiln", "--set", "BLOCK=128", "--target", "cpu:x86-64-v3", "--facts", "n=one"}),
      {"constexpr BLOCK: 128 here, 64 there", "fact of n: one here, none there"});
}

TEST_F(Entries, AnotherTextIsShownWhereItDiffers) {
  compile({"--set", "BLOCK=64", "--target", "cpu:x86-64-v3"});
  std::string other = kAxpy;
  const size_t at = other.find("mul");
  ASSERT_NE(at, std::string::npos) << other;
  other.replace(at, 3, "add");
  write("axpy.kiln", other);
  expect_parts(output_of({"explain", "axpy.kiln", "--set", "BLOCK=64", "--target", "cpu:x86-64-v3"}),
               {"It differs in", "kernel, line ", "mul", "add"});
  // Names are no part of a key.
  std::string renamed = kAxpy;
  for (size_t i; (i = renamed.find("%sum")) != std::string::npos;) renamed.replace(i, 4, "%total");
  write("axpy.kiln", renamed);
  expect_parts(output_of({"explain", "axpy.kiln", "--set", "BLOCK=64", "--target", "cpu:x86-64-v3"}), {"compiled"});
}

TEST_F(Entries, AnotherFormOfTheCodeIsNamed) {
  // A named target: what a daemon measures of this machine's own may differ from one start to the next.
  compile({"--set", "BLOCK=64", "--emit", "asm", "--target", "cpu:x86-64-v3"});
  const std::string text = output_of({"explain", "axpy.kiln", "--set", "BLOCK=64", "--target", "cpu:x86-64-v3"});
  expect_parts(text, {"It differs in\n  emit: so here, asm there\n"});
  EXPECT_EQ(text.find("builder:"), std::string::npos) << text;
}

// As after an upgrade: the daemon's worker is another build, here a copy whose build-id was changed.
TEST_F(Entries, AnotherBuilderIsNamed) {
  compile({"--set", "BLOCK=64", "--target", "cpu:x86-64-v3"});
  fs::create_directory(path("bin"));
  const fs::path built = fs::path(KILND_EXECUTABLE).parent_path();
  fs::copy_file(built / "kilnd", path("bin/kilnd"));
  std::string worker(fs::file_size(built / "kiln-worker"), '\0');
  std::ifstream(built / "kiln-worker", std::ios::binary).read(worker.data(), static_cast<long>(worker.size()));
  const std::string note("\4\0\0\0\24\0\0\0\3\0\0\0GNU\0", 16);  // elf(5): a build-id of 20 bytes
  const size_t at = worker.find(note);
  ASSERT_NE(at, std::string::npos);
  worker[at + note.size()] = static_cast<char>(worker[at + note.size()] ^ 1);
  write("bin/kiln-worker", worker);
  fs::permissions(path("bin/kiln-worker"), fs::perms::owner_all);
  kilnd_ = path("bin/kilnd");
  const std::string text = output_of({"explain", "axpy.kiln", "--set", "BLOCK=64", "--target", "cpu:x86-64-v3"});
  expect_parts(text, {"It is not in", "It differs in\n  builder: ", " here, ", " there\n"});
  EXPECT_EQ(text.find("emit:"), text.rfind("emit:")) << text;
}

TEST_F(Entries, AreReproducedToTheByte) {
  const std::string key = compile({"--set", "BLOCK=64"});
  const Outcome again = kiln({"reproduce", key.substr(0, 10), "-o", "again.so"});
  EXPECT_EQ(again.code, 0) << again.errors;
  expect_parts(again.output, {"the same ", key.substr(2)});
  expect_parts(again.errors, {"instantiate", " ms"});
  EXPECT_EQ(read("again.so"), read("axpy.so"));
  expect_error({"reproduce", "axpy"}, "give a key");
  expect_error({"reproduce", "00000000"}, "neither an entry");
  expect_error({"reproduce", key, "--worker", "/no/such/worker"}, "/no/such/worker");
  // Compilers that give something else, refuse, or crash.
  auto compiler = [&](const std::string& does) {
    write("compiler", "#!/bin/sh\n" + does + "\n");
    fs::permissions(path("compiler"), fs::perms::owner_all);
    return path("compiler");
  };
  expect_error({"reproduce", key, "--worker", compiler("printf other > \"$3\"")},
               "another code than the stored: 5 bytes");
  expect_error({"reproduce", key, "--worker", compiler("exit 3")}, "refused the request");
  expect_error({"reproduce", key, "--worker", compiler("kill -SEGV $$")}, "ended by signal 11");
}

// A compiler that is named without a slash is one in PATH, and not where others could have put it there.
TEST_F(Entries, AreReproducedByNobodyElsesCompiler) {
  const std::string key = compile({"--set", "BLOCK=64"}), shared = path("shared");
  fs::create_directory(shared);
  write("shared/compiler", "#!/bin/sh\n: > mark\n");
  fs::permissions(path("shared/compiler"), fs::perms::owner_all);
  fs::permissions(shared, fs::perms::all);
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", (shared + ":" + before).c_str(), 1);
  expect_error({"reproduce", key, "--worker", "compiler"}, shared + " can be written by everybody");
  ::setenv("PATH", before.c_str(), 1);
  EXPECT_FALSE(exists("mark"));
}

// Where the daemon crashed, the request lies beside its report (docs/reference/service.md) and no entry has it.
TEST_F(Entries, ARequestThatWasKeptIsCompiledAgain) {
  compile({"--set", "BLOCK=64", "--target", "cpu:x86-64-v3"});
  auto kernel = dsl::parse(kAxpy, "axpy.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  auto request = dsl::encode_request({*kernel, "cpu:x86-64-v3", {{"BLOCK", 64}}, {}});
  ASSERT_TRUE(request.ok()) << request.error().message;
  std::string body;
  for (int shift = 0; shift < 32; shift += 8) body.push_back(static_cast<char>(request->canonical.size() >> shift));
  for (const auto& section : {request->canonical, request->debug}) {
    body.append(reinterpret_cast<const char*>(section.data()), section.size());
  }
  write("kilnd.crash.request.1-1-0", body);
  const Outcome again = kiln({"reproduce", "./kilnd.crash.request.1-1-0", "-o", "again.so"});
  EXPECT_EQ(again.code, 0) << again.errors;
  expect_parts(again.output, {"compiled without a crash"});
  EXPECT_EQ(read("again.so"), read("axpy.so"));
  expect_error({"reproduce", "./no-such-request"}, "./no-such-request");
  write("torn", body.substr(0, body.size() / 4));
  expect_error({"reproduce", "./torn"}, "torn: no compile request");
}

// The command line reports its own crashes, where the runtime directory is there: here while it waits for a daemon.
TEST_F(Entries, ACrashOfTheCommandIsReported) {
  auto directory = wire::open_private_dir(path("run"));
  ASSERT_TRUE(directory);
  auto silent = wire::listen_socket(path("run"), directory->get(), 1);
  ASSERT_TRUE(silent);
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  ASSERT_EQ(::setsockopt(silent->get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  std::atomic<pid_t> waiting = 0;
  std::jthread crashing([&] {
    const wire::UniqueFd client(::accept(silent->get(), nullptr, nullptr));
    waiting = wire::peer_process(client.get());
    if (waiting > 0) ::kill(waiting, SIGSEGV);
  });
  EXPECT_EQ(kiln({"ping"}).code, 128 + SIGSEGV);
  crashing.join();
  silent->reset();
  expect_parts(read("run/kiln.crash"),
               {"signal 11, process " + std::to_string(waiting), "kiln " KILN_VERSION ", build-id "});
}

TEST_F(Entries, TravelInABundle) {
  const std::string key = compile();
  expect_parts(output_of({"export", "axpy.bundle"}), {"1 entries in axpy.bundle"});
  expect_error({"export", "none.bundle", "--kernel", "other"}, "no entry to export");
  EXPECT_FALSE(exists("none.bundle"));
  expect_parts(output_of({"import", "--trust", "axpy.bundle", "--dir", path("elsewhere")}), {"1 entries"});
  EXPECT_EQ(output_of({"cache", "ls", "--dir", path("elsewhere")}).substr(0, 64), key);
  ASSERT_EQ(kiln({"cache", "clear"}).code, 0);
  EXPECT_EQ(kiln({"stop"}).code, 0);
  wait_for_its_end();
  expect_parts(output_of({"import", "--trust", "axpy.bundle"}), {"1 entries"});
  // The daemon that runs there has it counted.
  const std::string counted = "kiln_disk_bytes " + std::to_string(size_of_entries()) + "\n";
  std::string figures;
  for (int tries = 0; tries < 500 && figures.find(counted) == std::string::npos; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    figures = output_of({"stats", "--prometheus"});
  }
  expect_parts(figures, {counted});
  ASSERT_EQ(kiln({"compile", "axpy.kiln", "-o", "axpy.so"}).code, 0);
  expect_parts(output_of({"stats"}), {"hits_total.disk                          1"});
}

// In a container each import has the same number, and an earlier one may have been killed before its end.
TEST_F(Entries, AKilledImportStandsInNobodysWay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give processes their numbers anew";
  compile();
  output_of({"export", "axpy.bundle"});
  const std::string entry = first_entry();
  fs::remove(entry);
  for (int number = 1; number < 9; ++number) std::ofstream(entry + ".part-" + std::to_string(number)) << "a half";
  const Outcome done = kiln({"profile", "--", "env", "-u", "KILN_PROFILE", "unshare", "--pid", "--fork",
                             KILN_EXECUTABLE, "import", "--trust", "axpy.bundle"});
  if (done.errors.find("unshare: ") != std::string::npos) GTEST_SKIP() << done.errors;
  EXPECT_EQ(done.code, 0) << done.errors;
  EXPECT_TRUE(fs::exists(entry));
  const auto files = [&] {
    const fs::directory_iterator all(fs::path(entry).parent_path());
    return std::distance(begin(all), end(all));
  };
  EXPECT_EQ(files(), 9) << "and leaves none itself";
  EXPECT_EQ(output_of({"cache", "clear"}), "1 entries removed\n");
  EXPECT_EQ(files(), 0);
}

TEST_F(Entries, DamagedBundlesChangeNothing) {
  compile();
  output_of({"export", "good.bundle"});
  const std::string good = read("good.bundle");
  auto refused = [&](const std::string& bytes, const std::string& why) {
    write("bad.bundle", bytes);
    expect_error({"import", "--trust", "bad.bundle", "--dir", path("elsewhere")}, why);
    EXPECT_FALSE(fs::exists(path("elsewhere")));
  };
  for (size_t size : {size_t{0}, size_t{7}, size_t{40}, good.size() / 2, good.size() - 1})
    refused(good.substr(0, size), "no whole bundle");
  refused(good + "x", "its end is not where it says");
  refused(good.substr(0, 7) + "\1" + good.substr(8), "it is of version 1 of the format");
  refused("K" + good, "it does not begin like one");
  for (size_t at : {good.size() - 1, good.size() - 33}) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    refused(flipped, at == good.size() - 1 ? "its checksum differs" : "no whole bundle");
  }
  std::string flipped = good;
  flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 1);
  refused(flipped, "its checksum differs");
  std::string other = good;
  other[17] = static_cast<char>(other[17] ^ 1);  // in the builder's name
  refused(other, "made by another compiler");
}

TEST_F(Entries, TopShowsTheDaemon) {
  expect_error({"top", "--count", "1"}, "cannot connect");
  ASSERT_EQ(kiln({"compile", "axpy.kiln", "-o", "axpy.so"}).code, 0);
  const std::string twice = output_of({"top", "--count", "2", "--interval", "0.05"});
  expect_parts(twice, {"hits from memory", "of 1 requests were hits", "1 entries", "busy of", "idle", "waiters"});
  EXPECT_NE(twice.find("kilnd", 10), std::string::npos) << "one table only:\n" << twice;
  EXPECT_EQ(twice.find('\x1b'), std::string::npos) << "no terminal, no escape codes";
}

// What others wrote is executed by nobody who did not say so.
TEST_F(Entries, BundlesWantAKeyOrAWordOfTrust) {
  compile();
  for (const auto& [name, secret] : {std::pair("key", 'k'), {"other", 'o'}}) {
    write(name, std::string(32, secret) + "\n");
    fs::permissions(path(name), fs::perms::owner_read);
  }
  output_of({"export", "plain"});
  output_of({"export", "signed", "--key", "key"});
  auto refused = [&](std::vector<std::string> words, const std::string& why) {
    words.insert(words.begin(), "import");
    words.insert(words.end(), {"--dir", path("elsewhere")});
    expect_error(words, why);
    EXPECT_FALSE(fs::exists(path("elsewhere")));
  };
  refused({"plain"}, "plain: whoever wrote it has code executed here");
  refused({"signed"}, "signed: whoever wrote it has code executed here");
  refused({"plain", "--key", "key"}, "plain: it is not authenticated by a key");
  refused({"signed", "--trust"}, "signed: it is authenticated by a key: give --key");
  refused({"signed", "--key", "other"}, "signed: it is not authenticated by this key");
  refused({"signed", "--key", "key", "--trust"}, "excludes");
  refused({"signed", "--key", "nothing"}, "nothing: ");
  write("short", "too short");
  fs::permissions(path("short"), fs::perms::owner_read);
  refused({"signed", "--key", "short"}, "shorter than 32 bytes");
  // Whatever is changed in it by who does not have the key: the entry with its own checksum and those of the bundle
  // too.
  const std::string good = read("signed"), plain = read("plain");
  ASSERT_EQ(good.size(), plain.size());
  write("forged", good.substr(0, 12) + plain.substr(12));
  refused({"forged", "--key", "key"}, "forged: it is not authenticated by this key");
  for (size_t at = 8; at < good.size(); at += std::max<size_t>(1, good.size() / 16)) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    write("flipped", flipped);
    refused({"flipped", "--key", "key"}, "flipped: ");
  }
  expect_parts(output_of({"import", "signed", "--key", "key", "--dir", path("elsewhere")}), {"1 entries"});
}

// Nothing is waited for, and nothing outside of the cache is written or removed.
TEST_F(Entries, BundlesHaveNothingOfOthers) {
  compile();
  const std::string entry = first_entry();
  fs::create_hard_link(entry, path("second name"));
  expect_error({"export", "axpy.bundle"}, "no entry to export");
  fs::remove(path("second name"));
  output_of({"export", "axpy.bundle"});
  if (!test::root_may("give a file to another user")) return;
  ASSERT_EQ(::chown(entry.c_str(), 65534, 65534), 0);
  expect_error({"export", "axpy.bundle"}, "no entry to export");
}

TEST_F(Entries, BundlesAndCachesFollowNoLink) {
  const std::string key = compile();
  write("precious", "mine");
  fs::create_symlink(path("precious"), path("axpy.bundle"));
  output_of({"export", "axpy.bundle"});
  EXPECT_EQ(read("precious"), "mine");
  EXPECT_FALSE(fs::is_symlink(path("axpy.bundle")));

  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  expect_error({"import", "--trust", "fifo"}, "fifo: not a regular file");

  // Each part of an entry's path in its turn.
  const fs::path stored = fs::relative(first_entry(), path("cache"));
  fs::create_directories(path("outside"));
  fs::path part;
  for (const fs::path& name : stored) {
    part /= name;
    fs::remove_all(path("other"));
    fs::create_directories(fs::path(path("other")) / part.parent_path());
    fs::permissions(path("other"), fs::perms::owner_all);
    const bool last = part == stored;
    fs::create_symlink(path(last ? "precious" : "outside"), fs::path(path("other")) / part);
    const Outcome done = kiln({"import", "--trust", "axpy.bundle", "--dir", path("other")});
    EXPECT_EQ(done.code, last ? 0 : 1) << part;  // the name itself is replaced
    if (!last) expect_parts(done.errors, {"it is a link, which is not followed"});
    EXPECT_TRUE(fs::is_empty(path("outside"))) << part;
    EXPECT_EQ(read("precious"), "mine");
  }
  fs::rename(path("cache/v1"), path("outside/v1"));
  fs::create_directory_symlink(path("outside/v1"), path("cache/v1"));
  expect_error({"cache", "clear"}, "cache/v1: it is a link, which is not followed");
  EXPECT_TRUE(fs::exists(path("outside") / stored));
}

// Whatever leads out of the cache in an entry's place or its directories' is no entry to any command, and nobody waits.
TEST_F(Entries, NoCommandFollowsWhatLeadsOutOfTheCache) {
  const std::string key = compile();
  const fs::path stored = fs::relative(first_entry(), path("cache"));
  const auto expect_none = [&](const std::string& planted) {
    SCOPED_TRACE(planted);
    const bool is_said = planted == "v1, a link";
    const std::string why =
        is_said ? "cache/v1: it is a link, which is not followed" : "neither an entry nor the report";
    if (is_said) {
      expect_error({"cache", "ls"}, why);
      expect_error({"cache", "verify"}, why);
    } else {
      EXPECT_EQ(output_of({"cache", "ls"}), "");
      EXPECT_EQ(output_of({"cache", "verify"}), "0 entries, 0 damaged\n");
    }
    expect_error({"explain", key}, why);
    expect_error({"reproduce", key}, why);
    expect_error({"export", "axpy.bundle"}, is_said ? why : "no entry to export");
  };
  fs::path part;
  for (const fs::path& name : stored) {
    part /= name;
    const fs::path here = path("cache") / part;
    fs::rename(here, path("outside"));
    fs::create_symlink(path("outside"), here);
    expect_none(part.string() + ", a link");
    fs::remove(here);
    ASSERT_EQ(::mkfifo(here.c_str(), 0600), 0);
    expect_none(part.string() + ", a fifo");
    fs::remove(here);
    fs::rename(path("outside"), here);
  }
  EXPECT_NE(output_of({"cache", "ls"}).find(key), std::string::npos) << "as it was";
  // The report of a crash is read where there is no entry.
  fs::create_directories(path("cache/crashes"));
  fs::rename(first_entry(), path("cache/crashes/" + key));
  expect_parts(output_of({"explain", key}), {key});
  fs::rename(path("cache/crashes"), path("outside"));
  fs::create_directory_symlink(path("outside"), path("cache/crashes"));
  expect_none("crashes, a link");
  fs::remove(path("cache/crashes"));
  fs::create_directory(path("cache/crashes"));
  fs::create_symlink(path("outside/" + key), path("cache/crashes/" + key));
  expect_none("a report, a link");
}

// What lies in the place of the command's own report of a crash.
TEST_F(Entries, ACrashOfTheCommandIsReportedNowhereElse) {
  const auto crash_beside = [&](const std::string& what, const std::function<void(const std::string&)>& plant) {
    fs::remove_all(path("run"));
    auto directory = wire::open_private_dir(path("run"));
    ASSERT_TRUE(directory);
    write("precious", "mine");
    plant(path("run/kiln.crash"));
    auto silent = wire::listen_socket(path("run"), directory->get(), 1);
    ASSERT_TRUE(silent);
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    ASSERT_EQ(::setsockopt(silent->get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    std::jthread crashing([&] {
      const wire::UniqueFd client(::accept(silent->get(), nullptr, nullptr));
      if (const pid_t waiting = wire::peer_process(client.get()); waiting > 0) ::kill(waiting, SIGSEGV);
    });
    EXPECT_EQ(kiln({"ping"}).code, 128 + SIGSEGV) << what;
    crashing.join();
    EXPECT_EQ(read("precious"), "mine") << what;
  };
  crash_beside("a link", [&](const std::string& report) { fs::create_symlink(path("precious"), report); });
  crash_beside("a second name", [&](const std::string& report) { fs::create_hard_link(path("precious"), report); });
  crash_beside("a fifo", [](const std::string& report) { ASSERT_EQ(::mkfifo(report.c_str(), 0600), 0); });
}

}  // namespace
}  // namespace kiln::cli::testing
