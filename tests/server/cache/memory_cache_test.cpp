// The memory tier by itself.
#include "cache/memory_cache.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

TEST(MemoryCache, LeastRecentlyUsedGoes) {
  MemoryCache cache(300);
  auto put = [&](uint8_t number) {
    RequestKey key{};
    key[0] = number;
    cache.put(std::make_shared<const Blob>(Blob{key, Bytes(100), nullptr}));
    return key;
  };
  RequestKey first = put(1), second = put(2), third = put(3);
  EXPECT_TRUE(cache.find(first));
  put(4);
  EXPECT_TRUE(cache.find(first));
  EXPECT_FALSE(cache.find(second));
  EXPECT_TRUE(cache.find(third));
  EXPECT_EQ(cache.bytes(), 300u);
  EXPECT_EQ(cache.evictions(), 1u);
  put(4);
  EXPECT_EQ(cache.bytes(), 300u);
  cache.put(std::make_shared<const Blob>(Blob{RequestKey{9}, Bytes(301), nullptr}));
  EXPECT_EQ(cache.entries(), 3u);
}

}  // namespace
}  // namespace kiln::server
