// Directories, the socket, executables and build-ids.
#include "kiln/wire/paths.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kiln/wire/channel.h"

namespace kiln::wire {
namespace {

namespace fs = std::filesystem;

class PathsTest : public ::testing::Test {
 protected:
  PathsTest() {
    std::string pattern = (fs::temp_directory_path() / "kiln-paths-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  ~PathsTest() override { fs::remove_all(dir_); }
  std::string at(const std::string& name) const { return dir_ + "/" + name; }
  std::string dir_;
};

// The daemon's directory may be the first that is made below the cache's, which is private too.
TEST_F(PathsTest, ParentsThatAreMissingArePrivate) {
  const mode_t before = ::umask(022);
  EXPECT_TRUE(open_private_dir(at(".cache/kiln/run")));
  EXPECT_TRUE(open_private_dir(at(".cache/kiln")));
  ::umask(before);
  struct stat info{};
  ASSERT_EQ(::stat(at(".cache").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(PathsTest, PrivateDirectoryIsMadeAndChecked) {
  EXPECT_TRUE(open_private_dir(at("a/b/c")));
  struct stat info{};
  ASSERT_EQ(::stat(at("a/b/c").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::chmod(at("a/b/c").c_str(), 0750), 0);
  EXPECT_EQ(open_private_dir(at("a/b/c")).error().code, ErrorCode::kPermissionDenied);
}

TEST_F(PathsTest, LinksAndFilesAreNoDirectories) {
  ASSERT_TRUE(open_private_dir(at("real")));
  fs::create_symlink(at("real"), at("link"));
  EXPECT_FALSE(open_private_dir(at("link")));
  std::ofstream(at("file")) << "x";
  EXPECT_FALSE(open_private_dir(at("file")));
  EXPECT_FALSE(open_private_dir(""));
}

TEST_F(PathsTest, AnotherUsersDirectoryIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_TRUE(open_private_dir(at("theirs")));
  ASSERT_EQ(::chown(at("theirs").c_str(), 65534, 65534), 0);
  EXPECT_NE(open_private_dir(at("theirs")).error().message.find("another user"), std::string::npos);
}

TEST_F(PathsTest, ListenConnectAndPeers) {
  EXPECT_EQ(connect_socket(dir_).error().code, ErrorCode::kNotFound);
  auto dir = open_private_dir(dir_);
  ASSERT_TRUE(dir);
  {
    auto listening = listen_socket(dir_, dir->get(), 4);
    ASSERT_TRUE(listening) << listening.error().message;
    struct stat info{};
    ASSERT_EQ(::stat(at(kSocketName).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077, 0u);
    auto client = connect_socket(dir_);
    ASSERT_TRUE(client);
    EXPECT_TRUE(check_peer(client->get()));
  }
  EXPECT_EQ(connect_socket(dir_).error().code, ErrorCode::kNotFound) << "nobody listens any more";
}

// A socket unit of the system's manager: root has opened the socket, in a directory of the account that it is for.
TEST_F(PathsTest, RootMayListenForTheDaemonButIsNoOtherPeer) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kAccount = 65534;
  const std::string place = at("account");
  ASSERT_EQ(::chmod(dir_.c_str(), 0711), 0);
  ASSERT_EQ(::mkdir(place.c_str(), 0700), 0);
  UniqueFd dir(::open(place.c_str(), O_RDONLY | O_DIRECTORY));
  auto listening = listen_socket(place, dir.get(), 4);
  ASSERT_TRUE(listening) << listening.error().message;
  for (const std::string& path : {place, place + "/" + kSocketName}) {
    ASSERT_EQ(::chown(path.c_str(), kAccount, kAccount), 0);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(kAccount) != 0 || ::setuid(kAccount) != 0) ::_exit(9);
    auto client = connect_socket(place);
    if (!client) ::_exit(1);
    if (!check_daemon(client->get())) ::_exit(2);
    ::_exit(check_peer(client->get()) ? 3 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(PathsTest, LongNamesAreNeverCut) {
  std::string deep = at(std::string(120, 'x')) + "/" + std::string(120, 'y');
  auto dir = open_private_dir(deep);
  ASSERT_TRUE(dir);
  auto listening = listen_socket(deep, dir->get(), 4);
  ASSERT_TRUE(listening) << listening.error().message;
  EXPECT_TRUE(fs::exists(deep + "/" + kSocketName));
  EXPECT_TRUE(connect_socket(deep));
}

TEST_F(PathsTest, RuntimeDirectoryFollowsTheEnvironment) {
  ::setenv("KILN_RUNTIME_DIR", at("chosen").c_str(), 1);
  EXPECT_EQ(find_runtime_dir().value(), at("chosen"));
  ::unsetenv("KILN_RUNTIME_DIR");
  ASSERT_TRUE(open_private_dir(at("xdg")));
  ::setenv("XDG_RUNTIME_DIR", at("xdg").c_str(), 1);
  EXPECT_EQ(find_runtime_dir().value(), at("xdg/kiln"));
  // One that others can enter is passed over.
  ASSERT_EQ(::chmod(at("xdg").c_str(), 0755), 0);
  auto other = find_runtime_dir();
  EXPECT_TRUE(!other || !other->starts_with(at("xdg")));
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(PathsTest, CacheDirectoryFollowsTheEnvironment) {
  ::setenv("KILN_CACHE_DIR", "/some/where", 1);
  EXPECT_EQ(default_cache_dir(), "/some/where");
  ::unsetenv("KILN_CACHE_DIR");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(default_cache_dir(), "/x/kiln");
  ::unsetenv("XDG_CACHE_HOME");
}

TEST_F(PathsTest, HomesOfOtherMachinesAreNotUsed) {
  const std::string uid = std::to_string(::geteuid());
  auto remote = [](const std::string& path) { return path.find(".cache") != std::string::npos; };
  const std::string home = ::getenv("HOME") ? ::getenv("HOME") : "";
  ::setenv("HOME", at("home").c_str(), 1);
  EXPECT_EQ(find_cache_dir().path, at("home/.cache/kiln"));
  EXPECT_EQ(find_cache_dir().instead_of, "");
  EXPECT_EQ(find_cache_dir(remote).path, "/var/tmp/kiln-" + uid);
  EXPECT_EQ(find_cache_dir(remote).instead_of, at("home/.cache/kiln"));
  const auto runtime = find_runtime_dir(remote);
  EXPECT_TRUE(!runtime || !runtime->starts_with(at("home"))) << *runtime;
  ::setenv("HOME", home.c_str(), 1);
  EXPECT_FALSE(is_on_remote_file_system("/proc/self"));
  EXPECT_FALSE(is_on_remote_file_system("/nonexistent/a/b"));
}

TEST_F(PathsTest, KilndByEnvironmentMustExist) {
  ::setenv("KILN_KILND", at("nothing").c_str(), 1);
  EXPECT_EQ(find_kilnd().error().code, ErrorCode::kUnavailable);
  ::unsetenv("KILN_KILND");
}

TEST_F(PathsTest, KilndOfTheInstallationComesBeforePath) {
  const std::string path = ::getenv("PATH") ? ::getenv("PATH") : "";
  for (const char* place : {"installed", "in_path"}) {
    std::filesystem::create_directories(at(place));
    std::ofstream(at(place) + "/kilnd") << "#!/bin/sh\n";
    ASSERT_EQ(::chmod((at(place) + "/kilnd").c_str(), 0755), 0);
  }
  ::setenv("PATH", at("in_path").c_str(), 1);
  auto installed = find_kilnd(at("installed")), moved = find_kilnd(at("elsewhere"));
  ::setenv("PATH", "", 1);
  auto nowhere = find_kilnd(at("elsewhere"));
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_TRUE(installed && moved);
  EXPECT_EQ(*installed, std::filesystem::canonical(at("installed")) / "kilnd");
  EXPECT_EQ(*moved, std::filesystem::canonical(at("in_path")) / "kilnd");
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message.find(at("elsewhere")), std::string::npos) << nowhere.error().message;
}

TEST_F(PathsTest, BuildIds) {
  EXPECT_EQ(read_build_id(self_path()).size(), 40u);
  EXPECT_EQ(read_build_id(at("nothing")), "");
  std::ofstream(at("text")) << "no ELF file";
  EXPECT_EQ(read_build_id(at("text")), "");
}

}  // namespace
}  // namespace kiln::wire
