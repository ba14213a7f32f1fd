// Statement 37: programs and options that others could have put there are neither executed nor obeyed.
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bar.h"
#include "golden_kernel.h"
#include "left_out.h"

namespace kiln::service_test {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

class BarPrograms : public Bar {
 protected:
  // A program that leaves a mark when it is executed.
  std::string marking(const std::string& path) const {
    std::ofstream(path) << "#!/bin/sh\n: > " << mark() << "\n";
    fs::permissions(path, static_cast<fs::perms>(0755));
    return path;
  }
  std::string mark() const { return temp_ / "mark"; }
  // As another user would have put it there, who only root can be. What is said of it.
  std::string of_somebody_else(const std::string& path) const {
    if (test::root_may("give a file to another user")) {
      EXPECT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
      return path + " belongs to user 65534";
    }
    ::chmod(path.c_str(), 0757);
    return path + " can be written by everybody";
  }
  // A directory of this name, open to all.
  std::string open_directory(const std::string& name, mode_t mode = 0777) const {
    fs::create_directory(temp_ / name);
    ::chmod((temp_ / name).c_str(), mode);
    return temp_ / name;
  }
  // What `program` says when it is run by `user`, with these variables alone.
  std::string run(const std::string& program, const std::vector<std::string>& words,
                  std::vector<std::string> variables = {}, uid_t user = ::geteuid()) const {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[1], 1);
      ::dup2(ends[1], 2);
      ::close(ends[0]);
      ::close(ends[1]);
      if (user != ::geteuid() && (::setgid(user) != 0 || ::setuid(user) != 0)) ::_exit(126);
      std::vector<const char*> argv = {program.c_str()}, envp;
      for (const std::string& word : words) argv.push_back(word.c_str());
      for (const std::string& variable : variables) envp.push_back(variable.c_str());
      argv.push_back(nullptr);
      envp.push_back(nullptr);
      ::execve(program.c_str(), const_cast<char* const*>(argv.data()), const_cast<char* const*>(envp.data()));
      ::_exit(127);
    }
    ::close(ends[1]);
    std::string out;
    char chunk[512];
    for (ssize_t count; (count = ::read(ends[0], chunk, sizeof chunk)) > 0;) out.append(chunk, count);
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return out;
  }
};

// A user's own program in /tmp, where another has put a kilnd.
TEST_F(BarPrograms, Statement37NoProgramOfOthersIsStarted) {
  const std::string shared = open_directory("shared", 01777), program = shared + "/a.out";
  fs::copy_file(KILN_TEST_KILN, program);
  const std::string kilnd = marking(shared + "/kilnd"), fault = of_somebody_else(kilnd);
  const std::string beside = run(program, {"serve"});
  EXPECT_NE(beside.find(fault), std::string::npos) << beside;
  const std::string named = run(KILN_TEST_KILN, {"serve"}, {"KILN_KILND=" + kilnd});
  EXPECT_NE(named.find(fault), std::string::npos) << named;
  const std::string in_path = run(program, {"serve"}, {"PATH=" + shared});
  EXPECT_NE(in_path.find(fault), std::string::npos) << in_path;
  // The same for the program that has been named by the one who calls.
  ConnectOptions here = options();
  here.autostart = true;
  here.kilnd_path = kilnd;
  for (const bool pipe : {false, true}) {
    here.allow_pipe = pipe;
    if (pipe) here.runtime_dir = KILN_TEST_KILN;  // no directory
    auto refused = Connection::open(here);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find(fault), std::string::npos) << refused.error().message;
  }
  EXPECT_FALSE(fs::exists(mark()));
}

// Beside the directory of the user's own program, where it would be looked for had that been installed.
TEST_F(BarPrograms, Statement37NoProgramOfOthersInBinIsStarted) {
  const std::string shared = open_directory("shared", 01777), program = shared + "/mine/a.out";
  fs::create_directory(shared + "/mine");
  fs::copy_file(KILN_TEST_KILN, program);
  fs::create_directory(shared + "/bin");
  const std::string kilnd = marking(shared + "/bin/kilnd");
  const std::vector<std::string> words = {"serve"};
  EXPECT_EQ(run(program, words), "");
  EXPECT_TRUE(fs::remove(mark())) << "it is not looked for there";
  for (const std::string& theirs : {kilnd, shared + "/bin"}) {
    const std::string fault = of_somebody_else(theirs), said = run(program, words);
    EXPECT_NE(said.find("/../bin/kilnd is not used: " + fault), std::string::npos) << said;
    EXPECT_FALSE(fs::exists(mark()));
  }
}

TEST_F(BarPrograms, Statement37WorkersAndTunersAreHeldToTheSame) {
  const std::string shared = open_directory("shared"), fault = shared + " can be written by everybody";
  const std::string program = marking(shared + "/program");
  for (const char* option : {"--worker", "--tuner"}) {
    std::vector<std::string> arguments = {"--cache-dir", cache(), option, program};
    if (option != std::string("--worker")) arguments.insert(arguments.end(), {"--worker", KILN_TEST_WORKER});
    DaemonProcess daemon;
    const std::string said = daemon.start(runtime(), arguments);
    EXPECT_NE(said.find(fault), std::string::npos) << said;
  }
  EXPECT_FALSE(fs::exists(mark()));
}

#ifdef KILN_TEST_REAL_WORKER

// NVIDIA's, which the compiler loads or runs.
TEST_F(BarPrograms, Statement37AssemblersAreHeldToTheSame) {
  const std::string shared = open_directory("shared"), fault = shared + " can be written by everybody";
  const std::string library = shared + "/libnvJitLink.so.13", program = marking(shared + "/ptxas");
  fs::copy_file(KILN_TEST_MARKING_LIBRARY, library);
  auto request = golden_request("vector_add", "cuda:sm_90a");
  ASSERT_TRUE(request) << request.error().message;
  const auto compile_with = [&](const char* variable, const std::string& value) {
    const char* before = std::getenv(variable);
    const std::string kept = before ? before : "";
    ::setenv(variable, value.c_str(), 1);
    daemon_.kill_now();
    start({"--worker", KILN_TEST_REAL_WORKER, "--cache-dir", ""});
    before ? ::setenv(variable, kept.c_str(), 1) : ::unsetenv(variable);
    auto compiled = connect()->compile(*request);
    return compiled ? std::string() : compiled.error().message;
  };
  const std::string by_library = compile_with("KILN_NVJITLINK", library);
  if (by_library.find("built without NVIDIA") != std::string::npos) GTEST_SKIP() << by_library;
  EXPECT_NE(by_library.find(fault), std::string::npos) << by_library;
  const std::string by_program = compile_with("KILN_PTXAS", program);
  EXPECT_NE(by_program.find(fault), std::string::npos) << by_program;
  // What is only found is passed over.
  EXPECT_EQ(compile_with("LD_LIBRARY_PATH", shared), "");
  EXPECT_EQ(compile_with("PATH", shared + ":" + std::getenv("PATH")), "");
  EXPECT_FALSE(fs::exists(library + ".mark"));
  EXPECT_FALSE(fs::exists(mark()));
}

#endif

TEST_F(BarPrograms, Statement37OptionsOfOthersAreNotObeyed) {
  const std::string shared = open_directory("shared"), file = shared + "/kilnd.toml";
  std::ofstream(file) << "workers = 1\n";
  auto arguments = daemon_arguments();
  arguments.insert(arguments.end(), {"--config", file});
  const std::string fault = shared + " can be written by everybody";
  {
    DaemonProcess daemon;
    const std::string said = daemon.start(runtime(), arguments);
    EXPECT_NE(said.find(fault), std::string::npos) << said;
  }
  // When it is read again, too.
  ::chmod(shared.c_str(), 0755);
  start({"--config", file});
  ::chmod(shared.c_str(), 0777);
  std::ofstream(file) << "queue-limit = 7\n";
  daemon_.signal(SIGHUP);
  auto refused = [&] {
    for (const auto& line : log_lines("kilnd.log")) {
      if (line["event"] == "reload_failed") return line["reason"].get<std::string>();
    }
    return std::string();
  };
  ASSERT_TRUE(eventually([&] { return !refused().empty(); }));
  EXPECT_NE(refused().find(fault), std::string::npos) << refused();
  EXPECT_NE(stats()["config"]["queue_jobs"], 7);
}

// What has more rights than who calls it takes no word of theirs.
TEST_F(BarPrograms, Statement37ASetuidProgramObeysNoVariable) {
  struct statvfs place{};
  if (::geteuid() != 0 || ::statvfs(temp_.path().c_str(), &place) != 0 || (place.f_flag & ST_NOSUID)) {
    GTEST_SKIP() << "only root can make such a program, and not on every file system";
  }
  ::chmod(temp_.path().c_str(), 0755);
  const std::string program = temp_ / "setuid", kilnd = marking(temp_ / "named");
  fs::copy_file(KILN_TEST_KILN, program);
  const std::vector<std::string> words = {"serve"}, variables = {"KILN_KILND=" + kilnd, "PATH=" + temp_.path()};
  EXPECT_EQ(run(program, words, variables), "");
  EXPECT_TRUE(fs::remove(mark())) << "without such rights it does";
  ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
  const std::string said = run(program, words, variables, kNobody);
  EXPECT_FALSE(fs::exists(mark()));
  EXPECT_NE(said.find("kilnd not found"), std::string::npos) << said;
}

}  // namespace
}  // namespace kiln::service_test
