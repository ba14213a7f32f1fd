// A Redis of the test's: on a Unix socket, with the manners the test wants at the moment.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kiln/wire/fd.h"

namespace kiln::service_test {

class FakeRedis {
 public:
  enum class Manners {
    kServe,
    kHang,      // never answers
    kHalf,      // half an answer, and the end of the connection
    kHalfHang,  // half an answer, and nothing more
    kReset,     // ends the connection with the request unread
    kNil,       // knows nothing
    kRefuse,    // an error to everything
    kArray,     // an array of more elements than there is memory
    kGarbage,   // another protocol
    kTwice,     // two answers to one request
  };

  explicit FakeRedis(const std::string& path, Manners manners = Manners::kServe);
  ~FakeRedis();

  void set(Manners manners) { manners_ = manners; }
  std::string url() const { return "redis+unix://" + path_; }
  int connections() const { return connections_; }
  int commands() const { return commands_; }
  // Changes what it stores; names with their values.
  void edit(const std::function<void(std::map<std::string, std::string>&)>& change);

 private:
  struct Peer {
    wire::UniqueFd fd;
    std::string input;
  };
  void run();
  bool serve(Peer& peer);
  bool answer(const Peer& peer, const std::vector<std::string>& words);
  std::string right_answer(const std::vector<std::string>& words);

  const std::string path_;
  std::atomic<Manners> manners_;
  std::atomic<int> connections_{0}, commands_{0};
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  wire::UniqueFd listener_, stop_;
  std::thread thread_;
};

}  // namespace kiln::service_test
