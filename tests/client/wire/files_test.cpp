// What is read as text: how much, and what is said of more.
#include "kiln/wire/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace kiln::wire {
namespace {

TEST(Files, TextHasALimit) {
  const std::string path = testing::TempDir() + "files_test_" + std::to_string(::getpid()) + ".kg";
  ASSERT_TRUE(write_text(path, "graph"));
  EXPECT_EQ(read_text(path).value(), "graph");
  // With a hole for its bytes, which are not read.
  std::filesystem::resize_file(path, (uintmax_t{64} << 20) + 1);
  const auto text = read_text(path);
  EXPECT_FALSE(text);
  EXPECT_EQ(text ? "" : text.error().message, path + ": has 67108865 bytes, and text files are read up to 64 MiB");
  std::filesystem::remove(path);
  EXPECT_EQ(read_text(path).error().message, path + ": cannot be opened: No such file or directory");
}

}  // namespace
}  // namespace kiln::wire
