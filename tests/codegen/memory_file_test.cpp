// Files of memory that are made once, and what a process that may make no others does with them.
#include "memory_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <functional>
#include <set>

namespace kiln::codegen {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_in(const MemoryFile& file) {
  const auto bytes = file.read();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Those that are set aside are of a process: each test has one.
int in_a_child(const std::function<bool()>& is_right) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(is_right() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(MemoryFile, HoldsWhatIsWritten) {
  const MemoryFile file, other;
  ASSERT_TRUE(file.valid() && other.valid());
  EXPECT_TRUE(file.write(bytes_of("some code")));
  EXPECT_EQ(text_in(file), "some code");
  EXPECT_EQ(text_in(other), "");
}

TEST(MemoryFile, ThoseSetAsideAreUsedAgainAndEmpty) {
  EXPECT_EQ(in_a_child([] {
              MemoryFile::set_aside();
              std::set<int> used;
              for (int job = 0; job < 5; ++job) {
                const MemoryFile a, b, c;
                for (const MemoryFile* file : {&a, &b, &c}) {
                  used.insert(file->fd());
                  // As a linker writes: from where the descriptor stands.
                  if (!text_in(*file).empty() || ::write(file->fd(), "code", 4) != 4 || text_in(*file) != "code")
                    return false;
                }
              }
              return used.size() == MemoryFile::kMostAtOnce;
            }),
            0);
}

// No descriptor is left for another, as a filter would leave no call.
TEST(MemoryFile, WhoCanMakeNoneHasThoseSetAside) {
  EXPECT_EQ(in_a_child([] {
              MemoryFile::set_aside();
              const rlimit none{0, 0};
              ::setrlimit(RLIMIT_NOFILE, &none);
              const MemoryFile a, b, c, d;
              return a.valid() && b.valid() && c.valid() && !d.valid();
            }),
            0);
}

}  // namespace
}  // namespace kiln::codegen
