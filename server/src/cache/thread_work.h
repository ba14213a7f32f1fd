// Work for a pool's threads, whose crashes are reported whatever stack they have used up, and what the io thread does
// with what came of it. An allocation that fails ends neither: work that there is no memory for is left.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

#include "kiln/wire/crash_report.h"

namespace kiln::server {

template <class Work>
void post_work(boost::asio::thread_pool& threads, Work work) {
  boost::asio::post(threads, [work = std::move(work)]() mutable {
    wire::report_overflows_here();
    try {
      work();
    } catch (const std::bad_alloc&) {
    }
  });
}

// From a pool's thread to the io thread, where somebody waits for it: without memory to say so it is said a little
// later. In a loop that was stopped meanwhile nobody would hear it.
template <class Then>
void post_back(boost::asio::io_context& io, Then then) {
  std::shared_ptr<Then> kept;
  do {
    try {
      if (!kept) kept = std::make_shared<Then>(std::move(then));
      return boost::asio::post(io, [kept] {
        Then on_io_thread = std::move(*kept);  // and not destroyed by whoever lets go last
        on_io_thread();
      });
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } while (!io.stopped());
}

// Calls `then` on the io thread with what `work` returns, or with an empty one where there was no memory for that.
template <class Work, class Then>
void post_work(boost::asio::thread_pool& threads, boost::asio::io_context& io, Work work, Then then) {
  using Result = std::invoke_result_t<Work&>;
  post_work(threads, [&io, work = std::move(work), then = std::move(then)]() mutable {
    Result result{};
    try {
      result = work();
    } catch (const std::bad_alloc&) {
    }
    post_back(io, [then = std::move(then), result = std::move(result)]() mutable { then(std::move(result)); });
  });
}

}  // namespace kiln::server
