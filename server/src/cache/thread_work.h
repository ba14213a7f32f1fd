// Work for a pool's threads, whose crashes are reported whatever stack they have used up.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <utility>

#include "kiln/wire/crash_report.h"

namespace kiln::server {

template <class Work>
void post_work(boost::asio::thread_pool& threads, Work work) {
  boost::asio::post(threads, [work = std::move(work)]() mutable {
    wire::report_overflows_here();
    work();
  });
}

}  // namespace kiln::server
