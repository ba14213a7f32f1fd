// Descriptors over a socket, as a client that means no good passes them.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

namespace kiln::service_test {

// Bytes and so many descriptors, all of standard error's, in one message. What sendmsg() says.
inline ssize_t send_with_descriptors(int socket, std::string bytes, int count) {
  iovec piece{bytes.data(), bytes.size()};
  std::vector<int> each(static_cast<size_t>(count), STDERR_FILENO);
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

}  // namespace kiln::service_test
