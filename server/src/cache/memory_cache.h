// The memory tier: entries by key, least recently used out first. Only the io thread touches it.
#pragma once

#include <chrono>
#include <cstring>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "connections/frame_socket.h"
#include "kiln/dsl/request.h"

namespace kiln::server {

struct KeyHash {
  size_t operator()(const RequestKey& key) const {  // the key is a hash already
    size_t out;
    std::memcpy(&out, key.data(), sizeof out);
    return out;
  }
};

// Where an entry was found.
enum class Tier { kMemory, kDisk, kRemote, kCompile };

inline const char* tier_name(Tier tier) {
  switch (tier) {
    case Tier::kMemory:
      return "memory";
    case Tier::kDisk:
      return "disk";
    case Tier::kRemote:
      return "remote";
    case Tier::kCompile:
      break;
  }
  return "compile";
}

// One entry in the form of kiln/wire/entry.h. Immutable but for the descriptor, made when a reply first needs one, and
// for when its use was last noted on disk: at first, when it was read there or made to be written.
struct Blob {
  RequestKey key{};
  Bytes bytes;
  mutable SharedFd fd;
  mutable std::chrono::steady_clock::time_point noted = std::chrono::steady_clock::now();
};
using SharedBlob = std::shared_ptr<const Blob>;

class MemoryCache {
 public:
  explicit MemoryCache(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  SharedBlob find(const RequestKey& key) {
    auto it = index_.find(key);
    if (it == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, it->second);
    return *it->second;
  }

  void put(SharedBlob blob) {
    if (auto it = index_.find(blob->key); it != index_.end()) remove(it->second);
    if (blob->bytes.size() > max_bytes_) return;
    bytes_ += blob->bytes.size();
    order_.push_front(std::move(blob));
    index_[order_.front()->key] = order_.begin();
    shrink();
  }

  void set_limit(uint64_t max_bytes) {
    max_bytes_ = max_bytes;
    shrink();
  }

  void clear() {
    evictions_ += index_.size();
    bytes_ = 0;
    index_.clear();
    order_.clear();
  }

  uint64_t bytes() const { return bytes_; }
  size_t entries() const { return index_.size(); }
  uint64_t evictions() const { return evictions_; }

 private:
  using Order = std::list<SharedBlob>;

  void shrink() {
    while (bytes_ > max_bytes_) {
      remove(std::prev(order_.end()));
      ++evictions_;
    }
  }

  void remove(Order::iterator it) {
    bytes_ -= (*it)->bytes.size();
    index_.erase((*it)->key);
    order_.erase(it);
  }

  uint64_t max_bytes_;
  uint64_t bytes_ = 0, evictions_ = 0;
  Order order_;
  std::unordered_map<RequestKey, Order::iterator, KeyHash> index_;
};

}  // namespace kiln::server
