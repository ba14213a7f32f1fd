// A socket whose last close takes long: it waits for a peer that does not read.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

#include "kiln/wire/fd.h"

namespace kiln::service_test {

struct Lingering {
  wire::UniqueFd socket, peer;

  explicit Lingering(int seconds) {
    const wire::UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int little = 2048;
    ::setsockopt(listening.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listening.get(), name, size), 0);
    EXPECT_EQ(::listen(listening.get(), 1), 0);
    EXPECT_EQ(::getsockname(listening.get(), name, &size), 0);
    socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const linger wait{1, seconds};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait);
    EXPECT_EQ(::connect(socket.get(), name, size), 0);
    peer.reset(::accept(listening.get(), nullptr, nullptr));
    const std::vector<char> much(64 << 10);
    while (::send(socket.get(), much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
  }
};

}  // namespace kiln::service_test
