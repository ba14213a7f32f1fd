// Which file of a library is executed: one that nobody else could have changed, wherever it is found.
#include "kiln/wire/library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace kiln::wire {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "libkiln-other.so";
constexpr const char* kFolders = "KILN_TEST_LIBRARY_FOLDERS";

std::string file_of(void* library) {
  link_map* map = nullptr;
  return ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

// Two folders with a library each, of which others may write to one.
class LibraryTest : public ::testing::Test {
 protected:
  LibraryTest() {
    std::string pattern = (fs::temp_directory_path() / "kiln-library-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
    for (const char* folder : {"open", "closed"}) {
      fs::create_directory(at(folder));
      fs::copy_file(KILN_TEST_LIBRARY, at(folder) + "/" + kName);
      EXPECT_EQ(::chmod((at(folder) + "/" + kName).c_str(), 0755), 0);
      EXPECT_EQ(::chmod(at(folder).c_str(), folder == std::string("open") ? 0777 : 0755), 0);
    }
  }
  ~LibraryTest() override { fs::remove_all(dir_); }
  std::string at(const std::string& name) const { return dir_ + "/" + name; }

  std::string dir_;
};

TEST_F(LibraryTest, OfAPathIsOpenedWhereItIsClosedToOthers) {
  auto opened = open_trusted_library(at("closed/") + kName);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(file_of(*opened), at("closed/") + kName);
  auto refused = open_trusted_library(at("open/") + kName);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(at("open") + " can be written by everybody"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(open_trusted_library("/nowhere/libkiln.so"));
}

TEST_F(LibraryTest, OfANameThatThisProcessHasIsThatOne) {
  auto opened = open_trusted_library("libc.so.6");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(*opened, ::dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD));
  auto none = open_trusted_library("libkiln-nothing.so.77");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "libkiln-nothing.so.77: no such library");
}

// The second time in a process that began with both folders in its path, which is when the linker reads it.
TEST_F(LibraryTest, OfANameIsPassedOverWhereOthersCouldHaveChangedIt) {
  if (const char* folders = std::getenv(kFolders)) {
    auto opened = open_trusted_library(kName);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(file_of(*opened), std::string(folders) + "/closed/" + kName);
    return;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("LD_LIBRARY_PATH", (at("open") + ":" + at("closed")).c_str(), 1);
    ::setenv(kFolders, dir_.c_str(), 1);
    ::execl("/proc/self/exe", "wire_tests", "--gtest_filter=*OfANameIsPassedOverWhereOthersCouldHaveChangedIt",
            nullptr);
    ::_exit(127);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// As the dynamic linker finds it itself, of those that its cache has and this process has not.
TEST_F(LibraryTest, OfTheLinkersCacheIsTheLinkersOwn) {
  for (const char* each : {"libnvJitLink.so.13", "libnvJitLink.so.12", "libresolv.so.2", "libBrokenLocale.so.1"}) {
    if (void* there = ::dlopen(each, RTLD_NOW | RTLD_NOLOAD); !there) {
      there = ::dlopen(each, RTLD_NOW);
      if (!there) continue;
      const std::string theirs = file_of(there);
      ::dlclose(there);
      if (::dlopen(each, RTLD_NOW | RTLD_NOLOAD)) continue;
      auto ours = open_trusted_library(each);
      ASSERT_TRUE(ours) << ours.error().message;
      EXPECT_TRUE(fs::equivalent(file_of(*ours), theirs)) << file_of(*ours) << " and " << theirs;
      return;
    }
  }
  GTEST_SKIP() << "there is no library that could be closed again";
}

}  // namespace
}  // namespace kiln::wire
