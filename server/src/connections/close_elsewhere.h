// Closing what others may have passed. The last close of a socket that lingers, or of a file on a server that does not
// answer, takes as long as they like; other threads do it, so that the io thread serves meanwhile.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>

#include "kiln/wire/fd.h"

namespace kiln::server {

void close_elsewhere(std::deque<wire::UniqueFd> descriptors) noexcept;

// Here where nothing lies unread in it: what does may have descriptors with it, which are closed with the socket.
void close_socket(wire::UniqueFd socket) noexcept;
void close_socket(boost::asio::posix::stream_descriptor& socket) noexcept;

}  // namespace kiln::server
