// Giving a descriptor to Asio, which has epoll watch it. How many can be watched is a limit of the user's
// (/proc/sys/fs/epoll/max_user_watches), which any of its processes may use up: then this is refused, where Asio's own
// constructors throw.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "kiln/dsl/result.h"
#include "kiln/wire/fd.h"

namespace kiln::server {

// Closes the descriptor where it cannot be watched.
Result<boost::asio::posix::stream_descriptor> watched(boost::asio::io_context& io, wire::UniqueFd fd);

}  // namespace kiln::server
