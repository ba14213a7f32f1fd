// Replies of a Redis that are more than one value, good and bad.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <thread>

#include "kiln/redis/link.h"
#include "service_fixture.h"

namespace kiln::redis {
namespace {

// A server that answers its only client's first command with these bytes.
class Canned {
 public:
  explicit Canned(const std::string& reply) : path_(temp_ / "redis") {
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path_.copy(name.sun_path, sizeof name.sun_path - 1);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    thread_ = std::jthread([this, reply] {
      wire::UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char words[256];
      (void)::recv(peer.get(), words, sizeof words, 0);
      (void)::send(peer.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
      (void)::recv(peer.get(), words, sizeof words, 0);  // until it leaves
    });
  }
  Answer ask() const {
    Access access;
    access.timeout = service_test::kPatience;
    Link link(*parse_address("redis+unix://" + path_), access);
    return link.ask(std::vector<std::string>{"ANY"});
  }

 private:
  service_test::TempDir temp_;
  const std::string path_;
  wire::UniqueFd listener_;
  std::jthread thread_;
};

TEST(RedisLink, ListsHaveTheirItems) {
  const Answer answer = Canned("*3\r\n$1\r\na\r\n*2\r\n:7\r\n$-1\r\n+OK\r\n").ask();
  ASSERT_TRUE(answer) << answer.detail;
  const auto& items = answer.reply.items;
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(items[0].text, "a");
  ASSERT_EQ(items[1].items.size(), 2u);
  EXPECT_EQ(items[1].items[0].integer, 7);
  EXPECT_TRUE(items[1].items[1].is_nil());
  EXPECT_EQ(items[2].text, "OK");
}

TEST(RedisLink, ListsThatAreNoneAreRefused) {
  for (const char* reply :
       {"*2000000000\r\n", "*1048577\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "*x\r\n",
        "nonsense\r\n", "*1\r\n:1\r\n:2\r\n"}) {
    const Answer answer = Canned(reply).ask();
    EXPECT_EQ(answer.failure, Failure::kProtocol) << reply << answer.detail;
  }
}

TEST(RedisLink, AnErrorIsTheServersWord) {
  const Answer answer = Canned("-NOGROUP No such key\r\n").ask();
  EXPECT_EQ(answer.failure, Failure::kServer);
  EXPECT_EQ(answer.detail, "NOGROUP No such key");
}

}  // namespace
}  // namespace kiln::redis
