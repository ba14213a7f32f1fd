// Work of a pool's threads, for which there is no memory, or none to say what came of it.
#include "cache/thread_work.h"

#include <gtest/gtest.h>

#include <new>
#include <string>

#include "shortage.h"

namespace kiln::server {
namespace {

using service_test::NoMemory;

TEST(ThreadWork, WithoutMemoryItGivesNothing) {
  boost::asio::thread_pool threads(1);
  boost::asio::io_context io;
  std::string said = "nothing yet";
  post_work(
      threads, io,
      []() -> std::string {
        const NoMemory none;
        return std::string(100, 'x');
      },
      [&](const std::string& text) { said = text; });
  post_work(threads, [] {
    const NoMemory none;
    delete new std::string(100, 'x');
  });
  threads.join();
  io.run();
  EXPECT_EQ(said, "");
}

// Neither the answer nor what it holds is lost, however often it is tried.
TEST(ThreadWork, WhatCameOfItIsSaidWhenThereIsMemory) {
  for (size_t failures = 0; failures < 5; ++failures) {
    boost::asio::io_context io;
    std::string said;
    std::thread([&] {
      auto say = [&said, text = std::string(100, 'x')] { said = text; };
      const NoMemory none(failures % 2, failures);
      post_back(io, std::move(say));
    }).join();
    io.run();
    EXPECT_EQ(said, std::string(100, 'x')) << failures;
  }
}

// What is handed to the io thread is let go of there, too.
TEST(ThreadWork, WhatIsHandedOverEndsOnTheIoThread) {
  struct Noting {
    std::thread::id* ended;
    ~Noting() { *ended = std::this_thread::get_id(); }
  };
  for (int i = 0; i < 100; ++i) {
    boost::asio::io_context io;
    const auto work = boost::asio::make_work_guard(io);
    std::thread::id ended;
    bool is_called = false;
    std::thread other([&] { post_back(io, [&, held = std::make_shared<Noting>(&ended)] { is_called = true; }); });
    while (!is_called) io.run_one();
    other.join();
    EXPECT_EQ(ended, std::this_thread::get_id());
  }
}

// Whoever waits has gone; the thread must not wait for ever.
TEST(ThreadWork, AStoppedLoopIsNotWaitedFor) {
  boost::asio::io_context io;
  io.stop();
  std::thread([&] {
    const NoMemory none;
    post_back(io, [] {});
  }).join();
}

}  // namespace
}  // namespace kiln::server
