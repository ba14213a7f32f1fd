// What may be executed and obeyed, by who could change it.
#include "kiln/wire/trusted.h"

#include <gtest/gtest.h>
#include <linux/posix_acl_xattr.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kiln/wire/paths.h"

namespace kiln::wire {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

class TrustedTest : public ::testing::Test {
 protected:
  TrustedTest() {
    std::string pattern = (fs::temp_directory_path() / "kiln-trusted-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
    fs::create_directories(at("a/b"));
    std::ofstream(at("a/b/program")) << "#!/bin/sh\n";
    mode("", 0755);
    mode("a", 0755);
    mode("a/b", 0755);
    mode("a/b/program", 0755);
  }
  ~TrustedTest() override { fs::remove_all(dir_); }
  std::string at(const std::string& name) const { return dir_ + "/" + name; }
  void mode(const std::string& name, mode_t bits) const { ASSERT_EQ(::chmod(at(name).c_str(), bits), 0) << name; }
  void owner(const std::string& name, uid_t user, gid_t group) const {
    ASSERT_EQ(::lchown(at(name).c_str(), user, group), 0) << name;
  }
  // The error names the place.
  void expect_refused(const std::string& path, const std::string& place, const std::string& why) const {
    auto checked = check_trusted(path);
    ASSERT_FALSE(checked) << path;
    EXPECT_EQ(checked.error().code, ErrorCode::kPermissionDenied);
    EXPECT_NE(checked.error().message.find(": " + place + " " + why), std::string::npos) << checked.error().message;
  }
  std::string dir_;
};

TEST_F(TrustedTest, WhatIsOursAndClosed) {
  EXPECT_TRUE(check_trusted(at("a/b/program")));
  EXPECT_TRUE(check_trusted(at("a/../a/./b//program")));
  EXPECT_TRUE(check_trusted("/bin/sh"));
}

// Of what is not there nobody can say whose it will be.
TEST_F(TrustedTest, NothingIsNotTrusted) {
  for (const std::string& path : {at("a/nothing/at/all"), at("a/b/program/below"), std::string("nothing")}) {
    auto checked = check_trusted(path);
    ASSERT_FALSE(checked) << path;
    EXPECT_EQ(checked.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(checked.error().message.find(path + " is not used: "), std::string::npos) << checked.error().message;
  }
}

TEST_F(TrustedTest, EveryPlaceOfTheWayIsClosed) {
  for (const std::string place : {"a", "a/b", "a/b/program"}) {
    mode(place, 0777);
    expect_refused(at("a/b/program"), at(place), "can be written by everybody");
    mode(place, 0755);
  }
  // Sticky, it may have what is ours in it, and nothing to be put there by others is taken.
  mode("a", 01777);
  EXPECT_TRUE(check_trusted(at("a/b/program")));
  mode("a/b/program", 0757);
  expect_refused(at("a/b/program"), at("a/b/program"), "can be written by everybody");
}

TEST_F(TrustedTest, LinksLeadThroughClosedDirectoriesToo) {
  fs::create_directory(at("open"));
  fs::create_symlink("../a/b/program", at("open/program"));
  fs::create_directory_symlink(at("open"), at("way"));
  EXPECT_TRUE(check_trusted(at("way/program")));
  mode("open", 0777);
  expect_refused(at("way/program"), at("open"), "can be written by everybody");
  mode("open", 0755);
  mode("a", 0777);
  expect_refused(at("way/program"), at("a"), "can be written by everybody");
  fs::create_symlink(at("loop"), at("loop"));
  EXPECT_FALSE(check_trusted(at("loop")));
}

// A user's private group, or root's, is nobody else.
TEST_F(TrustedTest, OnlyGroupsWithoutOtherMembersMayWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another group";
  mode("a", 0775);
  EXPECT_TRUE(check_trusted(at("a/b/program"))) << "group root";
  owner("a", 0, kNobody);
  expect_refused(at("a/b/program"), at("a"), "can be written by group 65534");
}

constexpr uid_t kAlice = 61001;
constexpr int kNoNamespaces = 77;

// Exit codes: 1 and 0, whether a user trusts `path` where these are the machine's users and groups.
int trusts(uid_t user, const std::string& path, const std::string& users, const std::string& groups) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount(users.c_str(), "/etc/passwd", nullptr, MS_BIND, nullptr) != 0 ||
      ::mount(groups.c_str(), "/etc/group", nullptr, MS_BIND, nullptr) != 0) {
    return kNoNamespaces;
  }
  if (::setgid(user) != 0 || ::setuid(user) != 0) return 76;
  return check_trusted(path) ? 1 : 0;
}

// Who has it as the primary group is none of its members by /etc/group, and may write all the same.
TEST_F(TrustedTest, APrivateGroupIsNobodyElsesPrimaryOne) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  std::ofstream(at("group")) << "root:x:0:\nalice:x:61001:\n";
  const auto trusted = [&](uid_t user, const std::string& users) {
    std::ofstream(at("passwd")) << users;
    const pid_t child = ::fork();
    if (child == 0) ::_exit(trusts(user, at("a/b/program"), at("passwd"), at("group")));
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  const std::string root = "root:x:0:0::/:/bin/sh\n", alice = "alice:x:61001:61001::/:/bin/sh\n";
  const auto someone = [](const std::string& user, uid_t group) {
    return "bob:x:" + user + ":" + std::to_string(group) + "::/:/bin/sh\n";
  };
  mode("a", 0775);
  for (const uid_t user : {uid_t{0}, kAlice}) {
    for (const std::string place : {"a", "a/b", "a/b/program"}) owner(place, user, user);
    const int alone = trusted(user, root + alice + someone("61002", 61002));
    if (alone == kNoNamespaces) GTEST_SKIP() << "no namespaces here";
    EXPECT_EQ(alone, 1) << user;
    EXPECT_EQ(trusted(user, root + alice + someone("61002", user)), 0) << user;
    EXPECT_EQ(trusted(user, root + alice + someone(std::to_string(user), user)), 1) << user << ", by another name";
  }
  EXPECT_EQ(trusted(kAlice, root + "alice:x:61001:100::/:/bin/sh\n"), 0) << "not the user's own primary one";
}

TEST_F(TrustedTest, AnAccessListIsNoPrivateGroup) {
  // What setfacl --modify user:nobody:rwx makes.
  const struct {
    posix_acl_xattr_header header;
    posix_acl_xattr_entry entries[5];
  } list = {
      {2},
      {{0x01, 7, 0xffffffff}, {0x02, 7, kNobody}, {0x04, 5, 0xffffffff}, {0x10, 7, 0xffffffff}, {0x20, 5, 0xffffffff}}};
  if (::setxattr(at("a").c_str(), "system.posix_acl_access", &list, sizeof list, 0) != 0) {
    GTEST_SKIP() << "no access lists on this file system";
  }
  expect_refused(at("a/b/program"), at("a"), "can be written by group ");
}

TEST_F(TrustedTest, WhatBelongsToAnotherIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give something to another user";
  for (const std::string place : {"a", "a/b", "a/b/program"}) {
    owner(place, kNobody, 0);
    expect_refused(at("a/b/program"), at(place), "belongs to user 65534");
    owner(place, 0, 0);
  }
  mode("a", 01777);
  owner("a/b", kNobody, 0);
  expect_refused(at("a/b/program"), at("a/b"), "belongs to user 65534");
  owner("a/b", 0, 0);
  fs::create_symlink("b/program", at("a/link"));
  owner("a/link", kNobody, 0);
  expect_refused(at("a/link"), at("a/link"), "belongs to user 65534");
}

// Where root has no number, its files seem to be nobody's; as those of others do, which may lie in /tmp.
TEST_F(TrustedTest, WithoutRootTheRootDirectorysOwnerIsRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  mode("a", 01777);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(76);
    ::prctl(PR_SET_DUMPABLE, 1);  // for who writes to its files in /proc
    if (::unshare(CLONE_NEWUSER) != 0) ::_exit(77);
    std::ofstream("/proc/self/uid_map") << "1000 65534 1\n";
    if (::geteuid() != 1000) ::_exit(77);
    ::_exit((check_trusted("/bin/sh") ? 1 : 0) | (check_trusted(at("a/b/program")) ? 2 : 0));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

// What is found is what is started: a path from the root, whatever lies in the current directory.
TEST_F(TrustedTest, ANameIsLookedForInPathAndNowhereElse) {
  const std::string before = fs::current_path(), path = ::getenv("PATH") ? ::getenv("PATH") : "";
  fs::create_directory(at("others"));
  fs::copy_file(at("a/b/program"), at("others/program"));
  fs::copy_file(at("a/b/program"), at("a/here"));
  mode("others", 0777);
  fs::current_path(at("a"));
  ::setenv("PATH", (at("others") + "::" + at("a/b")).c_str(), 1);
  auto found = find_program("program"), here = find_program("here"), below = find_program("b/program");
  ::setenv("KILN_KILND", "program", 1);
  auto kilnd = find_kilnd();
  ::setenv("KILN_KILND", "./here", 1);
  auto with_slash = find_kilnd();
  ::setenv("PATH", at("others").c_str(), 1);
  ::setenv("KILN_KILND", "program", 1);
  auto refused = find_program("program"), named = find_kilnd();
  ::unsetenv("KILN_KILND");
  ::setenv("PATH", path.c_str(), 1);
  fs::current_path(before);
  for (const auto& each : {found, below, kilnd}) {
    ASSERT_TRUE(each) << each.error().message;
    EXPECT_EQ(*each, at("a/b/program"));
  }
  ASSERT_TRUE(with_slash) << with_slash.error().message;
  EXPECT_TRUE(fs::path(*with_slash).is_absolute()) << *with_slash;
  ASSERT_FALSE(here);
  EXPECT_EQ(here.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(here.error().message, "here is not in PATH");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  for (const auto& each : {refused, named}) {
    ASSERT_FALSE(each);
    EXPECT_NE(each.error().message.find(at("others") + " can be written by everybody"), std::string::npos)
        << each.error().message;
  }
}

TEST_F(TrustedTest, ProgramsOfOthersArePassedOver) {
  fs::create_directory(at("others"));
  fs::create_directory(at("ours"));
  for (const std::string place : {"others", "ours"}) {
    fs::copy_file(at("a/b/program"), at(place) + "/kilnd");
    mode(place, 0755);
  }
  mode("others", 0777);
  const std::string path = ::getenv("PATH") ? ::getenv("PATH") : "";
  ::setenv("PATH", at("ours").c_str(), 1);
  auto found = find_kilnd(at("others"));
  ::setenv("PATH", "", 1);
  auto none = find_kilnd(at("others"));
  ::setenv("KILN_KILND", at("others/kilnd").c_str(), 1);
  auto named = find_kilnd();
  ::unsetenv("KILN_KILND");
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, fs::canonical(at("ours")) / "kilnd");
  for (const auto& refused : {none, named}) {
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find(at("others") + " can be written by everybody"), std::string::npos)
        << refused.error().message;
  }
  fs::rename(at("others/kilnd"), at("others/kiln-worker"));
  auto worker = find_worker(at("others/kilnd"));
  ASSERT_FALSE(worker);
  EXPECT_NE(worker.error().message.find(at("others") + " can be written by everybody"), std::string::npos);
}

}  // namespace
}  // namespace kiln::wire
