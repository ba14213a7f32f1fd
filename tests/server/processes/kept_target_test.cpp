// What is measured of a machine is measured once, whoever asks, and whatever lies in its place.
#include "kept_target.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "../service_fixture.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/process.h"
#include "left_out.h"

namespace kiln::service_test {
namespace {

namespace fs = std::filesystem;
using worker::native_target_kept_in;
using worker::NativeTarget;

constexpr uid_t kNobody = 65534;

class KeptTarget : public testing::Test {
 protected:
  KeptTarget() { ::chmod(temp_.path().c_str(), 0700); }

  // Measured as another each time.
  NativeTarget machine() {
    return {.processor = "cpu:fake,+wide",
            .measure = [this] { return ";unit=" + std::to_string(++measured_); },
            .may_be = [](const std::string& rest) { return rest.starts_with(";unit=") && rest.size() < 20; }};
  }
  std::string ask() { return native_target_kept_in(cache(), machine()); }
  std::string cache() const { return temp_ / "cache"; }
  std::string targets() const { return cache() + "/targets"; }
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(targets(), none)) out.push_back(entry.path().string());
    return out;
  }
  // The one file, of the first answer.
  std::string file() {
    EXPECT_EQ(ask(), "cpu:fake,+wide;unit=1");
    EXPECT_EQ(files().size(), 1u);
    return files().at(0);
  }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TempDir temp_;
  int measured_ = 0;
};

TEST_F(KeptTarget, IsMeasuredOnce) {
  const std::string path = file();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(), "cpu:fake,+wide;unit=1");
  EXPECT_EQ(measured_, 1);
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0400u);
  ASSERT_EQ(::stat(targets().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
}

TEST_F(KeptTarget, AnEmptyRestIsAnAnswerToo) {
  NativeTarget plain = machine();
  plain.measure = [this] { return std::string(measured_++ == 0 ? "" : ";unit=9"); };
  plain.may_be = [](const std::string& rest) { return rest.empty(); };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(native_target_kept_in(cache(), plain), "cpu:fake,+wide");
  EXPECT_EQ(measured_, 1);
}

TEST_F(KeptTarget, AnotherProcessorIsMeasuredAnew) {
  file();
  NativeTarget other = machine();
  other.processor = "cpu:fake";
  EXPECT_EQ(native_target_kept_in(cache(), other), "cpu:fake;unit=2");
  EXPECT_EQ(native_target_kept_in(cache(), other), "cpu:fake;unit=2");
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=1");
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(KeptTarget, NothingIsKeptWhereThereIsNothingToMeasureOrNoPlace) {
  EXPECT_EQ(native_target_kept_in(cache(), {.processor = "cpu:small"}), "cpu:small");
  EXPECT_FALSE(fs::exists(cache()));
  EXPECT_EQ(native_target_kept_in("", machine()), "cpu:fake,+wide;unit=1");
  EXPECT_EQ(native_target_kept_in(temp_ / "cache", machine()), "cpu:fake,+wide;unit=2");
  ::chmod(cache().c_str(), 0755);  // no cache of ours: others may enter
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=3");
  std::ofstream(temp_ / "file") << "no directory";
  EXPECT_EQ(native_target_kept_in(temp_ / "file", machine()), "cpu:fake,+wide;unit=4");
}

// What is no answer is replaced by one.
TEST_F(KeptTarget, ABadFileIsMeasuredAgain) {
  const std::string path = file(), good = text_of(path);
  const std::string rest = ";unit=1\n", head = good.substr(0, good.size() - rest.size());
  ASSERT_EQ(head + rest, good);
  const std::string others = "kiln-target 1\ncpu:other\n";
  for (const std::string& bad : {std::string(), std::string("\n"), std::string(100'000, 'x'), good.substr(0, 20), head,
                                 good.substr(0, good.size() - 1), good + good, others + rest, head + "\n",
                                 head + ";evil=1\n", head + ";unit=1;unit=2;and=more\n", "x" + good.substr(1)}) {
    fs::remove(path);
    std::ofstream(path) << bad;
    const int before = measured_;
    const std::string again = ask();
    EXPECT_EQ(measured_, before + 1) << bad.substr(0, 200);
    EXPECT_EQ(again, "cpu:fake,+wide;unit=" + std::to_string(measured_));
    EXPECT_EQ(ask(), again) << "what was measured is kept in its place";
  }
  EXPECT_EQ(files().size(), 1u) << "and nothing else is left";
}

TEST_F(KeptTarget, AStrangersFileIsNeverReadNorWritten) {
  const std::string path = file(), elsewhere = temp_ / "elsewhere";
  std::ofstream(elsewhere) << text_of(path);
  fs::remove(path);
  fs::create_symlink(elsewhere, path);
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=2");
  EXPECT_TRUE(text_of(elsewhere).ends_with(";unit=1\n"));
  EXPECT_FALSE(fs::is_symlink(path)) << "the link made place";
  // A fifo stops nobody.
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=3");
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=3");
  // A directory stays, and keeps the answer from being kept.
  fs::remove(path);
  fs::create_directories(path + "/inside");
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=4");
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=5");
  EXPECT_EQ(files().size(), 1u);
  fs::remove_all(path);
  if (!test::root_may("give a file to another user")) return;
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=6");
  ASSERT_EQ(::lchown(path.c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=7") << "another user's";
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=7");
}

TEST_F(KeptTarget, ADirectoryThatLeadsElsewhereIsNotUsed) {
  ASSERT_TRUE(wire::open_private_dir(cache()));
  fs::create_directories(temp_ / "elsewhere");
  fs::create_directory_symlink(temp_ / "elsewhere", targets());
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=1");
  EXPECT_TRUE(fs::is_empty(temp_ / "elsewhere"));
  fs::remove(targets());
  std::ofstream(targets()) << "a file";
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=2");
  fs::remove(targets());
  if (!test::root_may("give a file to another user")) return;
  fs::create_directory(targets());
  ASSERT_EQ(::chown(targets().c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=3");
  EXPECT_TRUE(fs::is_empty(targets()));
}

// However many start at once, and each measures another.
TEST_F(KeptTarget, ManyAtOnceAgree) {
  for (int round = 0; round < 5; ++round) {
    fs::remove_all(targets());
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
      children.push_back(::fork());
      if (children.back() != 0) continue;
      NativeTarget mine = machine();
      mine.measure = [i] {
        ::usleep(1000);
        return ";unit=" + std::to_string(i);
      };
      const std::string answer = native_target_kept_in(cache(), mine) + "\n";
      ::_exit(::write(ends[1], answer.data(), answer.size()) == static_cast<ssize_t>(answer.size()) ? 0 : 1);
    }
    ::close(ends[1]);
    for (const pid_t child : children)
      EXPECT_EQ(wire::exit_text(wire::wait_for_exit(child, kPatience).value()), "exit code 0");
    std::string said(4096, 0);
    said.resize(static_cast<size_t>(::read(ends[0], said.data(), said.size())));
    ::close(ends[0]);
    std::istringstream lines(said);
    std::multiset<std::string> answers;
    for (std::string line; std::getline(lines, line);) answers.insert(line);
    EXPECT_EQ(answers.size(), children.size());
    EXPECT_EQ(answers.count(*answers.begin()), children.size()) << said;
    EXPECT_EQ(ask(), *answers.begin());
    EXPECT_EQ(files().size(), 1u);
  }
}

// One that was stopped while it held the lock keeps nobody from starting.
TEST_F(KeptTarget, AForeignLockIsNotWaitedForLong) {
  ASSERT_TRUE(wire::open_private_dir(cache()));
  fs::create_directory(targets());
  ::chmod(targets().c_str(), 0700);
  const wire::UniqueFd held(::open(targets().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=1");
  EXPECT_EQ(ask(), "cpu:fake,+wide;unit=1");
}

class MeasuredByDaemons : public ServiceTest {
 protected:
  MeasuredByDaemons() { ::setenv("KILN_PTXAS", "measures", 1); }
  ~MeasuredByDaemons() override { ::unsetenv("KILN_PTXAS"); }
  std::string target() { return connect()->server().native_target; }
};

// Through the daemon, whose zygotes are measured as another each.
TEST_F(MeasuredByDaemons, DaemonsOfOneCacheNameOneTarget) {
  start();
  const std::string first = target();
  EXPECT_TRUE(first.starts_with("cpu:fake;by=")) << first;
  DaemonProcess beside, elsewhere;
  std::vector<std::string> words = daemon_arguments();
  ASSERT_EQ(beside.start(temp_ / "beside", words), "ready");
  *(std::find(words.begin(), words.end(), "--cache-dir") + 1) = temp_ / "another";
  ASSERT_EQ(elsewhere.start(temp_ / "elsewhere", words), "ready");
  auto target_at = [&](const std::string& runtime) {
    ConnectOptions there = options();
    there.runtime_dir = runtime;
    return Connection::open(there).value()->server().native_target;
  };
  EXPECT_EQ(target_at(temp_ / "beside"), first);
  EXPECT_NE(target_at(temp_ / "elsewhere"), first);
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  start();
  EXPECT_EQ(target(), first);
}

TEST_F(MeasuredByDaemons, WithoutACacheEachMeasures) {
  start({"--cache-dir", ""});
  const std::string first = target();
  EXPECT_TRUE(first.starts_with("cpu:fake;by=")) << first;
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  start({"--cache-dir", ""});
  EXPECT_NE(target(), first);
}

}  // namespace
}  // namespace kiln::service_test
