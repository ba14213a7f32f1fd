// What is read as text: how much, and what is said of more.
#include "kiln/wire/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "kiln/wire/fd.h"
#include "scratch.h"

namespace kiln::wire {
namespace {

std::filesystem::path scratch() {
  std::string name = testing::TempDir() + "kiln-files-XXXXXX";
  EXPECT_NE(::mkdtemp(name.data()), nullptr);
  return name;
}

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

// As /dev/stdout of a program whose output is a file: the name stays, and what was open has the text.
TEST(Files, AnOpenFileIsWrittenIntoByItsName) {
  const std::filesystem::path directory = scratch();
  const std::string output = directory / "output", name = directory / "stdout";
  const UniqueFd open_file(::open(output.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(open_file);
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(open_file.get()), name);
  ASSERT_TRUE(write_text(name, "graph"));
  EXPECT_TRUE(std::filesystem::is_symlink(name));
  char text[5] = {};
  EXPECT_EQ(::pread(open_file.get(), text, sizeof text, 0), 5);
  EXPECT_EQ(std::string_view(text, sizeof text), "graph");
  test::remove_scratch(directory);
}

TEST(Files, WhoMadeAFifoWaitsForItsReader) {
  const std::filesystem::path directory = scratch();
  const std::string fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const UniqueFd end(::open(fifo.c_str(), O_RDONLY | O_CLOEXEC));
    char text[5] = {};
    EXPECT_EQ(::read(end.get(), text, sizeof text), 5);
  });
  EXPECT_TRUE(write_text(fifo, "graph"));
  reader.join();
  test::remove_scratch(directory);
}

}  // namespace
}  // namespace kiln::wire
