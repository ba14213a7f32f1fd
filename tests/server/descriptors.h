// Descriptors over a socket, as a client that means no good passes them.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace kiln::service_test {

// Bytes and descriptors in one message. What sendmsg() says.
inline ssize_t send_with(int socket, std::string bytes, const std::vector<int>& each) {
  iovec piece{bytes.data(), bytes.size()};
  std::vector<char> control(CMSG_SPACE(each.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(each.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), each.data(), each.size() * sizeof(int));
  return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

// So many, all of standard error's.
inline ssize_t send_with_descriptors(int socket, std::string bytes, int count) {
  return send_with(socket, std::move(bytes), std::vector<int>(static_cast<size_t>(count), STDERR_FILENO));
}

}  // namespace kiln::service_test
